"""An application's tiers as the report shows them: the share of the store in what users feel."""

from loadframe.analyze.sweep import Tiers
from loadframe.report.numbers import percent_text, seconds_estimate
from loadframe.report.tables import Cell, Table
from loadframe.report.terminal_table import TerminalTable
from loadframe.units import format_count

_WAITING = ("operation", "part", "instances", "response", "of it there", "share")


def _waiting_rows(tiers: Tiers) -> list[list[str]]:
    rows = sorted(tiers.waiting, key=lambda row: (row.operation, row.part, row.nodes or 0))
    return [
        [
            row.operation,
            row.part,
            format_count(row.nodes or 0),
            seconds_estimate(row.response),
            seconds_estimate(row.waited),
            percent_text(row.share),
        ]
        for row in rows
    ]


def waiting_table(tiers: Tiers) -> Table | None:
    """Return the table of the page; None where no application was measured."""
    if not tiers.waiting:
        return None
    return Table(
        _WAITING,
        [[Cell(text) for text in row] for row in _waiting_rows(tiers)],
        names=2,
        note="Means over runs, with 95 % intervals where there are several. The response is what a user feels, by"
        " the generator's clock; what it holds of the part is told by the application in each answer, by its own.",
    )


def waiting_on_terminal(tiers: Tiers) -> TerminalTable | None:
    """Return that of the terminal; None where no application was measured."""
    if not tiers.waiting:
        return None
    table = TerminalTable(_WAITING, names=2, title="What users felt, and what of it the application waited for:")
    for row in _waiting_rows(tiers):
        table.add(*(cell.replace(" [", "\n[", 1) for cell in row))
    return table
