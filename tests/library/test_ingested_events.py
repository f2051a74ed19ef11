"""The result of an ingestion: whether it raises for events that the store acknowledged and then lost."""

from types import SimpleNamespace

import pytest

from loadframe.base.errors import LoadframeError
from loadframe.library.ingest import Ingested, require_stored
from loadframe.record.schema.figures import SourceFigures, StoredEvents


def ingested(*, unique, added):
    """Return the result of 100 acknowledged events, of which the store has `added`."""
    stored = StoredEvents(
        collection="events", documents=added, events={"order": added}, indexed=100, unique=unique, before=0
    )
    result = Ingested.__new__(Ingested)
    result._result = SimpleNamespace(
        figures=SourceFigures(lines=100, accepted=100, indexed=100), run="results/r", stored=(stored,)
    )
    return result


def test_acknowledged_events_that_the_store_lost_are_an_error():
    with pytest.raises(LoadframeError, match="the store lost 3 acknowledged events"):
        ingested(unique=True, added=97).require()


def test_an_ingestion_without_a_stored_event_is_an_error():
    result = ingested(unique=True, added=0)
    for figures in [
        SourceFigures(lines=3, accepted=0, indexed=0, **more)
        for more in ({"dead_letters": {"not JSON": 3}}, {"dropped": 3})
    ]:
        result._result.figures = figures
        with pytest.raises(LoadframeError, match="no event was stored: none of 3 lines"):
            result.require()


def test_a_port_without_lines_names_the_parameters_of_ingest():
    result = ingested(unique=True, added=0)
    result._result.figures = SourceFigures(lines=0, accepted=0, indexed=0, address="127.0.0.1:5000")
    with pytest.raises(LoadframeError, match="no line arrived") as caught:
        result.require()
    assert "add wait 10m: idle and duration then" in caught.value.remedy
    with pytest.raises(LoadframeError) as caught:
        require_stored(result._result)
    assert "add --wait 10m: --idle and --for then" in caught.value.remedy


def test_events_that_may_be_duplicates_are_not_an_error():
    ingested(unique=False, added=97).require()
    ingested(unique=True, added=100).require()
