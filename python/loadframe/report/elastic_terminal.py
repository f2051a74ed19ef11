"""An elastic experiment on the terminal: what happened, each measure, what to doubt, which runs were left out."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from loadframe.analyze.elasticity import Elasticity, Step
from loadframe.report import elastic_words
from loadframe.report.fit_terminal import print_findings
from loadframe.report.trust import print_trust


def print_elasticity(found: Elasticity, console: Console) -> None:
    """Print an experiment in brief."""
    description = found.folder.description
    console.print(Text(description.get("question") or description["experiment"], style="bold"))
    for group in found.groups:
        console.print()
        console.print(Text(elastic_words.heading(group), style="bold"))
        for words in elastic_words.lead(group):
            console.print(Text(words))
        for step in group.steps:
            console.print()
            console.print(_measures(step))
        for run, texts in elastic_words.score_rows(group):
            scores = zip(elastic_words.SCORES[1:], texts, strict=True)
            console.print(Text(f"{run}: {', '.join(f'{title} {text}' for title, text in scores)}"))
        print_findings(console, group.warnings)
    console.print()
    print_trust(found.folder, console)


def _measures(step: Step) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", title_justify="left", title_style="dim")
    table.title = Text(elastic_words.step_heading(step))
    table.add_column("measure")
    for header in ("with the event", "control", "difference"):
        table.add_column(header, justify="right")
    for row in elastic_words.rows(step):
        table.add_row(row.title, *(Text(text) for text in (row.value, row.control, row.difference)))
    return table
