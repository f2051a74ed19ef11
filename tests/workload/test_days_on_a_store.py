"""Collections by day on stores without templates: concurrent creation, and ageing."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pymongo
import pytest
from adbids_events import MIDNIGHT, documents, in_text, instant, log, write

from commands import result
from documents import login, uri
from loadframe.cluster import Cluster
from loadframe.record import Run
from loadframe.store.cassandra.cql import Connection

pytestmark = pytest.mark.store


@pytest.fixture
def database(mongodb: Cluster) -> Iterator[Any]:
    with pymongo.MongoClient(uri(mongodb)) as client:
        yield client["loadframe"]


def ingest(path: Path, folder: Path, *words: object, store: str = "mongodb", status: int = 0) -> dict[str, Any]:
    options = ("--cluster", store, "--output", folder)
    came: dict[str, Any] = result("ingest", "adbids", path, *options, *words, status=status)
    return came


def held(database: Any) -> dict[str, list[dict[str, Any]]]:
    """Return the documents of all days by the id of the bid."""
    shown: dict[str, list[dict[str, Any]]] = {}
    for document in database["ads-*"].find():
        shown.setdefault(document.pop("_id"), []).append(in_text(document))
    return shown


def test_processes_that_make_the_same_days_at_once_lose_no_event(database, tmp_path):
    ingest(write(tmp_path / "none.ndjson", log(1, seed=1)), tmp_path / "run", "--replace")
    events = [
        {"type": "bid", "id": f"{day}-{number}", "time": instant(MIDNIGHT + timedelta(days=day))}
        for number in range(100)
        for day in range(4)
    ]
    halves = [write(tmp_path / f"{half}.ndjson", events[half::2]) for half in range(2)]
    with ThreadPoolExecutor() as several:
        came = several.map(lambda path: ingest(path, tmp_path / f"run-{path.stem}", "--reuse"), halves)
        assert sum(said["indexed"] for said in came) == len(events)
    shown = held(database)
    assert {event["id"]: [{"bid": event}] for event in events}.items() <= shown.items()
    indexes = [database[name].index_information() for name in database.list_collection_names() if "ads-2" in name]
    assert len(indexes) == 5
    assert all(one == database["ads"].index_information() for one in indexes)


def test_a_question_to_all_days_uses_their_indexes(database, tmp_path):
    events = log(100, seed=2)
    ingest(write(tmp_path / "log.ndjson", events), tmp_path / "run", "--replace")
    assert held(database) == {key: [document] for key, document in documents(events).items()}
    asked = {"aggregate": "ads-*", "pipeline": [{"$match": {"bid.campaign_id": 3}}], "cursor": {}}
    plan = json.dumps(database.command("explain", asked, verbosity="queryPlanner"), default=str)
    assert plan.count('"IXSCAN"') >= 2
    assert "bid.campaign_id_1_bid.time_1" in plan


def test_where_events_go_to_the_day_of_their_arrival_documents_are_split(database, tmp_path):
    came = ingest(
        write(tmp_path / "log.ndjson", log(100, seed=3)), tmp_path / "run", "--replace", "--set", "daily=arrival"
    )
    (day,) = (name for name in database.list_collection_names() if name.startswith("ads-2"))
    assert day > "ads-2017.03.02"
    assert came["documents"] == database[day].count_documents({}) == len(documents(log(100, seed=3)))


def age_and_come_late(store: str, folder: Path) -> dict[str, Any]:
    """Let the second day age the first, then send the first day's events again; return the second day's documents."""
    events = log(2000, seed=5, hours=30)
    first = [event for event in events if event.get("bid_time", event["time"]) < "2017-03-02"]
    path, run = write(folder / "log.ndjson", [*events, *first]), folder / "run"
    options = ("--only", "ingest_and_manage", "--batch", 100, "--set", "manage_every=20ms", "--set", "keep=1h")
    came = ingest(path, run, "--replace", *options, store=store, status=1)
    phase = Run(run).raw_summary["phases"][-1]
    assert phase["operations"]["manage"]["errors"] == {}
    assert phase["operations"]["manage"]["parts"]["delete"]["successes"] == 1
    assert came["dead_letters_by_reason"].keys() == {"refused"}
    assert came["accepted"] == came["indexed"] + came["dead_letters"]
    letters = (run / Run(run).summary.phases[-1].sources["ads"].kept).read_text().splitlines()
    assert {json.loads(letter)["reason"] for letter in letters} == {"refused: the day of its document was deleted"}
    of_second = {key: document for key, document in documents(events).items() if key not in documents(first)}
    assert came["documents"] == len(of_second)
    return of_second


def test_on_mongodb_an_event_for_a_day_that_was_deleted_is_a_dead_letter(database, tmp_path):
    of_second = age_and_come_late("mongodb", tmp_path)
    assert held(database) == {key: [document] for key, document in of_second.items()}
    assert [name for name in database.list_collection_names() if name.startswith("ads-2")] == ["ads-2017.03.02"]


def test_on_cassandra_an_event_for_a_day_that_was_deleted_is_a_dead_letter(cassandra, tmp_path):
    of_second = age_and_come_late("cassandra", tmp_path)
    with Connection(cassandra.addresses[0], login(cassandra)) as connection:
        tables = connection.ask("SELECT table_name FROM system_schema.tables WHERE keyspace_name = 'loadframe'")
        rows = connection.ask("SELECT id FROM loadframe.ads_2017_03_02")
    assert {row["table_name"] for row in tables} == {"ads", "ads_2017_03_02"}
    assert {row["id"] for row in rows} == of_second.keys()
