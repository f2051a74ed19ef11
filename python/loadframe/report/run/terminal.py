"""Terminal output of a single run: figures by phase and operation, and the verdict."""

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from loadframe.analyze.percentiles import Percentile, percentiles_of
from loadframe.analyze.processes import processes_of
from loadframe.base.terminal import PrintableConsole
from loadframe.base.units import format_count, format_duration
from loadframe.record import Run
from loadframe.record.schema.summary import OperationFigures, RecordedVerdict
from loadframe.report.labels import (
    closed_text,
    cluster_text,
    ended_early_texts,
    ends_text,
    errors_text,
    few_text,
    first_failure_texts,
    growth_text,
    load_text,
    messages_texts,
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
    window_texts,
    with_failures,
    with_parts,
)
from loadframe.report.run_status import bounds_of, delayed_texts, standing_of
from loadframe.report.sections import run_bands_on_terminal, run_cpu_on_terminal, stored_text
from loadframe.report.terminal_table import TerminalTable

_PERCENTILES = {"p50": "p50", "p99": "p99", "p999": "p99.9", "max": "max"}


def print_run(run: Run, console: Console | None = None, bands: Sequence[float] = ()) -> None:
    """Print a run in brief, on standard output unless another console is given.

    `bands` are the bounds of latency buckets, s.
    """
    console = console or PrintableConsole()
    manifest, summary = run.manifest, run.summary
    console.print(Text(f"{manifest.workload.name or ''} on {cluster_text(manifest.store)}", style="bold"))
    if summary.status != "done":
        words = f"The run was {summary.status}" if summary.status == "interrupted" else "The run failed"
        console.print(Text(f"{words}{f': {summary.failure}' if summary.failure else ''}", style="red"))
    percentiles = percentiles_of(run)
    for phase in summary.phases:
        console.print()
        window = f"measured {format_duration(phase.duration)}"
        if phase.warmup:
            window += f" after {format_duration(phase.warmup)} of warm-up"
        console.print(Text.assemble((phase.name, "bold"), f" · {load_text(phase)} · {window}"))
        known = percentiles[phase.name]
        _operations(phase.operations, known).print(console)
        if words := few_text(percentile for intervals in known.values() for percentile in intervals.values()):
            console.print(Text(words, style="yellow"))
        for words in (
            *ended_early_texts(phase),
            *overruns_texts(phase),
            *stopped_by_texts(phase),
            *window_texts(phase),
            *first_failure_texts(phase),
            *set_aside_texts(phase),
            *sources_texts(phase),
            *messages_texts(phase),
            *reconnects_texts(phase),
            *retries_texts(phase),
            *setup_texts(phase),
            *delayed_texts(run, phase),
        ):
            console.print(Text(words, style="yellow"))
        for name, operation in phase.operations.items():
            if grown := growth_text(operation):
                console.print(Text(f"mean response time of {name}: {grown}", style="dim"))
    for stored in summary.stored:
        console.print()
        console.print(Text(stored_text(stored), style="yellow" if stored.missing else ""))
    if bands:
        console.print()
        run_bands_on_terminal(run, bands).print(console)
    if used := processes_of(run):
        console.print()
        run_cpu_on_terminal(used).print(console)
    if closed := closed_text(summary.phases):
        console.print()
        console.print(Text(closed, style="dim"))
    if summary.verdict:
        console.print()
        _print_verdict(console, run, summary.verdict)


def _print_verdict(console: Console, run: Run, verdict: RecordedVerdict) -> None:
    """Print the verdict, bounded figures, reasons with remedies, explanations, and rules that were not checked."""
    tone, words = standing_of(run)
    if verdict.valid and tone == "valid":
        console.print(Text("valid", style="bold green"))
    elif tone == "invalid":
        console.print(Text("INVALID: do not rely on these figures", style="bold red"))
    else:
        console.print(Text(words, style="bold yellow"))
    for line in bounds_of(run):
        console.print(Text(f"  {line}"))
    grid = Table.grid(padding=(0, 1, 0, 0))
    for reason in verdict.reasons:
        grid.add_row(Text("!", style="yellow"), Text(reason.cause, style="yellow"))
        grid.add_row("", Text(reason.remedy, style="dim"))
    for words in verdict.explained:
        grid.add_row("", Text(f"explained: {words}", style="dim"))
    for words in verdict.not_judged:
        grid.add_row("", Text(f"not checked: {words}", style="dim"))
    if grid.row_count:
        console.print(grid)


def _operations(
    operations: Mapping[str, OperationFigures], known: Mapping[str, Mapping[str, Percentile]]
) -> TerminalTable:
    failing = any(errors_text(operation) for _, operation in with_parts(operations))
    failures = ["failures"] if failing else []
    table = TerminalTable(("operation", "requests/s", "documents/s", *_PERCENTILES.values(), *failures))
    last = [""] * len(failures)
    for name, operation in with_parts(operations):
        intervals = known.get(name, {})
        marks = ["*" if key in intervals and intervals[key].few else "" for key in _PERCENTILES]
        times = zip((operation.response.at(key) for key in _PERCENTILES), marks, strict=True)
        percentiles = [f"{seconds_text(time)}{mark}" for time, mark in times]
        figures = [format_count(operation.throughput), format_count(operation.documents_per_second)]
        table.add(name, *figures, *percentiles, *([errors_text(operation)] if failing else []))
        ends = [ends_text(intervals.get(key)) for key in _PERCENTILES]
        for words, end in (("  at least", 0), ("  at most", 1)) if intervals else ():
            table.add(words, "", "", *(pair[end] for pair in ends), *last, style="dim")
        if recall := recall_text(operation):
            table.add(f"  {recall}", "", "", *([""] * len(_PERCENTILES)), *last, style="dim")
        if polled := resolution_text(operation):
            table.add(f"  {polled}", "", "", *([""] * len(_PERCENTILES)), *last, style="dim")
        if every := with_failures(operation):
            percentiles = [seconds_text(every.at(key)) for key in _PERCENTILES]
            table.add("  with failures", "", "", *percentiles, *last, style="dim")
    return table
