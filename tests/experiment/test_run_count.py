"""Counts of recorded and known runs when an experiment resumes."""

import pytest

from loadframe.experiment.design.plans import describe, design
from loadframe.experiment.runner.folder import ExperimentFolder, RunCount, next_runs
from simulated import Truth, write_run

HEAD = """\
    experiment: e
    store: {kind: sim}
    workload: ./small.yaml
    measure: look
"""
KINDS = {
    "scale": "kind: scale\n    factors: {nodes: [1, 2], clients: [1, 2]}",
    "settings": "kind: settings\n    factors: {store.settings.service: [1ms, 2ms], clients: [1, 2]}",
    "compare": "kind: compare\n    variants: {a: {}, b: {clients: 2}}\n    repetitions: 2",
    "elastic": "kind: elastic\n    duration: 60s\n    window: 5s\n    loads: {steady: {clients: 1}}\n"
    "    transitions: {grow: {timeline: [{at: 30s, add: 1}]}}\n    repetitions: 2",
}
TRUTH = Truth(sigma=0.0, kappa=0.0, noise=0.0, seconds=2, operation="look", node_cpu=0.2)


@pytest.fixture
def counted(load, tmp_path):
    """Load an experiment; return it with its count, its design and a function that records one of its runs."""

    def counted(text):
        experiment = load(HEAD + f"    {text}\n")
        planned = design(experiment)
        folder = ExperimentFolder(tmp_path / "results", describe(experiment, planned))

        def record(run, truth=TRUTH):
            write_run(folder.runs_path, run.id, truth, nodes=1, clients=1)

        return experiment, RunCount(experiment, planned, folder), planned.runs, record, folder

    return counted


@pytest.mark.parametrize("kind", KINDS)
def test_runs_are_counted_over_all_sessions(counted, kind):
    _, count, (first, second, *others), record, _ = counted(KINDS[kind])
    total = 2 + len(others)
    assert count.position(first) == (0, total)
    record(second)
    assert count.recorded_text() == f"1 of {total} runs are already recorded"
    # A failed run that is repeated comes first in the design, and second in the experiment.
    assert count.position(first) == (1, total)
    record(first)
    for number, run in enumerate(others, 2):
        assert count.position(run) == (number, total)
        record(run)


def test_added_runs_extend_the_total(counted):
    experiment, count, (first,), record, folder = counted("kind: scale\n    clients: auto\n    factors: {nodes: [1]}")
    assert count.position(first) == (0, 1)
    record(first)
    assert count.recorded_text() == "1 of 2 runs are already recorded"
    (added,) = next_runs(experiment, folder)
    folder.extend([added])
    assert count.position(added) == (1, 2)
    record(added, Truth(**{**vars(TRUTH), "node_cpu": 0.49}))
    assert count.recorded_text() == "all 2 runs are already recorded"


def test_trials_of_a_search_have_its_number(counted):
    text = "kind: capacity\n    slo: {response: 1s}\n    search: {start: 50/s}\n    factors: {nodes: [1, 2]}"
    experiment, count, (first, second), record, folder = counted(text)
    assert (count.position(first), count.position(second)) == ((0, 2), (1, 2))
    assert count.recorded_text() == "0 of 2 searches are already finished"
    record(second)
    assert count.recorded_text() == "0 of 2 searches finished, with 1 recorded trial in all"
    trials = {run.treatment["nodes"]: run for run in next_runs(experiment, folder)}
    for run in (first, second):
        trial = trials[run.treatment["nodes"]]
        assert count.position(trial) == count.position(run)
