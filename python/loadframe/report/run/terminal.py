"""Terminal output of a single run: figures by phase and operation, and the verdict."""

import shlex
import sys
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from loadframe.analyze.experiment import validity
from loadframe.analyze.percentiles import Percentile, percentiles_of
from loadframe.analyze.telemetry import processes_of
from loadframe.base.terminal import PrintableConsole
from loadframe.base.units import counted, format_count, format_duration
from loadframe.record import Run
from loadframe.record.schema.figures import OperationFigures
from loadframe.record.schema.summary import RecordedVerdict
from loadframe.report.labels import (
    closed_text,
    cluster_text,
    ended_early_texts,
    ends_text,
    errors_text,
    few_text,
    first_failure_texts,
    growth_text,
    kernel_times_texts,
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
from loadframe.report.run_status import (
    Percentiles,
    bounds_of,
    delayed_texts,
    ingest_pace_texts,
    merged_reasons,
    merged_unchecked,
    standing_of,
)
from loadframe.report.sections import run_bands_on_terminal, run_cpu_on_terminal, stored_text
from loadframe.report.setup import loaded_by_text
from loadframe.report.tables import partial_text, unsampled_text
from loadframe.report.terminal_table import TerminalTable

#: Runs with more phases are printed with one line for each operation.
_MOST_PHASES = 20
#: Most lines of each list in the verdict of such a run.
_MOST_LINES = 20
#: Rules without a result that the terminal lists.
_MOST_NOT_CHECKED = 8
#: Stands before the figures of an invalid run, and before the reasons.
_INVALID = "INVALID: do not rely on these figures"
_PERCENTILES = {"p50": "p50", "p99": "p99", "p999": "p99.9", "max": "max"}


def print_run(run: Run, console: Console | None = None, bands: Sequence[float] = ()) -> None:
    """Print a run in brief, on standard output unless another console is given.

    `bands` are the upper bounds of latency buckets, s, above 0 and ascending; without them no buckets are printed. A
    run with more than 20 phases has one line for each operation.
    """
    console = console or PrintableConsole()
    manifest, summary = run.manifest, run.summary
    console.print(Text(f"{manifest.workload.name or ''} on {cluster_text(manifest.store)}", style="bold"))
    if words := loaded_by_text(manifest.generator):
        console.print(Text(words, style="dim"))
    if summary.status != "done":
        words = f"The run was {summary.status}" if summary.status == "interrupted" else "The run failed"
        console.print(Text(f"{words}{f': {summary.failure}' if summary.failure else ''}", style="red"))
    if validity(run) is False:
        console.print(Text(_INVALID, style="bold red"))
    percentiles = percentiles_of(run)
    short = len(summary.phases) > _MOST_PHASES
    (_print_brief_phases if short else _print_phases)(console, run, percentiles)
    for stored in summary.stored:
        console.print()
        console.print(Text(stored_text(stored), style="yellow" if stored.missing else ""))
    if bands:
        console.print()
        run_bands_on_terminal(run, bands).print(console)
    cpu = processes_of(run)
    if not short and (cpu.used or cpu.unsampled):
        console.print()
        if cpu.used:
            run_cpu_on_terminal(cpu).print(console)
        for words in filter(None, [partial_text(cpu.partial), unsampled_text(cpu.unsampled)]):
            console.print(Text(words, style="yellow"))
    if closed := closed_text(summary.phases):
        console.print()
        console.print(Text(closed, style="dim"))
    if summary.verdict:
        console.print()
        print_verdict(console, run, summary.verdict, percentiles)


def _print_phases(console: Console, run: Run, percentiles: Percentiles) -> None:
    """Print for each phase its load, a table of its operations, and notes; `percentiles` are by phase and operation."""
    for phase in run.summary.phases:
        console.print()
        window = f"measured {format_duration(phase.duration)}"
        if phase.warmup:
            window += f" after {format_duration(phase.warmup)} of warm-up"
        console.print(Text.assemble((phase.name, "bold"), f" · {load_text(phase)} · {window}"))
        # The stored events of a stream matter more than its rate.
        for words in (*sources_texts(phase), *ingest_pace_texts(run, phase)):
            console.print(Text(words, style="yellow"))
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
            *messages_texts(phase),
            *reconnects_texts(phase),
            *retries_texts(phase),
            *setup_texts(phase),
            *kernel_times_texts(phase),
            *delayed_texts(run, phase),
        ):
            console.print(Text(words, style="yellow"))
        for name, operation in phase.operations.items():
            if grown := growth_text(operation):
                console.print(Text(f"mean response time of {name} {grown}", style="dim"))


def _print_brief_phases(console: Console, run: Run, percentiles: Percentiles) -> None:
    """Print a line for each operation of each phase, and notes on failures. `*` marks percentiles of few requests.

    `percentiles` are by phase and operation.
    """
    table = TerminalTable(("phase", "operation", "requests/s", "p50", "p99", "failures"), names=2)
    for phase in run.summary.phases:
        for name, operation in phase.operations.items():
            known = percentiles[phase.name].get(name, {})
            times = [
                f"{seconds_text(operation.response.at(key))}{'*' if key in known and known[key].few else ''}"
                for key in ("p50", "p99")
            ]
            table.add(phase.name, name, format_count(operation.throughput), *times, errors_text(operation))
    console.print()
    table.print(console)
    command = f"loadframe report {shlex.quote(str(run.path))} --json"
    console.print(Text(f"`{command}` has intervals and notes for each phase.", style="dim"))
    for phase in run.summary.phases:
        for words in (*ended_early_texts(phase), *stopped_by_texts(phase), *messages_texts(phase)):
            console.print(Text(f"{phase.name}: {words}", style="yellow"))


def print_verdict(console: Console, run: Run, verdict: RecordedVerdict, percentiles: Percentiles) -> None:
    """Print the verdict, bounded figures, reasons with remedies, explanations, and rules that were not checked.

    `percentiles` are those of the run. At most 8 unchecked rules are listed; of a run with more than 20 phases, at most
    20 bounded figures.
    """
    most = _MOST_LINES if len(run.summary.phases) > _MOST_PHASES else sys.maxsize
    tone, words = standing_of(run, percentiles)
    if tone == "valid" and not verdict.reasons:
        console.print(Text("valid", style="bold green"))
    elif tone == "invalid":
        console.print(Text(_INVALID, style="bold red"))
    else:
        console.print(Text(words, style="bold yellow"))
    bounds = bounds_of(run)
    for line in bounds[:most]:
        console.print(Text(f"  {line}"))
    if (further := len(bounds) - most) > 0:
        console.print(Text(f"  {counted(further, 'more figure')}; see the report"))
    grid = Table.grid(padding=(0, 1, 0, 0))
    for cause, remedy in merged_reasons(verdict.reasons):
        grid.add_row(Text("!", style="yellow"), Text(cause, style="yellow"))
        grid.add_row("", Text(remedy, style="dim"))
    for words in verdict.explained:
        grid.add_row("", Text(f"explained: {words}", style="dim"))
    unchecked = merged_unchecked(verdict.not_judged)
    for words in unchecked[:_MOST_NOT_CHECKED]:
        grid.add_row("", Text(f"not checked: {words}", style="dim"))
    if (further := len(unchecked) - _MOST_NOT_CHECKED) > 0:
        grid.add_row("", Text(f"not checked: {counted(further, 'more entry', 'more entries')}", style="dim"))
    if grid.row_count:
        console.print(grid)


def _operations(
    operations: Mapping[str, OperationFigures], known: Mapping[str, Mapping[str, Percentile]]
) -> TerminalTable:
    """Return rows for each operation and part: figures, intervals, recall, and times with failures.

    `known` has the percentiles with intervals by operation and percentile; missing ones have no interval.
    """
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
        for words, end in (("  95 % low", 0), ("  95 % high", 1)) if intervals else ():
            table.add(words, "", "", *(pair[end] for pair in ends), *last, style="dim")
        if recall := recall_text(operation):
            table.add(f"  {recall}", "", "", *([""] * len(_PERCENTILES)), *last, style="dim")
        if polled := resolution_text(operation):
            table.add(f"  {polled}", "", "", *([""] * len(_PERCENTILES)), *last, style="dim")
        if every := with_failures(operation):
            percentiles = [seconds_text(every.at(key)) for key in _PERCENTILES]
            table.add("  with failures", "", "", *percentiles, *last, style="dim")
    return table
