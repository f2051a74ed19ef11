"""Summary of a run: figures per phase and operation, the generator, the verdict. Pure functions.

`outcome` is the engine's outcome of a phase (outcome.json); `rows` are rows of its series (series.csv).
"""

import functools
import math
import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from loadframe.analyze.figures import every_request
from loadframe.analyze.finding import Finding
from loadframe.analyze.verdict.judge import JudgedPhase, judge
from loadframe.analyze.verdict.rules import UNREAD_LIMIT
from loadframe.analyze.verdict.self_monitor import (
    combine,
    generator_figures,
    machine_figures,
    offered_share,
    other_programs,
    rank_figures,
    reader_share,
    smaller_share,
    unread_share,
)
from loadframe.analyze.verdict.trends import growth
from loadframe.base.event_kinds import GAP, GAP_OVER
from loadframe.base.untrusted import without_compressed
from loadframe.record import Summary
from loadframe.record.redact import plain
from loadframe.record.schema import ERROR_CLASSES
from loadframe.record.schema.figures import (
    FailureMessage,
    GrowthFigures,
    KernelTimes,
    Latency,
    OperationFigures,
    PartFigures,
    SourceFigures,
    StoredEvents,
)
from loadframe.record.schema.summary import (
    ChosenWindow,
    Clock,
    PhaseSummary,
    SetAside,
    StoppedBy,
    StreamSummary,
    whole_seconds,
)

if TYPE_CHECKING:
    from loadframe.record import Histogram, HistogramLog


Array = npt.NDArray[np.float64]


def documents_by_second(outcome: Mapping[str, Any], rows: pa.Table) -> Array | None:
    """Return the document count at the middle of each whole second of the measured window.

    `rows` are the phase's, including its warm-up and all generators. Documents count when they are acknowledged. Those
    from before the phase are added if their number is known. None if no operation adds documents, or if the window has
    no whole second.
    """
    gains: Mapping[str, Mapping[str, Any]] = outcome.get("gains") or {}
    seconds = whole_seconds(outcome["warmup"], outcome["measured"])
    first, last = seconds.start, seconds.stop
    if not gains or last <= first:
        return None
    added = np.zeros(last)
    for name, gain in gains.items():
        of_operation = rows.filter(pc.equal(rows["operation"], name))
        second = of_operation["second"].to_numpy()
        within = second < last
        np.add.at(added, second[within], gain["amount"] * of_operation[gain["by"]].to_numpy()[within])
    held: Array = (outcome.get("held") or 0) + np.cumsum(added) - added / 2
    return held[first:]


def growth_figures(
    operation: str, outcome: Mapping[str, Any], histograms: "HistogramLog", documents: Array | None
) -> GrowthFigures | None:
    """Return the growth of an operation's response times with `documents`, or None without enough data.

    `documents` is the number in each second of the measured window; None if unknown. `outcome` is that of the phase.
    """
    if documents is None or np.ptp(documents) <= 0:
        return None
    first = whole_seconds(outcome["warmup"], outcome["measured"]).start
    sums, counts = np.zeros(len(documents)), np.zeros(len(documents))
    tag = f"{outcome['phase']}/{operation}/response"
    if tag not in histograms.tags():
        return None
    for start, histogram in histograms.seconds(tag):
        place = round(start - outcome["offset"]) - first
        if histogram.count and 0 <= place < len(documents):
            sums[place] += histogram.count * (histogram.mean or 0.0)
            counts[place] += histogram.count
    means = np.divide(sums, counts, out=np.zeros_like(sums), where=counts > 0)
    grown = growth(means, counts, documents)
    if grown is None:
        return None
    sure = all(gain["sure"] for gain in outcome["gains"].values())
    return GrowthFigures(
        slope=grown.slope,
        low=grown.low,
        high=grown.high,
        begin=grown.begin,
        end=grown.end,
        held=sure,
        all=outcome.get("held") is not None,
        apart=grown.apart,
    )


_MACHINE, _NODE = "machine:", "node:"


def silences(events: Iterable[Mapping[str, Any]], begin: float, end: float) -> dict[str, float]:
    """Return how long each machine was silent between the instants `begin` and `end`, in s.

    Instants are s since the run began. Machines that always answered are omitted. `events` must be in time order.
    """
    since: dict[str, float] = {}
    silent: dict[str, float] = {}

    def count(machine: str, until: float) -> None:
        """Add the time from the gap of a machine to `until`, within the two instants, to `silent`; forget the gap."""
        seconds = min(until, end) - max(since.pop(machine), begin)
        if seconds > 0:
            silent[machine] = silent.get(machine, 0.0) + seconds

    for event in events:
        source = str(event.get("source", ""))
        machine = source.removeprefix(_MACHINE)
        if not source.startswith(_MACHINE):
            continue
        if event["kind"] == GAP:
            since.setdefault(machine, event["time"])
        elif event["kind"] == GAP_OVER and machine in since:
            count(machine, event["time"])
    for machine in list(since):
        count(machine, end)
    return silent


_ERROR = "error_"
#: Number of failure messages kept per operation, and their maximum length.
_MESSAGES = 10
_MESSAGE_LENGTH = 300
QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}


def summarize(
    series: pa.Table,
    histograms: "HistogramLog",
    outcomes: Sequence[dict[str, Any]],
    telemetry: pa.Table,
    deviations: Sequence[str],
    ceiling: float | None = None,
    *,
    cpus: int | None = None,
    lost: Sequence[str] = (),
    disturbed: bool = False,
    events: Sequence[Mapping[str, Any]] = (),
    failure: str | None = None,
    stored: Sequence[StoredEvents] = (),
    failures: Sequence[Finding] = (),
    not_judged: Sequence[str] = (),
) -> Summary:
    """Return the summary of a completed run: its phases, generator and verdict.

    - `outcomes`: the engine's outcome of each phase. `prepares` marks a phase without results, `one_journey` a phase
      in which each user makes one journey. `gains` and `held` are the documents that its operations add and those
      before it, if known.
    - `ceiling`: requests/s that one worker sustains, from calibration.
    - `cpus`: logical CPUs of this machine.
    - `deviations`, `lost`: sentences on differences between the cluster and its specification, and on lost nodes.
    - `disturbed`: the cluster was changed on purpose during the load.
    - `events`: the run's events in time order.
    - `failure`: the generator's failure, if it had one.
    - `stored`: the store's counts of the events of sources.
    - `failures`: failures of the store that its responses do not show.
    - `not_judged`: texts that say which rules cannot be checked, and why.

    Preparing phases are judged only if nothing else was measured.
    """
    phases: list[PhaseSummary] = []
    judged: list[JudgedPhase] = []
    prepares: list[JudgedPhase] = []
    for outcome in outcomes:
        of_phase = series.filter(pc.equal(series["phase"], outcome["phase"]))
        documents = documents_by_second(outcome, of_phase)
        phase = _phase(outcome, of_phase, histograms, documents, telemetry)
        phases.append(phase)
        # The verdict counts operations, not their parts.
        rows = of_phase.filter(pc.is_in(of_phase["operation"], pa.array(list(phase.single), pa.string())))
        figures = generator_figures(outcome, rows, telemetry, histograms, ceiling)
        figures = replace(figures, achieved=smaller_share(figures.achieved, offered_share(outcome, of_phase)))
        (prepares if phase.prepares else judged).append(
            JudgedPhase(
                phase,
                figures,
                throughput_by_second(outcome, rows),
                _silent(events, phase),
                documents,
                histograms,
                outcome.get("one_journey", False),
                cpus,
                _before_loss(events, phase),
                other_programs(telemetry, phase.begin, phase.begin + phase.duration),
            )
        )
    judged = judged or prepares
    verdict = judge(
        judged,
        deviations,
        lost=lost,
        disturbed=disturbed,
        failure=failure,
        stored=stored,
        failures=failures,
        not_judged=not_judged,
    )
    return Summary(
        "done",
        None,
        None,
        tuple(phases),
        tuple(stored),
        combine([phase.generator for phase in judged]),
        verdict.recorded(),
    )


def _silent(events: Sequence[Mapping[str, Any]], phase: PhaseSummary) -> dict[str, float]:
    """Return machine -> s for which it did not answer during a phase, warm-up included."""
    return silences(events, phase.start, phase.begin + phase.duration)


def _before_loss(events: Sequence[Mapping[str, Any]], phase: PhaseSummary) -> bool:
    """Return whether the first gap in the samples of a node began after the phase; False if no node has a gap."""
    gaps = (event["time"] for event in events if event["kind"] == GAP and event.get("source", "").startswith(_NODE))
    return next(gaps, -math.inf) >= phase.begin + phase.duration


def throughput_by_second(outcome: dict[str, Any], rows: pa.Table) -> npt.NDArray[np.float64]:
    """Return the successes in each whole second of the measured window, summed over `rows` of the series.

    A success counts in the second of its response, not of its scheduled time.
    """
    seconds = whole_seconds(outcome["warmup"], outcome["measured"])
    first, last = seconds.start, seconds.stop
    counts = np.zeros(max(last - first, 0))
    second = rows["second"].to_numpy()
    within = (second >= first) & (second < last)
    np.add.at(counts, second[within] - first, rows["successes"].to_numpy()[within])
    return counts


def _phase(
    outcome: dict[str, Any],
    rows: pa.Table,
    histograms: "HistogramLog",
    documents: npt.NDArray[np.float64] | None,
    telemetry: pa.Table,
) -> PhaseSummary:
    """Return the summary of a phase from the engine's `outcome`; `rows` are the phase's rows of the series.

    `documents` is the number of documents in each measured second (see `documents_by_second`), `telemetry` that of the
    phase, for the readers of sources.
    """
    sources = outcome.get("sources", {})
    measured = rows.filter(pc.equal(rows["segment"], "measure"))
    names = dict.fromkeys(entry["operation"] for entry in outcome["operations"])
    return PhaseSummary(
        name=outcome["phase"],
        prepares=outcome.get("prepares", False),
        start=outcome["offset"],
        clock=_clock(outcome),
        warmup=outcome["warmup"],
        duration=outcome["measured"],
        **_backlog(outcome, rows),
        window=ChosenWindow(**chosen) if (chosen := outcome.get("window")) else None,
        stopped_by=StoppedBy(**stop) if (stop := outcome.get("stopped_by")) else None,
        first_failure=first_failure(rows),
        setup=_setup(outcome["phase"], names, histograms),
        streams=tuple(_stream(stream) for stream in outcome["streams"]),
        set_aside=tuple(
            SetAside(aside["corpus"], aside["lines"], tuple(aside["kept"])) for aside in outcome.get("set_aside", [])
        ),
        operations={name: _operation(name, outcome, measured, histograms, documents) for name in names},
        sources={
            name: _source(counts, reader_share(name, outcome, telemetry), unread_share(name, outcome, telemetry))
            for name, counts in sources.items()
        },
        ranks=rank_figures(outcome),
        machines=machine_figures(outcome),
    )


def _backlog(outcome: Mapping[str, Any], rows: pa.Table) -> dict[str, Any]:
    """Return the number (`backlog`) and age (`backlog_age`, s) of requests that were unanswered when the warm-up ended.

    The age is that of the oldest; None without rows. If the warm-up ended within a second, these are the requests left
    at the end of that second. Empty without a warm-up.
    """
    if not outcome["warmup"]:
        return {}
    last = math.ceil(outcome["warmup"]) - 1
    left = rows.filter(pc.and_(pc.equal(rows["second"], last), pc.equal(rows["segment"], "warmup")))
    return {"backlog": _total(left, "unanswered"), "backlog_age": pc.max(left["oldest_unanswered"]).as_py()}


def _total(rows: pa.Table, column: str) -> int:
    """Return the sum of a column; 0 without rows."""
    return pc.sum(rows[column]).as_py() or 0


def _stream(stream: Mapping[str, Any]) -> StreamSummary:
    """Return a stream's summary from its entry in the engine's outcome of the phase."""
    paced = {key: stream.get(key, 0) for key in ("iterations", "overruns")}
    group = stream.get("group", 1)
    return StreamSummary(stream["name"], stream["pacing"], stream["measured"], stream["ran_out"], **paced, group=group)


def first_failure(rows: pa.Table) -> float | None:
    """Return the first second, since the phase began, in which a request failed; None if all succeeded."""
    failed = [pc.greater(pc.fill_null(rows[f"error_{error.name}"], 0), 0) for error in ERROR_CLASSES]
    seconds = rows.filter(functools.reduce(pc.or_, failed))["second"]
    return float(pc.min(seconds).as_py()) if len(seconds) else None


def _source(counts: Mapping[str, Any], reader_cpu_share: float | None, unread: float | None) -> SourceFigures:
    """Return the figures of a source from the engine's counts, its reader's share of a core, and its unread share."""
    spilled = {key: counts.get(key, 0) for key in ("spilled_events", "spilled_bytes", "most_spilled_bytes")}
    visible = counts.get("looked_for") or {}
    full = _was_full(counts)
    return SourceFigures(
        **spilled,
        kinds=counts.get("kinds", {}),
        reader_cpu_share=reader_cpu_share,
        unread_share=unread,
        buffer_full=full,
        held_back=True if (unread or 0.0) > UNREAD_LIMIT else full,
        **{key: counts[key] for key in ("lines", "accepted", "indexed", "left_over", "connections", "bytes")},
        dropped=counts.get("dropped", 0),
        sampled=visible.get("sampled"),
        seen=visible.get("seen"),
        unseen=visible.get("unseen"),
        dead_letters=counts["dead_letters"],
        kept=counts.get("kept"),
        address=counts.get("address"),
        trouble=tuple(counts.get("trouble", ())),
    )


#: Words with which the engine reports a spill that failed.
NO_SPILL = "cannot spill events"


def _was_full(counts: Mapping[str, Any]) -> bool | None:
    """Return whether reading may have paused because the queue was full; None if its size was not recorded.

    The engine records the most bytes in memory and on disk. A spill refuses a read that does not fit, so it counts as
    full from more than half of its size on. A spill that took no event, or failed, does not relieve the buffer.
    """
    if "buffer" not in counts:
        return None
    if counts["most_bytes"] < counts["buffer"]:
        return False
    failed = any(NO_SPILL in trouble for trouble in counts.get("trouble", ()))
    return failed or not counts["spilled_events"] or counts["most_spilled_bytes"] > counts.get("spill", 0) / 2


def _clock(outcome: dict[str, Any]) -> Clock | None:
    """Return the wall clock's start of a phase, its uncertainty and its drift; None if the phase did not end."""
    clock = outcome.get("clock")
    return Clock(outcome["started"], clock["uncertainty"], clock["drift"]) if clock else None


def _operation(
    name: str,
    outcome: dict[str, Any],
    measured: pa.Table,
    histograms: "HistogramLog",
    documents: npt.NDArray[np.float64] | None,
) -> OperationFigures:
    """Return the figures of an operation over its streams, from the outcome and the rows of the measured window.

    `documents` is the number of documents in each second of that window, None if unknown.
    """
    entries = [entry for entry in outcome["operations"] if entry["operation"] == name]
    parts: dict[str, list[dict[str, Any]]] = {}
    for entry in outcome.get("parts", ()):
        if entry["operation"] == name:
            parts.setdefault(entry["part"], []).append(entry)
    return OperationFigures(
        **_figures(name, entries, outcome, measured, histograms),
        dropped=sum(entry["dropped"] for entry in entries),
        in_flight_at_end=sum(entry["in_flight_at_end"] for entry in entries),
        inherited=sum(entry.get("inherited", 0) for entry in entries),
        reconnects=sum(entry.get("reconnects", 0) for entry in entries),
        retries=sum(entry.get("retries", 0) for entry in entries),
        messages=_messages(entries),
        of_several=any(entry.get("of_several") for entry in entries),
        recall=_recall(entries),
        resolution=outcome.get("looks", {}).get(name, {}).get("every"),
        growth=growth_figures(name, outcome, histograms, documents),
        kernel_times=_kernel_times(name, entries, outcome, histograms),
        parts={
            part: PartFigures(**_figures(f"{name}.{part}", of_part, outcome, measured, histograms))
            for part, of_part in parts.items()
        },
    )


def _kernel_times(
    name: str, entries: Sequence[Mapping[str, Any]], outcome: Mapping[str, Any], histograms: "HistogramLog"
) -> KernelTimes | None:
    """Return an operation's times by the kernel's timestamps; None if they were off, and for aggregates of several."""
    counts = [counted for entry in entries if (counted := entry.get("kernel_timestamps")) and not entry["of_several"]]
    if not counts:
        return None
    tag = f"{outcome['phase']}/{name}"
    overhead, corrected = (_latency(histograms.total(f"{tag}/{measure}")) for measure in ("overhead", "corrected"))
    without, receive_only = (sum(counted[key] for counted in counts) for key in ("without", "receive_only"))
    return KernelTimes(overhead, corrected, without, receive_only)


def _messages(entries: Sequence[dict[str, Any]]) -> tuple[FailureMessage, ...]:
    """Return the ten most frequent messages of an operation's measured failures, the most frequent first.

    Messages of one class and status that differ only in numbers are one: the first, with the sum of the counts.
    `entries` are those of the operation in the engine's outcome, one per stream.
    """
    alike: dict[tuple[Any, ...], FailureMessage] = {}
    for error in (error for entry in entries for error in entry.get("errors", ())):
        if error.get("measured") and error.get("count"):
            of, text, count, status = error["class"], error["message"], error["count"], error.get("status")
            key = (of, status, *filter(None, re.split("[0-9]+", text)))
            first = alike.setdefault(key, FailureMessage(of, _printable(text), 0, status))
            alike[key] = replace(first, count=first.count + count)
    return tuple(sorted(alike.values(), key=lambda message: -message.count)[:_MESSAGES])


def _printable(text: str) -> str:
    """Return a store's text without secrets and control characters, cut to 300 characters."""
    words = "".join(c if c.isprintable() else " " for c in plain(without_compressed(text)))
    return words if len(words) <= _MESSAGE_LENGTH else f"{words[: _MESSAGE_LENGTH - 3]}..."


def _recall(entries: Sequence[dict[str, Any]]) -> float | None:
    """Return the recall over all streams: the share of relevant documents found, 0 to 1; None if it is not asserted."""
    counts = [entry["recall"] for entry in entries if entry.get("recall")]
    relevant = sum(count["relevant"] for count in counts)
    return sum(count["found"] for count in counts) / relevant if relevant else None


def _figures(
    name: str,
    entries: Sequence[dict[str, Any]],
    outcome: dict[str, Any],
    measured: pa.Table,
    histograms: "HistogramLog",
) -> dict[str, Any]:
    """Return the `Figures` of an operation or a part of one, by field; `entries` are the outcome's, one per stream."""
    rows = measured.filter(pc.equal(measured["operation"], name))
    total = {column: pc.sum(rows[column]).as_py() or 0 for column in _counts(rows)}
    windows: dict[str, float] = {stream["name"]: stream["measured"] for stream in outcome["streams"]}
    tag = f"{outcome['phase']}/{name}"

    def per_second(count: str) -> float:
        """Return the sum over streams of this count divided by the stream's window, 1/s."""
        # Divide by each stream's window: some streams end early.
        rates = (float(entry[count] / window) for entry in entries if (window := windows[entry["stream"]]))
        return sum(rates, 0.0)

    return {
        "requests": total["requests"],
        "successes": total["successes"],
        "documents": total["documents"],
        "errors": {column.removeprefix(_ERROR): n for column, n in total.items() if column.startswith(_ERROR) and n},
        # Counted at the response: a success after the window does not raise the throughput.
        "throughput": per_second("completed"),
        "documents_per_second": per_second("completed_documents"),
        "response": _latency(histograms.total(f"{tag}/response")),
        "service": _latency(histograms.total(f"{tag}/service")),
        "failure": _latency(histograms.total(f"{tag}/failure")),
        "all": _latency(every_request(histograms, tag)),
    }


def _setup(phase: str, operations: Iterable[str], histograms: "HistogramLog") -> Latency:
    """Return the set-up times of a phase's connections, including its warm-up; empty without operations."""
    totals = [histograms.total(f"{phase}/{name}/setup{part}") for name in operations for part in ("", "/warmup")]
    return _latency(functools.reduce(operator.add, totals)) if totals else Latency()


def _counts(rows: pa.Table) -> list[str]:
    """Return the names of the columns that count requests, successes, documents or errors."""
    counts = ("requests", "successes", "documents")
    return [name for name in rows.column_names if name in counts or name.startswith(_ERROR)]


def _latency(histogram: "Histogram") -> Latency:
    """Return count, mean, maximum and percentiles of a histogram, s; all but the count are None if it is empty."""
    quantiles = {name: histogram.quantile(q) for name, q in QUANTILES.items()}
    return Latency(count=histogram.count, mean=histogram.mean, max=histogram.max, **quantiles)
