"""Two real OpenSearch nodes under limits: messages, operations and monitoring of a cluster."""

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from loadframe.base.errors import BadInput
from loadframe.cluster import Cluster, ClusterSpec, Limits
from loadframe.host.files import SERVER_USER
from loadframe.host.limits import choose

pytestmark = pytest.mark.store

LIMITED = choose()[0] is not None
DEFINITION = {
    "settings": {"number_of_replicas": 0},
    "mappings": {"properties": {"amount": {"type": "scaled_float", "scaling_factor": 100}}},
}


@pytest.fixture(scope="module")
def lines() -> list[str]:
    """Lines that the start reported."""
    return []


@pytest.fixture(scope="module")
def cluster(module_state, lines) -> Iterator[Cluster]:
    limits = Limits(cpus=0.2, memory=1200 * 2**20)
    with Cluster.start(ClusterSpec(nodes=2, limits=limits, settings={"heap": "400m"}), lines.append) as started:
        # Most of these tests do not need the quota, only the patience that it would ask for.
        started.throttle(False)
        yield started
    assert not any(node.process.alive() for node in started.nodes)
    assert not any(module_state.glob("passing/*")), "the nodes' folders are left"


@pytest.fixture
def collection(cluster: Cluster) -> Iterator[str]:
    cluster.create_collection("taxis", DEFINITION)
    yield "taxis"
    cluster.drop_collection("taxis")


def test_the_start_reports_its_steps(cluster, lines):
    assert "starting 2 nodes of opensearch 3.8.0" in lines


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's servers run as another user")
def test_the_servers_are_not_root(cluster):
    for node in cluster.nodes:
        assert psutil.Process(node.pid).uids() == (SERVER_USER, SERVER_USER, SERVER_USER)
        assert psutil.Process(node.pid).gids() == (SERVER_USER, SERVER_USER, SERVER_USER)


def test_the_servers_listen_on_loopback_only(cluster):
    for node in cluster.nodes:
        listening = [c.laddr for c in psutil.Process(node.pid).net_connections() if c.status == psutil.CONN_LISTEN]
        assert {f"{address.ip.removeprefix('::ffff:')}:{address.port}" for address in listening} == {
            node.address,
            node.peer_address,
        }


def test_nodes_share_the_software_and_hold_their_own_files_only(cluster):
    for node in cluster.nodes:
        beside_data = [path for path in node.folder.iterdir() if path.name not in ("data", "tmp")]
        files = [file for path in beside_data for file in (path, *path.rglob("*")) if file.is_file()]
        assert sum(file.stat().st_size for file in files) < 2**20, f"the software has 56 MB: {files}"
    homes = {word for node in cluster.nodes for word in psutil.Process(node.pid).cmdline() if ".path.home=" in word}
    assert len(homes) == 1


def test_a_collection_has_a_shard_for_each_node_and_counts_recent_writes(cluster, collection):
    shards = cluster.store.request(cluster.addresses, "GET", f"/{collection}/_settings?flat_settings=true")
    assert shards[collection]["settings"]["index.number_of_shards"] == "2"
    for number in range(3):
        cluster.store.request(cluster.addresses, "PUT", f"/{collection}/_doc/{number}", {"amount": number / 2})
    assert cluster.count(collection) == 3


def test_a_number_of_shards_that_is_given_is_taken(cluster):
    for settings in ({"number_of_shards": 3}, {"index": {"number_of_shards": 3}}, {"index.number_of_shards": 3}):
        cluster.create_collection("three", {"settings": {"number_of_replicas": 0, **settings}})
        kept = cluster.store.request(cluster.addresses, "GET", "/three/_settings?flat_settings=true")
        cluster.drop_collection("three")
        assert kept["three"]["settings"]["index.number_of_shards"] == "3"


def test_every_node_tells_its_figures(cluster, collection):
    cluster.store.request(cluster.addresses, "POST", f"/{collection}/_search", {})
    figures = cluster.statistics()
    assert set(figures) == {"node-0", "node-1"}
    for node in figures.values():
        assert 0 < node["heap_used_bytes"] <= 400 * 2**20
        assert node["search_rejected"] == 0
        assert {
            "cpu_percent",
            "uptime_ms",
            "search_queue",
            "write_queue",
            "gc_old_ms",
            "merges_current",
            "segments",
        } <= set(node)
    assert sum(node["search_query_total"] for node in figures.values()) >= 2


def test_statistics_are_cheap_enough_for_once_a_second(cluster):
    cluster.statistics()
    before = time.monotonic()
    for _ in range(3):
        cluster.statistics()
    assert time.monotonic() - before < 3


def test_the_description_has_requested_and_chosen_values(cluster):
    described = cluster.describe()
    assert (described["kind"], described["family"], described["version"]) == ("opensearch", "elasticsearch", "3.8.0")
    assert described["nodes"] == 2
    assert described["heap"] == 400 * 2**20
    assert described["limits"]["cpus"] == 0.2
    assert described["limits"]["memory"] == 1200 * 2**20
    assert described["limits"]["period"] == 0.1
    assert described["settings"] == {"heap": "400m"}
    assert described["java"].startswith("21.")
    assert described["addresses"] == cluster.addresses


@pytest.mark.skipif(not LIMITED, reason="no way to enforce limits works on this machine")
def test_a_throttled_node_waits_for_its_share_and_a_lifted_quota_is_a_deviation(cluster):
    cluster.throttle(True)
    assert cluster.deviations() == []
    before = _waited(cluster)
    _busy(cluster)
    assert _waited(cluster) > before
    cluster.throttle(False)
    assert cluster.deviations() == ["the CPU quota is lifted"]
    before = _waited(cluster)
    _busy(cluster)
    assert _waited(cluster) == before


def test_a_copy_that_no_node_has_room_for_is_a_deviation(cluster):
    cluster.create_collection("copies", {"settings": {"number_of_replicas": 2, "number_of_shards": 1}})
    deviations = cluster.deviations()
    cluster.drop_collection("copies")
    assert "the cluster is yellow, with 2 copies of data not in service" in deviations


def test_foreign_clusters_can_be_used_and_are_not_stopped(cluster):
    with Cluster.attach(cluster.addresses) as attached:
        assert attached.size == 2
        assert attached.deviations() == [], "the quota of a foreign cluster is not a deviation"
        assert attached.describe()["version"] == "3.8.0"
        assert attached.describe()["origin"] == "attached"
        attached.throttle(False)
        with pytest.raises(BadInput, match="only a cluster with a name can be kept"):
            attached.keep()
    assert cluster.health().nodes == 2


def _busy(cluster: Cluster) -> None:
    """A second of more work for every node than its share allows."""
    end = time.monotonic() + 1.0

    def ask(address: str) -> None:
        while time.monotonic() < end:
            cluster.store.request([address], "GET", "/_cluster/state")

    with ThreadPoolExecutor() as pool:
        list(pool.map(ask, 4 * cluster.addresses))


def _waited(cluster: Cluster) -> int:
    total = 0
    for node in cluster.nodes:
        stat = (node.control_groups["cpu"] / "cpu.stat").read_text()
        total += int(dict(line.split() for line in stat.splitlines())["nr_throttled"])
    return total
