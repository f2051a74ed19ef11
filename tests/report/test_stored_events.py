"""The table of events in the store after each run of an experiment."""

from loadframe.analyze.executions import EventsOfRun
from loadframe.record.schema.figures import StoredEvents
from loadframe.report.sections import experiment_stored, experiment_stored_on_terminal
from loadframe.report.tables import Table


def row(collection="events", *, unique=True, usable=True, before=0):
    """Return a run with 100 acknowledged events, of which the store has 97."""
    stored = StoredEvents(
        collection=collection, documents=97, events={"order": 97}, indexed=100, unique=unique, before=before
    )
    return EventsOfRun("b1", {}, usable, stored, None)


def texts(table: Table, column: str) -> list[tuple[str, str]]:
    """Return text and small text of each cell of a column."""
    place = list(table.columns).index(column)
    return [(cells[place].text, cells[place].small) for cells in table.rows]


def test_missing_events_that_the_store_may_not_have_lost_say_so():
    rows = [row(), row(unique=False), row(unique=False, before=7)]
    table = experiment_stored(rows)
    labels = ["", "missing or duplicate", "missing or stored before"]
    assert texts(table, "missing") == [("3", label) for label in labels]
    shown = [cells[3].plain for cells, _ in experiment_stored_on_terminal(rows)._rows]
    assert shown == ["3", *(f"3\n{label}" for label in labels[1:])]


def test_rows_of_several_collections_name_theirs():
    rows = [row("clicks"), row("views", usable=False)]
    assert texts(experiment_stored(rows), "run") == [("b1", "clicks"), ("b1", "views, not valid")]
    assert texts(experiment_stored([row(usable=False)]), "run") == [("b1", "not valid")]
