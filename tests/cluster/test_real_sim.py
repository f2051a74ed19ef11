"""A cluster of simulated nodes, which are real processes: collections, documents, load, growing, shrinking, a death."""

import json
import os
import time

import httpx
import pytest

from commands import loadframe
from loadframe.base.errors import BadInput, LoadframeError
from loadframe.cluster import Cluster, ClusterSpec, Limits
from loadframe.experiment.runner.listener import Labels, Listener, RunHook
from loadframe.experiment.runner.session import Session
from loadframe.host.limits import PERIOD, choose
from loadframe.load import Generator
from loadframe.record import Run
from loadframe.workload import load_workload

pytestmark = pytest.mark.store

SETTINGS = {"service": "5ms", "distribution": "constant", "servers": 2, "shard_size": "10k", "bandwidth": "40k"}
#: One copy moves for a quarter of a second.
SHARDS = {"settings": {"number_of_shards": 6, "number_of_replicas": 0}}


@pytest.fixture(scope="module")
def cluster():
    with Cluster.start(ClusterSpec(store="sim", nodes=2, settings=SETTINGS)) as started:
        yield started


@pytest.fixture
def things(cluster):
    cluster.create_collection("things", SHARDS)
    yield cluster.addresses
    cluster.drop_collection("things")


def post(address, path, text="{}"):
    answer = httpx.post(f"http://{address}{path}", content=text, headers={"content-type": "application/json"})
    return answer.json()


def test_its_nodes_see_each_other_and_all_writes(cluster, things):
    bulk = '{"index": {}}\n{"a": 1}\n' * 30
    assert len(post(things[0], "/things/_bulk", bulk)["items"]) == 30
    post(things[1], "/things/_bulk", bulk)
    assert cluster.count("things") == 60
    assert cluster.health().ready
    assert sorted(cluster.statistics()) == ["node-0", "node-1"]
    assert len(post(things[1], "/things/_search?size=7")["hits"]["hits"]) == 7


def test_an_answer_takes_at_least_its_service_time(things):
    begun = time.monotonic()
    for _ in range(5):
        post(things[0], "/things/_search")
    assert time.monotonic() - begun >= 5 * 0.005


def test_a_collection_that_is_not_there_and_a_request_that_is_unknown_are_errors(cluster, things):
    assert post(things[0], "/nothing/_search")["error"]["reason"] == "no such index [nothing]"
    with pytest.raises(LoadframeError, match="does not support GET /things/_frobnicate"):
        cluster.store.request(things, "GET", "/things/_frobnicate")


def test_it_grows_and_shrinks_with_its_data(cluster, things):
    said = []
    assert cluster.grow(1, said.append) == ["node-2"]
    assert cluster.health().nodes == 3
    shards = [shard["node"] for shard in cluster.store.request(things, "GET", "/_cat/shards?format=json")]
    assert sorted(shards) == ["node-0", "node-0", "node-1", "node-1", "node-2", "node-2"]
    assert cluster.shrink() == ["node-2"]
    assert cluster.health().nodes == 2
    assert cluster.health().missing == 0


def test_a_node_that_dies_is_missed_and_comes_back_with_its_data(cluster, things):
    cluster.kill("node-1")
    deadline = time.monotonic() + 10
    while cluster.health().nodes == 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert cluster.health().missing == 3
    assert post(things[0], "/things/_search")["_shards"]["failed"] == 3
    assert cluster.mend()
    assert cluster.health().ready
    assert cluster.health().missing == 0


def test_a_cluster_with_a_name_keeps_its_data(state):
    spec = ClusterSpec(store="sim", nodes=2, settings=SETTINGS, name="again")
    with Cluster.start(spec) as first:
        first.create_collection("kept", SHARDS)
        post(first.addresses[0], "/kept/_bulk", '{"index": {}}\n{"a": 1}\n' * 4)
        assert first.count("kept") == 4
    with Cluster.start(spec) as again:
        assert again.health().ready
        assert again.count("kept") == 4


def test_unnamed_clusters_are_removed_and_are_private(tmp_path, monkeypatch):
    monkeypatch.setenv("LOADFRAME_STATE", str(tmp_path / "state"))
    with Cluster.start(ClusterSpec(store="sim", nodes=2, settings=SETTINGS)) as started:
        node = started.nodes[0].folder
        assert node.is_relative_to(tmp_path / "state")
        modes = [path.stat().st_mode & 0o077 & (0o066 if path.is_dir() else 0o077) for path in (node, *node.rglob("*"))]
        assert set(modes) == {0}
        assert [path.stat().st_mode & 0o066 for path in node.parents[:3]] == [0, 0, 0]
        # A killed node cannot clear up.
        started.kill("node-0")
    assert list((tmp_path / "state" / "passing").iterdir()) == []


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_each_node_keeps_to_a_core_of_its_own():
    said = []
    with Cluster.start(ClusterSpec(store="sim", nodes=1, limits=Limits(cores_each=1)), said.append) as cluster:
        [first] = cluster.nodes
        assert os.sched_getaffinity(first.pid) == set(first.cores)
        assert len(first.cores) == 1
        assert cluster.cores_left
        assert not cluster.cores_left & set(first.cores)
        assert not [line for line in said if "load generator shares" in line]
        cluster.grow()
        one, two = (os.sched_getaffinity(node.pid) for node in cluster.nodes)
        assert one == set(first.cores)
        assert len(two) == 1
        assert not one & two
        described = cluster.describe()
        assert described["limits"]["cores_each"] == 1
        assert described["cores"] == {node.name: node.cores for node in cluster.nodes}
        assert not cluster.deviations()
        with pytest.raises(BadInput, match="core each need"):
            cluster.grow(len(os.sched_getaffinity(0)))
        assert cluster.size == 2


WORKLOAD = """\
workload: w
collections: {things: {}}
operations: {look: {search: {collection: things}}}
phases: [{name: look, operation: look, clients: 1, requests: 20}]
"""
LIFTED = "the CPU limit of node-1 is none, not 0.5 cores"


class Lifts(RunHook):
    """Lifts the quota of a node at the start of a phase, as another program may do."""

    def __init__(self, cluster, disturbs):
        self.cluster, self.disturbs = cluster, disturbs

    def phase(self, start, warmup):
        lift(self.cluster)


def lift(cluster):
    group = cluster.nodes[1].process._group
    group.version.set_quota(group.folders, None, PERIOD)


@pytest.mark.skipif(not getattr(choose()[0], "shares", False), reason="control groups cannot be made here")
def test_a_limit_that_another_program_lifts_is_a_deviation_and_makes_the_run_invalid(state, tmp_path):
    (tmp_path / "w.yaml").write_text(WORKLOAD)
    limits = Limits(cpus=0.5, memory=2**28)
    with Cluster.start(ClusterSpec(store="sim", nodes=2, name="limited", settings=SETTINGS, limits=limits)) as cluster:
        workload = load_workload(str(tmp_path / "w.yaml"), {}).for_family("elasticsearch", 2)
        session = Session(cluster, workload, seed=1, generator=Generator(), listener=Listener())
        session.create_collections()
        for number, hook in enumerate([None, Lifts(cluster, disturbs=False), Lifts(cluster, disturbs=True)]):
            cluster.throttle(True)
            path = session.record(tmp_path, f"run-{number}", workload.phases, Labels(), hook=hook)
            reasons = [it.cause for it in Run(path).summary.verdict.reasons if it.code == "cluster_state"]
            assert reasons == ([LIFTED] if hook else [])
            assert Run(path).summary.verdict.valid == (hook is None)
        shown = loadframe("cluster", "status", "limited").stdout
        assert "deviating" in shown and LIFTED in shown
        assert json.loads(loadframe("cluster", "status", "limited", "--json").stdout)["deviations"] == [LIFTED]
        cluster.throttle(True)
        assert "running" in loadframe("cluster", "status", "limited").stdout
