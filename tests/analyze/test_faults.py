"""The component to blame for an invalid run: faults of the store are results, all others exclude the run."""

import pytest

from loadframe.analyze.capacity import Outcome, Slo, judge
from loadframe.analyze.experiment import RecordedRun, read_experiment
from loadframe.analyze.scale.sweep import read_sweep
from loadframe.analyze.verdict import rules
from loadframe.analyze.verdict.rules import RULES, effect_of, fault_of
from loadframe.analyze.verdict.self_monitor import STRAGGLING
from loadframe.record import Summary
from loadframe.report.run_status import exclusions, run_status, trust
from made_up_runs import MadeUp, invalid, summary
from simulated import Truth, write_experiment, write_run


def run_with(*codes):
    return RecordedRun("r", 1, {}, MadeUp(summary(verdict=invalid(*codes))))


def test_rules_name_the_component_to_blame():
    faults = {code: fault_of(code) for code in RULES}
    assert {code for code, fault in faults.items() if fault == "store"} == {
        "not_achieved", "dropped", "errors", "nothing_measured", "unsteady", "node_lost", "left_over", "missing_events",
        "documents_lost", "copies_lost", "change_failed", "check_failed", "backlog", "no_steady_state",
        "queue_not_empty",
    }  # fmt: skip
    assert {code for code, fault in faults.items() if fault == "cluster"} == {
        "cluster_state", "machine_silent", "contended"
    }  # fmt: skip
    assert {code for code in faults if effect_of(code) == "result"} == {
        "not_achieved", "dropped", "errors", "nothing_measured", "unsteady", "node_lost", "left_over", "missing_events",
        "documents_lost", "copies_lost", "change_failed", "check_failed", "backlog", "no_steady_state",
        "queue_not_empty",
        "imprecise", "contended",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "figures", "value"),
    [
        (rules.GENERATOR_CPU, {"share": 0.8004, "threads": 1}, "80.04 %"),
        (rules.STARVED, {"share": 0.2001}, "20.01 %"),
        (rules.THROTTLED, {"share": 0.0102}, "1.02 %"),
        (rules.NETWORK, {"share": 0.801}, "80.1 %"),
        (rules.GENERATOR_CEILING, {"share": 0.801, "threads": 1}, "80.1 %"),
        (rules.READER_CPU, {"source": "s", "share": 0.801, "shared": True}, "80.1 %"),
        (rules.NOT_ACHIEVED, {"achieved": 0.98996, "warmup": 60.0}, "98.996 %"),
        (rules.LATENESS, {"lateness": 5.01e-3, "response": 0.1, "stolen": 0.0}, "5.01 %"),
        (rules.LOOP_LAG, {"lag": 1.0002e-3, "response": 0.01, "stolen": 0.0}, "1.0002 ms"),
        (rules.STALLED, {"longest": 0.50004, "away": 0.01, "stolen": 0.0}, "500.04 ms"),
        (rules.STALLED, {"longest": 0.1, "away": 0.02004, "stolen": 0.0}, "2.004 %"),
        (rules.BEGAN_LATE, {"rank": "rank 1", "late": 0.05004, "others": 0}, "50.04 ms"),
        (rules.STRAGGLER, {"rank": "rank 1", "share": 0.4996, "limit": 0.5, "others": 0}, "49.96 %"),
        (rules.IMPRECISE, {"precision": 0.025, "duration": 60.0, "widest": 0.02504}, "2.504 %"),
    ],
)
def test_a_figure_beyond_its_limit_does_not_read_like_it(rule, figures, value):
    cause = rule(phase="load", place="", **figures).cause
    assert f" {value}" in cause
    assert cause.count(value) == 1


def test_the_limit_of_a_straggler_is_written_without_a_row_of_decimals():
    cause = rules.STRAGGLER(phase="load", rank="rank 1", share=0.6664, limit=STRAGGLING, others=0).cause
    assert "did 66.6 % of the work of the median rank (limit 67 %)" in cause


def test_answers_name_the_rules_whose_effect_the_variation_between_runs_does_not_show():
    assert {code for code, rule in RULES.items() if rule.shifts} == {
        "generator_cpu", "generator_overhead", "starved", "throttled", "network", "generator_ceiling", "lateness",
        "loop_lag", "straggler", "reader_cpu", "backlog", "no_steady_state", "queue_not_empty", "node_lost",
        "copies_lost", "contended",
    }  # fmt: skip


def test_a_reason_that_this_version_does_not_know_leaves_a_run_out():
    assert fault_of("of a later version") == "generator"
    assert effect_of("of a later version") == "unknown"


@pytest.mark.parametrize(
    ("codes", "sound", "fault"),
    [
        ([], True, None),
        (["errors", "unsteady", "dropped"], True, None),
        (["errors", "lateness"], True, None),
        (["imprecise"], True, None),
        (["cluster_state"], False, "cluster"),
        (["lateness", "cluster_state"], False, "cluster"),
        (["lateness", "node_lost"], True, None),
        (["node_lost", "cluster_state"], False, "cluster"),
    ],
)
def test_only_the_stores_faults_leave_a_run_in(codes, sound, fault):
    run = run_with(*codes)
    assert (run.sound, run.fault) == (sound, fault)
    assert run.usable == (sound and not {"errors", "unsteady", "dropped", "node_lost"} & set(codes))


@pytest.mark.parametrize(("recorded", "fault"), [("store", "store"), ("generator", "generator"), ("unknown", None)])
def test_a_failed_run_names_the_component_at_fault(recorded, fault):
    run = RecordedRun("r", 1, {}, MadeUp(Summary("failed", "it broke", recorded)))
    assert (run.sound, run.fault) == (False, fault)


def test_a_run_of_an_earlier_version_that_failed_does_not_say_it():
    assert RecordedRun("r", 1, {}, MadeUp(Summary("failed", "it broke"))).fault is None
    assert RecordedRun("r", 1, {}, None).fault is None


def test_a_curve_keeps_the_runs_in_which_requests_failed_and_the_report_says_how_many(tmp_path):
    path = write_experiment(tmp_path / "e", Truth(seconds=2, failed_share=0.05), nodes=(1,), clients=(1, 2, 4),
                            invalid=["b1-nodes1-clients1"])  # fmt: skip
    folder = read_experiment(path)
    assert [run.id for run in folder.left_out] == ["b1-nodes1-clients1"]
    assert len(folder.faulty) == 5
    assert trust(folder).endswith("The store was at fault in 5 runs, which count.")
    assert run_status(folder.faulty[0]) == "store at fault"
    assert any("failed (" in group.cause and len(group.runs) == 6 for group in exclusions(folder))
    (curves,) = read_sweep(path).curves
    assert sum(point.usable for point in curves.points) == 5


def test_a_node_that_did_not_survive_the_load_fails_the_rate(tmp_path):
    run = write_run(tmp_path, "r", Truth(lam=12.5, sigma=0, kappa=0, noise=0, rate=100.0), lost=["node-2 is gone"])
    (reason,) = run.summary.verdict.reasons
    assert reason.code == "node_lost"
    judged = judge(run, Slo(response=10.0), ["range_100"], 100)
    assert judged.outcome is Outcome.FAILED
    assert "did not survive the load: node-2 is gone" in judged.reasons[0]
