"""Elements of a figure: traces, bands and rules in panels over one x axis. `draw.draw` converts a figure to SVG."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

#: Okabe and Ito, "Color Universal Design" (2008), without yellow, which prints badly. Combine with a symbol or dash.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "triangle-down", "star", "hexagon")
INK, GRID, MUTED = "#222222", "#e3e3e3", "#767676"

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
    """Style of a point: a symbol of `SYMBOLS` or "x", diameter in pixels; a hollow point has only an outline."""

    color: str
    symbol: str = "circle"
    size: float = 8
    hollow: bool = False
    opacity: float = 1.0


@dataclass(frozen=True)
class Trace:
    """Points with a line through them, marks at them, or both; None is a gap.

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

    With `follow`, the pointer shows all traces at its x; else the nearest point.
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

    def narrowed(self, width: int) -> "Figure":
        """Return a copy that is at most `width` pixels wide; texts keep their size, so it has fewer ticks."""
        return replace(self, width=min(width, self.width))


def logarithmic(title: str, values: Iterable[float | None]) -> Axis:
    """Return a logarithmic axis for `values`; a linear axis if no value is above 0."""
    return Axis(title, "log" if any(value is not None and value > 0 for value in values) else "linear")


def spread(axis: Axis, values: Iterable[float | None]) -> Axis:
    """Return a logarithmic copy of the axis if positive values differ by more than a decade, else one from 0."""
    known = [value for value in values if value is not None and value > 0]
    if known and max(known) > 10 * min(known):
        return replace(axis, kind="log")
    return replace(axis, from_zero=True)


def numbers(values: npt.ArrayLike) -> list[float | None]:
    """Round values to six digits; values that are not finite become gaps (None)."""
    return [float(f"{value:.6g}") if np.isfinite(value) else None for value in np.asarray(values, dtype=float).tolist()]
