"""A cluster's own part in growing, shrinking, faults and mending, with nodes that are small real processes."""

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from random import Random

import pytest

from commands import servers
from loadframe.base.errors import BadInput, LoadframeError
from loadframe.cluster import Cluster, ClusterSpec, named
from loadframe.cluster import events as log_of_events
from loadframe.cluster.events import ClusterEvent
from loadframe.cluster.node import State
from loadframe.host import identity
from loadframe.host.local import LocalHost
from loadframe.host.local_process import LocalProcess


@pytest.fixture
def cluster(toy, state) -> Iterator[Cluster]:
    with Cluster.start(ClusterSpec(store="toy", nodes=2, name="trial")) as started:
        toy.told.clear()
        yield started
    assert not servers(state)


def saved() -> named.SavedCluster:
    return named.existing("trial")


def test_a_new_cluster_is_formed_once_of_all_its_processes(toy):
    toy.routers = 1
    with Cluster.start(ClusterSpec(store="toy", nodes=2, name="trial")) as cluster:
        assert toy.told == [("form", "node-0", "node-1", "router-0")]
        assert cluster.size == 2
        assert cluster.addresses == [cluster.nodes[2].address], "clients ask the router only"
        assert [node.founders for node in toy.planned] == [("node-0", "node-1")] * 2 + [("router-0",)], "of its role"
    with Cluster.start(saved().spec):
        assert len(toy.told) == 1, "it was formed again"
        assert toy.planned[-1].founders == ()


@pytest.mark.parametrize("fails", ["configure", "reunite"])
def test_a_restarted_node_without_the_changed_settings_is_a_deviation_until_they_are_set(
    toy, cluster, monkeypatch, fails
):
    monkeypatch.setattr(toy, "forgets_settings", True, raising=False)
    monkeypatch.setattr(toy, "configure", lambda *_: None, raising=False)
    cluster.configure({"pace": 3})
    cluster.kill("node-0")
    assert cluster.setting_deviations() == []
    with monkeypatch.context() as failing:

        def fail(*_):
            raise LoadframeError("no answer")

        failing.setattr(toy, fails, fail, raising=False)
        with pytest.raises(LoadframeError, match="no answer"):
            cluster.mend()
    lacking = "a started node may have another value of pace, because setting it failed"
    assert cluster.setting_deviations() == [lacking]
    assert lacking in cluster.differences()[0]
    assert cluster.mend()
    assert cluster.setting_deviations() == []
    assert not cluster.mend()


def test_added_and_restarted_nodes_get_the_settings_of_the_cluster_before_clients_learn_of_them(
    toy, cluster, monkeypatch
):
    done = []

    def configure(addresses, settings):
        if "unknown" in settings:
            raise LoadframeError("unknown setting")
        done.append((len(addresses), settings))

    monkeypatch.setattr(toy, "configure", configure, raising=False)
    cluster.configure({"pace": 3, "depth": 1})
    with suppress(LoadframeError):
        cluster.configure({"unknown": 1})
    # In the middle of the join, as another thread may.
    toy.during["join"] = lambda: cluster.configure({"pace": 4})
    with cluster.telling(lambda event: done.append(event.kind)):
        cluster.grow()
        cluster.kill("node-0")
        cluster.mend()
    settings = {"pace": 4, "depth": 1}
    assert done == [
        (2, {"pace": 3, "depth": 1}),
        "node requested",
        (2, {"pace": 4}),
        "settings changed",
        (3, settings),
        "node joined",
        "cluster balanced",
        "node killed",
        (3, settings),
        "node restarted",
    ]


def test_a_node_that_starts_while_the_cluster_stops_is_stopped_too(toy, state):
    cluster = Cluster.start(ClusterSpec(store="toy", nodes=2))
    starting, go_on = threading.Event(), threading.Event()

    def report(text):
        if text == "starting node-2":
            starting.set()
            assert go_on.wait(60)

    with ThreadPoolExecutor() as pool:
        growing = pool.submit(cluster.grow, 1, report)
        assert starting.wait(60)
        stopping = pool.submit(cluster.stop)
        while any(node.alive for node in cluster.nodes):
            time.sleep(0.01)
        go_on.set()
        # Growing may succeed or fail: a store with nodes that join independently completes it while the cluster stops.
        growing.exception()
        stopping.result()
    assert not servers(state)
    with pytest.raises(LoadframeError, match="the cluster was stopped"):
        cluster.mend()
    assert not servers(state)


def test_a_node_that_joins_goes_through_requested_joined_and_balanced(cluster, toy):
    events = []
    with cluster.telling(events.append):
        assert cluster.grow() == ["node-2"]
    assert [(event.kind, event.nodes) for event in events] == [
        ("node requested", ("node-2",)),
        ("node joined", ("node-2",)),
        ("cluster balanced", ("node-2",)),
    ]
    instants = [(event.monotonic, event.wall) for event in events]
    assert instants == sorted(instants)
    assert toy.told == [("join", "node-2"), ("balance",)]
    assert cluster.size == len(cluster.addresses) == 3
    assert cluster.deviations() == []
    assert saved().spec.nodes == len(saved().nodes) == 3
    assert toy.planned[-1].founders == ()
    assert len(toy.planned[-1].peers) == 3


def test_clients_are_not_sent_to_a_node_before_it_is_a_member(cluster, toy):
    seen = []
    toy.during["join"] = lambda: seen.append(len(cluster.addresses))
    cluster.grow()
    assert seen == [2]


def test_a_node_that_leaves_hands_over_its_data_and_takes_its_folder_along(cluster, toy):
    folder = cluster.nodes[0].folder
    events = []
    with cluster.telling(events.append):
        assert cluster.shrink("node-0") == ["node-0"]
    assert [event.kind for event in events] == ["node leaving", "node left", "cluster balanced"]
    assert toy.told == [("leave", "node-0"), ("forget", "node-0"), ("balance",)]
    assert [node.name for node in cluster.nodes] == ["node-1"]
    assert not folder.exists()
    assert cluster.deviations() == []
    assert cluster.grow() == ["node-2"], "names count on"


def test_shrinking_below_the_copies_is_refused_with_nothing_changed(cluster, toy):
    toy.copies = 2
    with pytest.raises(BadInput, match="too few for the copies"):
        cluster.shrink()
    assert toy.told == []
    assert cluster.deviations() == []
    with pytest.raises(BadInput, match="cannot remove 2 of 2 nodes"):
        cluster.shrink(2)


def test_a_node_that_is_gone_or_stands_still_cannot_hand_over_its_data(cluster, toy):
    cluster.kill("node-1")
    with pytest.raises(
        BadInput, match=r"node-1 is not running, so its data cannot be moved(.|\n)*loadframe cluster up trial"
    ):
        cluster.shrink("node-1")
    assert cluster.mend()
    cluster.pause("node-1")
    with pytest.raises(BadInput, match=r"node-1 is paused, so its data cannot be .*\n.*cluster resume trial node-1"):
        cluster.shrink("node-1")
    with pytest.raises(BadInput, match=r"node-1 is paused, so it cannot take its share"):
        cluster.shrink("node-0")
    cluster.resume("node-1")
    assert [step for step, *_ in toy.told] == [], "no step reached the store"
    assert cluster.size == 2
    assert cluster.deviations() == []


def test_a_cluster_with_a_node_that_is_gone_or_stands_still_does_not_grow(cluster, toy):
    cluster.kill("node-1")
    with pytest.raises(BadInput, match=r"node-1 is not running, but a joining node(.|\n)*loadframe cluster up trial"):
        cluster.grow()
    toy.joins_without_all = True
    assert cluster.grow() == ["node-2"], "nodes of this store can join without the others"
    assert cluster.shrink("node-2") == ["node-2"]
    assert cluster.mend()
    cluster.pause("node-0")
    events = []
    with (
        cluster.telling(events.append),
        pytest.raises(BadInput, match=r"node-0 is paused, but a joining node.*\n.*cluster resume trial node-0"),
    ):
        cluster.grow()
    cluster.resume("node-0")
    assert events == []
    assert cluster.size == 2
    assert cluster.deviations() == []


def test_pausing_a_paused_node_and_resuming_a_running_one_are_not_events(cluster):
    events = []
    with cluster.telling(events.append):
        cluster.resume("node-0")
        cluster.pause("node-0")
        cluster.pause("node-0")
        cluster.resume("node-0")
        cluster.resume("node-0")
    assert [event.kind for event in events] == ["node paused", "node resumed"]


def test_an_unknown_node_is_answered_with_the_nearest(cluster):
    for change in (cluster.shrink, cluster.kill, cluster.pause, cluster.resume):
        with pytest.raises(BadInput, match=r"unknown node 'nod-1' of the cluster\n  did you mean node-1\?"):
            change("nod-1")


def test_a_node_that_dies_while_joining_is_reported_with_its_log_and_is_not_a_member(cluster, toy):
    toy.dying.add("node-2")
    toy.during["join"] = lambda: _wait(lambda: not cluster.nodes[2].alive)
    with pytest.raises(LoadframeError) as caught:
        cluster.grow()
    assert "node-2 ended with status 1 while adding node-2; the end of its log:" in str(caught.value)
    assert "I was built to die" in str(caught.value)
    assert cluster.size == len(cluster.nodes) == 2
    assert cluster.deviations() == []


def test_a_node_that_dies_while_the_data_is_balanced_is_noticed_and_stays_a_member(cluster, toy):
    toy.during["balance"] = lambda: (cluster.kill("node-2"), _wait(lambda: not cluster.nodes[2].alive))
    with pytest.raises(LoadframeError, match=r"node-2 ended.* while balancing the data; the end of its log"):
        cluster.grow()
    assert cluster.size == 3
    assert "node-2 has ended, killed on purpose" in cluster.deviations()


def test_a_store_that_never_balances_ends_at_the_time_limit_with_its_state(cluster, toy):
    lines = []
    toy.during["balance"] = lambda: time.sleep(0.6)
    with pytest.raises(LoadframeError, match=r"balancing the data took longer than 500 ms; 0 pieces left \(calm\)"):
        cluster.grow(report=lines.append, within=0.5)
    assert cluster.size == 3
    assert cluster.deviations() == ["node-2 is balancing"]
    assert any("node-2 remain" in line for line in lines)
    toy.during.clear()
    assert cluster.mend()
    assert cluster.deviations() == []
    assert not cluster.mend(), "there is nothing left to mend"


@pytest.mark.parametrize(("step", "size"), [("join", 2), ("balance", 3)])
def test_an_interrupt_leaves_a_cluster_that_knows_its_state(cluster, toy, step, size):
    def interrupt():
        raise KeyboardInterrupt

    lines = []
    toy.during[step] = interrupt
    with pytest.raises(KeyboardInterrupt):
        cluster.grow(report=lines.append)
    assert cluster.size == saved().spec.nodes == size
    assert all(node.process.alive() for node in cluster.nodes)
    assert ("member" if step == "balance" else "did not join") in lines[-1]


def test_an_interrupt_while_a_node_leaves_keeps_it(cluster, toy):
    def interrupt():
        raise KeyboardInterrupt

    lines = []
    toy.during["leave"] = interrupt
    with pytest.raises(KeyboardInterrupt):
        cluster.shrink("node-1", lines.append)
    assert toy.told[-1] == ("stay", "node-1")
    assert "node-1 remains a member" in lines[-1]
    assert cluster.deviations() == []


def test_changes_of_one_cluster_wait_for_each_other(cluster, toy):
    entered = []
    toy.during["join"] = lambda: entered.append(len(cluster.nodes))
    threads = [threading.Thread(target=cluster.grow) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert entered == [3, 4]
    assert cluster.size == 4


def test_a_kill_that_ends_after_another_command_has_grown_the_cluster_forgets_no_node(cluster, toy, monkeypatch):
    other = Cluster.load("trial")
    process = type(other.nodes[0].process)
    kill = process.kill

    def grow_and_kill(self: LocalProcess) -> None:
        cluster.grow()
        kill(self)

    with monkeypatch.context() as patch:
        patch.setattr(process, "kill", grow_and_kill)
        other.kill("node-0")
    assert {node.name: node.state for node in saved().nodes} == {
        "node-0": State.KILLED,
        "node-1": State.SETTLED,
        "node-2": State.SETTLED,
    }
    assert saved().spec.nodes == 3


def test_a_node_counts_as_killed_on_purpose_from_the_moment_of_its_end(cluster, monkeypatch):
    process, seen = type(cluster.nodes[0].process), []
    kill = process.kill

    def kill_and_look(self: LocalProcess) -> None:
        kill(self)
        seen.extend((cluster.nodes[0].alive, cluster.nodes[0].state))

    monkeypatch.setattr(process, "kill", kill_and_look)
    cluster.kill("node-0")
    assert seen == [False, State.KILLED]


def test_a_node_whose_kill_fails_does_not_count_as_killed(cluster, monkeypatch):
    def fail(self: LocalProcess) -> None:
        raise LoadframeError("the machine does not answer")

    with monkeypatch.context() as patch:
        patch.setattr(type(cluster.nodes[0].process), "kill", fail)
        with pytest.raises(LoadframeError, match="does not answer"):
            cluster.kill("node-0")
    assert cluster.nodes[0].state == State.SETTLED
    assert saved().nodes[0].state == State.SETTLED


def test_a_node_that_another_command_kills_while_the_cluster_grows_stays_killed(cluster, toy):
    toy.during["join"] = lambda: Cluster.load("trial").kill("node-0")
    toy.joins_without_all = True
    with suppress(LoadframeError):
        cluster.grow()
    assert {node.name: node.state for node in saved().nodes}["node-0"] == State.KILLED


@pytest.mark.slow
def test_nodes_that_commands_kill_at_the_same_time_are_all_written_down(toy, state):
    with Cluster.start(ClusterSpec(store="toy", nodes=8, name="trial")):
        commands = [Cluster.load("trial") for _ in range(7)]
        with ThreadPoolExecutor(len(commands)) as pool:
            jobs = [pool.submit(command.kill, f"node-{at}") for at, command in enumerate(commands)]
            for job in jobs:
                job.result()
        states = [node.state for node in saved().nodes]
        assert states == 7 * [State.KILLED] + [State.SETTLED]
    assert not servers(state)


def test_killing_a_node_of_a_cluster_that_was_deleted_meanwhile_is_refused(toy, state, monkeypatch):
    with Cluster.start(ClusterSpec(store="toy", nodes=2, name="trial")) as started:
        other = Cluster.load("trial")
        process = type(other.nodes[0].process)
        kill = process.kill

        def kill_and_delete(self: LocalProcess) -> None:
            kill(self)
            started.stop()
            named.delete("trial")

        monkeypatch.setattr(process, "kill", kill_and_delete)
        with pytest.raises(BadInput, match="cluster trial was deleted by another command"):
            other.kill("node-0")
    assert named.names() == []


def test_a_rack_is_killed_as_a_whole_and_its_nodes_come_back_to_it(toy, state):
    spec = ClusterSpec(store="toy", nodes=3, racks=("left", "right"))
    with pytest.raises(BadInput, match="does not support racks for toy"):
        Cluster.start(spec)
    toy.knows_racks = True
    events = []
    with Cluster.start(spec) as cluster, cluster.telling(events.append):
        assert [node.rack for node in toy.planned] == ["left", "right", "left"]
        assert cluster.grow() == ["node-3"]
        cluster.kill("left")
        _wait(lambda: [node.alive for node in cluster.nodes] == [False, True, False, True])
        assert (events[-1].kind, events[-1].nodes, events[-1].detail) == (
            "node killed",
            ("node-0", "node-2"),
            {"rack": "left"},
        )
        with pytest.raises(BadInput, match="no node of rack left is running"):
            cluster.kill("left")
        assert cluster.mend()
        assert {node.name: node.rack for node in toy.planned[-3:]} == {
            "node-3": "right",
            "node-0": "left",
            "node-2": "left",
        }
    assert not servers(state)


def test_nodes_that_ended_before_the_kill_of_their_rack_failed_have_an_event(toy, monkeypatch):
    toy.knows_racks = True
    events = []
    with Cluster.start(ClusterSpec(store="toy", nodes=2, racks=("left",))) as cluster, cluster.telling(events.append):

        def fail() -> None:
            raise LoadframeError("the machine does not answer")

        monkeypatch.setattr(cluster.nodes[1].process, "kill", fail)
        with pytest.raises(LoadframeError, match="does not answer"):
            cluster.kill("left")
        assert [node.state for node in cluster.nodes] == [State.KILLED, State.SETTLED]
        assert [(event.kind, event.nodes) for event in events] == [("node killed", ("node-0",))]


def test_the_time_of_a_kill_is_that_of_the_signal(cluster, monkeypatch):
    process, events, ended = type(cluster.nodes[0].process), [], []
    kill = process.kill

    def kill_and_wait(self: LocalProcess) -> None:
        kill(self)
        ended.append(time.monotonic())

    monkeypatch.setattr(process, "kill", kill_and_wait)
    with cluster.telling(events.append):
        cluster.kill("node-0")
    assert events[-1].monotonic <= ended[0]


def test_a_killed_node_is_a_deviation_until_it_is_mended(cluster):
    events = []
    with cluster.telling(events.append):
        cluster.kill("node-1")
        _wait(lambda: not cluster.nodes[1].alive)
        assert cluster.addresses == [cluster.nodes[0].address], "clients go on asking a node that is gone"
        assert cluster.deviations() == ["node-1 has ended, killed on purpose"]
        assert "`loadframe cluster status trial`" in Cluster.load("trial").access.silence_hint
        with pytest.raises(BadInput, match="node-1 is not running"):
            cluster.pause("node-1")
        assert cluster.mend()
    assert [event.kind for event in events] == ["node killed", "node restarted"]
    assert cluster.deviations() == []
    assert (cluster.nodes[1].folder / "data").exists()


def test_a_paused_node_stands_still_until_it_is_resumed(cluster):
    cluster.pause("node-0")
    assert cluster.deviations() == ["node-0 is paused"]
    cluster.resume("node-0")
    _wait(lambda: not cluster.nodes[0].paused)
    assert cluster.deviations() == []


def test_a_paused_node_can_be_stopped(toy, state):
    with Cluster.start(ClusterSpec(store="toy")) as cluster:
        cluster.pause("node-0")
        began = time.monotonic()
    assert time.monotonic() - began < 8, "it was killed after its grace"
    assert not servers(state)


@pytest.mark.slow
def test_a_stopped_cluster_comes_back_with_more_nodes_and_with_fewer(cluster, toy):
    cluster.stop()
    spec = saved().spec
    with Cluster.start(ClusterSpec(**spec.__dict__ | {"nodes": 3})) as more:
        assert [node.name for node in more.nodes] == ["node-0", "node-1", "node-2"]
    with Cluster.start(ClusterSpec(**spec.__dict__ | {"nodes": 1})) as fewer:
        assert [node.name for node in fewer.nodes] == ["node-0"]
        assert fewer.size == saved().spec.nodes == 1
    left = [(step, name) for name in ("node-2", "node-1") for step in ("leave", "forget")]
    assert toy.told == [("join", "node-2"), ("balance",), *left, ("balance",)]


def test_another_command_follows_the_change(cluster):
    cluster.keep()
    other = Cluster.load("trial")
    try:
        Cluster.load("trial").grow()
        assert len(other.addresses) == other.size == 3
        assert cluster.addresses == other.addresses
    finally:
        other.stop()


@pytest.mark.slow
def test_a_change_that_was_cut_off_is_finished_by_mending(cluster, toy):
    """The state after kill -9 of the command in the middle of a join: the node is recorded, but gone."""
    record, seen = named.record_of("trial"), []
    toy.during["join"] = lambda: seen.append(record.read_text())
    cluster.grow()
    cut_off = json.loads(seen[0])
    assert [node["state"] for node in cut_off["nodes"]] == ["", "", "joining"]
    cluster.stop()
    toy.members.remove("node-2")
    record.write_text(json.dumps(cut_off))
    toy.during.clear()
    with Cluster.start(saved().spec) as again:
        assert again.size == 3
        assert again.deviations() == []


def test_remains_of_an_interrupted_first_start_are_removed(cluster, toy):
    cluster.stop()
    record = named.record_of("trial")
    record.write_text(json.dumps(json.loads(record.read_text()) | {"formed": False}))
    lines = []
    with Cluster.start(ClusterSpec(store="toy", nodes=1, name="trial"), lines.append) as again:
        assert len(again.nodes) == 1
    assert "removing the remains of an interrupted start of trial" in lines


def test_data_of_a_newer_version_is_not_given_to_an_older_one(cluster, toy):
    cluster.stop()
    record = named.record_of("trial")
    written = json.loads(record.read_text())
    record.write_text(json.dumps(written | {"facts": written["facts"] | {"version": "1.10"}}))
    with pytest.raises(BadInput, match=r"the data was written by toy 1\.10, and 1 is older"):
        Cluster.start(saved().spec)
    assert all(node.folder.exists() for node in saved().nodes)


def test_a_node_whose_folder_is_gone_is_not_started_empty(cluster):
    cluster.kill("node-1")
    _wait(lambda: not cluster.nodes[1].alive)
    folder = cluster.nodes[1].folder
    folder.rename(folder.with_name("aside"))
    with pytest.raises(BadInput, match="the folder with the data of node-1 is missing"):
        cluster.mend()
    cluster.stop()
    with pytest.raises(BadInput, match="the folder with the data of node-1 is missing"):
        Cluster.start(saved().spec)
    assert not folder.exists()
    folder.with_name("aside").rename(folder)
    with Cluster.start(saved().spec) as again:
        assert again.deviations() == []


def test_nodes_that_keep_their_addresses_come_back_to_them(cluster, toy):
    cluster.stop()
    before = cluster.addresses
    toy.keeps = "that is how toys are"
    with Cluster.start(saved().spec) as again:
        assert again.addresses == before
    with pytest.raises(BadInput, match=r"nodes of toy keep their addresses \(that is how toys are\), and node-0 has"):
        Cluster.start(replace(saved().spec, port=24000))


def test_a_first_start_that_fails_leaves_neither_node_nor_folder(toy, state):
    toy.dying.add("node-1")

    def died() -> bool:
        return any("built to die" in log.read_text() for log in state.rglob("node.log")) and len(servers(state)) < 2

    toy.during["form"] = lambda: _wait(died)
    with pytest.raises(LoadframeError, match=r"node-1 ended with status 1 while forming the cluster; the end of its"):
        Cluster.start(ClusterSpec(store="toy", nodes=2, name="trial"))
    assert not servers(state)
    assert not named.folder_of("trial").exists()


def test_a_start_again_that_fails_leaves_the_data(cluster, toy, state):
    cluster.stop()
    data = [node.folder / "data" for node in saved().nodes]
    toy.dying.add("node-1")
    with pytest.raises(LoadframeError, match=r"node-1 ended with status 1 while .*; the end of its log"):
        Cluster.start(saved().spec)
    assert not servers(state)
    assert all(folder.exists() for folder in data)
    toy.dying.clear()
    with Cluster.start(saved().spec) as again:
        assert again.deviations() == []


def test_folders_without_a_cluster_are_left_alone(toy, state):
    mine = named.folder_of("trial") / "thesis.tex"
    mine.parent.mkdir(parents=True)
    mine.write_text("dear to somebody")
    with pytest.raises(BadInput, match="the folder for the cluster is not empty") as caught:
        Cluster.start(ClusterSpec(store="toy", name="trial"))
    assert caught.value.where == str(mine.parent)
    assert mine.read_text() == "dear to somebody"


def test_nodes_with_addresses_of_their_own_share_their_ports(toy):
    toy.own_address, toy.extra_ports = True, 2
    with Cluster.start(ClusterSpec(store="toy", nodes=2)) as cluster:
        cluster.grow()
        hosts, ports = zip(*(node.address.split(":") for node in cluster.nodes), strict=True)
        assert hosts == ("127.0.0.1", "127.0.0.2", "127.0.0.3")
        assert len(set(ports)) == len({node.peer_address.split(":")[1] for node in cluster.nodes}) == 1
        extra = [port for node in toy.planned for port in node.extra_ports]
        assert len(set(extra)) == len(extra) == 6


def test_nodes_of_a_cluster_with_a_port_count_on(toy):
    port = _two_free_ports()
    with Cluster.start(ClusterSpec(store="toy", port=port)) as cluster:
        cluster.grow()
        assert cluster.addresses == [f"127.0.0.1:{port}", f"127.0.0.1:{port + 1}"]


def test_a_full_disk_is_noticed_before_a_node_starts(cluster, monkeypatch):
    usage = type("usage", (), {"free": 10 * 2**20})
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage)
    with pytest.raises(BadInput, match=r"not enough disk space: starting 1 node needs 256 MiB; 10.* MiB are free"):
        cluster.grow()
    assert len(cluster.nodes) == 2


def test_foreign_clusters_are_not_changed(cluster, toy):
    with Cluster.attach(cluster.addresses, "toy") as attached:
        for change in (attached.grow, attached.shrink, lambda: attached.kill("node-0")):
            with pytest.raises(BadInput, match="cannot change a cluster that it did not start"):
                change()


def _two_free_ports() -> int:
    """Return the first of two adjacent free ports, outside the ranges of clusters and of the kernel."""
    while True:
        port = Random().randrange(11_000, 19_000)
        with suppress(BadInput):
            return LocalHost().free_ports(2, port)[0]


def _wait(condition) -> None:
    end = time.monotonic() + 10
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    assert condition()


def test_a_cluster_that_runs_on_another_machine_with_the_same_folder_is_left_alone(cluster, state):
    cluster.keep()
    record = state / "clusters" / "trial" / "cluster.json"
    written = json.loads(record.read_text())
    assert written["runs_on"]["identity"] == identity.machine()
    elsewhere = {**written, "runs_on": {"identity": "0123456789", "hostname": "node7"}}
    record.write_text(json.dumps(elsewhere))
    assert named.names() == []
    for use in (lambda: Cluster.load("trial"), lambda: Cluster.start(ClusterSpec(store="toy", name="trial"))):
        with pytest.raises(BadInput, match="cluster trial runs on machine node7, which shares this folder"):
            use()
    record.write_text(json.dumps(written))
    Cluster.load("trial").stop()
    assert json.loads(record.read_text())["runs_on"] is None


@pytest.mark.parametrize("what", ["the cluster does not answer (refused)", "refused"])
def test_a_cluster_that_does_not_answer_is_reported_in_the_same_words_once(cluster, monkeypatch, what):
    def fails():
        raise LoadframeError(what)

    monkeypatch.setattr(cluster, "health", fails)
    assert cluster.lost_copies() == ["the cluster does not answer (refused)"]


def test_a_cut_line_of_the_log_of_events_hides_no_other_event(tmp_path, monkeypatch):
    log_of_events.write(tmp_path, ClusterEvent("requested", ("node-1",)))
    log = tmp_path / "events.jsonl"
    log.write_text(log.read_text() + log.read_text()[:30])
    log_of_events.write(tmp_path, ClusterEvent("joined", ("node-1",)))
    monkeypatch.setattr("os.getpid", lambda: 0)
    assert [event.kind for event in log_of_events.by_others(tmp_path, 0)] == ["requested", "joined"]
