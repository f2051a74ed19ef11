"""The pages of a scale experiment and of a single run: what is on them, for the templates to show."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from loadframe.analyze.finding import Finding
from loadframe.analyze.sweep import PhaseCurves, Sweep
from loadframe.record import Run
from loadframe.record.schema.manifest import RecordedStore
from loadframe.record.schema.summary import PhaseSummary
from loadframe.report import answer
from loadframe.report.labels import (
    closed_text,
    cluster_text,
    ended_early_texts,
    load_text,
    seconds_text,
    set_aside_texts,
    with_failures,
)
from loadframe.report.page import render
from loadframe.report.plot import Figure
from loadframe.report.scale_plots import (
    residuals,
    response_over_clients,
    throughput_over_clients,
    throughput_over_nodes,
)
from loadframe.report.setup import design_facts, manifest_facts, run_facts
from loadframe.report.tables import Table, generator_table, models_table, operations_table, speedup_table
from loadframe.report.time_plots import phase_over_time, run_over_time
from loadframe.report.trust import runs_view
from loadframe.units import format_count, format_nodes


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
    clients_plot: Figure | None
    response_plot: Figure | None
    bends: Sequence[Finding]
    times: Sequence[tuple[str, Figure]]
    fits: Sequence[FitView]
    warnings: Sequence[Finding]


def sweep_page(sweep: Sweep) -> str:
    """Return the page of an experiment."""
    description = sweep.folder.description
    example = next((run.run for run in sweep.folder.runs if run.sound and run.run), None)
    facts = [design_facts(description, len(sweep.folder.runs))]
    if example:
        facts += manifest_facts(example.manifest)
    return render(
        "sweep.html.j2",
        title=f"{description['experiment']}: loadframe report",
        question=description.get("question") or f"How does {description['experiment']} scale?",
        subtitle=_subtitle(description, example.manifest.store if example else None),
        experiment=description["experiment"],
        curves=[_curves_view(curves, sweep, index) for index, curves in enumerate(sweep.curves)],
        equal=answer.equal_resources(sweep.equal),
        runs=runs_view(sweep.folder),
        facts=facts,
        file=description.get("file", ""),
    )


def run_page(run: Run) -> str:
    """Return the page of a single run."""
    manifest, summary = run.manifest, run.summary
    workload = manifest.workload.name or run.path.name
    phases = summary.phases
    return render(
        "run.html.j2",
        title=f"{workload}: loadframe report",
        question=f"What does {cluster_text(manifest.store)} do under {workload}?",
        status=summary.status,
        failure=summary.failure,
        headline=_headline(phases),
        verdict=summary.verdict,
        operations=operations_table(run) if phases else None,
        remarks=[words for phase in phases for words in (*ended_early_texts(phase), *set_aside_texts(phase))],
        closed=closed_text(phases),
        over_time=run_over_time(run, "run-over-time") if run.series.num_rows else None,
        generator=generator_table(summary.generator) if summary.generator else None,
        facts=[run_facts(manifest), *manifest_facts(manifest)],
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
        clients_plot=throughput_over_clients(curves, f"{prefix}-clients"),
        response_plot=response_over_clients(curves, f"{prefix}-response"),
        times=_times(curves, sweep, prefix),
        fits=[
            FitView(title, models_table(fit), residuals(fit, f"{prefix}-residuals-{number}"), fit.warnings)
            for number, (title, fit) in enumerate(answer.fits(curves))
        ],
        warnings=curves.warnings,
    )


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
            figure = phase_over_time(chosen.run, phase, curves.operation, name, caption)
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


def _headline(phases: Sequence[PhaseSummary]) -> list[str]:
    """Return a sentence for each measured phase, or for those that prepare where there is no other."""
    measured = [phase for phase in phases if not phase.prepares] or list(phases)
    if len(measured) > 4:
        return [f"{len(measured)} phases were measured; the table below has their figures."]
    lines = []
    for phase in measured:
        for name, operation in phase.operations.items():
            response, every = operation.response, with_failures(operation)
            failed = f"; with the failures, 99 % took up to {seconds_text(every.p99)}" if every else ""
            lines.append(
                f"{name}, {load_text(phase)}: {format_count(operation.throughput)} requests/s; half of them answered"
                f" within {seconds_text(response.p50)}, 99 % within {seconds_text(response.p99)}{failed}."
            )
    return lines
