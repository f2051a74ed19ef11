"""A gate: regressions, passes and inconclusive results."""

import json
import re
import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from math import inf

import pytest

from loadframe.analyze.compare import Group, compare, read_groups
from loadframe.analyze.compare.estimate_ratio import Observation, RatioEstimate, estimate_ratio
from loadframe.analyze.compare.measures import Measure
from loadframe.analyze.compare.warnings import OTHER_SPEED
from loadframe.analyze.estimate import Estimate
from loadframe.analyze.figures import EXACT, Stretch
from loadframe.analyze.gate import Bound, Thresholds, judge_gate
from loadframe.analyze.gate.checks import Question, together
from loadframe.base.errors import BadInput
from loadframe.record.gate_log import GATE_LOG, Acceptance, GateRecord, add_to_gate_log
from loadframe.report.compare_words import open_reasons
from recorded_history import CHANGED, commit, write_history
from simulated import Truth, write_run


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    root = tmp_path_factory.mktemp("gate")
    for seed, (name, lam) in enumerate({"old": 100, "same": 100, "slow": 80}.items()):
        for number in range(6):
            write_run(root / name, f"{name}{number}", Truth(lam=lam), seed=100 * seed + number)
    return root


def group(root, *names):
    (first, *others) = read_groups([str(root / name) for name in names])
    return Group(first.label, (*first.runs, *(run for other in others for run in other.runs)))


NONE = Thresholds()


def judge(root, new, old, thresholds=NONE, **options):
    return judge_gate(group(root, new), old and group(root, old), thresholds, **options)


def test_a_slow_down_by_a_fifth_is_a_regression(results):
    gate = judge(results, "slow", "old")
    assert gate.standing == "regression"
    assert [check.standing for check in gate.checks] == ["regression"] * 3 + ["passed"]
    assert "beyond 5 %" in gate.checks[0].why


@pytest.mark.parametrize(("possible", "standing"), [(1.0, "regression"), (1.03, "regression"), (1.2, "undecided")])
def test_a_slow_down_within_the_bounds_of_the_figures_is_undecided(possible, standing):
    levels = {"old": 100.0, "new": 88.0}
    runs = [Observation(level + number / 100, name) for name, level in levels.items() for number in range(6)]
    estimate = estimate_ratio(runs, "old", "new").widened(Stretch(1.0, possible))
    question = Question(Measure("measured", "throughput"), estimate, NONE, p=0.001, share=1.0, runs=(6, 6))
    assert together(question, "both operations").standing == standing


@pytest.mark.parametrize(
    ("low", "high", "standing", "finds"), [(1, 1, "passed", 0), (0.9, 1.1, "passed", 0.1), (0, inf, "undecided", None)]
)
def test_response_times_with_open_bounds_neither_pass_nor_find_anything(low, high, standing, finds):
    levels = {"old": 100.0, "new": 100.0}
    runs = [Observation(level + number / 100, name) for name, level in levels.items() for number in range(6)]
    estimate = estimate_ratio(runs, "old", "new").widened(Stretch(low, high))
    question = Question(Measure("measured", "p99"), estimate, NONE, p=1.0, share=1.0, runs=(6, 6))
    check = together(question, "both operations")
    assert (check.standing, "inf" in check.why) == (standing, False)
    assert check.finds is None if finds is None else check.finds > finds


@pytest.mark.parametrize(("kind", "low", "high"), [("p50", 0.9, 1.4), ("throughput", 0.7, 1.1)])
def test_an_interval_that_only_the_generator_widens_says_so(kind, low, high):
    runs = [Observation(100.0 + number / 100, name) for name in ("old", "new") for number in range(6)]
    estimate = estimate_ratio(runs, "old", "new").widened(Stretch(low, high))
    question = Question(Measure("measured", kind), estimate, NONE, p=1.0, share=1.0, runs=(6, 6))
    check = together(question, "both operations")
    assert check.standing == "undecided"
    assert "does not exclude 20 %; only because delays of the load generator widen it" in check.why


def undecided(values, thresholds=NONE, sessions=(None, None), bounds=EXACT):
    """Return the words about noisy response times; the new side's values are in reverse order."""
    sides = zip(("old", "new"), (values, values[::-1]), sessions, strict=True)
    runs = [Observation(value, name, None, session) for name, side, session in sides for value in side]
    question = Question(
        Measure("measured", "p50"), estimate_ratio(runs, "old", "new", session_spread=0.05).widened(bounds), thresholds,
        p=1.0, share=1.0, runs=(len(values), len(values)),
    )  # fmt: skip
    check = together(question, "both operations")
    assert check.standing == "undecided"
    return check.why


def test_an_inconclusive_check_gives_the_number_of_runs_that_find_the_effect_to_catch():
    noisy = [80.0, 100.0, 120.0, 95.0, 105.0]
    text = re.search(r"; about (\d+) runs of each side would find 20 % in four of five cases$", undecided(noisy))
    assert 5 < int(text[1]) <= 50
    assert "make more runs" not in undecided(noisy)


def test_a_machine_that_is_too_noisy_gets_a_remedy_instead_of_a_number():
    why = undecided([20.0, 100.0, 500.0, 60.0, 160.0])
    assert "the machine is too noisy: finding 20 % in four of five cases takes more than 50 runs of each side" in why
    assert why.endswith("use an idle machine, lengthen the runs, or raise --catch")


def test_delays_of_the_generator_that_hide_the_effect_are_not_blamed_on_noise():
    noisy = [80.0, 100.0, 120.0, 95.0, 105.0]
    assert undecided(noisy, bounds=Stretch(0.8, 1.0)).endswith(
        "; delays of the load generator hide 20 %; give the load generator its own cores or machine"
    )


@pytest.mark.parametrize(
    ("kind", "bounds", "interval"),
    [
        ("p50", Stretch(0.0, 1.0), "[unknown, +24 %]"),
        ("throughput", Stretch(1.0, inf), "[unknown, +19 %]"),
        ("p50", Stretch(0.9, 1.0), "[-28 %, +24 %]"),
    ],
)
def test_an_end_that_the_generator_leaves_open_is_unknown(kind, bounds, interval):
    estimate = RatioEstimate(Estimate(1.0, 0.805, 1.244), 0.0, 0.1, 8, 1.0, 1.0, "unpaired", 0.0, (1, 1))
    question = Question(Measure("measured", kind), estimate.widened(bounds), NONE, p=1.0, share=1.0, runs=(5, 5))
    assert interval in together(question, "both sets").why


def test_single_runs_are_not_called_noisy():
    assert undecided([100.0]).endswith("the runs do not show the run-to-run variance; make five of each side")


def test_an_effect_to_catch_close_to_the_least_effect_is_not_blamed_on_noise():
    why = undecided([99.0, 100.0, 101.0], Thresholds({"p50": 0.01}, {"p50": 0.01}))
    assert why.endswith("--catch 1 % is too close to --least 1 % to be found; raise --catch")


def test_more_runs_of_one_session_against_another_are_not_recommended():
    assert undecided([80.0, 100.0, 120.0, 95.0, 105.0], sessions=(1, 2)).endswith(
        "; measure both sides alternately in one session"
    )


@pytest.mark.parametrize(
    ("ratio", "interval"),
    [(Estimate(1.05, 0.87, 1.196), "[-13 %, +19.6 %]"), (Estimate(0.97, 0.94, 0.9996), "[-6.0 %, -0.04 %]")],
)
def test_the_end_of_an_interval_does_not_read_like_the_limit_that_it_keeps(ratio, interval):
    estimate = RatioEstimate(ratio, 0.05, 0.05, 8, 1.0, 0.5, "unpaired", 0.0, (1, 1))
    check = together(Question(Measure("measured", "p50"), estimate, NONE, p=1.0, share=1.0, runs=(5, 5)), "both sets")
    assert check.standing == "passed"
    assert interval in check.why


def test_an_equal_version_passes(results):
    gate = judge(results, "same", "old")
    assert gate.standing == "passed"
    assert gate.warnings == ()


@pytest.fixture(scope="module")
def brief(tmp_path_factory):
    """Runs of 400 requests at two treatments."""
    root = tmp_path_factory.mktemp("brief")
    for seed, (name, lam) in enumerate({"old": 100, "same": 100, "fast": 200, "slow": 50}.items()):
        for number in range(8):
            nodes = 1 + number % 2
            write_run(root / name, f"r{number}", Truth(lam=lam, seconds=2), seed=100 * seed + number, nodes=nodes,
                      treatment={"nodes": nodes})  # fmt: skip
    return root


@pytest.mark.parametrize(
    ("new", "standing", "outcome"),
    [("same", "undecided", "alike"), ("fast", "undecided", "better"), ("slow", "regression", "worse")],
)
def test_percentiles_of_too_few_requests_may_fail_but_not_pass(brief, new, standing, outcome):
    gate = judge(brief, new, "old", kinds=["p50", "p99"])
    standings = {kind: {it.standing for it in gate.checks if it.measure.kind == kind} for kind in ("p50", "p99")}
    assert standings == {"p50": {"regression" if new == "slow" else "passed"}, "p99": {standing}}
    few = "too few requests: 400 in a run, and p99 needs at least 1,000 (a duration of 6 s)"
    assert [few in check.why for check in gate.checks if check.measure.kind == "p99"] == [new != "slow"] * 3
    comparison = compare([group(brief, "old"), group(brief, new)], ["p50", "p99"], least=0.1)
    outcomes = {(it.measure.kind, it.outcome) for it in comparison.contrasts}
    assert outcomes == {("p50", outcome), ("p99", outcome if new == "slow" else "inconclusive")}
    reasons = [words for words in open_reasons(comparison) if few in words]
    assert len(reasons) == (new != "slow")


def test_a_speed_up_passes(results):
    assert judge(results, "old", "slow").standing == "passed"


@pytest.fixture(scope="module")
def paced(tmp_path_factory):
    """Two versions in the minutes of a machine that is as fast as usual, slower and faster by a quarter."""
    root = tmp_path_factory.mktemp("paces")
    truths = {
        "usual": Truth(seconds=2),
        "slowed": Truth(lam=75, pace=0.75, seconds=2),
        "sped": Truth(lam=125, pace=1.25, seconds=2),
        "hidden": Truth(lam=100, pace=1.25, seconds=2),
        "worse": Truth(lam=50, pace=0.75, seconds=2),
    }
    for seed, (name, truth) in enumerate(truths.items()):
        for number in range(6):
            run = write_run(root / name, f"r{number}", truth, seed=900 + 10 * seed + number)
            if name != "usual":
                _on_day(run.path, 3)
    return root


@pytest.mark.parametrize(
    ("new", "standing", "why"),
    [
        ("slowed", "undecided", "the machine became slower by as much"),
        ("sped", "passed", "better"),
        ("hidden", "undecided", "the machine became faster, which may hide 20 %"),
        ("worse", "regression", "beyond 5 %"),
    ],
)
def test_effects_that_the_machine_explains_or_hides_are_not_reported(paced, new, standing, why):
    gate = judge(paced, new, "usual", kinds=["throughput"])
    assert gate.standing == standing
    assert why in gate.checks[0].why
    (warning,) = [warning for warning in gate.warnings if warning.rule == OTHER_SPEED]
    assert f"25 % {'faster' if new in ('sped', 'hidden') else 'slower'} when {new} was measured" in warning.cause


def test_the_pace_of_runs_that_were_made_in_turns_is_chance(paced, tmp_path):
    for name in ("slowed", "usual"):
        shutil.copytree(paced / name, tmp_path / name)
    for run in (tmp_path / "usual").glob("r[3-5]"):
        _on_day(run, 4)
    gate = judge(tmp_path, "slowed", "usual", kinds=["throughput"])
    assert gate.standing == "regression"
    assert gate.warnings == ()


def test_runs_of_a_version_that_took_no_yardstick_are_judged_without(paced, tmp_path):
    shutil.copytree(paced / "slowed", tmp_path / "slowed")
    shutil.copytree(paced / "usual", tmp_path / "usual")
    for file in (tmp_path / "usual").glob("*/manifest.json"):
        manifest = json.loads(file.read_text())
        del manifest["hardware"]["yardstick"]
        file.write_text(json.dumps(manifest))
    gate = judge(tmp_path, "slowed", "usual", kinds=["throughput"])
    assert gate.standing == "regression"
    assert not [warning for warning in gate.warnings if warning.rule == OTHER_SPEED]


def test_too_few_runs_tell_nothing(results):
    gate = judge(results, "same/same0", "old/old0")
    assert gate.standing == "undecided"
    assert "1 run against 1 do not show the run-to-run variance" in gate.checks[0].why
    assert any("at least three valid runs" in warning.remedy for warning in gate.warnings)


def test_invalid_runs_tell_nothing(tmp_path, results):
    for number in range(6):
        write_run(tmp_path / "busy", f"r{number}", Truth(seconds=2), seed=number, deviations=["a copy is lost"])
    shutil.copytree(results / "old", tmp_path / "old")
    gate = judge(tmp_path, "busy", "old")
    assert gate.standing == "undecided"
    (check,) = gate.checks
    assert check.why == "none of 6 runs is valid, for reasons other than the store"
    assert gate.warnings[0].cause.startswith("6 of 6 runs of busy are excluded: they failed or are missing, or")


def test_noise_that_hides_the_regression_to_catch_does_not_pass(tmp_path):
    for seed, name in enumerate(("old", "new")):
        for number in range(5):
            truth = Truth(seconds=2, noise=0.4)
            write_run(tmp_path / name, f"r{number}", truth, seed=10 * seed + number + 1)
    gate = judge(tmp_path, "new", "old", kinds=["throughput"])
    assert gate.standing == "undecided"
    assert "does not exclude 20 %" in gate.checks[0].why
    assert "load generator" not in gate.checks[0].why
    assert (
        judge(tmp_path, "new", "old", Thresholds(catch={"throughput": 3.0}), kinds=["throughput"]).standing == "passed"
    )


def test_changes_below_the_least_effect_are_not_regressions(results):
    thresholds = Thresholds(least={"throughput": 0.3}, catch={"throughput": 0.4})
    assert judge(results, "slow", "old", thresholds, kinds=["throughput"]).standing == "passed"


@pytest.mark.parametrize(
    ("bound", "standing"),
    [
        (Bound("throughput", 100), "passed"),
        (Bound("throughput", 100_000), "regression"),
        (Bound("p99", 1.0), "passed"),
        (Bound("p99.9", 1.0), "undecided"),
        (Bound("p99.9", 0.001), "regression"),
        (Bound("max", 0.001), "regression"),
        (Bound("errors", 0.0), "passed"),
    ],
)
def test_bounds_need_no_baseline(results, bound, standing):
    gate = judge(results, "same", None, Thresholds(bounds=[bound]))
    assert gate.standing == standing
    assert len(gate.checks) == 1


def test_the_bound_on_the_slowest_is_of_all_runs(results):
    (check,) = judge(results, "same", None, Thresholds(bounds=[Bound("max", 0.02)])).checks
    assert check.why.startswith("slowest of 6 runs")


def test_of_a_history_only_the_runs_since_the_last_change_count(results, tmp_path):
    """The version before was accepted at its slower speed; the new one is as fast as the history's newest."""
    for name in ("old", "slow"):
        for run in (results / name).iterdir():
            shutil.copytree(run, tmp_path / "history" / f"{'1' if name == 'old' else '2'}-{run.name}")
    for number in range(6):
        write_run(tmp_path / "new", f"n{number}", Truth(lam=80), seed=500 + number)
    _dated(tmp_path / "history")
    history = judge(tmp_path, "new", "history", history=True)
    assert history.standing == "passed"
    assert len(history.comparison.contrasts[0].first) == 6
    assert any(re.search("changed by -(19|20) %", warning.cause) for warning in history.warnings)
    assert any("2-slow0" in warning.cause for warning in history.warnings)


@pytest.mark.parametrize("pause", [24 * 60, 20])
def test_an_accepted_change_is_the_new_level_from_its_first_run_on(tmp_path, pause):
    """`pause`: minutes between releases; shorter ones than an hour are a single session."""
    history = write_history(tmp_path / "history", nights=CHANGED + 1)
    stopped = f"night-{CHANGED:02}"
    for night in history.glob("night-*"):
        for number, run in enumerate(sorted(night.iterdir())):
            file = run / "manifest.json"
            minutes = int(night.name[-2:]) * pause + number
            when = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=minutes)
            manifest = json.loads(file.read_text()) | {"started": when.isoformat()}
            if pause < 60:
                manifest["session"] = ""
            file.write_text(json.dumps(manifest))
    add_to_gate_log(history, GateRecord("2026-01-07T02:00:00+00:00", stopped, commit(CHANGED), "regression"))
    for number in range(2):
        write_run(tmp_path / "new", f"n{number}", Truth(lam=140, seconds=2), seed=900 + number)
    assert judge(tmp_path, "new", "history", history=True).standing == "regression"
    add_to_gate_log(history, Acceptance("2026-01-08T02:00:00+00:00", stopped, "checksums cost 30 %"))
    gate = judge(tmp_path, "new", "history", history=True)
    assert {len(contrast.first) for contrast in gate.comparison.contrasts} == {2}
    assert gate.standing != "regression"


def test_later_measurements_of_an_accepted_commit_do_not_shorten_the_history(tmp_path):
    history = write_history(tmp_path / "history", nights=6, changed=(2,))
    accepted = GateRecord("2026-01-03T02:00:00+00:00", "night-02", "v2", "regression")
    for entry in (accepted, replace(accepted, folder="night-05", outcome="passed")):
        add_to_gate_log(history, entry)
    add_to_gate_log(history, Acceptance("2026-01-03T03:00:00+00:00", "v2", "checksums cost 30 %"))
    write_run(tmp_path / "new", "n0", Truth(lam=140, seconds=2), seed=900)
    gate = judge(tmp_path, "new", "history", history=True)
    assert {len(contrast.first) for contrast in gate.comparison.contrasts} == {8}


def test_the_runs_of_a_stopped_release_are_no_baseline_through_a_link(tmp_path):
    history = write_history(tmp_path / "history", nights=2, runs=1)
    add_to_gate_log(history, GateRecord("2026-01-03T02:00:00+00:00", "night-01", commit(1), "regression"))
    (history / "latest").symlink_to("night-01")
    (history / "loop").symlink_to("loop")
    (tmp_path / "newest").symlink_to("history/night-01")
    for folder in (history / "pinned", tmp_path / "runs"):
        folder.mkdir()
        (folder / "r").symlink_to(history / "night-01" / "run-0")
    for named in (history, history / "*"):
        (group,) = read_groups([str(named)])
        assert [run.run.path.parent.name for run in group.runs] == ["night-00"]
    for named in (tmp_path / "new*", tmp_path / "runs", tmp_path / "run*"):
        with pytest.raises(BadInput, match="no run"):
            read_groups([str(named)])


def test_a_link_to_another_release_is_not_taken_for_a_stopped_one_that_was_deleted(tmp_path):
    history = write_history(tmp_path / "history", nights=2, runs=1)
    add_to_gate_log(history, GateRecord("2026-01-03T02:00:00+00:00", "night-01", commit(1), "regression"))
    (history / "latest").symlink_to("night-00")
    (history / "night-01").rename(tmp_path / "moved")
    (group,) = read_groups([str(history)])
    assert {run.run.path.resolve().parent.name for run in group.runs} == {"night-00"}
    (history / "again").symlink_to(tmp_path / "moved")
    with pytest.raises(BadInput, match="may be its new name"):
        read_groups([str(history)])


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "a" * 300])
def test_a_name_that_no_folder_can_have_is_a_damaged_line_of_the_log(tmp_path, name):
    history = write_history(tmp_path / "history", nights=1, runs=1)
    with (history / GATE_LOG).open("a") as log:
        line = json.loads((history / GATE_LOG).read_text().splitlines()[0])
        log.write(json.dumps(line | {"folder": name}) + "\n")
    with pytest.raises(BadInput) as refused:
        read_groups([str(history)])
    assert str(refused.value.where).endswith("line 2")


def test_recorded_copies_of_new_runs_are_no_history_of_them(results, tmp_path):
    for number in range(3):
        write_run(tmp_path / "history", f"h{number}", Truth(seconds=2), seed=600 + number)
        write_run(tmp_path / "new", f"n{number}", Truth(lam=60, seconds=2), seed=700 + number)
    _dated(tmp_path / "history")
    alone = judge(tmp_path, "new", "history", history=True)
    for copy in ("first", "second"):
        for number in range(3):
            shutil.copytree(tmp_path / "new" / f"n{number}", tmp_path / "history" / f"{copy}-n{number}")
    again = judge(tmp_path, "new", "history", history=True)
    (warning,) = (warning for warning in again.warnings if warning.code == "own_copies")
    assert warning.cause.startswith("6 runs of the history left out")
    assert [contrast.ratio for contrast in again.comparison.contrasts] == [
        contrast.ratio for contrast in alone.comparison.contrasts
    ]
    with pytest.raises(BadInput, match="only copies of the new runs"):
        judge(tmp_path, "new", "new", history=True)


def test_a_treatment_that_was_not_measured_again_is_not_passed(tmp_path):
    for name, treatments in {"old": (1, 2), "new": (1,)}.items():
        for nodes in treatments:
            for number in range(5):
                write_run(tmp_path / name, f"n{nodes}-{number}", Truth(seconds=2), seed=number, nodes=nodes,
                          treatment={"nodes": nodes})  # fmt: skip
    gate = judge(tmp_path, "new", "old", kinds=["throughput"])
    assert gate.standing == "undecided"
    assert {check.standing for check in gate.checks} == {"passed"}


def _dated(folder):
    """Give the runs the order of their names: one command on each day."""
    for day, run in enumerate(sorted(folder.iterdir()), start=1):
        _on_day(run, day)


def _on_day(run, day):
    file = run / "manifest.json"
    file.write_text(
        file.read_text().replace("2026-01-02T", f"2026-01-{day:02}T").replace("one command", f"command of day {day}")
    )


def test_failed_runs_of_a_history_count_from_its_last_change_on_and_all_are_named(results, tmp_path):
    """Two failed runs of the old version do not excuse one of the new version."""
    for name in ("old", "slow"):
        for run in (results / name).iterdir():
            shutil.copytree(run, tmp_path / "history" / f"{'1' if name == 'old' else '2'}-{run.name}")
    for number in range(2):
        died = write_run(tmp_path / "history", f"1-dead{number}", Truth(seconds=2), lost=["node-0 is gone"])
        assert [reason.code for reason in died.summary.verdict.reasons] == ["node_lost"]
    _dated(tmp_path / "history")
    for number in range(6):
        lost = ["node-0 is gone"] if number == 0 else []
        write_run(tmp_path / "new", f"n{number}", Truth(lam=80, seconds=2), seed=500 + number, lost=lost)
    gate = judge(tmp_path, "new", "history", history=True)
    assert gate.standing == "undecided"
    (survived,) = [check for check in gate.checks if "survived" in check.words]
    assert survived.why.startswith("the store failed in 1 of 6 runs, before in 0 of 6; n0: ")
    (before,) = [warning for warning in gate.warnings if "before its last change: " in warning.cause]
    assert "1-dead0, 1-dead1: " in before.cause
