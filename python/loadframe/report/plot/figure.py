"""Elements of a figure: traces, bands and rules in panels over one x axis; and the scales and ticks of its axes.

`draw.draw` converts a figure to SVG.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypedDict

import numpy as np
import numpy.typing as npt

from loadframe.analyze.estimate import Estimate
from loadframe.report.numbers import near_ends

#: Okabe and Ito, "Color Universal Design" (2008), without yellow, which prints badly. Combine with a symbol or dash.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "triangle-down", "star", "hexagon")
INK, GRID, MUTED = "#222222", "#e3e3e3", "#767676"

#: Width in pixels of figures for narrow screens, and of the small figures that pages show side by side.
SMALL = 360

Numbers = Sequence[float | None]
Dash = Literal["solid", "dash", "dot"]


@dataclass(frozen=True)
class LineStyle:
    """Style of a line: color, width in pixels, dashes. With `steps`, a value holds until the next point."""

    color: str
    width: float = 1.8
    dash: Dash = "solid"
    steps: bool = False


@dataclass(frozen=True)
class Mark:
    """Style of a point; the diameter is in pixels.

    Symbols besides `SYMBOLS`: "triangle-left", "triangle-right", "plus", "x", "bar" and "pentagon".

    A hollow point has only an outline.
    """

    color: str
    symbol: str = "circle"
    size: float = 8
    hollow: bool = False
    opacity: float = 1.0


@dataclass(frozen=True)
class Trace:
    """Points with a line through them, marks at them, or both. A value of None leaves a gap.

    `x` holds numbers, or words on a category axis. `low` and `high` are the ends of error bars. `texts` are the hover
    texts of points (default: name, x and y); without `hover` points have none. Traces of one `group` (default: the
    name) are shown and hidden together.
    """

    x: Sequence[float | str | None]
    y: Numbers
    name: str = ""
    line: LineStyle | None = None
    mark: Mark | None = None
    panel: int = 0
    low: Numbers = ()
    high: Numbers = ()
    texts: Sequence[str] = ()
    group: str = ""
    legend: bool = True
    hover: bool = True


@dataclass(frozen=True)
class Band:
    """An area between two curves, shown and hidden with the traces of its group."""

    x: Numbers
    low: Numbers
    high: Numbers
    color: str
    group: str = ""
    panel: int = 0


@dataclass(frozen=True)
class Axis:
    """A titled axis. Without `range` it spans the drawn values, from 0 with `from_zero`.

    `range` is in units of the data, also on a logarithmic axis. `whole` restricts ticks to whole numbers; `ticks` gives
    all ticks (value, label).
    """

    title: str
    kind: Literal["linear", "log", "category"] = "linear"
    range: tuple[float, float] | None = None
    from_zero: bool = False
    whole: bool = False
    ticks: Sequence[tuple[float, str]] | None = None
    grid: bool = True


@dataclass(frozen=True)
class Panel:
    """One of the stacked plots of a figure: its y axis, and its height relative to other panels."""

    y: Axis
    height: float = 1.0


@dataclass(frozen=True)
class Rule:
    """A straight line over the whole figure: at an x through all panels, or at a y of the first panel."""

    at: float
    over: Literal["x", "y"] = "x"
    color: str = INK
    dash: Dash = "solid"


@dataclass(frozen=True)
class Shade:
    """A shaded range of the x axis, behind all other elements."""

    start: float
    end: float


@dataclass(frozen=True)
class Label:
    """A text above the first panel, at an x."""

    at: float
    text: str


@dataclass(frozen=True)
class Figure:
    """A plot: `name` is its identifier in the page; width and height are pixels, for text of 12 px.

    Exported files are named by `title`, or else by `name`. With `follow`, the pointer shows all traces at its x; else
    the nearest point.
    """

    name: str
    x: Axis
    panels: Sequence[Panel]
    traces: Sequence[Trace]
    caption: str
    bands: Sequence[Band] = ()
    rules: Sequence[Rule] = ()
    shades: Sequence[Shade] = ()
    labels: Sequence[Label] = ()
    slanted: bool = False
    follow: bool = False
    width: int = 940
    height: int = 380
    title: str = ""

    def titled(self, *words: str) -> "Figure":
        """Return a copy with these `words` in the names of its exported files."""
        return replace(self, title=" ".join(words))

    def narrowed(self, width: int) -> "Figure":
        """Return a copy that is at most `width` pixels wide; texts keep their size, so it has fewer ticks."""
        return replace(self, width=min(width, self.width))


def logarithmic(title: str, values: Iterable[float | None]) -> Axis:
    """Return a logarithmic axis for `values` without a range. Return a linear axis if no value is above 0.

    Values of None are ignored.
    """
    return Axis(title, "log" if any(value is not None and value > 0 for value in values) else "linear")


#: Factors of at most this many levels have ticks at their levels, and sizes up to this one at each whole number.
_FEW_LEVELS, _FEW_SIZES = 8, 12


def level_ticks(levels: Iterable[float]) -> list[tuple[float, str]] | None:
    """Return ticks at 0, at the measured levels of a factor and at twice the largest.

    Levels that are all whole numbers up to 12 have ticks at all whole numbers up to twice the largest. Return None
    without levels, and for more than eight other levels.
    """
    sizes = sorted(set(levels))
    if sizes and sizes[0] >= 0 and sizes[-1] <= _FEW_SIZES and all(float(size).is_integer() for size in sizes):
        return [(float(size), str(size)) for size in range(int(sizes[-1]) * 2 + 1)]
    if not 0 < len(sizes) <= _FEW_LEVELS:
        return None
    return [(float(size), number_text(size)) for size in sorted({0.0, *sizes, 2 * sizes[-1]})]


def spread(axis: Axis, values: Iterable[float | None]) -> Axis:
    """Return a logarithmic copy of the axis if positive values differ by more than a factor of 10, else a copy from 0.

    Values that are None, 0 or negative are ignored.
    """
    known = [value for value in values if value is not None and value > 0]
    if known and max(known) > 10 * min(known):
        return replace(axis, kind="log")
    return replace(axis, from_zero=True)


def numbers(values: npt.ArrayLike) -> list[float | None]:
    """Round values to six significant digits; values that are not finite become gaps (None)."""
    return [float(f"{value:.6g}") if np.isfinite(value) else None for value in np.asarray(values, dtype=float).tolist()]


class BarEnds(TypedDict):
    """Ends of the error bars of a trace."""

    low: list[float | None]
    high: list[float | None]


def bar_ends(estimates: Sequence[Estimate], factor: float = 1.0) -> BarEnds:
    """Return the ends of error bars, times `factor`, rounded by `numbers`; at an unknown end the bar ends at the value.

    An infinite end is unknown, an end more than a factor 1,000 from the value, and a low end of 0 or less beside an
    infinite high end.
    """
    known = [_known_ends(one) for one in estimates]
    lows = [one.low if low else one.value for one, (low, _) in zip(estimates, known, strict=True)]
    highs = [one.high if high else one.value for one, (_, high) in zip(estimates, known, strict=True)]
    return {
        "low": numbers([factor * low for low in lows]),
        "high": numbers([factor * high for high in highs]),
    }


def _known_ends(one: Estimate) -> tuple[bool, bool]:
    """Return whether the low and the high end of an error bar are known, as `bar_ends` describes."""
    near = near_ends(one)
    return near.low > 0 or (one.is_finite and one.low <= 0), math.isfinite(near.high)


def half_bars_text(estimates: Iterable[Estimate]) -> str:
    """Return a sentence on bars with one unknown end, with a space before it; empty if no estimate has such a bar."""
    some = any(low != high for low, high in map(_known_ends, estimates))
    return " A bar on one side of a mark: its other end is unknown." if some else ""


#: Margin of an axis beyond its values: as a share of its length, and in decades.
_MARGIN, _LOG_MARGIN = 0.04, 0.08
#: Margin on either side of categories, as a share of the distance between two.
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
        """Return the pixel of a value or category, or None for a value that a logarithmic axis cannot show.

        ValueError for an unknown category.
        """
        if isinstance(value, str):
            value = float(self.categories.index(value))
        if self.log:
            if value <= 0:
                return None
            value = math.log10(value)
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def shows(self, value: float) -> bool:
        """Return whether a value (not its logarithm) lies within the axis, with a small tolerance.

        False for 0 and negative values on a logarithmic axis.
        """
        if self.log and value <= 0:
            return False
        place = math.log10(value) if self.log else value
        slack = 1e-9 * (self.high - self.low)
        return self.low - slack <= place <= self.high + slack


def scale(axis: Axis, values: Iterable[float | str | None], start: float, end: float) -> Scale:
    """Return the scale of an axis that shows `values` between the pixels `start` and `end`.

    It covers `axis.range` if set, else the values (and 0 if `axis.from_zero`) with a margin. A logarithmic axis ignores
    values up to 0; categories keep the order in which they first occur. None is ignored.
    """
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
    """Return the ticks (value, label) of an axis on the scale `over`; about `most`, unless the axis gives its ticks.

    On a category axis, return all categories. Given ticks outside the scale are left out.
    """
    if over.categories:
        return [(category, category) for category in over.categories]
    if axis.ticks is not None:
        return [(value, label) for value, label in axis.ticks if over.shows(value)]
    if over.log:
        return [(value, number_text(value)) for value in _decades(over, most, whole=axis.whole)]
    return [(value, number_text(value)) for value in _steps(over.low, over.high, most, whole=axis.whole)]


def number_text(value: float) -> str:
    """Write the number of a tick: six significant digits, or from 1,000 up a whole number with thousands separators.

    A negative number has a minus sign, not a hyphen.
    """
    digits = f"{round(value):,}" if abs(value) >= 1e3 else f"{value:.6g}"
    return digits.replace("-", "\N{MINUS SIGN}")


def _steps(low: float, high: float, most: int, *, whole: bool = False) -> list[float]:
    """Return the multiples of 1, 2, 2.5 or 5 times a power of ten from `low` to `high`, ascending, about `most`.

    With `whole`, all are whole numbers. `low` must be below `high`.
    """
    rough = (high - low) / max(most, 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * (1 - 1e-9))
    if whole:
        step = max(math.ceil(step), 1)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f"{index * step:.12g}") for index in range(first, last + 1)]


def _decades(over: Scale, most: int, *, whole: bool = False) -> Sequence[float]:
    """Return tick values of a logarithmic scale: powers of ten, with 2 and 5 times them if space allows.

    Over less than a decade, return round numbers instead. About `most` values; with `whole`, these round numbers are
    whole.
    """
    powers = range(math.floor(over.low), math.ceil(over.high) + 1)
    for factors in ((1, 2, 5), (1,)):
        values = [factor * 10.0**power for power in powers for factor in factors]
        values = [value for value in values if over.shows(value)]
        if 2 < len(values) <= max(most * 1.5, 4):
            return values
    if over.high - over.low < 1:
        return [value for value in _steps(10**over.low, 10**over.high, most, whole=whole) if over.shows(value)]
    every = math.ceil(len(values) / max(most, 1))
    return values[::every]
