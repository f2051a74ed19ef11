"""`loadframe ingest` into a real node: by TCP from several connections, from a file, and until it is interrupted."""

import gzip
import json
import re
import signal
import socket

import pytest

from commands import Running, result
from loadframe.record import Run

pytestmark = pytest.mark.store

WORKLOAD = """\
workload: ads
sources:
  ads:
    stdin: true
    events:
      kinds:
        bid: {id: id, time: time}
        win: {id: bid_id, time: bid_time}
    flush: 100ms
operations: {take_in: {take_in: {collection: ads, daily: event}}}
phases: [{name: filling, operation: take_in, source: ads, until: exhausted}]
"""
#: Two days; the wins of the first come on the second.
DAYS = ("2017-03-01T23:59:59.500Z", "2017-03-02T00:00:10Z")


def bid(number):
    return {"type": "bid", "id": f"b{number}", "time": DAYS[number % 2], "price": number}


def win(number):
    return {"type": "win", "bid_id": f"b{number}", "bid_time": DAYS[number % 2], "time": DAYS[1]}


def lines(*events):
    return "".join(f"{json.dumps(event)}\n" for event in events).encode()


@pytest.fixture
def folder(node, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "w.yaml").write_text(WORKLOAD)
    return tmp_path


def test_a_file_of_events_becomes_a_document_for_each_bid_in_the_index_of_its_day(node, folder):
    wins, bids = [win(number) for number in range(0, 50, 5)], [bid(number) for number in range(50)]
    (folder / "e.ndjson.gz").write_bytes(gzip.compress(lines(*wins, *bids) + b"not JSON\n" + lines({"type": "bid"})))
    came = result("ingest", "./w.yaml", "e.ndjson.gz", "--cluster", "shared", "--output", "run")
    assert (came["lines"], came["accepted"], came["indexed"], came["dead_letters"]) == (62, 60, 60, 2)
    assert (came["documents"], came["left_over"]) == (50, 0)
    assert (node.count("ads-2017.03.01"), node.count("ads-2017.03.02")) == (25, 25)
    run = Run(folder / "run")
    source = run.summary.phases[0].sources["ads"]
    letters = (run.path / source.kept).read_text().splitlines()
    assert [json.loads(letter)["line"] for letter in letters] == ["not JSON", '{"type": "bid"}']


def test_lines_of_several_connections_are_all_taken_in_and_ctrl_c_ends_it_in_good_order(node, folder):
    words = ("ingest", "./w.yaml", "--listen", "127.0.0.1:0", "--cluster", "shared", "--output", "run", "--json")
    with Running(*words, folder=folder) as command:
        command.wait_for("ads listens at 127.0.0.1:")
        port = int(re.search(r"listens at 127\.0\.0\.1:(\d+)", command.stderr)[1])
        for part in (range(100), range(100, 200)):
            with socket.create_connection(("127.0.0.1", port)) as sending:
                sending.sendall(lines(*(bid(number) for number in part)))
        command.wait_for("events/s accepted")
        status, _ = command.send(signal.SIGINT)
        assert status == 0, command.stderr
    came = json.loads((folder / "stdout.txt").read_text())
    assert came["left_over"] == 0
    assert came["accepted"] == came["indexed"] == came["documents"]
    assert came["lines"] <= 200


def test_a_port_without_lines_for_a_while_ends_by_itself(node, folder):
    words = ("ingest", "./w.yaml", "--listen", "127.0.0.1:0", "--idle", "5s", "--cluster", "shared", "--json")
    with Running(*words, folder=folder) as command:
        command.wait_for("ads listens at 127.0.0.1:")
        port = int(re.search(r"listens at 127\.0\.0\.1:(\d+)", command.stderr)[1])
        ways = [socket.create_connection(("127.0.0.1", port)) for _ in range(2)]
        for number in range(300):
            ways[number % 2].sendall(lines(bid(number)))
        for way in ways:
            way.close()
        assert command.process.wait(120) == 0, command.stderr
    came = json.loads((folder / "stdout.txt").read_text())
    assert (came["lines"], came["indexed"], came["documents"], came["connections"]) == (300, 300, 300, 2)
