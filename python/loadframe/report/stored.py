"""The events of sources that are in the store when a run is over, and those that are missing, as reports show them."""

from collections.abc import Sequence

from loadframe.analyze.stored import EventsOfRun
from loadframe.base.units import format_count
from loadframe.record.schema.source import StoredEvents
from loadframe.report.labels import seconds_text, treatment_text
from loadframe.report.tables import Cell, Table
from loadframe.report.terminal_table import TerminalTable

TITLE = "Events in the store"
_NOTE = (
    "Counted in the store after the last phase, less what was there before the first. Missing are events that the store"
    " acknowledged and that are not there; where events may come twice, the same one may have been counted twice. At"
    " risk is for how long the missing ones had come: their number by the mean rate until the node was killed. A kill"
    " ends a process, and what it had given to the operating system stays: a machine that loses its power may lose"
    " more."
)


def stored_text(stored: StoredEvents) -> str:
    """Write what a collection has of a run's events: `ads-*: 1,096 events in 996 documents, all that ...`."""
    kinds = ", ".join(f"{format_count(count)} {kind}" for kind, count in stored.events.items())
    words = f"{stored.collection}: {format_count(sum(stored.events.values()))} events in the store ({kinds})"
    words += f", {format_count(stored.documents)} documents"
    if not stored.missing:
        return f"{words}; every event that was acknowledged is there"
    more = "" if stored.unique else ", or the same events came twice"
    return f"{words}; {format_count(stored.missing)} that were acknowledged are missing{more}"


def experiment_stored(rows: Sequence[EventsOfRun]) -> Table | None:
    """Return what the store has of the events of each run; None where no run took any in."""
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
    """Return the same for the terminal."""
    table = TerminalTable(("run", "acknowledged", "in the store", "missing", "at risk"), title=f"{TITLE}:")
    for row in rows:
        counts = (row.stored.indexed, sum(row.stored.events.values()), row.stored.missing)
        table.add(row.run, *map(format_count, counts), _seconds(row))
    return table


def _count(count: int | None) -> str:
    return "–" if count is None else format_count(count)


def _seconds(row: EventsOfRun) -> str:
    return "–" if row.at_risk is None else seconds_text(row.at_risk) if row.at_risk else "0 s"
