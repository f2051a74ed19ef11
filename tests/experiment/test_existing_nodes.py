"""Numbers of nodes on existing clusters, running services as variants, and clusters that are not as expected."""

import json
import re
import shutil
import signal
import stat
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace

import pytest
from test_existing_clusters import WORKLOAD, Witness, carry_out, ledgers

import loadframe.store as stores
from commands import Running, loadframe, open_folder
from loadframe.base.errors import BadInput, StoreFailed
from loadframe.cluster import Cluster, ClusterSpec
from loadframe.cluster.reach import require_protocol
from loadframe.experiment.file.reader import with_keys
from loadframe.experiment.runner import existing
from loadframe.record import Run
from loadframe.store import redis
from loopback_server import Handler, LoopbackServer
from own_servers import POSTGRES, REDIS, Redis, free_port
from rest_service import RestService

pytestmark = [
    pytest.mark.store,
    pytest.mark.skipif(not (REDIS and POSTGRES), reason="redis-server or postgres is not installed"),
]
#: Adds the second server to a Redis Cluster, or removes it; the addresses of both are in the file `nodes`.
SCRIPT = """\
#!{python}
import pathlib, subprocess, sys, time
first, second = pathlib.Path("nodes").read_text().split()

def cli(*words, at=first):
    host, port = at.split(":")
    done = subprocess.run(["redis-cli", "-h", host, "-p", port, *words], capture_output=True, text=True)
    assert done.returncode == 0 and "[ERR]" not in done.stdout, done.stdout + done.stderr
    return done.stdout.strip()

def settle():
    command = ["redis-cli", "--cluster", "check", first]
    while True:
        done = subprocess.run(command, capture_output=True, text=True)
        if "[OK] All nodes agree" in done.stdout and "[OK] All 16384 slots covered" in done.stdout:
            return
        time.sleep(0.1)

def serve(*nodes):
    while any("cluster_state:ok" not in cli("cluster", "info", at=node) for node in nodes):
        time.sleep(0.05)

def move(source, target):
    cli("--cluster", "reshard", first, "--cluster-from", source, "--cluster-to", target, "--cluster-slots", "50",
        "--cluster-yes")
    settle()

if sys.argv[1] == "2":
    cli("--cluster", "add-node", second, first)
    # Each knows the other as a master once the handshake is over.
    while any(cli("cluster", "nodes", at=node).count("master") != 2 for node in (first, second)):
        time.sleep(0.05)
    settle()
    # The new node accepts slots once its own view of the cluster is complete.
    serve(first, second)
    move(cli("cluster", "myid"), cli("cluster", "myid", at=second))
    serve(first, second)
else:
    settle()
    other = cli("cluster", "myid", at=second)
    move(other, cli("cluster", "myid"))
    cli("--cluster", "del-node", first, other)
print(first)
if sys.argv[1] == "2":
    print(second)
"""


@pytest.fixture(autouse=True)
def _state(monkeypatch):
    with open_folder("state") as folder:
        monkeypatch.setenv("LOADFRAME_STATE", str(folder))
        yield


@pytest.fixture
def write(tmp_path):
    """Write an experiment with a `store`; return its path."""

    def write(store: str, text: str, name: str = "e") -> Path:
        (tmp_path / "small.yaml").write_text(WORKLOAD)
        path = tmp_path / f"{name}.yaml"
        path.write_text(f"experiment: {name}\nstore: {store}\nworkload: ./small.yaml\n{dedent(text)}")
        return path

    return write


@pytest.fixture
def ring(tmp_path):
    """Two servers in cluster mode, only the first with slots, and the script that adds the second."""
    with ExitStack() as servers:
        nodes = []
        for name in ("a", "b"):
            folder = tmp_path / name
            folder.mkdir()
            nodes.append(servers.enter_context(Redis(folder, None, "--cluster-enabled", "yes")))
        nodes[0].ask("CLUSTER", "ADDSLOTSRANGE", "0", "16383")
        while "cluster_state:ok" not in nodes[0].ask("CLUSTER", "INFO"):
            time.sleep(0.05)
        (tmp_path / "nodes").write_text(" ".join(node.address for node in nodes))
        script = tmp_path / "scale.py"
        script.write_text(SCRIPT.replace("{python}", sys.executable))
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
        yield nodes


@pytest.mark.parametrize("ages", [False, True])
def test_the_users_command_changes_the_number_of_nodes(ring, write, monkeypatch, ages):
    monkeypatch.setattr(redis.Redis, "ages", ages)
    store = {"kind": "redis", "hosts": ring[0].address, "scale_command": "./scale.py {nodes}"}
    witness = Witness()
    runs = carry_out(write(json.dumps(store), "kind: scale\nprepare: once\nfactors: {nodes: [1, 2]}\n"), witness)
    assert [run.summary.failure for run in runs] == [None, None]
    assert {run.raw_manifest["store"]["nodes"]: len(run.raw_manifest["store"]["addresses"]) for run in runs} == {
        1: 1,
        2: 2,
    }
    assert all(run.raw_manifest["store"]["documents"] == {"things": 200} for run in runs)
    assert witness.heard.count("phase fill") == 1
    remarks = [text for text in witness.heard if "the start times of its nodes cannot be observed" in text]
    assert len(remarks) == ages, "a redis gives no start time that analyses know"
    assert "cluster_known_nodes:1" in ring[0].ask("CLUSTER", "INFO").split(), "the number of nodes is restored"
    assert ring[0].foreign() == [] and not ledgers()


def test_an_elastic_experiment_adds_a_node_with_the_users_command(ring, write):
    text = """\
    kind: elastic
    transitions: {more: {timeline: [{at: 1s, add: 1}]}}
    loads: {few: {clients: 1}}
    duration: 30s
    window: 5s
    control: false
    """
    store = {"kind": "redis", "hosts": ring[0].address, "nodes": 1, "scale_command": "./scale.py {nodes}"}
    (run,) = carry_out(write(json.dumps(store), text), Witness())
    assert run.summary.failure is None
    kinds = [event["kind"] for event in run.events]
    assert "change failed" not in kinds, json.dumps(run.events)
    assert "node joined" in kinds
    assert kinds.index("node requested") < kinds.index("node joined") < kinds.index("cluster balanced")
    assert run.summary.status == "done"
    assert "cluster_known_nodes:1" in ring[0].ask("CLUSTER", "INFO").split(), "the number of nodes is restored"
    assert ring[0].foreign() == [] and not ledgers()


def test_an_interrupt_restores_the_number_of_nodes(ring, write, tmp_path):
    store = {"kind": "redis", "hosts": ring[0].address, "scale_command": "./scale.py {nodes}"}
    path = write(json.dumps(store), "kind: scale\nfactors: {nodes: [2], clients: [1, 2]}\nduration: 60s\n")
    with Running("run", path, "--output", tmp_path / "e", folder=tmp_path) as running:
        running.wait_for("phase look")
        assert "cluster_known_nodes:2" in ring[0].ask("CLUSTER", "INFO").split()
        status, _ = running.send(signal.SIGINT)
    assert status == 130
    assert "cluster_known_nodes:1" in ring[0].ask("CLUSTER", "INFO").split()
    assert ring[0].foreign() == [] and not ledgers()


def test_a_command_without_an_effect_fails_the_runs_that_need_it(ring, write, tmp_path):
    (tmp_path / "scale.py").write_text("#!/bin/sh\nexit 0\n")
    store = {"kind": "redis", "hosts": ring[0].address, "scale_command": "./scale.py {nodes}", "scale_within": "2s"}
    path = write(json.dumps(store), "kind: scale\nfactors: {nodes: [1, 2]}\n")
    done = loadframe("run", path, "--output", path.with_suffix(""))
    assert done.returncode == 1 and "Traceback" not in done.stderr
    runs = {path.name: Run(path) for path in (path.with_suffix("") / "runs").iterdir() if not path.name.startswith(".")}
    assert runs["b1-nodes1"].summary.status == "done"
    assert runs["b1-nodes2"].summary.status == "failed"
    assert "the cluster has 1 node, not 2, 2 s after the start of ./scale.py 2" in str(
        runs["b1-nodes2"].summary.failure
    )


def test_a_named_cluster_is_filled_once_and_started_with_other_numbers_of_nodes(write, tmp_path):
    cluster = Cluster.start(ClusterSpec(store="redis", nodes=2, settings={"cluster": True}, name="docs"))
    try:
        cluster.keep()
        witness = Witness()
        text = "kind: scale\nprepare: once\nfactors: {nodes: [1, 2, 3]}\n"
        runs = carry_out(write("{cluster: docs, data: keep}", text), witness)
        assert sorted(run.raw_manifest["store"]["nodes"] for run in runs) == [1, 2, 3]
        for run in runs:
            assert run.raw_manifest["store"]["documents"] == {"things": 200}
            assert (run.raw_manifest["store"]["name"], run.raw_manifest["store"]["existing"]) == ("docs", True)
        assert witness.heard.count("phase fill") == 1
        assert (Cluster.recorded("docs").nodes, Cluster.runs("docs")) == (2, True)
        # A stopped cluster keeps the data, and another experiment uses and then removes it.
        Cluster.load("docs").stop()
        witness = Witness()
        carry_out(write("{cluster: docs}", "kind: scale\nprepare: once\nfactors: {clients: [1, 2]}\n", "next"), witness)
        assert "phase fill" not in witness.heard
        assert (Cluster.recorded("docs").nodes, Cluster.runs("docs")) == (2, False)
        assert not ledgers()
        with Cluster.start(Cluster.recorded("docs")) as again:
            assert sum(figures["keys"] for figures in again.statistics().values()) == 0
    finally:
        if Cluster.runs("docs"):
            Cluster.load("docs").stop()


def test_each_number_of_nodes_is_warmed_once_although_the_data_are_kept(ring, write):
    store = {"kind": "redis", "hosts": ring[0].address, "scale_command": "./scale.py {nodes}", "data": "keep"}
    witness = Witness()
    text = """\
    kind: capacity
    prepare: [fill, look]
    measure: look
    slo: {response: 5s}
    search: {start: 50, most: 100, precision: 50%}
    factors: {nodes: [1, 2]}
    duration: 100ms
    """
    runs = carry_out(write(json.dumps(store), text), witness)
    assert {run.raw_manifest["store"]["nodes"] for run in runs} == {1, 2}
    assert witness.heard.count("phase fill") == 1
    # `look` warms the store before the first trial of each search.
    assert witness.heard.count("phase look") == len(runs) + 2


@pytest.mark.parametrize("running", [True, False])
def test_recorded_answers_are_not_repeated_for_a_cluster_with_other_nodes(write, tmp_path, running):
    with Cluster.start(ClusterSpec(store="redis", nodes=1, settings={"cluster": True}, name="grown")) as cluster:
        cluster.keep()
        experiment = write("{cluster: grown}", "kind: scale\nprepare: once\nfactors: {clients: [1, 2]}\n")
        carry_out(experiment, Witness())
        again = Witness()
        carry_out(experiment, again)
        assert again.heard == ["all 2 runs are already recorded"]
        try:
            Cluster.load("grown").grow(1)
            if not running:
                Cluster.load("grown").stop()
            with pytest.raises(BadInput, match=r"1 node → .*2 nodes") as refused:
                carry_out(experiment, Witness())
            assert "--output" in str(refused.value.remedy)
        finally:
            if Cluster.runs("grown"):
                Cluster.load("grown").stop()


def test_running_services_are_variants_of_a_comparison(tmp_path):
    (tmp_path / "rest.yaml").write_text(
        "workload: rest\n"
        "operations: {login: {http: {method: POST, path: /login, body: {user: ann}}}}\n"
        "phases: [{name: login, operation: login, clients: 1, duration: 300ms}]\n"
    )
    with RestService() as old, RestService(delay=0.01) as new:
        (tmp_path / "e.yaml").write_text(
            "experiment: e\nstore: {kind: http}\nworkload: ./rest.yaml\nkind: compare\nrepetitions: 2\n"
            f"variants: {{old: {{store.hosts: {old.address}}}, new: {{store.hosts: {new.address}}}}}\n"
        )
        runs = carry_out(tmp_path / "e.yaml", Witness())
        hosts = {run.raw_manifest["treatment"]["variant"]: run.raw_manifest["store"]["addresses"] for run in runs}
        assert hosts == {"old": [old.address], "new": [new.address]}
        assert len(old.logins) > len(new.logins) > 0
    assert not ledgers()


class LoginPage(Handler):
    """A web server that answers every request with a login page."""

    def do_GET(self) -> None:
        text = b"<html><title>Log in</title></html>"
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


CLIENTS = "kind: scale\nfactors: {clients: [1, 2]}\n"


@pytest.fixture
def refused(write):
    """Run an experiment that must end with status 2 and one message; return the message."""

    def refused(store: str, text: str = CLIENTS) -> str:
        path = write(store, text)
        done = loadframe("run", path, "--output", path.with_suffix(""))
        assert done.returncode == 2, done.stderr
        assert "Traceback" not in done.stderr and len(re.findall("^loadframe: ", done.stderr, re.MULTILINE)) == 1
        assert not list((path.with_suffix("") / "runs").glob("*")) if path.with_suffix("").exists() else True
        assert not ledgers()
        return done.stderr

    return refused


def test_clusters_that_are_not_as_expected_are_refused_before_the_first_run(refused, tmp_path):
    with Redis(tmp_path) as server, LoopbackServer(LoginPage) as page:
        closed = f"127.0.0.1:{free_port()}"
        assert f"cannot connect to {closed}" in refused(f"{{kind: redis, hosts: [{server.address}, {closed}]}}")
        assert "cluster runs redis 7" in refused(f"{{kind: redis, version: '6.2', hosts: {server.address}}}")
        assert "the cluster has 1 node, not 3" in refused(f"{{kind: redis, nodes: 3, hosts: {server.address}}}")
        assert "not a cluster of Elasticsearch or OpenSearch" in refused(f"{{kind: opensearch, hosts: {page.address}}}")
        for kind in ("redis", "postgresql", "mongodb"):
            access = ", user: a, password_file: nodes" if kind == "postgresql" else ""
            (tmp_path / "nodes").write_text("secret")
            refused(f"{{kind: {kind}, hosts: {page.address}{access}}}")
        assert "speaks the protocol of redis, not HTTP" in refused(f"{{kind: opensearch, hosts: {server.address}}}")
        assert server.foreign() == []


class WithoutTls(Handler):
    """A server that answers a request for TLS as PostgreSQL does, and closes connections with other requests."""

    def handle(self) -> None:
        if self.connection.recv(64) == bytes.fromhex("0000000804d2162f"):
            self.connection.sendall(b"N")


def test_another_product_is_recognized_by_its_protocol(tmp_path):
    with Redis(tmp_path) as server, LoopbackServer(LoginPage) as page, LoopbackServer(WithoutTls) as other:
        spoken = {"redis": server.address, "postgresql": other.address, "HTTP": page.address}
        for kind in ("opensearch", "couchbase", "redis", "postgresql", "mongodb", "cassandra"):
            store = stores.find(kind)
            for protocol, address in spoken.items():
                if protocol in (kind, "HTTP" if store.speaks_http else ""):
                    require_protocol(store, [address])
                    continue
                with pytest.raises(BadInput, match=f"this server speaks .*{protocol}, not .*") as refused:
                    require_protocol(store, [address])
                assert refused.value.where == address and "--store" in str(refused.value.remedy)
        require_protocol(stores.find("redis"), [f"127.0.0.1:{free_port()}"])


def test_messages_name_keys_of_the_file_and_no_options(refused, tmp_path):
    (tmp_path / "password").write_text("wrong")
    with Redis(tmp_path) as server:
        assert server.ask("CONFIG", "SET", "requirepass", "s3cret") == "OK"
        hosts = f"kind: redis, hosts: {server.address}"
        for access, key in (
            ("", "give store.user"),
            (", user: default", "give store.password_file"),
            (", user: default, password_file: password", "check store.user default and the password in"),
            (", user: 'a:b'", "store.user: a user name"),
            (", key: password", "store.key requires store.cert"),
        ):
            said = refused(f"{{{hosts}{access}}}")
            assert key in said and not re.search(r"--(user|password|cert|key)", said), said


def test_commands_in_messages_keep_their_options():
    error = StoreFailed("add --per-machine 2", where="--hosts", remedy="see `loadframe cluster up a --cpus 1`, --cpus")
    with_keys(error)
    assert str(error) == (
        "store.hosts: add store.placement.per_machine 2\n  see `loadframe cluster up a --cpus 1`, store.limits.cpus"
    )
    error = StoreFailed("start it with --set cluster=true or --retry-failed")
    with_keys(error)
    assert error.what == "start it with store.settings: {cluster: true} or --retry-failed"


def test_what_cannot_be_set_is_refused_by_name_and_place(refused, tmp_path):
    with Redis(tmp_path) as server:
        hosts = f"{{kind: redis, hosts: {server.address}}}"

        def said(factors: str) -> str:
            return refused(hosts, f"kind: scale\nfactors: {{{factors}}}\n")

        assert "nodes cannot be a factor" in said("nodes: [1, 2]")
        assert "store.limits.cpus cannot be a factor" in said("store.limits.cpus: [0.5, 1]")
        assert "the server does not have the parameter no-such" in said("store.settings.no-such: [1, 2]")
        assert "databases" in said("store.settings.databases: [4, 8]")
        assert "e.yaml:5" in refused(
            hosts, "kind: scale\nclients: '${2 * nodes}'\nfactors: {with.documents: [10, 20]}\n"
        )
        assert "limits cannot be set" in refused(
            f"{{kind: redis, hosts: {server.address}, limits: {{cpus: 1}}}}", CLIENTS
        )
        assert "prepare: once requires an existing cluster" in refused("{kind: redis}", f"prepare: once\n{CLIENTS}")
        assert "cannot execute ./absent.sh" in refused(
            json.dumps({"kind": "redis", "hosts": server.address, "scale_command": "./absent.sh {nodes}"})
        )


def test_a_cluster_that_disappears_ends_the_experiment_and_loses_no_run(write, tmp_path):
    with Redis(tmp_path) as server:
        path = write(f"{{kind: redis, hosts: {server.address}}}", f"{CLIENTS}duration: 5s\n")
        output = path.with_suffix("")
        with Running("run", path, "--output", output, folder=tmp_path) as running:
            running.wait_for("run 1 of 2", "phase look")
            server.kill()
            assert running.process.wait(120) == 1
            said = running.stderr
        assert "the cluster is lost: cannot connect to" in said and "Traceback" not in said
        (ledger,) = ledgers()
        (collection,) = json.loads(ledger.read_text())["collections"]
        assert f"refused. It still has the collections {collection}\n" in said and "could not restore" not in said
        assert f"repair it, then run `loadframe run {path} --output {output}`, which cleans it up, keeps" in said
        (recorded,) = [path for path in (output / "runs").iterdir() if path.name[0] != "."]
        assert Run(recorded).summary.phases, "the data before the failure is kept"
        server.start()
        done = loadframe("run", path, "--output", output)
        assert "resuming: 1 of 2" in done.stderr
        assert Run(output / "runs" / "b1-clients1").summary.status == "done"
        assert Run(output / "runs" / "b1-clients2").summary.status == "done"
        assert server.foreign() == [] and not ledgers()


def test_a_cluster_that_answers_at_the_last_attempt_serves_the_remaining_runs(write, tmp_path, monkeypatch):
    with Redis(tmp_path) as server:
        looks, pauses = [], []

        def at_look():
            looks.append(1)
            if len(looks) == 1:
                server.kill()

        def pause(seconds):
            pauses.append(seconds)
            if len(pauses) == existing._ATTEMPTS - 1:
                server.start()

        monkeypatch.setattr(existing, "time", SimpleNamespace(sleep=pause))
        runs = carry_out(write(f"{{kind: redis, hosts: {server.address}}}", CLIENTS), Witness(at_look))
        assert len(pauses) == existing._ATTEMPTS - 1
        assert runs[1].summary.status == "done"
        assert server.foreign() == [] and not ledgers()


def test_a_cluster_that_cannot_be_restored_fails_the_command_and_repeating_it_cleans_up(write, tmp_path):
    with Redis(tmp_path) as server:
        text = "kind: scale\nfactors: {store.settings.hz: [20], clients: [1, 2]}\nduration: 3s\n"
        path = write(f"{{kind: redis, hosts: {server.address}}}", text)
        words = ("run", str(path), "--output", str(tmp_path / "e"))
        with Running(*words, folder=tmp_path) as running:
            running.wait_for("run 2 of 2", "phase look")
            assert server.ask("ACL", "SETUSER", "default", "-config|set", "-unlink", "-del") == "OK"
            assert running.process.wait(120) == 1
            said = running.stderr
        assert f"could not restore {server.address}: " in said and "Traceback" not in said
        (ledger,) = ledgers()
        (collection,) = json.loads(ledger.read_text())["collections"]
        assert f"It still has the collections {collection}, and the changed settings hz" in said
        assert f"`loadframe {' '.join(words)}`" in said
        assert (tmp_path / "e" / "report.html").exists(), "the runs are reported"
        # Without the privilege, the command fails again. With it, the command cleans up and runs nothing.
        assert loadframe(*words).returncode == 2
        assert server.foreign() and len(ledgers()) == 1
        server.ask("ACL", "SETUSER", "default", "+@all")
        done = loadframe(*words)
        assert done.returncode == 0, done.stderr
        assert "all 2 runs are already recorded" in done.stderr and f"dropping {collection}" in done.stderr
        assert "hz\n10" in server.ask("CONFIG", "GET", "hz")
        assert server.foreign() == [] and not ledgers()


def test_what_can_be_restored_is_restored_although_a_setting_cannot(write, tmp_path):
    with Redis(tmp_path) as server:
        text = "kind: scale\nfactors: {store.settings.hz: [20], clients: [1, 2]}\n"
        witness = Witness(lambda: server.ask("ACL", "SETUSER", "default", "-config|set"))
        with pytest.raises(existing.NotRestored, match="It still has the changed settings hz"):
            carry_out(write(f"{{kind: redis, hosts: {server.address}}}", text), witness)
        assert server.foreign() == [], "the collection is dropped"
        (ledger,) = ledgers()
        listed = json.loads(ledger.read_text())
        assert (listed["collections"], list(listed["settings"])) == ([], ["hz"])


def test_two_experiments_do_not_share_a_cluster(write, tmp_path, refused):
    with Redis(tmp_path) as server:
        store = f"{{kind: redis, hosts: {server.address}}}"
        path = write(store, f"{CLIENTS}duration: 60s\n", "first")
        with Running("run", path, "--output", tmp_path / "first", folder=tmp_path) as running:
            running.wait_for("phase look")
            other = write(store, CLIENTS, "second")
            done = loadframe("run", other, "--output", tmp_path / "second")
            assert done.returncode == 2 and "another experiment is using this cluster" in done.stderr
            running.send(signal.SIGINT)
        assert server.foreign() == [] and not ledgers()


def test_the_name_of_a_cluster_and_its_addresses_are_the_same_cluster(write, tmp_path):
    cluster = Cluster.start(ClusterSpec(store="redis", name="docs"))
    try:
        cluster.keep()
        (tmp_path / "password").write_text(str(cluster.access.auth and cluster.access.auth.secret))
        (tmp_path / "password").chmod(0o600)
        hosts = f"{{kind: redis, hosts: '{cluster.addresses[0]}', user: default, password_file: password}}"
        slow = f"{CLIENTS}duration: 60s\n"
        for first, second in (("{cluster: docs}", hosts), (hosts, "{cluster: docs}")):
            with Running("run", write(first, slow, "a"), "--output", tmp_path / "a", folder=tmp_path) as running:
                running.wait_for("phase look")
                done = loadframe("run", write(second, CLIENTS, "b"), "--output", tmp_path / "b")
                assert done.returncode == 2 and "another experiment is using this cluster" in done.stderr
                running.process.kill()
                running.process.wait()
            # The leftovers of the killed command are removed by the other name.
            witness = Witness()
            carry_out(write(second, CLIENTS, "c"), witness)
            assert any("removing leftovers" in text for text in witness.heard)
            assert not ledgers()
            assert sum(figures["keys"] for figures in cluster.statistics().values()) == 0
            for name in ("a", "c"):
                shutil.rmtree(tmp_path / name)
    finally:
        Cluster.load("docs").stop()
