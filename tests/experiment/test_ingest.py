"""Selection of the phase that ingests events, its handling of external events, and the files of its sources."""

import bz2
import gzip
import json
import random
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

from commands import connected
from loadframe.base.errors import BadInput
from loadframe.experiment.runner import document_counts, ingest
from loadframe.experiment.runner.document_counts import EventCount
from loadframe.experiment.runner.ingest import FirstEvents, ingest_phase, ingest_result, with_feed
from loadframe.experiment.runner.listener import Listener
from loadframe.record.schema.figures import Latency, PartFigures, SourceFigures, StoredEvents
from loadframe.workload import load_workload
from loadframe.workload.sources import Feed
from made_up_runs import operation, phase
from own_servers import free_port

WORKLOAD = """\
workload: w
sources:
  ads: {{{way}, batch: 7, events: {{type: type, kinds: {{bid: {{id: id, time: time}}}}}}}}
operations:
  take_in: {{take_in: {{collection: ads, daily: event}}}}
  look: {{count: {{collection: ads}}}}
collections: {{ads: {{}}}}
phases:
  - {phase}
  - {{name: look, operation: look, clients: 1, requests: 1}}
"""
ALONE = "{name: filling, operation: take_in, source: ads, duration: 60s}"
WITH_QUERIES = """{name: busy, duration: 60s, streams: [{operation: take_in, source: ads},
      {operation: look, rate: 5}]}"""


def workload(folder, *, way="listen: 127.0.0.1:5000, idle: 3s", phase=ALONE):
    path = folder / "w.yaml"
    path.write_text(WORKLOAD.format(way=way, phase=phase))
    return load_workload(str(path))


def plan(folder, feed, *, workers=None, duration=None, **parts):
    loaded = workload(folder, **parts)
    fed = with_feed(
        loaded.for_family("elasticsearch", 1).phase(ingest_phase(loaded, None)),
        feed,
        workers=workers,
        duration=duration,
    )
    return fed.plan(seed=1, hosts=["a:1"], driver="search")


def test_files_take_the_place_of_a_port_and_end_the_phase(tmp_path):
    made = plan(tmp_path, Feed(files=(Path("/a.ndjson"), Path("/b.gz"))), workers=9)
    source = made["sources"]["ads"]
    assert source["files"] == ["/a.ndjson", "/b.gz"]
    assert source.keys().isdisjoint({"listen", "idle"})
    assert source["batch"] == 7
    (stream,) = made["streams"]
    assert (stream["stop"], stream["pacing"]["source"]["workers"]) == ("exhausted", 9)


def test_a_port_takes_the_place_of_files_and_keeps_a_certificate(tmp_path):
    (tmp_path / "c.pem").write_text("PEM")
    listen = "listen: {address: 'a:1', certificate: c.pem, key: c.pem}"
    made = plan(tmp_path, Feed(listen="127.0.0.1:0", idle=5.0, batch=9, flush=0.1), duration=4.0, way=listen)
    source = made["sources"]["ads"]
    secret = str(tmp_path / "c.pem")
    assert source["listen"] == {"address": "127.0.0.1:0", "certificate": secret, "key": secret}
    assert (source["idle"], source["batch"], source["flush"]) == (5.0, 9, 0.1)
    assert made["streams"][0]["stop"] == {"duration": 4.0}


@pytest.mark.parametrize("option", ["idle", "spill"])
@pytest.mark.parametrize("way", ["files: [e.ndjson]", "generate: {generator: adbids, rate: 5}", None])
def test_a_source_with_an_end_of_its_own_has_no_idle_time_and_no_spill(tmp_path, option, way):
    (tmp_path / "e.ndjson").write_text("{}\n")
    feed = Feed(**{option: 5}) if way else Feed(files=(Path("/a.ndjson"),), **{option: 5})
    with pytest.raises(BadInput, match=f"--{option} requires events from a port or standard input; got "):
        plan(tmp_path, feed, way=way or "stdin: true")


def test_only_senders_to_a_port_are_acknowledged(tmp_path):
    assert plan(tmp_path, Feed(acknowledge=True))["sources"]["ads"]["acknowledge"] is True
    way = "listen: 127.0.0.1:5000, acknowledge: true"
    assert plan(tmp_path, Feed(listen="127.0.0.1:0"), way=way)["sources"]["ads"]["acknowledge"] is True
    assert "acknowledge" not in plan(tmp_path, Feed(stdin=True), way=way)["sources"]["ads"]
    with pytest.raises(BadInput, match="--acknowledge requires --listen"):
        plan(tmp_path, Feed(stdin=True, acknowledge=True))


def test_a_wait_for_the_first_line_requires_a_named_port(tmp_path):
    assert plan(tmp_path, Feed(listen="127.0.0.1:5000", wait=9.0))["sources"]["ads"]["wait"] == 9.0
    with pytest.raises(BadInput, match="wait requires a fixed port"):
        plan(tmp_path, Feed(listen="127.0.0.1:0", wait=9.0))
    with pytest.raises(BadInput, match="--wait requires --listen"):
        plan(tmp_path, Feed(stdin=True, wait=9.0))


def test_spilling_follows_the_kind_of_source(tmp_path):
    def spill(feed, way="listen: 127.0.0.1:5000, spill: 5m"):
        return plan(tmp_path, feed, way=way)["sources"]["ads"].get("spill")

    assert spill(Feed(listen="127.0.0.1:0")) == 5 << 20, "the workload's own"
    assert spill(Feed(listen="127.0.0.1:0"), way="stdin: true") == 1 << 30
    assert spill(Feed(stdin=True)) is None
    assert spill(Feed(files=(Path("/a.ndjson"),))) is None
    assert spill(Feed(listen="127.0.0.1:0", spill=0)) is None
    assert spill(Feed(stdin=True, spill=7)) == 7
    with pytest.raises(BadInput, match="requires events from a port or standard input"):
        spill(Feed(files=(Path("/a.ndjson"),), spill=7))


EVENT = b'{"type": "bid", "id": "a", "time": 1}\n'
JUNK = b"no JSON\n{}\n"


def first_events(folder, feed):
    """Return the wait for events, and the port of a feed that listens."""
    loaded = workload(folder)
    return FirstEvents([with_feed(loaded.for_family("elasticsearch", 1).phase("filling"), feed, workers=None,
                                  duration=None)], Listener())  # fmt: skip


def zstd(content):
    """Return the content as a file of zstd."""
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(content)
    return sink.getvalue().to_pybytes()


def compressed(name, content):
    ways = {".gz": gzip.compress, ".bz2": bz2.compress, ".zst": zstd}
    return ways.get(Path(name).suffix, bytes)(content)


@pytest.mark.parametrize("name", ["e.ndjson", "e.gz", "e.bz2", "e.zst"])
def test_files_without_an_event_hold_a_drop_back(tmp_path, name):
    (tmp_path / "empty").touch()
    feed = Feed(files=(tmp_path / "empty", tmp_path / name))
    for content in (b"", JUNK):
        (tmp_path / name).write_bytes(compressed(name, content))
        with pytest.raises(BadInput, match=r"no line of .*e\..* is an event"):
            first_events(tmp_path, feed).wait()
    (tmp_path / name).write_bytes(compressed(name, JUNK + EVENT))
    first_events(tmp_path, feed).wait()


@pytest.mark.parametrize("name", ["e.gz", "e.bz2"])
def test_a_damaged_file_holds_a_drop_back(tmp_path, name):
    (tmp_path / "whole.ndjson").write_bytes(EVENT)
    feed = Feed(files=(tmp_path / "whole.ndjson", tmp_path / name))
    path, content = tmp_path / name, compressed(name, EVENT * 3)
    for damaged in (content[:-6], b"no event" + content):
        path.write_bytes(damaged)
        with pytest.raises(BadInput, match=r"e\..*: cannot be read beyond line [03]: ") as caught:
            first_events(tmp_path, feed).wait()
        assert "nothing was dropped" in caught.value.remedy
    path.write_bytes(content)
    first_events(tmp_path, feed).wait()


def test_a_large_file_is_read_up_to_its_first_event(tmp_path):
    # Longer than the limit, in bytes that do not compress.
    content = gzip.compress(EVENT + random.Random(1).randbytes(17 << 20), 1)
    (tmp_path / "e.gz").write_bytes(content[:-6])
    first_events(tmp_path, Feed(files=(tmp_path / "e.gz",))).wait()


def of_standard_input(folder, patience, **way):
    """Start a process that waits for an event at its standard input, up to `patience` s."""
    loaded = workload(folder)
    source = with_feed(loaded.for_family("elasticsearch", 1).phase("filling"), Feed(stdin=True), workers=None,
                       duration=None).sources["ads"]  # fmt: skip
    code = "import json, sys; from loadframe.load import FirstEvent as F; F('p', json.loads(sys.argv[1])).wait("
    words = [sys.executable, "-c", f"{code}{patience})", json.dumps(source)]
    return subprocess.Popen(words, stderr=subprocess.PIPE, text=True, **way)


#: More than a pipe or the buffer of a socket holds.
MUCH = JUNK * 150_000
LONG = EVENT.replace(b'"a"', b'"a", "more": "' + b"x" * 500_000 + b'"')


@pytest.mark.parametrize(
    ("content", "has_event"),
    [(b"", False), (JUNK, False), (JUNK + EVENT, True), (EVENT[:-1], True), (MUCH + EVENT, True), (LONG, True)],
)
@pytest.mark.parametrize("piped", [True, False])
def test_standard_input_without_an_event_holds_a_drop_back(tmp_path, content, has_event, piped):
    (tmp_path / "in").write_bytes(content)
    with (tmp_path / "in").open("rb") as file:
        process = of_standard_input(tmp_path, 60, stdin=subprocess.PIPE if piped else file)
    if piped:
        with suppress(BrokenPipeError), process.stdin.buffer as pipe:
            pipe.write(content)
        process.stdin = None
    errors = process.communicate(timeout=60)[1]
    assert (process.returncode == 0, "no line of standard input is an event" in errors) == (has_event, not has_event), (
        errors
    )


@pytest.mark.parametrize("late", [True, False])
def test_an_event_that_comes_late_at_standard_input_is_awaited(tmp_path, late):
    sender, receiver = socket.socketpair()
    with sender, receiver, of_standard_input(tmp_path, 60 if late else 0.1, stdin=receiver) as process:
        sender.sendall(JUNK)
        if late:
            sender.sendall(EVENT)
        errors = process.communicate(timeout=60)[1]
    too_late = "no event arrived at standard input within 0.1 s" in errors
    assert (process.returncode == 0, too_late) == (late, not late), errors


def test_connections_without_an_event_hold_a_drop_back(tmp_path):
    port = free_port()
    feed = Feed(listen=f"127.0.0.1:{port}", wait=1.0)
    first = first_events(tmp_path, feed)
    with pytest.raises(BadInput, match="no line arrived at"):
        first.wait()

    def scan():
        with connected(port), connected(port) as web:
            web.sendall(b"GET / HTTP/1.1\r\n\r\n")
            web.recv(1)

    scanner = threading.Thread(target=scan)
    scanner.start()
    with pytest.raises(BadInput, match="no event arrived at"):
        first.wait()
    scanner.join(60)
    first = first_events(tmp_path, Feed(listen=f"127.0.0.1:{port}", wait=60.0))
    sender = threading.Thread(target=lambda: ways.append(connected(port)) or ways[0].sendall(MUCH + LONG))
    ways: list[socket.socket] = []
    sender.start()
    first.wait()
    first.close()
    sender.join(60)
    ways[0].close()
    with pytest.raises(BadInput, match="--replace requires a fixed port"):
        first_events(tmp_path, Feed(listen="127.0.0.1:0")).wait()


def test_standard_input_is_not_replayed(tmp_path):
    (tmp_path / "e.ndjson").write_text("{}\n")
    way = "files: [e.ndjson], replay: {time: time}"
    source = plan(tmp_path, Feed(stdin=True), way=way)["sources"]["ads"]
    assert source["stdin"] is True
    assert source.keys().isdisjoint({"files", "replay"})


def test_without_a_feed_the_source_is_the_workloads_own(tmp_path):
    source = plan(tmp_path, Feed())["sources"]["ads"]
    assert (source["listen"], source["idle"]) == ({"address": "127.0.0.1:5000"}, 3.0)


def test_queries_beside_the_events_end_with_them(tmp_path):
    made = plan(tmp_path, Feed(stdin=True), phase=WITH_QUERIES)
    assert [stream["stop"] for stream in made["streams"]] == ["exhausted", "ended"]
    assert made["ends_with"] == ["take_in"]
    timed = plan(tmp_path, Feed(stdin=True), phase=WITH_QUERIES, duration=9.0)
    assert [stream["stop"] for stream in timed["streams"]] == [{"duration": 9.0}, {"duration": 9.0}]


def test_a_workload_without_events_is_refused():
    with pytest.raises(BadInput, match="nyc_taxis lacks a source of events"):
        ingest_phase(load_workload("nyc_taxis"), None)


def test_a_phase_that_takes_no_events_in_is_refused(tmp_path):
    with pytest.raises(BadInput, match="no phase 'look' with a source") as caught:
        ingest_phase(workload(tmp_path), "look")
    assert caught.value.remedy is not None
    assert "filling" in caught.value.remedy


@pytest.mark.parametrize("address", ["5000", "127.0.0.1", "127.0.0.1:http"])
def test_invalid_addresses_are_refused(address):
    with pytest.raises(BadInput, match="not an address to listen on") as caught:
        Feed(listen=address).check()
    assert caught.value.where == "--listen"


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(BadInput, match="does not exist"):
        Feed(files=(tmp_path / "gone.ndjson",)).check()


def test_outcome_is_available_to_programs():
    figures = SourceFigures(
        lines=12,
        accepted=10,
        indexed=9,
        left_over=1,
        dead_letters={"no id": 2},
        kinds={"bid": 6, "win": 3},
        spilled_events=4,
        spilled_bytes=500,
        most_spilled_bytes=300,
        held_back=False,
        trouble=("a full disk",),
        connections=3,
        bytes=99,
    )
    last = phase("filling", {"take_in": operation(1.0)}, sources={"ads": figures}, warmup=0.0, duration=3.0)
    assert ingest_result([last], 5, "results/r").as_dict() == {
        "source": "ads",
        "lines": 12,
        "dropped": 0,
        "accepted": 10,
        "indexed": 9,
        "documents": 5,
        "collections": {},
        "dead_letters": 2,
        "dead_letters_by_reason": {"no id": 2},
        "left_over": 1,
        "indexed_by_kind": {"bid": 6, "win": 3},
        "spilled_events": 4,
        "spilled_bytes": 500,
        "most_spilled_bytes": 300,
        "held_back": False,
        "buffer_full": None,
        "unread_share": None,
        "trouble": ["a full disk"],
        "connections": 3,
        "bytes": 99,
        "seconds": 3.0,
        "lines_per_second": 4.0,
        "indexed_per_second": 3.0,
        "indexed_per_second_by_kind": {"bid": 2.0, "win": 1.0},
        "run": "results/r",
    }


def test_each_collection_has_its_counts():
    figures = {"ads": SourceFigures(lines=9, accepted=9, indexed=9)}
    last = phase("filling", {"take_in": operation(1.0)}, sources=figures, warmup=0.0, duration=3.0)
    bids = StoredEvents(collection="bids", documents=6, events={"bid": 6}, indexed=6, unique=False, before=0)
    wins = StoredEvents(collection="wins", documents=4, events={"win": 1}, indexed=3, unique=False, before=2)
    result = ingest_result([last], 10, "results/r", stored=(bids, wins)).as_dict()
    assert result["collections"] == {
        "bids": {"documents": 6, "indexed": 6, "added_by_kind": {"bid": 6}, "missing_or_duplicate": 0},
        "wins": {"documents": 4, "indexed": 3, "added_by_kind": {"win": 1}, "missing_or_stored_before": 2},
    }
    assert result["missing_or_stored_before"] == 2


class CountingCluster:
    """A cluster that only counts: its events by kind, and its documents."""

    def __init__(self, count_lag=0.0):
        self.store = SimpleNamespace(count_lag=count_lag)
        self.events = {"bid": 0}

    def count_having(self, collection, kinds):
        return {kind: self.events[kind] for kind in kinds}

    def count(self, collection):
        return sum(self.events.values())


@pytest.mark.parametrize(("before", "unique", "label"), [(0, True, "missing"), (7, False, "missing or stored before")])
def test_generated_events_that_the_store_had_before_are_not_lost(tmp_path, before, unique, label):
    way = "generate: {generator: adbids, rate: 10, documents: 7}"
    resolved = workload(tmp_path, way=way).for_family("elasticsearch", 1).phase("filling")
    cluster = CountingCluster()
    cluster.events["bid"] = before
    count = EventCount(cluster, [resolved])
    count.begin()
    (stored,) = count.end([{"sources": {"ads": {"kinds": {"bid": 7}}}}])
    assert (stored.missing, stored.before, stored.unique, stored.missing_label) == (7, before, unique, label)


def test_events_in_collections_whose_store_removes_documents_are_not_counted(tmp_path):
    way = "generate: {generator: adbids, rate: 10, documents: 7}"
    resolved = workload(tmp_path, way=way).for_family("elasticsearch", 1).phase("filling")
    (place,) = EventCount(CountingCluster(), [resolved])._places
    count = EventCount(CountingCluster(), [resolved], [place.collection.removesuffix("-*")])
    count.begin()
    assert count.end([{"sources": {"ads": {"kinds": {"bid": 7}}}}]) == ()


def test_events_that_a_service_counts_late_are_not_lost(tmp_path, monkeypatch):
    monkeypatch.setattr(document_counts, "COUNT_PAUSE", 0.0)
    way = "generate: {generator: adbids, rate: 10, documents: 7}"
    resolved = workload(tmp_path, way=way).for_family("elasticsearch", 1).phase("filling")
    cluster = CountingCluster(count_lag=60.0)
    late = iter([0, 3, 7])
    count = EventCount(cluster, [resolved])
    count.begin()
    monkeypatch.setattr(cluster, "count_having", lambda _, kinds: dict.fromkeys(kinds, next(late)))
    (stored,) = count.end([{"sources": {"ads": {"kinds": {"bid": 7}}}}])
    assert stored.missing == 0


def test_time_until_events_are_stored_is_that_of_the_slowest_operation():
    def part(p99):
        latency = Latency(count=3, p50=0.5, p99=p99, max=9.0)
        return {"event": PartFigures(3, 3, 3, {}, 1.0, 1.0, response=latency, service=latency)}

    operations = {"bids": operation(1.0, parts=part(1.5)), "wins": operation(1.0, parts=part(2.5))}
    figures = {"ads": SourceFigures(lines=6, accepted=6, indexed=6)}
    last = phase("filling", operations, sources=figures, warmup=0.0, duration=3.0)
    assert ingest_result([last], 6, "results/r").as_dict()["stored_after"] == {"p50": 0.5, "p99": 2.5, "max": 9.0}


def test_visibility_latency_is_reported():
    figures = SourceFigures(lines=9, accepted=9, indexed=9, sampled=4, seen=3, unseen=1)
    seen = Latency(count=3, p50=0.5, p99=1.5, max=1.5)
    part = PartFigures(4, 3, 3, {"unseen": 1}, 1.0, 1.0, response=seen, service=seen)
    taken = operation(1.0, parts={"visible": part}, resolution=0.25)
    last = phase("filling", {"take_in": taken}, sources={"ads": figures}, warmup=0.0, duration=3.0)
    assert ingest_result([last], 9, "results/r").as_dict()["visibility"] == {
        "p50": 0.5,
        "p99": 1.5,
        "max": 1.5,
        "resolution": 0.25,
        "sampled": 4,
        "seen": 3,
        "unseen": 1,
    }


def test_a_plan_says_where_dead_letters_go_and_the_outcome_which_files_there_are(tmp_path):
    plan = ingest.with_dead_letter_files(
        {"phase": "p", "sources": {"a": {"stdin": True}, "b": {"files": []}}}, tmp_path
    )
    assert plan["sources"]["a"] == {"stdin": True, "dead_letters": str(tmp_path / "dead-letters-p-a.ndjson")}
    (tmp_path / "dead-letters-p-b.ndjson").write_text("{}")
    sources = ingest.with_dead_letter_names({"phase": "p", "sources": {"a": {"lines": 1}, "b": {"lines": 2}}}, tmp_path)
    assert sources == {"a": {"lines": 1}, "b": {"lines": 2, "kept": "dead-letters-p-b.ndjson"}}


def test_the_outcome_of_a_source_has_the_sizes_of_its_queue():
    sources = {"a": {"buffer": 9, "spill": 5}, "b": {"buffer": 8}}
    assert ingest.with_limits({"a": {"lines": 1}, "b": {"lines": 2}}, sources) == {
        "a": {"lines": 1, "buffer": 9, "spill": 5},
        "b": {"lines": 2, "buffer": 8, "spill": 0},
    }


def test_a_plan_without_sources_stays_as_it_is(tmp_path):
    assert ingest.with_dead_letter_files({"phase": "p"}, tmp_path) == {"phase": "p"}
    assert ingest.with_dead_letter_names({"phase": "p"}, tmp_path) == {}


def test_a_source_that_spills_does_so_beside_the_records_of_its_phase(tmp_path):
    plan = ingest.with_spill_folder({"phase": "p", "sources": {"a": {"spill": 5}, "b": {"files": []}}}, tmp_path)
    assert plan["sources"] == {"a": {"spill": 5, "spill_folder": str(tmp_path)}, "b": {"files": []}}
    assert ingest.with_spill_folder({"phase": "p"}, tmp_path) == {"phase": "p"}
