"""Verdicts and report sentences on external events."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from loadframe.analyze.summary import NO_SPILL, summarize
from loadframe.analyze.verdict.judge import JudgedPhase, judge
from loadframe.analyze.verdict.rules import UNREAD
from loadframe.analyze.verdict.self_monitor import unread_share
from loadframe.load import run_phase
from loadframe.record import RunWriter
from loadframe.record.schema.figures import SourceFigures, StoredEvents
from loadframe.record.schema.summary import GeneratorFigures, StreamSummary
from loadframe.report.labels import sources_texts
from loadframe.report.sections import stored_text
from made_up_runs import operation, phase

GENERATOR = GeneratorFigures(threads=1, cpu_share=0.1, cpu_share_peak=0.1, waited_share=0.0)
ALL_THERE = SourceFigures(lines=100, accepted=90, indexed=80, dead_letters={"not JSON": 10, "refused": 10})


def streamed(source):
    stream = StreamSummary("take_in", {"source": {"source": "ads", "workers": 4}})
    return replace(phase("ingest", {"take_in": operation(10.0)}), streams=(stream,), sources={"ads": source})


def verdict(source, *, disturbed=False):
    # It falls by half: the store's doing in other loads, and here the sender's.
    falling = np.linspace(100.0, 50.0, 40)
    return judge([JudgedPhase(streamed(source), GENERATOR, falling)], (), disturbed=disturbed)


def test_a_stream_whose_events_are_all_in_the_store_is_valid():
    judged = verdict(ALL_THERE)
    assert not judged.reasons
    assert judged.not_judged == ("steadiness of phase ingest: its sources determine the load",)


@pytest.mark.parametrize("disturbed", [False, True])
def test_events_that_are_left_over_make_a_run_invalid_whatever_happened_to_the_cluster(disturbed):
    (reason,) = verdict(replace(ALL_THERE, left_over=7), disturbed=disturbed).reasons
    assert (reason.code, reason.rule.fault) == ("left_over", "store")
    assert "7 of 90 events accepted from ads are left over" in reason.cause


STORED = StoredEvents(collection="ads-*", documents=70, events={"bid": 70, "win": 7}, indexed=80, unique=True)


@pytest.mark.parametrize(
    ("stored", "codes"),
    [
        (STORED, ["missing_events"]),
        (replace(STORED, events={"bid": 70, "win": 10}), []),
        # A foreign log may have the same event twice, and a node that was killed on purpose may lose some.
        (replace(STORED, unique=False), []),
        (replace(STORED, acknowledged_at_kill=60), []),
    ],
)
def test_acknowledged_events_that_the_store_lacks_make_a_run_invalid_unless_that_has_another_cause(stored, codes):
    falling = np.linspace(100.0, 50.0, 40)
    reasons = judge([JudgedPhase(streamed(ALL_THERE), GENERATOR, falling)], (), stored=[stored]).reasons
    assert [reason.code for reason in reasons] == codes
    assert all("3 of 80 events that the store acknowledged are not in ads-*" in reason.cause for reason in reasons)


def test_stored_events_are_reported_in_words():
    words = stored_text(STORED)
    assert words == "ads-*: 77 events in the store (70 bid, 7 win), 70 documents; 3 acknowledged events missing"
    foreign = replace(STORED, unique=False, before=0)
    assert stored_text(foreign).endswith("; 3 acknowledged events missing or duplicate")
    words = stored_text(replace(foreign, before=5))
    assert words.startswith("ads-*: 77 events added to 5 events (70 bid, 7 win), 70 documents; 3 acknowledged events")
    assert words.endswith("missing or stored before")
    assert stored_text(replace(STORED, indexed=77)).endswith("no acknowledged event is missing")


@pytest.mark.parametrize(("address", "remedy"), [("127.0.0.1:5000", "more threads"), (None, "lower rate")])
def test_a_reader_that_uses_most_of_its_core_makes_a_run_invalid(address, remedy):
    assert not verdict(replace(ALL_THERE, reader_cpu_share=0.8)).reasons
    (reason,) = verdict(replace(ALL_THERE, reader_cpu_share=0.93, address=address)).reasons
    assert (reason.code, reason.rule.fault) == ("reader_cpu", "generator")
    assert "a thread that reads ads used 93 % of its core (limit 80 %)" in reason.cause
    assert remedy in reason.remedy


# A quarter of the phase's events may still wait for their request at its end, where one is kept back for 0.5 s.
@pytest.mark.parametrize(("rate", "flush", "keeps_up"), [(400, 0.02, True), (400, 0.5, True), (2_000_000, 0.02, False)])
def test_a_generated_source_that_does_not_come_at_its_rate_makes_a_run_invalid(tmp_path, rate, flush, keeps_up):
    kinds = {"bid": {"id": "/id", "time": "/time"}} | {
        kind: {"id": "/bid_id", "time": "/bid_time"} for kind in ("win", "click")
    }
    made = {"generate": {"generator": "adbids", "rate": rate}, "events": {"type": "/type", "kinds": kinds}}
    plan = {
        "seed": 1,
        "phase": "ingest",
        "target": {"driver": "null"},
        "operations": {"take_in": {"take_in": {}}},
        "sources": {"ads": {**made, "flush": flush}},
        "streams": [
            {"name": "a", "mix": [["take_in", 1]], "pacing": {"source": {"source": "ads", "workers": 2}},
             "stop": {"duration": 2.0}}
        ],
    }  # fmt: skip
    with RunWriter(tmp_path, "r1") as writer:
        outcome = run_phase(plan, writer.phase("ingest", 0.0), lambda _: None)
        joined = writer.join()
        summary = summarize(joined.series, joined.histograms, [outcome], joined.telemetry, ())
    assert (summary.generator.achieved >= 0.95) is keeps_up
    codes = {reason.code for reason in summary.verdict.reasons}
    # A machine without time for the generator breaks the rate as well.
    assert ("not_achieved" in codes) is not keeps_up or (keeps_up and "loop_lag" in codes)
    source = summary.phases[0].sources["ads"]
    assert sum(source.kinds.values()) == source.indexed == source.accepted
    assert (source.reader_cpu_share > 0.1) is not keeps_up


def test_dead_letters_and_leftover_events_are_reported_in_words():
    source = replace(
        ALL_THERE,
        dropped=7,
        spilled_events=9,
        left_over=3,
        kept="dead-letters-ingest-ads.ndjson",
        trouble=("the disk is full",),
    )
    assert sources_texts(streamed(source)) == [
        "ads: 80 of 93 lines stored, 13 not (10 not JSON, 10 refused, 3 left over), 7 more dropped; 90 events accepted,"
        " 20 dead letters (see dead-letters-ingest-ads.ndjson), 9 spilled to disk",
        "ads: the disk is full",
    ]


def summed(folder, **more):
    """Return the figures of a source with these statistics of the engine."""
    said = {"lines": 5, "accepted": 4, "indexed": 4, "dead_letters": {"no id": 1}, "left_over": 0, "connections": 2,
            "address": "127.0.0.1:5000", "bytes": 400, "waiting": 0, **more}  # fmt: skip
    plan = {
        "seed": 1,
        "phase": "ingest",
        "target": {"driver": "null"},
        "operations": {"a": {}},
        "streams": [{"name": "a", "mix": [["a", 1]], "pacing": {"closed": {"clients": 1}}, "stop": {"requests": 5}}],
    }
    with RunWriter(folder, "r1") as writer:
        outcome = run_phase(plan, writer.phase("ingest", 0.0), lambda _: None) | {"sources": {"ads": said}}
        joined = writer.join()
        summary = summarize(joined.series, joined.histograms, [outcome], joined.telemetry, ())
    return summary.phases[0].sources["ads"]


def test_the_summary_has_the_engines_statistics_of_a_source(tmp_path):
    assert summed(tmp_path) == SourceFigures(
        lines=5, accepted=4, indexed=4, dead_letters={"no id": 1}, connections=2, bytes=400, address="127.0.0.1:5000"
    )


@pytest.mark.parametrize(
    ("most", "spill", "spilled", "trouble", "held_back"),
    [
        (999, 0, 0, (), False),
        (1000, 0, 0, (), True),
        (1000, 400, 100, (), False),
        (1000, 400, 300, (), True),
        (1000, 400, 0, (), True),
        (1000, 400, 100, ("cannot spill events to disk; senders wait",), True),
    ],
)
def test_senders_wait_when_buffer_and_spill_were_full(tmp_path, most, spill, spilled, trouble, held_back):
    sizes = {"buffer": 1000, "spill": spill, "most_bytes": most, "most_spilled_bytes": spilled}
    figures = summed(tmp_path, **sizes, spilled_events=min(spilled, 1), trouble=trouble)
    assert figures.held_back is figures.buffer_full is held_back


def test_senders_wait_when_much_was_unread_in_many_seconds():
    def share(unread, lines):
        rows = [
            {"time": float(time), "source": "source:ads", "metric": metric, "value": float(value)}
            for metric, values in (("unread", unread), ("lines", lines))
            for time, value in enumerate(values)
        ]
        return unread_share("ads", {"offset": 0.0, "warmup": 1.0, "measured": 4.0}, pa.Table.from_pylist(rows))

    assert share([10**6, 0, UNREAD, UNREAD - 1, 0, 10**6], [9, 9, 9, 9, 0, 9]) == 1 / 3
    assert share([0, UNREAD, 0], [0, 0, 0]) == 1.0
    assert share([0, 0], [0, 0]) is None


def test_the_engine_reports_a_failed_spill_in_the_words_that_the_summary_looks_for():
    engine = Path(__file__).parents[2] / "crates" / "engine" / "src" / "ingest" / "queue" / "spilling.rs"
    assert f'format!("{NO_SPILL}' in engine.read_text()
