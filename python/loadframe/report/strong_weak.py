"""Report on a strong and a weak scaling experiment: answer, page and terminal output."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.text import Text

from loadframe.analyze.estimate import Estimate
from loadframe.analyze.finding import Finding
from loadframe.analyze.scalability import Scaling
from loadframe.analyze.scale.strong_weak import CurvePair, Law, Row, StrongAndWeak
from loadframe.analyze.scale.sweep import PhaseCurves
from loadframe.base.units import format_nodes
from loadframe.report.fit import NAMES, print_findings
from loadframe.report.labels import UNKNOWN
from loadframe.report.numbers import estimate_text, known_end_text, measured_text, percent_text
from loadframe.report.page import Page, render
from loadframe.report.plot import (
    COLORS,
    MUTED,
    SYMBOLS,
    Axis,
    Band,
    Figure,
    LineStyle,
    Mark,
    Panel,
    Trace,
    bar_ends,
    level_ticks,
    numbers,
)
from loadframe.report.run_status import exclusions, trust
from loadframe.report.scale_words import heading, why_open
from loadframe.report.setup import design_facts
from loadframe.report.tables import Cell, Table, count_cell, estimate_cell, ratio_cell
from loadframe.report.terminal_table import TerminalTable

#: The words for each kind of scaling.
DATA = {"strong": "the same data", "weak": "data that grow with the nodes"}
COLUMNS = ("nodes", "strong, measured", "strong, by law", "weak, measured", "weak, by law")
NOTE = (
    "Speed-up: throughput divided by the throughput on the fewest nodes, with 95 % intervals. Both curves count"
    " requests. If a request does more work on more data, the weak curve shows it as lost speed-up."
)


def title(pair: CurvePair) -> str:
    """Return the heading of a pair: its phase and levels."""
    return heading(pair.curves["strong"])


def lead(pair: CurvePair) -> str:
    """Return a sentence that compares the speed-ups on the most nodes that both curves have, or why it cannot.

    The ratio in it is weak over strong scaling.
    """
    if pair.refusal:
        return f"No answer: {pair.refusal}."
    if pair.largest is None or pair.ratio is None:
        return "No answer: the curves have only their fewest nodes in common."
    (row,) = (row for row in pair.rows if row.nodes == pair.largest)
    both = [
        f"{_speedup_text(estimate, row.failed[scaling])} with {DATA[scaling]}"
        for scaling, estimate in row.measured.items()
        if estimate
    ]
    figures = f"at {format_nodes(pair.largest)} speed-up was {' and '.join(both)}"
    times = f"{known_end_text(pair.ratio) if pair.is_open else measured_text(pair.ratio)} times as high"
    if pair.ratio.low > 1:
        return f"More nodes pay off more if the data grow with them: {figures}, {times}."
    if pair.ratio.high < 1:
        return f"More nodes pay off less if the data grow with them: {figures}, {times}."
    if pair.is_open or not pair.ratio.is_finite:
        return _inconclusive(pair, row, pair.ratio, figures)
    return f"No significant difference between the curves: {figures}, {times}."


def _inconclusive(pair: CurvePair, row: Row, ratio: Estimate, figures: str) -> str:
    """Return the sentences on a ratio of speed-ups with an open end: the `figures` of its row, and the cause.

    The cause is failures of the store, unrepeated runs, or the load generator's limits.
    """
    failed = {scaling: nodes for scaling, nodes in row.failed.items() if nodes}
    if failed:
        where = " and ".join(f"at {format_nodes(*nodes)} with {DATA[scaling]}" for scaling, nodes in failed.items())
        text = known_end_text(ratio)
        bound = "" if text == UNKNOWN else f", {text} times as high"
        return f"Inconclusive, because the store failed {where}: {figures}{bound}."
    curves = [
        pair.curves[scaling]
        for scaling, speedup in row.measured.items()
        if speedup and not (speedup.low > 0 and speedup.is_finite)
    ]
    return f"Inconclusive: {figures}, {measured_text(ratio)} times as high. {why_open(curves[0].treatments)}"


def _speedup_text(speedup: Estimate, failed: Sequence[int]) -> str:
    """Write a speed-up with its interval, or only the known end if the store `failed` at numbers of nodes."""
    return known_end_text(speedup) if failed else measured_text(speedup)


def laws(pair: CurvePair) -> list[str]:
    """Return sentences on each law: its share, the run that it refers to, and a misfit; or why a curve has no law.

    Return an empty list if the curves cannot be compared.
    """
    if pair.refusal:
        return []
    words = []
    for scaling, law in pair.laws.items():
        curve = pair.curves[scaling].over_nodes
        if curve and curve.fit and curve.fit.unknown:
            words.append(f"No law for the {scaling} curve: {curve.fit.unknown}.")
            continue
        if law is None:
            words.append(f"No law for the {scaling} curve: {curve and curve.refusal}.")
        elif law.name == "gustafson":
            words.append(f"Weak, by Gustafson's law: a serial share s of {percent_text(law.share)} of the N-node run.")
        else:
            share = "contention" if law.name == "usl" else "a serial share"
            of_most = ""
            if pair.largest:
                at = format_nodes(pair.largest)
                of_most = f"; on {at} {percent_text(law.share_of(pair.largest))} of the run {_causes(law)}"
            of_one = f"{share} σ of {percent_text(law.share)} of the one-node run"
            words.append(f"Strong, by {_law(law)}: {of_one}{of_most}.")
        if law and not law.possible:
            words.append(f"{_law(law)[0].upper()}{_law(law)[1:]} does not fit these data (beyond the noise).")
    if all(pair.laws.values()):
        words.append(
            "σ and s are different quantities: σ is a share of the one-node run, s of the shorter N-node run, so s is"
            " greater for the same curve. Compare only shares of runs on the same number of nodes."
        )
    return words


def _law(law: Law) -> str:
    """Write the name of a law in a sentence: `Amdahl's law`, `the USL`."""
    return {"amdahl": "Amdahl's law", "gustafson": "Gustafson's law"}.get(law.name, f"the {NAMES[law.name]}")


def _causes(law: Law) -> str:
    """Write the effect of a law's share as a verb: `are lost` for the USL, otherwise `are serial`."""
    return "are lost" if law.name == "usl" else "are serial"


def cells(pair: CurvePair) -> list[list[Cell]]:
    """Return the cells of each number of nodes, in the order of `COLUMNS`; a dash where a curve lacks that number."""
    return [
        [
            count_cell(row.nodes),
            *(cell for scaling in row.measured for cell in _speedup_cells(row, scaling)),
        ]
        for row in pair.rows
    ]


def _speedup_cells(row: Row, scaling: Scaling) -> Iterator[Cell]:
    """Yield the cells of the measured speed-up of a curve and of that by its law."""
    measured, by_law = row.measured[scaling], row.by_law[scaling]
    yield ratio_cell(_speedup_text(measured, row.failed[scaling]), measured) if measured else estimate_cell("–", None)
    yield estimate_cell("–" if by_law is None else estimate_text(by_law), by_law)


def trusts(strong_and_weak: StrongAndWeak) -> list[str]:
    """Return sentences on each experiment's runs: how many are used, and the others with their reasons."""
    words = []
    for scaling, sweep in strong_and_weak.sweeps.items():
        words.append(f"{scaling.capitalize()} ({sweep.folder.description['experiment']}): {trust(sweep.folder)}")
        words += [f"{', '.join(group.runs)}: {group.cause}. {group.remedy}." for group in exclusions(sweep.folder)]
    return words


def doubts(curves: PhaseCurves) -> Sequence[Finding]:
    """Return the warnings on one curve: on its experiment and on its fit over nodes."""
    nodes = curves.over_nodes
    return (*curves.warnings, *(nodes.fit.warnings if nodes and nodes.fit else ()))


_STEPS = 80
#: Upper limit for drawn intervals, as a multiple of the most nodes.
_HIGHEST = 2.0
#: Symbols of known ends: an upper and a lower one.
_DOWN, _UP = "triangle-down", "triangle-up"


@dataclass(frozen=True)
class PairView:
    """The curves of one phase as the page shows them."""

    heading: str
    lead: str
    laws: Sequence[str]
    plot: Figure | None
    table: Table | None
    warnings: Sequence[tuple[str, Sequence[Finding]]]


def strong_weak_page(strong_and_weak: StrongAndWeak) -> Page:
    """Return the page on a strong and a weak scaling experiment."""
    names = {scaling: sweep.folder.description["experiment"] for scaling, sweep in strong_and_weak.sweeps.items()}
    return render(
        "strong_weak.html.j2",
        title=f"{names['strong']} and {names['weak']}: loadframe report",
        names=names,
        pairs=[_view(pair, f"c{index}-speedups") for index, pair in enumerate(strong_and_weak.pairs)],
        trusts=trusts(strong_and_weak),
        differing=[str(difference) for difference in strong_and_weak.differing],
        facts=[
            design_facts(sweep.folder.description, len(sweep.folder.runs)) for sweep in strong_and_weak.sweeps.values()
        ],
    )  # fmt: skip


def _view(pair: CurvePair, name: str) -> PairView:
    """Return the curves of one phase as the page shows them; `name` is the plot's identifier."""
    rows = cells(pair)
    return PairView(
        heading=title(pair),
        lead=lead(pair),
        laws=laws(pair),
        plot=speedups_plot(pair, name) if pair.rows else None,
        table=Table(COLUMNS, rows, names=0, note=NOTE, caption="Speed-up under strong and weak scaling")
        if rows
        else None,
        warnings=[
            (f"{scaling.capitalize()} curve of {heading(curves)}", findings)
            for scaling, curves in pair.curves.items()
            if (findings := doubts(curves))
        ],
    )


def speedups_plot(pair: CurvePair, name: str) -> Figure:
    """Draw both speed-ups against nodes, with each law and its band, and linear growth. The pair must have rows.

    `name` identifies the plot.
    """
    fewest, most = pair.rows[0].nodes, pair.rows[-1].nodes
    traces = [Trace([fewest, most], [1, most / fewest], "linear growth", LineStyle(MUTED, 1.5, "dot"), hover=False)]
    bands: list[Band] = []
    for scaling, color, symbol in zip(pair.curves, COLORS, SYMBOLS, strict=False):
        every = [(row, speedup) for row in pair.rows if (speedup := row.measured[scaling])]
        measured = [(row.nodes, speedup) for row, speedup in every if not row.failed[scaling]]
        law = pair.laws[scaling]
        if law:
            sizes = np.linspace(fewest, every[-1][0].nodes, _STEPS)
            by_law = [law.speedup(float(size), fewest) for size in sizes]
            ends = np.array([[speedup.low, speedup.high] for speedup in by_law])
            low, high = np.clip(ends, 0, _HIGHEST * most / fewest).T
            if np.isfinite(ends[:, 1]).any():
                bands.append(Band(numbers(sizes), numbers(low), numbers(high), color, scaling))
            label = f"{scaling}, {NAMES[law.name]}"
            texts = [
                f"{label}\n{size:.3g} node{'' if size == 1 else 's'}: {at.value:.3g}"
                for size, at in zip(sizes, by_law, strict=True)
            ]
            line = LineStyle(color, 2, "solid" if law.possible else "dash")
            heights = numbers([speedup.value for speedup in by_law])
            traces.append(Trace(numbers(sizes), heights, label, line, texts=texts, group=scaling))
        traces.append(
            Trace(
                [nodes for nodes, _ in measured],
                numbers([speedup.value for _, speedup in measured]),
                f"{scaling}, measured",
                mark=Mark(color, symbol, 9),
                **bar_ends([speedup for _, speedup in measured]),
                texts=[f"{scaling}\n{format_nodes(nodes)}: {speedup.value:.3g}" for nodes, speedup in measured],
                group=scaling,
            )
        )
        traces += _known_ends([(row.nodes, speedup) for row, speedup in every if row.failed[scaling]], scaling, color)
    return Figure(
        name,
        Axis("nodes", from_zero=True, whole=True, ticks=level_ticks([row.nodes for row in pair.rows])),
        [Panel(Axis("speed-up", from_zero=True))],
        traces,
        "Marks: measured speed-ups with 95 % intervals. Lines: the laws with 95 % bands, dashed if the law does not fit"
        " the data. Lines end where the measurements end."
        f"{_known_ends_text(traces)}",
        bands,
        height=440,
    )


def _known_ends(opened: Sequence[tuple[int, Estimate]], scaling: Scaling, color: str) -> Iterator[Trace]:
    """Yield hollow triangles at the known ends of speed-ups that failures leave open, which point to the unknown side.

    `opened` has the number of nodes of each speed-up. One without a known end is not drawn.
    """
    upper = [(nodes, speedup.high) for nodes, speedup in opened if math.isfinite(speedup.high)]
    lower = [(nodes, speedup.low) for nodes, speedup in opened if speedup.low > 0 and math.isinf(speedup.high)]
    for ends, symbol, words in ((upper, _DOWN, "at most"), (lower, _UP, "at least")):
        if ends:
            yield Trace(
                [nodes for nodes, _ in ends],
                numbers([end for _, end in ends]),
                f"{scaling}, {words}",
                mark=Mark(color, symbol, 10, hollow=True),
                texts=[f"{scaling}\n{format_nodes(nodes)}: {words} {end:.3g}" for nodes, end in ends],
                group=scaling,
            )


def _known_ends_text(traces: Sequence[Trace]) -> str:
    """Return a sentence, with a space before it, that explains the triangles among the traces; empty without any."""
    some = any(trace.mark and trace.mark.symbol in (_DOWN, _UP) for trace in traces)
    return " A hollow triangle: the store failed, and only this end of the interval is known." if some else ""


def print_strong_weak(both: StrongAndWeak, console: Console) -> None:
    """Print speed-ups, laws and warnings of both curves of each phase, and the runs that are used."""
    for pair in both.pairs:
        if len(both.pairs) > 1:
            console.print(Text(title(pair), style="bold"))
        console.print(Text(lead(pair), style="bold"))
        if pair.rows:
            console.print()
            _table(pair).print(console)
            console.print()
        for sentence in laws(pair):
            console.print(Text(sentence))
        for scaling, curves in pair.curves.items():
            findings = doubts(curves)
            if findings:
                console.print(Text(f"\nOn the {scaling} curve:", style="bold"))
            print_findings(console, findings)
        console.print()
    for sentence in trusts(both):
        console.print(Text(sentence, style="dim"))
    for difference in both.differing:
        console.print(Text(f"On the fewest nodes, the runs differ in {difference}", style="dim"))


def _table(pair: CurvePair) -> TerminalTable:
    """Return the speed-ups as a table for the terminal."""
    table = TerminalTable(COLUMNS, names=0)
    for row in cells(pair):
        table.add(*(cell.lines for cell in row))
    return table
