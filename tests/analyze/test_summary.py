"""The summary of runs that the real engine made with the driver that answers at once."""

import itertools
import json
import threading

import pyarrow as pa
import pytest

from loadframe.analyze.experiment import RecordedRun
from loadframe.analyze.scale.treatments import main_operation
from loadframe.analyze.summary import first_failure, summarize, throughput_by_second
from loadframe.analyze.verdict.self_monitor import achieved_share, done_in_window
from loadframe.load import run_phase
from loadframe.record import Run, RunWriter, schema
from loadframe.record.schema.figures import FailureMessage
from loadframe.record.schema.summary import whole_seconds
from loadframe.report.labels import ended_early_texts, with_failures
from loopback_server import Handler, LoopbackServer


def record(tmp_path, *plans, deviations=(), ceiling=None):
    """Run phases and write the run as an experiment does; return it and its outcomes."""
    with RunWriter(tmp_path, "r1") as writer:
        outcomes = []
        for plan in plans:
            folder = writer.phase(plan["phase"], writer.elapsed())
            prepares = plan.pop("prepares", False)
            outcomes.append(run_phase(plan | {"began": writer.began}, folder, lambda _: None) | {"prepares": prepares})
        joined = writer.join()
        judged = summarize(joined.series, joined.histograms, outcomes, joined.telemetry, deviations, ceiling)
        manifest = {"format": schema.FORMAT}
        return Run(writer.finish(manifest, judged.as_dict())), outcomes


def plan(name, *streams, **parts):
    return {
        "seed": 1,
        "phase": name,
        "target": {"driver": "null"},
        "operations": {"a": {}, "b": {}},
        "streams": [
            {"name": f"s{i}", "mix": [["a", 1], ["b", 1]], "stop": {"duration": 2.0}} | stream
            for i, stream in enumerate(streams)
        ],
    } | parts


PACED = {"pacing": {"open": {"rate": 400.0}}}
FEW = {"pacing": {"closed": {"clients": 2, "think_time": 0.01}}}


@pytest.mark.slow
def test_a_phase_is_summed_over_its_measured_window_without_its_warm_up(tmp_path):
    run, outcomes = record(tmp_path, plan("p", PACED, FEW, warmup=1.0))
    phase = run.raw_summary["phases"][0]
    assert (phase["name"], phase["warmup"], phase["duration"]) == ("p", 1.0, 2.0)
    for name in ("a", "b"):
        operation = phase["operations"][name]
        counted = [entry for entry in outcomes[0]["operations"] if entry["operation"] == name]
        assert operation["requests"] == sum(entry["requests"] for entry in counted)
        # By the instants of the answers: a request that is sent in the window and answered after it is a success that
        # adds nothing to the throughput.
        answered = [
            row["successes"] for row in run.series.to_pylist() if row["operation"] == name and 1 <= row["second"] < 3
        ]
        assert operation["throughput"] == sum(answered) / 2
        assert operation["response"]["count"] == operation["successes"]
        assert operation["response"]["p50"] <= operation["response"]["p99"] <= operation["response"]["max"]
        assert operation["errors"] == {}
    total = sum(operation["requests"] for operation in phase["operations"].values())
    assert 800 < total < 1250  # 400/s in the open stream, at most 200/s from two thinking clients


def test_a_stream_that_ends_early_is_counted_by_its_own_time(tmp_path):
    few = {"pacing": {"open": {"rate": 100.0}}, "mix": [["a", 1]], "stop": {"requests": 51}}
    long = {"pacing": {"open": {"rate": 100.0}}, "mix": [["b", 1]], "stop": {"duration": 1.5}}
    run, outcomes = record(tmp_path, plan("p", few, long))
    phase = run.raw_summary["phases"][0]
    assert phase["duration"] == phase["streams"][1]["measured"] == 1.5
    # The last of 51 requests at 100/s is due after 0.5 s.
    assert phase["streams"][0]["measured"] == pytest.approx(0.5, abs=0.2)
    assert phase["operations"]["a"]["throughput"] == pytest.approx(51 / phase["streams"][0]["measured"])
    assert phase["operations"]["b"]["requests"] == 150
    (completed,) = (entry["completed"] for entry in outcomes[0]["operations"] if entry["operation"] == "b")
    assert phase["operations"]["b"]["throughput"] == pytest.approx(completed / 1.5)
    assert completed == pytest.approx(150, rel=0.2), "some may be answered after the window, on a busy machine"
    said = ended_early_texts(run.summary.phases[0])
    assert len(said) == 1
    assert said[0].startswith("stream s0 ran out of requests after ")


def test_failures_and_all_requests_have_percentiles(tmp_path):
    run, _ = record(tmp_path, plan("p", FEW))
    operation = run.raw_summary["phases"][0]["operations"]["a"]
    assert operation["failure"]["count"] == 0
    assert operation["failure"]["p99"] is None
    assert operation["all"] == operation["response"], "nothing failed"


def test_the_first_failure_is_that_of_any_class_in_any_second():
    none = {f"error_{error.name}": [0, 0, 0] for error in schema.ERROR_CLASSES}
    failing = {**none, "error_connect": [0, 1, 0], "error_item": [0, 0, 2], "error_unseen": [None, None, None]}
    tables = [
        pa.table({name: pa.array(counts, pa.int64()) for name, counts in {"second": [4, 7, 5], **columns}.items()})
        for columns in (none, failing)
    ]
    assert [first_failure(table) for table in tables] == [None, 5.0]


@pytest.mark.slow
def test_the_generators_figures_are_those_of_the_measured_window(tmp_path):
    run, _ = record(tmp_path, plan("p", PACED, warmup=1.0, threads=2))
    generator = run.raw_summary["generator"]
    assert generator["threads"] == 2
    assert 0 < generator["cpu_share"] <= generator["cpu_share_peak"] < 1
    # A busy machine does some of the warm-up's requests in the window, but never more than were left of them.
    operations = run.summary.phases[0].single.values()
    due, inherited = (sum(getattr(it, name) for it in operations) for name in ("due", "inherited"))
    assert 0.98 < generator["achieved"] <= 1 + (inherited + 1) / due
    assert 0 <= generator["lateness_p99"] < 0.1
    assert 0 <= generator["lag_p99"] < 0.1
    assert generator["lag_p99"] <= generator["longest_stall"] < 1
    assert 0 <= generator["away_share"] < 0.5


@pytest.mark.parametrize(
    ("warmup", "measured", "seconds"),
    [
        (0.0, 10.4, range(10)),
        (0.4, 10.0, range(1, 10)),
        (0.0, 0.4, range(0)),
        # Sums of floats end a rounding error before or after the second.
        (0.0, sum([0.1] * 10), range(1)),
        (sum([0.1] * 3) + 0.7, 2.0, range(1, 3)),
    ],
)
def test_truncated_seconds_do_not_count_as_whole(warmup, measured, seconds):
    assert whole_seconds(warmup, measured) == seconds


@pytest.mark.slow
def test_a_poisson_schedule_counts_as_achieved(tmp_path):
    # Their warm-up ends within a second, in which requests of both segments are done.
    poisson = {"pacing": {"open": {"rate": 100.0, "arrivals": "poisson"}}, "stop": {"duration": 0.4}}
    plans = [plan(f"p{seed}", poisson, warmup=0.1, seed=seed) for seed in range(6)]
    assert record(tmp_path, *plans)[0].summary.generator.achieved >= 0.99


@pytest.mark.parametrize(
    ("warm", "measured", "response", "share"),
    [
        # 100/s with a warm-up of 0.4 s, by second: requests due before and in the window that were done in it.
        ([40, 0, 0], [60, 100, 100], 0.001, 1.0),
        # Answers take 1.5 s: requests due in the warm-up end in the window and replace those still in flight.
        ([0, 40, 0], [0, 10, 100], 1.5, 1.0),
        # The store serves half of the rate. Its backlog does not count as achieved.
        ([40, 0, 0], [10, 50, 50], 0.2, 0.5),
    ],
)
def test_a_load_is_achieved_as_far_as_it_was_done_in_its_window(warm, measured, response, share):
    rows = [
        {"stream": "s", "segment": segment, "second": second, "requests": count, "dropped": 0, "response_p50": response}
        for segment, counts in (("warmup", warm), ("measure", measured))
        for second, count in enumerate(counts)
    ]
    due = 260
    outcome = {
        "streams": [{"name": "s", "pacing": {"open": {"rate": 100.0}}}],
        "operations": [{"stream": "s", "in_flight_at_end": due - sum(measured)}],
        "warmup": 0.4,
        "measured": 2.6,
    }
    assert achieved_share(outcome, pa.Table.from_pylist(rows)) == pytest.approx(share, abs=0.06)


def test_closed_pacing_offers_no_rate_to_achieve(tmp_path):
    run, _ = record(tmp_path, plan("p", FEW))
    assert run.raw_summary["generator"]["achieved"] is None


def test_phases_that_prepare_are_summed_but_not_judged(tmp_path):
    busy = {"pacing": {"closed": {"clients": 1}}, "stop": {"requests": 300000}}
    run, _ = record(tmp_path, plan("load", busy, prepares=True), plan("p", PACED))
    assert [phase["name"] for phase in run.raw_summary["phases"]] == ["load", "p"]
    assert [phase["prepares"] for phase in run.raw_summary["phases"]] == [True, False]
    assert "load" not in json.dumps(run.raw_summary["verdict"])
    assert run.raw_summary["verdict"]["not_judged"] == ["steadiness of phase p: 2 s is too short (20 s are needed)"]


def test_a_cluster_that_differs_makes_the_run_invalid(tmp_path):
    run, _ = record(tmp_path, plan("p", FEW), deviations=["1 node instead of 2"])
    assert not run.raw_summary["verdict"]["valid"]
    assert run.raw_summary["verdict"]["reasons"][0]["code"] == "cluster_state"


def test_a_run_near_the_calibrated_ceiling_is_doubted(tmp_path):
    run, _ = record(tmp_path, plan("p", PACED, threads=2), ceiling=220.0)
    assert run.raw_summary["generator"]["ceiling_share"] == pytest.approx(400 / 2 / 220, rel=0.05)
    assert "generator_ceiling" in [reason["code"] for reason in run.raw_summary["verdict"]["reasons"]]


def test_every_key_of_a_summary_is_documented(tmp_path):
    run, _ = record(tmp_path, plan("p", PACED, FEW), deviations=["1 node instead of 2"])
    assert schema.undocumented(run.raw_summary, schema.SUMMARY) == []


@pytest.mark.slow
def test_throughput_by_second_counts_whole_seconds_of_the_window(tmp_path):
    run, outcomes = record(tmp_path, plan("p", PACED, warmup=1.0))
    seconds = throughput_by_second(outcomes[0], run.series)
    assert seconds.tolist() == pytest.approx([400, 400], rel=0.1)


def test_operations_that_stand_for_several_requests_are_not_in_sums(tmp_path):
    steps = [{"timed": {"name": "both", "steps": [{"ask": {"operation": "a"}}, {"ask": {"operation": "b"}}]}}]
    pacing = {"users": {"users": 5, "clients": 2}}
    walking = {"name": "s", "mix": [], "steps": steps, "pacing": pacing, "stop": {"journeys": 4}}
    run, outcomes = record(tmp_path, plan("p", walking))
    (phase,) = run.summary.phases
    assert {name: (figures.requests, figures.of_several) for name, figures in phase.operations.items()} == {
        "a": (20, False),
        "b": (20, False),
        "both": (20, True),
    }
    assert list(phase.single) == ["a", "b"]
    assert phase.throughput == pytest.approx(40 / phase.duration)
    # The part of a whole is not slower than the whole.
    assert phase.operations["both"].response.mean >= phase.operations["a"].response.mean
    assert main_operation([RecordedRun("r1", 1, {}, run)], "p") == "both"
    assert outcomes[0]["operations"][2]["of_several"] is True


def test_windows_shorter_than_two_response_times_leave_the_achieved_share_unknown():
    seconds = [{"second": second, "segment": "measure", "requests": 100, "dropped": 0} for second in range(4)]
    rows = {p50: pa.Table.from_pylist([row | {"response_p50": p50} for row in seconds]) for p50 in (0.1, 1.9, 2.1)}
    shares = {p50: done_in_window(table, 100, 0.0, 4.0) for p50, table in rows.items()}
    assert shares == {0.1: pytest.approx(0.8), 1.9: 1.0, 2.1: None}


def test_a_share_that_was_achieved_is_neither_capped_nor_raised():
    def share(requests, due, p50):
        rows = [
            {"second": second, "segment": segment, "requests": count, "dropped": 0, "response_p50": p50}
            for segment, counts in requests.items()
            for second, count in enumerate(counts)
        ]
        return done_in_window(pa.Table.from_pylist(rows), due - sum(requests["measure"]), 1.0, 10.0)

    # 100/s: a backlog of the warm-up is answered in the window, too.
    assert share({"warmup": [0, 100, 100], "measure": [0, *[100] * 10]}, 1000, 0.1) == pytest.approx(1.2)
    # Nearly nothing is answered; a slow first answer does not make up for it.
    assert share({"warmup": [1], "measure": [0, 1]}, 1000, 2.8) == pytest.approx(0.001)


@pytest.mark.parametrize(
    ("late", "unanswered", "share"),
    [
        # About four requests are in flight at any instant.
        (6, 0, 1.0),
        # The backlog grows.
        (30, 0, 0.86),
        # Requests that are never answered are missing.
        (0, 4, 0.99),
        (0, 6, 0.98),
    ],
)
def test_requests_in_flight_at_the_end_of_a_short_window_are_not_missing(late, unanswered, share):
    # 40/s for 5 s after a warm-up of 1 s; answers take 0.1 s, or more where the backlog grows.
    missing = late + unanswered
    counts = {("warmup", 0): 38, ("warmup", 1): 2, ("measure", 5): 40 - missing, ("measure", 6): late}
    counts |= {("measure", second): 40 for second in range(1, 5)}
    rows = [
        {"operation": "o", "segment": segment, "second": second, "requests": count, "dropped": 0}
        | {"response_p50": 0.1 + missing / 100 * second}
        for (segment, second), count in counts.items()
    ]
    assert done_in_window(pa.Table.from_pylist(rows), unanswered, 1.0, 5.0) == pytest.approx(share)


class SometimesSilent(Handler):
    """Answers quickly, except every 25th request: never."""

    done = itertools.count(1)
    ends = threading.Event()

    def do_GET(self):
        if not next(self.done) % 25:
            self.ends.wait()
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()


@pytest.mark.slow
def test_requests_without_an_answer_count_with_their_wait_among_all(tmp_path):
    paced = {"pacing": {"open": {"rate": 100.0, "arrivals": "constant"}}, "mix": [["a", 1]]}
    with LoopbackServer(SometimesSilent) as server:
        target = {"driver": "http", "hosts": [server.address], "timeout": 60}
        silent = plan("p", paced, target=target, operations={"a": {"http": {"method": "GET", "path": "/"}}}, drain=3.0)
        run, _ = record(tmp_path, silent)
        SometimesSilent.ends.set()
    operation = run.raw_summary["phases"][0]["operations"]["a"]
    assert operation["in_flight_at_end"] == 8, "4 % of 200"
    assert operation["response"]["p99"] < 3 <= operation["all"]["p99"], "successes alone look healthy"
    assert operation["all"]["count"] == operation["requests"] + 8 == 200
    assert operation["all"]["max"] <= 2 + 3 + 1
    assert with_failures(run.summary.phases[0].operations["a"]).p99 == operation["all"]["p99"]


def test_a_phase_without_operations_has_no_set_up_times(tmp_path):
    run, (outcome,) = record(tmp_path, plan("p", FEW))
    rows = run.series.slice(0, 0)
    empty = summarize(rows, run.histograms, [outcome | {"operations": []}], run.telemetry, (), None)
    (phase,) = empty.phases
    assert phase.operations == {}
    assert phase.setup.count == 0


def test_the_same_failure_in_two_streams_is_one_message(tmp_path):
    short = FEW | {"stop": {"duration": 0.5}}
    run, (outcome,) = record(tmp_path, plan("p", short, short))
    failed = {"class": "client", "measured": True, "status": 401}
    counts = {"s0": 2, "s1": 30}
    operations = [
        entry | {"errors": [failed | {"message": f"token {count} expired", "count": count}]}
        for entry in outcome["operations"]
        for count in (counts[entry["stream"]],)
    ]
    judged = summarize(run.series, run.histograms, [outcome | {"operations": operations}], run.telemetry, (), None)
    assert judged.phases[0].operations["a"].messages == (FailureMessage("client", "token 2 expired", 32, 401),)
