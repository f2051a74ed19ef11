"""Vectors in files of other programs, as the engine reads them: the rows of HDF5 data sets and of columns of Parquet.

The engine maps `.fvecs`, `.ivecs` and `.bvecs`. Other files are written as these once, into the cache.
"""

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loadframe.errors import BadInput

if TYPE_CHECKING:
    import numpy as np

#: Files that the engine maps as they are.
MAPPED = (".fvecs", ".ivecs", ".bvecs")
_CONTAINERS = (".hdf5", ".h5", ".parquet")
#: Bytes of a row's components, by the file's ending.
COMPONENT = {".fvecs": 4, ".ivecs": 4, ".bvecs": 1}
#: Rows that are in memory at a time.
_ROWS = 8192

#: Makes the error of what is wrong with a file and of the remedy.
Wrong = Callable[[str, str], BadInput]


@dataclass(frozen=True)
class Place:
    """Where a column's values are: a file or an address, and within it a data set or a column if it has several."""

    file: str
    inside: str | None

    @property
    def is_address(self) -> bool:
        """Whether the file is fetched."""
        return self.file.startswith(("http://", "https://"))


def place(text: str) -> Place:
    """Read `base.fvecs`, `glove.hdf5:train` or `https://data.example/part.parquet:emb`."""
    match = re.fullmatch(r"(.+\.(?:hdf5|h5|parquet)):([^:]+)", text)
    return Place(match[1], match[2]) if match else Place(text, None)


def wrong_place(text: str) -> str | None:
    """Return why a text does not say where vectors are; None if it does."""
    where = place(text)
    suffix = Path(where.file).suffix.lower()
    if suffix in MAPPED:
        return None
    if suffix not in _CONTAINERS:
        return f"{text!r} is not a file of vectors ({', '.join((*MAPPED, *_CONTAINERS))})"
    return None if where.inside else f"{text!r} does not say which part of the file: write FILE:NAME"


def column(name: str, file: Path, inside: str | None, folder: Path, error: Wrong) -> dict[str, Any]:
    """Return a column of a corpus as the engine takes it: `{"name", "file", "single"?}`.

    What is not mapped as it is is written into `folder` once, and again when the file has changed. BadInput, made by
    `error`, for what holds no vectors.
    """
    if file.suffix.lower() in MAPPED or inside is None:
        return {"name": name, "file": str(file)}
    status = file.stat()
    key = f"{file}:{inside}:{status.st_size}:{status.st_mtime_ns}"
    stem = folder / f"{file.stem}-{hashlib.sha256(key.encode()).hexdigest()[:16]}"
    note = stem.with_suffix(".json")
    if not note.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        blocks = _parquet(file, inside, error) if file.suffix.lower() == ".parquet" else _hdf5(file, inside, error)
        written = _write(blocks, stem, error, f"{file}:{inside}")
        note.write_text(json.dumps(written))
    known = json.loads(note.read_text())
    return {
        "name": name,
        "file": str(stem.with_suffix(known["suffix"])),
        **({"single": True} if known["single"] else {}),
    }


def rows(file: Path) -> int | None:
    """Return how many rows a file has that the engine maps; None for others."""
    size = COMPONENT.get(file.suffix.lower())
    if size is None or not file.is_file():
        return None
    with file.open("rb") as opened:
        dimensions = int.from_bytes(opened.read(4), "little", signed=True)
    return file.stat().st_size // (4 + size * dimensions) if dimensions > 0 else None


def rows_as_lines(file: Path, folder: Path, error: Wrong) -> Path:
    """Return an NDJSON file with the rows of a Parquet file, which is written once into `folder`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    status = file.stat()
    key = hashlib.sha256(f"{file}:{status.st_size}:{status.st_mtime_ns}".encode()).hexdigest()[:16]
    target = folder / f"{file.stem}-{key}.ndjson"
    if target.is_file():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    partial = target.with_suffix(f".{os.getpid()}.partial")
    try:
        with pq.ParquetFile(file) as opened, partial.open("w") as lines:
            for batch in opened.iter_batches(batch_size=_ROWS):
                lines.writelines(json.dumps(row, default=str, allow_nan=False) + "\n" for row in batch.to_pylist())
    except (pa.ArrowException, ValueError) as cause:
        partial.unlink(missing_ok=True)
        raise error(f"{file} cannot be read as Parquet: {cause}", "give a Parquet file whose values JSON has") from None
    partial.replace(target)
    return target


def _hdf5(file: Path, inside: str, error: Wrong) -> "Iterator[np.ndarray[Any, Any]]":
    try:
        import h5py
    except ImportError:
        raise error(f"{file} is HDF5, and h5py is not installed", "install it: pip install h5py") from None
    try:
        opened = h5py.File(file, "r")
    except OSError as cause:
        raise error(f"{file} cannot be read as HDF5: {cause}", "check the file") from None
    with opened:
        data = opened.get(inside)
        if not isinstance(data, h5py.Dataset):
            raise error(f"{file} has no data set {inside!r}", f"choose one of {', '.join(sorted(opened))}")
        for start in range(0, data.shape[0], _ROWS):
            yield data[start : start + _ROWS]


def _parquet(file: Path, inside: str, error: Wrong) -> "Iterator[np.ndarray[Any, Any]]":
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        opened = pq.ParquetFile(file)
    except (pa.ArrowException, OSError) as cause:
        raise error(f"{file} cannot be read as Parquet: {cause}", "check the file") from None
    with opened:
        if inside not in opened.schema_arrow.names:
            raise error(f"{file} has no column {inside!r}", f"choose one of {', '.join(opened.schema_arrow.names)}")
        for batch in opened.iter_batches(batch_size=_ROWS, columns=[inside]):
            values = batch.column(0)
            if values.null_count:
                raise error(f"the column {inside!r} of {file} has rows without a value", "leave them out of the file")
            if not pa.types.is_nested(values.type):
                yield values.to_numpy(zero_copy_only=False)
                continue
            flat, count = values.flatten(), len(values)
            lengths = {len(row) for row in values}
            if len(lengths) > 1 or flat.null_count:
                raise error(f"the vectors of the column {inside!r} of {file} differ in length", "leave those out")
            yield flat.to_numpy(zero_copy_only=False).reshape(count, -1)


def _write(blocks: "Iterator[np.ndarray[Any, Any]]", stem: Path, error: Wrong, what: str) -> dict[str, Any]:
    """Write the rows as the engine reads them; return the file's ending, and whether each row is a single value."""
    import numpy as np

    partial = stem.with_suffix(f".{os.getpid()}.partial")
    suffix, single, width = "", False, None
    try:
        with partial.open("wb") as target:
            for block in blocks:
                single = block.ndim == 1
                matrix = block.reshape(len(block), -1)
                if matrix.dtype.kind == "f":
                    suffix, components = ".fvecs", matrix.astype("<f4")
                elif matrix.dtype.kind in "iu" and (not matrix.size or abs(matrix.astype("i8")).max() < 2**31):
                    suffix, components = ".ivecs", matrix.astype("<i4")
                else:
                    raise error(f"{what} holds neither numbers nor vectors of them", "name another part of the file")
                width = components.shape[1]
                lengths = np.full((len(components), 1), width, "<i4")
                np.hstack([lengths, components.view("<i4")]).tofile(target)
        if not width:
            raise error(f"{what} has no rows", "name another part of the file")
        partial.replace(stem.with_suffix(suffix))
    finally:
        partial.unlink(missing_ok=True)
    return {"suffix": suffix, "single": single}
