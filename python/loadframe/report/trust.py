"""Runs of an experiment and their verdicts, for pages and for the terminal."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from loadframe.analyze.experiment import RecordedExperiment
from loadframe.base.units import counted
from loadframe.report.run_status import Exclusion, exclusions, trust
from loadframe.report.tables import Table, runs_table

#: Bounded runs that the terminal names for one reason.
_SHOWN = 3


@dataclass(frozen=True)
class RunsView:
    """Runs and verdicts of an experiment, for the macro `verdicts` in `parts.html.j2`."""

    trust: str
    exclusions: list[Exclusion]
    not_judged: Mapping[str, int]
    left_out: Table | None
    runs: Table


def runs_view(folder: RecordedExperiment) -> RunsView:
    """Return the runs and verdicts of an experiment for its page."""
    factors = list(dict.fromkeys(name for run in folder.runs for name in run.treatment))
    return RunsView(
        trust=trust(folder),
        exclusions=exclusions(folder),
        not_judged=Counter(words for run in folder.runs for words in (run.verdict.not_judged if run.verdict else ())),
        left_out=runs_table(folder.left_out, factors) if folder.left_out else None,
        runs=runs_table(folder.runs, factors),
    )


def print_trust(folder: RecordedExperiment, console: Console) -> None:
    """Print how many runs the figures use, and why other runs are left out or bounded."""
    console.print(Text(trust(folder), style="yellow" if folder.left_out else "green"))
    grid = Grid.grid(padding=(0, 1, 0, 0))
    named = {run.id for run in (*folder.left_out, *folder.faulty, *folder.attempts)}
    for group in exclusions(folder):
        count = counted(len(group.runs), "run")
        # Runs that are left out must have their names in every report. Bounded runs may be many.
        shown = group.runs if named.intersection(group.runs) else group.runs[:_SHOWN]
        more = len(group.runs) - len(shown)
        names = ", ".join(shown) + (f" and {more} more" if more else "")
        grid.add_row("!", f"{count}: {names}", style="yellow")
        grid.add_row("", Text(group.cause))
        grid.add_row("", Text(group.remedy, style="dim"))
    if grid.row_count:
        console.print(grid)
