"""A comparison on the terminal: a table, a sentence, what to doubt."""

from rich.console import Console
from rich.text import Text

from loadframe.analyze.comparison import Comparison
from loadframe.report.comparison import words
from loadframe.report.fit.terminal import print_findings
from loadframe.report.terminal_table import TerminalTable
from loadframe.terminal import PrintableConsole

_TONES = {"better": "green", "worse": "red", "alike": "dim", "open": "yellow"}


def print_comparison(comparison: Comparison, console: Console | None = None) -> None:
    """Print a comparison, on standard output unless another console is given."""
    console = console or PrintableConsole()
    for sentence in words.lead(comparison):
        console.print(Text(sentence, style="bold"))
    if comparison.contrasts:
        console.print()
        _table(comparison).print(console)
    console.print(Text(words.runs_text(comparison), style="dim"))
    for label, differences in comparison.differing.items():
        shown = [str(difference) for difference in differences[:6]] + (
            [f"and {len(differences) - 6} more"] if len(differences) > 6 else []
        )
        differs = "; ".join(shown) or "nothing that was recorded"
        console.print(Text(f"{label} differs in {differs}", style="dim"))
    print_findings(console, comparison.warnings)


def _table(comparison: Comparison) -> TerminalTable:
    baseline = comparison.groups[0].label
    table = TerminalTable(("measure", "group", "", baseline, "group's", "ratio", "p", "delta"), names=3)
    for contrast in comparison.contrasts:
        table.add(
            words.name(contrast),
            contrast.label,
            Text(words.OUTCOMES[contrast.outcome], style=_TONES[contrast.outcome]),
            words.quantity(contrast.medians[0], contrast.measure),
            words.quantity(contrast.medians[1], contrast.measure),
            words.ratio_text(contrast).replace(" [", "\n[", 1),
            words.p_text(contrast.p),
            f"{contrast.delta:+.2f}",
        )
    return table
