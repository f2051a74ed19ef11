"""A cluster on several machines that ssh reaches: kept, grown under load, cut off, and started again with its data."""

import contextlib
import json
import os
import platform
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import commands
from loadframe.base.errors import BadInput, LoadframeError
from loadframe.cluster import Cluster, ClusterSpec, Limits, Placement, named, transport
from loadframe.host import files
from loadframe.record import Run
from machines import Machines, machines, obstacle

OBSTACLE = obstacle()
pytestmark = pytest.mark.skipif(OBSTACLE is not None, reason=f"no machines here: {OBSTACLE}")


@pytest.fixture(scope="module")
def there() -> Iterator[Machines]:
    """Four machines for all tests of this module."""
    with machines(4) as four:
        yield four


@pytest.fixture(autouse=True)
def reached(there: Machines, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have commands find the machines."""
    monkeypatch.setenv("LOADFRAME_SSH", there.ssh)


def servers(there: Machines, name: str) -> list[str]:
    return [line for line in there.processes(name) if "redis-server" in line]


@pytest.mark.slow
def test_a_kept_cluster_grows_onto_another_machine_and_comes_back_with_its_data(there):
    everywhere = ("m1", "m2", "m3", "m4")
    up = ("cluster", "up", "spread", "--store", "redis", "--nodes", 3, "--host", "ssh")
    begun = commands.result(*up, "--machines", ",".join(everywhere))
    assert [node["machine"] for node in begun["nodes"]] == ["m1", "m2", "m3"]
    assert begun["deviations"] == []
    assert [node["address"].partition(":")[0] for node in begun["nodes"]] == list(there.addresses.values())[:3]
    assert [len(servers(there, name)) for name in everywhere] == [1, 1, 1, 0], "they outlive the command"
    with Cluster.load("spread") as cluster:
        cluster.grow()
        assert cluster.nodes[-1].on == "m4"
        assert len(servers(there, "m4")) == 1
        for number in range(200):
            write(cluster, f"key-{number}")
        assert kept(cluster) == 200
        cluster.stop()
    assert [servers(there, name) for name in everywhere] == [[]] * 4
    spec = ClusterSpec(store="redis", name="spread", nodes=4, host="ssh", machines=everywhere)
    with Cluster.start(spec) as again:
        assert tuple(node.on for node in again.nodes) == everywhere
        assert kept(again) == 200
    named.delete("spread")
    for name in everywhere:
        assert there.run(name, "ls", "/var/lib/loadframe/clusters").split() == []


def test_requirements_of_machines_are_checked_before_fetching_or_copying(there):
    limits = Limits(memory=200 * 2**20)
    spec = ClusterSpec(store="opensearch", host="ssh", machines=("m1",), limits=limits)
    said = []
    with pytest.raises(BadInput, match=r"a heap of .* leaves too little memory of a node's 200 MiB") as refused:
        Cluster.require(spec, said.append)
    assert refused.value.where == "m1"
    assert said == []


def write(cluster: Cluster, key: str) -> None:
    """Write a key into whichever node has its slot."""
    for address in cluster.addresses:
        with contextlib.suppress(LoadframeError):
            cluster.store.client(address).ask("SET", key, "value")
            return
    raise AssertionError(f"no node takes {key}")


def kept(cluster: Cluster) -> int:
    return sum(int(cluster.store.client(address).ask("DBSIZE")) for address in cluster.addresses)


@pytest.mark.slow
def test_a_run_on_machines_records_them_their_growth_and_a_cut(there, tmp_path):
    where = ("--store", "redis", "--nodes", 3, "--host", "ssh", "--machines", "m1,m2,m3,m4")
    load = ("--warmup", "1s", "--duration", "200s", "--clients", 2, "--at", "1s=grow", "--output", tmp_path / "run")
    with commands.Running("bench", "ycsb/b", *where, *load, folder=tmp_path) as bench:
        happens(bench, tmp_path, "cluster balanced")
        there.cut("m2")
        happens(bench, tmp_path, "gap", source="machine:m2")
        there.restore("m2")
        happens(bench, tmp_path, "gap over", source="machine:m2")
        happens(bench, tmp_path, "gap over", source="node:node-1")
        bench.send(signal.SIGINT)
    run = Run(tmp_path / "run")
    machines = run.manifest.store.machines
    assert [(machine["name"], machine["nodes"]) for machine in machines] == [
        ("m1", ["node-0"]), ("m2", ["node-1"]), ("m3", ["node-2"]), ("m4", []),
    ]  # fmt: skip
    assert [machine["address"] for machine in machines] == list(there.addresses.values())
    assert "has not answered" in next(event["cause"] for event in run.events if event["kind"] == "gap")
    joined = next(event for event in run.events if event["kind"] == "node joined")
    assert (joined["nodes"], joined["machines"]) == (["node-3"], "m4")
    assert "the machine m2 did not answer for" in json.dumps([r.cause for r in run.summary.verdict.reasons])
    places = set(zip(run.telemetry["source"].to_pylist(), run.telemetry["machine"].to_pylist(), strict=True))
    assert {(f"machine:m{number}", f"m{number}") for number in range(1, 5)} <= places
    assert {(f"node:node-{number}", f"m{number + 1}") for number in range(4)} <= places
    assert {("host", platform.node()), ("generator:0", platform.node()), ("cluster", None)} <= places
    assert commands.within("report", tmp_path / "run", "--output", tmp_path / "report.html")[0] == 0
    assert "m1 (node-0; " in (tmp_path / "report.html").read_text()
    for name in there.addresses:
        until(lambda name=name: not servers(there, name))


def happens(bench: commands.Running, parent: Path, kind: str, **what: str) -> None:
    """Wait until the run that is being recorded has such an event."""

    def there() -> bool:
        assert bench.process.poll() is None, bench.stderr
        lines = [line for path in parent.glob(".run*/events.jsonl") for line in path.read_text().split("\n")[:-1]]
        return any(json.loads(line).items() >= {"kind": kind, **what}.items() for line in lines)

    until(there)


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + commands.PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.mark.slow
def test_a_machine_that_crashes_under_load_makes_the_run_invalid_and_leaves_nothing(state, tmp_path, monkeypatch):
    with machines(2) as two:
        monkeypatch.setenv("LOADFRAME_SSH", two.ssh)
        where = ("--store", "redis", "--nodes", 2, "--host", "ssh", "--machines", "m1,m2")
        load = ("--warmup", "1s", "--duration", "200s", "--clients", 2, "--output", tmp_path / "run")
        with commands.Running("bench", "ycsb/b", *where, *load, folder=tmp_path) as bench:
            happens(bench, tmp_path, "phase started", phase="b")
            two.crash("m2")
            happens(bench, tmp_path, "gap", source="machine:m2")
            bench.send(signal.SIGINT)
        assert "Traceback" not in bench.stderr
        verdict = Run(tmp_path / "run").summary.verdict
        assert not verdict.valid
        assert "m2" in json.dumps([reason.cause for reason in verdict.reasons])
        until(lambda: not servers(two, "m1"))


@pytest.mark.slow
def test_the_rest_of_a_cluster_can_be_stopped_when_a_machine_is_gone(state, monkeypatch):
    with machines(2) as two:
        monkeypatch.setenv("LOADFRAME_SSH", two.ssh)
        up = ("cluster", "up", "half", "--store", "redis", "--nodes", 2)
        commands.result(*up, "--host", "ssh", "--machines", "m1,m2")
        two.crash("m2")
        with Cluster.load("half") as half:
            assert [node.alive for node in half.nodes] == [True, False]
            assert any("the state of node-1 is unknown: could not connect to m2" in text for text in half.deviations())
            half.stop()
        assert servers(two, "m1") == []
        two.crash("m1")
        refused = commands.loadframe("cluster", "up", "half")
        assert refused.returncode == 2
        assert "m1: could not connect: it does not answer" in " ".join(refused.stderr.split())


@pytest.mark.slow
def test_a_command_that_is_killed_leaves_no_node_on_any_machine(there, tmp_path):
    words = ("bench", "ycsb/b", "--store", "redis", "--host", "ssh", "--machines", "m1", "--duration", "60s")
    command = [commands.LOADFRAME, *words, "--output", tmp_path / "run"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        until(lambda: servers(there, "m1"))
        process.kill()
    until(lambda: not servers(there, "m1"))
    assert there.run("m1", "ls", "/var/lib/loadframe/passing").split() == []


@pytest.mark.slow
def test_a_placement_that_does_not_fit_is_refused_before_anything_starts(there):
    spec = ClusterSpec(store="redis", nodes=3, host="ssh", machines=("m1", "m2"))
    with pytest.raises(BadInput, match="the machines have slots for only 2 nodes: m1 1, m2 1"):
        Cluster.start(spec)
    with Cluster.start(replace(spec, machines=("m1",), placement=Placement(3))) as one:
        ports = {node.address for node in one.nodes}
        assert len(ports) == 3
        assert {node.on for node in one.nodes} == {"m1"}
    with pytest.raises(BadInput, match=r"all use the same port, so a machine runs only one, but m1 would run 2"):
        Cluster.start(replace(spec, store="cassandra", machines=("m1:3", "m2")))
    with pytest.raises(BadInput, match=r"nodes of sim run only on this machine"):
        Cluster.start(ClusterSpec(store="sim", host="ssh", machines=("m1",)))
    with pytest.raises(BadInput, match=r"add --host ssh"):
        ClusterSpec(machines=("m1",)).place()


def test_software_is_copied_where_it_is_not_and_not_again(there, tmp_path):
    place = tmp_path / "software"
    (place / "bin").mkdir(parents=True)
    (place / "bin" / "server").write_bytes(os.urandom(3_000_000))
    (place / "bin" / "server").chmod(0o755)
    (place / "link").symlink_to("bin/server")
    spec = ClusterSpec(store="redis", host="ssh", machines=("m1", "m2"))
    machines = spec.place().machines
    told: list[str] = []
    # This machine's files are theirs as well, so it is found, where it is reachable.
    users = {"m1": None, "m2": None}
    assert transport.bring(machines, place, "software", users, told.append) == {"m1": place, "m2": place}
    assert told == []
    hidden = Path(__file__).parent
    for times in (1, 2):
        brought = transport.bring(machines, hidden, "tests", users, told.append)
        assert len(told) == 2, f"copied once, asked for {times} times"
        for machine in machines:
            there_too = brought[machine.hostname] / Path(__file__).name
            assert machine.call(files.read, there_too) == Path(__file__).read_text()
