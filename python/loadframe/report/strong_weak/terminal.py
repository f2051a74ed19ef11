"""A strong and a weak curve on the terminal: the answer, the table of speed-ups, the laws, what to doubt."""

from rich.console import Console
from rich.text import Text

from loadframe.analyze.sweep.strong_weak import CurvePair, StrongAndWeak
from loadframe.report.fit.terminal import print_findings
from loadframe.report.strong_weak import words
from loadframe.report.terminal_table import TerminalTable


def print_strong_weak(both: StrongAndWeak, console: Console) -> None:
    """Print both curves in brief."""
    for pair in both.pairs:
        if len(both.pairs) > 1:
            console.print(Text(words.title(pair), style="bold"))
        console.print(Text(words.lead(pair), style="bold"))
        if pair.rows:
            console.print()
            _table(pair).print(console)
            console.print()
        for sentence in words.laws(pair):
            console.print(Text(sentence))
        for scaling, curves in pair.curves.items():
            findings = words.doubts(curves)
            if findings:
                console.print(Text(f"\nOn the {scaling} curve:", style="bold"))
            print_findings(console, findings)
        console.print()
    for sentence in words.trusts(both):
        console.print(Text(sentence, style="dim"))
    for difference in both.differing:
        console.print(Text(f"where both curves begin, the runs differ in {difference}", style="dim"))


def _table(pair: CurvePair) -> TerminalTable:
    table = TerminalTable(words.COLUMNS, names=0)
    for row in words.cells(pair):
        table.add(*(cell.replace(" [", "\n[", 1) for cell in row))
    return table
