"""Page of a single run."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from loadframe.analyze.dips import DipsOfPhase, dips_of
from loadframe.analyze.five_seconds import SAMPLE, Spread, five_seconds, five_seconds_by_node, least_and_p95
from loadframe.analyze.processes import processes_of
from loadframe.analyze.rates import RATES, THROUGHPUT
from loadframe.base.units import format_count, format_duration, format_share
from loadframe.record import Run
from loadframe.record.schema.summary import PhaseSummary
from loadframe.report.bands import run_bands
from loadframe.report.cpu import run_cpu
from loadframe.report.labels import (
    closed_text,
    cluster_text,
    ended_early_texts,
    first_failure_texts,
    load_text,
    reconnects_texts,
    retries_texts,
    seconds_text,
    set_aside_texts,
    setup_texts,
    sources_texts,
    with_failures,
)
from loadframe.report.page import render
from loadframe.report.plot import COLORS, GRID, Axis, Figure, Line, Panel, Rule, Trace, numbers
from loadframe.report.plots.run import run_over_time
from loadframe.report.run.words import bounds_of, delayed_texts, standing_of
from loadframe.report.setup import manifest_facts, run_facts
from loadframe.report.stored import stored_text
from loadframe.report.tables import (
    Cell,
    Table,
    failures_table,
    generator_table,
    growth_table,
    operations_table,
    ranks_table,
)


def dips_text(at: DipsOfPhase) -> str:
    """Return a sentence on a phase's dips."""
    dips = at.dips
    when = (
        f"every {format_duration(dips.period)}, for {format_duration(dips.length)} each time"
        if dips.period
        else f"in {len(dips.begins)} dips at irregular distances, for {format_duration(dips.length)} on average"
    )
    words = (
        f"In {at.phase.name} throughput fell by {format_share(dips.depth)} {when}; that cost"
        f" {format_share(dips.share, 1)} of what would have been done without them."
    )
    if not at.activities:
        return f"{words} No telemetry says what the store did meanwhile."
    if (explained := at.explained) is None:
        return f"{words} {_undecided(at)}"
    named = _listed([activity.series.words for activity in at.claimed])
    return (
        f"{words} {format_share(explained.lost)} of that was lost in seconds with more {named} than on average, which"
        f" are {format_share(explained.seconds)} of all seconds; chance would do as much in {_chance(at)} of cases."
    )


def _undecided(at: DipsOfPhase) -> str:
    """Say that nothing that was watched falls together with the dips, or no more than chance may explain."""
    first = at.activities[0]
    if first.overlap.lost < 2 * first.overlap.seconds:
        return "Nothing that was watched falls together with them."
    return (
        f"{format_share(first.overlap.lost)} of that was lost in seconds with more {first.series.words} than on"
        " average,"
        f" which are {format_share(first.overlap.seconds)} of all seconds; since chance would do as much in"
        f" {format_share(first.overlap.p)} of cases, this run does not decide whether they are the reason."
    )


def _chance(at: DipsOfPhase) -> str:
    most = max(activity.overlap.p for activity in at.claimed)
    return format_share(most, 1)


def _listed(words: Sequence[str]) -> str:
    """Write `merges`, `merges or refreshes`, `merges, refreshes or flushes`."""
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last


def dips_table(at: DipsOfPhase) -> Table | None:
    """Return what the store did in dips and out of them; None where nothing was watched."""
    if not at.activities:
        return None
    rows = [
        [
            Cell(activity.series.words, activity.series.metric),
            Cell(format_share(activity.overlap.lost)),
            Cell(format_share(activity.overlap.seconds)),
            Cell(f"{activity.overlap.p:.2g}", tone="best" if activity.overlap.claimed else ""),
            Cell(format_count(activity.inside)),
            Cell(format_count(activity.outside)),
        ]
        for activity in at.activities
    ]
    note = (
        "Of the throughput that was lost in dips: the share that falls into seconds with more of it than on average,"
        " beside the share of all seconds that these are. p: how often as much would fall into it by chance, in any of"
        " what was watched, if the one had nothing to do with the other (all shifts of the one against the other). What"
        " falls together with a dip need not be its cause. The last columns are in the metric's unit per second."
    )
    return Table(("the store's", "of the loss", "of all seconds", "p", "in dips", "outside"), rows, note=note)


#: Of more nodes than these the page has the first; the JSON document has all.
_HOSTS = 20


def samples_table(run: Run) -> Table | None:
    """Return least, quartiles, mean and most of each measured phase, and of each node; None where no window has 5 s."""
    rows = []
    for phase in run.summary.measured:
        for rate in RATES.values():
            spread = five_seconds(run, phase, rate)
            if spread and spread.most:
                rows.append([Cell(phase.name), Cell(rate.unit), *_cells(spread)])
        for host, spread in list(five_seconds_by_node(run, phase).items())[:_HOSTS]:
            rows.append([Cell(phase.name), Cell(THROUGHPUT.unit, f"served by {host}"), *_cells(spread)])
    if not rows:
        return None
    known = [(phase, name, least_and_p95(run, phase, name)) for phase in run.summary.measured for name in phase.single]
    times = "; ".join(
        f"{phase.name} {name}: {seconds_text(pair[0])}, {seconds_text(pair[1])}" for phase, name, pair in known if pair
    )
    note = f"Samples of {SAMPLE} s of the measured window, per second." + (
        f" Least response time, and p95: {times}." if times else ""
    )
    columns = ("phase", "of", "samples", "least", "q1", "median", "mean", "q3", "greatest")
    return Table(columns, rows, names=2, note=note)


def _cells(spread: Spread) -> list[Cell]:
    figures = (spread.least, spread.q1, spread.median, spread.mean, spread.q3, spread.most)
    return [Cell(format_count(spread.samples)), *(Cell(format_count(figure)) for figure in figures)]


_CAPTION = (
    "Events in each second: those that were accepted, and those that the store acknowledged. Below, how many wait"
    " between the two. Vertical lines separate the phases."
)


def sources_table(phases: Sequence[PhaseSummary]) -> Table | None:
    """Return what came of each source of events in each phase; None where no phase has any."""
    rows = []
    for phase in phases:
        for name, source in phase.sources.items():
            took = phase.warmup + phase.duration
            reasons = ", ".join(f"{format_count(n)} {reason}" for reason, n in source.dead_letters.items() if n)
            rows.append(
                [
                    Cell(phase.name),
                    Cell(name, source.address or ""),
                    Cell(format_count(source.lines)),
                    Cell(format_count(source.accepted)),
                    Cell(format_count(source.indexed)),
                    Cell(format_count(round(source.indexed / took)) if took else "–"),
                    Cell(format_count(source.dead), reasons),
                    Cell(format_count(source.left_over), tone="invalid" if source.left_over else ""),
                    Cell(seconds_text(took)),
                ]
            )
    if not rows:
        return None
    columns = ("phase", "source", "lines", "accepted", "indexed", "indexed/s", "dead letters", "left over", "in")
    return Table(
        columns,
        rows,
        names=2,
        note="Of the whole phase, its warm-up included. Lines are accepted events and dead letters; an event that the"
        " store refused is accepted, and a dead letter as well. Each event counts once, however often it was sent.",
    )


def sources_over_time(run: Run, name: str) -> Figure | None:
    """Draw events accepted and indexed per second, and those that wait; None where nothing was sampled."""
    rows = run.telemetry.filter(pc.starts_with(run.telemetry["source"], "source:")).sort_by("time")
    if not rows.num_rows:
        return None
    traces = []
    for source in pc.unique(rows["source"]).to_pylist():
        of_it = rows.filter(pc.equal(rows["source"], source))
        label = source.partition(":")[2]
        traces += [
            _trace(of_it, "accepted", f"{label} accepted", Line(COLORS[0]), 0),
            _trace(of_it, "indexed", f"{label} indexed", Line(COLORS[1], dash="dash"), 0),
            _trace(of_it, "waiting", f"{label} waiting", Line(COLORS[2]), 1),
        ]
    return Figure(
        name,
        Axis("seconds since the run began", from_zero=True),
        [Panel(Axis("events/s", from_zero=True)), Panel(Axis("events waiting", from_zero=True))],
        traces,
        _CAPTION,
        rules=[Rule(phase.start, color=GRID) for phase in run.summary.phases],
        follow=True,
        height=400,
    )


def _trace(rows: pa.Table, metric: str, name: str, line: Line, panel: int) -> Trace:
    sampled = rows.filter(pc.equal(rows["metric"], metric))
    return Trace(numbers(sampled["time"].to_numpy()), numbers(sampled["value"].to_numpy()), name, line, panel=panel)


def run_page(run: Run, bands: Sequence[float] = ()) -> str:
    """Return the page of a single run; `bands` are the bounds of bands of response time, s."""
    manifest, summary = run.manifest, run.summary
    workload = manifest.workload.name or run.path.name
    phases = summary.phases
    dips = dips_of(run)
    return render(
        "run.html.j2",
        title=f"{workload}: loadframe report",
        question=f"What does {cluster_text(manifest.store)} do under {workload}?",
        status=summary.status,
        failure=summary.failure,
        headline=_headline(phases),
        verdict=summary.verdict,
        standing=standing_of(run),
        bounds=bounds_of(run),
        operations=operations_table(run) if phases else None,
        remarks=[
            words
            for phase in phases
            for words in (
                *ended_early_texts(phase),
                *first_failure_texts(phase),
                *set_aside_texts(phase),
                *sources_texts(phase),
                *reconnects_texts(phase),
                *retries_texts(phase),
                *setup_texts(phase),
                *delayed_texts(run, phase),
            )
        ]
        + list(map(stored_text, summary.stored)),
        bands=run_bands(run, bands) if bands else None,
        failures=failures_table(phases),
        growth=growth_table(phases),
        closed=closed_text(phases),
        sources=sources_table(phases),
        sources_over_time=sources_over_time(run, "events-over-time"),
        over_time=run_over_time(run, "run-over-time", dips) if run.series.num_rows else None,
        samples=samples_table(run) if run.series.num_rows else None,
        dips=[(dips_text(at), dips_table(at)) for at in dips],
        cpu=run_cpu(processes_of(run)),
        generator=generator_table(summary.generator) if summary.generator else None,
        ranks=ranks_table(phases),
        facts=[run_facts(manifest), *manifest_facts(manifest)],
    )


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
