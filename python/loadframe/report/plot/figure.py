"""What a figure consists of: traces, bands and rules in one or several panels over one x axis.

Nothing here is drawn; `draw` makes SVG of it, and `data` gives what the pointer shows.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

#: Okabe and Ito, "Color Universal Design" (2008), without the yellow that paper swallows; always with a symbol or dash.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "triangle-down", "star", "hexagon")
INK, GRID, MUTED = "#222222", "#e3e3e3", "#767676"

Numbers = Sequence[float | None]
Dash = Literal["solid", "dash", "dot"]


@dataclass(frozen=True)
class Line:
    """How a line is drawn: its width in pixels, its dashes; with `steps`, a value holds until the next point."""

    color: str
    width: float = 1.8
    dash: Dash = "solid"
    steps: bool = False


@dataclass(frozen=True)
class Mark:
    """How a point is drawn: a symbol of `SYMBOLS` or "x", its diameter in pixels; a hollow one has only its outline."""

    color: str
    symbol: str = "circle"
    size: float = 8
    hollow: bool = False
    opacity: float = 1.0


@dataclass(frozen=True)
class Trace:
    """Points with a line through them, marks at them, or both; None is a gap.

    x holds numbers, or words on an axis of categories. `low` and `high` are the ends of error bars. `texts` is what the
    pointer shows at each point, in place of name, x and y; without `hover` it shows nothing. Traces of one `group`
    (the name, unless given) are shown and hidden together.
    """

    x: Sequence[float | str | None]
    y: Numbers
    name: str = ""
    line: Line | None = None
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
    """A titled axis. Without `range` it spans what is drawn, from 0 with `from_zero`.

    `range` is in units of the data, also on a logarithmic axis. `whole` puts ticks at whole numbers only; `ticks` names
    all of them (value, label).
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
    """One of the plots above each other: its y axis, and its height relative to that of the others."""

    y: Axis
    height: float = 1.0


@dataclass(frozen=True)
class Rule:
    """A straight line over the whole figure: at an x through all panels, or at a y of the first."""

    at: float
    over: Literal["x", "y"] = "x"
    color: str = INK
    dash: Dash = "solid"


@dataclass(frozen=True)
class Shade:
    """A shaded stretch of the x axis, behind everything."""

    start: float
    end: float


@dataclass(frozen=True)
class Label:
    """Words above the first panel, at an x."""

    at: float
    text: str


@dataclass(frozen=True)
class Figure:
    """A plot: its name in the page, what is on it, how to read it, and its size in pixels at which text is 12 px high.

    With `follow`, the pointer shows all traces at its x, as over time; else the nearest point.
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


def logarithmic(title: str, values: Iterable[float | None]) -> Axis:
    """Return a logarithmic axis for `values`; a linear one where none of them is above 0."""
    return Axis(title, "log" if any(value is not None and value > 0 for value in values) else "linear")


def spread(axis: Axis, values: Iterable[float | None]) -> Axis:
    """Return the axis as a logarithmic one where the values differ by more than a decade, else from 0."""
    known = [value for value in values if value is not None and value > 0]
    if known and max(known) > 10 * min(known):
        return replace(axis, kind="log")
    return replace(axis, from_zero=True)


def numbers(values: npt.ArrayLike) -> list[float | None]:
    """Return numbers of six digits each; what is not finite becomes a gap."""
    return [float(f"{value:.6g}") if np.isfinite(value) else None for value in np.asarray(values, dtype=float).tolist()]
