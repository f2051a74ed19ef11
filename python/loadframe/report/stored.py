"""Tables of events found in the store after a run, and of missing events."""

from collections.abc import Sequence

from loadframe.analyze.stored import EventsOfRun
from loadframe.base.units import counted, format_count
from loadframe.record.schema.source import StoredEvents
from loadframe.report.labels import seconds_text, treatment_text
from loadframe.report.tables import Cell, Table
from loadframe.report.terminal_table import TerminalTable

TITLE = "Events in the store"
_NOTE = (
    "Events counted in the store after the last phase, minus those before the first. Missing: acknowledged events that"
    " are not in the store; duplicates may hide some. At risk: missing events divided by the mean rate until the kill,"
    " s. A kill ends a process, but keeps the data in the operating system's cache: a power failure may lose more."
)


def stored_text(stored: StoredEvents) -> str:
    """Write the events and documents of a collection, and how many acknowledged events are missing."""
    kinds = ", ".join(f"{format_count(count)} {kind}" for kind, count in stored.events.items())
    words = f"{stored.collection}: {format_count(sum(stored.events.values()))} events in the store ({kinds})"
    words += f", {format_count(stored.documents)} documents"
    if not stored.missing:
        return f"{words}; no acknowledged event is missing"
    more = "" if stored.unique else " (or were duplicates)"
    return f"{words}; {counted(stored.missing, 'acknowledged event')} missing{more}"


def experiment_stored(rows: Sequence[EventsOfRun]) -> Table | None:
    """Return the events in the store after each run; None if no run ingested any."""
    if not rows:
        return None
    cells = [
        [
            Cell(row.run, "" if row.usable else "not valid"),
            Cell(treatment_text(row.treatment)),
            Cell(format_count(row.stored.indexed)),
            Cell(format_count(sum(row.stored.events.values()))),
            Cell(format_count(row.stored.documents)),
            Cell(format_count(row.stored.missing), tone="invalid" if row.stored.missing else ""),
            Cell(_count(row.stored.acknowledged_at_kill)),
            Cell(_seconds(row)),
        ]
        for row in rows
    ]
    columns = ("run", "treatment", "acknowledged", "in the store", "documents", "missing", "before the kill", "at risk")
    return Table(columns, cells, names=2, note=_NOTE)


def experiment_stored_on_terminal(rows: Sequence[EventsOfRun]) -> TerminalTable:
    """Return the counts of `experiment_stored` for the terminal."""
    table = TerminalTable(("run", "acknowledged", "in the store", "missing", "at risk"), title=f"{TITLE}:")
    for row in rows:
        counts = (row.stored.indexed, sum(row.stored.events.values()), row.stored.missing)
        table.add(row.run, *map(format_count, counts), _seconds(row))
    return table


def _count(count: int | None) -> str:
    return "–" if count is None else format_count(count)


def _seconds(row: EventsOfRun) -> str:
    return "–" if row.at_risk is None else seconds_text(row.at_risk) if row.at_risk else "0 s"
