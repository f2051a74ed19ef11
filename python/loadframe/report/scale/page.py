"""The page of a scale experiment: what is on it, for the template to show."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from loadframe.analyze.finding import Finding
from loadframe.analyze.sweep import PhaseCurves, Sweep
from loadframe.record.schema.manifest import RecordedStore
from loadframe.report.labels import (
    cluster_text,
)
from loadframe.report.page import render
from loadframe.report.plot import Figure
from loadframe.report.run.plots import phase_over_time
from loadframe.report.scale import answer
from loadframe.report.scale.plots import (
    residuals,
    response_over_clients,
    throughput_over_clients,
    throughput_over_nodes,
)
from loadframe.report.scale.tiers import waiting_table
from loadframe.report.setup import experiment_facts
from loadframe.report.tables import Sections, Table, models_table, speedup_table, split
from loadframe.report.trust import runs_view
from loadframe.units import format_nodes


@dataclass(frozen=True)
class FitView:
    """A fit as the page shows it."""

    title: str
    table: Table
    residuals: Figure
    warnings: Sequence[Finding]


@dataclass(frozen=True)
class CurvesView:
    """One measured phase as the page shows it."""

    heading: str
    lead: str
    limits: Sequence[str]
    over_clients: Sequence[tuple[str, str]]
    nodes_plot: Figure | None
    speedups: Table | None
    treatments: Table | None
    clients_plot: Figure | None
    response_plot: Figure | None
    bends: Sequence[Finding]
    times: Sequence[tuple[str, Figure]]
    fits: Sequence[FitView]
    warnings: Sequence[Finding]


def sweep_page(sweep: Sweep, further: Sections = (), over: Sections = ()) -> str:
    """Return the page of an experiment; `further` are sections that every kind of experiment has.

    `over` is that of curves over factors of numbers.
    """
    description = sweep.folder.description
    example = next((run.run for run in sweep.folder.runs if run.sound and run.run), None)
    return render(
        "sweep.html.j2",
        title=f"{description['experiment']}: loadframe report",
        question=description.get("question") or f"How does {description['experiment']} scale?",
        subtitle=_subtitle(description, example.manifest.store if example else None),
        experiment=description["experiment"],
        curves=[_curves_view(curves, sweep, index) for index, curves in enumerate(sweep.curves)],
        tiers=[(answer.heading(at), waiting_table(told)) for at, told in zip(sweep.curves, sweep.tiers, strict=True)],
        over=over,
        further=further,
        equal=answer.equal_resources(sweep.equal, sweep.rate.unit),
        runs=runs_view(sweep.folder),
        facts=experiment_facts(sweep.folder, example),
        file=description.get("file", ""),
    )


def _curves_view(curves: PhaseCurves, sweep: Sweep, index: int) -> CurvesView:
    prefix = f"c{index}"
    return CurvesView(
        heading=answer.heading(curves),
        lead=answer.lead(curves),
        limits=answer.limits(curves),
        bends=curves.bends,
        over_clients=answer.over_clients(curves),
        nodes_plot=throughput_over_nodes(curves, f"{prefix}-nodes"),
        speedups=speedup_table(curves) if curves.speedups else None,
        treatments=None if curves.speedups else _treatments(curves),
        clients_plot=throughput_over_clients(curves, f"{prefix}-clients"),
        response_plot=response_over_clients(curves, f"{prefix}-response"),
        times=_times(curves, sweep, prefix),
        fits=[
            FitView(title, models_table(fit), residuals(fit, f"{prefix}-residuals-{number}"), fit.warnings)
            for number, (title, fit) in enumerate(answer.fits(curves))
        ],
        warnings=curves.warnings,
    )


def _treatments(curves: PhaseCurves) -> Table | None:
    columns, rows = answer.treatment_rows(curves)
    note = (
        "Means over repetitions with 95 % intervals, which share one relative spread, pooled over all treatments."
        " Intervals hold the bounds that the load generator's delays and limits put on figures."
    )
    return Table(columns, [[split(cell) for cell in row] for row in rows], names=0, note=note) if rows else None


def _times(curves: PhaseCurves, sweep: Sweep, prefix: str) -> list[tuple[str, Figure]]:
    """Return plots over time of one run at each number of nodes: the first of the treatment that is quoted."""
    runs = {run.id: run for run in sweep.folder.runs}
    shown = []
    for number, treatment in enumerate(curves.best):
        chosen = runs[treatment.points[0].run]
        phase = chosen.phase(curves.phase)
        if chosen.run and phase:
            name = f"{prefix}-time-{number}"
            caption = f"Run {chosen.id}; below, response times of {curves.operation}."
            figure = phase_over_time(chosen.run, phase, curves.operation, name, caption, curves.rate)
            shown.append((_size(treatment.nodes, treatment.clients), figure))
    return shown


def _subtitle(description: Mapping[str, Any], store: RecordedStore | None) -> str:
    """Return what the experiment ran on, and whether its data grew with the nodes."""
    words = [cluster_text(replace(store, nodes=None))] if store else []
    if "nodes" in description["factors"]:
        weak = description.get("scaling") == "weak"
        words.append("data grow with the nodes (weak scaling)" if weak else "data stay as they are (strong scaling)")
    return " · ".join(words)


def _size(nodes: int | None, clients: int | None) -> str:
    words = [format_nodes(nodes)] if nodes else []
    words += [f"{clients} client{'s' * (clients != 1)}"] if clients else []
    return ", ".join(words)
