"""Tells a feed how a command goes: a listener of its progress, and a subscriber of the writers of its runs.

What is in an answer comes from the store, and so from whoever wrote into it: texts are cut here, and the page shows
them as plain text.

All that is heard goes into one bounded queue. A thread of its own takes it out once a second and writes it into the
feed, so that neither a slow disk nor a watcher holds a run up. Where the feed cannot be written the command goes on
without.
"""

import json
import math
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from loadframe.base.errors import LoadframeError
from loadframe.experiment.runner.listener import Listener
from loadframe.live.feed import Feed, Record
from loadframe.load import Progress
from loadframe.record import RunWriter, Subscriber
from loadframe.record.subscriber import Closed, Finished, Happened, Sampled

#: Rows that are shown at most, and letters of a label.
BARS, COLUMNS, LETTERS = 20, 60, 80


def drawn(operation: str, chart: Mapping[str, Any], answer: bytes) -> Record | None:
    """Return what is drawn of an answer; None for one that is not JSON, or has nothing where the chart looks for it."""
    try:
        said = json.loads(answer)
    except (ValueError, RecursionError):
        return None
    told = {"kind": "answer", "operation": operation, "title": chart.get("title") or operation, "chart": chart["kind"]}
    told["unit"] = chart.get("unit", "")
    if chart["kind"] == "figures":
        figures = {name: _number(next(_at(said, place), None)) for name, place in chart["figures"].items()}
        return {**told, "figures": figures}
    rows = _rows(said, chart)
    if rows is None:
        return None
    most = BARS if chart["kind"] == "bars" else COLUMNS
    if chart["kind"] == "bars":
        rows.sort(key=lambda row: -(row[1] or 0.0))
    return {**told, "beside": list(chart.get("beside", ())), "rows": rows[:most], "more": max(len(rows) - most, 0)}


def _rows(said: Any, chart: Mapping[str, Any]) -> list[list[Any]] | None:
    """Return label, value and further values of each row, of those with one label together; None without a list."""
    sums: dict[str, list[float | None]] = {}
    places = [chart["value"], *chart.get("beside", {}).values()]
    lists = [rows for rows in _at(said, chart["rows"]) if isinstance(rows, list)]
    if not lists:
        return None
    for row in (row for rows in lists for row in rows):
        label = _label(next(_at(row, chart["label"]), None))
        values = [_number(next(_at(row, place), None)) for place in places]
        before = sums.setdefault(label, [None] * len(values))
        sums[label] = [_sum(one, other) for one, other in zip(before, values, strict=True)]
    return [[label, values[0], values[1:]] for label, values in sums.items()]


def _at(value: Any, place: str) -> Iterator[Any]:
    """Yield what a JSON pointer (RFC 6901) leads to; `*` stands for each element of a list."""
    yield from _follow(value, [step.replace("~1", "/").replace("~0", "~") for step in place.split("/")[1:]])


def _follow(value: Any, steps: Sequence[str]) -> Iterator[Any]:
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
    text = value if isinstance(value, str) else "" if value is None else json.dumps(value)
    return text if len(text) <= LETTERS else f"{text[: LETTERS - 1]}…"


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _sum(one: float | None, other: float | None) -> float | None:
    return other if one is None else one if other is None else one + other


#: Seconds between two writes into the feed.
_EVERY = 1.0


@dataclass(frozen=True)
class _Recording:
    run_id: str
    began: float  #: s of the monotonic clock


@dataclass(frozen=True)
class _Phase:
    name: str
    seconds: float | None
    at: float  #: s of the monotonic clock, as below


@dataclass(frozen=True)
class _Heard:
    progress: Progress
    at: float


@dataclass(frozen=True)
class _Drawn:
    record: Record
    at: float


class Publisher(Listener):
    """Writes the feed of one command while it is entered. It raises nothing."""

    def __init__(self, command: str, name: str, path: Path) -> None:
        """`command` is which it is, such as `bench`; `name` is what it runs, and `path` the folder that it writes."""
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
        #: The feed's file, which is there while the command goes on.
        self.path = self._feed.path
        self._records = _Records()
        self._told: int | None = None
        self._report: str | None = None
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=self._run, name="live", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        how = "done" if kind is None else "interrupted" if kind is KeyboardInterrupt else "failed"
        why = error.what if isinstance(error, LoadframeError) else None
        self._queue.put({"kind": "over", "how": how, "why": why, "report": self._report})
        self._leaving.set()
        # A disk that hangs holds the end up no longer than this.
        self._thread.join(5 * _EVERY)

    def reported(self, path: Path) -> None:
        """The command has written a report, which is to be read at its end."""
        self._report = str(path.absolute())

    def step(self, text: str) -> None:
        """Tell what begins."""
        self._queue.put({"kind": "step", "text": text})

    def remark(self, text: str) -> None:
        """Tell what the user should read."""
        self._queue.put({"kind": "remark", "text": text})

    def run(self, index: int, runs: int, run_id: str) -> None:
        """Tell which of the runs this is."""
        self._queue.put({"kind": "part", "number": index + 1, "of": runs})

    def recording(self, writer: RunWriter) -> None:
        """Listen to the writer of a run."""
        self._queue.put(_Recording(writer.run_id, writer.began))
        writer.subscribe(self._queue)

    def phase(self, name: str, seconds: float | None) -> None:
        """Tell that a phase begins."""
        self._told = None
        self._queue.put(_Phase(name, seconds, time.monotonic()))

    def progress(self, progress: Progress) -> None:
        """Tell each second's figures once."""
        if progress.seconds and progress.seconds != self._told:
            self._told = progress.seconds
            self._queue.put(_Heard(progress, time.monotonic()))

    def answer(self, operation: str, chart: Mapping[str, Any], answer: bytes) -> None:
        """Tell what is drawn of an answer; nothing for one that cannot be drawn."""
        if record := drawn(operation, chart, answer):
            self._queue.put(_Drawn(record, time.monotonic()))

    def _run(self) -> None:
        try:
            with self._feed:
                over = False
                while not over:
                    self._feed.append(self._records.of(self._queue.take()))
                    over = self._leaving.wait(_EVERY)
                self._feed.append(self._records.of(self._queue.take()))
        except (OSError, LoadframeError):
            # Nobody can watch this command; that is not worth its failure.
            return


class _Records:
    """Makes records of what was heard. It knows which run it was heard in, and since when times are counted."""

    def __init__(self) -> None:
        self._zero = 0.0
        self._recording = self._preparing = False
        self._before: Progress | None = None

    def of(self, heard: list[Any]) -> list[Record]:
        """Return the records of what was heard in about a second; of all samples together there is one."""
        records: list[Record] = []
        samples: list[Sampled] = []
        for message in heard:
            if isinstance(message, Sampled):
                samples.append(message)
                continue
            if samples and not isinstance(message, Happened):
                # Another run may begin here.
                records += _watched(samples)
                samples = []
            records += [message] if isinstance(message, Mapping) else self._made(message)
        return [*records, *_watched(samples)]

    def _made(self, heard: object) -> Iterator[Record]:
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
            case _Heard():
                yield self._load(heard)
            case _Drawn():
                yield {**heard.record, "time": round(heard.at - self._zero, 3)}
            case Happened():
                yield {"kind": "event", "event": heard.fields}
            case Finished():
                yield _finished(heard)
            case Closed():
                self._recording = False

    def _load(self, heard: _Heard) -> Record:
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
    """Return what became of the events of all sources: rates since the progress before, and totals of the phase."""

    def total(progress: Progress | None, name: str) -> int:
        return sum(getattr(source, name) for source in progress.sources.values()) if progress else 0

    rates = {name: (total(now, name) - total(before, name)) / seconds for name in ("accepted", "indexed")}
    totals = {f"all_{name}": total(now, name) for name in rates}
    looked_for = [source.visible for source in now.sources.values() if source.visible is not None]
    if looked_for:
        totals["visible"] = sum(looked_for)
    return {**rates, **totals, "waiting": total(now, "waiting"), "dead_letters": total(now, "dead_letters")}


def _watched(samples: list[Sampled]) -> Iterator[Record]:
    """Yield what was seen of nodes, machine and cluster; the last sample of each metric counts."""
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
    verdict = heard.summary.get("verdict") or {}
    return {
        "kind": "finished",
        "run": heard.path.name,
        "path": str(heard.path.absolute()),
        "status": heard.summary["status"],
        "valid": verdict.get("valid"),
        "reasons": [reason["cause"] for reason in verdict.get("reasons", ())],
    }
