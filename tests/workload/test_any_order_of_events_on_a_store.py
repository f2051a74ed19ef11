"""The order of events changes nothing: documents of real stores, from a log in its order and in others."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pymongo
import pytest
from adbids_events import documents, in_text, jumbled, log, write

from commands import result
from documents import login, uri
from loadframe.record import Run
from loadframe.store.cassandra.cql import Connection

pytestmark = pytest.mark.store

DOCUMENTS = 300
#: How many of the events come late: some of them, and all in any order.
LATENESS = (0.2, 1.0)


def hold_in_any_order(name: str, folder: Path, held: Callable[[], dict[str, Any]], *more: str) -> None:
    for seed, late in enumerate(LATENESS):
        events = log(DOCUMENTS, seed)
        path = write(folder / f"{seed}.ndjson", jumbled(events, seed, late=late))
        options = ("--cluster", name, "--replace", "--batch", 20, "--workers", 4, "--output", folder / f"run-{seed}")
        came = result("ingest", "adbids", path, *options, *more)
        assert (came["indexed"], came["left_over"]) == (len(events), 0)
        assert held() == documents(events), f"seed {seed}"


def test_opensearch_with_indices_that_roll_over_and_are_shrunk(node, tmp_path):
    def held() -> dict[str, Any]:
        node.store.request(node.addresses, "POST", "/ads-*/_refresh")
        answer = node.store.request(node.addresses, "POST", "/ads-*/_search?size=1000", {"query": {"match_all": {}}})
        stored = {hit["_id"]: hit["_source"] for hit in answer["hits"]["hits"]}
        assert len(stored) == len(answer["hits"]["hits"])
        return stored

    settings = ("manage_every=10ms", "refresh=10ms", "roll_over_documents=40", "shrink_after=1m", "shards=2")
    more = [word for setting in settings for word in ("--set", setting)]
    hold_in_any_order("shared", tmp_path, held, "--only", "ingest_and_manage", *more)


def test_mongodb(mongodb, tmp_path):
    with pymongo.MongoClient(uri(mongodb)) as client:

        def held() -> dict[str, Any]:
            database, stored = client["loadframe"], dict[str, Any]()
            for day in days_of(client):
                for document in database[day].find():
                    key = document.pop("_id")
                    assert key not in stored
                    stored[key] = in_text(document)
                    assert day == f"ads-{day_of(document).replace('-', '.')}"
                assert database[day].index_information() == database["ads"].index_information() != {}
            shown = list(database["ads-*"].find())
            assert {document.pop("_id"): in_text(document) for document in shown} == stored
            assert len(shown) == len(stored)
            assert database["ads"].count_documents({}) == 0
            return stored

        hold_in_any_order("mongodb", tmp_path, held)


def days_of(client: pymongo.MongoClient[dict[str, Any]]) -> list[str]:
    """Return the collections by day; a log around midnight has two."""
    names = sorted(name for name in client["loadframe"].list_collection_names() if name.startswith("ads-2"))
    assert len(names) == 2
    return names


def day_of(document: dict[str, Any]) -> str:
    """Return the day of a document's bid, from any of its events."""
    first = next(iter(document.values()))
    return str(first.get("bid_time", first["time"]))[:10]


def test_cassandra(cassandra, tmp_path):
    def held() -> dict[str, Any]:
        stored: dict[str, Any] = {}
        with Connection(cassandra.addresses[0], login(cassandra)) as connection:
            assert connection.ask("SELECT id FROM loadframe.ads") == []
            for day in ("2017-03-01", "2017-03-02"):
                table = f"loadframe.ads_{day.replace('-', '_')}"
                for row in connection.ask(f"SELECT id, bid, win, click FROM {table}"):
                    kinds = {kind: row[kind] for kind in ("bid", "win", "click") if row[kind] is not None}
                    document = {kind: json.loads(text) for kind, text in kinds.items()}
                    assert day_of(document) == day
                    assert row["id"] not in stored
                    stored[row["id"]] = document
        return stored

    hold_in_any_order("cassandra", tmp_path, held)


ROUTED = """\
workload: routed
collections: {bids: {}, wins: {}, clicks: {}}
sources:
  log:
    stdin: true
    events:
      kinds: {bid: {id: id, time: time}, win: {id: bid_id, time: bid_time}, click: {id: bid_id, time: bid_time}}
operations:
  bids: {take_in: {collection: bids}}
  wins: {take_in: {collection: wins}}
  clicks: {take_in: {collection: clicks}}
phases:
  - {name: ingest, source: log, route: {bid: bids, win: wins, click: clicks}, until: exhausted}
"""


def test_kinds_of_events_in_their_own_collections(mongodb, tmp_path):
    events = log(DOCUMENTS, seed=3)
    (tmp_path / "routed.yaml").write_text(ROUTED)
    path = write(tmp_path / "log.ndjson", events)
    options = ("--cluster", "mongodb", "--replace", "--batch", 20, "--output", tmp_path / "run")
    came = result("ingest", tmp_path / "routed.yaml", path, *options)
    kinds = Counter(event["type"] for event in events)
    assert (came["indexed_by_kind"], came["left_over"]) == (kinds, 0)
    # Some events are repeated.
    documents_of = {
        kind: {event.get("bid_id") or event["id"] for event in events if event["type"] == kind} for kind in kinds
    }
    unique = {kind: len(ids) for kind, ids in documents_of.items()}
    assert came["documents"] == sum(unique.values())
    with pymongo.MongoClient(uri(mongodb)) as client:
        database = client["loadframe"]
        assert {kind: database[f"{kind}s"].count_documents({}) for kind in kinds} == unique
        assert {kind: database[f"{kind}s"].count_documents({kind: {"$exists": True}}) for kind in kinds} == unique
    stored = Run(Path(came["run"])).summary.stored
    assert {entry.collection: (entry.indexed, sum(entry.events.values())) for entry in stored} == {
        f"{kind}s": (kinds[kind], unique[kind]) for kind in kinds
    }
