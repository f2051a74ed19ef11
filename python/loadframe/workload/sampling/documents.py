"""Random samples of documents from files: NDJSON, CSV and Parquet, plain or compressed."""

import base64
import csv
import io
import json
import math
import random
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeVar

from loadframe.base.errors import BadInput
from loadframe.base.units import counted

_PACKED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
_CSV = {".csv": ",", ".tsv": "\t"}
_REMEDY = "name an NDJSON file (one JSON object a line), a CSV file with a header, or a Parquet file"
#: The longest line, in characters, and whole number, in digits.
_LONGEST_LINE, _LONGEST_NUMBER = 64 * 2**20, 1000
#: Neighbours that are sampled together.
_RUN = 20
_Item = TypeVar("_Item")


def read(path: Path, most: int, seed: int) -> list[dict[str, Any]]:
    """Return up to `most` random documents of a file, in its order. BadInput for a missing, empty or malformed file.

    Reads the whole file. It is Parquet by its content, CSV by its name (.csv, .tsv), and else NDJSON; the last two may
    be compressed. Only sampled lines of NDJSON are parsed. Equal seeds select equal documents.
    """
    name = path.name.lower()
    packed = next((kind for suffix, kind in _PACKED.items() if name.endswith(suffix)), None)
    plain = Path(name).with_suffix("") if packed else Path(name)
    try:
        if not path.is_file():
            what = "this is a folder" if path.is_dir() else "the file does not exist"
            raise BadInput(what, where=str(path), remedy="check the path")
        rng = random.Random(seed)
        with path.open("rb") as file:
            is_parquet = not packed and file.read(4) == b"PAR1"
        if is_parquet:
            documents = _reservoir_sample(_parquet(path), most, rng)
        elif plain.suffix in _CSV:
            documents = _reservoir_sample(_csv(path, packed, _CSV[plain.suffix]), most, rng)
        else:
            lines = _reservoir_sample(_lines(path, packed), most, rng)
            documents = [_object(text, f"{path}:{number}") for number, text in lines]
    except (OSError, csv.Error) as error:
        raise BadInput(f"cannot read the file: {error}", where=str(path), remedy=_REMEDY) from None
    except UnicodeDecodeError:
        raise BadInput("this is not UTF-8 text", where=str(path), remedy=_REMEDY) from None
    if not documents:
        raise BadInput("the file is without documents", where=str(path), remedy=_REMEDY)
    return documents


def plain(value: Any) -> Any:
    """Return a value of a store or file as JSON: dates as ISO text, decimals as numbers, bytes as base64.

    Sets become lists, NaN and infinity None, keys texts, and values of unknown types `str(value)`.
    """
    result: Any = str(value) if value is not None else None
    match value:
        case float() if value - value != 0:
            result = None
        case bool() | int() | float():
            result = value
        case Mapping():
            result = {str(key): plain(inner) for key, inner in value.items()}
        case datetime() | date() | time():
            result = value.isoformat()
        case Decimal() if not value.is_finite():
            result = None
        case Decimal():
            result = int(value) if value == value.to_integral_value() else float(value)
        case bytes():
            result = base64.b64encode(value).decode()
        case list() | tuple() | set() | frozenset():
            result = [plain(inner) for inner in value]
    return result


def _reservoir_sample(items: Iterable[_Item], most: int, rng: random.Random) -> list[_Item]:
    """Return up to `most` random items, in their order, by reservoir sampling of runs of neighbours.

    A run has `most` / 20 items, at least 1 and at most 20.
    """
    length = max(1, min(_RUN, most // _RUN))
    size = math.ceil(most / length)
    kept: list[tuple[int, list[_Item]]] = []
    stream = iter(items)
    for place, run in enumerate(iter(lambda: list(islice(stream, length)), [])):
        if place < size:
            kept.append((place, run))
        elif (slot := rng.randint(0, place)) < size:
            kept[slot] = (place, run)
    return [item for _, run in sorted(kept, key=itemgetter(0)) for item in run][:most]


def _opened(path: Path, packed: str | None) -> io.TextIOWrapper:
    """Open a file as UTF-8 text; `packed` is its compression, or None."""
    import pyarrow

    return io.TextIOWrapper(pyarrow.input_stream(str(path), compression=packed), encoding="utf-8-sig", newline="")


def _physical(file: io.TextIOWrapper, path: Path) -> Iterator[str]:
    """Yield the lines of a file with their ends. BadInput for a line of more than 64 Mi characters."""
    number = 0
    while line := file.readline(_LONGEST_LINE + 1):
        number += 1
        if len(line) > _LONGEST_LINE:
            what = f"the line is longer than {_LONGEST_LINE // 2**20} MiB"
            raise BadInput(what, where=f"{path}:{number}", remedy=_REMEDY)
        yield line


def _lines(path: Path, packed: str | None) -> Iterator[tuple[int, str]]:
    """Yield number, from 1, and text of each line that is not blank. BadInput for a line without braces around it.

    `packed` is the compression, or None. The JSON is not parsed.
    """
    with _opened(path, packed) as file:
        for number, line in enumerate(_physical(file, path), start=1):
            text = line.strip()
            if text and not (text.startswith("{") and text.endswith("}")):
                raise BadInput("this line is not a JSON object", where=f"{path}:{number}", remedy=_REMEDY)
            if text:
                yield number, text


def _object(text: str, where: str) -> dict[str, Any]:
    """Return the document in a line. BadInput for invalid JSON, excessive nesting and empty field names."""
    try:
        value: dict[str, Any] = parsed(text)
    except RecursionError:
        raise BadInput("nested too deeply", where=where, remedy="remove the line") from None
    except ValueError as error:
        raise BadInput(f"invalid JSON: {error}", where=where, remedy="correct the line") from None
    _check_names(value, where)
    return value


def _check_names(value: Any, where: str, path: str = "") -> None:
    """Refuse empty field names, which stores refuse, at any depth, with BadInput; `path` is the path of `value`."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if not name:
                what = f"a field of {path or 'the document'} has an empty name"
                raise BadInput(what, where=where, remedy="name the field, or remove it")
            _check_names(inner, where, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for inner in value:
            _check_names(inner, where, path)


def parsed(text: str) -> Any:
    """Parse JSON, with `storable` texts.

    ValueError for invalid JSON, RecursionError for excessive nesting.
    """
    value = json.loads(text, parse_constant=_no_constant, parse_int=_whole, parse_float=_finite)
    return storable(value) if "\\ud" in text or "\\uD" in text else value


def storable(value: _Item) -> _Item:
    """Return a JSON value in which each half of a surrogate pair, which files cannot hold, is a question mark."""
    if "\\ud" not in json.dumps(value):
        return value
    replaced: _Item = json.loads(json.dumps(value, ensure_ascii=False).encode(errors="replace"))
    return replaced


def _whole(text: str) -> int:
    """Return a whole number of JSON; ValueError if it has more than 1,000 digits."""
    if len(text) > _LONGEST_NUMBER:
        raise ValueError("number out of range")
    return int(text)


def _finite(text: str) -> float:
    """Return a decimal number of JSON; ValueError if it is out of range."""
    if not math.isfinite(number := float(text)):
        raise ValueError("number out of range")
    return number


def _no_constant(name: str) -> Any:
    """Raise ValueError: NaN and infinity are not JSON."""
    raise ValueError(f"{name} is not a number in JSON")


def _csv(path: Path, packed: str | None, delimiter: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a CSV file as documents, without empty cells. BadInput for an invalid header or row.

    `packed` is the compression, or None. Columns without a name become `column_N`, from 1. Empty rows are skipped.
    """
    with _opened(path, packed) as file:
        rows = csv.reader(_physical(file, path), delimiter=delimiter, strict=True)
        # Data frames write their index as a column without a name.
        header = [name or f"column_{number}" for number, name in enumerate(next(rows, []), start=1)]
        if any("\0" in name for name in header) or len(set(header)) < len(header):
            raise BadInput("the first line is not a header of distinct names", where=f"{path}:1", remedy=_REMEDY)
        for row in rows:
            if row and len(row) != len(header):
                what = f"{counted(len(row), 'value')} for {counted(len(header), 'column')}"
                raise BadInput(what, where=f"{path}:{rows.line_num}", remedy="correct the line")
            if row:
                yield {name: _cell(text) for name, text in zip(header, row, strict=True) if text != ""}


def _cell(text: str) -> Any:
    """Return a cell as a number or boolean (true, false) if it is one in JSON, else as text, such as 007."""
    if text in ("true", "false"):
        return text == "true"
    try:
        number = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return number if isinstance(number, int | float) and number - number == 0 else text


def _parquet(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a Parquet file as documents in JSON types (see `plain`), without the columns that are null.

    Nulls within values stay; NaN and infinity become null. At the first use or later, BadInput for invalid content or
    an empty field name, OSError if the file cannot be opened.
    """
    import pyarrow
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=1000):
                for row in batch.to_pylist():
                    _check_names(row, str(path))
                    yield {key: plain(value) for key, value in row.items() if value is not None}
    except (pyarrow.ArrowException, OverflowError, ValueError) as error:
        # Overflows are dates that Python does not have.
        raise BadInput(f"cannot read the Parquet file: {error}", where=str(path), remedy=_REMEDY) from None
