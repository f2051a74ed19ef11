"""An experiment on the terminal: the answer, the speed-ups, what to doubt, and which runs were left out."""

from rich.console import Console
from rich.text import Text

from loadframe.analyze.sweep import PhaseCurves, Sweep
from loadframe.report.fit.terminal import print_findings
from loadframe.report.further import Further
from loadframe.report.labels import seconds_text
from loadframe.report.numbers import measured_text, percent_text
from loadframe.report.scale import answer
from loadframe.report.scale.tiers import waiting_on_terminal
from loadframe.report.terminal_table import TerminalTable
from loadframe.report.trust import print_trust
from loadframe.terminal import PrintableConsole
from loadframe.units import format_count


def print_sweep(sweep: Sweep, console: Console | None = None, further: Further | None = None) -> None:
    """Print an experiment in brief, on standard output unless another console is given."""
    console = console or PrintableConsole()
    description = sweep.folder.description
    console.print(Text(description.get("question") or description["experiment"], style="bold"))
    for curves, told in zip(sweep.curves, sweep.tiers, strict=True):
        console.print()
        if len(sweep.curves) > 1:
            console.print(Text(answer.heading(curves), style="bold"))
        _print_curves(console, curves)
        if table := waiting_on_terminal(told):
            console.print()
            table.print(console)
    console.print()
    if further:
        further.print(console)
    for words in answer.equal_resources(sweep.equal, sweep.rate.unit):
        console.print(Text(words))
    print_trust(sweep.folder, console)


def _print_curves(console: Console, curves: PhaseCurves) -> None:
    console.print(Text(answer.lead(curves)))
    for words in answer.limits(curves):
        console.print(Text(words, style="dim"))
    if curves.speedups:
        console.print()
        _speedups(curves).print(console)
    elif curves.treatments:
        console.print()
        columns, rows = answer.treatment_rows(curves)
        table = TerminalTable(columns, names=0)
        for row in rows:
            table.add(*(cell.replace(" [", "\n[", 1) for cell in row))
        table.print(console)
    for name, words in answer.over_clients(curves):
        console.print()
        console.print(Text.assemble((f"{name}: ", "bold"), words))
    if curves.bends:
        console.print()
        console.print(Text("Why throughput stops keeping up with clients:", style="bold"))
    for bend in curves.bends:
        console.print(Text(f"  {bend.cause}"))
        console.print(Text(f"  {bend.remedy}", style="dim"))
    print_findings(console, curves.warnings)


def _speedups(curves: PhaseCurves) -> TerminalTable:
    table = TerminalTable(
        ("nodes", "clients", "runs", curves.rate.unit, "speed-up", "efficiency", "p50", "p99"), names=0
    )  # fmt: skip
    for row in curves.speedups:
        treatment = row.treatment
        cells = (
            format_count(treatment.nodes or 0),
            format_count(treatment.clients) if treatment.clients else "",
            format_count(len(treatment.points)),
            measured_text(treatment.throughput),
            measured_text(row.speedup),
            percent_text(row.efficiency),
            seconds_text(treatment.response_p50),
            seconds_text(treatment.response_p99),
        )
        table.add(*(cell.replace(" [", "\n[", 1) for cell in cells))
    return table
