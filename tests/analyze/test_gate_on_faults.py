"""A gate on runs in which the store failed: requests that are missing or failed stop the gate."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from benchmarks.simulate_gate import made_up

from loadframe.analyze.compare import Group, Measure, compare
from loadframe.analyze.compare.estimate_ratio import RatioEstimate
from loadframe.analyze.estimate import Estimate
from loadframe.analyze.experiment import RecordedRun
from loadframe.analyze.gate import Bound, Thresholds, judge_gate, more_errors
from loadframe.analyze.gate.checks import one_sided_p
from loadframe.base.errors import BadInput
from loadframe.record.schema.figures import Latency
from loadframe.record.schema.summary import RecordedReason, RecordedVerdict, StreamSummary
from loadframe.report.compare_words import advice, lead, means_cells, note, open_reason, sentence
from loadframe.report.gate import junit, markdown
from made_up_runs import invalid

FIGURES = {"read": {"throughput": 1000.0, "p50": 0.01, "p99": 0.05}}
SPREAD = (0.98, 1.02, 0.99, 1.01, 0.97, 1.03)


def runs(side, count=6, *, at=None, factor=1.0, **more):
    """Return runs that scatter a little; `more` is the summary's, or `failed`, the share of failed requests."""
    made = []
    for number in range(count):
        values = {"read": {"throughput": 1000 / factor * SPREAD[number], "p50": 0.01 * factor / SPREAD[number],
                        "p99": 0.05 * factor / SPREAD[number]}}  # fmt: skip
        made.append(made_up(side, number, values, 2 * number + (side == "new"), **more))
    return [RecordedRun(run.id, run.block, at or {}, run.run) for run in made]


def failed(side, count, fault):
    return runs(side, count, status="failed", failure="node-0 ended\n  its log", fault=fault, verdict=None)


def with_reason(side, code, share=0.0, count=6):
    return runs(side, count, verdict=invalid(code), failed=share)


def change(run, **figures):
    """Change figures of a made-up run's one operation."""
    summary = run.run.summary
    (phase,) = summary.phases
    operations = {name: replace(operation, **figures) for name, operation in phase.operations.items()}
    run.run.__dict__["summary"] = replace(summary, phases=(replace(phase, operations=operations),))


def judge(new, old=None, **options):
    bounds = options.pop("bounds", ())
    baseline = None if old is None else Group("old", tuple(old))
    return judge_gate(Group("new", tuple(new)), baseline, Thresholds(bounds=bounds), **options)


def check_of(gate, words):
    (check,) = [check for check in gate.checks if words in check.name]
    return check


@pytest.mark.parametrize(
    ("new", "standing"),
    [
        (failed("new", 6, "store"), "regression"),
        (failed("new", 6, "generator"), "undecided"),
        (failed("new", 6, "unknown"), "undecided"),
        (with_reason("new", "generator_failed"), "undecided"),
        (with_reason("new", "cluster_state"), "undecided"),
    ],
)
def test_a_treatment_without_a_run_is_not_passed_over(new, standing):
    at = {"clients": 4}
    also = {"clients": 8}
    told = [RecordedRun(run.id, run.block, also, run.run) for run in new]
    gate = judge([*runs("new", at=at), *told], [*runs("old", at=at), *runs("old", at=also)])
    assert gate.standing == standing
    (check,) = [check for check in gate.checks if check.treatment == also]
    assert check.standing == standing


@pytest.mark.parametrize("fault", ["store", "generator", "nothing succeeded"])
def test_a_new_treatment_at_which_the_store_failed_does_not_pass(fault):
    nothing = {"read": {"throughput": 0.0, "p50": None, "p99": None}}
    new = (
        [made_up("new", number, nothing, 2 * number, failed=1.0, verdict=invalid("errors")) for number in range(6)]
        if fault == "nothing succeeded"
        else failed("new", 6, fault)
    )
    also = [RecordedRun(run.id, run.block, {"clients": 4}, run.run) for run in new]
    common = [run for clients in (1, 2) for run in runs("new", at={"clients": clients})]
    gate = judge([*common, *also], [run for clients in (1, 2) for run in runs("old", at={"clients": clients})])
    assert gate.standing == ("undecided" if fault == "generator" else "regression")
    (check,) = [check for check in gate.checks if check.treatment == {"clients": 4}]
    assert check.words == "runs that the store survived"


def test_nor_is_it_where_only_bounds_are_asked_for():
    for fault, standing in (("store", "regression"), ("generator", "undecided")):
        assert judge(failed("new", 6, fault), bounds=[Bound("p99", 1.0)]).standing == standing


def test_a_store_that_failed_in_some_runs_is_not_passed_for_the_others():
    gate = judge([*runs("new"), *failed("new", 1, "store")], runs("old"))
    assert gate.standing == "undecided"
    check = check_of(gate, "survived")
    assert check.why == "the store failed in 1 of 7 runs, before in 0 of 6; b0-new: node-0 ended"
    assert judge([*runs("new"), *failed("new", 1, "store")], bounds=[Bound("p99", 1.0)]).standing == "undecided"
    assert judge([*runs("new", 2), *failed("new", 5, "store")], runs("old")).standing == "regression"


def test_runs_with_failed_requests_stay_in_the_bounds_on_errors():
    new = [*runs("new", 2), *with_reason("new", "errors", 0.05, 4)]
    gate = judge(new, bounds=[Bound("errors", 0.001)])
    assert gate.standing == "regression"
    assert "mean of 6 runs 3.33 %" in gate.checks[0].why
    (warning,) = (warning for warning in gate.warnings if "the store was at fault" in warning.cause)
    assert warning.cause.startswith("in 4 of 6 runs of new the store was at fault (")
    assert all(run.id in warning.cause for run in new[2:])
    assert f"loadframe report {new[2].run.path}" in warning.remedy


def test_response_times_of_successes_do_not_pass_with_more_failures_than_the_percentile_omits():
    gate = judge(with_reason("new", "errors", 0.05), bounds=[Bound("p99", 1.0), Bound("p50", 1.0)])
    assert [check.standing for check in gate.checks] == ["undecided", "passed"]
    assert "the successes to show it" in gate.checks[0].why


def two_phases(side, shares, code="generator_failed", *, due=10_000, slower=1.0):
    """Return runs with a phase `late` whose requests failed by these shares; None is unknown by the reason `code`.

    `due` are the requests of a phase with an unknown share. Response times of the phase are `slower` by this factor.
    """
    made = []
    for run, share in zip(runs(side, len(shares)), shares, strict=True):
        summary = run.run.summary
        (first,) = summary.phases
        failures = 10_000 if share is None else round(share * 10_000)
        counts = {"requests": 10_000, "successes": 10_000 - failures, "errors": {"timeout": failures}}
        if share is None:
            counts |= {"throughput": 0.0, "response": Latency(), "service": Latency(), "requests": due}
            counts["errors"] = {"timeout": due}
        else:
            response = first.operations["read"].response
            counts["response"] = replace(response, p50=response.p50 * slower, p99=response.p99 * slower, count=10_000)
        late = replace(first, name="late", start=60.0, operations={"read": replace(first.operations["read"], **counts)})
        reason = RecordedReason(code, "because", "mend it", phase="late")
        verdict = replace(summary.verdict, reasons=(reason,) if share is None else ())
        run.run.__dict__["summary"] = replace(summary, phases=(first, late), verdict=verdict)
        made.append(run)
    return made


@pytest.mark.parametrize(("share", "standing"), [(0.05, "regression"), (0.0, "passed")])
def test_runs_whose_failures_are_the_generators_neither_hide_nor_make_a_rise(share, standing):
    old = two_phases("old", [0.0, None, 0.0, None, 0.0, 0.0])
    gate = judge(two_phases("new", [share, None, share, None, share, share]), old, kinds=["errors"])
    assert check_of(gate, "late errors").standing == standing
    assert [check.standing for check in gate.checks if check.measure.phase == "mixed"] == ["passed"]


@pytest.mark.parametrize(("code", "stops"), [("generator_failed", False), ("nothing_measured", True)])
def test_a_phase_that_the_generator_spoilt_is_not_the_stores_silence(code, stops):
    gate = judge(two_phases("new", [0.0, 0.0, *[None] * 4], code), two_phases("old", [0.0] * 6))
    silent = [check for check in gate.checks if "whether there is any" in check.name]
    assert {check.standing for check in silent} == ({"regression"} if stops else set())
    bounded = judge(two_phases("new", [0.0, 0.0, *[None] * 4], code), bounds=[Bound("p50", 1.0)])
    assert (bounded.standing == "regression") == stops


@pytest.mark.parametrize(("silent", "standing"), [(1, "undecided"), (3, "undecided"), (6, "regression")])
def test_a_phase_in_which_nothing_was_due_does_not_pass(silent, standing):
    new = two_phases("new", [*[None] * silent, *[0.0] * (6 - silent)], "nothing_measured", due=0)
    assert judge(new, two_phases("old", [0.0] * 6), kinds=["throughput", "p50", "errors"]).standing == standing


@pytest.mark.parametrize("spoilt", ["old", "new"])
def test_a_run_that_the_generator_spoilt_makes_no_other_figures_look_too_good(spoilt):
    def side(name, slower):
        return two_phases(name, [None if name == spoilt else 0.0, *[0.0] * 5], slower=slower)

    for slower, standing in ((2.0, "regression"), (1.0, "passed")):
        gate = judge(side("new", slower), side("old", 1.0), kinds=["p99"])
        assert check_of(gate, "late read p99").standing == standing


def test_failures_of_spoilt_runs_make_no_difference_of_errors():
    old, new = two_phases("old", [0.0, 0.0, 0.0, None, None, None]), two_phases("new", [0.0003, 0, 0, None, None, None])
    compared = compare([Group("old", tuple(old)), Group("new", tuple(new))], ["errors"])
    (late,) = [contrast for contrast in compared.contrasts if contrast.measure.phase == "late"]
    assert late.raw_p > 0.3


@pytest.mark.parametrize(("failures", "standing"), [(1, "undecided"), (0, "regression")])
def test_a_baseline_whose_slow_runs_may_have_failed_shows_no_worsening(failures, standing):
    old = [*runs("old", 6 - failures), *failed("old", failures, "store")]
    check = check_of(judge(runs("new", factor=1.3), old, kinds=["p50"]), "p50")
    assert check.standing == standing
    assert ("the store failed in runs of the baseline" in check.why) == bool(failures)


def test_requests_that_were_dropped_or_had_no_answer_have_failed():
    run = runs("new", 1)[0]
    change(run, dropped=500, in_flight_at_end=500)
    assert Measure("mixed", "errors").failures(run) == (1000, 21000)
    assert Measure("mixed", "all-p99", "read").is_blind([run])


def test_a_baseline_without_errors_is_a_baseline():
    gate = judge(runs("new", failed=0.02), runs("old"))
    check = check_of(gate, "errors")
    assert check.standing == "regression"
    assert check.why.startswith("0.00 % and now 2.00 % of the requests failed")
    assert check_of(judge(runs("new"), runs("old")), "errors").standing == "passed"
    assert check_of(judge(runs("new"), runs("old", failed=0.02)), "errors").standing == "passed"


def test_failures_of_every_run_are_more_than_chance_however_few_requests_there_were():
    """One of 50 requests fails in each of six runs, or 400 of 20,000."""

    def few(made):
        for run in made:
            operation = run.operations("mixed")["read"]
            failed = operation.requests - operation.successes
            change(run, requests=50, successes=50 - failed // 400)
        return made

    measure = Measure("mixed", "errors")

    def p(new, old):
        return more_errors(measure, Group("old", tuple(old)), Group("new", tuple(new)))

    assert p(runs("new", failed=0.02), runs("old")) < 1e-6
    assert p(few(runs("new", failed=0.02)), few(runs("old"))) == pytest.approx(0.5**6)
    assert p(runs("new"), runs("old")) == 1
    assert p(runs("new"), runs("old", failed=0.02)) == 1
    # One bad run of six tells little of the next six.
    assert p([*runs("new", 5), *runs("new", 6, failed=0.05)[5:]], runs("old")) > 0.05


def test_a_few_more_failures_than_none_are_not_a_regression():
    assert check_of(judge(runs("new", failed=0.0005), runs("old")), "errors").standing == "passed"


def test_nothing_that_succeeded_is_a_regression_of_throughput():
    nothing = {"read": {"throughput": 0.0, "p50": None, "p99": None}}
    verdict = invalid("errors")
    new = [made_up("new", number, nothing, 2 * number + 1, failed=1.0, verdict=verdict) for number in range(6)]
    gate = judge(new, runs("old"))
    assert gate.standing == "regression"
    assert {check.standing for check in gate.checks} == {"regression"}
    assert judge(new, bounds=[Bound("throughput", 1.0)]).standing == "regression"


def with_all(made, p99):
    """Give runs the response times of all requests, failed ones too."""
    for run in made:
        response = run.operations("mixed")["read"].response
        change(run, all=replace(response, p99=p99 * response.p99 / 0.05))
    return made


def test_slow_failures_stop_a_gate_by_the_response_times_of_all_requests():
    """0.9 % of requests time out: no percentile of the successes shows it."""
    new, old = with_all(runs("new", failed=0.009), 60.0), with_all(runs("old"), 0.05)
    assert judge(new, old, kinds=["p99"]).standing == "passed"
    assert judge(new, old, kinds=["all-p99"]).standing == "regression"
    assert judge(new, bounds=[Bound("all-p99", 1.0)]).standing == "regression"
    assert judge(new, bounds=[Bound("p99", 1.0)]).standing == "passed"


def test_runs_that_did_not_record_it_do_not_pass_for_it():
    new, old = with_all(runs("new"), 0.05), runs("old")
    for gate in (judge(new, old, kinds=["all-p99"]), judge(old, bounds=[Bound("all-p99", 1.0)])):
        assert gate.standing == "undecided"
    assert check_of(judge(new, old, kinds=["p99", "all-p99"]), "all-p99").standing == "undecided"


def test_one_treatment_is_not_held_against_another_in_silence():
    new, old = runs("new", at={"clients": 8}), runs("old", at={"clients": 4})
    with pytest.raises(BadInput, match="clients: 4 → 8"):
        judge(new, old)
    assert judge(new, old, across=True).standing == "passed"
    compared = compare([Group("old", tuple(old)), Group("new", tuple(new))])
    assert any("different treatments (clients: 4 → 8)" in warning.cause for warning in compared.warnings)


def test_a_comparison_keeps_the_runs_in_which_requests_failed_and_says_so():
    old, new = runs("old"), with_reason("new", "errors", 0.05)
    compared = compare([Group("old", tuple(old)), Group("new", tuple(new))], ["throughput", "errors"])
    assert [len(contrast.second) for contrast in compared.contrasts] == [6, 6]
    assert compared.contrasts[1].outcome == "worse"
    (warning,) = [warning for warning in compared.warnings if "the store was at fault" in warning.cause]
    assert warning.cause.startswith("in 6 of 6 runs of new")
    judged = judge(new, old)
    assert len([warning for warning in judged.warnings if "the store was at fault" in warning.cause]) == 1


def test_a_gate_is_available_to_programs():
    told = json.loads(json.dumps(judge(runs("new", factor=1.2), runs("old")).as_dict()))
    assert told["standing"] == "regression"
    assert {"p", "finds", "title", "why"} <= told["checks"][0].keys()


DIFFERENCE = "taxis holds 1,998 documents, but 2,000 were acknowledged"


def losing(made, count, code="documents_lost", cause=DIFFERENCE):
    """Return the runs, the first `count` of them with lost documents."""
    verdict = RecordedVerdict(False, (RecordedReason(code, cause, "mend it"),))
    for run in made[:count]:
        run.run.__dict__["summary"] = replace(run.run.summary, verdict=verdict)
    return made


@pytest.mark.parametrize("count", [1, 2, 4, 5])
@pytest.mark.parametrize("code", ["documents_lost", "missing_events", "cluster_state"])
def test_a_store_that_lost_acknowledged_documents_does_not_pass(count, code):
    """`cluster_state` is how earlier versions recorded it."""
    gate = judge(losing(runs("new", 5), count, code), runs("old", 5))
    assert gate.standing == "regression"
    check = check_of(gate, "acknowledged documents")
    assert check.why.startswith(f"acknowledged documents are missing in {count} of 5 runs, before in 0 of 5; b0-new")
    bounded = judge(losing(runs("new", 5), count, code), bounds=[Bound("errors", 0)])
    assert bounded.standing == "regression"


def test_a_store_that_always_lost_documents_is_not_worse_and_does_not_pass():
    gate = judge(losing(runs("new", 5), 2), losing(runs("old", 5), 3))
    assert check_of(gate, "acknowledged documents").standing == "undecided"
    assert gate.standing == "undecided"


def test_copies_that_were_lost_under_the_load_are_failed_runs():
    gate = judge(losing(runs("new", 5), 4, "copies_lost", "the cluster is yellow"), runs("old", 5))
    check = check_of(gate, "survived")
    assert check.standing == "regression"
    assert check.why == (
        "the store failed in 4 of 5 runs, before in 0 of 5; b0-new, b1-new, b2-new, b3-new: the cluster is yellow"
    )


def one_run_of_users(waiting):
    """Judge a run of 40 users by a limit on errors; `waiting` of them had no answer at the end."""
    (run,) = runs("new", 1)
    stream = StreamSummary("main", {"users": {"users": 40, "clients": 40, "think_time": 0.2}})
    phases = tuple(replace(phase, streams=(stream,)) for phase in run.run.summary.phases)
    run.run.__dict__["summary"] = replace(run.run.summary, phases=phases)
    change(run, in_flight_at_end=waiting)
    return judge([run], bounds=[Bound("errors", 0.05)])


def test_one_run_at_whose_end_most_users_had_no_answer_stops_a_gate_with_bounds():
    assert one_run_of_users(10).standing != "regression"
    gate = one_run_of_users(40)
    assert gate.standing == "regression"
    assert "40 of 40 users were without an answer at the end" in check_of(gate, "survived").why


def test_a_gate_names_each_run_that_is_left_out_with_its_reason():
    new = [*runs("new", 4), *with_reason("new", "generator_failed", count=6)[4:]]
    gate = judge(new, runs("old"))
    (warning,) = [warning for warning in gate.warnings if "are excluded" in warning.cause]
    assert "b4-new, b5-new: because of generator_failed" in warning.cause
    assert gate.as_dict()["excluded"] == [
        {"run": name, "reason": "because of generator_failed"} for name in ("b4-new", "b5-new")
    ]
    for text in (junit(gate), markdown(gate)):
        assert "b4-new, b5-new: because of generator_failed" in text.replace("\\_", "_")


def test_runs_whose_requests_were_late_are_in_the_gate_with_their_bounds():
    """Lateness only lengthens response times. If they are not longer than before, the store did not get slower."""
    late = with_reason("new", "lateness")
    assert judge(late, runs("old")).as_dict()["excluded"] == []
    assert judge(late, runs("old")).standing == "passed"
    slow = runs("new", factor=1.5, verdict=invalid("lateness"))
    # The store took the same time as before, and the rest of each response time may be lateness.
    for run, before in zip(slow, runs("old"), strict=True):
        change(run, service=before.figures("mixed", "read").service)
    assert check_of(judge(slow, runs("old")), "p99").standing == "undecided"
    # Service times equal response times, so it was not the generator.
    slower = runs("new", factor=1.5, verdict=invalid("lateness"))
    assert check_of(judge(slower, runs("old")), "p99").standing == "regression"


@pytest.mark.parametrize(
    ("bound", "standing", "interval"),
    [
        (Bound("p99", 1.0), "passed", "[unknown, 51.3 ms], at most 1 s"),
        (Bound("p99", 0.04), "undecided", "[unknown, 51.3 ms], at most 40 ms: the interval contains the bound; only"),
        (Bound("throughput", 500.0), "passed", "[975/s, unknown], at least 500/s"),
        (Bound("throughput", 2000.0), "undecided", "[975/s, unknown], at least 2,000/s: the interval contains"),
    ],
)
def test_ends_that_delays_of_the_generator_leave_open_are_unknown(bound, standing, interval):
    (check,) = judge(with_reason("new", "starved"), bounds=[bound]).checks
    assert check.standing == standing
    assert interval in check.why
    assert ("more runs do not help" in check.why) == (standing == "undecided")


def test_a_comparison_of_survivors_is_not_won_by_those_that_crashed():
    fast = [RecordedRun(run.id, run.block, {}, run.run) for run in runs("new", factor=0.5)]
    dead = failed("new", 4, "store")
    new = [*fast[:4], *(RecordedRun(f"dead{n}", n, {}, run.run) for n, run in enumerate(dead))]
    compared = compare([Group("old", tuple(runs("old"))), Group("new", tuple(new))])
    assert {contrast.outcome for contrast in compared.contrasts} == {"inconclusive"}
    ratios = {contrast.measure.kind: contrast.ratio for contrast in compared.contrasts}
    assert ratios["throughput"].value > 1.5 and ratios["throughput"].low == 0
    assert ratios["p99"].low > 0 and ratios["p99"].high == math.inf
    assert "[unknown, " in lead(compared)[0]
    (warning,) = [warning for warning in compared.warnings if "the store failed" in warning.cause]
    assert "in 4 of 8 runs of new: dead0, dead1, dead2, dead3: node-0 ended" in warning.cause
    assert "the store failed in 4 runs of new" in lead(compared)[0]
    assert compared.as_dict()["failed"]["new"][0] == {"run": "dead0", "reason": "node-0 ended"}
    # The surviving runs are slower, so the result is worse despite the failed ones.
    slow = [*runs("new", factor=2.0)[:4], *new[4:]]
    worse = compare([Group("old", tuple(runs("old"))), Group("new", tuple(slow))])
    assert {contrast.outcome for contrast in worse.contrasts} == {"worse"}
    # The baseline's own crashes do not make its survivors better.
    turned = compare([Group("new", tuple(new)), Group("old", tuple(runs("old")))])
    assert {contrast.outcome for contrast in turned.contrasts} == {"inconclusive"}
    assert all(
        contrast.ratio.high == math.inf for contrast in turned.contrasts if contrast.measure.kind == "throughput"
    )


def test_failed_runs_with_figures_leave_the_interval_closed_but_do_not_win():
    new = [*runs("new", 5, factor=0.5), *with_reason("new", "node_lost")[5:]]
    change(new[-1], response=replace(new[-1].operations("mixed")["read"].response, p99=0.02))
    compared = compare([Group("old", tuple(runs("old"))), Group("new", tuple(new))], ["p99"])
    (contrast,) = compared.contrasts
    assert (contrast.failed, contrast.missing, contrast.of_survivors) == ((0, 1), (0, 0), (False, False))
    assert contrast.ratio == contrast.estimate.ratio
    assert contrast.ratio.high < 1
    assert (contrast.outcome, contrast.p) == ("inconclusive", 1.0)
    assert "the store failed in runs, so no advantage is claimed" in advice(compared)[0]
    assert "without failures" not in lead(compared)[0]


def test_response_times_of_successes_do_not_win_where_more_requests_fail():
    new = with_reason("new", "errors", 0.05)
    for run in new:
        change(run, response=replace(run.operations("mixed")["read"].response, p99=0.02))
    compared = compare([Group("old", tuple(runs("old"))), Group("new", tuple(new))], ["p99", "p50"])
    assert [contrast.outcome for contrast in compared.contrasts] == ["inconclusive", "alike"]
    assert "too many requests of new failed: this figure does not include them" in lead(compared)[0]


@pytest.mark.parametrize(("share", "kind"), [(0.05, "p99"), (1.0, "p50")])
def test_one_run_without_the_failed_requests_is_enough_to_hide_a_percentile(share, kind):
    """All runs together have fewer failures than the percentile may miss, but each run counts as much as the others."""
    new = [*runs("new", factor=0.5), *with_reason("new", "errors", share, 1)]
    if share == 1:
        change(new[-1], response=Latency())
        # Other requests succeed, so the run as a whole did not fail.
        (phase,) = new[-1].run.summary.phases
        others = {**phase.operations, "list": runs("new", 1)[0].operations("mixed")["read"]}
        new[-1].run.__dict__["summary"] = replace(new[-1].run.summary, phases=(replace(phase, operations=others),))
    compared = compare([Group("old", tuple(runs("old"))), Group("new", tuple(new))], [kind])
    (contrast,) = [contrast for contrast in compared.contrasts if contrast.measure.operation == "read"]
    assert (contrast.failed, contrast.blind, contrast.outcome) == ((0, 0), (False, True), "inconclusive")
    assert check_of(judge(new, bounds=[Bound(kind, 1.0)]), "read").standing == "undecided"


def test_runs_without_documents_do_not_make_the_others_better():
    def stored(made, documents):
        for run, count in zip(made, documents, strict=True):
            change(run, documents=count, documents_per_second=float(count))
        return made

    new = stored(runs("new"), [0, 0, 2000, 2010, 2020, 1990])
    old = stored(runs("old"), [1000, 1010, 1020, 990, 1000, 1005])
    compared = compare([Group("old", tuple(old)), Group("new", tuple(new))], ["documents"])
    assert [contrast.outcome for contrast in compared.contrasts] == ["inconclusive"]


def test_shares_of_failures_have_arithmetic_means_on_both_sides():
    def with_failures(side, *failures):
        return [run for count in failures for run in counted(runs(side, 1), 10_000, count)]

    sides = [Group("old", tuple(with_failures("old", 0, 400, 400, 400))),
             Group("new", tuple(with_failures("new", 4, 400, 400, 400)))]  # fmt: skip
    compared = compare(sides, ["errors"])
    (contrast,) = compared.contrasts
    assert [mean.value for mean in contrast.means] == pytest.approx([0.03, 0.0301])
    assert all(0 < mean.low < mean.value < mean.high for mean in contrast.means)
    assert "new 3.01 %, old 3.00 %, +0.010 percentage points; " in sentence(contrast, compared)
    assert "Shares of failed requests are arithmetic means" in note(compared)
    assert "arithmetic" not in note(compare(sides, ["throughput"]))


def test_rounding_errors_between_equal_values_are_no_worsening():
    estimate = RatioEstimate(Estimate(1.0, 1.0, 1.0), 1.8e-15, 0.0, 8, 1.0, 1.0, "unpaired", 0.0, (1, 1))
    for kind, sign in (("p99", 1), ("throughput", -1)):
        assert one_sided_p(replace(estimate, log_ratio=sign * 1.8e-15), Measure("mixed", kind, "read")) == 1
        assert one_sided_p(replace(estimate, log_ratio=sign * 0.1), Measure("mixed", kind, "read")) == 0


def test_negative_figures_are_not_dropped_in_silence():
    new = runs("new")
    change(new[0], response=Latency(p50=-5.0, p99=-5.0))
    gate = judge(new, runs("old"), kinds=["p50"])
    assert check_of(gate, "whether there is any").standing == "undecided"


def slowest(made, time, requests, duration=None):
    for number, run in enumerate(made):
        change(run, response=Latency(max=time * SPREAD[number], count=requests), requests=requests, successes=requests)
        summary = run.run.summary
        phases = tuple(replace(phase, duration=duration or phase.duration) for phase in summary.phases)
        run.run.__dict__["summary"] = replace(summary, phases=phases)
    return made


@pytest.mark.parametrize(
    ("duration", "requests", "words"),
    [(400.0, 20_000, "less time"), (None, 400_000, "fewer requests"), (400.0, 400_000, "fewer requests and less time")],
)
def test_a_larger_maximum_of_many_more_requests_shows_no_change(duration, requests, words):
    """20 times as many requests have a larger maximum, although the store did not change."""
    old, new = slowest(runs("old"), 1.0, 20_000, 20.0), slowest(runs("new"), 3.0, requests, duration or 20.0)
    compared = compare([Group("old", tuple(old)), Group("new", tuple(new))], ["max"])
    (contrast,) = compared.contrasts
    assert contrast.outcome == "inconclusive"
    assert f"old has {words}, so its maximum may be too small" in open_reason(contrast, compared.least)
    gate = judge(new, old, kinds=["max"])
    assert gate.standing == "undecided"
    assert f"the baseline had {words}, so its max may be too small" in check_of(gate, "max").why
    equal = judge(slowest(runs("new"), 3.0, 20_000, 20.0), old, kinds=["max"])
    assert equal.standing == "regression"
    # A short side that is equally slow, or slower, is decided only in one direction.
    turned = compare([Group("new", tuple(new)), Group("old", tuple(old))], ["max"])
    assert turned.contrasts[0].outcome == "inconclusive"
    assert f"old has {words}" in open_reason(turned.contrasts[0], turned.least)
    assert judge(old, new, kinds=["max"]).standing == "undecided"


def test_a_larger_maximum_of_fewer_requests_is_a_regression():
    """A stall of a closed loop halves the requests and multiplies the maximum."""
    old, new = slowest(runs("old"), 0.05, 20_000), slowest(runs("new", factor=2), 1.0, 10_000)
    gate = judge(new, old, kinds=["max", "errors"])
    assert check_of(gate, "max").standing == "regression"
    # The reverse is an improvement, so it passes.
    assert judge(old, new, kinds=["max"]).standing == "passed"
    compared = compare([Group("new", tuple(new)), Group("old", tuple(old))], ["max"])
    assert compared.contrasts[0].outcome == "better"


def test_a_baseline_that_lost_requests_shows_no_regression():
    """Its successes are faster than all of its requests, so a store that answers all of them seems slower."""
    new = runs("new")
    for run in new:
        change(run, response=replace(run.operations("mixed")["read"].response, p99=0.1))
    assert check_of(judge(new, runs("old")), "p99").standing == "regression"
    gate = judge(new, with_reason("old", "errors", 0.05))
    assert check_of(gate, "p99").standing == gate.standing == "undecided"
    assert "too many requests of the baseline failed" in check_of(gate, "p99").why
    # The median shows half of the requests, so 5 % do not matter.
    slow = runs("new", factor=2)
    assert check_of(judge(slow, with_reason("old", "errors", 0.05)), "p50").standing == "regression"


def test_nor_does_a_baseline_of_which_some_runs_had_no_success():
    nothing = {"read": {"throughput": 0.0, "p50": None, "p99": None}}
    old = [*runs("old", 5), made_up("old", 5, nothing, 10, failed=1.0, verdict=invalid("errors"))]
    gate = judge(runs("new", factor=2), old, kinds=["throughput"])
    assert check_of(gate, "throughput").standing == "undecided"


@pytest.mark.parametrize(("lost", "words"), [(0, "include none of these runs"), (1, "include 1 of these runs")])
def test_the_warning_of_failed_runs_says_whether_figures_include_them(lost, words):
    new = [*runs("new", 4), *(with_reason("new", "node_lost", count=5)[4:] if lost else failed("new", 1, "store"))]
    compared = compare([Group("old", tuple(runs("old"))), Group("new", tuple(new))], ["throughput"])
    assert len(compared.contrasts[0].second) == 4 + lost
    (warning,) = [warning for warning in compared.warnings if "the store failed" in warning.cause]
    assert words in warning.cause


def counted(made, requests, failures=0):
    """Set the number of requests and of failures of each run."""
    for run in made:
        change(run, requests=requests, successes=requests - failures)
    return made


def test_no_failure_in_few_requests_is_inconclusive_and_says_how_many_requests_decide():
    bounds = [Bound("errors", 0.001)]
    (few,) = [check for check in judge(counted(runs("new", 3), 330), bounds=bounds).checks if check.bound]
    assert few.standing == "undecided"
    assert few.why.endswith(
        ", at most 0.1 %: the interval contains the bound; 990 requests were counted, and about 2,995 are needed if as"
        " few fail"
    )
    assert judge(counted(runs("new", 3), 1000), bounds=bounds).standing == "passed"
    (apart,) = judge([*counted(runs("new", 2), 9000), *counted(runs("new", 3)[2:], 9000, 18)], bounds=bounds).checks
    assert apart.standing == "undecided"
    assert "the share differs between runs: make more runs" in apart.why


def test_errors_pass_only_where_a_rise_that_must_be_caught_is_excluded():
    few = check_of(judge(counted(runs("new"), 40), counted(runs("old"), 40)), "errors")
    assert few.standing == "undecided"
    assert "up to 1.24 % more are possible, beyond 1 %; 240 requests were counted, and about 299" in few.why
    assert check_of(judge(counted(runs("new"), 60), counted(runs("old"), 60)), "errors").standing == "passed"
    alone = check_of(judge(runs("new", 1), runs("old")), "errors")
    assert (alone.standing, "a single run" in alone.why) == ("undecided", True)


def test_a_share_of_errors_at_its_bound_seldom_passes():
    """Runs differ in their true share by a third; 0.1 % fail on average, and the bound is 0.1 %."""
    random = np.random.default_rng(4)
    passed = 0
    for _ in range(300):
        new = runs("new", 5)
        for run in new:
            share = random.gamma(9, 0.001 / 9)
            counted([run], 20_000, int(random.binomial(20_000, share)))
        passed += judge(new, bounds=[Bound("errors", 0.001)]).standing == "passed"
    assert passed / 300 < 0.09, "5 %, and three standard errors"


def test_small_shares_of_failures_keep_their_digits():
    old, new = runs("old"), runs("new")
    for number, run in enumerate(old):
        counted([run], 1_000_000, [5, 6, 4, 5, 6, 5][number])
    for number, run in enumerate(new):
        counted([run], 1_000_000, [50, 55, 45, 52, 51, 49][number])
    compared = compare([Group("old", tuple(old)), Group("new", tuple(new))], ["errors"])
    (contrast,) = compared.contrasts
    assert "new 0.0050 %, old 0.00052 %, +0.0045 percentage points; new is worse" in sentence(contrast, compared)
    assert means_cells(contrast)[0].text == "0.00052 %"
    gate = judge(new, old, kinds=["errors"])
    assert check_of(gate, "errors").why.startswith("0.00052 % and now 0.0050 % of the requests failed")


def test_an_end_that_the_text_calls_unknown_has_no_number():
    compared = compare([Group("old", tuple(runs("old"))), Group("new", tuple(runs("new")))], ["p50"])
    (contrast,) = compared.contrasts
    means = (Estimate(2.0, 1e-5, 3.0), Estimate(2.0, 1.0, 5000.0))
    cells = means_cells(replace(contrast, means=means))
    assert [cell.small for cell in cells] == ["[unknown, 3 s]", "[1 s, unknown]"]
    assert [(cell.number.low, cell.number.high) for cell in cells] == [(None, 3.0), (1.0, None)]


def tailed(side, requests, seed, factor=1.0):
    """Runs with numbers of requests by operation, whose response times are of one heavy-tailed distribution."""
    random, made = np.random.default_rng(seed), []
    for number in range(6):
        figures = {}
        for name, count in requests.items():
            times = 0.01 * factor * np.exp(random.standard_normal(count))
            # As recorded: the median of an even number is the lower one.
            p50, p99 = np.quantile(times, 0.5, method="inverted_cdf"), np.quantile(times, 0.99)
            figures[name] = Latency(count, p50=float(p50), p99=float(p99))
        values = {name: {"throughput": 10.0, "p50": it.p50, "p99": it.p99} for name, it in figures.items()}
        run = made_up(side, number, values, 2 * number + (side == "new"))
        (phase,) = run.run.summary.phases
        operations = {
            name: replace(it, response=figures[name], requests=figures[name].count, successes=figures[name].count)
            for name, it in phase.operations.items()
        }
        run.run.__dict__["summary"] = replace(run.run.summary, phases=(replace(phase, operations=operations),))
        made.append(run)
    return made


@pytest.mark.parametrize("count", [200, 2000])
def test_a_percentile_of_a_baseline_with_too_few_requests_shows_no_worsening(count):
    """The p99 of 13 requests is about their maximum, which is too low."""
    few = {"read": 13, "scan": 13}
    old, new = tailed("old", few, 1), tailed("new", dict.fromkeys(few, count), 2)
    compared = compare([Group("old", tuple(old)), Group("new", tuple(new))], ["p99"])
    assert [contrast.outcome for contrast in compared.contrasts] == ["inconclusive"] * 2
    gate = judge(new, old, kinds=["p99"])
    assert [check.standing for check in gate.checks] == ["undecided"] * 3
    for check in gate.checks:
        assert "the baseline had fewer requests, so its p99 may be too small" in check.why
        assert "too few requests: 13 in a run, and p99 needs at least 1,000" in check.why
    # Against as few requests, a worsening counts.
    assert judge(tailed("new", few, 2, factor=20.0), old, kinds=["p99"]).standing == "regression"


def test_a_median_of_two_requests_is_not_compared_with_one_of_many():
    few, many = {"read": 2}, {"read": 2000}
    slower = [judge(tailed("new", many, seed), tailed("old", few, 50 + seed), kinds=["p50"]) for seed in range(10)]
    assert "regression" not in [gate.standing for gate in slower]
    hidden = [
        judge(tailed("new", few, seed, 1.25), tailed("old", many, 50 + seed), kinds=["p50"]) for seed in range(10)
    ]
    assert "passed" not in [gate.standing for gate in hidden]


def test_operations_with_one_request_per_run_pass_by_p50_and_leave_the_joint_check():
    often = {"read": 20_000, "scan": 20_000}
    sides = [tailed(side, often | {"merge": 1}, seed) for seed, side in enumerate(("new", "old"))]
    gate = judge(*sides, kinds=["p50", "p99"], bounds=[Bound("p50", 10.0)])
    merge = check_of(gate, "merge p50 against baseline").why
    assert "too few requests" not in merge
    assert check_of(gate, "merge p50 bound").standing == "passed"
    assert check_of(gate, "merge p99").standing == "undecided"
    joint = check_of(gate, "p99 of the 2 measures with enough requests")
    assert joint.standing == "passed"
    # Without any operation with enough requests, the joint check is inconclusive.
    rare = [tailed(side, dict.fromkeys(often, 500), seed) for seed, side in enumerate(("new", "old"))]
    joint = check_of(judge(*rare, kinds=["p99"]), "p99 of all 2 measures together")
    assert joint.standing == "undecided"
    assert "too few requests: 500 in a run" in joint.why
