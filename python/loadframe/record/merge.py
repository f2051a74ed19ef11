"""Merging of the engine's recordings of all phases into the files of a run folder.

All files are streamed: memory does not grow with the length of a run. Percentiles of a second are copied, since a
second belongs to one phase; percentiles over several seconds are computed from the histograms by the analyses.
"""

import json
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from loadframe.base.errors import LoadframeError
from loadframe.record.reader import SAMPLES_SCHEMA, SERIES_SCHEMA, SERIES_TYPES, TELEMETRY_SCHEMA
from loadframe.record.schema import ERROR_CLASSES, GENERATOR, TARGETS, WORKERS

FILE = "samples.bin"
_SLOTS = "slots.csv"

#: Requests converted at a time: about 10 MB.
_PIECE = 131_072

#: A request in samples.bin: 46 bytes, as the engine writes it.
_SAMPLE = np.dtype(
    [
        ("scheduled", "<i8"),
        ("sent", "<i8"),
        ("done", "<i8"),
        ("documents", "<u4"),
        ("client", "<u4"),
        ("rank", "<u4"),
        ("slot", "<u4"),
        ("node", "<u2"),
        ("status", "<u2"),
        ("class", "u1"),
        ("measured", "u1"),
    ]
)


@dataclass(frozen=True)
class SampledPhase:
    """A phase with recorded requests: its folder, start of load (s since the run began), hosts and ranks.

    `hosts` and `ranks` map the engine's numbers to names and ranks; without `ranks` the numbers are the ranks.
    """

    name: str
    folder: Path
    began: float
    hosts: Sequence[str]
    ranks: Sequence[int] | None


def write_samples(phases: Sequence[SampledPhase], target: Path) -> None:
    """Write samples.bin of each phase to `target` in Parquet, with the columns of `schema.SAMPLES`.

    Phases without the file are skipped. If no phase has it, `target` is not created.
    """
    sampled = [phase for phase in phases if (phase.folder / FILE).exists()]
    if not sampled:
        return
    with pq.ParquetWriter(target, SAMPLES_SCHEMA, compression="zstd") as writer:
        for phase in sampled:
            for batch in _batches(phase):
                writer.write_batch(batch)


def _batches(phase: SampledPhase) -> Iterator[pa.RecordBatch]:
    """Yield the recorded requests of a phase in batches, with names instead of the engine's numbers.

    Null: `error` of a success, `status` 0, and a node that the phase's hosts do not have.
    """
    slots = pa.csv.read_csv(phase.folder / _SLOTS).to_pydict()
    names = {
        "phase": [phase.name],
        "stream": slots["stream"],
        "operation": slots["operation"],
        "segment": ["warmup", "measure"],
        "node": list(phase.hosts),
        "error": [error.name for error in ERROR_CLASSES],
    }
    words = {column: pa.array(values, pa.string()) for column, values in names.items()}
    for samples in _pieces(phase.folder / FILE):
        slot, node, failed = samples["slot"], samples["node"].astype(np.int64), samples["class"]
        rank = samples["rank"].astype(np.int64)
        numbers = {
            "phase": pa.array(np.zeros(len(samples), np.int64)),
            "stream": pa.array(slot),
            "operation": pa.array(slot),
            "segment": pa.array(samples["measured"]),
            "node": pa.array(node, mask=node >= len(phase.hosts)),
            "error": pa.array(failed.astype(np.int64) - 1, mask=failed == 0),
        }
        columns = {column: words[column].take(places) for column, places in numbers.items()}
        columns |= {
            "rank": pa.array(rank if phase.ranks is None else np.asarray(phase.ranks)[rank]),
            "client": pa.array(samples["client"].astype(np.int64)),
            **_instants(samples, phase.began),
            "documents": pa.array(samples["documents"].astype(np.int64)),
            "status": pa.array(samples["status"].astype(np.int64), mask=samples["status"] == 0),
        }
        yield pa.record_batch([columns[name] for name in SAMPLES_SCHEMA.names], SAMPLES_SCHEMA)


def _instants(samples: np.ndarray, began: float) -> Mapping[str, pa.Array]:
    """Return the columns scheduled, sent and done, s since the run began.

    `samples` have these times in ns since the start of the load, which is `began`, s since the run began.
    """
    return {name: pa.array(samples[name] / 1e9 + began) for name in ("scheduled", "sent", "done")}


def _pieces(path: Path) -> Iterator[np.ndarray]:
    """Yield the requests in a samples.bin as arrays of `_SAMPLE`; a partial one at the end is left out."""
    with path.open("rb") as file:
        while data := file.read(_PIECE * _SAMPLE.itemsize):
            yield np.frombuffer(data[: len(data) // _SAMPLE.itemsize * _SAMPLE.itemsize], _SAMPLE)


_GENERATOR_TYPES = {"second": pa.int64(), "worker": pa.int64()} | {field.name: pa.float64() for field in GENERATOR}
_WORKERS_TYPES = {"second": pa.int64()} | {field.name: pa.float64() for field in WORKERS}
_NODES_TYPES = {"operation": pa.string(), "node": pa.int64(), "second": pa.int64(), "requests": pa.int64()}
#: The column that only spinning workers have.
_SPINNING = "spin_seconds"
#: The column that files of older versions lack.
_NODES_LATER = {"documents": pa.int64()}

_UNSEEN = "error_unseen"
_LOG_VERSION = "#[Histogram log format version 1.3]"
_LOG_LEGEND = '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"'


@dataclass(frozen=True)
class PhaseRecording:
    """A phase recorded by the engine: planned start (s since the run began), target hosts, and folder."""

    name: str
    start: float
    hosts: Sequence[str]
    folder: Path


def merge_series(phases: Sequence[PhaseRecording], target: Path) -> None:
    """Write the series.csv of each phase to `target` (series.parquet), with the columns `phase` and `time`.

    `phase` is the name, `time` the start of the second in s since the run began. A phase without the file adds no rows.
    LoadframeError if a file cannot be read.
    """
    with pq.ParquetWriter(target, SERIES_SCHEMA, compression="zstd") as writer:
        for phase in phases:
            path = phase.folder / "series.csv"
            # Older versions do not have this column.
            absent = {_UNSEEN} - _header(path)
            types = {name: type_ for name, type_ in SERIES_TYPES.items() if name not in absent}
            for batch in _csv_batches(path, types):
                columns = {name: batch.column(name) for name in batch.schema.names}
                columns |= {name: pa.nulls(batch.num_rows, SERIES_TYPES[name]) for name in absent}
                columns["phase"] = pa.array([phase.name] * batch.num_rows, pa.string())
                columns["time"] = _times(phase, columns["second"])
                writer.write_batch(pa.record_batch([columns[name] for name in SERIES_SCHEMA.names], SERIES_SCHEMA))


def sampled_phases(phases: Sequence[PhaseRecording]) -> list[SampledPhase]:
    """Return all phases in the form for `write_samples`, with start, hosts and ranks from the engine's outcome.

    A phase that did not end has its planned start and hosts, and no ranks.
    """
    outcomes = [(phase, _outcome(phase)) for phase in phases]
    return [
        SampledPhase(
            phase.name, phase.folder, outcome.get("offset", phase.start), _hosts(phase), outcome.get("members")
        )
        for phase, outcome in outcomes
    ]


def _header(path: Path) -> set[str]:
    """Return the column names of a CSV file; empty if it does not exist."""
    if not path.exists():
        return set()
    with path.open() as lines:
        return set(lines.readline().strip().split(","))


def generator_telemetry(phase: PhaseRecording) -> Iterator[pa.RecordBatch]:
    """Yield the telemetry of a phase's generator.csv and workers.csv, a batch for each metric and part of a file.

    Sources are `generator:WORKER` (with several ranks `generator:RANK.WORKER`) and `workers`, which has no machine.
    Missing files are skipped; LoadframeError if one cannot be read.
    """
    outcome = _outcome(phase)
    ranks = outcome.get("members")
    names = {entry["rank"]: entry["machine"] for entry in outcome.get("by_rank", ()) if "machine" in entry}
    path = phase.folder / "generator.csv"
    types = {"rank": pa.int64(), **_GENERATOR_TYPES} if ranks else dict(_GENERATOR_TYPES)
    if _SPINNING not in _header(path):
        del types[_SPINNING]
    metrics = [field.name for field in GENERATOR if field.name in types]
    for batch in _csv_batches(path, types):
        worker = pc.cast(batch.column("worker"), pa.string())
        if ranks:
            # The engine numbers the participating ranks from 0.
            numbers = [ranks[position] for position in batch.column("rank").to_pylist()]
            worker = pc.binary_join_element_wise(pa.array(map(str, numbers), pa.string()), worker, ".")
            machine = pa.array(map(names.get, numbers), pa.string())
        else:
            machine = pa.array([platform.node()] * batch.num_rows, pa.string())
        source = pc.binary_join_element_wise("generator", worker, ":")
        for name in metrics:
            yield _telemetry(phase, batch.column("second"), source, name, batch.column(name), machine)
    for batch in _csv_batches(phase.folder / "workers.csv", _WORKERS_TYPES):
        source, nowhere = pa.array(["workers"] * batch.num_rows, pa.string()), pa.nulls(batch.num_rows, pa.string())
        for field in WORKERS:
            yield _telemetry(phase, batch.column("second"), source, field.name, batch.column(field.name), nowhere)


def node_telemetry(phase: PhaseRecording) -> Iterator[pa.RecordBatch]:
    """Yield the telemetry of a phase's nodes.csv: source `target:HOST`, metrics `requests` and `documents`.

    Values are sums over operations, per second. If the number of a host has no name, HOST is the number. Nothing if the
    file is missing, LoadframeError if it cannot be read.
    """
    path = phase.folder / "nodes.csv"
    types = _NODES_TYPES | {name: kind for name, kind in _NODES_LATER.items() if name in _header(path)}
    metrics = [field.name for field in TARGETS if field.name in types]
    rows = pa.Table.from_batches(_csv_batches(path, types), pa.schema(list(types.items())))
    # Operations have rows for each stream and segment; sum them by host.
    sums = rows.group_by(["node", "second"], use_threads=False).aggregate([(metric, "sum") for metric in metrics])
    hosts = _hosts(phase)
    for batch in sums.to_batches():
        names = [hosts[node] if node < len(hosts) else str(node) for node in batch.column("node").to_pylist()]
        source = pa.array([f"target:{name}" for name in names], pa.string())
        nowhere = pa.nulls(batch.num_rows, pa.string())
        for metric in metrics:
            value = pc.cast(batch.column(f"{metric}_sum"), pa.float64())
            yield _telemetry(phase, batch.column("second"), source, metric, value, nowhere)


def merge_histograms(phases: Sequence[PhaseRecording], target: Path, started: datetime) -> None:
    """Write `target` (histograms.hlog): the intervals of all phases under one header.

    `started`, the start of the run, is the base time. Phases without histograms are skipped. LoadframeError for a
    damaged line.
    """
    with target.open("w") as log:
        log.write("#[Values are nanoseconds; Interval_Max is milliseconds; timestamps are s since the run began]\n")
        log.write(f"{_LOG_VERSION}\n")
        log.write(f"#[StartTime: {started.timestamp():.3f} (seconds since epoch), {started.isoformat()}]\n")
        log.write(f"#[BaseTime: {started.timestamp():.3f} (seconds since epoch)]\n")
        log.write("#[MaxValueDivisor: 1000000.000]\n")
        log.write(f"{_LOG_LEGEND}\n")
        for phase in phases:
            _copy_intervals(phase.folder / "histograms.hlog", log)


def _copy_intervals(source: Path, log: TextIO) -> None:
    """Append the intervals of a phase's histograms, if the file exists, to a log. LoadframeError for a damaged line."""
    if not source.exists():
        return
    with source.open() as lines:
        for number, line in enumerate(lines, start=1):
            if line.startswith(("#", '"')):
                continue
            # [Tag=...,]start,length,maximum,histogram
            if line.count(",") not in (3, 4) or not line.endswith("\n"):
                raise LoadframeError("the engine's histograms are damaged", where=f"{source}:{number}")
            log.write(line)


def _csv_batches(path: Path, types: dict[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a CSV file in batches, only the columns of `types`; nothing if the file does not exist.

    LoadframeError if the file cannot be read.
    """
    if not path.exists():
        return
    convert = pa.csv.ConvertOptions(column_types=types, include_columns=list(types))
    try:
        with pa.csv.open_csv(path, convert_options=convert, read_options=pa.csv.ReadOptions(use_threads=False)) as rows:
            yield from rows
    except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
        raise LoadframeError(f"cannot read the engine's recording: {error}", where=str(path)) from error


def _telemetry(
    phase: PhaseRecording, second: pa.Array, source: pa.Array, metric: str, value: pa.Array, machine: pa.Array
) -> pa.RecordBatch:
    """Return rows of one metric for `TELEMETRY_SCHEMA`, one per element of the arrays.

    `second` are seconds since the start of the phase's load; they become times, s since the run began.
    """
    metrics = pa.array([metric] * len(second), pa.string())
    return pa.record_batch([_times(phase, second), source, metrics, value, machine], TELEMETRY_SCHEMA)


def _times(phase: PhaseRecording, second: pa.Array) -> pa.Array:
    """Return the start of each second (number from 0 at the start of the load) in s since the run began.

    The start of the load is that of the engine's outcome, or the planned one if the phase did not end.
    """
    return pc.add(pc.cast(second, pa.float64()), _outcome(phase).get("offset", phase.start))


def _hosts(phase: PhaseRecording) -> Sequence[str]:
    """Return the hosts in the order of the engine's numbers, with hosts that joined during the phase.

    Without an outcome, or if it has no hosts, the hosts of the plan.
    """
    return _outcome(phase).get("hosts") or phase.hosts


def _outcome(phase: PhaseRecording) -> dict[str, Any]:
    """Return the engine's outcome of a phase; empty if the phase did not end."""
    path = phase.folder / "outcome.json"
    outcome: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return outcome
