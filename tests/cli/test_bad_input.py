"""Mistakes of users and missing prerequisites: one message with cause, place and remedy, and no leftovers.

Tests of messages about workload files, experiment files, CSV files and clusters are next to their readers. This module
tests how commands report them.
"""

import os
import shutil
import socket
import subprocess
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from commands import LOADFRAME, loadframe, servers

pytestmark = pytest.mark.slow

WORKLOAD = """\
workload: small
parameters: {documents: 10, file: ""}
collections: {trips: {}}
corpora: {trips: {generate: nyc_taxi_trip, documents: "${documents}", file: "${file}"}}
operations:
  fill: {bulk: {collection: trips, corpus: trips, size: 5}}
  look: {search: {collection: trips}}
phases:
  - {name: fill, prepares: true, operation: fill, clients: 1, until: exhausted}
  - {name: look, operation: look, clients: 1, duration: 1s}
"""
EXPERIMENT = """\
experiment: e
store: {kind: opensearch}
workload: ./w.yaml
kind: scale
factors: {clients: [1, 2]}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder with a good workload and a good experiment, in which the commands work."""
    monkeypatch.chdir(tmp_path)
    Path("w.yaml").write_text(WORKLOAD)
    Path("e.yaml").write_text(EXPERIMENT)
    return tmp_path


@pytest.fixture
def refused(state, folder):
    """Run a command that must be refused; its message, having seen that it left nothing behind."""

    def refused(*words, status=2, **more):
        before = sorted(folder.rglob("*"))
        done = loadframe(*words, **more)
        assert done.returncode == status, done.stderr
        assert "Traceback" not in done.stderr
        assert done.stdout == ""
        assert sorted(folder.rglob("*")) == before
        assert servers(state) == []
        assert not [path for path in state.rglob("*") if path.name.startswith("node-") or path.name == "cluster.json"]
        return done.stderr

    return refused


def a_message(said: str, *, what: str, remedy: str) -> bool:
    """Return whether the last message is one line that contains `what`, then indented lines that contain `remedy`."""
    message = said[said.rindex("loadframe: ") :]
    first, *rest = message.splitlines()
    return what in first and remedy in " ".join(rest) and all(line.startswith("  ") for line in rest)


@pytest.mark.parametrize(
    ("words", "what", "remedy"),
    [
        ("bench nyc_taxs", "unknown workload 'nyc_taxs'", "did you mean 'nyc_taxis'?"),
        ("bench none.yaml", "none.yaml: no such file", "check the path"),
        ("check ./none.yaml", "none.yaml: no such file", "check the path"),
        ("run none.yaml", "none.yaml: no such file", "check the path"),
        ("report nowhere", "nowhere: no such run folder", "manifest.json"),
        ("report .", ".: this is neither a run nor an experiment", "experiment.json"),
        ("bench w.yaml --store opensaerch", "--store: unknown store 'opensaerch'", "did you mean opensearch?"),
        ("bench w.yaml --store sim --store-set sevrers=2", "--store-set: unknown setting 'sevrers'", "one of servers,"),
        ("cluster up x --store sim --set sevrers=2", "--set: unknown setting 'sevrers'", "one of servers,"),
        ("bench w.yaml --version 0.1", "opensearch 0.1 is not an embedded version", "3.8.0"),
        ("bench w.yaml --only lok", "--only: unknown phase 'lok' of the workload small", "did you mean 'look'?"),
        (
            "bench w.yaml --set documnets=5",
            "--set documnets: unknown parameter 'documnets' of the workload",
            "did you mean 'documents'?",
        ),
        ("bench w.yaml --set documents=many", "--set documents: the parameter", "its default is 10"),
        ("bench w.yaml --set documents", "--set 'documents' lacks a value", "--set name=value"),
        ("bench w.yaml --set file=none.json", "none.json", "check the path"),
        ("bench w.yaml --duration soon", "'soon' is not a duration", "250ms"),
        ("bench w.yaml --duration 0s", "--duration 0 measures nothing", "more than 0"),
        ("bench w.yaml --rate 0", "--rate 0 measures nothing", "more than 0"),
        ("bench w.yaml --memory 9m", "the memory limit of a node must be at least 64m", "1g"),
        ("bench w.yaml --memory 900t --nodes 2", "2 nodes with 900 TiB each need 1,800 TiB of memory", "less memory"),
        ("bench w.yaml --hosts a:1 --cluster b", "--hosts and --cluster contradict each other", "one of them"),
        ("bench w.yaml --hosts a:1 --nodes 2", "--hosts and --nodes contradict each other", "one of them"),
        ("bench w.yaml --clients 2 --rate 5/s", "--clients and --rate contradict each other", "one of them"),
        (
            "bench w.yaml --clients 2 --arrivals poisson",
            "--clients and --arrivals contradict each other",
            "one of them",
        ),
        ("bench w.yaml --hosts a:1 --replace --reuse", "--replace and --reuse contradict", "one of them"),
        ("bench w.yaml --reuse", "--reuse requires an existing cluster", "--hosts or --cluster"),
        ("bench w.yaml --output w.yaml", "w.yaml: it exists already", "--output"),
        ("bench w.yaml --output w.yaml/run", "w.yaml is not a folder", "--output"),
        ("bench w.yaml --hosts localhost:", "invalid address 'localhost:'", "host:port"),
        ("bench w.yaml --cluster none", "cluster 'none' does not exist", "loadframe cluster up"),
        ("fit /dev/zero", "/dev/zero: this is a device", "give a file or a pipe"),
        ("cluster up " + "a" * 300, "is not a valid cluster name", "up to 41 lower-case letters"),
        ("cluster status ../x", "'../x' is not a valid cluster name", "up to 41 lower-case letters"),
        ("bench w.yaml --hosts 127.0.0.1:99999", "127.0.0.1:99999: invalid port 99999", "from 1 to 65535"),
        ("run e.yaml --output w.yaml", "w.yaml: cannot write to the folder", "--output"),
        ("run e.yaml --output .", ".: the folder is not empty and does not hold an experiment", "--output"),
        ("run e.yaml --dry-run --output w.yaml", "w.yaml: cannot write to the folder", "--output"),
        ("run e.yaml --dry-run --output .", ".: the folder is not empty and does not hold", "--output"),
    ],
)
def test_impossible_requests_give_one_message_before_anything_starts(refused, words, what, remedy):
    said = refused(*words.split())
    assert a_message(said, what=what, remedy=remedy), said


@pytest.mark.parametrize(
    ("file", "old", "new", "what", "remedy"),
    [
        ("w.yaml", "phases:", "phases: [", "w.yaml:9:", ""),
        ("w.yaml", "prepares: true", "prepare: true", "w.yaml:9:18: unknown key 'prepare'", "did you mean 'prepares'?"),
        ("w.yaml", "operation: look", "operation: lok", "w.yaml:10:29", "did you mean 'look'?"),
        ("w.yaml", "{search:", "{serach:", "w.yaml:7:10: unknown key 'serach'", "did you mean 'search'?"),
        ("w.yaml", "corpus: trips", "corpus: tripps", "w.yaml:6:", "did you mean 'trips'?"),
        ("e.yaml", "factors", "factros", "e.yaml:5:1: unknown key 'factros'", "did you mean 'factors'?"),
        ("e.yaml", "clients", "cleints", "e.yaml:5:11: unknown factor 'cleints'", "did you mean 'clients'?"),
        ("e.yaml", "[1, 2]", "[1, -2]", "e.yaml:5:24: a level of clients", ""),
        ("e.yaml", "kind: scale", "\tkind: scale", "e.yaml:4:", ""),
    ],
)
def test_mistakes_in_a_file_are_reported_with_line_and_suggestion(refused, file, old, new, what, remedy):
    Path(file).write_text(Path(file).read_text().replace(old, new, 1))
    said = refused("run", "e.yaml")
    assert a_message(said, what=what, remedy=remedy), said


def test_hosts_that_are_not_there_are_bad_input(refused):
    with socket.create_server(("127.0.0.1", 0)) as server:
        free = server.getsockname()[1]
    said = refused("bench", "w.yaml", "--hosts", f"127.0.0.1:{free}")
    assert a_message(said, what=f"127.0.0.1:{free}: the cluster does not answer", remedy="check that it runs"), said


def test_a_host_whose_name_does_not_resolve_is_bad_input(refused):
    said = refused("check", "w.yaml", "--hosts", "no-such-host.invalid:9200")
    what = "no-such-host.invalid:9200: cannot resolve the host 'no-such-host.invalid'"
    assert a_message(said, what=what, remedy="check its name"), said


def test_other_servers_are_not_clusters(refused):
    class Greeter(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"hello")

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Greeter) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        said = refused("bench", "w.yaml", "--hosts", f"127.0.0.1:{server.server_address[1]}")
        server.shutdown()
    assert a_message(said, what="not a cluster of", remedy="HTTP interface"), said


def test_a_port_in_use_is_named(refused):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        said = refused("cluster", "up", "trial", "--port", port)
    assert a_message(said, what=f"port {port} is in use", remedy="another"), said


@pytest.mark.parametrize("words", ["bench w.yaml", "check w.yaml", "cluster up trial"])
def test_without_java_no_node_starts(refused, monkeypatch, tmp_path, words):
    (tmp_path / "java").mkdir()
    monkeypatch.setenv("LOADFRAME_JAVA_HOME", "java")
    said = refused(*words.split())
    assert a_message(said, what=f"{tmp_path}/java: this folder is not a Java runtime", remedy="LOADFRAME_JAVA_HOME"), (
        said
    )


def test_an_old_java_is_reported_with_its_version(refused, monkeypatch, tmp_path):
    (tmp_path / "java" / "bin").mkdir(parents=True)
    (tmp_path / "java" / "release").write_text('JAVA_VERSION="17.0.1"\n')
    (tmp_path / "java" / "bin" / "java").write_text("#!/bin/sh\n")
    (tmp_path / "java" / "bin" / "java").chmod(0o755)
    monkeypatch.setenv("LOADFRAME_JAVA_HOME", str(tmp_path / "java"))
    said = refused("bench", "w.yaml")
    assert a_message(
        said, what="the store requires Java 21 or newer, but this is 17.0.1", remedy="LOADFRAME_JAVA_HOME"
    ), said


def test_an_experiment_on_an_unsuitable_machine_makes_no_run_and_can_be_repaired(state, monkeypatch):
    monkeypatch.setenv("LOADFRAME_JAVA_HOME", "nowhere")
    done = loadframe("run", "e.yaml")
    assert done.returncode == 2
    assert a_message(done.stderr, what="not a Java runtime", remedy="LOADFRAME_JAVA_HOME"), done.stderr
    assert not Path("results/e").exists()
    Path("e.yaml").write_text(EXPERIMENT.replace("[1, 2]", "[1, 2, 4]"))
    again = loadframe("run", "e.yaml")
    assert "not a Java runtime" in again.stderr, "the folder without runs does not stand in the way of a corrected file"


def test_without_network_the_first_download_is_one_message(refused, cache, monkeypatch):
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy", "LOADFRAME_MAVEN"):
        monkeypatch.delenv(name, raising=False)
    said = refused("bench", "w.yaml")
    assert a_message(said, what="could not reach the package registry", remedy="needs network access"), said
    assert not list(cache.rglob("*.jar*"))


def own_mounts() -> tuple[str, ...]:
    """Return the command prefix that creates a private mount namespace; skip the test if that is not allowed."""
    words = ("unshare", "--mount") if os.geteuid() == 0 else ("unshare", "--mount", "--map-root-user")
    if not shutil.which("unshare") or subprocess.run([*words, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no mount namespaces here")
    return words


def on_a_small_disk(place: Path, size: str, *words: object) -> tuple[int, str, list[str]]:
    """Run a command with a tmpfs of `size` mounted at `place`; return its status, message and the files left there."""
    script = f'mount -t tmpfs -o size={size},mode=755 none "$0" || exit 99\n"$@"\nstatus=$?\nls -A "$0"\nexit $status'
    command = [*own_mounts(), "sh", "-c", script, str(place), str(LOADFRAME), *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stderr, done.stdout.splitlines()


def test_without_room_for_the_stores_software_nothing_is_fetched(state, cache):
    status, said, left = on_a_small_disk(cache, "1m", "bench", "w.yaml")
    assert status == 2
    assert a_message(said, what="not enough disk space: downloading opensearch", remedy="LOADFRAME_CACHE"), said
    assert not any(path.name.endswith(".jar") for path in cache.rglob("*"))
    assert left == ["stores"]


def test_without_room_for_a_nodes_data_none_starts(state):
    status, said, _ = on_a_small_disk(state, "1m", "bench", "w.yaml")
    assert status == 2
    assert a_message(said, what="not enough disk space: starting 1 node needs", remedy="LOADFRAME_STATE"), said


@pytest.mark.store
def test_a_disk_that_fills_up_while_a_run_is_recorded_fails_the_run_and_leaves_no_half(node, folder):
    (folder / "runs").mkdir()
    words = ("bench", "w.yaml", "--hosts", node.addresses[0], "--output", "runs/run")
    status, said, left = on_a_small_disk(folder / "runs", "16k", *words)
    assert status == 1
    assert a_message(said, what="No space left on device", remedy="disk"), said
    assert left == []


@pytest.mark.store
def test_malformed_documents_are_reported_with_their_line(node, refused, state, monkeypatch):
    Path("trips.json").write_text('{"total_amount": 1}\n{"total_amount": 2}\ntotal_amount: 3\n')
    said = refused("bench", "w.yaml", "--hosts", node.addresses[0], "--set", "file=trips.json")
    assert "trips.json:3: the line is not a JSON object" in said
    assert not node.has_collection("trips"), "a second try would find it in its way"


@pytest.mark.store
def test_failed_starts_of_a_store_are_reported_with_the_end_of_its_log(refused):
    said = refused("cluster", "up", "trial", "--set", "no.such.setting=1", status=1)
    what, remedy = "node-0 ended with status 1 while it started; the end of its log:", "correct the setting"
    assert a_message(said, what=what, remedy=remedy), said
    assert "unknown setting [no.such.setting]" in said
