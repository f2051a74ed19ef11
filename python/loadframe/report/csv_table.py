"""Tables of a report as CSV: plain numbers in one unit, which the column header names."""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

from loadframe.base.untrusted import printable
from loadframe.report.labels import UNKNOWN
from loadframe.report.tables import Cell, Number, Table

#: Units of a report -> the unit of the CSV file, and the factor between them.
_UNITS: dict[str, tuple[str, str]] = {
    "": ("", "1"), "%": ("%", "1"), "/s": ("1/s", "1"),
    "us": ("s", "1e-6"), "ms": ("s", "1e-3"), "s": ("s", "1"), "min": ("s", "60"), "h": ("s", "3600"),
    **{unit: ("B", str(1024**power)) for power, unit in enumerate(("B", "KiB", "MiB", "GiB", "TiB"))},
    "bit/s": ("bit/s", "1"), "kbit/s": ("bit/s", "1e3"), "Mbit/s": ("bit/s", "1e6"), "Gbit/s": ("bit/s", "1e9"),
}  # fmt: skip
_NUMBER = r"[+-]?(?:\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?|∞|inf)"
# Units that follow without a space are part of words, such as the level `3ms` of a setting.
_QUANTITY = re.compile(rf"({_NUMBER})(/s| [a-zA-Z%][a-zA-Z/]*|)(?: (\d\d) (s|min))?")
_DASH = "–"
# A sign before a number is harmless, unless a call or a pipe follows.
_FORMULA = re.compile(r"\s*(?:[=@]|[+-](?:[^\d.∞i]|.*[|!(]))", re.DOTALL)


@dataclass(frozen=True)
class _Number:
    """A number as text without rounding, in the unit of CSV files."""

    text: str
    unit: str = ""

    @property
    def fits_any_unit(self) -> bool:
        """Whether the number is 0 or infinite and lacks a unit, so that the unit of its column applies."""
        return not self.unit and self.text.strip("+-.0") in ("", "inf")


@dataclass(frozen=True)
class _Parts:
    """A cell's number, the ends of its interval, and the words beside them."""

    value: _Number | None = None
    low: _Number | None = None
    high: _Number | None = None
    note: str = ""

    @property
    def numbers(self) -> Iterator[_Number]:
        """The known numbers: value and ends of the interval."""
        yield from (number for number in (self.value, self.low, self.high) if number)

    @property
    def unit(self) -> str:
        """The first unit of the numbers; empty if none has one."""
        return next((number.unit for number in self.numbers if number.unit), "")


def csv_table(table: Table) -> str:
    """Return a table as CSV text with a line of column titles. `table.data`, if given, is written in its place.

    A column of numbers is followed by columns for its unit if that differs between rows, for the ends of intervals and
    for notes, if it has any. Numbers are unrounded if the cell has a `Number`. The first `names` columns stay words.
    Durations are in s, sizes in B. A dash becomes empty.
    """
    table = table.data or table
    columns: list[tuple[str, Sequence[str]]] = []
    for at, title in enumerate(_unique(table.columns)):
        cells = [row[at] for row in table.rows]
        parts = None if at < table.names else _numeric(cells)
        columns += _words(title, cells) if parts is None else _numbers(title, parts)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([_inert(title) for title, _ in columns])
    writer.writerows(zip(*(map(_inert, cells) for _, cells in columns), strict=True))
    return text.getvalue()


def _inert(text: str) -> str:
    """Return printable text that spreadsheets do not evaluate: an apostrophe stands before a formula.

    A text is taken for a formula if it begins with `=`, `@`, or a sign without a number. Control characters are
    removed; carriage returns become line feeds.
    """
    text = printable(re.sub(r"\r\n?", "\n", text))  # The writer quotes no lone carriage return.
    return f"'{text}" if _FORMULA.match(text) else text


def _unique(titles: Sequence[str]) -> Iterator[str]:
    """Yield each title; a repeated title is preceded by the title of its left neighbour: `first mean`."""
    for before, title in zip(("", *titles), titles, strict=False):
        yield title if titles.count(title) == 1 else f"{before} {title}".strip()


def _words(title: str, cells: Sequence[Cell]) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield title and texts of a column of words, and of a column `TITLE note` if any cell has small text.

    A dash becomes empty.
    """
    yield title, ["" if cell.text == _DASH else cell.text for cell in cells]
    if any(cell.small for cell in cells):
        yield f"{title} note", [cell.small for cell in cells]


def _numbers(title: str, parts: Sequence[_Parts]) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield titles and texts of a column of numbers, and of its columns for unit, ends of intervals and notes.

    A unit that all numbers share is added to the titles in parentheses. The other columns appear only if a row needs
    them.
    """
    units = {part.unit for part in parts for number in part.numbers if not number.fits_any_unit}
    unit = f" ({min(units)})" if len(units) == 1 and units != {""} else ""
    yield title + unit, [_text(part.value) for part in parts]
    if len(units) > 1:
        yield f"{title} unit", [part.unit for part in parts]
    if any(part.low or part.high for part in parts):
        yield f"{title} low{unit}", [_text(part.low) for part in parts]
        yield f"{title} high{unit}", [_text(part.high) for part in parts]
    if any(part.note for part in parts):
        yield f"{title} note", [part.note for part in parts]


def _text(number: _Number | None) -> str:
    """Return the text of a number, or an empty one for None."""
    return number.text if number else ""


def _numeric(cells: Sequence[Cell]) -> list[_Parts] | None:
    """Return the parts of a column's cells; None if a cell holds words, or if no cell holds a number.

    A cell with a `Number` counts as a number, whatever its text.
    """
    parts = [_exact(cell, cell.number) if cell.number else _parts(cell) for cell in cells]
    known = [part for part in parts if part is not None]
    return known if len(known) == len(parts) and any(any(part.numbers) for part in known) else None


def _parts(cell: Cell) -> _Parts | None:
    """Read the text of a cell. Return None if it holds words.

    A number becomes the value, with the interval in the small text. A range, `at most`, `<`, `at least` or `>` become
    ends without a value. Empty text and a dash have no value.
    """
    low, high, note = _interval(cell.small)
    text = cell.text.strip()
    if text in ("", _DASH):
        return _Parts(None, low, high, note)
    if match := re.fullmatch(r"(.+) to (.+)", text):
        ends = _quantity(match[1]), _quantity(match[2])
        return _Parts(None, *ends, note) if all(ends) else None
    if match := re.fullmatch(r"(at most|<|at least|>) (.+)", text):
        end = _quantity(match[2])
        if end is None:
            return None
        return _Parts(None, None, end, note) if match[1] in ("at most", "<") else _Parts(None, end, None, note)
    value = _quantity(text)
    if value is None:
        return None
    # The ends of a percentage are written without a unit.
    low, high = (_Number(end.text, end.unit or value.unit) if end else None for end in (low, high))
    return _Parts(value, low, high, note)


def _exact(cell: Cell, number: Number) -> _Parts:
    """Return a cell's unrounded `number` and the ends of its interval.

    The note is the text in parentheses at the end of the cell's text, else the text behind the interval in its small
    text.
    """
    value, low, high = (
        None if end is None else _Number(repr(float(end)).removesuffix(".0"), number.unit)
        for end in (number.value, number.low, number.high)
    )
    words = re.search(r"\((.+)\)$", cell.text)
    return _Parts(value, low, high, words[1] if words else _interval(cell.small)[2].strip())


def _interval(small: str) -> tuple[_Number | None, _Number | None, str]:
    """Return the ends of an interval such as `[1.2 ms, 3 ms]*`, and the text after it.

    `[3 ms]` has two equal ends; an end `unknown` is None. Other text becomes the third value, without thousands
    separators if it is a number; the ends are then None.
    """
    match = re.fullmatch(r"\[(.+?)(?:, (.+))?\](.*)", small)
    if match is None:
        number = _quantity(small)
        return None, None, small if number is None or number.unit else number.text
    low, high = (_quantity(match[1]), _quantity(match[2] or match[1]))
    known = all(end or text in (UNKNOWN, None) for end, text in ((low, match[1]), (high, match[2])))
    return (low, high, match[3]) if known else (None, None, small)


def base_value(text: str) -> float:
    """Return the number of a quantity such as `3 min 20 s` in its base unit (s, B, bit/s, 1/s; a % stays in percent).

    ValueError for other text.
    """
    number = _quantity(text)
    if number is None:
        raise ValueError(f"{text!r} is not a quantity")
    return float(number.text)


def _quantity(text: str) -> _Number | None:
    """Convert a number with its unit, such as `3 min 20 s`, to the base unit: s, B, bit/s, 1/s or %.

    `documents/s` and the like stay. Return None for other text.
    """
    match = _QUANTITY.fullmatch(text)
    if match is None:
        return None
    digits, unit, more, smaller = match.groups()
    unit = unit.lstrip()
    base, factor = _UNITS.get(unit, (unit, "1") if re.fullmatch(r"[a-z]+/s", unit) else (None, "1"))
    if base is None:
        return None
    if digits.endswith(("∞", "inf")):
        return _Number(digits.replace("∞", "inf"), base)
    plain = digits.replace(",", "").removeprefix("+")
    if factor == "1" and more is None:
        return _Number(plain, base)
    number = Decimal(plain) * Decimal(factor)
    if more is not None:
        number += Decimal(more) * Decimal(_UNITS[smaller][1]) * (-1 if plain.startswith("-") else 1)
    return _Number(f"{number:f}", base)
