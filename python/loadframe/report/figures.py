"""What all plots share: a figure with its caption, colours that everyone can tell apart, axes and type.

A figure is the plain data of Plotly's JSON, so that drawing needs the library only in the reader's browser.
"""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

#: Okabe and Ito, "Color Universal Design" (2008), without the yellow that paper swallows; always with a symbol or dash.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "triangle-down", "star", "hexagon")
INK, GRID, MUTED = "#222222", "#e3e3e3", "#767676"
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"


@dataclass(frozen=True)
class Figure:
    """A plot: its name in the page, its data and layout, its height in pixels, and how to read it."""

    name: str
    data: Sequence[dict[str, Any]]
    layout: dict[str, Any]
    caption: str
    height: int = 380

    @property
    def json(self) -> str:
        """The figure for a script in a page; nothing in it can end the script."""
        spec = {"data": list(self.data), "layout": {**self.layout, "height": self.height}}
        return json.dumps(spec, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def layout(x: str, y: str, **parts: Any) -> dict[str, Any]:
    """Return a layout with titled axes, in the page's type; `parts` replace or add to it."""
    return {
        "font": {"family": _FONT, "size": 13, "color": INK},
        "margin": {"l": 64, "r": 16, "t": 12, "b": 52},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "hovermode": "closest",
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "xanchor": "left"},
        "xaxis": axis(x),
        "yaxis": axis(y),
        **parts,
    }


def axis(title: str, **parts: Any) -> dict[str, Any]:
    """Return an axis with light lines; `parts` replace or add to it."""
    return {
        "title": {"text": title, "standoff": 10},
        "gridcolor": GRID,
        "linecolor": MUTED,
        "ticks": "outside",
        "tickcolor": MUTED,
        "zeroline": False,
        "separatethousands": True,
        "automargin": True,
        **parts,
    }


def log_axis(title: str, values: Iterable[float | None], **parts: Any) -> dict[str, Any]:
    """Return a logarithmic axis that spans `values`, with every tick written out: 1, 2, 5, 10, ... or 1, 10, 100."""
    known = [value for value in values if value is not None and value > 0]
    if not known:
        return axis(title, **parts)
    low, high = math.floor(math.log10(min(known))), math.ceil(math.log10(max(known)))
    steps = (1, 2, 5) if high - low <= 3 else (1,)
    ticks = [step * 10.0**power for power in range(low, high + 1) for step in steps]
    span = [math.log10(min(known)) - 0.08, math.log10(max(known)) + 0.08]
    labels = [f"{tick:,.0f}" if tick >= 1 else f"{tick:g}" for tick in ticks]
    return axis(title, type="log", tickvals=ticks, ticktext=labels, range=span, **parts)


def spread_axis(title: str, values: Iterable[float | None], **parts: Any) -> dict[str, Any]:
    """Return a logarithmic axis where the values differ by more than a decade, else one from 0."""
    known = [value for value in values if value is not None and value > 0]
    if known and max(known) > 10 * min(known):
        return log_axis(title, known, **parts)
    return axis(title, rangemode="tozero", **parts)


def numbers(values: npt.ArrayLike) -> list[float | None]:
    """Return numbers for JSON, six digits each; what is not finite becomes a gap."""
    return [float(f"{value:.6g}") if np.isfinite(value) else None for value in np.asarray(values, dtype=float).tolist()]


def band(x: npt.ArrayLike, low: npt.ArrayLike, high: npt.ArrayLike, color: str, group: str) -> list[dict[str, Any]]:
    """Return the two traces between which a band is filled."""
    edge = {
        "x": numbers(x),
        "mode": "lines",
        "line": {"width": 0, "color": color},
        "legendgroup": group,
        "showlegend": False,
        "hoverinfo": "skip",
    }
    fill = {"fill": "tonexty", "fillcolor": _faded(color)}
    return [{**edge, "y": numbers(low)}, {**edge, "y": numbers(high), **fill}]


def _faded(color: str) -> str:
    red, green, blue = (int(color[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.14)"
