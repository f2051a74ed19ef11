"""`loadframe check --offline`: checks of a workload without a store."""

import gzip
import json
import shutil
import subprocess

import pytest

from commands import loadframe, result, within
from loadframe.workload.workload import LIBRARY

WORKLOAD = """\
workload: small
collections: {trips: {}}
corpora: {trips: {generate: nyc_taxi_trip, documents: 2000}}
variables: {low: {uniform: [5, 10]}}
operations:
  fill: {bulk: {collection: trips, corpus: trips, size: 1000}}
  cheap: {search: {collection: trips, size: 2, body: {query: {range: {total_amount: {gte: "${low}"}}}}}}
phases:
  - {name: fill, prepares: true, operation: fill, clients: 1, until: exhausted}
  - {name: look, operation: cheap, clients: 1, requests: 5}
"""


def test_each_operations_request_is_shown_and_none_is_sent(tmp_path):
    (tmp_path / "w.yaml").write_text(WORKLOAD)
    fill, cheap = result("check", tmp_path / "w.yaml", "--offline")
    assert (fill["phase"], fill["operation"]) == ("fill", "fill")
    assert fill["request"].startswith('POST /trips/_bulk HTTP/1.1\n\n{"index":{}}\n')
    assert "its beginning is shown" in fill["request"]
    line, body = cheap["request"].split("\n\n")
    assert line == "POST /trips/_search?size=2 HTTP/1.1"
    assert 5 <= json.loads(body)["query"]["range"]["total_amount"]["gte"] <= 10
    shown = loadframe("check", tmp_path / "w.yaml", "--offline")
    assert shown.returncode == 0
    assert "look · cheap" in shown.stdout
    assert "2 operations, valid for" in shown.stdout


@pytest.mark.parametrize(
    ("good", "bad", "what"),
    [
        ("gte:", "gte: 1, gte:", "gte"),
        ('"${low}"', '"${lo}"', "lo"),
        ("size: 2,", "sise: 2,", "sise"),
    ],
)
def test_errors_are_reported_with_their_place_and_status_2(tmp_path, good, bad, what):
    (tmp_path / "w.yaml").write_text(WORKLOAD.replace(good, bad))
    done = loadframe("check", tmp_path / "w.yaml", "--offline")
    assert done.returncode == 2
    assert "w.yaml:7:" in done.stderr
    assert what in done.stderr


def test_a_corpus_with_a_web_address_is_not_fetched(tmp_path):
    # This address refuses connections, so a request to it would fail.
    fetched = WORKLOAD.replace("generate: nyc_taxi_trip", 'url: "http://127.0.0.1:9/trips.json.bz2"').replace(
        "variables: {", "variables: {place: {field: {corpus: trips, field: pickup.zone}}, "
    )
    (tmp_path / "w.yaml").write_text(fetched.replace("gte:", 'lt: "${place}", gte:'))
    fill, cheap = result("check", tmp_path / "w.yaml", "--offline")
    assert "of the corpus trips, which is not on this machine" in fill["request"]
    assert "pickup.zone of the corpus trips" in cheap["request"]
    shown = loadframe("check", tmp_path / "w.yaml", "--offline")
    assert shown.returncode == 0, shown.stderr
    assert "corpus trips · not on this machine" in shown.stdout


def test_a_corpus_that_would_be_encrypted_is_not_fetched_either():
    address = ("--set", "url=http://127.0.0.1:9/trips.json.bz2")
    fill, *_, ranged = result("check", "nyc_taxis/range_100", "--offline", "--set", "encrypted=true", *address)
    assert "which is not on this machine" in fill["request"]
    assert json.loads(ranged["request"].split("\n\n")[1])["query"]["range"]["total_amount"]["gte"] == 500 * 65536


def test_families_without_a_form_are_reported(tmp_path):
    (tmp_path / "w.yaml").write_text(WORKLOAD)
    done = loadframe("check", tmp_path / "w.yaml", "--offline", "--store", "http")
    assert done.returncode == 2
    assert "does not support stores of the family 'http'" in done.stderr


def test_offline_and_hosts_exclude_each_other(tmp_path):
    done = loadframe("check", "nyc_taxis", "--offline", "--hosts", "127.0.0.1:9")
    assert done.returncode == 2
    assert "contradict" in done.stderr


def traced() -> bool:
    """Whether strace is here and may trace a process."""
    strace = shutil.which("strace")
    return strace is not None and subprocess.run([strace, "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.slow
@pytest.mark.skipif(
    not traced(), reason="requires strace with permission to trace, to list the system calls of the engine"
)
def test_nothing_offline_touches_a_network(tmp_path):
    trace = ("strace", "-f", "-qq", "-e", "trace=connect,sendto,sendmsg", "-o", str(tmp_path / "trace"))
    fetched = "{url: https://example.org/trips.json.bz2}"
    vectors = "{columns: {total_amount: https://example.org/base.fvecs}}"
    for corpus in (fetched, vectors):
        text = WORKLOAD.replace("{generate: nyc_taxi_trip, documents: 2000}", corpus)
        (tmp_path / "w.yaml").write_text(text)
        done = loadframe("check", tmp_path / "w.yaml", "--offline", before=trace)
        assert done.returncode == 0, done.stderr
        assert "AF_INET" not in (tmp_path / "trace").read_text()
    # The trace does see a connection that is tried.
    loadframe("check", tmp_path / "w.yaml", "--hosts", "127.0.0.1:9", before=trace)
    assert "AF_INET" in (tmp_path / "trace").read_text()


@pytest.mark.parametrize("name", sorted(path.stem for path in LIBRARY.glob("*.yaml")))
def test_every_workload_of_the_library_can_be_rendered(name):
    store = ("--store", "postgresql") if name in ("pgbench", "wikipedia_sql") else ()
    shown = result("check", name, "--offline", *store)
    assert all(rendered["request"] or store for rendered in shown)
    assert shown


def test_workloads_of_another_family_name_their_stores():
    done = loadframe("check", "pgbench", "--offline")
    assert done.returncode == 2
    assert "or choose a store of the family postgresql" in done.stderr


@pytest.mark.parametrize("store", ["opensearch", "mongodb"])
def test_ingested_events_are_shown_in_the_kinds_of_their_source(tmp_path, store):
    kinds = "{sensor: {id: key, time: at.instant}, door: {id: number, time: opened}}"
    (tmp_path / "w.yaml").write_text(
        "workload: w\n"
        "collections: {readings: {}}\n"
        f"sources: {{wire: {{listen: '127.0.0.1:0', events: {{type: what, kinds: {kinds}}}}}}}\n"
        "operations: {take_in: {take_in: {collection: readings}}}\n"
        "phases: [{name: p, operation: take_in, source: wire, duration: 60s}]\n"
    )
    (shown,) = result("check", tmp_path / "w.yaml", "--offline", "--store", store)
    request = "".join(shown["request"].split())
    for event in (
        '"sensor":{"key":"7","at":{"instant":"2017-03-01T12:00:00Z"},"what":"sensor"}',
        '"door":{"number":"7","opened":"2017-03-01T12:00:00Z","what":"door"}',
    ):
        assert event in request
    assert "bid" not in request


def test_credentials_that_a_workload_carries_are_not_shown(tmp_path):
    file = tmp_path / "w.yaml"
    file.write_text(
        "workload: w\n"
        "operations:\n"
        "  login: {request: {method: POST, path: '/login?api_key=hunter2', body: {user: ann, password: hunter2}}}\n"
        "phases: [{name: p, operation: login, clients: 1, requests: 1}]\n"
    )
    for words in ([], ["--json"]):
        status, output, errors = within("check", file, "--offline", *words)
        assert status == 0, errors
        assert "hunter2" not in output + errors
        assert "***" in output
        assert "ann" in output


TEXT_LOG = """\
workload: access
collections: {requests: {}}
sources:
  log:
    files: [access.log]
    events:
      format: text
      transform:
        - grok: {message: '^%{IP:client} "%{WORD:verb} %{NOTSPACE:path}" %{INT:status:int} %{WORD:id} %{INT:time:int}$'}
        - drop_event: {of: path, equals: /health}
        - drop: [message]
        - add: {type: request}
      kinds: {request: {id: id, time: time}}
operations: {ingest: {take_in: {collection: requests}}}
phases: [{name: ingest, operation: ingest, source: log, until: exhausted}]
"""


def test_the_results_of_a_transformation_are_shown(tmp_path):
    (tmp_path / "w.yaml").write_text(TEXT_LOG)
    kept, dropped = (f'192.0.2.1 "GET {path}" 200 a1 5' for path in ("/a", "/health"))
    (tmp_path / "access.log").write_text(f"{kept}\n\n{dropped}\nno match\n")
    words = ("check", tmp_path / "w.yaml", "--offline", "--store", "mongodb")
    request, *lines = result(*words)
    assert request["operation"] == "ingest"
    event = '{"client":"192.0.2.1","verb":"GET","path":"/a","status":200,"id":"a1","time":5,"type":"request"}'
    outcomes = [(kept, "event", event), (dropped, "dropped", ""), ("no match", "dead letter", NO_MATCH)]
    assert [(line["line"], line["outcome"], line["result"]) for line in lines] == outcomes
    shown = loadframe(*words).stdout
    assert "event · {" in shown
    assert "dead letter · no match" in shown
    with gzip.open(tmp_path / "other.gz", "wt") as other:
        other.write("\n".join([kept] * 9))
    assert len(result(*words, "--lines", tmp_path / "other.gz")) == 1 + 5


def test_lines_are_shown_as_a_source_reads_them(tmp_path):
    (tmp_path / "w.yaml").write_text(TEXT_LOG.replace("    events:", "    longest_line: 100\n    events:"))
    kept = '192.0.2.1 "GET /a" 200 a1 5'
    (tmp_path / "access.log").write_bytes(f"\ufeff{kept}\r\n{'x' * 200}\nno match\n".encode())
    words = ("check", tmp_path / "w.yaml", "--offline", "--store", "mongodb")
    _, *lines = result(*words)
    outcomes = ["event", "dead letter", "dead letter"]
    assert [line["outcome"] for line in lines] == outcomes
    assert [line["result"] for line in lines[1:]] == ["too long", NO_MATCH]
    damaged = tmp_path / "damaged.GZ"
    damaged.write_bytes(gzip.compress(kept.encode())[:-9])
    done = loadframe(*words, "--lines", damaged)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert "cannot read" in done.stderr


NO_MATCH = "no match: grok message: no pattern fits"


@pytest.mark.parametrize(
    ("words", "change", "what"),
    [
        (("--lines", "access.log"), ("", ""), "--lines requires --offline"),
        (("--offline", "--lines", "none.log"), ("", ""), "cannot read none.log"),
        (("--offline",), ("%{WORD:verb}", "%{WRD:verb}"), 'unknown pattern "WRD"; did you mean "WORD"?'),
        (("--offline",), ("%{WORD:verb}", "(?=x)"), "look-around and backreferences are not supported"),
        (("--offline",), ("equals: /health", 'matches: "("'), "unclosed group"),
    ],
)
def test_unusable_transformations_are_refused(tmp_path, words, change, what):
    (tmp_path / "w.yaml").write_text(TEXT_LOG.replace(*change))
    (tmp_path / "access.log").write_text("x\n")
    done = loadframe("check", "w.yaml", *words, "--store", "mongodb", cwd=tmp_path)
    assert done.returncode == 2
    assert what in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
