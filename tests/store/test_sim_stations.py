"""The simulated nodes' queues: first come first served, bounded, and slower the more requests are present."""

import random

import pytest

from loadframe.store.sim.model import SimModel
from loadframe.store.sim.shared import SIZE, Stations


def admitted(model, *instants, nodes=1):
    stations = Stations(bytearray(SIZE), model)
    return [stations.admit(0, at, nodes, random.Random(1), moving=False) for at in instants], stations


def test_one_server_serves_one_after_the_other():
    ends, _ = admitted(SimModel(service=1.0, distribution="constant"), 10.0, 10.5, 20.0)
    assert ends == [11.0, 12.0, 21.0]


def test_two_servers_serve_two_at_once():
    ends, _ = admitted(SimModel(service=1.0, distribution="constant", servers=2), 10.0, 10.0, 10.0)
    assert ends == [11.0, 11.0, 12.0]


def test_a_full_queue_rejects_until_a_request_is_done():
    ends, stations = admitted(SimModel(service=1.0, distribution="constant", queue=1), 10.0, 10.0, 10.0, 11.0)
    assert ends == [11.0, 12.0, None, 13.0]
    assert stations.sums(0) == (3.0, 1.0, 3.0)
    assert stations.load(0, 11.5) == (1, 1)


def test_requests_that_are_present_slow_each_other_down():
    model = SimModel(service=1.0, distribution="constant", servers=8, client_sigma=0.5)
    ends, _ = admitted(model, 10.0, 10.0, 10.0)
    assert ends == [11.0, 11.5, 12.0]


def test_nodes_slow_each_other_down_and_data_that_moves_does():
    stations = Stations(bytearray(SIZE), SimModel(service=1.0, distribution="constant", sigma=0.5, move_cost=0.5))
    assert stations.admit(1, 0.0, 3, random.Random(1), moving=False) == 2.0
    assert stations.admit(2, 0.0, 1, random.Random(1), moving=True) == 2.0


def test_a_cleared_queue_is_empty():
    _, stations = admitted(SimModel(), 1e9)
    stations.clear(0)
    assert stations.load(0, 0.0) == (0, 0)
    assert stations.sums(0) == pytest.approx((0.0, 0.0, 0.0))
