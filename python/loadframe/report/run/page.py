"""Page of a single run."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from loadframe.analyze.dips import DipsOfPhase, dips_of
from loadframe.analyze.experiment import RecordedRun, validity
from loadframe.analyze.percentiles import Percentile, percentiles_of
from loadframe.analyze.publication_figures import (
    LENGTHS,
    SAMPLE,
    Spread,
    least_and_p95,
    rate_samples,
    rate_samples_by_node,
)
from loadframe.analyze.rates import RATES
from loadframe.analyze.telemetry import processes_of
from loadframe.base.units import counted, format_count, format_duration, format_share
from loadframe.record import Run
from loadframe.record.schema.figures import OperationFigures
from loadframe.record.schema.summary import PhaseSummary, StreamSummary
from loadframe.report.labels import (
    closed_text,
    cluster_text,
    ended_early_texts,
    errors_text,
    few_text,
    first_failure_texts,
    interval_text,
    kernel_times_texts,
    load_text,
    overruns_texts,
    recall_text,
    reconnects_texts,
    resolution_text,
    retries_texts,
    seconds_text,
    set_aside_texts,
    setup_texts,
    sources_texts,
    stopped_by_texts,
    stored_lines_text,
    window_texts,
    with_failures,
    with_parts,
)
from loadframe.report.page import Page, render
from loadframe.report.plot import COLORS, GRID, Axis, Figure, LineStyle, Panel, Rule, Trace, numbers
from loadframe.report.plots.run import marked, resources_over_time, run_axis, run_over_time
from loadframe.report.run_status import (
    Percentiles,
    bounds_of,
    delayed_texts,
    ingest_pace_texts,
    merged_reasons,
    merged_unchecked,
    standing_of,
)
from loadframe.report.sections import run_bands, stored_text
from loadframe.report.setup import manifest_facts, run_facts
from loadframe.report.tables import (
    Cell,
    Table,
    count_cell,
    failures_table,
    generator_table,
    growth_table,
    p_cell,
    percentile_cell,
    ranks_table,
    run_cpu,
    seconds_cell,
    share_cell,
    unsampled_text,
)


def dips_text(at: DipsOfPhase) -> str:
    """Return sentences on the dips in throughput of a phase, and on activities of the store that coincide with them."""
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
    """Return a sentence: no observed activity coincides with the dips, or no more than chance may explain.

    At least one activity must be observed; the sentence is about the first.
    """
    first = at.activities[0]
    if first.overlap.lost < 2 * first.overlap.seconds:
        return "No observed activity coincides with them."
    return (
        f"Inconclusive: {format_share(first.overlap.lost)} of the loss fell in seconds with more {first.series.words}"
        f" than average ({format_share(first.overlap.seconds)} of all seconds), p = {format_share(first.overlap.p)}."
    )


def _chance(at: DipsOfPhase) -> str:
    """Write the largest p value of the activities that explain the dips, in %. At least one must explain them."""
    most = max(activity.overlap.p for activity in at.claimed)
    return format_share(most, 1)


def _join_words(words: Sequence[str]) -> str:
    """Write `merges`, `merges or refreshes`, `merges, refreshes or flushes`. ValueError without words."""
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last


def dips_table(at: DipsOfPhase) -> Table | None:
    """Return the store's activities within and outside dips; None if no activity was observed."""
    if not at.activities:
        return None
    rows = [
        [
            Cell(activity.series.words, activity.series.metric),
            share_cell(activity.overlap.lost),
            share_cell(activity.overlap.seconds),
            p_cell(activity.overlap.p, tone="best" if activity.overlap.claimed else ""),
            count_cell(activity.inside),
            count_cell(activity.outside),
        ]
        for activity in at.activities
    ]
    note = (
        "“of the loss”: share of the lost throughput in seconds with more of the activity than average; “of all"
        " seconds”: share of such seconds. p: probability of that overlap by chance in any observed activity (all time"
        " shifts of activity against throughput). Coincidence does not prove a cause. The last two columns are in the"
        " metric's unit per second."
    )
    columns = ("activity", "of the loss", "of all seconds", "p", "in dips", "outside")
    return Table(columns, rows, note=note, caption="Activities of the store within and outside dips of the throughput")


#: The page shows this many nodes; the JSON document has all.
_HOSTS = 20


def samples_table(run: Run) -> Table | None:
    """Return the distribution of samples (1/s, over 5 and 10 s) by phase, and over 5 s for each of the first 20 nodes.

    Return None without samples.
    """
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
    return Table(columns, rows, names=2, note=note, caption="Distribution of the throughput over the measured window")


def _cells(spread: Spread, seconds: int) -> list[Cell]:
    """Return the cells of a distribution; `seconds` is the length of its samples, s."""
    figures = (spread.least, spread.q1, spread.median, spread.mean, spread.q3, spread.most, spread.deviation)
    return [seconds_cell(seconds), *map(count_cell, (spread.samples, *figures))]


_CAPTION = (
    "Above: events accepted and acknowledged per second. Below: events without an acknowledgement. Vertical lines"
    " separate the phases."
)


def sources_table(phases: Sequence[PhaseSummary]) -> Table | None:
    """Return the event counts of each source in each phase, with warm-up; None if no phase has a source."""
    rows = []
    for phase in phases:
        for name, source in phase.sources.items():
            seconds = phase.warmup + phase.duration
            reasons = ", ".join(f"{format_count(n)} {reason}" for reason, n in source.dead_letters.items() if n)
            rows.append(
                [
                    Cell(phase.name),
                    Cell(name, source.address or ""),
                    *map(count_cell, (source.lines, source.dropped, source.accepted, source.indexed)),
                    count_cell(source.indexed / seconds if seconds else None),
                    count_cell(source.dead, reasons),
                    count_cell(source.left_over, tone="invalid" if source.left_over else ""),
                    seconds_cell(seconds),
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
        caption="Events of each source",
    )


def sources_over_time(run: Run, name: str) -> Figure | None:
    """Draw the accepted, indexed and unacknowledged events of sources over time, in s since the run began.

    Return None for a run without samples of sources. `name` is the plot's identifier.
    """
    rows = run.telemetry.filter(pc.starts_with(run.telemetry["source"], "source:")).sort_by("time")
    if not rows.num_rows:
        return None
    traces = []
    for source in pc.unique(rows["source"]).to_pylist():
        of_it = rows.filter(pc.equal(rows["source"], source))
        label = source.partition(":")[2]
        # Runs of earlier versions do not record events in requests.
        backlog = "unacknowledged" if pc.any(pc.equal(of_it["metric"], "unacknowledged")).as_py() else "waiting"
        traces += [
            _trace(of_it, "accepted", f"{label} accepted", LineStyle(COLORS[0]), 0),
            _trace(of_it, "indexed", f"{label} indexed", LineStyle(COLORS[1], dash="dash"), 0),
            _trace(of_it, backlog, f"{label} {backlog}", LineStyle(COLORS[2]), 1),
        ]
    return Figure(
        name,
        run_axis(run, traces),
        [Panel(Axis("events/s", from_zero=True)), Panel(Axis("events", from_zero=True, whole=True))],
        marked(traces),
        _CAPTION,
        rules=[Rule(phase.start, color=GRID) for phase in run.summary.phases],
        follow=True,
        height=400,
    )


def _trace(rows: pa.Table, metric: str, name: str, line: LineStyle, panel: int) -> Trace:
    """Return the samples of a metric over time as a line called `name` in the panel number `panel`.

    `rows` are telemetry rows of one source in order of time.
    """
    sampled = rows.filter(pc.equal(rows["metric"], metric))
    return Trace(numbers(sampled["time"].to_numpy()), numbers(sampled["value"].to_numpy()), name, line, panel=panel)


_PERCENTILES = {"p50": "p50", "p90": "p90", "p99": "p99", "p999": "p99.9", "max": "max"}


def operations_table(run: Run, by_phase: Percentiles) -> Table:
    """Return the page's table of the operations of each phase: load, throughput, response times and failures.

    Parts of an operation, recall, and times with failures have rows of their own. `by_phase` has the run's percentiles.
    """
    rows = []
    for phase in run.summary.phases:
        for index, (name, operation) in enumerate(with_parts(phase.operations)):
            failures = errors_text(operation)
            known = by_phase[phase.name].get(name, {})
            rows.append(
                [
                    Cell(phase.name if index == 0 else "", "prepares" if phase.prepares and index == 0 else ""),
                    Cell(load_text(phase) if index == 0 else ""),
                    Cell(name),
                    count_cell(operation.throughput),
                    count_cell(operation.documents_per_second),
                    *(percentile_cell(operation.response.at(key), known.get(key)) for key in _PERCENTILES),
                    Cell(failures or "0", tone="invalid" if failures else "muted"),
                ]
            )
            if recall := recall_text(operation):
                empty = [Cell("")] * (3 + len(_PERCENTILES))
                rows.append([Cell(""), Cell(""), Cell(recall, tone="muted"), *empty])
            if polled := resolution_text(operation):
                empty = [Cell("")] * (3 + len(_PERCENTILES))
                rows.append([Cell(""), Cell(""), Cell(polled, tone="muted"), *empty])
            if every := with_failures(operation):
                percentiles = [seconds_cell(every.at(key), tone="muted") for key in _PERCENTILES]
                rows.append([Cell(""), Cell(""), Cell("with failures"), Cell(""), Cell(""), *percentiles, Cell("")])
    columns = ("phase", "load", "operation", "requests/s", "documents/s", *_PERCENTILES.values(), "failures")
    note = (
        "Successful requests of the measured window, and their response times (done − scheduled). If requests failed, a"
        " second row has the times of all requests. Rows with a dot: parts of an operation, with service times (done −"
        " sent). In brackets: 95 % intervals of the percentiles within this run. "
    )
    few = few_text(
        percentile for phase in by_phase.values() for intervals in phase.values() for percentile in intervals.values()
    )
    return Table(
        columns,
        rows,
        names=3,
        note=(note + few).strip(),
        data=_operations_data(run, by_phase),
        caption="Throughput and response times of each operation",
    )


def _operations_data(run: Run, by_phase: Percentiles) -> Table:
    """Return a row for each operation and part, with numbers only: load, rates, percentiles, failures by class.

    `by_phase` has the percentiles with intervals by phase, operation and percentile.
    """
    kinds = dict.fromkeys(
        kind for phase in run.summary.phases for _, figures in with_parts(phase.operations) for kind in figures.errors
    )
    rows = []
    recorded = RecordedRun(run.path.name, None, {}, run)
    for phase in run.summary.phases:
        stream = phase.streams[0] if len(phase.streams) == 1 else None
        requests = recorded.per_arrival(phase.name, stream) if stream else 1
        for name, figures in with_parts(phase.operations):
            whole = figures if isinstance(figures, OperationFigures) else None
            intervals = by_phase[phase.name].get(name, {})
            counts = (figures.requests, figures.successes, sum(figures.errors.values()))
            further = (whole.dropped, whole.in_flight_at_end, whole.recall) if whole else (None, None, None)
            rows.append(
                [
                    Cell(phase.name),
                    Cell("yes" if phase.prepares else "no"),
                    Cell(load_text(phase)),
                    Cell(name),
                    *map(count_cell, _levels(stream, requests)),
                    count_cell(figures.throughput),
                    count_cell(figures.documents_per_second),
                    *(percentile_cell(figures.response.at(key), intervals.get(key)) for key in _PERCENTILES),
                    *(seconds_cell(figures.all.at(key) if figures.all else None) for key in _PERCENTILES),
                    *map(count_cell, counts),
                    *(count_cell(figures.errors.get(kind, 0)) for kind in kinds),
                    *map(count_cell, further),
                    seconds_cell(whole.resolution if whole else None),
                ]
            )
    columns = (
        *("phase", "prepares", "load", "operation", "clients", "users", "offered/s", "requests/s", "documents/s"),
        *_PERCENTILES.values(),
        *(f"{name} with failures" for name in _PERCENTILES.values()),
        *(
            "requests",
            "successes",
            "failures",
            *(f"{kind} failures" for kind in kinds),
            "dropped",
            "unanswered",
            "recall",
            "poll interval",
        ),
    )
    return Table(columns, rows, names=4)


def _levels(stream: StreamSummary | None, requests: int) -> tuple[float | None, float | None, float | None]:
    """Return the clients, users and offered rate (requests/s) of a stream. Unknown and changing numbers are None.

    `requests` is their number for each arrival. All are None for None and for a stream with a source.
    """
    if stream is None or stream.source is not None:
        return None, None, None
    clients, users, rate = (
        level if isinstance(level, int | float) else None for level in (stream.clients, stream.users, stream.rate)
    )
    # A rate counts groups and journeys, and the columns beside it count requests.
    return clients, users, None if rate is None else rate * requests


def run_page(run: Run, bands: Sequence[float] = ()) -> Page:
    """Return the page of a single run; `bands` are the bounds of latency buckets, s."""
    manifest, summary = run.manifest, run.summary
    workload = manifest.workload.name or run.path.name
    phases = summary.phases
    dips = dips_of(run)
    percentiles, cpu = percentiles_of(run), processes_of(run)
    headline = _headline(run, percentiles)
    return render(
        "run.html.j2",
        title=f"{workload}: loadframe report",
        question=f"{workload} on {cluster_text(manifest.store)}",
        status=summary.status,
        failure=summary.failure,
        headline=headline,
        verdict=summary.verdict,
        standing=standing_of(run, percentiles),
        bounds=bounds_of(run),
        reasons=merged_reasons(summary.verdict.reasons) if summary.verdict else [],
        unchecked=merged_unchecked(summary.verdict.not_judged) if summary.verdict else [],
        operations=operations_table(run, percentiles) if phases else None,
        remarks=[
            f"in {phase.name}: {words}" if len(phases) > 1 else words
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
                *kernel_times_texts(phase),
                *delayed_texts(run, phase),
            )
        ]
        + list(map(stored_text, summary.stored))
        + ([unsampled_text(cpu.unsampled)] if cpu.unsampled and not cpu.used else []),
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
        cpu=run_cpu(cpu),
        generator=generator_table(summary.generator) if summary.generator else None,
        ranks=ranks_table(phases),
        facts=[run_facts(manifest), *manifest_facts(manifest)],
    )


def _headline(run: Run, percentiles: Percentiles) -> list[str]:
    """Return sentences on each source and operation of the measured phases; of preparing phases if no other exists.

    A p99 of too few requests is replaced by the maximum. Above four phases, the only sentence gives their number.
    Sentences of an invalid run begin with `Invalid: `.
    """
    phases = run.summary.phases
    measured = [phase for phase in phases if not phase.prepares] or list(phases)
    if len(measured) > 4:
        return [f"{len(measured)} phases were measured; see the table below."]
    lines = []
    for phase in measured:
        of_phase = f"{phase.name}: " if len(measured) > 1 else ""
        lines += [f"{of_phase}{stored_lines_text(name, source)}." for name, source in phase.sources.items()]
        lines += [f"{of_phase}{words}." for words in ingest_pace_texts(run, phase)]
        for name, operation in phase.operations.items():
            response, every = operation.response, with_failures(operation)
            intervals = percentiles[phase.name].get(name, {})
            p50, p99 = intervals.get("p50"), intervals.get("p99")
            few = bool(p99 and p99.few)
            tail = (
                f"maximum {seconds_text(response.max)} of {counted(operation.successes, 'request')}"
                if few
                else f"p99 {_time_text(response.p99, p99)}"
            )
            failed = f" ({seconds_text(every.at('max' if few else 'p99'))} with failures)" if every else ""
            lines.append(
                f"{of_phase}{name}, {load_text(phase)}: {format_count(operation.throughput)} requests/s,"
                f" median {_time_text(response.p50, p50)}, {tail}{failed}."
            )
    return [f"Invalid: {line}" for line in lines] if validity(run) is False else lines


def _time_text(seconds: float | None, percentile: Percentile | None) -> str:
    """Write a percentile, with its interval only if that is unknown or of few requests: `498 ms [unknown]`."""
    if percentile is None or not (percentile.few or None in percentile.ends):
        return seconds_text(seconds)
    return f"{seconds_text(seconds)} {interval_text(percentile).removesuffix('*')}"
