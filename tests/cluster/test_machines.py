"""A cluster on several machines that ssh reaches: kept, grown under load, cut off, and started again with its data."""

import contextlib
import json
import os
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

import commands
from loadframe.cluster import Cluster, ClusterSpec, Placement, transport
from loadframe.errors import BadInput, LoadframeError
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


def test_a_kept_cluster_grows_onto_another_machine_and_comes_back_with_its_data(there):
    up = ("cluster", "up", "spread", "--store", "redis", "--nodes", 3, "--host", "ssh", "--machines", "m1,m2,m3,m4")
    begun = commands.result(*up)
    assert [node["machine"] for node in begun["nodes"]] == ["m1", "m2", "m3"]
    assert begun["deviations"] == []
    assert [node["address"].partition(":")[0] for node in begun["nodes"]] == list(there.addresses.values())[:3]
    assert [len(servers(there, name)) for name in there.addresses] == [1, 1, 1, 0], "they outlive the command"
    assert commands.loadframe("cluster", "grow", "spread").returncode == 0
    grown = commands.result("cluster", "status", "spread")
    assert grown["nodes"][-1]["machine"] == "m4"
    assert len(servers(there, "m4")) == 1
    cluster = Cluster.load("spread")
    for number in range(200):
        write(cluster, f"key-{number}")
    assert kept(cluster) == 200
    assert commands.loadframe("cluster", "down", "spread").returncode == 0
    assert [servers(there, name) for name in there.addresses] == [[]] * 4
    again = commands.result("cluster", "up", "spread")
    assert [node["machine"] for node in again["nodes"]] == ["m1", "m2", "m3", "m4"]
    assert kept(Cluster.load("spread")) == 200
    assert commands.loadframe("cluster", "down", "spread", "--delete-data").returncode == 0
    for name in there.addresses:
        assert there.run(name, "ls", "/var/lib/loadframe/clusters").split() == []


def write(cluster: Cluster, key: str) -> None:
    """Write a key into whichever node has its slot."""
    for address in cluster.addresses:
        with contextlib.suppress(LoadframeError):
            cluster.store.client(address).ask("SET", key, "value")
            return
    raise AssertionError(f"no node takes {key}")


def kept(cluster: Cluster) -> int:
    return sum(int(cluster.store.client(address).ask("DBSIZE")) for address in cluster.addresses)


def test_a_run_on_machines_records_them_their_growth_and_a_cut(there, tmp_path):
    where = ("--store", "redis", "--nodes", 3, "--host", "ssh", "--machines", "m1,m2,m3,m4")
    output = tmp_path / "run"
    load = ("--warmup", "1s", "--duration", "25s", "--clients", 2, "--at", "14s=grow", "--output", output)
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(commands.loadframe, "bench", "ycsb/b", *where, *load)
        until(lambda: any('"b"' in path.read_text() for path in tmp_path.glob(".run*/events.jsonl")), done)
        there.cut("m4")
        time.sleep(7)
        there.restore("m4")
        result = done.result()
    assert result.returncode == 0, result.stderr
    run = Run(output)
    machines = run.manifest.store.machines
    assert [(machine["name"], machine["nodes"]) for machine in machines] == [
        ("m1", ["node-0"]), ("m2", ["node-1"]), ("m3", ["node-2"]), ("m4", []),
    ]  # fmt: skip
    assert [machine["address"] for machine in machines] == list(there.addresses.values())
    events = [json.loads(line) for line in (output / "events.jsonl").read_text().splitlines()]
    gaps = [(event["kind"], event["source"]) for event in events if event.get("source") == "machine:m4"]
    assert gaps == [("gap", "machine:m4"), ("gap over", "machine:m4")]
    assert "has not answered" in next(event["cause"] for event in events if event["kind"] == "gap")
    joined = next(event for event in events if event["kind"] == "node joined")
    assert (joined["nodes"], joined["machines"]) == (["node-3"], "m4")
    sources = set(run.telemetry["source"].to_pylist())
    assert {f"machine:m{number}" for number in range(1, 5)} <= sources
    assert {f"node:node-{number}" for number in range(4)} <= sources
    assert commands.loadframe("report", output, "--output", tmp_path / "report.html").returncode == 0
    assert "m1 (node-0; " in (tmp_path / "report.html").read_text()
    for name in there.addresses:
        until(lambda name=name: not servers(there, name))


def until(condition, done: Future | None = None) -> None:
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end
        assert done is None or not done.done(), done.result().stderr
        time.sleep(0.1)


def test_a_machine_that_crashes_under_load_ends_the_run_as_invalid_and_leaves_nothing(state, tmp_path, monkeypatch):
    with machines(2) as two:
        monkeypatch.setenv("LOADFRAME_SSH", two.ssh)
        where = ("--store", "redis", "--nodes", 2, "--host", "ssh", "--machines", "m1,m2")
        load = ("--warmup", "1s", "--duration", "8s", "--clients", 2, "--output", tmp_path / "run")
        with ThreadPoolExecutor(1) as pool:
            done = pool.submit(commands.loadframe, "bench", "ycsb/b", *where, *load)
            until(lambda: any('"b"' in path.read_text() for path in tmp_path.glob(".run*/events.jsonl")), done)
            time.sleep(2)
            two.crash("m2")
            result = done.result()
        assert "Traceback" not in result.stderr
        summary = json.loads((tmp_path / "run" / "summary.json").read_text())
        verdict = summary["verdict"]
        assert not verdict["valid"]
        assert "m2" in json.dumps(verdict), verdict
        events = [json.loads(line) for line in (tmp_path / "run" / "events.jsonl").read_text().splitlines()]
        assert "machine:m2" in [event.get("source") for event in events if event["kind"] == "gap"]
        until(lambda: not servers(two, "m1"))


def test_what_is_left_of_a_cluster_can_be_stopped_when_a_machine_is_gone(state, monkeypatch):
    with machines(2) as two:
        monkeypatch.setenv("LOADFRAME_SSH", two.ssh)
        words = ("--store", "redis", "--nodes", 2, "--host", "ssh", "--machines", "m1,m2")
        commands.result("cluster", "up", "half", *words)
        two.crash("m2")
        status = commands.result("cluster", "status", "half")
        assert [node["alive"] for node in status["nodes"]] == [True, False]
        assert any("nothing is known of node-1: m2 cannot be reached" in text for text in status["deviations"])
        assert commands.loadframe("cluster", "down", "half").returncode == 0
        assert servers(two, "m1") == []
        two.crash("m1")
        refused = commands.loadframe("cluster", "up", "half")
        assert refused.returncode == 2
        assert "m1: the machine cannot be used: it does not answer" in " ".join(refused.stderr.split())


def test_a_command_that_is_killed_leaves_no_node_on_any_machine(there, tmp_path):
    words = ("bench", "ycsb/b", "--store", "redis", "--host", "ssh", "--machines", "m1", "--duration", "60s")
    command = [commands.LOADFRAME, *words, "--output", tmp_path / "run"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        until(lambda: servers(there, "m1"))
        process.kill()
    until(lambda: not servers(there, "m1"))
    assert there.run("m1", "ls", "/var/lib/loadframe/passing").split() == []


def test_a_placement_that_does_not_fit_is_refused_before_anything_starts(there):
    spec = ClusterSpec(store="redis", nodes=3, host="ssh", machines=("m1", "m2"))
    with pytest.raises(BadInput, match="more nodes are asked for than the machines take, which is 2: m1 1, m2 1"):
        Cluster.start(spec)
    with Cluster.start(replace(spec, machines=("m1",), placement=Placement(3))) as one:
        ports = {node.address for node in one.nodes}
        assert len(ports) == 3
        assert {node.on for node in one.nodes} == {"m1"}
    with pytest.raises(BadInput, match=r"at the same port, so a machine takes one, and m1 would have 2"):
        Cluster.start(replace(spec, store="cassandra", machines=("m1:3", "m2")))
    with pytest.raises(BadInput, match=r"nodes of sim run on this machine alone"):
        Cluster.start(ClusterSpec(store="sim", host="ssh", machines=("m1",)))
    with pytest.raises(BadInput, match=r"say --host ssh"):
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
