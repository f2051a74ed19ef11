"""An OpenSearch node's files and command line, and the layout of its distribution."""

import json
import re
from pathlib import Path

import pytest

from loadframe.base.errors import BadInput
from loadframe.cluster import Cluster, ClusterSpec
from loadframe.store import Installation, NodePlan, NodeSpec, find
from loadframe.store.search import METRICS

GIB = 2**30
INSTALLATION = Installation(Path("/cache/opensearch"), Path("/java"))


def plan(**more) -> NodePlan:
    spec = {
        "cluster": "loadframe-x",
        "name": "node-1",
        "address": "127.0.0.1",
        "port": 9201,
        "peer_port": 9301,
        "folder": Path("/clusters/x/node-1"),
        "peers": ("127.0.0.1:9300", "127.0.0.1:9301"),
        "founders": ("node-0", "node-1"),
    }
    return find("opensearch").plan(NodeSpec(**spec | more), INSTALLATION)


def configuration(planned: NodePlan) -> dict:
    lines = planned.files["config/opensearch.yml"].splitlines()
    return {key: json.loads(value) for key, value in (line.split(": ", 1) for line in lines)}


@pytest.mark.parametrize(
    ("memory", "settings", "heap"),
    [
        (None, {}, GIB // 2),
        (GIB, {}, GIB // 2),
        (4 * GIB, {}, 2 * GIB),
        (512 * 2**20, {}, 256 * 2**20),
        (128 * GIB, {}, 31 * GIB),
        (None, {"heap": "300m"}, 300 * 2**20),
        (GIB, {"heap": "600m"}, 600 * 2**20),
    ],
)
def test_the_heap_is_half_of_the_memory_unless_it_is_set(memory, settings, heap):
    planned = plan(memory=memory, settings=settings)
    assert f"-Xms{heap}" in planned.argv
    assert f"-Xmx{heap}" in planned.argv
    assert planned.facts["heap"] == heap


@pytest.mark.parametrize(("memory", "settings"), [(256 * 2**20, {}), (GIB, {"heap": "1g"})])
def test_a_heap_that_leaves_no_memory_for_the_rest_is_refused(memory, settings):
    with pytest.raises(BadInput, match=r"leaves too little memory"):
        plan(memory=memory, settings=settings)


@pytest.mark.parametrize(("cpus", "processors"), [(0.5, 1), (1, 1), (1.5, 2), (4, 4)])
def test_a_limited_node_sizes_its_pools_for_the_cpus_it_may_use(cpus, processors):
    assert f"-XX:ActiveProcessorCount={processors}" in plan(cpus=cpus).argv


def test_an_unlimited_node_sizes_its_pools_for_the_machine():
    assert not any("ActiveProcessorCount" in word for word in plan().argv)


def test_the_collector_does_not_change_with_the_cpus():
    assert "-XX:+UseG1GC" in plan(cpus=0.5).argv
    assert "-XX:+UseG1GC" in plan(cpus=8).argv


def test_a_node_binds_its_own_address_and_looks_for_its_peers():
    settings = configuration(plan())
    assert settings["network.host"] == "127.0.0.1"
    assert settings["http.port"] == 9201
    assert settings["transport.port"] == 9301
    assert (settings["discovery.seed_hosts"], settings["discovery.seed_providers"]) == ([], "file")
    assert plan().files["config/unicast_hosts.txt"] == "127.0.0.1:9300\n127.0.0.1:9301\n"
    assert settings["cluster.initial_cluster_manager_nodes"] == ["node-0", "node-1"]


def test_a_node_on_a_rack_is_told_so_and_that_copies_belong_on_different_ones():
    told = configuration(plan(rack="rack_one"))
    assert told["node.attr.rack_id"] == "rack_one"
    assert told["cluster.routing.allocation.awareness.attributes"] == "rack_id"
    assert not [key for key in configuration(plan()) if "rack" in key or "awareness" in key]


def test_a_node_that_nobody_elects_is_told_so_unless_a_setting_says_what_it_is():
    settings = configuration(plan(electors=("node-0",)))
    assert settings["node.roles"] == ["data", "ingest", "remote_cluster_client"]
    assert settings["cluster.initial_cluster_manager_nodes"] == ["node-0"]
    assert "node.roles" not in configuration(plan(electors=("node-0", "node-1")))
    asked = {"node.roles": ["cluster_manager", "data"]}
    assert configuration(plan(electors=("node-0",), settings=asked))["node.roles"] == asked["node.roles"]


@pytest.mark.parametrize(("nodes", "wanted"), [(1, 1), (2, 1), (3, 3), (4, 3), (60, 3)])
def test_one_is_elected_below_three_nodes_and_three_from_there_on(nodes, wanted):
    assert find("opensearch").electors(nodes) == find("elasticsearch").electors(nodes) == wanted


def test_a_node_writes_only_into_its_own_folder():
    planned = plan()
    assert configuration(planned)["path.data"] == "/clusters/x/node-1/data"
    assert configuration(planned)["path.logs"] == "/clusters/x/node-1/logs"
    assert "-Djava.io.tmpdir=/clusters/x/node-1/tmp" in planned.argv
    assert "-Dopensearch.path.home=/cache/opensearch" in planned.argv


def test_a_full_disk_does_not_turn_the_cluster_red():
    assert configuration(plan())["cluster.routing.allocation.disk.threshold_enabled"] is False


def test_settings_of_the_user_come_last_and_heap_is_none_of_the_servers():
    asked = {"cluster.routing.allocation.disk.threshold_enabled": True, "node.processors": 1, "heap": "1g"}
    settings = configuration(plan(settings=asked))
    assert settings["cluster.routing.allocation.disk.threshold_enabled"] is True
    assert settings["node.processors"] == 1
    assert "heap" not in settings


@pytest.mark.parametrize("key", ["http.port", "path.data", "network.host", "cluster.name"])
def test_settings_that_loadframe_decides_are_refused(key):
    with pytest.raises(BadInput, match=f"{key} is controlled by Loadframe"):
        find("opensearch").check_settings({key: "x"})


def test_invalid_heap_sizes_are_refused():
    with pytest.raises(BadInput, match="is not a size"):
        find("opensearch").check_settings({"heap": "much"})


@pytest.mark.parametrize("kind", ["opensearch", "elasticsearch", "cassandra"])
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("-Xmx1g", "which Loadframe controls"),
        ("-XX:+UseZGC -XX:MaxHeapSize=1g", "which Loadframe controls"),
        ("UseZGC", "not a JVM option"),
    ],
)
def test_options_of_the_jvm_are_options_and_none_of_ours(kind, options, said):
    with pytest.raises(BadInput, match=said):
        find(kind).check_settings({"jvm": f"-XX:+UseSerialGC {options}"})


def test_options_of_the_jvm_come_after_ours_and_replace_the_collector():
    planned = plan(settings={"jvm": "-XX:+UseSerialGC -XX:-UsePerfData"})
    assert "-XX:+UseSerialGC" in planned.facts["jvm_options"]
    assert planned.argv.count("-XX:-UsePerfData") == 2
    assert "-XX:+UseG1GC" not in planned.argv
    assert "jvm" not in planned.files["config/opensearch.yml"]


def test_a_version_that_is_not_embedded_is_answered_with_those_that_are():
    with pytest.raises(BadInput, match=r"opensearch 1\.0 is not an embedded version\n  use 3\.8\.0"):
        find("opensearch").distribution("1.0")


def test_no_jar_is_both_in_the_library_and_in_a_module():
    jars = find("opensearch").distribution("3.8.0").jars
    library = {jar.coordinates for jar in jars if jar.place == "lib"}
    assert not [jar.path for jar in jars if jar.place != "lib" and jar.coordinates in library]


def test_each_module_has_its_jars_and_a_descriptor_that_names_its_class():
    distribution = find("opensearch").distribution("3.8.0")
    texts = dict(distribution.texts)
    assert {"transport-netty4", "mapper-extras", "lang-painless", "reindex"} <= {m.name for m in distribution.modules}
    for module in distribution.modules:
        assert any(jar.place == f"modules/{module.name}" for jar in distribution.jars)
        descriptor = texts[f"modules/{module.name}/plugin-descriptor.properties"]
        assert f"classname={module.plugin_class}\n" in descriptor
        assert "opensearch.version=3.8.0\n" in descriptor


def test_every_statistic_is_documented_and_every_documented_one_exists():
    page = (Path(__file__).parents[2] / "docs" / "reference" / "stores" / "opensearch.md").read_text()
    table = page[page.index("| statistic |") :]
    documented = {name for row in table.splitlines() for name in re.findall(r"`([a-z_]+)`", row.split("|")[1])}
    assert documented == set(METRICS)


def test_version_2_has_no_agent_and_lets_its_modules_do_what_they_do():
    distribution = find("opensearch").distribution("2.19.6")
    assert not [jar.path for jar in distribution.jars if "agent" in jar.path]
    texts = dict(distribution.texts)
    assert all(f"modules/{module.name}/plugin-security.policy" in texts for module in distribution.modules)
    assert not [path for path, _ in find("opensearch").distribution("3.8.0").texts if path.endswith(".policy")]


@pytest.mark.store
@pytest.mark.trial
def test_two_real_nodes_of_version_2_make_a_cluster():
    with Cluster.start(ClusterSpec("opensearch", version="2.19.6", nodes=2)) as cluster:
        assert cluster.health().nodes == 2
        cluster.create_collection("things", {"settings": {"number_of_replicas": 0}})
        assert cluster.count("things") == 0
