"""From values to pixels along one axis, and where its ticks are."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from loadframe.report.plot.figure import Axis

#: How far an axis reaches beyond what is drawn: as a share of its length, and in decades.
_MARGIN, _LOG_MARGIN = 0.04, 0.08
#: Room of categories on either side, as a share of the distance between two.
_CATEGORY_MARGIN = 0.35


@dataclass(frozen=True)
class Scale:
    """An axis between two pixels: `low` and `high` are the values (the logarithms, if `log`) at `start` and `end`."""

    start: float
    end: float
    low: float
    high: float
    log: bool
    categories: tuple[str, ...] = ()

    def pixel(self, value: float | str) -> float | None:
        """Return where a value is drawn; None for what a logarithmic axis cannot show."""
        if isinstance(value, str):
            value = float(self.categories.index(value))
        if self.log:
            if value <= 0:
                return None
            value = math.log10(value)
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def shows(self, value: float) -> bool:
        """Whether a value lies within the axis."""
        if self.log and value <= 0:
            return False
        place = math.log10(value) if self.log else value
        slack = 1e-9 * (self.high - self.low)
        return self.low - slack <= place <= self.high + slack


def scale(axis: Axis, values: Iterable[float | str | None], start: float, end: float) -> Scale:
    """Return the scale of an axis that shows `values` between two pixels."""
    known = [value for value in values if value is not None]
    if axis.kind == "category":
        categories = tuple(dict.fromkeys(str(value) for value in known))
        return Scale(start, end, -_CATEGORY_MARGIN, len(categories) - 1 + _CATEGORY_MARGIN, False, categories)
    shown = [float(value) for value in known]
    if axis.kind == "log":
        logs = [math.log10(value) for value in (axis.range or shown) if value > 0] or [0.0]
        margin = 0.0 if axis.range else _LOG_MARGIN
        return Scale(start, end, min(logs) - margin, max(*logs, min(logs) + 1e-6) + margin, True)
    if axis.range:
        low, high = axis.range
    else:
        shown = [*shown, 0.0] if axis.from_zero else shown or [0.0]
        low, high = min(shown), max(shown)
        margin = _MARGIN * (high - low)
        low, high = (low if axis.from_zero and low == 0 else low - margin), high + margin
    return Scale(start, end, low, high if high > low else low + 1, False)


def ticks(axis: Axis, over: Scale, most: int) -> list[tuple[float | str, str]]:
    """Return the ticks that an axis shows, with their labels; about `most` where it is free to choose."""
    if over.categories:
        return [(category, category) for category in over.categories]
    if axis.ticks is not None:
        return [(value, label) for value, label in axis.ticks if over.shows(value)]
    if over.log:
        return [(value, number_text(value)) for value in _decades(over, most)]
    return [(value, number_text(value)) for value in _steps(over.low, over.high, most, whole=axis.whole)]


def number_text(value: float) -> str:
    """Write a tick's number, with thousands parted and the sign of a minus."""
    digits = f"{round(value):,}" if abs(value) >= 1e3 else f"{value:.6g}"
    return digits.replace("-", "\N{MINUS SIGN}")


def _steps(low: float, high: float, most: int, *, whole: bool = False) -> list[float]:
    """Return the multiples of 1, 2, 2.5 or 5 times a power of ten that lie within two values."""
    rough = (high - low) / max(most, 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * (1 - 1e-9))
    if whole:
        step = max(math.ceil(step), 1)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f"{index * step:.12g}") for index in range(first, last + 1)]


def _decades(over: Scale, most: int) -> Sequence[float]:
    """Return powers of ten, with 2 and 5 times them where there is room; round numbers where both are too few."""
    powers = range(math.floor(over.low), math.ceil(over.high) + 1)
    for factors in ((1, 2, 5), (1,)):
        values = [factor * 10.0**power for power in powers for factor in factors]
        values = [value for value in values if over.shows(value)]
        if 2 < len(values) <= max(most * 1.5, 4):
            return values
    if over.high - over.low < 1:
        return [value for value in _steps(10**over.low, 10**over.high, most) if over.shows(value)]
    every = math.ceil(len(values) / max(most, 1))
    return values[::every]
