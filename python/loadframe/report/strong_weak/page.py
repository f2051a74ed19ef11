"""The page of a strong and a weak curve side by side: one plot over the same nodes, one table, what each law says."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from loadframe.analyze.finding import Finding
from loadframe.analyze.sweep.strong_weak import CurvePair, StrongAndWeak
from loadframe.report.fit.words import NAMES
from loadframe.report.page import render
from loadframe.report.plot import COLORS, MUTED, SYMBOLS, Axis, Band, Figure, Line, Mark, Panel, Trace, numbers
from loadframe.report.scale.answer import heading
from loadframe.report.setup import design_facts
from loadframe.report.strong_weak import words
from loadframe.report.tables import Cell, Table
from loadframe.units import format_nodes

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


def strong_weak_page(strong_and_weak: StrongAndWeak) -> str:
    """Return the page."""
    names = {scaling: sweep.folder.description["experiment"] for scaling, sweep in strong_and_weak.sweeps.items()}
    return render(
        "strong_weak.html.j2",
        title=f"{names['strong']} and {names['weak']}: loadframe report",
        names=names,
        pairs=[_view(pair, f"c{index}-speedups") for index, pair in enumerate(strong_and_weak.pairs)],
        trusts=words.trusts(strong_and_weak),
        differing=[str(difference) for difference in strong_and_weak.differing],
        facts=[
            design_facts(sweep.folder.description, len(sweep.folder.runs)) for sweep in strong_and_weak.sweeps.values()
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
    traces = [Trace([fewest, most], [1, most / fewest], "linear growth", Line(MUTED, 1.5, "dot"), hover=False)]
    bands: list[Band] = []
    for scaling, color, symbol in zip(pair.curves, COLORS, SYMBOLS, strict=False):
        measured = [(row.nodes, speedup) for row in pair.rows if (speedup := row.measured[scaling])]
        law = pair.laws[scaling]
        if law:
            sizes = np.linspace(fewest, measured[-1][0], _STEPS)
            by_law = [law.speedup(float(size), fewest) for size in sizes]
            ends = np.array([[speedup.low, speedup.high] for speedup in by_law])
            low, high = np.clip(ends, 0, _HIGHEST * most / fewest).T
            bands.append(Band(numbers(sizes), numbers(low), numbers(high), color, scaling))
            label = f"{scaling}, {NAMES[law.name]}"
            told = [f"{label}\n{size:.3g} nodes: {at.value:.3g}" for size, at in zip(sizes, by_law, strict=True)]
            line = Line(color, 2, "solid" if law.possible else "dash")
            heights = numbers([speedup.value for speedup in by_law])
            traces.append(Trace(numbers(sizes), heights, label, line, texts=told, group=scaling))
        traces.append(
            Trace(
                [nodes for nodes, _ in measured],
                numbers([speedup.value for _, speedup in measured]),
                f"{scaling}, measured",
                mark=Mark(color, symbol, 9),
                low=numbers([at.low if at.is_finite else at.value for _, at in measured]),
                high=numbers([at.high if at.is_finite else at.value for _, at in measured]),
                texts=[f"{scaling}\n{format_nodes(nodes)}: {speedup.value:.3g}" for nodes, speedup in measured],
                group=scaling,
            )
        )
    ticks = [(float(nodes), str(nodes)) for nodes in range(most + 2)] if most <= 12 else None
    return Figure(
        name,
        Axis("nodes", from_zero=True, whole=True, ticks=ticks),
        [Panel(Axis("speed-up", from_zero=True))],
        traces,
        "Marks are measured speed-ups with their intervals, lines are the laws with their 95 % bands; a law that misses"
        " the data by more than the noise is dashed. No line extends beyond the measurements.",
        bands,
        height=440,
    )


def _cell(text: str) -> Cell:
    value, bracket, interval = text.partition(" [")
    return Cell(value, f"[{interval}" if bracket else "")
