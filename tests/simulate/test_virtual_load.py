"""Load in virtual time agrees with queueing theory for the same store."""

import math

import numpy as np
import pytest

from loadframe.simulate import closed
from loadframe.store.sim.model import SimModel
from virtual_arrivals import arriving


@pytest.mark.parametrize("servers", [1, 3])
@pytest.mark.parametrize("nodes", [1, 4])
def test_closed_clients_get_the_throughput_of_the_law(servers, nodes):
    model = SimModel(service=0.01, servers=servers, sigma=0.1, kappa=0.01)
    load = closed(model, nodes, nodes * servers * 3, duration=60, warmup=5, seed=2)
    assert load.throughput == pytest.approx(model.throughput(nodes), rel=0.05)


@pytest.mark.parametrize("clients", [1, 5, 16])
def test_clients_slow_each_other_down_by_the_law(clients):
    model = SimModel(service=0.01, servers=32, client_sigma=0.05, client_kappa=0.002)
    load = closed(model, 1, clients, duration=60, seed=3)
    law = clients / 0.01 / (1 + 0.05 * (clients - 1) + 0.002 * clients * (clients - 1))
    assert load.throughput == pytest.approx(law, rel=0.05)


def test_a_closed_client_waits_for_its_answer():
    load = closed(SimModel(service=0.01, distribution="constant"), 1, 2, duration=10, seed=1)
    # Two clients at one server: each answer takes two service times, but the very first.
    assert np.median(load.done - load.scheduled) == pytest.approx(0.02)
    assert load.throughput == pytest.approx(100, abs=0.2)


@pytest.mark.parametrize("utilisation", [0.3, 0.7])
def test_response_times_of_arrivals_are_those_of_the_queue(utilisation):
    load = arriving(SimModel(service=0.01), 2, 2 * utilisation * 100, duration=2000, warmup=10, seed=4)
    mean = 1 / (100 - utilisation * 100)
    assert load.responses.mean() == pytest.approx(mean, rel=0.05)
    assert np.quantile(load.responses, 0.99) == pytest.approx(mean * math.log(100), rel=0.1)
    assert load.achieved > 0.99
    assert load.errors == 0


def test_several_servers_answer_sooner_than_one_of_the_same_load():
    # Erlang's C for two servers, each half busy: 1/3 wait, for 1/(2 mu - rate) = 10 ms.
    load = arriving(SimModel(service=0.01, servers=2), 1, 100, duration=1000, warmup=10, seed=5)
    assert load.responses.mean() == pytest.approx(0.01 + 0.01 / 3, rel=0.05)


def test_more_than_a_store_can_do_is_not_achieved_and_piles_up():
    load = arriving(SimModel(service=0.01, queue=4096), 1, 120, duration=60, warmup=2, seed=6)
    backlog = load.backlog()
    assert backlog[-1] - backlog[0] > 500
    assert load.achieved < 0.9


def test_a_short_queue_rejects():
    load = arriving(SimModel(service=0.01, queue=3), 1, 120, duration=60, warmup=2, seed=7)
    assert load.errors > 0.1


def test_the_same_seed_gives_the_same_load_and_another_another():
    first, again, other = (arriving(SimModel(), 1, 50, duration=10, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(first.done, again.done)
    assert not np.array_equal(first.done, other.done)


def test_a_sweep_to_a_thousand_nodes_needs_no_thousand_nodes():
    model = SimModel(service=0.01, sigma=0.01, kappa=1e-5)
    load = closed(model, 1000, 4000, duration=20, seed=8)
    assert load.throughput == pytest.approx(model.throughput(1000), rel=0.03)
