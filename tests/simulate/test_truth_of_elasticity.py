"""Elasticity measures compared with a simulated cluster that moves its data by a known law."""

import numpy as np
import pytest

from loadframe.analyze.elastic.course import Course, Event
from loadframe.analyze.elastic.measures import ChangeInRun, Value, measure
from loadframe.store.sim.model import SimModel
from virtual_transition import Change, transition

pytestmark = pytest.mark.slow

#: A node takes 20 s to join, and 40 s to get two of six copies; moving costs both ends more than half of their speed.
MODEL = SimModel(service=0.01, sigma=0.05, shard_size=200, bandwidth=10, join_delay=20.0, move_cost=0.6)
CLIENTS = 64


def course(changes, nodes, noise, seed):
    """Return a transition as closed-loop clients see it: noisy throughput, response times by Little's law."""
    made = transition(MODEL, nodes, 6, changes, 480)
    x = made.throughput * (1 + noise * np.random.default_rng(seed).standard_normal(480))
    mean = CLIENTS / x
    events = tuple(Event(time, kind, ("node-2",)) for kind, time in made.events)
    return Course(0.0, x, np.zeros(480), mean, 3 * mean, events)


@pytest.mark.parametrize("seed", range(5))
def test_a_node_that_joins_under_load(seed):
    result = measure(course([Change(120.0, 3)], 2, 0.01, seed), ChangeInRun(120.0, 480.0, 2, 3, open=False), 60.0)
    two, three = MODEL.throughput(2), MODEL.throughput(3)
    # One of the two gives while the new one takes, first with nothing, then with half of its share.
    first, second = three / 3 * (1 + 0.4), three / 3 * (1 + 0.4 + 0.5 * 0.4)
    assert first < second < two < three
    assert result["join_delay"] == Value(20.0)
    assert result["redistribution"] == Value(40.0)
    assert result["stabilisation"].value == pytest.approx(60.0, rel=0.05)
    assert result["lost_work"].value == pytest.approx(20 * (1 - first / two) + 20 * (1 - second / two), rel=0.05)
    assert result["realised_gain"].value == pytest.approx(three / two / 1.5, rel=0.05)
    assert result["disturbance"].value == pytest.approx(1 - first / two, rel=0.05)
    deficit = 20 * (two - first) + 20 * (two - second)
    assert result["break_even"].value == pytest.approx(60 + deficit / (three - two), rel=0.05)


@pytest.mark.parametrize("seed", range(5))
def test_a_node_that_leaves_under_load(seed):
    result = measure(course([Change(120.0, 2)], 3, 0.01, seed), ChangeInRun(120.0, 480.0, 3, 2, open=False), 60.0)
    two, three = MODEL.throughput(2), MODEL.throughput(3)
    assert result["departure"] == Value(20.0)
    assert result["realised_gain"].value == pytest.approx(two / three * 1.5, rel=0.05)
    # While it gives, all three are slow; then the two are as fast as they can be.
    giving = three * 0.4
    lost = 20 * (1 - giving / three) + 340 * (1 - two / three)
    assert result["lost_work"].value == pytest.approx(lost, rel=0.05)


def test_nothing_that_changes_nothing_is_lost():
    result = measure(course([], 2, 0.01, 1), ChangeInRun(120.0, 480.0, 2, 2, open=False), 60.0)
    assert result["stabilisation"] == Value(0.0)
    assert result["break_even"] == Value(0.0)
    assert result["lost_work"].value < 360 * 0.01
