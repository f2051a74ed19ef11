"""Indices that roll over, are shrunk and deleted while a stream flows: each event is in the store, once."""

import json
import re
import socket
import time
from typing import Any

import pytest
from adbids_events import documents, jumbled, log, write

from commands import PATIENCE, Running, result
from loadframe.cluster import Cluster
from loadframe.record import Run

pytestmark = pytest.mark.store

SETTINGS = ("shards=2", "refresh=100ms", "manage_every=50ms", "translog=request")


def held(node: Cluster, name: str = "ads-*") -> dict[str, list[tuple[str, dict[str, Any]]]]:
    """Return the documents that a name finds, by id: their indices and contents."""
    node.store.request(node.addresses, "POST", f"/{name}/_refresh")
    stored: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    for index in node.store.request(node.addresses, "GET", f"/{name}/_settings"):
        answer = node.store.request(
            node.addresses, "POST", f"/{index}/_search?size=10000", {"query": {"match_all": {}}}
        )
        for hit in answer["hits"]["hits"]:
            stored.setdefault(hit["_id"], []).append((index, hit["_source"]))
    return stored


def ingest(phase: str, path: Any, folder: Any, *settings: str, status: int = 0) -> dict[str, Any]:
    words = [word for setting in (*SETTINGS, *settings) for word in ("--set", setting)]
    options = ("--cluster", "shared", "--replace", "--only", phase, "--batch", 100, "--output", folder)
    return result("ingest", "adbids", path, *options, *words, status=status)


def wait_for_indices(node: Cluster, number: int) -> None:
    """Wait until the stream has `number` indices."""
    end = time.monotonic() + PATIENCE
    while len(node.store.request(node.addresses, "GET", "/ads-*/_settings")) < number:
        assert time.monotonic() < end
        time.sleep(0.1)


def parts(folder: Any, operation: str) -> dict[str, int]:
    """Return the number of checks, rollovers, shrinks and deletions of the indices."""
    summary = Run(folder).raw_summary["phases"][-1]["operations"][operation]
    assert summary["errors"] == {}, summary
    return {part: figures["successes"] for part, figures in summary["parts"].items()}


def test_while_indices_roll_over_and_are_shrunk_no_event_is_lost_and_none_is_there_twice(node, tmp_path):
    events = jumbled(log(5000, seed=1), seed=2)
    path, folder = write(tmp_path / "log.ndjson", events), tmp_path / "run"
    conditions = ("roll_over_documents=500", "shrink_after=5m", "keep=30d")
    came = ingest("ingest_and_manage", path, folder, *conditions)
    right = documents(events)
    assert (came["accepted"], came["indexed"], came["left_over"]) == (len(events), len(events), 0)
    assert (came["dead_letters"], came["documents"]) == (0, len(right))
    done = parts(folder, "manage")
    assert done["roll_over"] >= 2
    assert done["shrink"] >= 1
    stored = held(node)
    assert {key: [document for _, document in pieces] for key, pieces in stored.items()} == {
        key: [document] for key, document in right.items()
    }
    assert held(node, "ad_data") == stored, "the alias returns each document once"
    indices = node.store.request(node.addresses, "GET", "/ads-*?flat_settings=true")
    assert len(indices) == done["roll_over"] + 2, "two days"
    shrunk = {name: index for name, index in indices.items() if name.startswith("shrunk-")}
    assert len(shrunk) == done["shrink"]
    for name, index in indices.items():
        assert index["settings"].get("index.blocks.write") is None
        assert index["settings"]["index.number_of_replicas"] == "0"
        assert index["settings"]["index.number_of_shards"] == ("1" if name in shrunk else "2")
    for name, index in shrunk.items():
        assert set(index["aliases"]) == {"ad_data", name.removeprefix("shrunk-")}
        assert index["settings"]["index.codec"] == "best_compression"
        assert index["settings"]["index.refresh_interval"] == "100ms"

    # Another process, which has only the names of the indices, puts late events where their documents are.
    late = [
        {"type": "click", "bid_id": key, "bid_time": document["bid"]["time"], "time": document["bid"]["time"]}
        for key, document in right.items()
        if "bid" in document and "click" not in document
    ]
    options = ("--cluster", "shared", "--reuse", "--only", "ingest", "--output", tmp_path / "late")
    came = result("ingest", "adbids", write(tmp_path / "late.ndjson", late), *options)
    assert (came["indexed"], came["documents"]) == (len(late), len(right))
    assert {key: len(pieces) for key, pieces in held(node).items()} == dict.fromkeys(right, 1)


def test_documents_are_split_where_events_go_to_the_index_of_their_arrival(node, tmp_path):
    # Wins and clicks of half of the bids come only when the indices have rolled over.
    events = jumbled(log(2000, seed=3), seed=4, late=0.5)
    halves = events[: len(events) // 2], events[len(events) // 2 :]
    folder = tmp_path / "run"
    # No line arrives while an index rolls over.
    words = ("ingest", "adbids", "--listen", "127.0.0.1:0", "--idle", "20s", "--cluster", "shared", "--replace")
    settings = [
        word for setting in (*SETTINGS, "daily=arrival", "roll_over_documents=300") for word in ("--set", setting)
    ]
    options = ("--only", "ingest_and_roll_over", "--batch", 100, "--output", folder, "--json", *settings)
    with Running(*words, *options, folder=tmp_path) as command:
        command.wait_for("ads listens at 127.0.0.1:")
        port = int(re.search(r"listens at 127\.0\.0\.1:(\d+)", command.stderr)[1])
        with socket.create_connection(("127.0.0.1", port)) as sending:
            sending.sendall(write(tmp_path / "first.ndjson", halves[0]).read_bytes())
            wait_for_indices(node, 2)
            sending.sendall(write(tmp_path / "second.ndjson", halves[1]).read_bytes())
        assert command.process.wait(PATIENCE) == 0, command.stderr
    came = json.loads((tmp_path / "stdout.txt").read_text())
    assert came["indexed"] == len(events)
    assert parts(folder, "roll_over")["roll_over"] >= 1
    right, stored = documents(events), held(node)
    split = {key for key, pieces in stored.items() if len(pieces) > 1}
    assert split
    assert came["documents"] == sum(map(len, stored.values())) > len(right)
    pieces = sum("bid" not in piece for all_of_it in stored.values() for _, piece in all_of_it)
    words = ("--cluster", "shared", "--reuse", "--set", "daily=arrival", "--output", tmp_path / "split")
    result("bench", "adbids/split", *words)
    counted = Run(tmp_path / "split").raw_summary["phases"][-1]["operations"]["pieces"]["documents"]
    assert counted == pieces


def test_an_event_for_a_day_that_was_deleted_is_a_dead_letter(node, tmp_path):
    # The events of the first day come again after the second day has aged them.
    events = log(2000, seed=5, hours=30)
    first = [event for event in events if event.get("bid_time", event["time"]) < "2017-03-02"]
    path, folder = write(tmp_path / "log.ndjson", [*events, *first]), tmp_path / "run"
    came = ingest("ingest_and_manage", path, folder, "keep=1h", "shrink_to=2", status=1)
    assert parts(folder, "manage")["delete"] >= 1
    assert came["accepted"] == came["indexed"] + came["dead_letters_by_reason"]["refused"]
    letters = (folder / Run(folder).summary.phases[-1].sources["ads"].kept).read_text().splitlines()
    reasons = [json.loads(letter)["reason"] for letter in letters]
    # Documents that were under way when the day was deleted are refused by the store itself.
    assert all("the day of its document was deleted" in reason or "no such index" in reason for reason in reasons)
    assert any("the day of its document was deleted" in reason for reason in reasons)
    of_second = {key for key, document in documents(events).items() if key not in documents(first)}
    assert set(held(node)) == of_second
