"""Numeric levels of a factor on an axis: plain numbers, durations, sizes, shares, and numbers with one unit.

The axis is logarithmic if the ratios of successive levels are more even than their differences (10, 100, 1,000).
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

#: Factors that are the size of a cluster or of its load; their curves are fitted and have separate axes.
SIZES = ("nodes", "clients")

_WRITTEN = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(%|[a-zA-Z]*)\s*")
#: Parsers of levels with several units, with the axis unit.
_KINDS: tuple[tuple[str, Callable[[str], float]], ...] = (("s", parse_duration), ("B", parse_size))
#: Smallest ratio of largest to smallest level for a logarithmic axis.
_WIDE = 8


@dataclass(frozen=True)
class NumericLevels:
    """The levels of a factor in ascending order: number by written level, and the unit of the numbers."""

    numbers: Mapping[Any, float]
    unit: str
    spacing: Spacing


def numeric_levels(levels: Sequence[Any], spacing: Spacing | None = None) -> NumericLevels | None:
    """Return levels as ascending numbers, with their unit and the spacing of their axis.

    None if they are not numeric, or fewer than two are distinct. `spacing` overrides the default. The unit is as
    written and empty for plain numbers; durations and sizes in several units become `s` or `B`.
    """
    known = _numbers(levels)
    if known is None or len(set(known[0])) < 2:
        return None
    values, unit = known
    numbers = dict(sorted(zip(levels, values, strict=True), key=lambda pair: pair[1]))
    return NumericLevels(numbers, unit, spacing or _spacing(list(numbers.values())))


def _numbers(levels: Sequence[Any]) -> tuple[list[float], str] | None:
    """Return levels as numbers, in the same order, with their unit; None if one is other text or units do not combine.

    The unit is as written and empty for plain numbers; durations and sizes in several units become `s` or `B`.
    """
    if all(isinstance(level, int | float) and not isinstance(level, bool) for level in levels):
        return [float(level) for level in levels], ""
    # A number without a unit may stand beside others with one: 0, 20ms.
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
    """Return the spacing with more even gaps: linear for the values, log for their logarithms.

    Always linear if the lowest value is not above 0 or the highest is less than eight times the lowest. The values must
    be distinct.
    """
    if ascending[0] <= 0 or ascending[-1] < _WIDE * ascending[0]:
        return "linear"
    logs = [math.log(value) for value in ascending]
    return "log" if _unevenness(logs) <= _unevenness(ascending) else "linear"


def _unevenness(ascending: Sequence[float]) -> float:
    """Return the largest difference between neighbours divided by the smallest."""
    gaps = [after - before for before, after in pairwise(ascending)]
    return max(gaps) / min(gaps)
