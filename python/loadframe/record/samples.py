"""Turns the requests that the engine recorded one by one into samples.parquet, piece by piece.

The engine's file has 46 bytes for each, as `crates/engine/src/sample.rs` writes them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from loadframe.record.columns import SAMPLES_SCHEMA
from loadframe.record.schema import ERROR_CLASSES

FILE = "samples.bin"
_SLOTS = "slots.csv"

#: Requests that are turned at a time: some 10 MB.
_PIECE = 131_072

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
    """A phase whose requests were recorded: where, when its load began (s since the run began), and who took part.

    `hosts` and `ranks` are by the engine's numbers; without `ranks` a rank has its own number.
    """

    name: str
    folder: Path
    began: float
    hosts: Sequence[str]
    ranks: Sequence[int] | None


def write_samples(phases: Sequence[SampledPhase], target: Path) -> None:
    """Write the samples of the phases; no file where none was to be sampled."""
    sampled = [phase for phase in phases if (phase.folder / FILE).exists()]
    if not sampled:
        return
    with pq.ParquetWriter(target, SAMPLES_SCHEMA, compression="zstd") as writer:
        for phase in sampled:
            for batch in _batches(phase):
                writer.write_batch(batch)


def _batches(phase: SampledPhase) -> Iterator[pa.RecordBatch]:
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
    return {name: pa.array(samples[name] / 1e9 + began) for name in ("scheduled", "sent", "done")}


def _pieces(path: Path) -> Iterator[np.ndarray]:
    """Yield the samples of a file; what a killed process left of one at the end is left out."""
    with path.open("rb") as file:
        while data := file.read(_PIECE * _SAMPLE.itemsize):
            yield np.frombuffer(data[: len(data) // _SAMPLE.itemsize * _SAMPLE.itemsize], _SAMPLE)
