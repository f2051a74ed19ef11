"""Vector files: HDF5 data sets, Parquet columns and Big ANN files, converted for the engine.

The engine memory-maps `.fvecs`, `.ivecs` and `.bvecs`. Other formats are converted to these once, in the cache.
"""

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loadframe.base.errors import BadInput
from loadframe.workload.holes import names
from loadframe.workload.variables import Variable
from loadframe.yamlfile import Document

if TYPE_CHECKING:
    import numpy as np


#: Formats that the engine maps directly.
MAPPED = (".fvecs", ".ivecs", ".bvecs")
#: Formats with several data sets or columns; the source must name one.
_CONTAINERS = (".hdf5", ".h5", ".parquet")
#: Component types of Big ANN files, by extension. A `.bin` file holds ids of neighbours, optionally followed by their
#: distances.
_BIG_ANN = {".fbin": "<f4", ".u8bin": "u1", ".i8bin": "i1", ".ibin": "<i4", ".bin": "<u4"}
#: Bytes of the header of such a file: number of rows, number of components.
_BIG_ANN_HEADER = 8
#: pyarrow's names of compressions, by extension.
_COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
#: Bytes per component, by extension.
COMPONENT = {".fvecs": 4, ".ivecs": 4, ".bvecs": 1}
#: Rows in memory at a time.
_ROWS = 8192
#: Bytes decompressed at a time.
_CHUNK = 2**20

#: Makes the exception for an unusable file from the problem and the remedy.
MakeError = Callable[[str, str], BadInput]


@dataclass(frozen=True)
class VectorSource:
    """The source of a column: a file or URL, and a data set or column within it (None for flat files)."""

    file: str
    inside: str | None

    @property
    def is_address(self) -> bool:
        """Whether the file is downloaded."""
        return self.file.startswith(("http://", "https://"))


def vector_source(text: str) -> VectorSource:
    """Return file and inner part of a source, such as `base.fvecs`, `glove.hdf5:train` or `sift.hdf5.bz2:test`.

    The inner part is None for flat files. A URL, such as `https://data.example/part.parquet:emb`, stands for a file.
    The text is not checked.
    """
    match = re.fullmatch(r"(.+\.(?:hdf5|h5|parquet)(?:\.gz|\.bz2|\.zst)?):([^:]+)", text)
    return VectorSource(match[1], match[2]) if match else VectorSource(text, None)


def wrong_source(text: str) -> str | None:
    """Return why a text is not a valid vector source; None if it is valid."""
    source = vector_source(text)
    suffix = _suffix(Path(source.file))
    if suffix in MAPPED or suffix in _BIG_ANN:
        return None
    if suffix not in _CONTAINERS:
        return f"{text!r} is not a vector file ({', '.join((*MAPPED, *_CONTAINERS, *_BIG_ANN))})"
    return None if source.inside else f"{text!r} lacks the data set or column: write FILE:NAME"


def _suffix(file: Path) -> str:
    """Return the lower-case extension of the format, such as `.hdf5`, ignoring a compression extension."""
    return Path(file.stem if file.suffix.lower() in _COMPRESSED else file.name).suffix.lower()


def column(name: str, file: Path, inside: str | None, folder: Path, error: MakeError) -> dict[str, Any]:
    """Return a column of a corpus for the plan: `{"name", "file", "single"?}`; `single` if each row is a single value.

    Decompresses a compressed file, and converts one that the engine cannot map, into `folder`, once per version of the
    file. `inside` is the data set or column in the file. Raises `error(what, remedy)` if it cannot be read or does not
    hold vectors.
    """
    if file.suffix.lower() in _COMPRESSED:
        file = _unpacked(file, folder, error)
    if file.suffix.lower() in MAPPED:
        return {"name": name, "file": str(file)}
    stem = folder / f"{file.stem}-{_state(file, inside or '')}"
    note = stem.with_name(f"{stem.name}.json")
    if not note.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        written = _write(_blocks(file, inside, error), stem, error, f"{file}:{inside}" if inside else str(file))
        note.write_text(json.dumps(written))
    known = json.loads(note.read_text())
    return {
        "name": name,
        "file": f"{stem}{known['suffix']}",
        **({"single": True} if known["single"] else {}),
    }


def rows(file: Path) -> int | None:
    """Return the number of vectors in a .fvecs, .ivecs or .bvecs file, by its size and first vector.

    None for other formats, missing files, and a first vector without a dimension.
    """
    size = COMPONENT.get(file.suffix.lower())
    if size is None or not file.is_file():
        return None
    with file.open("rb") as opened:
        dimensions = int.from_bytes(opened.read(4), "little", signed=True)
    return file.stat().st_size // (4 + size * dimensions) if dimensions > 0 else None


def rows_as_lines(file: Path, folder: Path, error: MakeError) -> Path:
    """Convert a Parquet file to NDJSON in `folder`, unless it is cached there, and return the path.

    Values that JSON lacks, such as dates, become texts. Raises `error(what, remedy)` if the file is not Parquet, or
    holds NaN or infinity.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    target = folder / f"{file.stem}-{_state(file)}.ndjson"
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
        what = f"cannot convert {file} from Parquet to JSON: {cause}"
        raise error(what, "use a Parquet file whose values JSON can represent") from None
    partial.replace(target)
    return target


def first_padded_row(file: Path, most: int) -> int | None:
    """Return the number of the first row, from 0, with a negative number among its first `most` ones; None without one.

    `file` is an `.ivecs` file with rows of equal length. Lists of fewer neighbours are padded with -1.
    """
    import numpy as np

    values = np.memmap(file, "<i4", "r")
    table = values.reshape(-1, int(values[0]) + 1)[:, 1 : most + 1]
    for start in range(0, len(table), _ROWS):
        short = np.flatnonzero((table[start : start + _ROWS] < 0).any(axis=1))
        if len(short):
            return start + int(short[0])
    return None


def _state(file: Path, inside: str = "") -> str:
    """Return a cache key (16 hexadecimal digits) of a file's path, size and modification time, and of `inside`.

    OSError if the file is missing.
    """
    status = file.stat()
    key = f"{file}:{inside}:{status.st_size}:{status.st_mtime_ns}"
    return hashlib.sha256(key.encode()).hexdigest()[:16]


def _unpacked(file: Path, folder: Path, error: MakeError) -> Path:
    """Decompress a file into `folder`, unless it is cached there, and return the path.

    Raises `error(what, remedy)` if it cannot be decompressed.
    """
    import pyarrow as pa

    unpacked = Path(file.stem)
    target = folder / f"{unpacked.stem}-{_state(file)}{unpacked.suffix}"
    if target.is_file():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f"{target.name}.{os.getpid()}.partial")
    try:
        with (
            pa.input_stream(str(file), compression=_COMPRESSED[file.suffix.lower()]) as source,
            partial.open("wb") as out,
        ):
            while chunk := source.read(_CHUNK):
                out.write(chunk)
        partial.replace(target)
    except (pa.ArrowException, OSError) as cause:
        raise error(f"cannot decompress {file}: {cause}", "check the file") from None
    finally:
        partial.unlink(missing_ok=True)
    return target


def _blocks(file: Path, inside: str | None, error: MakeError) -> "Iterator[np.ndarray[Any, Any]]":
    """Yield the rows of a vector file in blocks, by its format; raises `error(what, remedy)` if it is unusable.

    Blocks are 2-D, or 1-D if each row is a single value. `inside` is the data set or column in an HDF5 or Parquet file.
    """
    suffix = file.suffix.lower()
    if suffix in _BIG_ANN:
        return _big_ann(file, error)
    return _parquet(file, inside or "", error) if suffix == ".parquet" else _hdf5(file, inside or "", error)


def _big_ann(file: Path, error: MakeError) -> "Iterator[np.ndarray[Any, Any]]":
    """Yield the rows of a Big ANN file in 2-D blocks; raises `error(what, remedy)` if its size contradicts its header.

    The file's suffix decides the type of the numbers.
    """
    import numpy as np

    kind = np.dtype(_BIG_ANN[file.suffix.lower()])
    size = file.stat().st_size
    header = np.fromfile(file, "<u4", 2)
    count, width = (int(number) for number in header) if len(header) == 2 else (0, 0)
    needed = count * width * kind.itemsize
    ids_alone = size == _BIG_ANN_HEADER + needed
    ids_and_distances = file.suffix.lower() == ".bin" and size == _BIG_ANN_HEADER + 2 * needed
    if not needed or not (ids_alone or ids_and_distances):
        what = f"{file} has {size} bytes, which contradicts its header of {count} rows with {width} components"
        raise error(what, "use a complete file of the Big ANN benchmarks")
    table = np.memmap(file, kind, "r", offset=_BIG_ANN_HEADER, shape=(count, width))
    for start in range(0, count, _ROWS):
        yield table[start : start + _ROWS]


def _hdf5(file: Path, inside: str, error: MakeError) -> "Iterator[np.ndarray[Any, Any]]":
    """Yield the rows of a data set (`inside`) of an HDF5 file in blocks with the data set's dimensions.

    Raises `error(what, remedy)` if h5py is missing, the file cannot be read, or the data set does not exist.
    """
    try:
        import h5py
    except ImportError:
        raise error(f"{file} is HDF5, which requires h5py", "install it: pip install h5py") from None
    try:
        opened = h5py.File(file, "r")
    except OSError as cause:
        raise error(f"cannot read {file} as HDF5: {cause}", "check the file") from None
    with opened:
        data = opened.get(inside)
        if not isinstance(data, h5py.Dataset):
            raise error(f"unknown data set {inside!r} in {file}", f"choose one of {', '.join(sorted(opened))}")
        for start in range(0, data.shape[0], _ROWS):
            yield data[start : start + _ROWS]


def _parquet(file: Path, inside: str, error: MakeError) -> "Iterator[np.ndarray[Any, Any]]":
    """Yield the rows of a column (`inside`) of a Parquet file in blocks: 2-D for vectors, 1-D for single values.

    Raises `error(what, remedy)` if the file cannot be read, or the column does not exist, has nulls or vectors of
    different length.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        opened = pq.ParquetFile(file)
    except (pa.ArrowException, OSError) as cause:
        raise error(f"cannot read {file} as Parquet: {cause}", "check the file") from None
    with opened:
        if inside not in opened.schema_arrow.names:
            raise error(f"unknown column {inside!r} in {file}", f"choose one of {', '.join(opened.schema_arrow.names)}")
        for batch in opened.iter_batches(batch_size=_ROWS, columns=[inside]):
            values = batch.column(0)
            if values.null_count:
                raise error(f"the column {inside!r} of {file} has null values", "remove these rows from the file")
            if not pa.types.is_nested(values.type):
                yield values.to_numpy(zero_copy_only=False)
                continue
            flat, count = values.flatten(), len(values)
            lengths = {len(row) for row in values}
            if len(lengths) > 1 or flat.null_count:
                what = f"the vectors in the column {inside!r} of {file} differ in length or have nulls"
                raise error(what, "remove these rows from the file")
            yield flat.to_numpy(zero_copy_only=False).reshape(count, -1)


def _write(blocks: "Iterator[np.ndarray[Any, Any]]", stem: Path, error: MakeError, what: str) -> dict[str, Any]:
    """Write rows to `stem` plus the extension of the fitting mapped format: floats, bytes or 32-bit integers.

    Returns the extension as `suffix`, and as `single` whether each row is a single value. Raises `error(what, remedy)`
    for other types, integers beyond 32 bits, and without rows; then no file is left. `what` names the source in errors.
    """
    import numpy as np

    partial = stem.with_name(f"{stem.name}.{os.getpid()}.partial")
    suffix, single, width = "", False, None
    try:
        with partial.open("wb") as target:
            for block in blocks:
                single = block.ndim == 1
                matrix = block.reshape(len(block), -1)
                if matrix.dtype.kind == "f":
                    suffix, components = ".fvecs", matrix.astype("<f4")
                elif matrix.dtype == "u1":
                    suffix, components = ".bvecs", matrix
                elif matrix.dtype.kind in "iu" and (
                    not matrix.size or -(2**31) <= int(matrix.min()) <= int(matrix.max()) < 2**31
                ):
                    suffix, components = ".ivecs", matrix.astype("<i4")
                else:
                    raise error(f"{what} does not hold numbers or vectors", "name another part of the file")
                width = components.shape[1]
                lengths = np.full((len(components), 1), width, "<i4")
                np.hstack([lengths.view("u1"), np.ascontiguousarray(components).view("u1")]).tofile(target)
        if not width:
            raise error(f"{what} is empty", "name another part of the file")
        partial.replace(stem.with_name(f"{stem.name}{suffix}"))
    finally:
        partial.unlink(missing_ok=True)
    return {"suffix": suffix, "single": single}


def check(
    document: Document,
    operations: Mapping[str, Mapping[str, Any]],
    variables: Mapping[str, Variable],
    corpora: Mapping[str, Mapping[str, Any]],
) -> None:
    """Refuse recall against neighbour lists with fewer than `k` ids, padded with -1; BadInput at the operation.

    Each -1 would count as a document that was not found, which would understate recall.
    """
    for name, form in operations.items():
        recall = form.get("assert", {}).get("recall")
        if recall is None or not isinstance(recall["of"], str):
            continue
        for file in _files(recall["of"], variables, corpora):
            row = first_padded_row(file, recall["k"])
            if row is not None:
                what = f"recall at {recall['k']} needs {recall['k']} neighbours; row {row} of {file} is padded with -1"
                remedy = "use a smaller k, or remove recall"
                raise document.error(("operations", name), what, remedy, key=True)


def _files(of: str, variables: Mapping[str, Variable], corpora: Mapping[str, Mapping[str, Any]]) -> list[Path]:
    """Return the `.ivecs` files of the corpus columns from which the template `of` takes ids; empty if there are none.

    Only placeholders of variables of kind `part` count. `corpora` are in the format of plans.
    """
    files = []
    for name in names(of):
        part = variables[name].part if name in variables else None
        row = variables[part.of].document if part is not None else None
        columns = corpora[row.corpus].get("columns", []) if row is not None else []
        files += [Path(column["file"]) for column in columns if part is not None and column["name"] == part.field]
    return [file for file in files if file.suffix == ".ivecs"]
