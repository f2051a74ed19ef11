"""Transitions in virtual time: the order of events, and the known throughput of each state."""

import pytest

from loadframe.store.sim.model import SimModel
from virtual_transition import Change, transition

MODEL = SimModel(service=0.01, sigma=0.05, shard_size=100, bandwidth=10, join_delay=5.0)


def test_a_node_that_joins_serves_as_its_data_comes():
    result = transition(MODEL, 2, 6, [Change(30.0, 3)], 90)
    assert result.events == (("node requested", 30.0), ("node joined", 35.0), ("cluster balanced", 55.0))
    before, three = MODEL.throughput(2), MODEL.throughput(3)
    for second, expected in ((0, before), (34, before), (36, three * 2 / 3), (50, three * 5 / 6), (60, three)):
        assert result.throughput[second] == pytest.approx(expected), second


def test_a_node_that_leaves_serves_until_its_data_is_gone():
    result = transition(MODEL, 3, 6, [Change(20.0, 2)], 60)
    # Both others take one copy each at the same time.
    assert result.events == (("node leaving", 20.0), ("node left", 30.0))
    assert result.throughput[19] == pytest.approx(MODEL.throughput(3))
    assert result.throughput[31] == pytest.approx(MODEL.throughput(2))


def test_nothing_happens_without_a_change():
    result = transition(MODEL, 2, 6, [], 10)
    assert result.events == ()
    assert result.throughput.tolist() == pytest.approx([MODEL.throughput(2)] * 10)
