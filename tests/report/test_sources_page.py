"""The page of a run with external events: their outcome and their rate."""

import io
from dataclasses import replace

import pyarrow as pa
import pytest
from pages import Page
from rich.console import Console

from loadframe.analyze.executions import SUFFICIENT_SECONDS
from loadframe.record import Run
from loadframe.record.schema.figures import SourceFigures
from loadframe.report.run.page import run_page
from loadframe.report.run.terminal import print_run
from loadframe.report.run_status import ingest_pace_texts
from simulated import Truth, write_run

ADS = SourceFigures(
    lines=5007,
    dropped=7,
    accepted=4990,
    indexed=4980,
    left_over=6,
    dead_letters={"not JSON": 10, "refused": 4},
    kept="dead-letters-range_100-ads.ndjson",
    connections=2,
    bytes=10**6,
    address="127.0.0.1:5000",
)


@pytest.fixture
def run(tmp_path):
    """A run with statistics and telemetry of one source of events."""
    run = Run(write_run(tmp_path, "r1", Truth()).path)
    summary = run.summary
    run.__dict__["summary"] = replace(summary, phases=(replace(summary.phases[0], sources={"ads": ADS}),))
    rows = [
        {"time": float(second), "source": "source:ads", "metric": metric, "value": value, "machine": None}
        for second in range(3)
        for metric, value in (("accepted", 900.0 + second), ("indexed", 800.0 + second), ("waiting", 100.0))
    ]
    sampled = pa.Table.from_pylist(rows, run.telemetry.schema)
    run.__dict__["telemetry"] = pa.concat_tables([run.telemetry, sampled])
    return run


def test_the_page_gives_the_outcome_of_events_and_plots_them_by_second(run):
    page = Page(run_page(run))
    assert "Sources of events" in page.headings
    # 4,980 events in 6 s.
    for words in (
        "ads: 4,980 of 5,000 lines stored, 20 not (10 not JSON, 4 refused, 6 left over), 7 more dropped.",
        "127.0.0.1:5000",
        "5,007",
        "4,990",
        "4,980",
        "830",
        "10 not JSON, 4 refused",
    ):
        assert words in page.text
    traces = {trace["name"]: trace["y"] for trace in page.plots["events-over-time"]["traces"]}
    assert traces == {
        "ads accepted": [900.0, 901.0, 902.0],
        "ads indexed": [800.0, 801.0, 802.0],
        "ads waiting": [100.0, 100.0, 100.0],
    }


def test_the_terminal_says_it_in_a_line(run):
    console = Console(file=io.StringIO(), width=200)
    print_run(run, console)
    said = console.file.getvalue()
    words = (
        "ads: 4,980 of 5,000 lines stored, 20 not (10 not JSON, 4 refused, 6 left over), 7 more dropped;"
        " 4,990 events accepted, 14 dead letters"
    )
    assert said.index(words) < said.index("requests/s")


def test_runs_without_events_omit_the_section(tmp_path):
    page = Page(run_page(write_run(tmp_path, "r1", Truth())))
    assert "Sources of events" not in page.headings


def paced(
    run,
    seconds,
    waiting,
    accepted=1000.0,
    reader_cpu=0.1,
    held_back=False,
    unread_share=0.0,
    buffer_full=False,
    burst=0.0,
    seen=True,
):
    """Return the sentence on a run with `waiting(second)` events in requests; all others are stored.

    In the first second `burst` further events arrive, `seen` by the samples or not.
    """
    source = replace(
        ADS,
        accepted=round(seconds * accepted + burst),
        held_back=held_back,
        unread_share=unread_share,
        buffer_full=buffer_full,
    )
    phase = replace(run.summary.phases[0], start=0.0, warmup=0.0, duration=float(seconds), sources={"ads": source})
    rows = [
        {"time": float(second), "source": "source:ads", "metric": metric, "value": value, "machine": None}
        for second in range(1, seconds + 1)
        for metric, value in (
            ("accepted", accepted + (second == 1) * seen * burst),
            ("indexed", accepted - (waiting(second) - waiting(second - 1))),
            ("waiting", 0.0),
            ("unacknowledged", waiting(second)),
            ("reader_cpu", reader_cpu),
        )
    ]
    run.__dict__["telemetry"] = pa.Table.from_pylist(rows)
    (words,) = ingest_pace_texts(run, phase)
    return words


def test_a_store_that_stores_each_event_soon_keeps_up(run):
    words = paced(run, 40, lambda second: 100.0 + second % 3)
    assert words.startswith(
        "ads: the store kept up: 1,000 events/s arrived and 1,000/s were stored; the backlog grew by "
    )


@pytest.mark.parametrize(("growth", "keeps_up"), [(0.0, True), (12.0, False)])
def test_batches_in_flight_do_not_leave_open_whether_a_store_kept_up(run, growth, keeps_up):
    # Samples catch up to a batch of 18 events: the backlog varies by less than 1 % of the events.
    words = paced(run, 25, lambda second: 1 + growth * second + second * 7 % 18, accepted=331.0)
    assert ("the store kept up" in words.replace("whether the store kept up", "")) is keeps_up, words


def test_a_burst_at_the_start_is_named_with_the_figures_that_include_it(run):
    words = paced(run, 28, lambda _: 1.0, accepted=552.0, burst=8541.0)
    assert "552 events/s arrived and 552/s were stored" in words
    assert "At the start, 8,541 events beyond the later rate arrived" in words
    assert "to 1 event." in words
    assert "At the start, 8,541 events beyond" in paced(
        run, 28, lambda _: 1.0, accepted=552.0, burst=8541.0, seen=False
    )
    for others in ({"burst": 400.0}, {"burst": 8541.0, "buffer_full": True}, {"burst": 8541.0, "unread_share": None}):
        assert "At the start" not in paced(run, 28, lambda _: 1.0, accepted=552.0, **others)


def test_a_backlog_that_becomes_smaller_shrinks(run):
    words = paced(run, 40, lambda second: 1000.0 - 20 * second)
    assert words.endswith("the backlog shrank by 20 events/s to 220 events"), words


def test_a_store_with_a_growing_backlog_does_not_keep_up(run):
    words = paced(run, 40, lambda second: 100.0 * second + second % 5, held_back=True)
    assert words.startswith("ads: the store did not keep up: 1,000 events/s arrived and 900/s were stored")
    assert words.endswith("to 3,904 events")


def test_the_page_opens_with_the_pace_and_does_not_say_that_there_is_no_problem(run):
    words = paced(run, 40, lambda second: 100.0 * second + second % 5)
    phase = replace(run.summary.phases[0], start=0.0, warmup=0.0, duration=40.0)
    run.__dict__["summary"] = replace(run.summary, phases=(phase,))
    assert phase.sources["ads"].held_back is None
    text = Page(run_page(run)).text
    assert "no problem was found" not in text
    assert "the store did not keep up with ads." in text
    assert text.count(words) == 1
    assert text.index(words) < text.index("requests/s, median")
    console = Console(file=io.StringIO(), width=200)
    print_run(run, console)
    assert "Valid: the measurement has no problem, but the store did not keep up with ads." in console.file.getvalue()


@pytest.mark.parametrize(
    ("seconds", "waiting", "others", "reason"),
    [
        (40, lambda second: 100.0 + 900 * (second // 4 % 2), {}, "measure longer"),
        (40, lambda _: 0.0, {"held_back": True}, "the buffer was full at times, so senders may have waited"),
        (40, lambda _: 0.0, {"held_back": None}, "not recorded whether senders had to wait"),
        (40, lambda _: 0.0, {"unread_share": None}, "not recorded whether senders had to wait"),
        (
            40,
            lambda _: 0.0,
            {"held_back": True, "unread_share": 0.9, "buffer_full": True},
            "the buffer was full at times",
        ),
        (
            40,
            lambda _: 0.0,
            {"held_back": True, "unread_share": 0.2},
            "senders were held back: sent data waited unread in 20 % of",
        ),
        (40, lambda _: 0.0, {"reader_cpu": 0.9}, "busy for more than 80 % of the time, so senders may have waited"),
    ],
)
def test_it_is_inconclusive_whether_a_store_kept_up(run, seconds, waiting, others, reason):
    words = paced(run, seconds, waiting, **others)
    assert words.startswith("ads: inconclusive whether the store kept up: 1,000 events/s arrived")
    assert reason in words


def test_a_short_stream_has_no_rates(run):
    words = "events arrived for too short a time; send them for 20 s or longer"
    assert paced(run, 10, lambda _: 0.0) == f"ads: inconclusive whether the store kept up: {words}"


def test_twenty_seconds_of_events_suffice_whenever_samples_are_taken(run):
    # The first and the last of 20 samples are partial.
    assert "the store kept up" in paced(run, SUFFICIENT_SECONDS, lambda second: 100.0 + second % 3)


def test_a_source_without_samples_has_no_sentence(run):
    phase = replace(run.summary.phases[0], sources={"others": ADS})
    assert ingest_pace_texts(run, phase) == []
