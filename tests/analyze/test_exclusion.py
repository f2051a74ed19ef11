"""Excluded runs: selection bias, and the effect on the exit status."""

import pytest

from commands import within
from loadframe.analyze.exclusion import selected_runs, warned_document, warned_runs
from loadframe.analyze.experiment import RecordedRun, read_experiment
from made_up_runs import MadeUp, invalid, summary
from simulated import Truth, write_experiment

CLIENTS = (1, 2, 4)
TRUTH = Truth(seconds=2)
FAST = [f"b{block}-nodes1-clients4" for block in range(1, 5)]


def written(path, invalid, truth=TRUTH, repetitions=4):
    return write_experiment(path / "e", truth, nodes=(1,), clients=CLIENTS, repetitions=repetitions, invalid=invalid)


def test_exclusion_that_depends_on_a_level_is_reported(tmp_path):
    warning = selected_runs(read_experiment(written(tmp_path, FAST)))
    assert "the 4 excluded of 12 runs" in warning.cause
    assert "are more frequent at clients 4" in warning.cause


@pytest.mark.parametrize("invalid", [[], ["b1-nodes1-clients1", "b2-nodes1-clients4"]])
def test_exclusion_by_chance_is_not_warned_of(tmp_path, invalid):
    assert selected_runs(read_experiment(written(tmp_path, invalid))) is None


@pytest.mark.slow
def test_exclusion_that_depends_on_the_result_is_reported(tmp_path):
    path = written(tmp_path, [], Truth(seconds=2, noise=0.2), repetitions=8)
    folder = read_experiment(path)
    by_size = {}
    for run in folder.runs:
        by_size.setdefault(run.treatment["clients"], []).append((run.phase("range_100").throughput, run.id))
    fastest = [name for group in by_size.values() for _, name in sorted(group)[-3:]]
    # The same seeds give the same runs again.
    again = write_experiment(tmp_path / "again", Truth(seconds=2, noise=0.2), nodes=(1,), clients=CLIENTS,
                             repetitions=8, invalid=fastest)  # fmt: skip
    warning = selected_runs(read_experiment(again))
    assert "were faster in range_100 than others of their treatment" in warning.cause


def runs_with(*codes):
    """Return a run for each tuple of reasons."""
    return [RecordedRun(f"r{at}", 1, {}, MadeUp(summary(verdict=invalid(*of_run)))) for at, of_run in enumerate(codes)]


def test_a_warning_that_all_repetitions_share_is_counted():
    lagging = ("loop_lag", "loop_lag", "unsteady")
    warning = warned_runs(runs_with(*[lagging] * 7, ("node_lost", "loop_lag"), ("loop_lag", "cluster_state")))
    assert warning.cause == (
        "the generator's event loops lagged in 8 of 8 runs (loop_lag), a node was lost in 1 of them (node_lost):"
        " this can shift all runs alike, which their intervals do not show"
    ), "the invalid run does not count"
    assert warning.warning.startswith(f"Beware: {warning.cause}. Look at r0, for example: ")
    assert warning.warning.endswith("; then repeat these runs.")
    told = warned_document(warning)["warned_runs"]
    assert (told["code"], told["total"], told["warned"]) == ("warned_runs", 8, {"loop_lag": 8, "node_lost": 1})


def test_a_warning_of_some_runs_does_not_claim_to_shift_all():
    warning = warned_runs(runs_with((), ("loop_lag",), ()))
    assert warning.cause.endswith(" in 1 of 3 runs (loop_lag): this can shift the figures of these runs")
    assert warning.remedy.startswith("look at r1, for example: ")


def test_reasons_that_vary_from_run_to_run_are_not_warned_of():
    assert warned_runs(runs_with((), ("unsteady", "stalled"), ("errors",), ("of a later version",))) is None
    assert warned_document(None) == {"warned_runs": None}


def test_an_experiment_without_a_usable_figure_ends_with_a_status_of_its_own(tmp_path):
    names = [f"b{block}-nodes1-clients{clients}" for block in (1, 2) for clients in CLIENTS]
    path = written(tmp_path, names, repetitions=2)
    status, said, errors = within("report", path)
    assert status == 4
    assert "no run is valid: b1-nodes1-clients1" in errors
    assert all(name in said for name in names)
    assert (path / "report.html").is_file()


@pytest.mark.slow
def test_strict_refuses_any_exclusion_and_bounds_are_none(tmp_path):
    path = written(tmp_path, ["b1-nodes1-clients2"], repetitions=2)
    assert within("report", path)[0] == 0
    status, _, errors = within("report", path, "--strict")
    assert status == 4
    assert "1 of 6 runs are invalid: b1-nodes1-clients2" in errors
    saturated = written(tmp_path / "saturated", [], Truth(seconds=2, cpu_share=0.95), repetitions=2)
    status, said, _ = within("report", saturated, "--strict")
    assert status == 0
    assert "The load generator limited 6 runs" in " ".join(said.split())


def test_an_experiment_that_has_not_begun_is_to_be_run(tmp_path):
    names = [f"b{block}-nodes1-clients{clients}" for block in (1, 2) for clients in CLIENTS]
    path = write_experiment(tmp_path / "e", TRUTH, nodes=(1,), clients=CLIENTS, missing=names)
    status, _, errors = within("report", path)
    assert status == 4
    assert "no run was made yet: b1-nodes1-clients1" in errors
    assert "make them with `loadframe run`" in errors
    part = write_experiment(tmp_path / "part", TRUTH, nodes=(1,), clients=CLIENTS, missing=names[3:])
    assert within("report", part)[0] == 0
    status, _, errors = within("report", part, "--strict")
    assert status == 4
    assert "3 of 6 runs were not made yet: b2-nodes1-clients1" in errors
