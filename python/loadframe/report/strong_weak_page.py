"""The page of a strong and a weak curve side by side: one plot over the same nodes, one table, what each law says."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from loadframe.analyze.finding import Finding
from loadframe.analyze.sweep.strong_weak import CurvePair, StrongAndWeak
from loadframe.report import strong_weak_words as words
from loadframe.report.answer import heading
from loadframe.report.figures import COLORS, MUTED, SYMBOLS, Figure, axis, band, layout, numbers
from loadframe.report.fit_words import NAMES
from loadframe.report.page import render
from loadframe.report.setup import design_facts
from loadframe.report.tables import Cell, Table

_STEPS = 80
#: An interval that knows no bound is cut here, as a multiple of the most nodes.
_HIGHEST = 2.0


@dataclass(frozen=True)
class PairView:
    """The curves of one phase as the page shows them."""

    heading: str
    lead: str
    laws: Sequence[str]
    plot: Figure | None
    table: Table | None
    warnings: Sequence[tuple[str, Sequence[Finding]]]


def strong_weak_page(found: StrongAndWeak) -> str:
    """Return the page."""
    names = {scaling: sweep.folder.description["experiment"] for scaling, sweep in found.sweeps.items()}
    return render(
        "strong_weak.html.j2",
        title=f"{names['strong']} and {names['weak']}: loadframe report",
        names=names,
        pairs=[_view(pair, f"c{index}-speedups") for index, pair in enumerate(found.pairs)],
        trusts=words.trusts(found),
        differing=[str(each) for each in found.differing],
        facts=[
            design_facts(sweep.folder.description, len(sweep.folder.runs)) for sweep in found.sweeps.values()
        ],
    )  # fmt: skip


def _view(pair: CurvePair, name: str) -> PairView:
    rows = [[_cell(text) for text in row] for row in words.cells(pair)]
    return PairView(
        heading=words.title(pair),
        lead=words.lead(pair),
        laws=words.laws(pair),
        plot=speedups_plot(pair, name) if pair.rows else None,
        table=Table(words.COLUMNS, rows, names=0, note=words.NOTE) if rows else None,
        warnings=[
            (f"{scaling.capitalize()} curve of {heading(curves)}", findings)
            for scaling, curves in pair.curves.items()
            if (findings := words.doubts(curves))
        ],
    )


def speedups_plot(pair: CurvePair, name: str) -> Figure:
    """Draw both speed-ups over the same nodes, each with its law and the law's band, and linear growth."""
    fewest, most = pair.rows[0].nodes, pair.rows[-1].nodes
    traces: list[dict[str, Any]] = [
        {
            "x": [fewest, most],
            "y": [1, most / fewest],
            "mode": "lines",
            "name": "linear growth",
            "line": {"color": MUTED, "width": 1.5, "dash": "dot"},
            "hoverinfo": "skip",
        }
    ]
    for scaling, color, symbol in zip(pair.curves, COLORS, SYMBOLS, strict=False):
        measured = [(row.nodes, each) for row in pair.rows if (each := row.measured[scaling])]
        law = pair.laws[scaling]
        if law:
            sizes = np.linspace(fewest, measured[-1][0], _STEPS)
            by_law = [law.speedup(float(size), fewest) for size in sizes]
            ends = np.array([[each.low, each.high] for each in by_law])
            low, high = np.clip(ends, 0, _HIGHEST * most / fewest).T
            traces += band(sizes, low, high, color, scaling)
            label = f"{scaling}, {NAMES[law.name]}"
            traces.append(
                {
                    "x": numbers(sizes),
                    "y": numbers([each.value for each in by_law]),
                    "mode": "lines",
                    "name": label,
                    "legendgroup": scaling,
                    "line": {"color": color, "width": 2, "dash": "solid" if law.possible else "dash"},
                    "hovertemplate": f"{label}<br>%{{x:.3g}} nodes: %{{y:.3g}}<extra></extra>",
                }
            )
        bounded = [each if each.is_finite else None for _, each in measured]
        traces.append(
            {
                "x": [nodes for nodes, _ in measured],
                "y": numbers([each.value for _, each in measured]),
                "error_y": {
                    "type": "data",
                    "symmetric": False,
                    "array": numbers([each.high - each.value if each else 0 for each in bounded]),
                    "arrayminus": numbers([each.value - each.low if each else 0 for each in bounded]),
                },
                "mode": "markers",
                "name": f"{scaling}, measured",
                "legendgroup": scaling,
                "marker": {"color": color, "symbol": symbol, "size": 9},
                "hovertemplate": f"{scaling}<br>%{{x}} nodes: %{{y:.3g}}<extra></extra>",
            }
        )
    return Figure(
        name,
        traces,
        layout("nodes", "speed-up", xaxis=axis("nodes", rangemode="tozero", **({"dtick": 1} if most <= 12 else {})),
               yaxis=axis("speed-up", rangemode="tozero")),
        "Marks are measured speed-ups with their intervals, lines are the laws with their 95 % bands; a law that misses"
        " the data by more than the noise is dashed. No line goes beyond what was measured.",
        height=440,
    )  # fmt: skip


def _cell(text: str) -> Cell:
    value, bracket, interval = text.partition(" [")
    return Cell(value, f"[{interval}" if bracket else "")
