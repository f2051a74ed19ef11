"""`loadframe check` on real nodes: every operation once, with request, answer and judgement."""

import gzip
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from commands import loadframe, result, servers
from serverless_search import ServerlessSearch

pytestmark = pytest.mark.store

WORKLOAD = """\
workload: small
collections: {trips: {}}
corpora: {trips: {generate: nyc_taxi_trip, documents: 20}}
operations:
  fill: {bulk: {collection: trips, corpus: trips, size: 10}}
  all: {search: {collection: trips, size: 2}}
  none: {search: {collection: trips, body: {query: {term: {nothing: there}}}}}
  wrong: {search: {collection: trips, body: {query: {matches_all: {}}}}}
  enough: {search: {collection: trips, size: 100}, assert: {min_hits: 50}}
phases:
  - {name: fill, prepares: true, operation: fill, clients: 1, until: exhausted}
  - {name: look, mix: {all: 1, none: 1, wrong: 1, enough: 1}, clients: 1, requests: 5}
"""


def test_every_operation_of_nyc_taxis_is_answered_well_and_none_finds_nothing(state):
    answers = result("check", "nyc_taxis")
    # Eighteen steps have eleven operations: a check sends each once.
    assert len(answers) == len({answer["operation"] for answer in answers}) == 11
    assert [answer for answer in answers if answer["error"] or answer["empty"]] == []
    largest = next(answer for answer in answers if answer["operation"] == "match_all_10000")
    assert largest["documents"] == 1000, "a thousand documents are loaded for a check"
    assert servers(state) == []


def test_an_existing_cluster_is_asked_and_left_as_it_is(node, tmp_path):
    (tmp_path / "w.yaml").write_text(WORKLOAD)
    hosts = ("--hosts", node.addresses[0])
    result("bench", tmp_path / "w.yaml", *hosts, "--only", "fill", "--output", tmp_path / "run")

    done = loadframe("check", tmp_path / "w.yaml", *hosts, "--json")
    assert done.returncode == 1
    assert "2 of 4 operations failed: wrong, enough" in done.stderr
    assert "a measurement would count these errors" in done.stderr
    answers = {answer["operation"]: answer for answer in json.loads(done.stdout)}
    assert list(answers) == ["all", "none", "wrong", "enough"]
    assert [name for name, answer in answers.items() if answer["empty"]] == ["none"]
    assert (answers["all"]["error"], answers["all"]["documents"]) == (None, 2)
    assert (answers["none"]["error"], answers["none"]["documents"]) == (None, 0)
    assert answers["wrong"]["error"] == "client"
    assert "matches_all" in answers["wrong"]["message"]
    assert answers["enough"]["error"] == "assertion"
    assert node.count("trips") == 20

    shown = loadframe("check", tmp_path / "w.yaml", *hosts)
    assert shown.returncode == 1
    assert "look · all" in shown.stdout
    assert "POST /trips/_search" in shown.stdout
    assert "good · 2 documents" in shown.stdout
    assert "0 hits: is the data loaded, and does the operation match it?" in shown.stdout
    assert "client:" in shown.stdout


JOURNEY = """\
phases:
  - name: look
    users: 1
    journeys: 1
    journey:
      - all
      - repeat: {times: 2, steps: [enough]}
"""


def test_steps_that_need_a_whole_journey_are_reported_as_such(node, tmp_path):
    (tmp_path / "w.yaml").write_text(WORKLOAD[: WORKLOAD.index("phases:")] + JOURNEY)
    node.store.request(node.addresses, "PUT", "/trips", {})
    done = loadframe("check", tmp_path / "w.yaml", "--hosts", node.addresses[0])
    assert done.returncode == 1
    assert "1 of 2 operations failed: enough" in done.stderr
    assert "Run a whole journey with `loadframe bench`" in " ".join(done.stderr.split())


def test_broken_lines_of_a_corpus_are_counted(node, tmp_path, cache):
    text = WORKLOAD.replace("{generate: nyc_taxi_trip, documents: 20}", "{file: t.json, broken: set_aside}")
    (tmp_path / "w.yaml").write_text(text)
    (tmp_path / "t.json").write_text('{"a": 1}\n' * 19 + 'not this\n{"a": \n')
    hosts = ("--hosts", node.addresses[0])
    done = loadframe("bench", tmp_path / "w.yaml", *hosts, "--only", "fill", "--output", tmp_path / "run")
    (aside,) = result("report", tmp_path / "run", "--json")["phases"][0]["set_aside"]
    assert (aside["corpus"], aside["lines"]) == ("trips", 2)
    assert "20: the line is not a JSON object: not this" in Path(aside["kept"][0]).read_text()
    assert "2 lines of the corpus trips skipped (not documents)" in " ".join(done.stdout.split())
    assert node.count("trips") == 19


class Odd(BaseHTTPRequestHandler):
    """Answers /gzip with a compressed body, and other paths with terminal control sequences."""

    def do_GET(self) -> None:
        evil = (
            json.dumps({"id": 7, "text": "a\u202eb\x9b2Jc"}, ensure_ascii=False).encode() + b"\x1b[2J\x1b]0;title\x07"
        )
        body = gzip.compress(evil * 20) if self.path == "/gzip" else evil
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        if self.path == "/gzip":
            self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Print nothing."""


def test_an_answer_is_shown_without_control_characters_and_a_compressed_one_by_its_name(tmp_path):
    workload = tmp_path / "w.yaml"
    workload.write_text(
        "workload: odd\noperations:\n"
        "  plain: {http: {method: GET, path: /plain, expect: {json: {/id: 7}}}}\n"
        "  compressed: {http: {method: GET, path: /gzip, expect: {json: {/id: 7}}}}\n"
        "phases:\n  - {name: all, streams: [{mix: {plain: 1, compressed: 1}, clients: 1, requests: 2}]}\n"
    )
    with ThreadingHTTPServer(("127.0.0.1", 0), Odd) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"127.0.0.1:{server.server_port}"
        shown = loadframe("check", workload, "--store", "http", "--hosts", address)
        answers = {
            answer["operation"]: answer
            for answer in json.loads(
                loadframe("check", workload, "--store", "http", "--hosts", address, "--json").stdout
            )
        }
        server.shutdown()
    text = shown.stdout + shown.stderr
    assert shown.returncode == 1
    assert not {c for c in text if (not c.isprintable() and c != "\n") or c == "\ufffd"}
    assert "gzip data, not decompressed" in text
    assert '"text":"abc"' in text.replace(" ", "")
    assert "gzip data, not decompressed" in answers["compressed"]["message"]
    assert "gzip data, not decompressed" in answers["compressed"]["answer"]


LONG = """\
workload: long
collections: {trips: {}}
corpora: {trips: {generate: nyc_taxi_trip, documents: 200}}
operations:
  fill: {bulk: {collection: trips, corpus: trips, size: 100}}
  all: {search: {collection: trips, size: 10}}
phases:
  - {name: fill, prepares: true, operation: fill, clients: 1, until: exhausted}
  - {name: look, operation: all, clients: 1, requests: 2}
  - {name: more, operation: fill, clients: 1, requests: 1}
"""


def test_long_texts_are_cut_on_the_terminal_and_whole_in_json(tmp_path):
    (tmp_path / "w.yaml").write_text(LONG)
    shown = loadframe("check", tmp_path / "w.yaml", "--store", "sim").stdout
    answers = json.loads(loadframe("check", tmp_path / "w.yaml", "--store", "sim", "--json").stdout)
    bulk = next(answer for answer in answers if answer["operation"] == "fill")
    assert len(bulk["request"]) > 3000
    part = shown[shown.index("more · fill") :]
    assert '{"total_amount"' in part
    assert "more characters; --json prints all" in part
    assert len(part[: part.index("more characters")]) < 2000
    offline = loadframe("check", tmp_path / "w.yaml", "--store", "sim", "--offline").stdout
    assert len(offline) < 4000
    assert "more characters; --json prints all" in offline


class Absent(BaseHTTPRequestHandler):
    """Answers each request with 404 and a short reason."""

    def do_GET(self) -> None:
        body = json.dumps({"error": "no such item"}).encode()
        self.send_response(404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Print nothing."""


def test_a_failure_does_not_repeat_the_body_of_the_answer_above(tmp_path):
    workload = tmp_path / "w.yaml"
    workload.write_text(
        "workload: one\noperations:\n  missing: {http: {method: GET, path: /missing}}\n"
        "phases:\n  - {name: all, operation: missing, clients: 1, requests: 1}\n"
    )
    with ThreadingHTTPServer(("127.0.0.1", 0), Absent) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        words = ("check", workload, "--store", "http", "--hosts", f"127.0.0.1:{server.server_port}")
        shown = loadframe(*words)
        (answer,) = json.loads(loadframe(*words, "--json").stdout)
        server.shutdown()
    assert shown.stdout.count("no such item") == 1
    assert "client: HTTP 404 · 0 documents in" in shown.stdout
    assert "1 of 1 operation failed: missing" in shown.stderr
    assert "no such item" in answer["message"]


def test_messages_of_a_measured_compressed_answer_name_the_compression_and_hold_no_raw_bytes(tmp_path):
    workload = tmp_path / "w.yaml"
    workload.write_text(
        "workload: odd\noperations:\n"
        "  compressed: {http: {method: GET, path: /gzip, expect: {json: {/id: 7}}}}\n"
        "phases:\n  - {name: all, operation: compressed, clients: 1, requests: 5}\n"
    )
    with ThreadingHTTPServer(("127.0.0.1", 0), Odd) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"127.0.0.1:{server.server_port}"
        shown = loadframe("bench", workload, "--store", "http", "--hosts", address, "--output", tmp_path / "run")
        server.shutdown()
    text = shown.stdout + shown.stderr
    assert "gzip data, not decompressed" in " ".join(text.split())
    assert not {c for c in text if (not c.isprintable() and c != "\n") or c == "\ufffd"}
    (message,) = result("report", tmp_path / "run", "--json")["phases"][0]["operations"]["compressed"]["messages"]
    assert "gzip data, not decompressed" in message["message"]
    assert "\ufffd" not in message["message"]


EMPTY = """\
workload: empty
collections: {trips: {}}
operations:
  near: {knn: {collection: trips, field: place, vector: [1, 2], k: 3, candidates: 9}}
  piped: {esql: {query: FROM trips | LIMIT 3}}
  events: {eql: {collection: trips, query: any where true}}
  selected: {sql: {query: SELECT * FROM trips}}
  tables: {sql: {query: SHOW TABLES}}
phases:
  - {name: all, mix: {near: 1, piped: 1, events: 1, selected: 1, tables: 1}, clients: 1, requests: 5}
"""


def test_each_kind_of_read_without_documents_is_shown_as_empty(tmp_path):
    hits = {"total": {"value": 0, "relation": "eq"}}
    contents = {
        "/trips/_search": {"took": 1, "timed_out": False, "hits": {**hits, "hits": []}},
        "/_query": {"columns": [], "values": []},
        "/trips/_eql/search": {"timed_out": False, "hits": {**hits, "events": []}},
        "/_sql": {"columns": [], "rows": []},
    }

    def content(request, body):
        path = request.path.partition("?")[0]
        shown = {"rows": [["trips"]]} if b"SHOW" in body else {}
        return (200, contents[path] | shown) if path in contents else None

    (tmp_path / "w.yaml").write_text(EMPTY)
    with ServerlessSearch(404, content) as service:
        hosts = ("--store", "elasticsearch", "--hosts", service.address)
        done = loadframe("check", tmp_path / "w.yaml", *hosts, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    answers = json.loads(done.stdout)
    assert [answer["operation"] for answer in answers if answer["empty"]] == ["near", "piped", "events", "selected"]
