"""Metrics of a command from its records: labels, totals over phases and runs, and values of the current run."""

import itertools
import re
from pathlib import Path

import pytest
from feeds import command

from loadframe.live import metrics as served
from loadframe.live.metrics import BOUNDS, Metrics, Times
from measured import BUCKETS, finished, measures


@pytest.fixture
def metrics():
    metrics = Metrics()
    metrics.take([command("nodes")])
    return metrics


def values(metrics, name):
    return next((dict(family.values) for family in metrics.families() if family.name == name), {})


def requests(metrics):
    return {(phase, outcome): count for (_, phase, *_, outcome), count in values(metrics, "requests").items()}


def test_totals_do_not_decrease_over_the_phases_and_runs_of_an_experiment(metrics):
    seen = []
    for number, (run, phase) in enumerate([("r1", "load"), ("r1", "look"), ("r2", "load"), ("r2", "look")], 1):
        metrics.take([{"kind": "run", "run": run}] if phase == "load" else [])
        metrics.take([{"kind": "phase", "phase": phase}])
        for successes in (10, 30):
            metrics.take([measures(number, phase, successes)])
            seen.append(requests(metrics))
    for before, after in itertools.pairwise(seen):
        assert all(after[key] >= count for key, count in before.items())
    assert seen[-1] == {
        ("load", "ok"): 60,
        ("load", "timeout"): 6,
        ("load", "dropped"): 0,
        ("look", "ok"): 60,
        ("look", "timeout"): 6,
        ("look", "dropped"): 0,
    }
    times = values(metrics, "response_time")["nodes", "look", "s", "read", "measured"]
    assert (times.count, times.counts[BOUNDS.index(0.015)], times.sum) == (60, 60, 60 / 80)


def test_a_phase_with_the_name_of_the_last_one_adds_to_it(metrics):
    metrics.take([measures(1, "look", 10), measures(2, "look", 4)])
    assert requests(metrics)["look", "ok"] == 14


def test_values_of_a_run_disappear_at_its_end(metrics):
    metrics.take(
        [{"kind": "run", "run": "r1"}, {"kind": "phase", "phase": "look"}, measures(1, "look", 5, in_flight=3)]
    )
    metrics.take([{"kind": "watched", "cpu": {"node-0": 0.5}, "machine": 0.25, "nodes": 2}])
    assert values(metrics, "run") == {("nodes", "look", "r1"): 1}
    assert values(metrics, "in_flight_requests") == {("nodes", "look", "s", "read", "measured"): 3}
    assert values(metrics, "clients") == {("nodes", "look", "s"): 4}
    assert values(metrics, "offered_rate") == {}
    assert values(metrics, "node_cpu_cores") == {("nodes", "node-0"): 0.5}
    assert (values(metrics, "machine_busy_ratio"), values(metrics, "cluster_nodes")) == (
        {("nodes",): 0.25},
        {("nodes",): 2},
    )
    metrics.take([finished("r1", True)])
    assert {
        family.kind for family in metrics.families() if family.name in ("run", "clients", "node_cpu_cores")
    } == set()
    assert requests(metrics)["look", "ok"] == 5


def test_runs_are_counted_by_validity_with_their_reasons(metrics):
    metrics.take([{"kind": "part", "number": 1, "of": 6}])
    metrics.take([finished("r1", True), finished("r2", False, "late", "late", "stalled"), finished("r3", None)])
    runs = {valid: count for (_, _, valid), count in values(metrics, "runs").items()}
    assert runs == {"true": 1, "false": 1, "unknown": 1}
    assert values(metrics, "verdict_reasons") == {("nodes", "late"): 1, ("nodes", "stalled"): 1}
    assert values(metrics, "last_run_valid") == {("nodes", "r3"): 0}
    assert values(metrics, "planned_runs") == {("nodes",): 6}


def test_events_and_trials_are_counted(metrics):
    joined = {"kind": "event", "event": {"kind": "node joined", "time": 1.0}}
    metrics.take([joined, joined, {"kind": "judged", "outcome": "passed"}])
    assert values(metrics, "events") == {("nodes", "node joined"): 2}
    assert values(metrics, "trials") == {("nodes", "passed"): 1}


def test_times_add_up():
    one = Times((1,) * BUCKETS, 2.0)
    assert (one + one).count == 2 * BUCKETS
    assert (one + Times()).sum == 2.0


def test_the_page_lists_the_metrics_that_are_served_and_no_others():
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "metrics.md").read_text()
    rows = page.split("| metric, after `loadframe_` |")[1].split("\n\n")[0].splitlines()[2:]
    listed = {name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])}
    endings = {"counter": "_total", "info": "_info"}
    families = (*served._LASTING, *served._GAUGES, *served._TOTALS, *served._COUNTS)
    names = {
        (family.name if family.name.endswith(family.unit) else f"{family.name}_{family.unit}")
        + endings.get(family.kind, "")
        for family in families
    }
    assert listed == names
