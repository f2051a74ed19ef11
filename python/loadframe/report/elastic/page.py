"""The page of an elastic experiment: the answer, each transition on its time axis, its measures, the runs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from loadframe.analyze.elasticity import Elasticity, Group
from loadframe.analyze.finding import Finding
from loadframe.report.elastic import words
from loadframe.report.elastic.plot import run_plot
from loadframe.report.labels import cluster_text
from loadframe.report.page import render
from loadframe.report.plot import Figure
from loadframe.report.setup import experiment_facts
from loadframe.report.tables import Cell, Sections, Table
from loadframe.report.trust import runs_view

_NOTE = (
    "Means over repetitions with 95 % intervals by Student's t; > marks what did not happen before the run was over."
    " The difference is to the control run of the same block, over the same stretch of time."
)


@dataclass(frozen=True)
class GroupView:
    """A transition under a load as the page shows it."""

    heading: str
    lead: Sequence[str]
    plot: Figure | None
    tables: Sequence[tuple[str, Table]]
    warnings: Sequence[Finding]


def elastic_page(elasticity: Elasticity, further: Sections = ()) -> str:
    """Return the page of an experiment; `further` are sections that every kind of experiment has."""
    description = elasticity.folder.description
    example = next((group.example.run for group in elasticity.groups if group.example and group.example.run), None)
    return render(
        "elastic.html.j2",
        title=f"{description['experiment']}: loadframe report",
        question=description.get("question") or f"How elastic is {description['experiment']}?",
        subtitle=cluster_text(replace(example.manifest.store, nodes=None)) if example else "",
        experiment=description["experiment"],
        groups=[_view(group, index) for index, group in enumerate(elasticity.groups)],
        runs=runs_view(elasticity.folder),
        further=further,
        facts=experiment_facts(elasticity.folder, example),
        file=description.get("file", ""),
    )


def _view(group: Group, index: int) -> GroupView:
    tables = [(words.step_heading(step), _measures(words.rows(step, group.rate))) for step in group.steps]
    if group.provisioning:
        scores = [[Cell(run), *map(Cell, texts)] for run, texts in words.score_rows(group)]
        tables.append(("How well the policy provided nodes", Table(words.SCORES, scores)))
    return GroupView(
        heading=words.heading(group),
        lead=words.lead(group),
        plot=run_plot(group, f"g{index}"),
        tables=tables,
        warnings=group.warnings,
    )


def _measures(rows: Sequence[words.Row]) -> Table:
    cells = [
        [Cell(row.title), Cell(row.says, tone="muted"), *map(_split, (row.value, row.control, row.difference))]
        for row in rows
    ]
    return Table(("measure", "", "with the event", "control", "difference"), cells, names=2, note=_NOTE)


def _split(text: str) -> Cell:
    value, bracket, interval = text.partition(" [")
    return Cell(value, f"[{interval}" if bracket else "")
