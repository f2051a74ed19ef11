"""Judgement of a run as a trial of its rate: generator faults do not count against the store."""

from dataclasses import replace

import pyarrow as pa
import pytest

from loadframe.analyze.capacity import Outcome, Slo, judge
from loadframe.base.errors import BadInput
from loadframe.record import Run, Summary
from loadframe.record.reader import set_aside
from loadframe.record.schema.figures import Latency
from made_up_runs import invalid
from simulated import Truth, write_run

#: 8 in flight at 100/s are answered in about 80 ms.
TRUTH = Truth(lam=12.5, sigma=0.0, kappa=0.0, noise=0.0, rate=100.0)


STATISTICS = ("mean", "p50", "p90", "p99", "p999", "max")


class Judged(Run):
    """A run with the verdict and generator state that a test sets."""

    def __init__(self, path, codes=(), late=0.0):
        super().__init__(path)
        generator = replace(self.summary.generator, achieved=1.0, lateness_p99=late, lag_p99=0.0)
        phases = tuple(
            replace(phase, operations={name: served(it, late) for name, it in phase.operations.items()})
            for phase in self.summary.phases
        )
        self.__dict__["summary"] = replace(self.summary, verdict=invalid(*codes), generator=generator, phases=phases)

    @property
    def histograms(self):
        """Lost, so that bounds rest on the summary."""
        raise BadInput("the histograms are lost")


def served(operation, late):
    """Return an operation with service times shorter than its response times by the lateness."""
    times = {key: max((operation.response.at(key) or 0.0) - late, 1e-4) for key in STATISTICS}
    return replace(operation, service=replace(operation.response, **times))


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_run(tmp_path_factory.mktemp("runs"), "r", TRUTH).path


def outcome(path, limit, *codes, late=0.0):
    return judge(Judged(path, codes, late), Slo(response=limit), ["range_100"], 100).outcome


def test_a_run_within_the_slo_passes_and_one_beyond_it_fails(path):
    assert outcome(path, 0.5) is Outcome.PASSED
    assert outcome(path, 0.05) is Outcome.FAILED


def test_a_pass_with_a_late_generator_is_a_pass(path):
    assert outcome(path, 0.5, "lateness", "starved") is Outcome.PASSED


def test_a_failure_by_less_than_the_generators_lateness_is_inconclusive(path):
    assert outcome(path, 0.1, "lateness", late=0.1) is Outcome.INVALID
    assert outcome(path, 0.05, "lateness", late=0.002) is Outcome.FAILED


def test_a_failure_with_a_saturated_generator_is_inconclusive(path):
    judged = judge(Judged(path, ["generator_cpu"]), Slo(response=0.05), ["range_100"], 100)
    assert (judged.outcome, judged.reasons) == (Outcome.INVALID, ("because of generator_cpu",))


def test_a_cluster_in_the_wrong_state_is_inconclusive(path):
    assert outcome(path, 0.5, "cluster_state") is Outcome.INVALID


def test_faults_of_the_store_do_not_excuse_a_failure(path):
    assert outcome(path, 0.05, "unsteady", "not_achieved", "errors") is Outcome.FAILED


def test_failed_requests_fail_a_trial(tmp_path):
    run = write_run(tmp_path, "r", replace(TRUTH, failed_share=0.05))
    judged = judge(run, Slo(response=10.0), ["range_100"], 100)
    assert judged.outcome is Outcome.FAILED
    assert "of the requests failed" in judged.reasons[0]


def test_failures_that_were_slow_fail_an_slo_on_all_requests_only(tmp_path):
    """Failures take 130 ms or more where successes take 80 ms; 5 % of the requests fail."""
    run = write_run(tmp_path, "r", replace(TRUTH, failed_share=0.05))
    operation = run.summary.phases[0].operations["range_100"]
    limit = (operation.response.p99 + operation.all.p99) / 2
    assert operation.response.p99 < limit < operation.all.p99
    for of, outcome in (("successes", Outcome.PASSED), ("all", Outcome.FAILED), ("failures", Outcome.FAILED)):
        judged = judge(run, Slo(response=limit, errors=0.1, of=of), ["range_100"], 100)
        assert judged.outcome is outcome
    assert "p99 of failed requests was" in judged.reasons[0]


def test_where_nothing_failed_no_failure_was_slow(path):
    assert judge(Judged(path), Slo(response=0.5, of="failures"), ["range_100"], 100).outcome is Outcome.PASSED


def test_a_run_that_was_recorded_without_failures_times_says_nothing_of_them(path):
    run = Judged(path)
    (phase,) = run.summary.phases
    operations = {name: replace(operation, all=None) for name, operation in phase.operations.items()}
    run.__dict__["summary"] = replace(run.summary, phases=(replace(phase, operations=operations),))
    judged = judge(run, Slo(response=0.5, of="all"), ["range_100"], 100)
    assert judged.outcome is Outcome.INVALID
    assert judged.reasons == ("the run was recorded without the response times of all requests",)


def test_requests_that_pile_up_are_those_of_all_workers_where_only_the_worst_have_rows(path):
    run = Judged(path)
    (phase,) = run.summary.phases
    slo = Slo(response=0.5)
    assert judge(run, slo, ["range_100"], 100).outcome is Outcome.PASSED
    seconds = [phase.begin + second for second in range(int(phase.duration))]
    sums = pa.table(
        {
            "time": pa.array(seconds, pa.float64()),
            "source": ["workers"] * len(seconds),
            "metric": ["in_flight"] * len(seconds),
            "value": [1000.0 + 50.0 * second for second in range(len(seconds))],
            "machine": pa.nulls(len(seconds), pa.string()),
        }
    )
    telemetry = run.telemetry
    run.__dict__["telemetry"] = pa.concat_tables([telemetry, sums.cast(telemetry.schema)])
    judged = judge(run, slo, ["range_100"], 100)
    assert judged.outcome is Outcome.FAILED
    assert "in flight" in judged.reasons[0]


def two_operations(path, **changes):
    """Copy the run's operation under a second name."""
    run = Judged(path)
    (phase,) = run.summary.phases
    figures = phase.operations["range_100"]
    operations = {"critical": figures, "plan": replace(figures, **changes)}
    run.__dict__["summary"] = replace(run.summary, phases=(replace(phase, operations=operations),))
    return run


def test_operations_with_bounds_of_their_own_are_judged_by_them_and_the_others_by_the_general_ones(path):
    """Both take 80 ms."""
    for written, outcome, reasons in (
        ({"operations": {"critical": {"response": 0.5}}}, Outcome.PASSED, ()),
        ({"response": 0.05, "operations": {"plan": {"response": 1.0}}}, Outcome.FAILED, ("p99 was ",)),
        (
            {"response": 0.5, "operations": {"plan": {"response": 0.05, "percentile": "p50"}}},
            Outcome.FAILED,
            ("plan: p50",),
        ),
        (
            {"response": 0.05, "operations": {"plan": {"response": 0.05}}},
            Outcome.FAILED,
            ("plan: p99 was ", "p99 was "),
        ),
        ({"response": 0.5, "operations": {"plan": {"errors": 0.5}}}, Outcome.PASSED, ()),
    ):
        judged = judge(two_operations(path), Slo.read(written), ["range_100"], 100)
        assert judged.outcome is outcome, written
        assert [words.startswith(begin) for words, begin in zip(judged.reasons, reasons, strict=True)] == [True] * len(
            reasons
        )
    nearest = judge(
        two_operations(path), Slo.read({"response": 0.5, "operations": {"plan": {"response": 0.2}}}), ["range_100"], 100
    )
    assert (nearest.operation, nearest.limit) == ("plan", 0.2), "the verdict names the response nearest to its limit"


def test_errors_of_an_operation_of_which_nothing_is_asked_fail_no_trial(path):
    run = two_operations(path, errors={"server": 10_000})
    critical = {"operations": {"critical": {"response": 0.5}}}
    assert judge(run, Slo.read(critical), ["range_100"], None).outcome is Outcome.PASSED
    assert judge(run, Slo.read(critical | {"response": 0.5}), ["range_100"], None).outcome is Outcome.FAILED
    assert judge(run, Slo.read({"response": 0.5}), ["range_100"], None).outcome is Outcome.FAILED


@pytest.mark.parametrize("of", ["successes", "all"])
def test_an_operation_that_never_succeeds_fails_a_trial_however_rare_it_is(path, of):
    """All 5 requests of `plan` failed. The other operation had 500 successes, so 1 % of all requests failed."""
    times = Latency(count=0)
    rare = {"requests": 5, "successes": 0, "response": times, "all": times, "service": times}
    slo = Slo(response=0.5, errors=0.02, of=of)
    for changes in ({"errors": {"server": 5}}, {"requests": 0, "in_flight_at_end": 5}, {"requests": 0, "dropped": 5}):
        judged = judge(two_operations(path, **rare | changes), slo, ["range_100"], 100)
        assert (judged.outcome, judged.errors) == (Outcome.FAILED, 1.0)
        assert "plan: 100.00 % of the requests " in " ".join(judged.reasons)
    assert [(count.operation, count.failed) for count in judged.counts] == [("critical", 0), ("plan", 5)]


def test_a_run_without_requests_of_the_bounded_operation_is_inconclusive(path):
    judged = judge(two_operations(path), Slo.read({"operations": {"total": {"response": 1.0}}}), ["range_100"], None)
    assert (judged.outcome, judged.reasons) == (
        Outcome.INVALID,
        ("the run lacks requests of total, which has separate limits",),
    )


def with_unanswered(path, count, clients=40, **slo):
    """Judge the run as a run of 40 users with `count` requests unanswered at its end."""
    run = two_operations(path)
    (phase,) = run.summary.phases
    operations = {"critical": replace(phase.operations["critical"], in_flight_at_end=count)}
    stream = replace(phase.streams[0], pacing={"users": {"users": clients, "clients": clients, "think_time": 0.2}})
    run.__dict__["summary"] = replace(run.summary, phases=(replace(phase, operations=operations, streams=(stream,)),))
    return judge(run, Slo(**{"response": 0.5, **slo}), ["range_100"], None)


def test_users_that_still_wait_at_the_end_fail_a_number_of_users(path):
    """A hundred times as many requests had been answered by then."""
    judged = with_unanswered(path, 40, errors=0.2)
    assert judged.outcome is Outcome.FAILED
    assert judged.reasons == (
        "in phase range_100 40 of 40 users were without an answer at the end",
        "40 of 40 users still waited for an answer at the end",
    )
    few = with_unanswered(path, 10, errors=0.2)
    assert (few.outcome, few.reasons) == (Outcome.FAILED, ("10 of 40 users still waited for an answer at the end",))
    assert with_unanswered(path, 0).outcome is Outcome.PASSED


def test_requests_without_an_answer_are_among_the_errors(path):
    judged = with_unanswered(path, 40, clients=100_000)
    assert judged.outcome is Outcome.FAILED
    assert judged.errors == pytest.approx(40 / (40 + 500), rel=0.1)
    assert "% of the requests were unanswered at the end, at least 1 %" in judged.reasons[0]


def test_requests_dropped_at_the_limit_in_flight_are_not_said_to_have_failed(path):
    for failed, fate in ((0, "were dropped at the limit on requests in flight"), (10, "failed (")):
        run = two_operations(path)
        (phase,) = run.summary.phases
        figures = replace(phase.operations["critical"], dropped=40, errors={"http": failed} if failed else {})
        run.__dict__["summary"] = replace(run.summary, phases=(replace(phase, operations={"critical": figures}),))
        (words, *_) = judge(run, Slo(response=0.5), ["range_100"], 100).reasons
        assert f"% of the requests {fate}" in words
        assert "dropped at the limit on requests in flight" in words


def test_requests_without_an_answer_are_slower_than_any_limit_on_all_requests(path):
    judged = with_unanswered(path, 40, clients=100_000, errors=0.5, of="all")
    assert judged.outcome is Outcome.FAILED
    assert judged.reasons == ("too many requests had no answer for p99 of all requests to be within 500 ms",)
    assert judged.response is None
    assert with_unanswered(path, 40, clients=100_000, errors=0.5).outcome is Outcome.PASSED


@pytest.mark.parametrize("code", ["node_lost", "copies_lost", "documents_lost"])
def test_a_store_that_failed_has_not_sustained_its_load_whatever_the_generator_did(path, code):
    judged = judge(Judged(path, [code, "generator_cpu"]), Slo(response=0.5), ["range_100"], 100)
    assert (judged.outcome, judged.reasons) == (Outcome.FAILED, (f"because of {code}",))


def test_a_run_that_the_store_broke_fails_its_rate_and_one_that_the_generator_broke_says_nothing(path):
    for fault, outcome in (("store", Outcome.FAILED), ("generator", Outcome.INVALID), (None, Outcome.INVALID)):
        run = Judged(path)
        run.__dict__["summary"] = Summary("failed", "node-0 ended", fault)
        judged = judge(run, Slo(response=0.5), ["range_100"], 100)
        assert (judged.outcome, judged.reasons) == (outcome, ("node-0 ended",))


def test_a_trial_whose_earlier_attempt_the_store_failed_has_failed(tmp_path):
    """Making a run again does not undo its failure."""
    run = write_run(tmp_path / "runs", "r", TRUTH, lost=["node-0 is gone"])
    set_aside(tmp_path, run.path)
    again = write_run(tmp_path / "runs", "r", TRUTH)
    judged = judge(again, Slo(response=0.5), ["range_100"], 100)
    assert judged.outcome is Outcome.FAILED
    assert judged.reasons == ("in attempt 1: the store did not survive the load: node-0 is gone",)


def saturated(path, **figures):
    """The run of a saturated generator, with some figures of its operation changed."""
    run = Judged(path, ["generator_cpu"])
    (phase,) = run.summary.phases
    operations = {name: replace(operation, **figures) for name, operation in phase.operations.items()}
    run.__dict__["summary"] = replace(run.summary, phases=(replace(phase, operations=operations),))
    return judge(run, Slo(response=0.5), ["range_100"], 100)


def test_errors_that_a_saturated_generator_can_have_caused_say_nothing(path):
    assert saturated(path, dropped=100).outcome is Outcome.INVALID
    assert saturated(path, errors={"timeout": 100}).outcome is Outcome.INVALID
    assert saturated(path, errors={"server": 100}).outcome is Outcome.FAILED


def test_requests_in_flight_that_grow_by_less_than_the_delays_of_the_generator_say_nothing(path, monkeypatch):
    """At 100/s over 5 s, delays of 80 ms can leave 8 more requests in flight: 1.6/s."""
    for codes, growth, outcome in (
        ((), 1.0, Outcome.FAILED),
        (("generator_cpu",), 1.0, Outcome.INVALID),
        (("generator_cpu",), 20.0, Outcome.FAILED),
        (("lateness",), 20.0, Outcome.FAILED),
    ):
        monkeypatch.setattr("loadframe.analyze.capacity.criteria._growth", lambda run, phase, growth=growth: growth)
        assert judge(Judged(path, codes), Slo(response=0.5), ["range_100"], 100).outcome is outcome
