"""A node's files and command line of Elasticsearch 6.8."""

import dataclasses
from pathlib import Path

import pytest

from loadframe.base.errors import BadInput
from loadframe.store import Installation, NodeSpec, find
from loadframe.store.base import Member, NodePlan
from loadframe.store.elasticsearch import Elasticsearch

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


@pytest.mark.parametrize(("nodes", "least"), [(1, 1), (2, 2), (3, 2), (4, 3)])
def test_a_node_elects_with_a_majority_of_all_also_if_it_joins_later(nodes, least):
    later = dataclasses.replace(NODE, peers=NODE.peers[:1] * nodes, founders=())
    assert f"discovery.zen.minimum_master_nodes: {least}\n" in plan(later).files["config/elasticsearch.yml"]


def test_a_node_that_nobody_elects_is_told_so_and_does_not_count():
    text = plan(dataclasses.replace(NODE, electors=("node-0",))).files["config/elasticsearch.yml"]
    assert "node.master: false\n" in text
    assert "discovery.zen.minimum_master_nodes: 1\n" in text
    text = plan(dataclasses.replace(NODE, electors=("node-0", NODE.name, "node-2"))).files["config/elasticsearch.yml"]
    assert "node.master" not in text
    assert "discovery.zen.minimum_master_nodes: 2\n" in text


def test_a_node_writes_into_its_own_folder_and_reads_the_shared_software():
    argv = plan().argv
    assert argv[0] == "/java/bin/java"
    assert "-Des.path.conf=/clusters/test/node-1/config" in argv
    assert argv[-2:] == ("/software/lib/*", "org.elasticsearch.bootstrap.Elasticsearch")


def test_settings_that_loadframe_controls_are_refused():
    with pytest.raises(BadInput, match=r"transport\.tcp\.port is controlled by Loadframe"):
        find("elasticsearch").check_settings({"transport.tcp.port": 1})


def test_another_version_is_not_embedded():
    with pytest.raises(BadInput, match=r"elasticsearch 8\.1\.0 is not an embedded version"):
        find("elasticsearch").distribution("8.1.0")


@pytest.mark.parametrize(("version", "place"), [("7.7.1", "/node-1"), ("7.8.0", "?node_names=node-1")])
def test_a_vote_is_taken_by_the_request_of_the_version(monkeypatch, version, place):
    requests = []

    def request(addresses, method, path, *_args, **_options):
        requests.append(f"{method} {path}")
        return {"version": {"number": version}}

    store = Elasticsearch()
    monkeypatch.setattr(store, "request", request)
    store.resign(["127.0.0.1:9200"], Member("node-1", "127.0.0.1:9201"))
    assert requests[-1] == f"POST /_cluster/voting_config_exclusions{place}"


def test_a_version_without_data_streams_is_not_asked_for_them(monkeypatch):
    requests = []

    def request(addresses, method, path, *_args, **_options):
        requests.append(f"{method} {path}")
        if path == "/":
            return {"version": {"number": "7.8.1"}}
        return {"ads-000001": {"aliases": {"ads": {}}}} if path.startswith("/ads?") else {"ads": {}}

    store = Elasticsearch()
    monkeypatch.setattr(store, "request", request)
    store.drop_collection(["127.0.0.1:9200"], "ads")
    assert requests[-2:] == ["DELETE /ads-000001", "DELETE /_template/ads"]
    assert "GET /_data_stream" not in requests
