"""`loadframe ingest`: invalid input is refused before a store starts, and a port without lines is reported."""

import socket

import pytest

from commands import within


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("adbid", "-"), "adbid"),
        (("nyc_taxis", "-"), "lacks a source of events"),
        (("./w.yaml", "--listen", "127.0.0.1:0", "e.ndjson"), "--listen and files cannot be combined"),
        (("./w.yaml", "-", "e.ndjson"), "standard input and files cannot be combined"),
        (("./w.yaml", "gone.ndjson"), "does not exist"),
        (("./w.yaml", "e.ndjson", "--idle", "5s"), "--idle requires events from a port or standard input; got files"),
        (("./w.yaml", "--listen", "5000"), "not an address to listen on"),
        (("./w.yaml", "e.ndjson", "--acknowledge"), "--acknowledge requires --listen"),
        (("./w.yaml", "e.ndjson", "--wait", "5s"), "--wait requires --listen"),
        (("./w.yaml", "--acknowledge"), "--acknowledge requires --listen"),
        (("./w.yaml", "-", "--for", "0s"), "--for must be more than 0; got 0s"),
        (("./w.yaml", "-", "--only", "busy"), "no phase 'busy'"),
        (("./w.yaml", "-", "--hosts", "127.0.0.1:1", "--nodes", "2"), "contradict each other"),
        (("./w.yaml", "-", "--store", "redis"), "it has only take_in choose a store of the family elasticsearch"),
    ],
)
def test_invalid_input_is_refused(tmp_path, monkeypatch, words, what):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "w.yaml").write_text(
        "workload: w\n"
        "sources: {ads: {stdin: true, events: {kinds: {bid: {id: id, time: time}}}}}\n"
        "operations: {take_in: {take_in: {collection: ads, daily: event}}}\n"
        "phases: [{name: filling, operation: take_in, source: ads, until: exhausted}]\n"
    )
    (tmp_path / "e.ndjson").write_text('{"type": "bid", "id": "a", "time": 1}\n')
    status, output, errors = within("ingest", *words)
    assert (status, output) == (2, "")
    assert what in " ".join(errors.split())
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("words", [("--listen", "127.0.0.1:0", "--idle", "500ms"), ("--for", "500ms")])
def test_options_end_a_port_of_the_workload_that_never_ends(tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "w.yaml").write_text(
        "workload: w\n"
        "collections: {things: {}}\n"
        'sources: {ads: {listen: "127.0.0.1:0", events: {kinds: {bid: {id: id, time: time}}}}}\n'
        "operations: {take_in: {take_in: {collection: things}}}\n"
        "phases: [{name: filling, operation: take_in, source: ads, until: exhausted}]\n"
    )
    status, _, errors = within("ingest", "./w.yaml", "--store", "sim", *words)
    assert "never ends" not in errors
    assert (status, "no line arrived" in errors) == (1, True), errors
    status, _, errors = within("bench", "./w.yaml", "--hosts", "127.0.0.1:1")
    assert (status, "never ends" in errors) == (2, True), errors


def test_a_port_that_is_taken_is_refused():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        status, _, errors = within("ingest", "adbids", "--listen", f"127.0.0.1:{taken.getsockname()[1]}")
    assert status == 2
    assert "cannot listen at 127.0.0.1:" in errors


def test_a_listening_address_with_an_impossible_name_is_refused():
    status, _, errors = within("ingest", "adbids", "--listen", "a..b:9999")
    assert (status, "cannot listen at a..b:9999" in errors) == (2, True), errors


def test_a_port_without_any_line_is_a_failure(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "w.yaml").write_text(
        "workload: w\n"
        "collections: {things: {}}\n"
        "sources: {ads: {stdin: true, events: {kinds: {bid: {id: id, time: time}}}}}\n"
        "operations: {take_in: {take_in: {collection: things}}}\n"
        "phases: [{name: filling, operation: take_in, source: ads, until: exhausted}]\n"
    )
    words = ("./w.yaml", "--store", "sim", "--listen", "127.0.0.1:0", "--idle", "500ms")
    status, output, errors = within("ingest", *words)
    assert status == 1
    assert "no line arrived" in errors
    assert "while the command listens, or add --wait 10m" in " ".join(errors.split())
    assert "answered" not in output, "no verdict on figures that do not exist"
