"""`loadframe ingest` into a real node: by TCP from several connections, from a file, and until it is interrupted or
killed."""

import gzip
import json
import os
import re
import signal
import socket
import threading
import time
import urllib.request

import pytest

from commands import Running, connected, loadframe, result
from loadframe.record import Run
from own_servers import free_port

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


def port_of(command):
    command.wait_for("ads listens at 127.0.0.1:")
    return int(re.search(r"listens at 127\.0\.0\.1:(\d+)", command.stderr)[1])


class Sender:
    """Sends bids and keeps unacknowledged ones, as docs/how-to/ingest-a-stream.md requires of senders."""

    def __init__(self, port, bids):
        self.kept, self.safe = list(bids), 0
        self._way = socket.create_connection(("127.0.0.1", port))
        self._threads = [threading.Thread(target=work) for work in (self._send, self._hear)]
        for thread in self._threads:
            thread.start()

    def _send(self):
        try:
            for first in range(0, len(self.kept), 50):
                self._way.sendall(lines(*(bid(number) for number in self.kept[first : first + 50])))
            self._way.shutdown(socket.SHUT_WR)
        except OSError:
            # The other side was killed; the sender keeps unacknowledged bids.
            pass

    def _hear(self):
        try:
            for told in self._way.makefile():
                self.safe = json.loads(told)["acknowledged"]
        except (OSError, ValueError):
            pass

    def end(self):
        """Wait for the end of the connection; return the acknowledged and the unacknowledged bids."""
        for thread in self._threads:
            thread.join(60)
        self._way.close()
        return self.kept[: self.safe], self.kept[self.safe :]


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


def test_events_that_a_phase_removes_before_the_load_are_not_missing_afterwards(node, folder):
    for number, count in enumerate((40, 2)):
        (folder / "e.ndjson").write_bytes(lines(*(bid(10 * number + place) for place in range(count))))
        came = result("ingest", "adbids", "e.ndjson", "--cluster", "shared", "--replace", "--output", f"run-{number}")
        assert (came["indexed"], came["documents"]) == (count, count)
        assert {key: came[key] for key in came if key.startswith("missing")} == {"missing_or_duplicate": 0}


def test_lines_of_several_connections_are_all_taken_in_and_ctrl_c_ends_it_in_good_order(node, folder):
    words = ("ingest", "./w.yaml", "--listen", "127.0.0.1:0", "--cluster", "shared", "--output", "run", "--json")
    with Running(*words, folder=folder) as command:
        port = port_of(command)
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
        port = port_of(command)
        ways = [socket.create_connection(("127.0.0.1", port)) for _ in range(2)]
        for number in range(300):
            ways[number % 2].sendall(lines(bid(number)))
        for way in ways:
            way.close()
        assert command.process.wait(120) == 0, command.stderr
    came = json.loads((folder / "stdout.txt").read_text())
    assert (came["lines"], came["indexed"], came["documents"], came["connections"]) == (300, 300, 300, 2)


@pytest.fixture
def stored(node, folder):
    """Two documents of an ingestion before, and a function that returns the options of another one at a port."""
    (folder / "w.yaml").write_text(WORKLOAD.replace(", daily: event", "") + "collections: {ads: {}}\n")
    (folder / "e.ndjson").write_bytes(lines(bid(1), bid(2)))
    assert result("ingest", "./w.yaml", "e.ndjson", "--cluster", "shared", "--output", "old")["documents"] == 2
    port = free_port()
    listen = ("--listen", f"127.0.0.1:{port}", "--replace", "--cluster", "shared")
    return port, ("ingest", "./w.yaml", *listen, "--output", "new", "--json")


def test_a_taken_port_leaves_the_data_that_would_be_replaced(node, stored):
    port, words = stored
    with socket.create_server(("127.0.0.1", port)):
        done = loadframe(*words, "--wait", "1m")
    assert (done.returncode, f"cannot listen at 127.0.0.1:{port}" in done.stderr) == (2, True), done.stderr
    assert node.count("ads") == 2


def test_data_is_not_replaced_if_no_sender_connects(node, stored):
    port, words = stored
    done = loadframe(*words, "--wait", "500ms")
    assert done.returncode == 2, done.stderr
    assert f"no line arrived at 127.0.0.1:{port} within 0.5 s" in " ".join(done.stderr.split())
    assert node.count("ads") == 2


def test_data_is_not_replaced_by_input_without_an_event(node, stored, folder):
    (folder / "bad.gz").write_bytes(b"no gzip")
    (folder / "dead.ndjson").write_bytes(b"not JSON\n")
    where = ("--replace", "--cluster", "shared", "--output", "new")
    for name, what in (("bad.gz", "bad.gz: cannot be read beyond line 0"), ("dead.ndjson", "is an event")):
        done = loadframe("ingest", "./w.yaml", name, *where)
        assert (done.returncode, what in done.stderr) == (2, True), done.stderr
    assert node.count("ads") == 2


@pytest.mark.parametrize("command", ["ingest", "bench"])
def test_a_connection_without_an_event_does_not_replace_data(node, stored, folder, command):
    port, _ = stored
    source = f'listen: "127.0.0.1:{port}", wait: 2s, idle: 1s'
    (folder / "w.yaml").write_text(
        (folder / "w.yaml").read_text().replace("stdin: true", source.replace(", ", "\n    "))
    )
    with Running(command, "./w.yaml", "--replace", "--cluster", "shared", "--output", "new", folder=folder) as running:
        running.wait_for("waiting for a sender to ads")
        with connected(port) as scan:
            scan.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert running.process.wait(120) == 2, running.stderr
    assert "no event arrived at" in " ".join(running.stderr.split())
    assert node.count("ads") == 2


def test_an_ingestion_of_dead_letters_only_is_a_failure(node, folder):
    (folder / "dead.ndjson").write_bytes(b"not JSON\n")
    done = loadframe("ingest", "./w.yaml", "dead.ndjson", "--cluster", "shared", "--output", "run")
    assert (done.returncode, "no event was stored" in done.stderr) == (1, True), done.stderr


def test_daily_collections_are_not_replaced_if_no_sender_connects(node, folder):
    (folder / "e.ndjson").write_bytes(lines(bid(1), bid(2)))
    assert result("ingest", "adbids", "e.ndjson", "--cluster", "shared", "--output", "old")["documents"] == 2
    listen = ("--listen", f"127.0.0.1:{free_port()}", "--wait", "500ms", "--replace")
    done = loadframe("ingest", "adbids", *listen, "--cluster", "shared", "--output", "new")
    assert (done.returncode, "no line arrived at" in done.stderr) == (2, True), done.stderr
    assert len(ids(node)) == 2


def test_data_is_not_replaced_if_an_interrupt_ends_the_wait_for_a_sender(node, stored, folder):
    _, words = stored
    with Running(*words, "--wait", "10m", folder=folder) as command:
        command.wait_for("waiting for a sender to ads")
        status, _ = command.send(signal.SIGINT)
    assert status == 130, command.stderr
    assert node.count("ads") == 2


def test_data_is_replaced_once_a_sender_connects_and_lines_sent_meanwhile_are_stored(node, stored, folder):
    port, words = stored
    with Running(*words, "--wait", "1m", "--idle", "2s", folder=folder) as command:
        command.wait_for("waiting for a sender to ads")
        with connected(port) as early, connected(port) as empty:
            early.sendall(lines(*map(bid, range(10, 60))))
            # This end is the sign that the load can begin.
            empty.shutdown(socket.SHUT_WR)
            assert empty.recv(1) == b""
            assert node.count("ads") in range(51)
            assert not {"b1", "b2"} & ids(node)
            early.sendall(lines(*map(bid, range(60, 70))))
        assert command.process.wait(120) == 0, command.stderr
    came = json.loads((folder / "stdout.txt").read_text())
    assert (came["lines"], came["indexed"], came["documents"], came["left_over"]) == (60, 60, 60, 0)


#: Lines before the first event, more than a pipe or the buffer of a socket holds.
NO_EVENTS = 200_000


def test_lines_that_are_read_in_search_of_an_event_at_standard_input_are_stored(node, stored, folder):
    (folder / "in").write_bytes(b"not JSON\n" * NO_EVENTS + lines(*map(bid, range(10, 60))))
    words = ("ingest", "./w.yaml", "-", "--replace", "--cluster", "shared", "--output", "new")
    came = result(*words, before=("sh", "-c", 'cat in | "$@"', "sh"))
    assert (came["lines"], came["dead_letters"], came["indexed"], came["documents"]) == (
        NO_EVENTS + 50,
        NO_EVENTS,
        50,
        50,
    )


def test_lines_that_are_read_in_search_of_an_event_at_a_port_are_stored_and_acknowledged(node, stored, folder):
    port, words = stored
    with Running(*words, "--idle", "2s", "--acknowledge", folder=folder) as command:
        with connected(port) as sender:
            sender.sendall(b"not JSON\n" * NO_EVENTS + lines(*map(bid, range(10, 60))))
            sender.shutdown(socket.SHUT_WR)
            answers = sender.makefile().read().splitlines()
        assert command.process.wait(120) == 0, command.stderr
    assert json.loads(answers[-1]) == {"acknowledged": NO_EVENTS + 50}
    came = json.loads((folder / "stdout.txt").read_text())
    assert (came["lines"], came["dead_letters"], came["indexed"], came["documents"]) == (
        NO_EVENTS + 50,
        NO_EVENTS,
        50,
        50,
    )


def flood(port):
    """Send bids until the other side closes the connection."""
    try:
        with socket.create_connection(("127.0.0.1", port)) as sending:
            for first in range(0, 10**9, 100):
                sending.sendall(lines(*(bid(number) for number in range(first, first + 100))))
    except OSError:
        pass


def test_a_sender_that_a_full_buffer_held_back_leaves_open_whether_the_store_kept_up(tmp_path):
    bounds = "flush: 100ms\n    batch: 20\n    buffer: 20k\n    longest_line: 10k"
    workload = WORKLOAD.replace("flush: 100ms", bounds).replace(", daily: event", "")
    (tmp_path / "w.yaml").write_text(f"{workload}collections: {{ads: {{}}}}\n")
    ending = ("--listen", "127.0.0.1:0", "--spill", "0", "--for", "20s", "--workers", "1", "--json")
    output = ("--output", str(tmp_path / "run"))
    with Running("ingest", str(tmp_path / "w.yaml"), "--store", "sim", *ending, *output, folder=tmp_path) as command:
        sending = threading.Thread(target=flood, args=(port_of(command),))
        sending.start()
        assert command.process.wait(120) == 0, command.stderr
        sending.join()
    came = json.loads((tmp_path / "stdout.txt").read_text())
    assert came["held_back"] is True
    assert came["buffer_full"] is True
    assert came["pace"]["pace"] == "held back"
    assert came["verdict"] == Run(came["run"]).raw_summary["verdict"]


def test_the_verdict_is_printed_after_the_counts(tmp_path):
    workload = WORKLOAD.replace(", daily: event", "")
    (tmp_path / "w.yaml").write_text(f"{workload}collections: {{ads: {{}}}}\n")
    (tmp_path / "e.ndjson").write_bytes(lines(*(bid(number) for number in range(50))))
    given = (str(tmp_path / "w.yaml"), str(tmp_path / "e.ndjson"), "--store", "sim", "--output", str(tmp_path / "run"))
    done = loadframe("ingest", *given)
    assert done.returncode == 0, done.stderr
    counts, _, verdict = done.stdout.partition("stored after, max")
    # The simulated store keeps no events that could be counted.
    assert "documents in the store" not in counts
    assert "missing" not in counts
    # Whether the run is valid depends on this machine.
    verdict = verdict.partition("\n")[2]
    assert verdict
    assert loadframe("report", str(tmp_path / "run")).stdout.endswith(verdict)


def hits(node, source="true"):
    node.count("ads*")  # which refreshes
    with urllib.request.urlopen(f"http://{node.addresses[0]}/ads*/_search?size=10000&_source={source}") as answer:
        return json.load(answer)["hits"]["hits"]


def ids(node):
    return {hit["_id"] for hit in hits(node, "false")}


def test_lines_are_transformed_before_they_are_stored(node, folder):
    steps = """{id: key, time: at, transform: [
          {rename: {id: key, time: at}}, {convert: {at: time, price: float}}, {drop: [type]}, {add: {geo.country: SE}},
          {derive: {day: {date: at, format: "%d"}, host: {part: url, split: "/", at: 2}}},
          {derive: {twice: {sum: [price, price]}}}]}"""
    (folder / "w.yaml").write_text(WORKLOAD.replace("{id: id, time: time}", steps))
    plain = bid(1) | {"url": "https://a.example/x"}
    sent = [plain | {"price": "1.5"}, plain | {"id": "b3", "price": "NaN"}, plain | {"id": "b5", "url": 7}, win(1)]
    (folder / "e.ndjson").write_bytes(lines(*sent))
    came = result("ingest", "./w.yaml", "e.ndjson", "--cluster", "shared", "--output", "run")
    assert (came["lines"], came["indexed"], came["dead_letters"], came["documents"]) == (4, 2, 2, 1)
    (document,) = hits(node)
    assert (document["_index"], document["_id"]) == ("ads-2017.03.02", "b1")
    assert document["_source"]["win"] == win(1)
    assert document["_source"]["bid"] == {
        "key": "b1",
        "at": "2017-03-02T00:00:10.000Z",
        "price": 1.5,
        "url": "https://a.example/x",
        "geo": {"country": "SE"},
        "day": "02",
        "host": "a.example",
        "twice": 3.0,
    }
    run = Run(folder / "run")
    letters = (run.path / run.summary.phases[0].sources["ads"].kept).read_text().splitlines()
    assert [(letter["reason"], json.loads(letter["line"])) for letter in map(json.loads, letters)] == [
        ('transform failed: convert price: "NaN" is not a finite number', sent[1]),
        ("transform failed: derive host: 7 has no part 2", sent[2]),
    ]


def test_dropped_events_are_counted_apart_and_not_stored(node, folder):
    steps = """{id: id, time: time, transform: [{drop_event: {of: price, at_least: 5, below: 8}}]}"""
    visible = "{take_in: {collection: ads, daily: event}, visible: {sample: 10ms, every: 100ms, within: 1m}}"
    workload = WORKLOAD.replace("{id: id, time: time}", steps)
    (folder / "w.yaml").write_text(workload.replace("{take_in: {collection: ads, daily: event}}", visible))
    (folder / "e.ndjson").write_bytes(lines(*map(bid, range(10)), win(6), {"type": "bid"}))
    came = result("ingest", "./w.yaml", "e.ndjson", "--cluster", "shared", "--output", "run")
    counts = {name: came[name] for name in ("lines", "dropped", "accepted", "indexed", "dead_letters", "left_over")}
    assert counts == {"lines": 12, "dropped": 3, "accepted": 8, "indexed": 8, "dead_letters": 1, "left_over": 0}
    assert ids(node) == {f"b{number}" for number in (0, 1, 2, 3, 4, 6, 8, 9)}
    assert came["visibility"]["sampled"] == came["visibility"]["seen"]
    run = Run(folder / "run")
    (source,) = run.summary.phases[0].sources.values()
    assert source.dropped == 3
    (stored,) = run.summary.stored
    assert stored.events == {"bid": 7, "win": 1}
    assert stored.indexed == 8
    report = loadframe("report", "run")
    assert "8 of 9 lines stored, 1 not (1 " in " ".join(report.stdout.split())


def test_acknowledged_events_survive_a_kill_and_the_rest_is_stored_after_resending(node, folder):
    bounds = "flush: 100ms\n    batch: 100\n    buffer: 20k\n    longest_line: 10k"
    (folder / "w.yaml").write_text(WORKLOAD.replace("flush: 100ms", bounds))
    listen = ("--listen", "127.0.0.1:0", "--acknowledge")
    words = ("ingest", "./w.yaml", *listen, "--cluster", "shared", "--reuse", "--json")
    with Running(*words, "--output", "killed", folder=folder) as command:
        sender = Sender(port_of(command), range(6000))
        end = time.monotonic() + 60
        while not 500 <= sender.safe < 5000 and time.monotonic() < end:
            time.sleep(0.001)
        os.killpg(command.process.pid, signal.SIGKILL)
        command.process.wait()
    safe, kept = sender.end()
    assert safe, "some were acknowledged"
    assert kept, "it was killed in the middle"
    assert {f"b{number}" for number in safe} <= ids(node)
    with Running(*words, "--idle", "3s", "--output", "again", folder=folder) as command:
        again = Sender(port_of(command), kept)
        assert command.process.wait(120) == 0, command.stderr
    assert again.end() == (kept, [])
    assert ids(node) == {f"b{number}" for number in range(6000)}
    came = json.loads((folder / "stdout.txt").read_text())
    assert (came["accepted"], came["indexed"], came["left_over"]) == (len(kept), len(kept), 0)
    assert not list(folder.glob("**/spill-*"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_was_accepted_before_an_interrupt_is_sent_duplicates_and_wins_without_bids_too(node, folder, number):
    (folder / "w.yaml").write_text(WORKLOAD.replace("flush: 100ms", "flush: 30s"))
    words = ("ingest", "./w.yaml", "--listen", "127.0.0.1:0", "--cluster", "shared", "--output", "run", "--json")
    with Running(*words, folder=folder) as command:
        with socket.create_connection(("127.0.0.1", port_of(command))) as sending:
            sending.sendall(lines(*(bid(which % 50) for which in range(100)), *(win(which) for which in range(60))))
            command.wait_for("160 unacknowledged")
            os.kill(command.process.pid, number)
            assert command.process.wait(60) == 0, command.stderr
        assert "stopped reading" in command.stderr
    came = json.loads((folder / "stdout.txt").read_text())
    assert (came["accepted"], came["indexed"], came["left_over"], came["documents"]) == (160, 160, 0, 60)
    assert came["indexed_by_kind"] == {"bid": 100, "win": 60}
    assert Run(folder / "run").summary.status == "done"


def test_a_second_interrupt_drops_and_counts_the_remaining_events(node, folder):
    (folder / "w.yaml").write_text(WORKLOAD)
    words = ("ingest", "./w.yaml", "--listen", "127.0.0.1:0", "--cluster", "shared", "--output", "run", "--json")
    stopped = node.nodes[0].pid
    with Running(*words, folder=folder) as command:
        port = port_of(command)
        os.kill(stopped, signal.SIGSTOP)
        try:
            with socket.create_connection(("127.0.0.1", port)) as sending:
                sending.sendall(lines(*(bid(which) for which in range(100))))
                time.sleep(2)
                os.kill(command.process.pid, signal.SIGINT)
                command.wait_for("stopped reading")
                os.kill(command.process.pid, signal.SIGINT)
                time.sleep(2)
        finally:
            os.kill(stopped, signal.SIGCONT)
        assert command.process.wait(60) == 1, command.stderr
    came = json.loads((folder / "stdout.txt").read_text())
    assert came["accepted"] == came["left_over"] > 0
