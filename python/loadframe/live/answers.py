"""Makes of an answer what the page draws of it: few rows, each with its label and its values, however long it is.

What is in an answer comes from the store, and so from whoever wrote into it: texts are cut here, and the page shows
them as plain text.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from loadframe.live.history import Record

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
