"""An elastic experiment on the terminal: what happened, each measure, what to doubt, which runs were left out."""

from rich.console import Console
from rich.text import Text

from loadframe.analyze.elasticity import Elasticity, StepMeasures
from loadframe.analyze.rates import Rate
from loadframe.report.elastic import words
from loadframe.report.fit.terminal import print_findings
from loadframe.report.further import Further
from loadframe.report.terminal_table import TerminalTable
from loadframe.report.trust import print_trust


def print_elasticity(elasticity: Elasticity, console: Console, further: Further | None = None) -> None:
    """Print an experiment in brief."""
    description = elasticity.folder.description
    console.print(Text(description.get("question") or description["experiment"], style="bold"))
    for group in elasticity.groups:
        console.print()
        console.print(Text(words.heading(group), style="bold"))
        for line in words.lead(group):
            console.print(Text(line))
        for step in group.steps:
            console.print()
            _measures(step, group.rate).print(console)
        for run, texts in words.score_rows(group):
            scores = zip(words.SCORES[1:], texts, strict=True)
            console.print(Text(f"{run}: {', '.join(f'{title} {text}' for title, text in scores)}"))
        print_findings(console, group.warnings)
    console.print()
    if further:
        further.print(console)
    print_trust(elasticity.folder, console)


def _measures(step: StepMeasures, rate: Rate) -> TerminalTable:
    headers = ("measure", "with the event", "control", "difference")
    table = TerminalTable(headers, title=words.step_heading(step))
    for row in words.rows(step, rate):
        table.add(row.title, row.value, row.control, row.difference)
    return table
