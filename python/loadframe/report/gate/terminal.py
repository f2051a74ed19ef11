"""A gate's outcome on the terminal."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from loadframe.analyze.gate import Gate
from loadframe.report.fit.terminal import print_findings
from loadframe.report.gate.files import STANDINGS, headline
from loadframe.report.labels import treatment_text
from loadframe.terminal import PrintableConsole

_TONES = {"passed": "green", "regression": "bold red", "undecided": "yellow"}


def print_gate(gate: Gate, console: Console | None = None) -> None:
    """Print a gate's checks and its outcome, on standard output unless another console is given."""
    console = console or PrintableConsole()
    console.print(Text(headline(gate), style=_TONES[gate.standing]))
    if gate.checks:
        console.print()
        table = Table.grid(padding=(0, 2, 0, 0))
        for check in gate.checks:
            at = treatment_text(check.treatment)
            name = f"{check.words}{f', {at}' if at else ''}"
            table.add_row(Text(STANDINGS[check.standing], style=_TONES[check.standing]), Text(name), Text(check.why))
        console.print(table)
    print_findings(console, gate.warnings)
