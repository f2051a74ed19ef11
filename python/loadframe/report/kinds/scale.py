"""Report on a scale experiment: page and terminal output."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from loadframe.analyze.cost import Cost, Prices, cost, limits_at
from loadframe.analyze.finding import Finding
from loadframe.analyze.scale.sweep import PhaseCurves, Sweep, Tiers, read_sweep
from loadframe.base.terminal import PrintableConsole
from loadframe.base.units import counted, format_count, format_nodes
from loadframe.record.schema.manifest import RecordedStore
from loadframe.report import scale_words
from loadframe.report.fit import print_findings
from loadframe.report.kinds import Report
from loadframe.report.numbers import measured_text, percent_text, seconds_estimate
from loadframe.report.page import Page, render
from loadframe.report.plot import Figure
from loadframe.report.plots.run import phase_over_time
from loadframe.report.plots.scale import (
    residuals,
    response_over_clients,
    side_by_side,
    throughput_over_clients,
    throughput_over_nodes,
)
from loadframe.report.run_status import print_trust
from loadframe.report.sections import Further, further
from loadframe.report.setup import clusters_text, experiment_facts, stores_of
from loadframe.report.tables import (
    Cell,
    Sections,
    Table,
    count_cell,
    estimate_cell,
    models_table,
    runs_view,
    speedup_table,
    speedup_texts,
    time_cells,
)
from loadframe.report.terminal_table import TerminalTable

_WAITING = ("operation", "part", "instances", "clients", "response", "time in the part", "share")
_WAITING_TITLE = "Response times of users, and the application's waiting time in them"


def _waiting_rows(tiers: Tiers) -> list[list[Cell]]:
    """Return the cells of the waiting times, sorted by operation, part of the application, and size."""
    rows = sorted(tiers.waiting, key=lambda row: (row.operation, row.part, row.nodes or 0, row.clients or 0))
    return [
        [
            Cell(row.operation),
            Cell(row.part),
            count_cell(row.nodes or 0),
            count_cell(row.clients) if row.clients else Cell(""),
            estimate_cell(seconds_estimate(row.response), row.response, "s"),
            estimate_cell(seconds_estimate(row.waited), row.waited, "s"),
            estimate_cell(percent_text(row.share), row.share, "%"),
        ]
        for row in rows
    ]


def waiting_table(tiers: Tiers) -> Table | None:
    """Return the table of waiting times for the page; None if no application reported the time of a part."""
    if not tiers.waiting:
        return None
    return Table(
        _WAITING,
        _waiting_rows(tiers),
        names=2,
        note="Means over runs, with 95 % intervals if runs were repeated. Response: the user's response time by the"
        " generator's clock. Time in the part: reported by the application in each answer, by its clock.",
        caption=_WAITING_TITLE,
    )


def waiting_on_terminal(tiers: Tiers) -> TerminalTable | None:
    """Return the table of waiting times for the terminal; None if no application reported the time of a part."""
    if not tiers.waiting:
        return None
    table = TerminalTable(_WAITING, names=2, title=f"{_WAITING_TITLE}:")
    for row in _waiting_rows(tiers):
        table.add(*(cell.lines for cell in row))
    return table


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


def sweep_page(sweep: Sweep, further: Sections = (), over: Sections = ()) -> Page:
    """Return the page of an experiment.

    `further` are the sections that all kinds of experiments have, `over` the section of curves over numeric factors.
    """
    description = sweep.folder.description
    example = next((run.run for run in sweep.folder.runs if run.sound and run.run), None)
    return render(
        "sweep.html.j2",
        title=f"{description['experiment']}: loadframe report",
        question=description.get("question") or f"How does {description['experiment']} scale?",
        subtitle=_subtitle(description, stores_of(sweep.folder.runs) if example else []),
        experiment=description["experiment"],
        curves=[_curves_view(curves, sweep, index) for index, curves in enumerate(sweep.curves)],
        tiers=[
            (scale_words.heading(curves), waiting_table(tiers))
            for curves, tiers in zip(sweep.curves, sweep.tiers, strict=True)
        ],
        waiting_title=_WAITING_TITLE,
        beside=_side_by_side(sweep),
        over=over,
        further=further,
        equal=scale_words.equal_resources(sweep.equal, sweep.rate.unit),
        runs=runs_view(sweep.folder),
        facts=experiment_facts(sweep.folder, example),
        file=description.get("file", ""),
    )


def _side_by_side(sweep: Sweep) -> Sections:
    """Return a section for each phase that was measured at several levels of other factors, such as two stores."""
    phases = dict.fromkeys(curves.phase for curves in sweep.curves)
    tables = (
        (phase, side_by_side([curves for curves in sweep.curves if curves.phase == phase], f"beside-{number}"))
        for number, phase in enumerate(phases)
    )
    return [(f"{phase}: side by side", table) for phase, table in tables if table]


def _curves_view(curves: PhaseCurves, sweep: Sweep, index: int) -> CurvesView:
    """Return the curves of one phase as the page shows them; `index` makes the identifiers of its plots."""
    prefix, heading = f"c{index}", scale_words.heading(curves)

    def titled(figure: Figure | None, words: str) -> Figure | None:
        """Return the figure with the heading and `words` as title of its files; None for None."""
        return figure and figure.titled(heading, words)

    return CurvesView(
        heading=heading,
        lead=scale_words.lead(curves),
        limits=scale_words.limits(curves),
        bends=curves.bends,
        over_clients=scale_words.over_clients(curves),
        nodes_plot=titled(throughput_over_nodes(curves, f"{prefix}-nodes"), "throughput over nodes"),
        speedups=speedup_table(curves, scale_words.times_text(curves)) if curves.speedups else None,
        treatments=None if curves.speedups else _treatments(curves),
        clients_plot=titled(throughput_over_clients(curves, f"{prefix}-clients"), "throughput over clients"),
        response_plot=titled(response_over_clients(curves, f"{prefix}-response"), "response over clients"),
        times=_times(curves, sweep, prefix),
        fits=[
            FitView(
                title,
                replace(
                    models_table(fit, curves.rate.unit), caption=f"Scalability models {title[0].lower()}{title[1:]}"
                ),
                residuals(fit, f"{prefix}-residuals-{number}").titled(heading, "residuals", title.partition(",")[0]),
                fit.warnings,
            )
            for number, (title, fit) in enumerate(scale_words.fits(curves))
        ],
        warnings=curves.warnings,
    )


def _treatments(curves: PhaseCurves) -> Table | None:
    """Return a table of all treatments, for curves without speed-ups, or None if it would be empty."""
    columns, rows = scale_words.treatment_rows(curves)
    note = (
        "Throughput: means over repetitions with 95 % intervals, with one relative variance pooled over all treatments"
        " in this table. p50 and p99: medians over repetitions. Intervals include the bounds from delays and limits of"
        " the load generator."
    )
    note = f"{note} {scale_words.times_text(curves)}".strip()
    caption = "Throughput and response times of each treatment"
    return Table(columns, rows, names=0, note=note, caption=caption) if rows else None


def _times(curves: PhaseCurves, sweep: Sweep, prefix: str) -> list[tuple[str, Figure]]:
    """Return title and plot over time for each number of nodes: the first run of its best treatment.

    `prefix` begins the identifiers of the plots. Runs without a readable folder are left out.
    """
    runs = {run.id: run for run in sweep.folder.runs}
    shown = []
    for number, treatment in enumerate(curves.best):
        chosen = runs[treatment.points[0].run]
        phase = chosen.phase(curves.phase)
        if chosen.run and phase:
            name = f"{prefix}-time-{number}"
            caption = f"Run {chosen.id}; below, response times of {curves.operation}."
            figure = phase_over_time(chosen.run, phase, curves.operation, name, caption, curves.rate)
            size = _size(treatment.nodes, treatment.clients)
            shown.append((size, figure.titled(scale_words.heading(curves), "over time", size)))
    return shown


def _subtitle(description: Mapping[str, Any], stores: Sequence[RecordedStore]) -> str:
    """Return the clusters of the experiment, and whether its data grew with the nodes, joined by ` · `.

    Without stores or a factor `nodes`, that part is missing.
    """
    words = [clusters_text(stores)] if stores else []
    if "nodes" in description["factors"]:
        weak = description.get("scaling") == "weak"
        words.append(
            "data grow with the nodes (weak scaling)" if weak else "the same data on all nodes (strong scaling)"
        )
    return " · ".join(words)


def _size(nodes: int | None, clients: int | None) -> str:
    """Write the numbers of nodes and clients that are known: `2 nodes, 8 clients`; empty if neither is."""
    words = [format_nodes(nodes)] if nodes else []
    words += [counted(clients, "client")] if clients else []
    return ", ".join(words)


def print_sweep(sweep: Sweep, console: Console | None = None, further: Further | None = None) -> None:
    """Print an experiment in brief, on standard output unless another console is given.

    Each phase has its answer, table and warnings. Then follow the `further` tables, equal resources, and the used runs.
    """
    console = console or PrintableConsole()
    description = sweep.folder.description
    console.print(Text(description.get("question") or description["experiment"], style="bold"))
    for curves, tiers in zip(sweep.curves, sweep.tiers, strict=True):
        console.print()
        if len(sweep.curves) > 1:
            console.print(Text(scale_words.heading(curves), style="bold"))
        _print_curves(console, curves)
        if table := waiting_on_terminal(tiers):
            console.print()
            table.print(console)
    console.print()
    if further:
        further.print(console)
    for words in scale_words.equal_resources(sweep.equal, sweep.rate.unit):
        console.print(Text(words))
    print_trust(sweep.folder, console)


def _print_curves(console: Console, curves: PhaseCurves) -> None:
    """Print the curves of one phase: answer, limits, table, curves over clients, bends and warnings."""
    console.print(Text(scale_words.lead(curves)))
    for words in scale_words.limits(curves):
        console.print(Text(words, style="dim"))
    if curves.speedups:
        console.print()
        _speedups(curves).print(console)
    elif curves.treatments:
        console.print()
        columns, rows = scale_words.treatment_rows(curves)
        table = TerminalTable(columns, names=0)
        for row in rows:
            table.add(*(cell.lines for cell in row))
        table.print(console)
    if curves.treatments and (words := scale_words.times_text(curves)):
        console.print(Text(words, style="dim"))
    for name, words in scale_words.over_clients(curves):
        console.print()
        console.print(Text.assemble((f"{name}: ", "bold"), words))
    if curves.bends:
        console.print()
        console.print(Text("Why throughput stops growing with clients:", style="bold"))
    for bend in curves.bends:
        console.print(Text(f"  {bend.cause}"))
        console.print(Text(f"  {bend.remedy}", style="dim"))
    print_findings(console, curves.warnings)


def _speedups(curves: PhaseCurves) -> TerminalTable:
    """Return the throughput, speed-up and response times of each number of nodes for the terminal."""
    table = TerminalTable(
        ("nodes", "clients", "runs", curves.rate.unit, "speed-up", "efficiency", "p50", "p99"), names=0
    )  # fmt: skip
    for row in curves.speedups:
        treatment = row.treatment
        cells = (
            format_count(treatment.nodes or 0),
            format_count(treatment.clients) if treatment.clients else "",
            format_count(len(treatment.points)),
            measured_text(treatment.throughput, treatment.stretch),
            *speedup_texts(row),
            *(cell.lines for cell in time_cells(treatment)),
        )
        table.add(*(cell.replace(" [", "\n[", 1) for cell in cells))
    return table


def _costs(sweep: Sweep, prices: Prices) -> list[Cost]:
    """Return the cost of each treatment of the first measured phase, with the limits of the SLO in `prices`.

    A treatment counts as failed if requests failed in one of its runs, even if that run is not used.
    """
    default = int(sweep.folder.description["store"].get("nodes") or 1)
    phase, by_name = sweep.curves[0].phase, {run.id: run for run in sweep.folder.runs}
    failed = {run.treatment_key for run in sweep.folder.counted if run.requests_failed}
    costs, groups = [], []
    for curves in sweep.curves:
        if curves.phase != phase:
            continue
        for treatment in curves.treatments:
            levels = {"nodes": treatment.nodes, "clients": treatment.clients}
            # A level of another factor may be null.
            named = {name: level for name, level in levels.items() if level is not None} | dict(curves.others)
            nodes, unit = treatment.nodes or default, sweep.rate.counted
            costs.append(cost(prices, named, nodes, treatment.throughput, counted=unit))
            groups.append([by_name[point.run] for point in treatment.points])
    limits = limits_at(prices.slo, phase, groups)
    return [
        replace(entry, limits=of_slo, failed=any(run.treatment_key in failed for run in runs))
        for entry, of_slo, runs in zip(costs, limits, groups, strict=True)
    ]


def read(path: Path, bands: Sequence[float] = ()) -> Report:
    """Return the report on the experiment in a folder: curves, fits and speed-ups.

    `bands` are the bounds of latency buckets, s. BadInput if it is not an experiment, or is broken. Its kind is not
    checked.
    """
    sweep = read_sweep(path)
    prices = Prices.of(sweep.folder.description)
    more = further(sweep.folder, bands, prices, _costs(sweep, prices) if prices else ())
    return Report(
        sweep_page(sweep, more.sections, more.curves),
        sweep.as_dict() | more.document,
        lambda console: print_sweep(sweep, console, more),
    )
