"""Levels of a factor as numbers on an axis: plain ones, durations, sizes, shares, and numbers with one unit.

How they are spaced is chosen here: by their logarithms where they grow by about as many times from one to the next, as
10, 100, 1,000 do, else evenly.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

from loadframe.base.errors import BadInput
from loadframe.base.units import parse_duration, parse_size

Spacing = Literal["linear", "log"]

#: Factors that are the size of a cluster or of its load. Their curves are fitted, and have axes of their own.
SIZES = ("nodes", "clients")

_WRITTEN = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(%|[a-zA-Z]*)\s*")
#: Kinds of levels that have several units, with the unit that an axis has for them.
_KINDS: tuple[tuple[str, Callable[[str], float]], ...] = (("s", parse_duration), ("B", parse_size))
#: Levels of which the largest is more times the least than this are spaced by logarithms, if their steps are alike so.
_WIDE = 8


@dataclass(frozen=True)
class NumericLevels:
    """The levels of a factor in ascending order, by what they are as written: their numbers, and the unit of these."""

    numbers: Mapping[Any, float]
    unit: str
    spacing: Spacing


def numeric_levels(levels: Sequence[Any], spacing: Spacing | None = None) -> NumericLevels | None:
    """Return levels as numbers; None where they are not, or where there are not two. A `spacing` is as it was asked."""
    known = _numbers(levels)
    if known is None or len(set(known[0])) < 2:
        return None
    values, unit = known
    numbers = dict(sorted(zip(levels, values, strict=True), key=lambda pair: pair[1]))
    return NumericLevels(numbers, unit, spacing or _spacing(list(numbers.values())))


def _numbers(levels: Sequence[Any]) -> tuple[list[float], str] | None:
    if all(isinstance(level, int | float) and not isinstance(level, bool) for level in levels):
        return [float(level) for level in levels], ""
    # A number without a unit beside others that have one: 0, 20ms.
    parts = [None if isinstance(level, bool) else _WRITTEN.fullmatch(str(level)) for level in levels]
    read = [part for part in parts if part]
    if len(read) < len(levels):
        return None
    units = {part[2] for part in read if float(part[1]) or part[2]}
    if len(units) <= 1:
        return [float(part[1]) for part in read], next(iter(units), "")
    for unit, parse in _KINDS:
        try:
            return [float(parse(str(level).strip())) for level in levels], unit
        except BadInput:
            continue
    return None


def _spacing(ascending: Sequence[float]) -> Spacing:
    """Return how evenly the steps are alike: by how the gaps scatter, of the values and of their logarithms."""
    if ascending[0] <= 0 or ascending[-1] < _WIDE * ascending[0]:
        return "linear"
    logs = [math.log(value) for value in ascending]
    return "log" if _unevenness(logs) <= _unevenness(ascending) else "linear"


def _unevenness(ascending: Sequence[float]) -> float:
    gaps = [after - before for before, after in pairwise(ascending)]
    return max(gaps) / min(gaps)
