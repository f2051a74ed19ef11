"""Parser of (n, throughput) tables in CSV text: a header and two columns, with an optional third column `block`.

The delimiter is the comma, semicolon or tab in the header; decimals use a point. A byte-order mark and any line ends
are accepted; empty lines are skipped.
"""

import csv
import io
import re
from dataclasses import dataclass

from loadframe.base.errors import BadInput
from loadframe.base.units import counted

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_SHAPE = (
    "write a header line and then two columns, such as `nodes,throughput` and `4,3076.9`; add a third column, `block`,"
    " for runs in blocks"
)
_BLOCK = "block"


@dataclass(frozen=True)
class Table:
    """Observations of a file, the header's names for n and throughput, and the block of each (None without blocks)."""

    over: str
    measure: str
    pairs: tuple[tuple[float, float], ...]
    blocks: tuple[str, ...] | None = None


def parse_table(content: bytes, name: str) -> Table:
    """Return the table in a file's content; BadInput with `name` and the line if it is malformed."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise BadInput("this is not UTF-8 text", where=f"{name}:{line}", remedy=_SHAPE) from error
    first = next((line for line in text.splitlines() if line.strip()), "")
    delimiter = next((mark for mark in ",;\t" if mark in first), ",")
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True, strict=True)
    header: list[str] | None = None
    pairs, blocks = [], []
    try:
        for cells in rows:
            row, where = [cell.strip() for cell in cells], f"{name}:{rows.line_num}"
            if not any(row):
                continue
            if header is None:
                header = _header(row, where)
            else:
                pairs.append(_pair(row, header, where))
                blocks += row[2:]
    except csv.Error as error:
        raise BadInput(f"not CSV: {error}", where=f"{name}:{rows.line_num}", remedy=_SHAPE) from error
    if header is None:
        raise BadInput("the file is empty", where=name, remedy=_SHAPE)
    if not pairs:
        raise BadInput("the file has a header but no measurement", where=name, remedy=_SHAPE)
    return Table(header[0], header[1], tuple(pairs), tuple(blocks) or None)


def _header(row: list[str], where: str) -> list[str]:
    if len(row) != 2 and [cell.lower() for cell in row[2:]] != [_BLOCK]:
        third = f", and the third is {row[2]!r}, not {_BLOCK}" if len(row) == 3 else ""
        raise BadInput(f"the header has {_columns(len(row))}, not 2{third}", where=where, remedy=_SHAPE)
    if any(_NUMBER.fullmatch(cell) for cell in row):
        raise BadInput("the first line has numbers instead of a header", where=where, remedy=_SHAPE)
    if not all(row):
        raise BadInput("a column name is empty", where=where, remedy=_SHAPE)
    return row


def _pair(row: list[str], header: list[str], where: str) -> tuple[float, float]:
    if len(row) != len(header):
        what = f"the line has {_columns(len(row))}, the header has {len(header)}"
        raise BadInput(what, where=where, remedy=_SHAPE)
    if not all(row[2:]):
        raise BadInput("the block of the run is empty", where=where, remedy="name the block, such as 1 or monday")
    n, throughput = (_number(cell, column, where) for cell, column in zip(row[:2], header[:2], strict=True))
    return n, throughput


def _number(cell: str, column: str, where: str) -> float:
    if not _NUMBER.fullmatch(cell):
        raise BadInput(
            f"{column} is {cell!r}, which is not a finite number",
            where=where,
            remedy="write digits with a point for decimals; remove failed runs",
        )
    value = float(cell)
    if not 0 < value < float("inf"):
        raise BadInput(f"{column} must be above 0 and finite; got {cell}", where=where, remedy="remove failed runs")
    return value


def _columns(count: int) -> str:
    return counted(count, "column")
