"""Report on an elastic experiment: page and terminal output."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.text import Text

from loadframe.analyze.elastic import Elasticity, Group, StepMeasures, read_elasticity
from loadframe.analyze.finding import Finding
from loadframe.analyze.rates import Rate
from loadframe.base.errors import BadInput
from loadframe.base.event_kinds import FIRED, NEVER
from loadframe.report import elastic_words
from loadframe.report.fit import print_findings
from loadframe.report.kinds import Report
from loadframe.report.page import Page, render
from loadframe.report.plot import Figure
from loadframe.report.plots.elastic import run_plot
from loadframe.report.run_status import print_trust
from loadframe.report.sections import Further, further
from loadframe.report.setup import clusters_text, experiment_facts, stores_of
from loadframe.report.tables import Cell, Sections, Table, estimate_cell, runs_view
from loadframe.report.terminal_table import TerminalTable

_NOTE = (
    "Means over repetitions with 95 % intervals by Student's t. “>”: did not happen before the end of the run."
    " Difference: against the control run of the same block, over the same time span."
)


@dataclass(frozen=True)
class GroupView:
    """A transition under a load as the page shows it."""

    heading: str
    lead: Sequence[str]
    plot: Figure | None
    tables: Sequence[tuple[str, Table]]
    warnings: Sequence[Finding]


def elastic_page(elasticity: Elasticity, further: Sections = ()) -> Page:
    """Return the page of an experiment; `further` are the sections that all kinds of experiments have."""
    description = elasticity.folder.description
    example = next((group.example.run for group in elasticity.groups if group.example and group.example.run), None)
    return render(
        "elastic.html.j2",
        title=f"{description['experiment']}: loadframe report",
        question=description.get("question") or f"How elastic is {description['experiment']}?",
        subtitle=clusters_text(stores_of(elasticity.folder.runs)) if example else "",
        experiment=description["experiment"],
        groups=[_view(group, index) for index, group in enumerate(elasticity.groups)],
        runs=runs_view(elasticity.folder),
        further=further,
        facts=experiment_facts(elasticity.folder, example),
        file=description.get("file", ""),
    )


def _view(group: Group, index: int) -> GroupView:
    tables = [
        (elastic_words.step_heading(step), _measures(elastic_words.rows(step, group.rate))) for step in group.steps
    ]
    if group.provisioning:
        scores = [[Cell(run), *map(Cell, texts)] for run, texts in elastic_words.score_rows(group)]
        tables.append(("Scores of the scaling policy", Table(elastic_words.SCORES, scores)))
    return GroupView(
        heading=elastic_words.heading(group),
        lead=elastic_words.lead(group),
        plot=run_plot(group, f"g{index}"),
        tables=tables,
        warnings=group.warnings,
    )


def _measures(rows: Sequence[elastic_words.Row]) -> Table:
    cells = [
        [
            Cell(row.title),
            Cell(row.says, tone="muted"),
            *(
                replace(estimate_cell(text, None), number=number)
                for text, number in zip((row.value, row.control, row.difference), row.numbers, strict=True)
            ),
        ]
        for row in rows
    ]
    return Table(("measure", "meaning", "with the event", "control", "difference"), cells, names=2, note=_NOTE)


def print_elasticity(elasticity: Elasticity, console: Console, further: Further | None = None) -> None:
    """Print an experiment in brief."""
    description = elasticity.folder.description
    console.print(Text(description.get("question") or description["experiment"], style="bold"))
    for group in elasticity.groups:
        console.print()
        console.print(Text(elastic_words.heading(group), style="bold"))
        for line in elastic_words.lead(group):
            console.print(Text(line))
        for step in group.steps:
            console.print()
            _terminal_measures(step, group.rate).print(console)
        for run, texts in elastic_words.score_rows(group):
            scores = zip(elastic_words.SCORES[1:], texts, strict=True)
            console.print(Text(f"{run}: {', '.join(f'{title} {text}' for title, text in scores)}"))
        print_findings(console, group.warnings)
    console.print()
    if further:
        further.print(console)
    print_trust(elasticity.folder, console)


def _terminal_measures(step: StepMeasures, rate: Rate) -> TerminalTable:
    headers = ("measure", "with the event", "control", "difference")
    table = TerminalTable(headers, title=elastic_words.step_heading(step))
    for row in elastic_words.rows(step, rate):
        table.add(row.title, row.value, row.control, row.difference)
    return table


def read(path: Path, bands: Sequence[float] = ()) -> Report:
    """Return the report: the measures of each transition."""
    elasticity = read_elasticity(path)
    more = further(elasticity.folder, bands)
    return Report(
        elastic_page(elasticity, more.sections),
        elasticity.as_dict() | more.document,
        lambda console: print_elasticity(elasticity, console, more),
        _unanswerable(elasticity),
    )


def _unanswerable(elasticity: Elasticity) -> BadInput | None:
    """Return an error if no trigger fired in any completed run, so that no cluster was changed."""
    runs = [run.run for run in elasticity.folder.runs if run.treatment.get("event") and run.status == "done"]
    kinds = [{event["kind"] for event in run.events} for run in runs if run]
    if not kinds or any(FIRED in seen or NEVER not in seen for seen in kinds):
        return None
    return BadInput(
        "no trigger fired in any run, so no cluster was changed",
        where=str(elasticity.folder.path),
        remedy="lower the thresholds, increase the load, or allow more time (within, duration)",
    )
