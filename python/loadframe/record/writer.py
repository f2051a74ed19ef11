"""Writing of run folders, in a hidden folder that `finish` renames, and notifications of the run's subscribers.

A subscriber never blocks the run: its queue is bounded, and drops the oldest notifications if the reader is slow.
"""

import contextlib
import errno
import json
import math
import os
import shutil
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Any, BinaryIO, Self

import pyarrow as pa
import pyarrow.parquet as pq

from loadframe.base.errors import BadInput, LoadframeError
from loadframe.base.folders import require_utf8
from loadframe.record import schema
from loadframe.record.merge import (
    PhaseRecording,
    generator_telemetry,
    merge_histograms,
    merge_series,
    node_telemetry,
    sampled_phases,
    write_samples,
)
from loadframe.record.reader import TELEMETRY_SCHEMA, Recordings
from loadframe.record.redact import plain
from loadframe.record.unfinished import BEGUN, LOCK_FILE, SCRATCH, Wreck, hold, partial_name, remove_stale


@dataclass(frozen=True, slots=True)
class Happened:
    """Notification of a line of events.jsonl."""

    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Sampled:
    """Notification of a row of telemetry.parquet; `time` is s since the run began."""

    time: float
    source: str
    metric: str
    value: float


@dataclass(frozen=True, slots=True)
class Finished:
    """Notification that the run's folder is complete, with its summary."""

    path: Path
    summary: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Closed:
    """Notification that recording ended. Without a `Finished` before it, the run was discarded."""


class Subscriber:
    """A bounded queue of notifications from one or several writers. Any thread may put; one thread takes."""

    #: Some minutes of samples of a cluster of a hundred nodes: about 5 MB.
    MOST = 50_000

    def __init__(self, most: int = MOST) -> None:
        """`most` is the largest number of queued notifications."""
        # Appending to a full deque drops its oldest element atomically.
        self._queue: deque[Any] = deque(maxlen=most)

    def put(self, notification: Any) -> None:
        """Add a notification, without waiting; drop the oldest if the queue is full."""
        self._queue.append(notification)

    def take(self) -> list[Any]:
        """Remove and return all queued notifications, oldest first."""
        notifications = []
        while self._queue:
            notifications.append(self._queue.popleft())
        return notifications


#: Samples kept in memory before they are written as a row group: about 2 MB, some minutes of a small cluster.
_BUFFERED = 16_384


class RunWriter:
    """Writer of the run `parent/run_id`; a thread-safe context manager.

    Entering starts the run's clock, and deletes unfinished runs of dead processes in `parent`. Leaving without `finish`
    deletes the recorded data; to keep an interrupted run, finish it. BadInput if the run exists or cannot be written
    there; LoadframeError if writing fails later, such as on a full disk.
    """

    def __init__(self, parent: Path, run_id: str):
        """Prepare to write the run `parent/run_id`, without writing. BadInput for an invalid name or non-UTF-8 path."""
        if not run_id or run_id.startswith(".") or "/" in run_id or "\0" in run_id:
            raise BadInput(f"invalid run name {run_id!r}", remedy="use a folder name without '/' or a leading '.'")
        require_utf8(parent / run_id)
        self.run_id = run_id
        self.path = parent / run_id
        self._partial = parent / partial_name(run_id)
        self._lock = threading.Lock()
        self._phases: list[PhaseRecording] = []
        self._rows: list[tuple[float, str, str, float, str | None]] = []
        self._subscribers: tuple[Subscriber, ...] = ()
        self._joined = False
        self._finished = False
        #: Lock that marks this process as alive, or None on a file system without locks.
        self._held: BinaryIO | None = None

    def __enter__(self) -> Self:
        if self.path.exists():
            raise BadInput("the run already exists", where=str(self.path), remedy="choose another name, or delete it")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            remove_stale(self.path.parent)
            self._partial.mkdir()
            self._held = hold(self._partial)
            self.scratch.mkdir()
            self._events = (self._partial / schema.EVENTS_FILE).open("w", encoding="utf-8")
            self._telemetry = pq.ParquetWriter(
                self._partial / schema.TELEMETRY_FILE, TELEMETRY_SCHEMA, compression="zstd"
            )
        except OSError as error:
            shutil.rmtree(self._partial, ignore_errors=True)
            self._release()
            raise BadInput(
                f"cannot write runs to this folder: {error.strerror or error}",
                where=str(self.path.parent),
                remedy="choose a writable folder",
            ) from error
        #: Origin of the run's time axis, s of the monotonic clock.
        self.began = monotonic()
        self.started = datetime.now(UTC)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._notify(Closed())
            if self._finished:
                self._events.close()
                self._release()
                return
            # Ignore a full disk, since the files are deleted.
            with contextlib.suppress(OSError):
                self._events.close()
            with contextlib.suppress(OSError):
                self._telemetry.close()
            shutil.rmtree(self._partial, ignore_errors=True)
            self._release()

    def _release(self) -> None:
        """Release the lock that marks this process as alive."""
        if self._held:
            self._held.close()

    @classmethod
    @contextmanager
    def adopt(cls, wreck: Wreck) -> Iterator[Self]:
        """Yield a writer that takes over the run of a dead process; leaving without `finish` deletes the run.

        Renames and repairs the run's folder. Its telemetry so far is lost. Its clock is unknown: `elapsed` fails, and
        events need a `time`. FileNotFoundError if another process has taken the run over.
        """
        writer = cls(wreck.parent, wreck.run_id)
        try:
            writer._held = hold(wreck.folder)
        except BlockingIOError:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(wreck.folder)) from None
        wreck.folder.rename(writer._partial)
        writer.started = wreck.started
        writer._phases = wreck.recordings(writer.scratch)
        writer._events = (writer._partial / schema.EVENTS_FILE).open("a", encoding="utf-8")
        # The samples so far are lost: a Parquet file without its footer is unreadable.
        writer._telemetry = pq.ParquetWriter(
            writer._partial / schema.TELEMETRY_FILE, TELEMETRY_SCHEMA, compression="zstd"
        )
        try:
            yield writer
        finally:
            writer.__exit__(None, None, None)

    @property
    def folder(self) -> Path:
        """The hidden folder of the run until `finish`."""
        return self._partial

    @property
    def scratch(self) -> Path:
        """The folder of temporary files, deleted by `join`."""
        return self._partial / SCRATCH

    def subscribe(self, subscriber: Subscriber) -> None:
        """Put the run's notifications from now on into the queue of `subscriber`.

        They are `Happened` (event), `Sampled` (telemetry), `Finished` and `Closed`.
        """
        with self._lock:
            self._subscribers += (subscriber,)

    def draft(self, manifest: Mapping[str, Any]) -> None:
        """Write a preliminary manifest.json for recovery if this process dies; `finish` overwrites it.

        Secrets are masked. LoadframeError if writing fails.
        """
        with self._writing():
            self._write_json(schema.MANIFEST_FILE, manifest)

    def begun(self, folder: Path, phase: Mapping[str, Any]) -> None:
        """Write `phase`, the description of a phase whose load begins, to begun.json in its `folder`.

        It serves to recover the run if this process dies. Its keys include `phase` (the name) and `start` (s since the
        run began). Secrets are not masked. LoadframeError if writing fails.
        """
        with self._writing():
            (folder / BEGUN).write_text(json.dumps(phase), encoding="utf-8")

    def elapsed(self) -> float:
        """Return s since the run began, by the monotonic clock: the run's time axis."""
        return monotonic() - self.began

    def phase(self, name: str, start: float, hosts: Sequence[str] = ()) -> Path:
        """Create a folder for the engine's recordings of a phase, which `join` merges into the run; return its path.

        `start` is the planned start of load, s since the run began; the engine's outcome overrides it. `hosts` are the
        target's hosts, in the order of the engine's numbers.
        """
        folder = self.scratch / f"phase-{len(self._phases)}"
        with self._writing():
            folder.mkdir()
            self._phases.append(PhaseRecording(name, start, tuple(hosts), folder))
        return folder

    def event(self, kind: str, time: float | None = None, **fields: object) -> None:
        """Record an event at `time` (s since the run began; default: now), and notify subscribers.

        `fields` are further keys of the event; secrets in them are masked. LoadframeError if writing fails.
        """
        time = self.elapsed() if time is None else time
        wall = (self.started + timedelta(seconds=time)).isoformat(timespec="milliseconds")
        event = plain({"time": round(time, 6), "wall": wall, "kind": kind, **fields})
        line = json.dumps(event, allow_nan=False)
        with self._writing():
            self._events.write(f"{line}\n")
            self._events.flush()
            self._notify(Happened(event))

    def telemetry(self, time: float, source: str, metric: str, value: float, machine: str | None = None) -> None:
        """Record a sample at `time` (s since the run began), buffered, and notify subscribers.

        `machine` is the name of the source's machine, None if unknown or without a single one. Infinite values and NaN,
        which some stores report for a mean of nothing, are left out. LoadframeError if writing fails.
        """
        if not math.isfinite(value):
            return
        with self._writing():
            self._rows.append((time, source, metric, float(value), machine))
            if self._subscribers:
                self._notify(Sampled(time, source, metric, float(value)))
            if len(self._rows) >= _BUFFERED:
                self._flush()

    def join(self) -> Recordings:
        """Merge the recordings of all phases, delete `scratch`, and return the recordings.

        The returned object can be read until `finish`. Events can still be added, but no phase and no sample. Further
        calls only return. LoadframeError if a recording is damaged or writing fails.
        """
        with self._writing():
            if not self._joined:
                self._joined = True
                self._flush()
                merge_series(self._phases, self._partial / schema.SERIES_FILE)
                merge_histograms(self._phases, self._partial / schema.HISTOGRAMS_FILE, self.started)
                write_samples(sampled_phases(self._phases), self._partial / schema.SAMPLES_FILE)
                for phase in self._phases:
                    for batch in (*generator_telemetry(phase), *node_telemetry(phase)):
                        self._telemetry.write_batch(batch)
                self._telemetry.close()
                shutil.rmtree(self.scratch)
        return Recordings(self._partial)

    def finish(self, manifest: Mapping[str, Any], summary: Mapping[str, Any]) -> Path:
        """Write all files to disk, rename the folder to the run's path, and return it.

        Secrets in the manifest and the summary are masked. Nothing can be written afterwards. LoadframeError if another
        process has written the same run, a recording is damaged, or writing fails.
        """
        self.join()
        with self._writing():
            self._write_json(schema.MANIFEST_FILE, manifest)
            self._write_json(schema.SUMMARY_FILE, summary)
            self._events.close()
            self._order_events()
            sampled = (schema.SAMPLES_FILE,) if (self._partial / schema.SAMPLES_FILE).exists() else ()
            for member in (*schema.MEMBERS, *sampled):
                _sync(self._partial / member)
            _sync(self._partial)
            (self._partial / LOCK_FILE).unlink(missing_ok=True)
            if self.path.exists():
                raise LoadframeError("another process has written the same run", where=str(self.path))
            self._partial.rename(self.path)
            _sync(self.path.parent)
            self._finished = True
            self._notify(Finished(self.path, plain(summary)))
        return self.path

    def _notify(self, notification: object) -> None:
        """Put a notification into the queue of each subscriber, without waiting. Call it with the lock held."""
        for subscriber in self._subscribers:
            subscriber.put(notification)

    def _order_events(self) -> None:
        """Rewrite events.jsonl in order of time: some events are recorded only after the activity has ended."""
        path = self._partial / schema.EVENTS_FILE
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        path.write_text("".join(sorted(lines, key=lambda line: float(json.loads(line)["time"]))), encoding="utf-8")

    def _flush(self) -> None:
        """Write the buffered samples to telemetry.parquet as a row group; empty the buffer. Call it in `_writing`."""
        if self._rows:
            columns = [
                pa.array(column, kind)
                for column, kind in zip(zip(*self._rows, strict=True), TELEMETRY_SCHEMA.types, strict=True)
            ]
            self._telemetry.write_batch(pa.record_batch(columns, TELEMETRY_SCHEMA))
            self._rows.clear()

    def _write_json(self, name: str, value: Mapping[str, Any]) -> None:
        """Write `value` to the JSON file `name` of the run, with secrets masked. Call it in `_writing`."""
        text = json.dumps(plain(value), indent=2, ensure_ascii=False, allow_nan=False)
        (self._partial / name).write_text(f"{text}\n", encoding="utf-8")

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Hold the writer's lock during a `with` block, and convert its OSError to LoadframeError."""
        with self._lock:
            try:
                yield
            except OSError as error:
                raise LoadframeError(
                    f"cannot record the run: {error.strerror or error}",
                    where=str(self.path.parent),
                    remedy="check that the disk has space and is writable",
                ) from error


def _sync(path: Path) -> None:
    """Flush a file or a folder's entries to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
