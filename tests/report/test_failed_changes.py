"""Elastic experiments in which the store fails: joins that fail are counted, and nodes that come back count again."""

import io

import numpy as np
import pytest
from rich.console import Console

from elastic_folder import ASKED as BEGUN
from elastic_folder import CAUSE, JOINED, KILLED_AND_STARTED, write_elastic
from loadframe.analyze.elastic import read_elasticity
from loadframe.analyze.elastic.course import Event
from loadframe.analyze.elastic.groups import supply
from loadframe.report.kinds import read_report


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return an experiment in which the node joins in two of five runs."""
    return write_elastic(tmp_path_factory.mktemp("failed") / "e", repetitions=5, unjoined=(1, 3, 4))


@pytest.fixture(scope="module")
def step(folder):
    (group,) = read_elasticity(folder).groups
    (step,) = group.steps
    assert len(group.runs) == 5
    return step


@pytest.mark.slow
def test_a_join_that_failed_is_censored_and_not_left_out(step):
    assert step.joins == (2, 5)
    delay = step.measures["join_delay"]
    assert delay.censored == 3
    assert delay.mean.value > 60, "the mean is a bound"
    assert delay.mean.high == float("inf")
    assert delay.conditional.value == pytest.approx(JOINED - BEGUN, abs=1)
    assert step.failed == ("b1-grow-steady", "b3-grow-steady", "b4-grow-steady")


def test_the_gain_of_a_node_comes_from_joined_nodes(step):
    assert (step.before, step.after) == (1, 2)
    for name in ("growth", "realised_gain", "elastic_efficiency"):
        assert sorted(step.measures[name].values) == [2, 5]
    assert step.measures["growth"].mean.value == pytest.approx(1.7, rel=0.05)
    # Effects on users are taken from all runs.
    assert len(step.measures["errors"].values) == 5


def test_the_report_says_how_many_joined_with_an_interval_and_names_the_others(folder):
    report = read_report(folder)
    console = Console(file=io.StringIO(), width=200)
    report.show(console)
    for text in (" ".join(report.page.split()), " ".join(console.file.getvalue().split())):
        assert "the node joined in 2 of 5 runs (40 % [5, 85]), after 15" in text
        assert "n 3 of 5 runs the change (add 1) failed (b1-grow-steady, b3-grow-steady, b4-grow-steady)" in text
        assert CAUSE in text
    (transition,) = report.document["transitions"]
    joins = transition["steps"][0]["joins"]
    assert (joins["joined"], joins["runs"]) == (2, 5)
    assert joins["share"]["low"] == pytest.approx(0.0527, abs=1e-3)
    failures = [run["store_failures"] for run in report.document["runs"] if run["run"] == "b1-grow-steady"]
    assert [failure["kind"] for failure in failures[0]] == ["change"]


@pytest.mark.slow
def test_without_a_joined_node_its_gain_is_absent(tmp_path):
    (group,) = read_elasticity(write_elastic(tmp_path / "e", repetitions=3, unjoined=(1, 2, 3))).groups
    (step,) = group.steps
    assert step.joins == (0, 3)
    assert step.measures["join_delay"].conditional is None
    assert "realised_gain" not in step.measures


def test_a_node_that_was_killed_and_started_counts_again(tmp_path):
    path = write_elastic(tmp_path / "e", repetitions=1, control=False, nodes=2, events=KILLED_AND_STARTED)
    (group,) = read_elasticity(path).groups
    assert [(step.before, step.after) for step in group.steps] == [(2, 1), (1, 2), (2, 3)]
    killed, started, added = (step.measures for step in group.steps)
    assert "join_delay" not in killed
    assert started["join_delay"].mean.value == pytest.approx(5, abs=0.6)
    assert "redistribution" not in started
    assert added["join_delay"].mean.value == pytest.approx(10, abs=0.6)


def test_the_supply_of_nodes_counts_those_that_came_back():
    events = [
        Event(10.0, "node killed", ("node-1",)),
        Event(12.0, "node killed", ("node-1",)),
        Event(20.0, "node restarted", ("node-1", "node-2")),
    ]
    times = np.array([5.0, 11.0, 15.0, 25.0])
    assert supply(times, 3, events).tolist() == [3, 2, 2, 3]
