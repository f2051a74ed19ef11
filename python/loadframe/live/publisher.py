"""Publisher of a command's feed: a listener of its progress, and a subscriber of its runs.

Answers of stores are untrusted: texts are truncated here, and the page shows them as plain text.

All notifications go through a bounded queue. A thread writes them to the feed once a second, so that a slow disk does
not delay a run. If the feed cannot be written, the command continues without it.
"""

import contextlib
import json
import math
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from loadframe.base.errors import LoadframeError
from loadframe.experiment.runner.listener import Listener
from loadframe.live.feed import Feed, Record
from loadframe.load import OpenMeasures, Progress, ReadMeasures
from loadframe.record import RunWriter, Subscriber
from loadframe.record.writer import Closed, Finished, Happened, Sampled

#: Maximum numbers of bars and columns of a chart, and of letters of a label.
BARS, COLUMNS, LETTERS = 20, 60, 80


def chart_data(operation: str, chart: Mapping[str, Any], answer: bytes) -> Record | None:
    """Return the chart data of an answer as a record of the kind `answer`; its `rows` are those of `_rows`.

    Return None for an answer that is not JSON, or lacks a list of rows. `chart` is the operation's chart definition in
    the workload. Bars are sorted, the largest first. At most 20 bars or 60 columns are kept, and `more` has the number
    of the others. For the kind `figures`, the record has `figures` (name -> number, or None if missing) and no rows.
    """
    try:
        content = json.loads(answer)
    except (ValueError, RecursionError):
        return None
    title = chart.get("title") or operation
    record = {"kind": "answer", "operation": operation, "title": title, "chart": chart["kind"]}
    record["unit"] = chart.get("unit", "")
    if chart["kind"] == "figures":
        figures = {name: _number(next(_at(content, place), None)) for name, place in chart["figures"].items()}
        return {**record, "figures": figures}
    rows = _rows(content, chart)
    if rows is None:
        return None
    most = BARS if chart["kind"] == "bars" else COLUMNS
    if chart["kind"] == "bars":
        rows.sort(key=lambda row: -(row[1] or 0.0))
    return {**record, "beside": list(chart.get("beside", ())), "rows": rows[:most], "more": max(len(rows) - most, 0)}


def _rows(content: Any, chart: Mapping[str, Any]) -> list[list[Any]] | None:
    """Return [label, value, list of further values] for each label in a parsed answer; None if it lacks a list of rows.

    `chart` has JSON pointers: `rows` from the top, `label`, `value` and those in `beside` from a row. Values
    of rows with the same label are summed; None is unknown. Labels are in order of first appearance.
    """
    sums: dict[str, list[float | None]] = {}
    places = [chart["value"], *chart.get("beside", {}).values()]
    lists = [rows for rows in _at(content, chart["rows"]) if isinstance(rows, list)]
    if not lists:
        return None
    for row in (row for rows in lists for row in rows):
        label = _label(next(_at(row, chart["label"]), None))
        values = [_number(next(_at(row, place), None)) for place in places]
        before = sums.setdefault(label, [None] * len(values))
        sums[label] = [_sum(one, other) for one, other in zip(before, values, strict=True)]
    return [[label, values[0], values[1:]] for label, values in sums.items()]


def _at(value: Any, place: str) -> Iterator[Any]:
    """Yield the values at the JSON pointer `place` (RFC 6901); nothing if it does not exist.

    `*` stands for each element of a list.
    """
    yield from _follow(value, [step.replace("~1", "/").replace("~0", "~") for step in place.split("/")[1:]])


def _follow(value: Any, steps: Sequence[str]) -> Iterator[Any]:
    """Yield the values at the unescaped steps of a JSON pointer, none if they do not exist.

    `*` stands for all elements of a list. Without steps, yield `value`.
    """
    if not steps:
        yield value
        return
    first, rest = steps[0], steps[1:]
    if isinstance(value, Mapping) and first in value:
        yield from _follow(value[first], rest)
    elif isinstance(value, list) and first == "*":
        for element in value:
            yield from _follow(element, rest)
    elif isinstance(value, list) and first.isascii() and first.isdigit() and int(first) < len(value):
        yield from _follow(value[int(first)], rest)


def _label(value: Any) -> str:
    """Return a label as text of at most 80 letters: empty for None, and JSON if it is not text.

    A cut text has an ellipsis.
    """
    text = value if isinstance(value, str) else "" if value is None else json.dumps(value)
    return text if len(text) <= LETTERS else f"{text[: LETTERS - 1]}…"


def _number(value: Any) -> float | None:
    """Return a finite number as float, or None for any other value, also for booleans and text."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _sum(one: float | None, other: float | None) -> float | None:
    """Return the sum of two values, or the known one if the other is None; None if both are."""
    return other if one is None else one if other is None else one + other


#: Interval of writes to the feed, s.
_EVERY = 1.0


@dataclass(frozen=True)
class _Recording:
    """Notification that the recording of a run began."""

    run_id: str
    began: float  #: s of the monotonic clock


@dataclass(frozen=True)
class _Phase:
    """Notification that a phase began; `seconds` is its length, if known."""

    name: str
    seconds: float | None
    at: float  #: s of the monotonic clock, as below


@dataclass(frozen=True)
class _LatestProgress:
    """Notification of the progress of the current phase."""

    progress: Progress
    at: float


@dataclass(frozen=True)
class _Measuring:
    """Notification that the load of a phase began, with the reader of its measures."""

    phase: str
    measures: ReadMeasures


@dataclass(frozen=True)
class _Drawn:
    """Notification of the chart data of an answer."""

    record: Record
    at: float


#: Receives each list of records that a command publishes, in the publisher's thread.
Receiver = Callable[[Sequence[Record]], None]


class Publisher(Listener):
    """Writer of one command's feed, active while it is entered. Errors of the feed are ignored.

    Its other methods only queue notifications, without waiting; the oldest are dropped if 50,000 are queued.
    """

    def __init__(self, command: str, name: str, path: Path, receivers: Sequence[Receiver] = ()) -> None:
        """Prepare the feed, which is written once entered, and queue its first record.

        `command` is its name, such as `bench`; `name` its workload or experiment, `path` its output folder. The
        receivers get all records, also the measures of phases, which are too large for the feed.
        """
        self._receivers = receivers
        started = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._queue = Subscriber()
        self._queue.put(
            {
                "kind": "command",
                "command": command,
                "name": name,
                "path": str(path.absolute()),
                "process": os.getpid(),
                "started": started,
            }
        )
        self._feed = Feed()
        #: The feed's file, which exists while the command runs.
        self.path = self._feed.path
        self._records = _Records()
        self._phase = ""
        self._last_second: int | None = None
        self._report: str | None = None
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=self._run, name="live", daemon=True)

    def __enter__(self) -> Self:
        """Start the thread that creates and writes the feed."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Publish how the command ended (done, interrupted or failed), and wait up to 5 s until that is written."""
        how = "done" if kind is None else "interrupted" if kind is KeyboardInterrupt else "failed"
        why = error.what if isinstance(error, LoadframeError) else None
        self._queue.put({"kind": "over", "how": how, "why": why, "report": self._report})
        self._leaving.set()
        # Do not wait longer for a disk that hangs.
        self._thread.join(5 * _EVERY)

    def reported(self, path: Path) -> None:
        """Set the path of the command's report, which is published at the end."""
        self._report = str(path.absolute())

    def step(self, text: str) -> None:
        """Publish that the command begins a step, such as starting a cluster, which `text` names."""
        self._queue.put({"kind": "step", "text": text})

    def remark(self, text: str) -> None:
        """Publish a remark for the user."""
        self._queue.put({"kind": "remark", "text": text})

    def run(self, index: int, runs: int, run_id: str) -> None:
        """Publish that run `index` (from 0) of `runs` begins."""
        self._queue.put({"kind": "part", "number": index + 1, "of": runs})

    def trial(self, number: int, load: str, percentile: str, limit: float | None) -> None:
        """Publish the start of trial `number` at `load`, a text.

        `limit` is the SLO's limit of the response-time `percentile`, s, or None without one.
        """
        self._queue.put({"kind": "trial", "number": number, "load": load, "percentile": percentile, "limit": limit})

    def judged(self, run_id: str, text: str, outcome: str) -> None:
        """Publish the outcome of the trial `run_id`, with its explanation `text`."""
        self._queue.put({"kind": "judged", "run": run_id, "text": text, "outcome": outcome})

    def recording(self, writer: RunWriter) -> None:
        """Publish the start of a run, and subscribe to its writer: its samples, events and end are published, too."""
        self._queue.put(_Recording(writer.run_id, writer.began))
        writer.subscribe(self._queue)

    def phase(self, name: str, seconds: float | None) -> None:
        """Publish the start of a phase; `seconds` is its length, or None if unknown."""
        self._last_second, self._phase = None, name
        self._queue.put(_Phase(name, seconds, time.monotonic()))

    def measuring(self, measures: OpenMeasures) -> None:
        """Publish the measures of the current phase once a second from now on, if there are receivers.

        `measures` opens their reader; it is called, at once, only then.
        """
        if self._receivers:
            self._queue.put(_Measuring(self._phase, measures()))

    def progress(self, progress: Progress) -> None:
        """Publish the phase's progress, once for each recorded second; calls before the first second do nothing."""
        if progress.seconds and progress.seconds != self._last_second:
            self._last_second = progress.seconds
            self._queue.put(_LatestProgress(progress, time.monotonic()))

    def answer(self, operation: str, chart: Mapping[str, Any], answer: bytes) -> None:
        """Publish the chart data of an operation's answer; ignore an answer that is not JSON, or lacks a list of rows.

        `chart` is the operation's chart definition in the workload.
        """
        if record := chart_data(operation, chart, answer):
            self._queue.put(_Drawn(record, time.monotonic()))

    def _run(self) -> None:
        """Pass on notifications once a second, until the command ends and once more. Runs in the thread.

        If the feed cannot be created, only the receivers get them.
        """
        with contextlib.suppress(OSError), contextlib.ExitStack() as opened:
            try:
                feed: Feed | None = opened.enter_context(self._feed)
            except (OSError, LoadframeError):
                # The command continues without a live page.
                feed = None
            over = False
            while not over:
                feed = self._pass_on(feed)
                over = self._leaving.wait(_EVERY)
            self._pass_on(feed)

    def _pass_on(self, feed: Feed | None) -> Feed | None:
        """Pass the queued notifications as records to the receivers and to `feed`, without measures.

        Return the feed, or None if it is None or cannot be written.
        """
        records = self._records.of(self._queue.take())
        for receive in self._receivers:
            receive(records)
        try:
            if feed:
                feed.append([record for record in records if record["kind"] != "measures"])
        except (OSError, LoadframeError):
            return None
        return feed


class _Records:
    """Converter of notifications to records. Keeps the current run and its start time."""

    def __init__(self) -> None:
        self._zero = 0.0
        self._recording = self._preparing = False
        self._before: Progress | None = None
        self._measured: _Measuring | None = None
        self._measured_seconds = 0
        self._phases = 0

    def of(self, heard: list[Any]) -> list[Record]:
        """Return the records of the notifications `heard`, in order; samples in succession become one record.

        Events between samples do not end the succession; their records come before the record of the samples.

        Appends the current measures of the phase, if it has recorded another second or has spans. Notifications that
        are already records are passed on unchanged. Keeps the current run and phase for later calls.
        """
        records: list[Record] = []
        samples: list[Sampled] = []
        for message in heard:
            if isinstance(message, Sampled):
                samples.append(message)
                continue
            if samples and not isinstance(message, Happened):
                # The next notification may belong to another run.
                records += _watched(samples)
                samples = []
            records += [message] if isinstance(message, Mapping) else self._made(message)
        return [*records, *_watched(samples), *self._measures()]

    def _measures(self) -> Iterator[Record]:
        """Yield one record with the measures of the last phase, if it has recorded another second or has spans."""
        if self._measured is None:
            return
        totals = self._measured.measures()
        if totals["seconds"] > self._measured_seconds or totals["spans"]["kept"]:
            self._measured_seconds = totals["seconds"]
            yield {"kind": "measures", "number": self._phases, "phase": self._measured.phase, **totals}

    def _made(self, heard: object) -> Iterator[Record]:
        """Yield the records of one notification, and keep the run, phase or measures that it starts.

        A phase outside a recorded run begins a run whose name is None. Times in records are s since the run began.
        """
        match heard:
            case _Recording():
                self._recording, self._preparing, self._zero = True, False, heard.began
                yield {"kind": "run", "run": heard.run_id}
            case _Phase():
                if not (self._recording or self._preparing):
                    self._preparing, self._zero = True, heard.at
                    yield {"kind": "run", "run": None}
                self._before = None
                since = round(heard.at - self._zero, 3)
                yield {"kind": "phase", "phase": heard.name, "seconds": heard.seconds, "time": since}
            case _Measuring():
                # The previous phase has ended.
                yield from self._measures()
                self._measured, self._measured_seconds = heard, 0
                self._phases += 1
            case _LatestProgress():
                yield self._load(heard)
            case _Drawn():
                yield {**heard.record, "time": round(heard.at - self._zero, 3)}
            case Happened():
                yield {"kind": "event", "event": heard.fields}
            case Finished():
                yield from self._measures()
                yield _finished(heard)
            case Closed():
                yield from self._measures()
                self._recording, self._measured = False, None

    def _load(self, heard: _LatestProgress) -> Record:
        """Return a record of the phase's progress, and keep it as the previous one.

        `time` is in s since the run began. `errors` is a rate since the previous progress, 1/s.
        """
        now, before = heard.progress, self._before
        self._before = now
        errors, seconds = now.errors, now.seconds
        if before is not None:
            errors, seconds = errors - before.errors, seconds - before.seconds
        events = {"events": _events(now, before, seconds)} if now.sources else {}
        return {
            "kind": "load",
            "time": round(heard.at - self._zero, 3),
            "second": now.seconds,
            "requests": now.throughput,
            "documents": now.documents_throughput,
            "p50": now.response_p50,
            "p99": now.response_p99,
            "errors": errors / seconds,
            "all_errors": now.errors,
            **events,
        }


def _events(now: Progress, before: Progress | None, seconds: int) -> dict[str, float]:
    """Return sums over all sources: rates since `before` (1/s), totals of the phase (`all_` and the name), and levels.

    Rates and totals are of `accepted` and `indexed`; levels are `unacknowledged`, `dead_letters` and, if
    known, `visible`.
    `before` is the previous progress (None: the start of the phase), `seconds` the time since then, above 0.
    """

    def total(progress: Progress | None, name: str) -> int:
        """Return the sum of the count `name` over all sources; 0 for None."""
        return sum(getattr(source, name) for source in progress.sources.values()) if progress else 0

    rates = {name: (total(now, name) - total(before, name)) / seconds for name in ("accepted", "indexed")}
    totals = {f"all_{name}": total(now, name) for name in rates}
    visible = [source.visible for source in now.sources.values() if source.visible is not None]
    if visible:
        totals["visible"] = sum(visible)
    return {
        **rates,
        **totals,
        "unacknowledged": total(now, "unacknowledged"),
        "dead_letters": total(now, "dead_letters"),
    }


def _watched(samples: list[Sampled]) -> Iterator[Record]:
    """Yield one record with the last samples of nodes' CPU (cores), machine and cluster; nothing without such samples.

    Its time is that of the last sample, s since the run began.
    """
    nodes: dict[str, float] = {}
    rest: dict[str, float] = {}
    for sample in samples:
        if sample.metric == "process.cpu" and sample.source.startswith("node:"):
            nodes[sample.source.removeprefix("node:")] = sample.value
        elif name := _SHOWN.get((sample.source, sample.metric)):
            rest[name] = sample.value
    if nodes or rest:
        yield {"kind": "watched", "time": round(samples[-1].time, 3), "cpu": nodes, **rest}


#: Source and metric of the telemetry -> its name in a record.
_SHOWN = {
    ("host", "cpu.busy"): "machine",
    ("cluster", "data.moving"): "moving",
    ("cluster", "data.missing"): "missing",
    ("cluster", "nodes"): "nodes",
}


def _finished(heard: Finished) -> Record:
    """Return the record of a finished run: folder, status, validity (None without a verdict), and codes and causes."""
    verdict = heard.summary.get("verdict") or {}
    return {
        "kind": "finished",
        "run": heard.path.name,
        "path": str(heard.path.absolute()),
        "status": heard.summary["status"],
        "valid": verdict.get("valid"),
        "codes": [reason["code"] for reason in verdict.get("reasons", ())],
        "reasons": [reason["cause"] for reason in verdict.get("reasons", ())],
    }
