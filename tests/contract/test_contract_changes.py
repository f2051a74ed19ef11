"""Clusters of every store: growing and shrinking under load, restart, and loss of a node.

The tests of one store continue with the cluster and documents that the test before left.
"""

import os
import signal
import time

import pytest
from held import AT_HOME, AWAY, Held
from recorded import DOCUMENTS, Loaded, errors, totals, written

from documents import compare, login, write
from loadframe.cluster.node import Node
from loadframe.store.cassandra.cql import Connection
from loadframe.store.search import membership

pytestmark = pytest.mark.store

#: Ids from which each run adds documents, further apart than any run gets.
GROWING, DYING = DOCUMENTS, 1000 * DOCUMENTS
#: Allowed share of late requests while nodes come and go. Late requests time out, or a node with too many waiting
#: requests rejects them: for example when all requests that waited for a moving shard are released at once.
LATE, BUSY = 0.05, {"timeout", "rejected"}


def elected(store: Held) -> list[str]:
    """Return the nodes that may be elected, as the store has it where it elects."""
    cluster = store.cluster
    if cluster.store.electors(1) is None:
        return [node.name for node in cluster.nodes if node.elects]
    return membership.names(cluster.store.request, cluster.addresses, "master")


def identities(store: Held) -> dict[str, str]:
    """Return the identity of each node besides its name, for stores that have one."""
    cluster = store.cluster
    if store.kind in ("opensearch", "elasticsearch"):
        told = cluster.store.request(cluster.addresses, "GET", "/_nodes/_all/none?filter_path=nodes.*.name")
        return {node["name"]: identity for identity, node in told["nodes"].items()}
    if store.kind == "cassandra":
        connections = {node.name: Connection(node.address, login(cluster)) for node in cluster.nodes}
        asked = {name: one.ask("SELECT host_id FROM system.local") for name, one in connections.items()}
        return {name: str(row["host_id"]) for name, [row] in asked.items()}
    return {}


def address_of(node: Node) -> str:
    return node.address.rpartition(":")[0]


@pytest.fixture(autouse=True)
def filled(store, tmp_path):
    """Fill the collection in the first test, whichever it is: a test that fails runs once more, alone."""
    if not store.filled:
        Loaded(store, tmp_path).fill()


def test_a_thousand_documents_are_counted(store):
    assert store.cluster.count("things") == DOCUMENTS


def test_a_node_comes_and_goes_under_load_and_nothing_is_lost(store, tmp_path):
    before = {node.name for node in store.cluster.nodes}
    size, newcomer = store.cluster.size, []

    def change() -> None:
        joined = store.cluster.grow()
        newcomer.extend(node.address for node in store.cluster.nodes if node.name in joined and node.serves)
        assert store.cluster.deviations() == []
        time.sleep(4)
        store.cluster.shrink(joined[0])

    run = Loaded(store, tmp_path).record(change, GROWING)
    told = [event for event in run.events if "node" in event["kind"] or "balanced" in event["kind"]]
    assert [event["kind"] for event in told] == [
        "node requested", "node joined", "cluster balanced", "node leaving", "node left", "cluster balanced",
    ]  # fmt: skip
    instants = [event["time"] for event in told]
    assert instants == sorted(instants)
    # A machine that is busier than its store's patience makes some requests late; nothing else may fail them.
    failed = errors(run)
    assert {kind for classes in failed.values() for kind in classes} <= BUSY, failed
    late = sum(count for classes in failed.values() for count in classes.values())
    assert late <= LATE * totals(run, "requests"), failed
    least, most = written(run)
    assert DOCUMENTS + least <= store.cluster.count("things") <= DOCUMENTS + most
    assert {node.name for node in store.cluster.nodes} == before
    assert store.cluster.deviations() == []

    served = [row for row in run.telemetry.to_pylist() if row["source"].startswith("target:")]
    both = [row for row in served if instants[2] + 1 < row["time"] < instants[3] - 1]
    of_newcomer = sum(row["value"] for row in both if row["source"].removeprefix("target:") in newcomer)
    if newcomer and store.subject.shares:
        assert of_newcomer > 0.4 * sum(row["value"] for row in both) / (size + 1), "it did not serve its share"


def test_stopped_it_comes_back_at_other_addresses_with_its_documents_and_more_nodes_or_fewer(store, monkeypatch):
    documents, size = store.cluster.count("things"), store.cluster.size
    names = [node.name for node in store.cluster.nodes]
    store.create("moved")
    keeps = "test_written_documents_are_read_back" not in store.subject.excused
    if keeps:
        write(store.cluster, "moved", DOCUMENTS)
    known = identities(store)
    was_at = [address_of(node) for node in store.cluster.nodes]
    for more, place in zip(store.subject.moves, (AWAY, AT_HOME), strict=False):
        nodes = size + more
        store.move(nodes, place, monkeypatch)
        assert [node.name for node in store.cluster.nodes][:size] == names
        assert store.cluster.size == nodes
        assert store.cluster.deviations() == []
        assert len(elected(store)) == (store.cluster.store.electors(nodes) or len(elected(store)))
        now_at = [address_of(node) for node in store.cluster.nodes]
        assert not set(was_at) & set(now_at), "it is where it was"
        assert known.items() <= identities(store).items()
        was_at = now_at
        assert store.cluster.count("things") == documents
        if keeps:
            compare(store.cluster, "moved", DOCUMENTS)
    store.drop("moved")


def test_a_node_killed_under_load_is_noticed_and_recorded_and_comes_back(store, tmp_path):
    victim, documents = store.cluster.nodes[-1], store.cluster.count("things")

    def change() -> None:
        os.kill(victim.pid, signal.SIGKILL)
        time.sleep(3)

    run = Loaded(store, tmp_path).record(change, DYING)
    gaps = [event["source"] for event in run.events if event["kind"] == "gap"]
    assert f"node:{victim.name}" in gaps
    reasons = run.raw_summary["verdict"]["reasons"]
    assert [it["code"] for it in reasons if f"{victim.name} has ended" in it["cause"]] == ["node_lost"]
    assert totals(run, "successes") > 0
    assert store.cluster.mend()
    assert store.cluster.deviations() == []
    assert victim.address in store.cluster.addresses, "it came back where the others look for it"
    least, most = written(run)
    assert documents + least <= store.cluster.count("things") <= documents + most
    store.drop()
