"""A node's files and command line of Elasticsearch 6.8, and a real node as the load uses it."""

import dataclasses
from pathlib import Path

import pytest

from loadframe.cluster import Cluster, ClusterSpec
from loadframe.errors import BadInput
from loadframe.load import check_operations
from loadframe.store import Installation, NodeSpec, find
from loadframe.store.base import NodePlan

NODE = NodeSpec(
    cluster="test",
    name="node-1",
    address="127.0.0.1",
    port=9201,
    peer_port=9301,
    folder=Path("/clusters/test/node-1"),
    peers=("127.0.0.1:9300", "127.0.0.1:9301", "127.0.0.1:9302"),
    founders=("node-0", "node-1", "node-2"),
)


def plan(node: NodeSpec = NODE) -> NodePlan:
    return find("elasticsearch").plan(node, Installation(Path("/software"), Path("/java")))


def test_a_node_is_configured_by_the_settings_of_its_age():
    text = plan().files["config/elasticsearch.yml"]
    assert "transport.tcp.port: 9301\n" in text
    assert 'discovery.zen.ping.unicast.hosts: ["127.0.0.1:9300", "127.0.0.1:9301", "127.0.0.1:9302"]\n' in text
    assert "discovery.zen.minimum_master_nodes: 2\n" in text
    assert "discovery.seed_hosts" not in text


def test_two_nodes_elect_only_together():
    text = plan(dataclasses.replace(NODE, founders=("node-0", "node-1"))).files["config/elasticsearch.yml"]
    assert "discovery.zen.minimum_master_nodes: 2\n" in text


def test_a_node_writes_into_its_own_folder_and_reads_the_shared_software():
    argv = plan().argv
    assert argv[0] == "/java/bin/java"
    assert "-Des.path.conf=/clusters/test/node-1/config" in argv
    assert argv[-2:] == ("/software/lib/*", "org.elasticsearch.bootstrap.Elasticsearch")


def test_what_loadframe_decides_is_no_setting():
    with pytest.raises(BadInput, match=r"transport\.tcp\.port is loadframe's to decide"):
        find("elasticsearch").check_settings({"transport.tcp.port": 1})


def test_another_version_is_not_embedded():
    with pytest.raises(BadInput, match=r"elasticsearch 8\.1\.0 is not among the embedded versions"):
        find("elasticsearch").distribution("8.1.0")


@pytest.mark.store
def test_a_real_node_takes_counts_and_drops_documents():
    with Cluster.start(ClusterSpec("elasticsearch")) as cluster:
        assert cluster.target()["store"] == {"distribution": "elasticsearch", "version": "6.8.23"}
        cluster.create_collection("things", {"mappings": {"properties": {"size": {"type": "integer"}}}})
        plan = {
            "seed": 1,
            "phase": "p",
            "target": {"driver": "search", "hosts": cluster.addresses, **cluster.target()},
            "operations": {
                "index": {"index": {"collection": "things", "id": 1, "document": {"size": 1}}},
                "update": {"update": {"collection": "things", "id": 1, "document": {"size": 2}}},
                "histogram": {
                    "search": {
                        "collection": "things",
                        "body": {
                            "aggs": {"days": {"date_histogram": {"field": "size", "calendar_interval": "day"}}},
                            "track_total_hits": 10,
                        },
                    }
                },
            },
            "streams": [],
        }
        for name in plan["operations"]:
            stream = {"name": name, "mix": [[name, 1]], "pacing": {"closed": {"clients": 1}}, "stop": {"requests": 1}}
            (answer,) = check_operations({**plan, "operations": {name: plan["operations"][name]}, "streams": [stream]})
            assert answer["error"] is None, answer["message"]
        assert cluster.count("things") == 1
        assert cluster.statistics()["node-0"]["documents"] == 1
        cluster.drop_collection("things")
        assert not cluster.has_collection("things")
