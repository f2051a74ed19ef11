"""The definition of a store failure in a run, shared by all analyses."""

import json

import pytest

from loadframe.analyze.experiment import RecordedRun
from loadframe.analyze.failures import chance_of_more, failures
from loadframe.analyze.verdict.rules import documents_lost
from loadframe.record import Run, Summary
from loadframe.record.schema.figures import StoredEvents
from loadframe.record.schema.summary import RecordedReason, RecordedVerdict
from made_up_runs import MadeUp, invalid, operation, phase, summary
from simulated import Truth, write_run

DIFFERENCE = "trips holds 1,998 documents, but 2,000 were acknowledged"


def verdict(code, cause):
    return RecordedVerdict(False, (RecordedReason(code, cause, "mend it"),))


def kinds(made):
    return [failure.kind for failure in failures(MadeUp(made))]


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        (("documents_lost",), ["documents"]),
        (("missing_events",), ["documents"]),
        (("copies_lost",), ["copies"]),
        (("node_lost",), ["node"]),
        (("errors", "dropped", "left_over"), ["requests", "requests", "requests"]),
        (("change_failed",), ["change"]),
        # A silent machine takes replicas out of service; this is not a fault of the store.
        (("machine_silent", "copies_lost"), []),
        # These are faults of the generator and of the treatment.
        (("lateness", "cluster_state", "unsteady"), []),
    ],
)
def test_reasons_of_a_verdict_that_are_failures_of_the_store(codes, expected):
    assert kinds(summary(phase("a", {"get": operation(1.0)}), verdict=invalid(*codes))) == expected


def test_a_run_that_the_store_broke_has_failed_and_one_that_the_generator_broke_has_not():
    assert kinds(Summary("failed", "node-0 ended\n  its log", "store")) == ["run"]
    assert kinds(Summary("failed", "the generator panicked", "generator")) == []
    assert kinds(Summary("failed", "it broke", "unknown")) == []


def test_requests_without_an_answer_are_counted_and_do_not_fail_the_run():
    made = summary(phase("a", {"get": operation(9.0, in_flight_at_end=3)}, clients=6))
    (failure,) = failures(MadeUp(made))
    assert (failure.kind, failure.requests, failure.of_run) == ("unanswered", 3, False)


def test_a_run_at_whose_end_most_users_had_no_answer_has_failed():
    made = summary(phase("a", {"get": operation(9.0, in_flight_at_end=4)}, clients=6))
    assert kinds(made) == ["users", "unanswered"]
    assert failures(MadeUp(made))[0].words == "in phase a 4 of 6 users were without an answer at the end"


def test_a_phase_without_a_success_fails_the_run_and_one_without_a_request_does_not():
    nothing = operation(0.0, successes=0, requests=10, in_flight_at_end=2)
    assert kinds(summary(phase("a", {"get": nothing}, clients=4))) == ["success", "unanswered"]
    assert kinds(summary(phase("a", {"get": nothing, "put": operation(1.0)}, clients=4))) == ["unanswered"]
    assert kinds(summary(phase("a", {"get": operation(0.0, successes=0, requests=0)}))) == []


def test_phases_that_prepare_are_not_judged_beside_measured_ones():
    nothing = operation(0.0, successes=0)
    phases = phase("load", {"put": nothing}, prepares=True), phase("a", {"get": operation(1.0)})
    assert kinds(summary(*phases)) == []


def test_a_run_of_an_earlier_version_has_its_lost_documents_as_a_deviation():
    run = RecordedRun("r", 1, {}, MadeUp(summary(verdict=verdict("cluster_state", DIFFERENCE))))
    assert [reason.code for reason in run.reasons] == ["documents_lost"]
    assert (run.store_failed, run.sound, run.usable) == (True, True, False)
    assert run.why == "2 of 2,000 acknowledged documents are missing in trips"
    assert run.as_dict()["store_failures"] == [{"kind": "documents", "words": run.why, "requests": None}]


def test_a_single_document_that_is_left_is_read():
    reason = documents_lost("trips holds 1 document, but 2,000 were acknowledged")
    assert reason is not None and reason.figures["held"] == 1


def test_more_documents_than_acknowledged_are_a_deviation():
    more = "trips holds 2,001 documents, but 2,000 were acknowledged"
    run = RecordedRun("r", 1, {}, MadeUp(summary(verdict=verdict("cluster_state", more))))
    assert (run.store_failed, run.sound, run.fault) == (False, False, "cluster")


@pytest.mark.parametrize(("fault", "failed"), [(None, True), ("store", True), ("treatment", False)])
def test_a_change_that_the_store_did_not_make_is_its_failure(tmp_path, fault, failed):
    keys = {"step": 1, "change": "add 1", "cause": "node-1 did not come up within 60 s"}
    events = ((1.0, "change failed", keys | ({"fault": fault} if fault else {})),)
    told = "step 1, add 1, failed: node-1 did not come up within 60 s"
    # As earlier versions recorded it.
    run = write_run(tmp_path, "r", Truth(seconds=2, events=events), deviations=[told])
    assert [reason.code for reason in run.summary.verdict.reasons] == ["cluster_state"]
    assert [failure.kind for failure in failures(run)] == (["change"] if failed else [])
    assert RecordedRun("r", 1, {}, run).sound == failed


def test_lost_events_of_a_source_fail_the_run(tmp_path):
    stored = StoredEvents(collection="c", documents=9, events={"click": 9}, indexed=10, unique=True)
    run = write_run(tmp_path, "r", Truth(seconds=2), stored=[stored])
    assert [failure.kind for failure in failures(run)] == ["documents"]
    assert RecordedRun("r", 1, {}, Run(run.path)).sound
    json.dumps(RecordedRun("r", 1, {}, run).as_dict())


def test_chance_of_more_failed_runs_is_fishers():
    assert chance_of_more(4, 4, 0, 4) == pytest.approx(1 / 70)
    assert chance_of_more(1, 7, 0, 6) == pytest.approx(7 / 13)
    assert chance_of_more(0, 5, 2, 5) == 1
