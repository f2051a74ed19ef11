"""Page of a single run."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from loadframe.analyze.dips import DipsOfPhase, dips_of
from loadframe.analyze.processes import processes_of
from loadframe.analyze.publication_figures import (
    LENGTHS,
    SAMPLE,
    Spread,
    least_and_p95,
    rate_samples,
    rate_samples_by_node,
)
from loadframe.analyze.rates import RATES
from loadframe.base.units import format_count, format_duration, format_share
from loadframe.record import Run
from loadframe.record.schema.summary import PhaseSummary
from loadframe.report.labels import (
    closed_text,
    cluster_text,
    ended_early_texts,
    first_failure_texts,
    load_text,
    overruns_texts,
    reconnects_texts,
    retries_texts,
    seconds_text,
    set_aside_texts,
    setup_texts,
    sources_texts,
    stopped_by_texts,
    window_texts,
    with_failures,
)
from loadframe.report.page import Page, render
from loadframe.report.plot import COLORS, GRID, Axis, Figure, LineStyle, Panel, Rule, Trace, numbers
from loadframe.report.plots.run import resources_over_time, run_over_time
from loadframe.report.run_status import bounds_of, delayed_texts, ingest_pace_texts, merged_reasons, standing_of
from loadframe.report.sections import run_bands, stored_text
from loadframe.report.setup import manifest_facts, run_facts
from loadframe.report.tables import (
    Cell,
    Table,
    failures_table,
    generator_table,
    growth_table,
    operations_table,
    ranks_table,
    run_cpu,
)


def dips_text(at: DipsOfPhase) -> str:
    """Return sentences on the dips of a phase, and on activities of the store that coincide with them."""
    dips = at.dips
    when = (
        f"every {format_duration(dips.period)}, for {format_duration(dips.length)} each time"
        if dips.period
        else f"in {len(dips.begins)} dips at irregular intervals, for {format_duration(dips.length)} on average"
    )
    words = (
        f"In {at.phase.name} throughput fell by {format_share(dips.depth)} {when}. The dips cost"
        f" {format_share(dips.share, 1)} of the throughput."
    )
    if not at.activities:
        return f"{words} No telemetry shows the store's activity."
    if (explained := at.explained) is None:
        return f"{words} {_inconclusive(at)}"
    named = _join_words([activity.series.words for activity in at.claimed])
    return (
        f"{words} {format_share(explained.lost)} of the loss fell in seconds with more {named} than average"
        f" ({format_share(explained.seconds)} of all seconds), p = {_chance(at)}."
    )


def _inconclusive(at: DipsOfPhase) -> str:
    """Return a sentence: no observed activity coincides with the dips, or no more than chance may explain."""
    first = at.activities[0]
    if first.overlap.lost < 2 * first.overlap.seconds:
        return "No observed activity coincides with them."
    return (
        f"Inconclusive: {format_share(first.overlap.lost)} of the loss fell in seconds with more {first.series.words}"
        f" than average ({format_share(first.overlap.seconds)} of all seconds), p = {format_share(first.overlap.p)}."
    )


def _chance(at: DipsOfPhase) -> str:
    most = max(activity.overlap.p for activity in at.claimed)
    return format_share(most, 1)


def _join_words(words: Sequence[str]) -> str:
    """Write `merges`, `merges or refreshes`, `merges, refreshes or flushes`."""
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last


def dips_table(at: DipsOfPhase) -> Table | None:
    """Return the store's activities within and outside dips; None if no activity was observed."""
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
        "“of the loss”: share of the lost throughput in seconds with more of the activity than average; “of all"
        " seconds”: share of such seconds. p: probability of that overlap by chance in any observed activity (all time"
        " shifts of activity against throughput). Coincidence does not prove a cause. The last two columns are in the"
        " metric's unit per second."
    )
    return Table(("activity", "of the loss", "of all seconds", "p", "in dips", "outside"), rows, note=note)


#: The page shows this many nodes; the JSON document has all.
_HOSTS = 20


def samples_table(run: Run) -> Table | None:
    """Return the distribution of samples by phase, and by node for the first 20, or None if there is none."""
    rows = []
    for phase in run.summary.measured:
        for seconds in LENGTHS:
            for rate in RATES.values():
                spread = rate_samples(run, phase, rate, seconds)
                if spread and spread.most:
                    rows.append([Cell(phase.name), Cell(rate.unit), *_cells(spread, seconds)])
        for rate in RATES.values():
            for host, spread in list(rate_samples_by_node(run, phase, rate).items())[:_HOSTS]:
                rows.append([Cell(phase.name), Cell(rate.unit, f"served by {host}"), *_cells(spread, SAMPLE)])
    if not rows:
        return None
    known = [(phase, name, least_and_p95(run, phase, name)) for phase in run.summary.measured for name in phase.single]
    times = "; ".join(
        f"{phase.name} {name}: {seconds_text(pair[0])}, {seconds_text(pair[1])}" for phase, name, pair in known if pair
    )
    note = "Samples of the measured window, per second; without an incomplete last one." + (
        f" Minimum and p95 of response times: {times}." if times else ""
    )
    columns = ("phase", "unit", "length", "samples", "minimum", "q1", "median", "mean", "q3", "maximum", "deviation")
    return Table(columns, rows, names=2, note=note)


def _cells(spread: Spread, seconds: int) -> list[Cell]:
    figures = (spread.least, spread.q1, spread.median, spread.mean, spread.q3, spread.most, spread.deviation)
    texts = ("–" if figure is None else format_count(figure) for figure in figures)
    return [Cell(f"{seconds} s"), Cell(format_count(spread.samples)), *map(Cell, texts)]


_CAPTION = (
    "Above: events accepted and acknowledged per second. Below: events waiting for an acknowledgement. Vertical lines"
    " separate the phases."
)


def sources_table(phases: Sequence[PhaseSummary]) -> Table | None:
    """Return the event counts of each source in each phase; None if no phase has a source."""
    rows = []
    for phase in phases:
        for name, source in phase.sources.items():
            seconds = phase.warmup + phase.duration
            reasons = ", ".join(f"{format_count(n)} {reason}" for reason, n in source.dead_letters.items() if n)
            rows.append(
                [
                    Cell(phase.name),
                    Cell(name, source.address or ""),
                    Cell(format_count(source.lines)),
                    Cell(format_count(source.dropped)),
                    Cell(format_count(source.accepted)),
                    Cell(format_count(source.indexed)),
                    Cell(format_count(round(source.indexed / seconds)) if seconds else "–"),
                    Cell(format_count(source.dead), reasons),
                    Cell(format_count(source.left_over), tone="invalid" if source.left_over else ""),
                    Cell(seconds_text(seconds)),
                ]
            )
    if not rows:
        return None
    columns = (
        "phase",
        "source",
        "lines",
        "dropped",
        "accepted",
        "indexed",
        "indexed/s",
        "dead letters",
        "left over",
        "in",
    )
    return Table(
        columns,
        rows,
        names=2,
        note="Whole phases, including warm-up. Lines: accepted events, events that the transformation dropped, and"
        " invalid lines (dead letters). An event that"
        " the store rejects counts as accepted and as a dead letter. Retries are not counted.",
    )


def sources_over_time(run: Run, name: str) -> Figure | None:
    """Draw events accepted, indexed and waiting over time, or return None if there are no samples."""
    rows = run.telemetry.filter(pc.starts_with(run.telemetry["source"], "source:")).sort_by("time")
    if not rows.num_rows:
        return None
    traces = []
    for source in pc.unique(rows["source"]).to_pylist():
        of_it = rows.filter(pc.equal(rows["source"], source))
        label = source.partition(":")[2]
        traces += [
            _trace(of_it, "accepted", f"{label} accepted", LineStyle(COLORS[0]), 0),
            _trace(of_it, "indexed", f"{label} indexed", LineStyle(COLORS[1], dash="dash"), 0),
            _trace(of_it, "waiting", f"{label} waiting", LineStyle(COLORS[2]), 1),
        ]
    return Figure(
        name,
        Axis("seconds since the run began", from_zero=True),
        [Panel(Axis("events/s", from_zero=True)), Panel(Axis("events waiting", from_zero=True, whole=True))],
        traces,
        _CAPTION,
        rules=[Rule(phase.start, color=GRID) for phase in run.summary.phases],
        follow=True,
        height=400,
    )


def _trace(rows: pa.Table, metric: str, name: str, line: LineStyle, panel: int) -> Trace:
    sampled = rows.filter(pc.equal(rows["metric"], metric))
    return Trace(numbers(sampled["time"].to_numpy()), numbers(sampled["value"].to_numpy()), name, line, panel=panel)


def run_page(run: Run, bands: Sequence[float] = ()) -> Page:
    """Return the page of a single run; `bands` are the bounds of latency buckets, s."""
    manifest, summary = run.manifest, run.summary
    workload = manifest.workload.name or run.path.name
    phases = summary.phases
    dips = dips_of(run)
    headline = _headline(run)
    return render(
        "run.html.j2",
        title=f"{workload}: loadframe report",
        question=f"{workload} on {cluster_text(manifest.store)}",
        status=summary.status,
        failure=summary.failure,
        headline=headline,
        verdict=summary.verdict,
        standing=standing_of(run),
        bounds=bounds_of(run),
        reasons=merged_reasons(summary.verdict.reasons) if summary.verdict else [],
        operations=operations_table(run) if phases else None,
        remarks=[
            words
            for phase in phases
            for words in (
                *ended_early_texts(phase),
                *overruns_texts(phase),
                *stopped_by_texts(phase),
                *window_texts(phase),
                *first_failure_texts(phase),
                *set_aside_texts(phase),
                *sources_texts(phase),
                *(
                    words
                    for words in ingest_pace_texts(run, phase)
                    if not any(line.endswith(f"{words}.") for line in headline)
                ),
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
        resources=resources_over_time(run, "resources"),
        cpu=run_cpu(processes_of(run)),
        generator=generator_table(summary.generator) if summary.generator else None,
        ranks=ranks_table(phases),
        facts=[run_facts(manifest), *manifest_facts(manifest)],
    )


def _headline(run: Run) -> list[str]:
    """Return a sentence for each source and operation of the measured phases; of preparing phases if no other exists.

    Above four phases, the only sentence gives their number. Sentences of an invalid run begin with `Invalid`, so that
    they cannot be quoted as results.
    """
    phases = run.summary.phases
    measured = [phase for phase in phases if not phase.prepares] or list(phases)
    if len(measured) > 4:
        return [f"{len(measured)} phases were measured; see the table below."]
    lines = []
    for phase in measured:
        lines += [f"{words}." for words in ingest_pace_texts(run, phase)]
        for name, operation in phase.operations.items():
            response, every = operation.response, with_failures(operation)
            failed = f" ({seconds_text(every.p99)} with failures)" if every else ""
            lines.append(
                f"{name}, {load_text(phase)}: {format_count(operation.throughput)} requests/s,"
                f" median {seconds_text(response.p50)}, p99 {seconds_text(response.p99)}{failed}."
            )
    invalid = run.summary.verdict and standing_of(run)[0] == "invalid"
    return [f"Invalid: {line}" for line in lines] if invalid else lines
