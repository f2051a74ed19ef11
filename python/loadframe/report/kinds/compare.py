"""Report on a comparison: page and terminal output."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from loadframe.analyze.compare import Comparison, Contrast, Group, compare_variants
from loadframe.analyze.exclusion import excluded_document
from loadframe.analyze.experiment import RecordedExperiment, RecordedRun, read_experiment
from loadframe.base.terminal import PrintableConsole
from loadframe.report import compare_words
from loadframe.report.fit import print_findings
from loadframe.report.kinds import Report
from loadframe.report.labels import treatment_text
from loadframe.report.numbers import measured_text, p_text
from loadframe.report.page import Page, render
from loadframe.report.plot import (
    COLORS,
    MUTED,
    SYMBOLS,
    Axis,
    Figure,
    Mark,
    Panel,
    Rule,
    Trace,
    bar_ends,
    half_bars_text,
    numbers,
    spread,
)
from loadframe.report.plots.forest import Effect, forest
from loadframe.report.run_status import print_trust
from loadframe.report.sections import further
from loadframe.report.setup import manifest_facts, stores_of
from loadframe.report.tables import Cell, Number, Sections, Table, estimate_cell, p_cell, runs_view
from loadframe.report.terminal_table import TerminalTable

_TONES = {"better": "valid", "worse": "invalid", "alike": "muted", "inconclusive": ""}
_DELTA = "Cliff's delta"
#: Marks of results in the plot of effects. Groups have other colors and symbols. Color-blind readers can tell indigo
#: from dark red. Results without a difference are grey.
RESULT_MARKS = {
    "better": Mark("#332288", "plus", 11),
    "worse": Mark("#8B1A1A", "x", 9),
    "alike": Mark(MUTED, "bar", 11),
    "inconclusive": Mark("#555555", "pentagon", 10, hollow=True),
}
#: The number of drawn effects.
_EFFECTS = 40


def comparison_page(
    comparison: Comparison, description: Mapping[str, Any] | None = None, further: Sections = ()
) -> Page:
    """Return the page of a comparison.

    `description` is the content of experiment.json, if one experiment made all runs. `further` are the sections that
    all kinds of experiments have.
    """
    description = description or {}
    runs = _distinct_runs(comparison.groups)
    labels = [group.label for group in comparison.groups]
    example = next((run for group in comparison.groups for run in group.usable), None)
    return render(
        "comparison.html.j2",
        title=f"{' against '.join(labels[:3])}: loadframe report",
        question=description.get("question") or _question(labels[0], labels[1:]),
        experiment=description.get("experiment"),
        lead=compare_words.lead(comparison),
        shown=compare_words.shown_sentences(comparison),
        sentences=compare_words.advice(comparison),
        runs_text=compare_words.runs_text(comparison),
        limits=[
            compare_words.limited_text(comparison),
            compare_words.warned_text(comparison),
            compare_words.inconclusive_text(comparison),
        ],
        throughput=throughput_plot(comparison, "throughput"),
        effects=effects_plot(comparison, "effects"),
        figure=strip_plot(comparison, "runs") if comparison.contrasts else None,
        contrasts=contrasts_table(comparison) if comparison.contrasts else None,
        warnings=comparison.warnings,
        differing={
            label: [str(difference) for difference in differences]
            for label, differences in comparison.differing.items()
        },
        runs=runs_view(RecordedExperiment(Path(), {"kind": "compare", **description}, runs)),
        further=further,
        facts=manifest_facts(example.manifest, stores_of(runs)) if example else [],
        file=description.get("file", ""),
    )


def _distinct_runs(groups: Sequence[Group]) -> tuple[RecordedRun, ...]:
    """Return the runs of all groups; if any two have the same name, all are renamed to `LABEL/RUN`."""
    runs = [run for group in groups for run in group.runs]
    if len({run.id for run in runs}) == len(runs):
        return tuple(runs)
    return tuple(replace(run, id=f"{group.label}/{run.id}") for group in groups for run in group.runs)


def _question(baseline: str, others: Sequence[str]) -> str:
    """Write `How does b differ from a?`, `How do b, c and d differ from a?`."""
    if len(others) == 1:
        return f"How does {others[0]} differ from {baseline}?"
    return f"How do {', '.join(others[:-1])} and {others[-1]} differ from {baseline}?"


def contrasts_table(comparison: Comparison) -> Table:
    """Return a row for each measure of each group against the baseline, the first group."""
    return Table(
        _columns(comparison, _DELTA),
        [_row(contrast, comparison) for contrast in comparison.contrasts],
        names=3 if _names_groups(comparison) else 2,
        note=compare_words.note(comparison),
        caption=f"Comparison with the baseline {comparison.groups[0].label}",
    )


def _names_groups(comparison: Comparison) -> bool:
    """Return whether rows need the label of their group: with more than two groups.

    Otherwise columns have the labels.
    """
    return len(comparison.groups) > 2


def _columns(comparison: Comparison, delta: str) -> tuple[str, ...]:
    """Return the titles of the columns of a table of contrasts; `delta` is the title of the last one."""
    baseline, *others = [group.label for group in comparison.groups]
    if _names_groups(comparison):
        return "measure", "compared", "result", f"{baseline} (baseline)", "compared", "ratio", "p", delta
    return "measure", "result", baseline, *others, "ratio", "p", delta


def strip_plot(comparison: Comparison, name: str) -> Figure:
    """Draw each run as a mark, relative to the baseline's mean of the measure. `name` is the plot's identifier.

    Measures with a mean of 0 at the baseline are not drawn.
    """
    rows = list(dict.fromkeys(compare_words.name(contrast) for contrast in comparison.contrasts))
    marks: dict[str, list[tuple[float, float, str]]] = defaultdict(list)
    shift = {group.label: index for index, group in enumerate(comparison.groups)}
    spacing = 0.6 / max(len(shift) - 1, 1)
    drawn = set()
    for contrast in comparison.contrasts:
        row = -rows.index(compare_words.name(contrast))
        middle = contrast.means[0].value
        if not middle:
            continue
        for label, values in ((contrast.baseline, contrast.first), (contrast.label, contrast.second)):
            if (label, compare_words.name(contrast)) in drawn:
                continue
            drawn.add((label, compare_words.name(contrast)))
            height = row + 0.3 - spacing * shift[label]
            marks[label] += [
                (value / middle, height, f"{label}\n{compare_words.quantity(value, contrast.measure)}")
                for value in values
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
    ratios = [x for points in marks.values() for x, _, _ in points if x > 0] or [1.0]
    low, high = min(*ratios, 1.0), max(*ratios, 1.0)
    edge = max((high / low) ** 0.05, 1.01)
    title = f"relative to the mean of {comparison.groups[0].label} (log scale)"
    ticks = [(-float(index), row) for index, row in enumerate(rows)]
    return Figure(
        name,
        # Ratios of 1/4 and 4 are equally far from 1 on a logarithmic axis.
        Axis(title, "log", range=(low / edge, high * edge)),
        [Panel(Axis("", range=(0.6 - len(rows), 0.6), ticks=ticks, grid=False))],
        traces,
        "Each mark is a run. Marks without overlap show a difference larger than the run-to-run variance. The table has"
        " the results, which also include the number of runs and the limits of the load generator.",
        rules=[Rule(1)],
        height=110 + math.ceil(len(rows) * (30 + 14 * len(shift))),
    )


def throughput_plot(comparison: Comparison, name: str) -> Figure | None:
    """Draw each group's mean throughput (requests/s) with its 95 % interval, by phase and treatment.

    Return None if no contrast has a throughput. `name` is the plot's identifier.
    """
    shown = [contrast for contrast in comparison.contrasts if contrast.measure.kind == "throughput"]
    if not shown:
        return None
    columns = list(dict.fromkeys(_column(contrast) for contrast in shown))
    labels = [group.label for group in comparison.groups]
    traces = []
    for index, label in enumerate(labels):
        means, survivors = {}, {}
        for contrast in shown:
            sides = zip((contrast.baseline, contrast.label), contrast.means, contrast.of_survivors, strict=True)
            for side, mean, of_survivors in sides:
                if side == label:
                    means[_column(contrast)] = mean
                    survivors[_column(contrast)] = f" {compare_words.WITHOUT_FAILURES}" * of_survivors
        shift = _SPACING * (index - (len(labels) - 1) / 2) / len(labels)
        traces.append(
            Trace(
                [columns.index(column) + shift for column in means],
                numbers([mean.value for mean in means.values()]),
                label,
                mark=Mark(COLORS[index % len(COLORS)], SYMBOLS[index % len(SYMBOLS)], 9),
                **bar_ends(list(means.values())),
                texts=[
                    f"{label}\n{column or 'throughput'}: {measured_text(mean)} requests/s{survivors[column]}"
                    for column, mean in means.items()
                ],
            )
        )
    y = spread(Axis("requests/s"), [end for trace in traces for end in (*trace.low, *trace.high)])
    return Figure(
        name,
        Axis("", range=(-0.5, len(columns) - 0.5), ticks=list(enumerate(columns)), grid=False),
        [Panel(replace(y, title=f"{y.title} (log scale)") if y.kind == "log" else y)],
        traces,
        "Geometric means over runs with 95 % intervals. A mark without an interval has no bounds."
        f"{half_bars_text(mean for contrast in shown for mean in contrast.means)}",
    )


#: Share of a column's width over which the marks of its groups are spread.
_SPACING = 0.6


def _column(contrast: Contrast) -> str:
    """Return the name of a contrast's column in the plot: `phase NAME`, and its treatment if it has one."""
    at = treatment_text(contrast.treatment)
    phase = f"phase {contrast.measure.phase}"
    return f"{phase}, {at}" if at else phase


def effects_plot(comparison: Comparison, name: str) -> Figure | None:
    """Draw the ratios of the first 40 contrasts with their intervals, or return None without contrasts.

    `name` is the plot's identifier.
    """
    effects, marks, baseline = [], {}, comparison.groups[0].label
    for contrast in comparison.contrasts[:_EFFECTS]:
        label = compare_words.name(contrast) + (f", {contrast.label}" if _names_groups(comparison) else "")
        text = f"{label}\n{compare_words.ratio_text(contrast)}"
        outcome = compare_words.OUTCOMES[contrast.outcome]
        outcome += f" than {baseline}" * (contrast.outcome in ("better", "worse"))
        effects.append(Effect(label, contrast.ratio, text, outcome, contrast.outcome != "inconclusive"))
        marks[outcome] = RESULT_MARKS[contrast.outcome]
    omitted = len(comparison.contrasts) - _EFFECTS
    return forest(
        effects,
        name,
        f"ratio to {baseline}",
        "Each mark is a ratio of geometric means with its 95 % interval, if runs bound it. The line at 1 means no"
        " difference. Colors and symbols show the result, not the variant."
        + (f" The table has {omitted} more." if omitted > 0 else ""),
        logarithmic=True,
        marks=marks,
    )


def _row(contrast: Contrast, comparison: Comparison) -> list[Cell]:
    """Return the cells of a contrast, in the order of `_columns`.

    An inconclusive result has its reason in small type.
    """
    reason = compare_words.open_reason(contrast, comparison.least) if contrast.outcome == "inconclusive" else ""
    return [
        Cell(compare_words.name(contrast)),
        *([Cell(contrast.label)] if _names_groups(comparison) else []),
        Cell(compare_words.OUTCOMES[contrast.outcome], reason, tone=_TONES[contrast.outcome]),
        *compare_words.means_cells(contrast),
        estimate_cell(compare_words.ratio_text(contrast), contrast.ratio),
        p_cell(contrast.p),
        Cell(f"{contrast.delta:+.2f}", number=Number(contrast.delta)),
    ]


_TERMINAL_TONES = {"better": "green", "worse": "red", "alike": "dim", "inconclusive": "yellow"}


def print_comparison(comparison: Comparison, console: Console | None = None, *, limited: bool = True) -> None:
    """Print a comparison, on standard output unless another console is given.

    Without `limited`, the numbers of runs that the load generator limited or whose figures a rule shifts are left out.
    """
    console = console or PrintableConsole()
    for sentence in compare_words.lead(comparison):
        console.print(Text(sentence, style="bold"))
    limits = [compare_words.limited_text(comparison) if limited else "", compare_words.inconclusive_text(comparison)]
    for words in filter(None, limits):
        console.print(Text(words, style="dim"))
    if limited and (words := compare_words.warned_text(comparison)):
        console.print(Text(words, style="yellow"))
    if comparison.contrasts:
        console.print()
        _table(comparison).print(console)
        for words in compare_words.open_reasons(comparison):
            console.print(Text(words, style="yellow"))
    console.print(Text(compare_words.runs_text(comparison), style="dim"))
    for label, differences in comparison.differing.items():
        shown = [str(difference) for difference in differences[:6]] + (
            [f"and {len(differences) - 6} more"] if len(differences) > 6 else []
        )
        differs = f"differs in {'; '.join(shown)}" if shown else "has the same recorded setup"
        console.print(Text(f"{label} {differs}", style="dim"))
    print_findings(console, comparison.warnings)


def _table(comparison: Comparison) -> TerminalTable:
    """Return the contrasts as a table for the terminal."""
    table = TerminalTable(_columns(comparison, "delta"), names=3 if _names_groups(comparison) else 2)
    for contrast in comparison.contrasts:
        table.add(
            compare_words.name(contrast),
            *([contrast.label] if _names_groups(comparison) else []),
            Text(compare_words.OUTCOMES[contrast.outcome], style=_TERMINAL_TONES[contrast.outcome]),
            *(cell.lines for cell in compare_words.means_cells(contrast)),
            compare_words.ratio_text(contrast).replace(" [", "\n[", 1),
            p_text(contrast.p),
            f"{contrast.delta:+.2f}",
        )
    return table


def read(path: Path, bands: Sequence[float] = ()) -> Report:
    """Return the report on the experiment in a folder: ratios, tests and warnings.

    `bands` are the bounds of latency buckets, s. BadInput if it is not an experiment, is broken, or has nothing to
    compare. KeyError for another kind.
    """
    folder = read_experiment(path)
    comparison = compare_variants(folder)
    document = {
        "experiment": folder.description["experiment"],
        "question": folder.description.get("question"),
        **excluded_document(folder),
        **comparison.as_dict(),
        "runs": [run.as_dict() for run in folder.runs],
    }
    more = further(folder, bands)

    def show(console: Console) -> None:
        """Print the comparison, the further tables, the number of used runs, and why others are left out or bounded."""
        # The sentences on trust have the limited and the shifted runs.
        print_comparison(comparison, console, limited=False)
        more.print(console)
        print_trust(folder, console)

    page = comparison_page(comparison, folder.description, more.sections)
    return Report(page, document | more.document, show)
