"""The page of a comparison: the answer, every run as a mark, the table, what differs, which runs were left out."""

import math
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from loadframe.analyze.comparison import Comparison, Contrast
from loadframe.analyze.experiment import RecordedExperiment
from loadframe.report.comparison import words
from loadframe.report.page import render
from loadframe.report.plot import COLORS, SYMBOLS, Axis, Figure, Mark, Panel, Rule, Trace, numbers
from loadframe.report.setup import manifest_facts
from loadframe.report.tables import Cell, Sections, Table
from loadframe.report.trust import runs_view
from loadframe.units import counted

_TONES = {"better": "valid", "worse": "invalid", "alike": "muted", "open": ""}


def comparison_page(
    comparison: Comparison, description: Mapping[str, Any] | None = None, further: Sections = ()
) -> str:
    """Return the page; `description` is the content of experiment.json where one experiment made all the runs.

    `further` are sections that every kind of experiment has.
    """
    description = description or {}
    runs = tuple(run for group in comparison.groups for run in group.runs)
    labels = [group.label for group in comparison.groups]
    example = next((run for group in comparison.groups for run in group.usable), None)
    return render(
        "comparison.html.j2",
        title=f"{' against '.join(labels[:3])}: loadframe report",
        question=description.get("question") or f"How does {', '.join(labels[1:])} differ from {labels[0]}?",
        experiment=description.get("experiment"),
        lead=words.lead(comparison),
        runs_text=words.runs_text(comparison),
        figure=strip_plot(comparison, "runs") if comparison.contrasts else None,
        contrasts=contrasts_table(comparison) if comparison.contrasts else None,
        warnings=comparison.warnings,
        differing={
            label: [str(difference) for difference in differences]
            for label, differences in comparison.differing.items()
        },
        runs=runs_view(RecordedExperiment(Path(), {"kind": "compare", **description}, runs)),
        further=further,
        facts=manifest_facts(example.manifest) if example else [],
        file=description.get("file", ""),
    )


def contrasts_table(comparison: Comparison) -> Table:
    """Return a row for each measure of each group against the baseline."""
    return Table(
        ("measure", "group", "", comparison.groups[0].label, "group's median", "ratio", "p", "Cliff's delta"),
        [_row(contrast) for contrast in comparison.contrasts],
        names=3,
        note=words.note(comparison),
    )


def strip_plot(comparison: Comparison, name: str) -> Figure:
    """Draw every run, each measure relative to the baseline's median."""
    rows = list(dict.fromkeys(words.name(contrast) for contrast in comparison.contrasts))
    marks: dict[str, list[tuple[float, float, str]]] = defaultdict(list)
    shift = {group.label: index for index, group in enumerate(comparison.groups)}
    spacing = 0.6 / max(len(shift) - 1, 1)
    drawn = set()
    for contrast in comparison.contrasts:
        row = -rows.index(words.name(contrast))
        middle = contrast.medians[0]
        for label, values in ((contrast.baseline, contrast.first), (contrast.label, contrast.second)):
            if (label, words.name(contrast)) in drawn:
                continue
            drawn.add((label, words.name(contrast)))
            height = row + 0.3 - spacing * shift[label]
            marks[label] += [
                (value / middle, height, f"{label}\n{words.quantity(value, contrast.measure)}") for value in values
            ]
    traces = [
        Trace(
            numbers([x for x, _, _ in points]),
            numbers([y for _, y, _ in points]),
            label,
            mark=Mark(COLORS[shift[label] % len(COLORS)], SYMBOLS[shift[label] % len(SYMBOLS)], opacity=0.75),
            texts=[text for _, _, text in points],
        )
        for label, points in marks.items()
    ]
    ratios = [x for points in marks.values() for x, _, _ in points]
    low, high = min(ratios), max(ratios)
    margin = max(0.05 * (high - low), 0.01)
    ticks = [(-float(index), row) for index, row in enumerate(rows)]
    return Figure(
        name,
        Axis("relative to the median of the baseline", range=(min(low, 1.0) - margin, max(high, 1.0) + margin)),
        [Panel(Axis("", range=(0.6 - len(rows), 0.6), ticks=ticks, grid=False))],
        traces,
        "Each mark is a run. Groups whose marks do not overlap differ by more than the scatter of their runs.",
        rules=[Rule(1)],
        height=110 + math.ceil(len(rows) * (30 + 14 * len(shift))),
    )


def _row(contrast: Contrast) -> list[Cell]:
    value, bracket, interval = words.ratio_text(contrast).partition(" [")
    return [
        Cell(words.name(contrast)),
        Cell(contrast.label),
        Cell(words.OUTCOMES[contrast.outcome], tone=_TONES[contrast.outcome]),
        Cell(words.quantity(contrast.medians[0], contrast.measure), counted(len(contrast.first), "run")),
        Cell(words.quantity(contrast.medians[1], contrast.measure), counted(len(contrast.second), "run")),
        Cell(value, f"[{interval}" if bracket else ""),
        Cell(words.p_text(contrast.p)),
        Cell(f"{contrast.delta:+.2f}"),
    ]
