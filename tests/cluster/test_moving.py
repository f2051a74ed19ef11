"""Restart of a stopped cluster on other machines, which share no files with the old ones."""

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import PurePath

import pytest

from commands import loadframe, result
from documents import compare, write
from loadframe.base.errors import BadInput, LoadframeError
from loadframe.cluster import Cluster, ClusterSpec, moving, named
from loadframe.host.placement import Placement
from loadframe.host.ssh import SshHost
from loadframe.store import find
from machines import Machines, machines, obstacle

SERVER = shutil.which("redis-server") or shutil.which("valkey-server")
pytestmark = [
    pytest.mark.store,
    pytest.mark.skipif(SERVER is None, reason="neither redis-server nor valkey-server is installed"),
    pytest.mark.skipif(obstacle() is not None, reason=f"no machines here: {obstacle()}"),
]
DOCUMENTS = 500
#: Folder of clusters on each machine.
PLACE = "/var/lib/loadframe/clusters"


@pytest.fixture(scope="module")
def there(module_state) -> Iterator[Machines]:
    with machines(5) as running, pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOADFRAME_SSH", running.ssh)
        yield running


def on(*names: str, nodes: int = 3, name: str = "moving") -> ClusterSpec:
    return ClusterSpec(store="redis", name=name, nodes=nodes, host="ssh", machines=names)


def ids(cluster: Cluster) -> dict[str, str]:
    """Return by which each node is known to the others, wherever it is."""
    return {node.name: cluster.store.client(node.address).ask("CLUSTER", "MYID") for node in cluster.nodes}


def kept(there: Machines, machine: str) -> list[str]:
    """Return the folders of nodes that a machine has."""
    listed = there.run(machine, "find", PLACE, "-mindepth", "2", "-maxdepth", "2", "||", "true").split()
    return [PurePath(path).name for path in listed]


def test_three_nodes_become_four_elsewhere_and_three_again_with_each_document(there):
    with Cluster.start(on("m1", "m2", "m3")) as first:
        first.create_collection("things", {})
        write(first, "things", DOCUMENTS)
        known, was_at = ids(first), set(first.addresses)
    lines: list[str] = []
    with Cluster.start(on("m4:2", "m5:2", nodes=4), lines.append) as second:
        assert [node.on for node in second.nodes] == ["m4", "m5", "m4", "m5"]
        assert not was_at & set(second.addresses)
        assert {name: ids(second)[name] for name in known} == known
        compare(second, "things", DOCUMENTS)
        assert second.deviations() == []
        assert min(node["slots"] for node in second.statistics().values()) == 4096
    assert sum("copying the data of" in line for line in lines) == 3
    assert [kept(there, name) for name in ("m1", "m2", "m3")] == [[], [], []]
    assert sorted(kept(there, "m4") + kept(there, "m5")) == ["node-0", "node-1", "node-2", "node-3"]
    with Cluster.start(on("m3", "m1", "m2")) as third:
        assert [node.on for node in third.nodes] == ["m3", "m1", "m2"]
        assert ids(third) == known
        compare(third, "things", DOCUMENTS)
        assert third.deviations() == []
    assert kept(there, "m4") + kept(there, "m5") == []
    # No copy if the cluster stays on its machines.
    lines.clear()
    with Cluster.start(on("m2", "m1", "m3"), lines.append) as again:
        assert [node.on for node in again.nodes] == ["m3", "m1", "m2"]
        compare(again, "things", DOCUMENTS)
    named.delete("moving")
    assert not [line for line in lines if "copying the data" in line]


def test_from_this_machine_to_others_and_back_by_the_commands_of_the_docs(there):
    result("cluster", "up", "abroad", "--store", "redis", "--nodes", 2, "--set", "cluster-node-timeout=6000")
    with Cluster.load("abroad") as cluster:
        cluster.create_collection("things", {})
        write(cluster, "things", DOCUMENTS)
    result("cluster", "down", "abroad")
    elsewhere = result("cluster", "up", "abroad", "--nodes", 3, "--host", "ssh", "--machines", "m1,m2,m3")
    assert (elsewhere["state"], elsewhere["size"]) == ("running", 3)
    assert elsewhere["settings"] == {"cluster-node-timeout": 6000}
    assert not list(named.folder_of("abroad").glob("node-*"))
    with Cluster.load("abroad") as abroad:
        assert [node.on for node in abroad.nodes] == ["m1", "m2", "m3"]
        compare(abroad, "things", DOCUMENTS)
    result("cluster", "down", "abroad", "--bring-home")
    assert [kept(there, name) for name in ("m1", "m2", "m3")] == [[], [], []]
    back = result("cluster", "status", "abroad")
    assert (back["state"], back["host"], back["size"]) == ("stopped", "local", 3)
    result("cluster", "up", "abroad", "--nodes", 2)
    with Cluster.load("abroad") as home:
        compare(home, "things", DOCUMENTS)
    result("cluster", "down", "abroad", "--delete-data")
    assert not named.folder_of("abroad").exists()


def test_a_start_elsewhere_that_fails_leaves_the_cluster_where_it_was(there):
    with Cluster.start(on("m1", "m2", nodes=2, name="back")) as cluster:
        cluster.create_collection("things", {})
        write(cluster, "things", DOCUMENTS)
    before = named.existing("back")
    wrong = replace(on("m4", "m5", nodes=2, name="back"), settings={"no-such-parameter": "1"})
    with pytest.raises(LoadframeError, match="no-such-parameter"):
        Cluster.start(wrong)
    after = named.existing("back")
    assert (after.spec, after.facts) == (before.spec, before.facts)
    assert [(node.on, node.folder) for node in after.nodes] == [(node.on, node.folder) for node in before.nodes]
    assert "node-0" not in kept(there, "m4")

    def interrupt(line: str) -> None:
        if "copying the data of node-1" in line:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Cluster.start(on("m4", "m5", nodes=2, name="back"), interrupt)
    assert kept(there, "m4") + kept(there, "m5") == []
    with pytest.raises(BadInput, match="the machines have slots for only 1 node"):
        Cluster.start(on("m4", nodes=2, name="back"))
    there.run("m4", "mkdir", "-p", f"{PLACE}/back/node-0")
    with pytest.raises(BadInput, match="an older copy of the data of node-0 is still on this machine") as caught:
        Cluster.start(on("m4", "m5", nodes=2, name="back"))
    assert "m4" in str(caught.value.where)
    there.run("m4", "rm", "-r", f"{PLACE}/back")
    assert "node-1" not in kept(there, "m5")
    with Cluster.start(before.spec) as again:
        compare(again, "things", DOCUMENTS)
    named.delete("back")


#: The command, which ends by SIGKILL where a function of the package is called.
KILLED = """
import importlib, os, signal, sys
from loadframe.cli import main
module, name = sys.argv.pop(1).split(":")
setattr(importlib.import_module(module), name, lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL))
main(sys.argv[1:])
"""


def test_a_command_that_is_killed_on_the_way_leaves_the_cluster_where_it_was_and_the_next_one_removes_the_copies(there):
    with Cluster.start(on("m1", "m2", nodes=2, name="cutoff")) as cluster:
        cluster.create_collection("things", {})
        write(cluster, "things", DOCUMENTS)
        places = [(node.name, node.on, node.folder) for node in cluster.nodes]
    up = ("cluster", "up", "cutoff", "--host", "ssh", "--machines", "m4,m5")
    # Kill while data is copied, after all of it is copied, and after start but before the nodes are ready.
    for function, left in (("moving:_send", set()), ("launch:wait_until_ready", {"node-0", "node-1"})):
        command = [sys.executable, "-c", KILLED, f"loadframe.cluster.{function}", *up]
        killed = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
        assert killed.returncode == -9, killed.stderr
        assert left <= {*kept(there, "m4"), *kept(there, "m5")}
        assert kept(there, "m4") or kept(there, "m5"), "some data has arrived, under any name"
        state = result("cluster", "status", "cutoff")
        assert state["state"] == "stopped"
        assert [(node.name, node.on, node.folder) for node in named.existing("cutoff").nodes] == places
    end = time.monotonic() + 120
    while any("redis" in line for name in ("m4", "m5") for line in there.processes(name)):
        assert time.monotonic() < end, "the nodes that it had started end with it"
        time.sleep(0.1)
    with Cluster.start(named.existing("cutoff").spec) as again:
        assert [(node.name, node.on, node.folder) for node in again.nodes] == places
        compare(again, "things", DOCUMENTS)
    assert kept(there, "m4") + kept(there, "m5") == []
    assert named.delete("cutoff") == []


def test_data_that_is_gone_or_out_of_reach_is_refused_and_no_node_starts_without_it(there, request):
    with Cluster.start(on("m4", "m5", nodes=2, name="lost")):
        pass
    there.run("m5", "mv", f"{PLACE}/lost/node-1", "/var/lib/loadframe/aside")
    for spec in (on("m4", "m5", nodes=2, name="lost"), on("m1", "m2", nodes=2, name="lost")):
        with pytest.raises(BadInput, match="the folder with the data of node-1 is missing") as caught:
            Cluster.start(spec)
        assert "m5" in str(caught.value.where)
    there.run("m5", "mv", "/var/lib/loadframe/aside", f"{PLACE}/lost/node-1")
    there.crash("m5")
    # The network reports the host as unreachable, so others need not wait for a timeout.
    route = ("unreachable", f"{there.addresses['m5']}/32", "table", "local")
    subprocess.run(["ip", "route", "add", *route], check=True)
    request.addfinalizer(lambda: subprocess.run(["ip", "route", "del", *route], check=True))
    # The second one does not try a connection that has ended.
    for kind in (LoadframeError, BadInput):
        with pytest.raises(kind) as caught:
            Cluster.start(on("m1", "m2", nodes=2, name="lost"))
        assert str(caught.value.where).startswith("m5")
    assert "node-0" not in kept(there, "m1")
    [state] = [state for state in result("cluster", "status") if state["name"] == "lost"]
    assert state["state"] == "unknown"
    [unknown] = state["deviations"]
    assert unknown.startswith("the state of node-1 is unknown: could not connect to m5: ")
    refused = loadframe("cluster", "up", "lost")
    assert refused.returncode == 2
    assert "m5: could not connect: it does not answer" in " ".join(refused.stderr.split())
    deleted = loadframe("cluster", "down", "lost", "--delete-data")
    assert deleted.returncode == 0
    assert f"the data of node-1 remains on m5 in {PLACE}/lost/node-1: could not connect to m5" in deleted.stderr
    assert "deleted on the machines that can be reached" in deleted.stderr
    assert "node-0" not in kept(there, "m4")
    assert "lost" not in named.names()


def test_a_store_with_one_node_a_machine_needs_as_many_machines_until_those_that_leave_have_left():
    host = SshHost(("m1", "m2"), Placement())
    assert moving._temporary(find("redis"), host, ["m1", "m2", "m1"]).hostname == "m2"
    assert moving._temporary(find("cassandra"), host, ["m1"]).hostname == "m2"
    with pytest.raises(BadInput, match=r"each machine runs only one.*\n.*shrink the cluster before"):
        moving._temporary(find("cassandra"), host, ["m1", "m2"])
