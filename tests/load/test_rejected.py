"""Documents that a store pushes back are sent again, alone: none twice that was taken, and all of them counted once."""

import csv
import json
import socketserver
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from loadframe.experiment.runner.document_counts import retries_of_warmup
from loadframe.load import run_phase

_COUNTED = ("bytes_sent", "retries", "error_rejected", "error_item")


class Store(socketserver.ThreadingTCPServer):
    """Accepts bulk requests and assigns ids; rejects each document as often as `rejects` gives."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, rejects, refuses=()):
        super().__init__(("127.0.0.1", 0), Handler)
        self.rejects, self.refuses = rejects, refuses
        self.asked, self.kept, self.sizes, self.received = Counter(), [], [], 0
        self.lock = threading.Lock()

    def status(self, number):
        with self.lock:
            self.asked[number] += 1
            if number in self.refuses:
                return 400
            if self.asked[number] <= self.rejects(number):
                return 429
            self.kept.append(number)
            return 201


class Handler(socketserver.StreamRequestHandler):
    """One connection."""

    def handle(self):
        while line := self.rfile.readline():
            size = len(line)
            length = 0
            while (field := self.rfile.readline()) != b"\r\n":
                size += len(field)
                length = int(field.split(b":")[1]) if field.lower().startswith(b"content-length") else length
            body = self.rfile.read(length)
            documents = [json.loads(document)["n"] for document in body.splitlines()[1::2]]
            with self.server.lock:
                self.server.sizes.append(len(documents))
                self.server.received += size + 2 + length
            statuses = [self.server.status(number) for number in documents]
            items = [
                {"index": {"status": status} | ({} if status == 201 else {"error": {"type": "t", "reason": "r"}})}
                for status in statuses
            ]
            answer = json.dumps({"errors": any(status != 201 for status in statuses), "items": items}).encode()
            self.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(answer), answer))


@pytest.fixture
def load(tmp_path):
    """Send 60 documents in 6 requests, with retries; return the result."""
    corpus = tmp_path / "corpus.json"
    corpus.write_text("".join(f'{{"n": {n}}}\n' for n in range(60)))

    def load(store, retries, **more):
        threading.Thread(target=store.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        plan = {
            "seed": 1,
            "phase": "p",
            "target": {"driver": "search", "hosts": [f"127.0.0.1:{store.server_address[1]}"], "timeout": 5},
            "corpora": {"c": {"files": [str(corpus)]}},
            "operations": {"a": {"bulk": {"collection": "i", "corpus": "c", "size": 10}}},
            "streams": [
                {
                    "name": "s",
                    "mix": [["a", 1]],
                    "pacing": {"closed": {"clients": 2}},
                    "stop": {"requests": 6},
                    "retries": retries,
                }
            ],
        } | more
        try:
            outcome = run_phase(plan, tmp_path / "run", lambda progress: None)
        finally:
            store.shutdown()
            store.server_close()
        series = next((tmp_path / "run").glob("series*"))
        with series.open(newline="") as file:
            rows = [row for row in csv.DictReader(file) if row["operation"] == "a"]
        counts = {name: sum(int(row[name]) for row in rows) for name in _COUNTED}
        return outcome["operations"][0] | counts

    (tmp_path / "run").mkdir()
    return load


def test_no_document_is_there_twice_and_every_byte_counts(load):
    store = Store(lambda number: number % 3)
    outcome = load(store, retries=3)
    assert Counter(store.kept) == Counter(range(60))
    assert sorted(store.sizes, reverse=True)[:6] == [10] * 6
    assert sum(store.sizes) == 60 + sum(n % 3 for n in range(60))
    assert (outcome["requests"], outcome["successes"], outcome["documents"]) == (6, 6, 60)
    assert outcome["retries"] == len(store.sizes) - 6
    assert outcome["bytes_sent"] == store.received


def test_retries_of_the_warmup_are_known_by_stream_and_operation(load, tmp_path):
    store = Store(lambda number: number % 3)
    outcome = load(store, retries=3, warmup=2)
    assert outcome["warmup"]["successes"] == outcome["warmup"]["requests"] > 0
    retries = retries_of_warmup(tmp_path / "run")
    assert retries["s", "a"] == len(store.sizes) - 6 > 0
    assert retries["other", "a"] == 0


def test_documents_rejected_by_all_retries_fail_and_the_rest_counts(load):
    store = Store(lambda number: 99 if number % 10 == 0 else 0, refuses={5})
    outcome = load(store, retries=2)
    assert Counter(store.kept) == Counter(n for n in range(60) if n % 10 and n != 5)
    assert sorted(store.sizes) == [1] * 12 + [10] * 6
    assert (outcome["successes"], outcome["documents"]) == (0, 53)
    assert outcome["error_rejected"] == 5
    assert outcome["error_item"] == 1, "the request with a document that will never do"


class Busy(BaseHTTPRequestHandler):
    """Refuses requests for half a second from the first, and asks clients to wait for a second."""

    protocol_version = "HTTP/1.1"
    began = None

    def do_GET(self):
        if Busy.began is None:
            Busy.began = time.monotonic()
        is_busy = time.monotonic() - Busy.began < 0.5
        self.send_response(429 if is_busy else 200)
        if is_busy:
            self.send_header("Retry-After", "1")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def test_a_refused_request_is_sent_again_when_the_server_asks_for_it(tmp_path):
    with ThreadingHTTPServer(("127.0.0.1", 0), Busy) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        stream = {"name": "s", "mix": [["a", 1]], "pacing": {"closed": {"clients": 1}}, "stop": {"requests": 3}}
        plan = {
            "seed": 1,
            "phase": "p",
            "target": {"driver": "http", "hosts": [f"127.0.0.1:{server.server_address[1]}"], "timeout": 5},
            "operations": {"a": {"http": {"method": "GET", "path": "/"}}},
            "streams": [stream | {"retries": 1}],
        }
        try:
            outcome = run_phase(plan, tmp_path, lambda progress: None)
        finally:
            server.shutdown()
    (operation,) = outcome["operations"]
    assert (operation["requests"], operation["successes"], operation["retries"]) == (3, 3, 1)
