"""A comparison on the terminal: a table, a sentence, what to doubt."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from loadframe.analyze.comparison import Comparison
from loadframe.report import comparison_words as words
from loadframe.report.fit_terminal import print_findings

_TONES = {"better": "green", "worse": "red", "alike": "dim", "open": "yellow"}


def print_comparison(comparison: Comparison, console: Console | None = None) -> None:
    """Print a comparison, on standard output unless another console is given."""
    console = console or Console()
    for sentence in words.lead(comparison):
        console.print(Text(sentence, style="bold"))
    if comparison.contrasts:
        console.print()
        console.print(_table(comparison))
    console.print(Text(words.runs_text(comparison), style="dim"))
    for label, found in comparison.differing.items():
        shown = [str(each) for each in found[:6]] + ([f"and {len(found) - 6} more"] if len(found) > 6 else [])
        differs = "; ".join(shown) or "nothing that was recorded"
        console.print(Text(f"{label} differs in {differs}", style="dim"))
    print_findings(console, comparison.warnings)


def _table(comparison: Comparison) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("measure")
    table.add_column("group")
    for header in (comparison.groups[0].label, "group's", "ratio", "p", "delta"):
        table.add_column(header, justify="right")
    table.add_column("")
    for each in comparison.contrasts:
        table.add_row(
            Text(words.name(each)),
            Text(each.label),
            Text(words.quantity(each.medians[0], each.measure)),
            Text(words.quantity(each.medians[1], each.measure)),
            Text(words.ratio_text(each).replace(" [", "\n[", 1)),
            words.p_text(each.p),
            f"{each.delta:+.2f}",
            Text(words.OUTCOMES[each.outcome], style=_TONES[each.outcome]),
        )
    return table
