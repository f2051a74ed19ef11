"""The simulated store's model: throughput, capacity and stalls, and refused parameters."""

import math
import random
from statistics import fmean, stdev

import pytest

from loadframe.base.errors import BadInput
from loadframe.store import find
from loadframe.store.sim.model import SimModel, inflation


def test_throughput_over_nodes_is_the_scalability_law():
    model = SimModel(service=0.01, servers=2, sigma=0.03, kappa=5e-4)
    for nodes in (1, 7, 44):
        law = 200 * nodes / (1 + 0.03 * (nodes - 1) + 5e-4 * nodes * (nodes - 1))
        assert model.throughput(nodes) == pytest.approx(law)


@pytest.mark.parametrize(("distribution", "variation"), [("exponential", 1.0), ("constant", 0.0), ("lognormal", 0.5)])
def test_service_times_have_the_mean_and_spread_that_were_asked_for(distribution, variation):
    model = SimModel(service=0.02, distribution=distribution, variation=variation or 1.0)
    source = random.Random(1)
    times = [model.draw(source) for _ in range(20_000)]
    assert fmean(times) == pytest.approx(0.02, rel=0.03)
    assert stdev(times) / fmean(times) == pytest.approx(variation, abs=0.03)


def test_the_capacity_within_a_response_time_is_that_of_a_queue():
    # p99 of an M/M/1 queue at 100/s and 54/s is ln(100)/46 = 100 ms.
    assert SimModel(service=0.01).capacity(1, 0.1) == pytest.approx(53.95, abs=0.01)
    assert SimModel(service=0.01).capacity(3, 0.1) == pytest.approx(3 * 53.95, abs=0.02)
    assert SimModel(service=0.01).capacity(1, 0.03) == 0, "no rate is so fast"


@pytest.mark.parametrize(
    "changed",
    [
        {"servers": 2},
        {"client_sigma": 0.01},
        {"client_kappa": 0.01},
        {"stall": 1.0, "stall_every": 10.0},
        {"distribution": "constant"},
    ],
)
def test_the_capacity_has_no_closed_form_for_other_queues(changed):
    with pytest.raises(BadInput, match="closed form"):
        SimModel(**changed).capacity(1, 0.1)


@pytest.mark.parametrize(
    ("start", "work", "end"),
    [(2.5, 1.0, 3.5), (0.0, 1.0, 2.0), (0.5, 1.0, 2.0), (9.5, 1.0, 11.5), (9.5, 10.0, 21.5)],
)
def test_a_node_does_nothing_while_it_stalls(start, work, end):
    # It stands still from 0 to 1, from 10 to 11, from 20 to 21.
    assert SimModel(stall=1.0, stall_every=10.0).finish(start, work) == pytest.approx(end)


def test_inflation_of_one_is_none():
    assert inflation(1, 0.5, 0.1) == 1


def test_settings_are_read_with_their_units():
    model = SimModel.from_settings({"service": "20ms", "servers": 4, "shard_size": "64m", "join_delay": "3s"})
    assert (model.service, model.servers, model.shard_size, model.join_delay) == (0.02, 4, 64 * 2**20, 3.0)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"sevrers": 2}, "unknown setting 'sevrers'"),
        ({"servers": 0}, "servers .* from 1"),
        ({"servers": "many"}, "a number"),
        ({"servers": 1.5}, "a whole number"),
        ({"queue": math.inf}, "a whole number"),
        ({"service": 0}, "more than 0"),
        ({"move_cost": 1.0}, "less than 1"),
        ({"stall": "2s", "stall_every": "1s"}, "shorter"),
        ({"distribution": "normal"}, "unknown distribution"),
    ],
)
def test_a_setting_that_cannot_be_is_refused(settings, said):
    with pytest.raises(BadInput, match=said):
        find("sim").check_settings(settings)
