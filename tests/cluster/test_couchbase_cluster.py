"""Life cycle of a Couchbase cluster from a fake installation, with nodes that behave as documented."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from commands import servers
from couchbase_home import install
from couchbase_service import VBUCKETS, CouchbaseService
from loadframe.base.errors import BadInput
from loadframe.cluster import Cluster, ClusterSpec
from loadframe.cluster.node import Node
from loadframe.cluster.placement import previous_endpoints
from loadframe.host.netns import NetnsHost


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[CouchbaseService]:
    monkeypatch.setattr("loadframe.cluster.scaling._FAREWELL", 0.1)
    monkeypatch.setattr("loadframe.store.couchbase.membership._POLL", 0.01)
    with CouchbaseService() as running:
        yield running


@pytest.fixture
def spec(service: CouchbaseService, tmp_path: Path) -> ClusterSpec:
    return ClusterSpec(
        store="couchbase", home=str(install(tmp_path / "couchbase", service.relay)), nodes=2, name="trial"
    )


@pytest.mark.slow
def test_a_cluster_grows_shrinks_stops_and_starts_again_where_it_was(service, spec, state):
    with Cluster.start(spec) as cluster:
        assert cluster.describe()["version"] == "7.6.2"
        assert cluster.grow() == ["node-2"]
        assert service.shares == dict.fromkeys(cluster.addresses, VBUCKETS // 3) | {cluster.addresses[0]: 342}
        assert cluster.deviations() == []
        assert cluster.shrink("node-1") == ["node-1"]
        before = cluster.addresses
        assert service.shares == dict.fromkeys(before, VBUCKETS // 2)
        assert "I am babysitter_of_n_" in cluster.nodes[0].log_end()
    assert not servers(state)
    asked = len(service.asked)
    with Cluster.start(spec) as again:
        assert again.addresses == before
        assert again.deviations() == []
    assert {method for method, _, _ in service.asked[asked:]} == {"GET"}, "it was formed again"


def test_its_password_is_its_owners_alone_and_known_to_other_commands(service, spec, state):
    with Cluster.start(replace(spec, nodes=1)) as cluster:
        file = cluster.nodes[0].folder.parent / "password"
        assert file.stat().st_mode & 0o777 == 0o600
        user, word = service.administrator
        assert (user, word) == ("Administrator", file.read_text())
        assert cluster.target()["auth"] == {"basic": {"user": user, "password": word}}
        assert word not in str(cluster.describe())
        cluster.keep()
        other = Cluster.load("trial")
        try:
            assert other.health().ready
        finally:
            other.stop()


def test_a_cluster_without_a_name_leaves_nothing(service, spec, state):
    with Cluster.start(replace(spec, nodes=1, name=None)) as cluster:
        assert cluster.health().ready
        assert not (cluster.nodes[0].folder.parent / "password").exists()
    assert not any((state / "passing").iterdir())


def test_it_does_not_start_at_another_place(service, spec, state):
    with Cluster.start(replace(spec, nodes=1)) as cluster:
        address = cluster.addresses[0]
    with pytest.raises(BadInput, match=rf"nodes of couchbase keep their addresses \(.*\), and node-0 has {address}"):
        Cluster.start(replace(spec, port=23456))
    node = Node("node-0", address, peer_address="127.0.0.1:20000")
    with pytest.raises(BadInput, match=f"node-0 has {address}"):
        previous_endpoints("couchbase", "they do", [NetnsHost()], [node], None)
    service.start_again(address)
    with pytest.raises(BadInput, match="that of node-0 is in use") as caught:
        Cluster.start(spec)
    assert caught.value.where == address
    assert not servers(state)
