"""A session on a real node: collections, the filling without a record, and recorded runs."""

import _thread
import json
import threading
from dataclasses import replace

import pytest

from loadframe.analyze.experiment import RecordedRun
from loadframe.base.errors import BadInput, LoadframeError
from loadframe.cluster import Cluster, ClusterSpec
from loadframe.experiment.runner import document_counts
from loadframe.experiment.runner import session as sessions
from loadframe.experiment.runner.listener import Labels, Listener
from loadframe.experiment.runner.session import Session
from loadframe.library.options import attachment
from loadframe.load import Generator
from loadframe.record import Run
from loadframe.workload import load_workload
from own_servers import REDIS

pytestmark = pytest.mark.store

WORKLOAD = """\
workload: small
parameters: {documents: 100, replicas: 0}
collections:
  trips:
    elasticsearch:
      settings: {number_of_replicas: "${replicas}"}
      mappings: {dynamic: strict, properties: {amount: {type: double}}}
corpora: {trips: {file: trips.json}}
operations:
  fill: {bulk: {collection: trips, corpus: trips, size: 10}}
  refresh: {refresh: {collection: trips}}
  look: {search: {collection: trips, size: 3}}
phases:
  - {name: fill, prepares: true, operation: fill, clients: 2, until: exhausted}
  - {name: refresh, prepares: true, operation: refresh, clients: 1, requests: 1}
  - {name: look, operation: look, clients: 2, requests: 40}
"""


class Remarks(Listener):
    def __init__(self):
        self.heard = []

    def remark(self, text):
        self.heard.append(text)


@pytest.fixture
def session(node, tmp_path):
    """Make a session on the node, with a workload of a few documents."""
    (tmp_path / "w.yaml").write_text(WORKLOAD)

    def session(line='{"amount": 1.5}', **parameters):
        (tmp_path / "trips.json").write_text(29 * '{"amount": 1.5}\n' + line + "\n")
        workload = load_workload(str(tmp_path / "w.yaml"), parameters)
        return Session(node, workload.for_family("elasticsearch", 1), seed=1, generator=Generator(), listener=Remarks())

    return session


def prepare(session, tmp_path):
    session.prepare([phase for phase in session.workload.phases if phase.prepares], tmp_path)


def test_collections_that_are_there_are_dropped_only_on_request(session, node, tmp_path):
    first = session()
    first.create_collections()
    prepare(first, tmp_path)
    with pytest.raises(BadInput, match="the cluster already has trips"):
        session().create_collections()
    assert node.count("trips") == 30
    session().create_collections(replace=True)
    assert node.count("trips") == 0


def test_data_that_are_not_all_there_are_not_measured(session, node, tmp_path):
    wrong = session('{"amount": 1.5, "unknown": true}')
    wrong.create_collections()
    with pytest.raises(LoadframeError) as caught:
        prepare(wrong, tmp_path)
    assert caught.value.where == "phase fill"
    assert "1 request of fill failed" in str(caught.value)
    assert "unknown" in str(caught.value), "the store's own words"
    assert caught.value.exit_status == 1


def test_a_failed_check_after_the_load_is_the_stores_failure_and_no_result(session, tmp_path):
    mine = session('{"amount": 1.5, "unknown": true}')
    mine.create_collections()
    fill, _, look = mine.workload.phases
    check = replace(fill, name="check", prepares=False, finishes=True)
    run = Run(mine.record(tmp_path, "run", [look, check], Labels({}, block=1, repetition=1)))
    assert run.summary.status == "done"
    assert [entry.name for entry in run.summary.phases] == ["look", "check"]
    assert [entry.name for entry in run.summary.measured] == ["look"]
    (reason,) = (reason for reason in run.summary.verdict.reasons if reason.code == "check_failed")
    assert "in phase check, which finishes the run, 1 request of fill failed" in reason.cause
    recorded = RecordedRun("run", 1, {}, run)
    assert (recorded.sound, recorded.usable) == (True, False)
    assert {entry.phase for entry in recorded.qualities} == {"look"}


def test_documents_added_by_other_clients_are_noticed(session, node, tmp_path):
    mine = session()
    mine.create_collections()
    node.store.request(node.addresses, "PUT", "/trips/_doc/another", {"amount": 1.0})
    with pytest.raises(LoadframeError, match="trips holds 31 documents, but 30 were acknowledged"):
        prepare(mine, tmp_path)

    other = session()
    other.create_collections(replace=True)
    node.store.request(node.addresses, "PUT", "/trips/_doc/another", {"amount": 1.0})
    path = other.record(tmp_path, "run", other.workload.phases, Labels())
    reasons = Run(path).raw_summary["verdict"]["reasons"]
    (reason,) = [reason for reason in reasons if reason["code"] == "cluster_state"]
    assert reason["cause"] == "trips holds 31 documents, but 30 were acknowledged"
    assert reason["cause"] in other.listener.heard
    assert [event["kind"] for event in Run(path).events].count("documents differ") == 1


def test_an_acknowledged_document_that_is_missing_is_the_stores_failure(session, node, tmp_path, monkeypatch):
    mine = session()
    mine.create_collections()
    count = node.count

    def deleted(collection):
        """Delete a document behind the back of the run, before it is counted for the first time."""
        if count(collection) == 30:
            hit = node.store.request(node.addresses, "GET", f"/{collection}/_search?size=1")["hits"]["hits"][0]
            node.store.request(node.addresses, "DELETE", f"/{collection}/_doc/{hit['_id']}?refresh=true")
        return count(collection)

    monkeypatch.setattr(mine.cluster, "count", deleted)
    path = mine.record(tmp_path, "run", mine.workload.phases, Labels())
    reasons = [reason.code for reason in Run(path).summary.verdict.reasons]
    assert "documents_lost" in reasons
    assert "cluster_state" not in reasons
    run = RecordedRun("run", None, {}, Run(path))
    assert run.store_failed
    assert "1 of 30 acknowledged documents are missing in trips" in run.why


@pytest.mark.skipif(REDIS is None, reason="redis-server is not installed")
def test_evicted_documents_are_not_lost_ones(tmp_path):
    workload = {
        "workload": "cache",
        "collections": {"c": {"redis": {}}},
        "corpora": {"c": {"file": "c.json"}},
        "operations": {"put": {"bulk": {"collection": "c", "corpus": "c", "size": 10}}},
        "phases": [{"name": "put", "operation": "put", "clients": 2, "until": "exhausted"}],
    }
    (tmp_path / "c.json").write_text(4000 * (json.dumps({"text": "x" * 2000}) + "\n"))
    (tmp_path / "cache.yaml").write_text(json.dumps(workload))
    settings = {"maxmemory": "4mb", "maxmemory-policy": "allkeys-lru"}
    with Cluster.start(ClusterSpec(store="redis", settings=settings)) as cluster:
        resolved = load_workload(str(tmp_path / "cache.yaml"), {}).for_family("redis", 1)
        mine = Session(cluster, resolved, seed=1, generator=Generator(), listener=Remarks())
        mine.create_collections()
        summary = Run(mine.record(tmp_path, "run", resolved.phases, Labels())).summary
        assert cluster.count("c") < 4000
    (text,) = (text for text in summary.verdict.not_judged if text.startswith("lost documents"))
    assert text.endswith("but 4,000 were acknowledged: the store evicted documents for lack of memory")
    assert {"documents_lost", "cluster_state"}.isdisjoint(reason.code for reason in summary.verdict.reasons)


@pytest.mark.skipif(REDIS is None, reason="redis-server is not installed")
@pytest.mark.parametrize("key", ["loadframe:collections", "c"])
def test_a_lost_index_is_named_in_the_run(tmp_path, key):
    """A server that evicts keys can lose the definition of a collection, or the index itself."""
    workload = {
        "workload": "cache",
        "collections": {"c": {"redis": {"index": True}}},
        "corpora": {"c": {"file": "c.json"}},
        "operations": {"put": {"bulk": {"collection": "c", "corpus": "c", "size": 10}}},
        "phases": [{"name": "put", "operation": "put", "clients": 1, "until": "exhausted"}],
    }
    (tmp_path / "c.json").write_text(20 * (json.dumps({"a": 1}) + "\n"))
    (tmp_path / "cache.yaml").write_text(json.dumps(workload))
    with Cluster.start(ClusterSpec(store="redis")) as cluster:
        resolved = load_workload(str(tmp_path / "cache.yaml"), {}).for_family("redis", 1)
        mine = Session(cluster, resolved, seed=1, generator=Generator(), listener=Remarks())
        mine.create_collections()

        def causes(name):
            reasons = Run(mine.record(tmp_path, name, resolved.phases, Labels())).summary.verdict.reasons
            return [reason.cause for reason in reasons if reason.code == "cluster_state"]

        assert causes("whole") == []
        cluster.store.client(cluster.addresses[0]).ask("DEL", key)
        (cause,) = causes("lost")
        assert cause.startswith("the index of c is incomplete")


def test_nodes_that_hosts_do_not_name_are_named_before_the_start_and_in_the_run(tmp_path, monkeypatch):
    workload = {
        "workload": "one",
        "collections": {"c": {"postgresql": {}}},
        "operations": {"put": {"insert": {"collection": "c", "id": "${new}", "document": {"a": 1}}}},
        "variables": {"new": {"counter": {}}},
        "phases": [{"name": "put", "operation": "put", "clients": 1, "requests": 3}],
    }
    (tmp_path / "one.yaml").write_text(json.dumps(workload))
    with Cluster.start(ClusterSpec(store="postgresql", nodes=2)) as started:
        auth, first = started.access.auth, started.addresses[0]
        monkeypatch.setenv("LOADFRAME_PASSWORD", auth.secret)
        remarks = []
        for hosts in (started.addresses, [first]):
            cluster = attachment("postgresql", hosts, {"user": auth.user}, remarks.append)()
        resolved = load_workload(str(tmp_path / "one.yaml"), {}).for_family("postgresql", 1)
        mine = Session(cluster, resolved, seed=1, generator=Generator(), listener=Remarks())
        mine.create_collections()
        verdict = Run(mine.record(tmp_path, "run", resolved.phases, Labels())).summary.verdict
    assert remarks == [
        "hosts names 1 address of a cluster with 2 nodes: unless a load balancer is there, no request goes to the other"
        " nodes"
    ]
    assert f"nodes without requests: {remarks[0]}" in verdict.not_judged


def test_documents_that_are_missing_without_acknowledgement_are_named_by_the_verdict(session, tmp_path, monkeypatch):
    for module in (document_counts, sessions):
        monkeypatch.setattr(module, "unacknowledged", lambda form: "bulk" in form)
    mine = session()
    mine.create_collections()
    monkeypatch.setattr(mine.cluster, "count", lambda _: 25)
    fill, *_ = mine.workload.phases
    verdict = Run(mine.record(tmp_path, "run", [replace(fill, prepares=False)], Labels())).summary.verdict
    assert (
        "failed and lost writes: the store does not report those of write_concern: unacknowledged:"
        " trips holds 25 documents, but 30 were written without acknowledgement"
    ) in verdict.not_judged
    assert {"documents_lost", "cluster_state"}.isdisjoint(reason.code for reason in verdict.reasons)


def test_a_run_carries_its_labels_its_phases_and_its_events(session, tmp_path):
    mine = session()
    mine.create_collections()
    run = Run(mine.record(tmp_path, "run", mine.workload.phases, Labels({"clients": 2}, block=3, repetition=3)))
    assert (run.raw_manifest["treatment"], run.raw_manifest["block"], run.raw_manifest["repetition"]) == (
        {"clients": 2},
        3,
        3,
    )
    assert run.raw_manifest["seed"] == 1
    assert [phase["name"] for phase in run.raw_manifest["workload"]["phases"]] == ["fill", "refresh", "look"]
    assert [phase["prepares"] for phase in run.raw_summary["phases"]] == [True, True, False]
    assert run.raw_summary["phases"][2]["operations"]["look"]["requests"] == 40
    assert run.raw_summary["phases"][2]["operations"]["look"]["documents"] == 120
    kinds = [(event["kind"], event["phase"]) for event in run.events]
    assert kinds == [(kind, name) for name in ("fill", "refresh", "look") for kind in ("phase started", "phase ended")]
    times = [event["time"] for event in run.events]
    assert times == sorted(times)
    starts = [phase["start"] for phase in run.raw_summary["phases"]]
    assert starts == pytest.approx(times[::2], abs=0.1), "phases and events share the run's time axis"


def test_a_copy_that_was_declared_and_that_one_node_cannot_hold_is_as_asked_for(session, tmp_path):
    declared = session(replicas="1")
    declared.create_collections()
    run = Run(declared.record(tmp_path, "run", declared.workload.phases, Labels()))
    assert "cluster_state" not in [reason.code for reason in run.summary.verdict.reasons]


#: Elasticsearch must put this index's only shard on a node that does not exist, so it stays unassigned.
NOWHERE = {"settings": {"number_of_replicas": 0, "index.routing.allocation.require._name": "nowhere"}}


def test_a_state_that_the_first_phase_waits_out_is_not_held_against_the_run(session, node, tmp_path):
    mine = session()
    mine.create_collections()
    node.store.request(node.addresses, "PUT", "/unserved?wait_for_active_shards=0", NOWHERE)
    first, *others = mine.workload.phases
    removal = threading.Timer(2, node.store.request, (node.addresses, "DELETE", "/unserved"))
    removal.start()
    try:
        run = Run(mine.record(tmp_path, "run", [replace(first, ready_within=30.0), *others], Labels()))
    finally:
        removal.join()
    assert "cluster_state" not in [reason.code for reason in run.summary.verdict.reasons]


def test_a_cluster_that_is_not_as_asked_for_makes_the_run_invalid(session, node, tmp_path):
    mine = session()
    mine.create_collections()
    node.store.request(node.addresses, "PUT", "/unserved?wait_for_active_shards=0", NOWHERE)
    try:
        run = Run(mine.record(tmp_path, "run", mine.workload.phases, Labels()))
    finally:
        node.store.request(node.addresses, "DELETE", "/unserved")
    # A busy machine may add further reasons.
    (reason,) = [reason for reason in run.summary.verdict.reasons if reason.code == "cluster_state"]
    assert "red" in reason.cause
    assert "repair the cluster" in reason.remedy
    assert not run.summary.verdict.valid


@pytest.mark.parametrize("keep", [True, False])
def test_an_interrupt_leaves_a_whole_run_or_none(session, tmp_path, keep):
    mine = session()
    mine.create_collections()
    prepare(mine, tmp_path)
    phase = mine.workload.phase("look").override(duration=60.0)
    threading.Timer(1.5, _thread.interrupt_main).start()
    with pytest.raises(KeyboardInterrupt):
        mine.record(tmp_path / "runs", "run", [phase, phase], Labels(), keep_interrupted=keep)
    assert [path.name for path in (tmp_path / "runs").iterdir()] == (["run"] if keep else [])
    if keep:
        summary = Run(tmp_path / "runs" / "run").raw_summary
        assert summary["status"] == "interrupted"
        assert [phase["name"] for phase in summary["phases"]] == ["look"], "what comes after it is not begun"
        assert summary["phases"][0]["operations"]["look"]["successes"] > 0
