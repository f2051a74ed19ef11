"""Administration of Couchbase: buckets from definitions, statistics of nodes, and unsupported features."""

import json
from urllib.parse import parse_qs

import pytest

from loadframe.base.errors import BadInput, LoadframeError
from loadframe.cluster import Cluster, ClusterSpec
from loadframe.store import find
from loadframe.store.access import Access, Auth
from loadframe.store.base import Unreachable
from loadframe.store.couchbase import bucket_form, compactions, node_figures
from loopback_server import Handler, LoopbackServer


def test_a_bucket_keeps_one_copy_where_there_is_a_node_for_it():
    assert bucket_form("people", {}, nodes=1)["replicaNumber"] == 0
    assert bucket_form("people", {}, nodes=3) == {
        "name": "people",
        "bucketType": "couchbase",
        "ramQuotaMB": 256,
        "replicaNumber": 1,
        "durabilityMinLevel": "none",
    }
    unset = {"replicas": None, "ram_quota": None, "durability": None}
    assert bucket_form("people", unset, nodes=3) == bucket_form("people", {}, nodes=3)


def test_a_definition_says_memory_copies_and_durability():
    definition = {"ram_quota": "1g", "replicas": 2, "durability": "persist_to_majority", "index": True}
    form = bucket_form("people", definition, nodes=3)
    assert (form["ramQuotaMB"], form["replicaNumber"], form["durabilityMinLevel"]) == (1024, 2, "persistToMajority")


@pytest.mark.parametrize(
    ("definition", "words"),
    [
        ({"replica": 1}, "unknown option replica of a bucket"),
        ({"ram_quota": "50m"}, "100 MiB"),
        ({"replicas": 2}, "2 replicas on 2 nodes"),
        ({"replicas": -1}, "-1 replicas"),
        ({"durability": "mayority"}, "unknown durability 'mayority'"),
    ],
)
def test_a_bucket_that_the_server_would_not_make_is_refused_before_it_is_asked(definition, words):
    with pytest.raises(BadInput, match=words):
        bucket_form("people", definition, nodes=2)


def test_a_nodes_figures_are_those_that_it_has():
    node = {
        "hostname": "a:8091",
        "systemStats": {"cpu_utilization_rate": 12.5},
        "interestingStats": {"ops": 3, "curr_items": 1000, "mem_used": 2**20, "couch_views_ops": 0},
    }
    assert node_figures(node) == {
        "operations_per_second": 3.0,
        "documents": 1000.0,
        "memory_bytes": 2.0**20,
        "cpu_percent": 12.5,
    }
    assert node_figures({"hostname": "b:8091"}) == {}


def test_compactions_are_counted_among_the_tasks_of_the_cluster():
    rebalance = {"type": "rebalance", "status": "running"}
    bucket = {"type": "bucket_compaction", "status": "running", "bucket": "people", "progress": 40}
    view = {"type": "view_compaction", "status": "running", "designDocument": "_design/x", "progress": 7}
    assert compactions([rebalance, bucket, {**bucket, "bucket": "usertable"}, view]) == 3
    assert compactions([{**rebalance, "status": "notRunning"}, {**bucket, "status": "queued"}]) == 0
    assert compactions([]) == 0


@pytest.mark.parametrize("access", [Access(auth=Auth("api_key", "a:b")), Access(compress=True)])
def test_unsupported_protocol_features_are_refused(access):
    with pytest.raises(BadInput):
        find("couchbase").with_access(access)


def test_without_an_installation_it_is_not_started(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(BadInput, match=r"no package registry has couchbase\n  .*--home.*--hosts"):
        Cluster.require(ClusterSpec("couchbase"))


def test_unreachable_addresses_are_named_in_the_error():
    with pytest.raises(Unreachable, match="does not answer") as caught:
        find("couchbase").version(["127.0.0.1:9"])
    assert caught.value.where == "127.0.0.1:9"


class _Bucket(Handler):
    """Administration and query service of one node with the bucket `people`, without or with a primary index."""

    indexed = True
    documents = ()

    def do_GET(self) -> None:
        port = self.server.server_port
        answers = {
            "/pools/default/nodeServices": {"nodesExt": [{"services": {"n1ql": port}}]},
            "/pools/default/buckets/people": {"basicStats": {"itemCount": 1000}},
        }
        self._send(200 if self.path in answers else 404, answers.get(self.path, {}))

    def do_POST(self) -> None:
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self.server.statement = form["statement"][0]
        if self.indexed:
            self._send(200, {"results": self.documents, "status": "success"})
        else:
            error = {"code": 4000, "msg": "No index available on keyspace people that matches your query."}
            self._send(404, {"errors": [error], "status": "fatal"})

    def _send(self, status: int, content: object) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def test_a_sample_holds_random_objects_of_a_bucket():
    documents = [*({"name": f"n{number}"} for number in range(60)), "text", None, {}]
    with LoopbackServer(type("Bucket", (_Bucket,), {"documents": documents})) as server:
        sample = find("couchbase").sample([server.address], "people", 50)
        statement = server._server.statement
    assert len({document["name"] for document in sample.documents}) == 50
    # 50 of 1,000 documents: keys are chosen before documents are read.
    chosen = "SELECT RAW META(k).id FROM `people` AS k WHERE RANDOM() < 0.050000000"
    assert statement == f"SELECT RAW d FROM `people` AS d USE KEYS ({chosen})"


def test_a_statement_that_fails_after_its_first_results_fails():
    class Interrupted(_Bucket):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self._send(200, {"results": [{"name": "a"}], "errors": [{"code": 1080, "msg": "Timeout exceeded"}]})

    with LoopbackServer(Interrupted) as server, pytest.raises(LoadframeError, match="Timeout exceeded"):
        find("couchbase").sample([server.address], "people", 50)


def test_a_bucket_without_an_index_is_not_sampled():
    with LoopbackServer(type("Bucket", (_Bucket,), {"indexed": False})) as server:
        with pytest.raises(BadInput, match="the bucket people lacks a primary index") as error:
            find("couchbase").sample([server.address], "people", 50)
        assert "CREATE PRIMARY INDEX ON `people`" in str(error.value.remedy)
        with pytest.raises(BadInput, match="the bucket other does not exist"):
            find("couchbase").sample([server.address], "other", 50)
