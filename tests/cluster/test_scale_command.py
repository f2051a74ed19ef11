"""Scale commands: the check of the program before the start, and the wait for balanced data after a change."""

import pytest

from loadframe.base.errors import BadInput, StoreFailed
from loadframe.cluster import Cluster, scale_command
from loadframe.cluster.node import Node
from loadframe.cluster.node_table import NodeTable
from loadframe.cluster.scale_command import ScaleCommand
from loadframe.store import Health, find


def test_a_program_that_is_not_executable_is_told_apart_from_a_missing_one(tmp_path):
    command = ScaleCommand("./scale.sh {nodes}", tmp_path)
    with pytest.raises(BadInput) as missing:
        command.require()
    assert (missing.value.what, str(tmp_path) in missing.value.remedy) == (
        "cannot execute ./scale.sh: no such program",
        True,
    )
    (tmp_path / "scale.sh").write_text("#!/bin/sh\n")
    with pytest.raises(BadInput) as plain:
        command.require()
    assert plain.value.what == "cannot execute ./scale.sh: it is not executable"
    assert plain.value.remedy == f"run: chmod +x {tmp_path / 'scale.sh'}"
    (tmp_path / "scale.sh").chmod(0o755)
    command.require()


def test_a_command_with_an_open_quote_is_refused(tmp_path):
    with pytest.raises(BadInput, match="cannot split the command into words: No closing quotation"):
        ScaleCommand("./scale.sh {nodes} 'a", tmp_path).require()


@pytest.fixture
def clock(monkeypatch):
    """The virtual time of scale commands, as a list of one number of seconds, from 100 s on."""
    now = [100.0]

    def wait(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(scale_command.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(scale_command.time, "sleep", wait)
    return now


def test_data_that_moves_a_moment_after_the_join_delays_the_balanced_state(tmp_path, clock):
    def health() -> Health:
        return Health(ready=True, status="green", nodes=2, moving=2 * (101 <= clock[0] < 110), missing=0)

    reports = []
    balanced = ScaleCommand("./scale.sh {nodes}", tmp_path).settle(2, health, reports.append)
    assert balanced == pytest.approx(110, abs=0.3), "when the moves had ended, without the wait for further ones"
    assert reports == ["waiting up to 10 min 00 s for balanced data: 2 pieces of data are being moved between nodes"]


def test_copies_that_the_remaining_nodes_cannot_hold_do_not_delay_the_balanced_state(tmp_path, clock):
    without_replica = Health(ready=False, status="yellow", nodes=1, moving=0, missing=2, declared=((2, 2),))
    assert ScaleCommand("./scale.sh {nodes}", tmp_path).settle(1, lambda: without_replica) == 100


def test_a_copy_that_a_node_could_hold_is_awaited_with_a_report_of_the_wait(tmp_path, clock):
    def health() -> Health:
        done = clock[0] >= 110
        return Health(done, "green" if done else "yellow", nodes=2, moving=0, missing=int(not done), declared=((2, 2),))

    reports = []
    command = ScaleCommand("./scale.sh {nodes}", tmp_path)
    assert command.settle(2, health, reports.append) == pytest.approx(110, abs=0.3)
    state = "the cluster is yellow, with 1 copy of data not in service"
    assert reports == [f"waiting up to 10 min 00 s for balanced data: {state}"]
    clock[0] = 100
    with pytest.raises(StoreFailed, match=f"not balanced 5 s after the change: {state}"):
        ScaleCommand("./scale.sh {nodes}", tmp_path, within=5).settle(2, health)


def test_a_node_that_does_not_leave_soon_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(scale_command, "_UNREPORTED", 0)
    counts = [2, 2, 1]

    def health() -> Health:
        return Health(ready=True, status="green", nodes=counts.pop(0), moving=0, missing=0)

    reports = []
    ScaleCommand("true {nodes}", tmp_path).carry_out(1, health, reports.append)
    assert reports == [
        "running true 1 for 1 node, within 10 min 00 s",
        "waiting up to 10 min 00 s from its start for 1 node: the cluster has 2 nodes, not 1",
    ]


@pytest.mark.parametrize(
    ("before", "wanted", "after", "events"),
    [
        (3, 1, 2, [("node leaving", ("node-1", "node-2")), ("node left", ("node-2",))]),
        (3, 1, 3, [("node leaving", ("node-1", "node-2"))]),
        (1, 3, 2, [("node requested", ("node-1", "node-2")), ("node joined", ("node-1",))]),
        (1, 2, 1, [("node requested", ("node-1",))]),
    ],
)
def test_a_failed_command_leaves_the_size_and_the_events_of_the_store(
    tmp_path, monkeypatch, before, wanted, after, events
):
    nodes = NodeTable(None, {}, [Node(f"node-{index}", f"127.0.0.1:{index + 1}") for index in range(before)])
    cluster = Cluster(find("redis"), nodes, attached=before)
    cluster._scale = ScaleCommand("false {nodes}", tmp_path)
    cluster.health = lambda: Health(ready=True, status="green", nodes=after, moving=0, missing=0)
    heard = []
    with cluster.telling(lambda event: heard.append((event.kind, event.nodes))), pytest.raises(StoreFailed):
        if wanted > before:
            cluster.grow(wanted - before)
        else:
            cluster.shrink(before - wanted)
    assert (cluster.size, heard) == (after, events)


@pytest.mark.parametrize("count", [0, -1])
def test_a_scale_command_does_not_run_for_a_removal_of_no_node(tmp_path, count):
    cluster = Cluster(find("redis"), NodeTable(None, {}, [Node("node-0", "127.0.0.1:1")]), attached=1)
    cluster._scale = ScaleCommand("sh -c 'echo {nodes} >> calls'", tmp_path)
    cluster.health = lambda: Health(ready=True, status="green", nodes=1, moving=0, missing=0)
    with pytest.raises(BadInput, match=f"must be at least 1; got {count}"):
        cluster.shrink(count)
    assert cluster.size == 1
    assert not (tmp_path / "calls").exists()


def test_added_nodes_get_the_settings_of_the_cluster_before_they_count_as_joined(tmp_path, monkeypatch):
    nodes = NodeTable(None, {}, [Node("node-0", "127.0.0.1:1")])
    cluster = Cluster(find("redis"), nodes, attached=1)
    cluster._scale = ScaleCommand("printf '127.0.0.1:1\\n127.0.0.1:2\\n' {nodes}", tmp_path)
    cluster.health = lambda: Health(ready=True, status="green", nodes=cluster.size + 1, moving=0, missing=0)
    monkeypatch.setattr(scale_command, "_CALM", 0)
    heard = []
    monkeypatch.setattr(type(cluster.store), "configure", lambda _, *configured: heard.append(configured))
    cluster.configure({"hz": "10"})
    cluster.configure({"hz": "20"})
    with cluster.telling(lambda event: heard.append(event.kind)):
        cluster.grow()
    addresses = ["127.0.0.1:1", "127.0.0.1:2"]
    assert heard[2:5] == ["node requested", (addresses, {"hz": "20"}), "node joined"]


def test_a_failed_command_runs_again_even_for_the_number_of_nodes_that_the_store_had_after_it(tmp_path, monkeypatch):
    cluster = Cluster(find("redis"), NodeTable(None, {}, [Node("node-0", "127.0.0.1:1")]), attached=1)
    cluster._scale = ScaleCommand("sh -c 'echo {nodes} >> calls; test $(wc -l < calls) -gt 1'", tmp_path)
    cluster.health = lambda: Health(ready=True, status="green", nodes=1, moving=0, missing=0)
    monkeypatch.setattr(scale_command, "_CALM", 0)
    heard = []
    with cluster.telling(lambda event: heard.append(event.kind)):
        with pytest.raises(StoreFailed):
            cluster.resize(2)
        assert (cluster.size, cluster.uncertain) == (1, True)
        assert cluster.resize(1) == cluster.resize(1) == []
    assert (cluster.size, cluster.uncertain, heard) == (1, False, ["node requested"])
    assert (tmp_path / "calls").read_text().split() == ["2", "1"]
