"""OpenSearch only: replicas without a node, the single voter of two nodes, and detected pauses."""

import socket
import time

import pytest

from loadframe.base.errors import BadInput

pytestmark = pytest.mark.store
ONLY = "opensearch"


def test_a_node_cannot_leave_if_its_copies_do_not_fit_elsewhere(store):
    store.cluster.create_collection("copies", {"settings": {"number_of_shards": 1, "number_of_replicas": 1}})
    with pytest.raises(BadInput, match="copies has 2 copies, and 1 node would remain"):
        store.cluster.shrink()
    store.cluster.drop_collection("copies")
    assert store.cluster.deviations() == []


def taken(address: str) -> socket.socket:
    """Listen where a node did, once it has gone: on a busy machine that takes a while."""
    host, _, port = address.rpartition(":")
    end = time.monotonic() + 60
    while True:
        try:
            return socket.create_server((host, int(port)))
        except OSError:
            assert time.monotonic() < end
            time.sleep(0.1)


def test_the_only_voter_that_comes_back_at_another_port_is_found_by_the_others(store):
    """One of two nodes is the only voter. While another process has its ports, the other node waits in vain."""
    cluster = store.cluster
    state = (
        "/_cluster/state/metadata,nodes?filter_path=metadata.cluster_coordination.last_committed_config,nodes.*.name"
    )
    told = cluster.store.request(cluster.addresses, "GET", state)
    [voter] = told["metadata"]["cluster_coordination"]["last_committed_config"]
    [node] = [node for node in cluster.nodes if node.name == told["nodes"][voter]["name"]]
    cluster.kill(node.name)
    with taken(node.address), taken(node.peer_address):
        assert cluster.mend()
        assert node.address not in cluster.addresses
        assert cluster.deviations() == []
    for address in cluster.addresses:
        assert cluster.store.health([address]).nodes == 2


def test_a_paused_node_is_a_deviation_until_it_is_resumed(store):
    name = store.cluster.nodes[-1].name
    store.cluster.pause(name)
    assert f"{name} is paused" in store.cluster.deviations()
    store.cluster.resume(name)
    end = time.monotonic() + 120
    while store.cluster.deviations() and time.monotonic() < end:
        time.sleep(0.5)
    assert store.cluster.deviations() == []
