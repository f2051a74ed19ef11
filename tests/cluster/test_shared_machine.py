"""Companions on a node's machine: shared limits and cores, independent lifetimes."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from loadframe.base.errors import BadInput
from loadframe.cluster import Cluster, ClusterSpec, named
from loadframe.cluster.node import Node
from loadframe.cluster.placement import Planned, deal, places
from loadframe.cluster.view import sharing
from loadframe.experiment.runner.node_samplers import _groups
from loadframe.host.limits import Limits, SystemdLimiter, choose
from loadframe.host.local import LocalHost
from loadframe.store import ProcessSpec

LIMITS = Limits(cpus=0.5, memory=256 * 2**20)
SHARD, ALONE = Planned(ProcessSpec("node-0", "shard", shares="node-0"), 0), Planned(ProcessSpec("node-1", "shard"), 1)
ROUTER = Planned(ProcessSpec("router-0", "router", shares="node-0"), None)
APART = Planned(ProcessSpec("router-1", "router"), None)

can_limit = pytest.mark.skipif(not getattr(choose()[0], "shares", False), reason="control groups cannot be made here")


@pytest.fixture
def together(toy, state):
    toy.routers, toy.together = 2, True
    with Cluster.start(ClusterSpec(store="toy", nodes=2, name="trial", limits=LIMITS)) as cluster:
        yield cluster


def process(cluster, name):
    return next(node for node in cluster.nodes if node.name == name)


def members(group: Path) -> set[int]:
    """Return the processes of a control group and its descendants."""
    return {int(line) for file in group.rglob("cgroup.procs") for line in file.read_text().split()}


@can_limit
def test_processes_of_one_machine_are_in_one_group_that_has_the_limits(together):
    groups = {node.name: node.control_groups["cpu"] for node in together.nodes}
    assert groups["node-0"] == groups["router-0"] != groups["node-1"] == groups["router-1"]
    assert members(groups["node-0"]) == {process(together, name).pid for name in ("node-0", "router-0")}
    assert together.describe()["shared"] == {"router-0": "node-0", "router-1": "node-1"}
    assert together.describe()["companions"] == {"router-0": "router", "router-1": "router"}
    assert set(_groups(together.nodes)) == {"node-0", "node-1"}, "what a group uses is recorded once"


@can_limit
def test_a_node_that_is_killed_leaves_the_others_of_its_machine_alone_and_comes_back_to_them(together):
    group = process(together, "node-0").control_groups["cpu"]
    together.kill("node-0")
    assert process(together, "router-0").alive
    assert members(group) == {process(together, "router-0").pid}
    together.mend()
    assert members(group) == {process(together, name).pid for name in ("node-0", "router-0")}
    assert [node.shares for node in named.existing("trial").nodes] == 2 * ["node-0", "node-1"]


@can_limit
def test_groups_go_with_the_last_of_their_processes(toy, state):
    toy.routers, toy.together = 1, True
    with Cluster.start(ClusterSpec(store="toy", nodes=1, limits=LIMITS)) as cluster:
        groups = [folder for node in cluster.nodes for folder in node.control_groups.values()]
        assert all(group.exists() for group in groups)
    assert not any(group.exists() for group in groups)


def test_a_companion_goes_to_the_machine_that_it_shares():
    machines = {name: SimpleNamespace(hostname=name) for name in ("m0", "m1")}
    host = SimpleNamespace(
        machines=[*machines.values()], machine=machines.get, place=lambda taken: machines[f"m{len(taken)}"]
    )
    late = Planned(ProcessSpec("config-0", "config", shares="node-0"), None)
    chosen = places(host, [SHARD, ALONE, APART, ROUTER, late], [])
    assert [machine.hostname for machine in chosen] == ["m0", "m1", "m0", "m0", "m0"]
    known = [Node("node-0", "m0:1", folder=Path("a"), number=0, shares="node-0", machine=machines["m0"])]
    assert places(host, [late], known) == [machines["m0"]]


def test_a_companion_keeps_to_the_cores_that_it_shares():
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("a core for the node and one for the generator")
    spec, here = ClusterSpec("toy", nodes=1, limits=Limits(cores_each=1)), LocalHost()
    node, router = deal(spec, [SHARD, ROUTER], [here, here], [])
    assert node == router
    known = [Node("node-0", "a:1", folder=Path("a"), number=0, shares="node-0", cores=node, machine=here)]
    assert deal(spec, [ROUTER], [here], known) == [node]


def test_a_companion_without_a_node_of_its_number_shares_with_none():
    nodes = [
        Node("node-0", "a:1", folder=Path("a"), number=0, shares="node-0"),
        Node("router-0", "a:2", folder=Path("b"), shares="node-0"),
        Node("router-1", "a:3", folder=Path("c"), shares="node-1"),
    ]
    assert sharing(nodes) == {"router-0": "node-0"}


def test_a_way_that_limits_each_process_by_itself_is_refused(toy, state, monkeypatch):
    toy.routers, toy.together = 1, True
    monkeypatch.setattr(LocalHost, "_limiter", (SystemdLimiter(), None))
    with (
        pytest.raises(BadInput, match="must share its limits, which systemd-run does not support"),
        Cluster.start(ClusterSpec(store="toy", nodes=1, limits=LIMITS)),
    ):
        pass
