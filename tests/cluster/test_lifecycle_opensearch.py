"""A real OpenSearch cluster that changes while load runs on it: one node, two, one again, and the faults of one.

The tests go on with the cluster as the one before left it, since each start of a node costs its time.
"""

import _thread
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from loadframe.cluster import Cluster, ClusterSpec, named
from loadframe.errors import BadInput
from loadframe.experiment.listener import Listener
from loadframe.experiment.session import Labels, Session
from loadframe.load import Generator
from loadframe.record import Run
from loadframe.workload import load_workload

pytestmark = pytest.mark.store

WORKLOAD = """\
workload: growing
collections:
  things:
    elasticsearch:
      settings: {number_of_shards: 4, number_of_replicas: 0}
      mappings: {properties: {amount: {type: long}}}
variables:
  number: {sequential: {from: 0}}
operations:
  put: {elasticsearch: {index: {collection: things, document: {amount: "${number}"}}}}
  look: {elasticsearch: {search: {collection: things, size: 3, body: {query: {match_all: {}}}}}}
phases:
  - name: mixed
    duration: 20m
    streams:
      - {operation: put, rate: 20/s}
      - {operation: look, rate: 20/s}
"""


@pytest.fixture(scope="module")
def cluster(module_state) -> Iterator[Cluster]:
    with Cluster.start(ClusterSpec(name="growing", settings={"heap": "300m"})) as started:
        yield started
        if named.existing("growing").running:
            Cluster.load("growing").stop()


def under_load(cluster: Cluster, folder: Path, change: Callable[[], None]) -> Run:
    """Record a run that ends when the change is done; fail with whatever the change failed with."""
    (folder / "w.yaml").write_text(WORKLOAD)
    workload = load_workload(str(folder / "w.yaml"), {}).for_family("elasticsearch", 1)
    session = Session(cluster, workload, seed=1, generator=Generator(spread="round_robin"), listener=Listener())
    session.create_collections(replace=True)
    failures: list[BaseException] = []
    over = threading.Event()

    def work() -> None:
        try:
            time.sleep(2)
            change()
            time.sleep(3)
        except Exception as failure:
            failures.append(failure)
        finally:
            if not over.is_set():
                _thread.interrupt_main()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            session.record(folder, "run", workload.phases, Labels(), keep_interrupted=True)
    finally:
        over.set()
        thread.join()
    assert failures == []
    return Run(folder / "run")


def totals(run: Run, column: str) -> int:
    return sum(row[column] for row in run.series.to_pylist())


def test_a_node_joins_and_the_first_one_leaves_under_load(cluster, tmp_path):
    def change():
        cluster.grow()
        time.sleep(4)
        cluster.shrink("node-0")

    run = under_load(cluster, tmp_path, change)
    events = [event for event in run.events if "node" in event["kind"] or "balanced" in event["kind"]]
    assert [event["kind"] for event in events] == [
        "node requested", "node joined", "cluster balanced", "node leaving", "node left", "cluster balanced",
    ]  # fmt: skip
    instants = [event["time"] for event in events]
    assert instants == sorted(instants)
    assert instants[0] > 1

    failed = totals(run, "requests") - totals(run, "successes")
    # A busy machine may leave a request unanswered for longer than a node that leaves is waited for.
    assert failed <= totals(run, "requests") / 1000, run.summary["phases"]
    written = sum(row["documents"] for row in run.series.to_pylist() if row["operation"] == "put")
    open_end = sum(phase["operations"]["put"]["in_flight_at_end"] for phase in run.summary["phases"])
    kept = cluster.count("things")
    assert written <= kept <= written + open_end + failed, "a document was lost on the way, or came from nowhere"

    served = [row for row in run.telemetry.to_pylist() if row["source"].startswith("target:")]
    both = [row for row in served if instants[2] + 1 < row["time"] < instants[3] - 1]
    newcomer = f"target:{cluster.addresses[0]}"
    assert sum(row["value"] for row in both if row["source"] == newcomer) == pytest.approx(
        sum(row["value"] for row in both) / 2, rel=0.2
    )
    assert cluster.size == 1
    assert cluster.deviations() == []


def test_a_stopped_cluster_comes_back_on_two_nodes_with_every_document(cluster):
    before = cluster.count("things")
    cluster.stop()
    spec = named.existing("growing").spec
    again = Cluster.start(ClusterSpec(**spec.__dict__ | {"nodes": 2}))
    again.keep()
    assert again.count("things") == before
    assert again.size == 2
    assert again.deviations() == []
    shards = again.store.request(again.addresses, "GET", "/_cat/shards/things?format=json")
    assert {shard["node"] for shard in shards} == {node.name for node in again.nodes}


def test_a_node_cannot_leave_whose_copies_would_have_no_place():
    two = Cluster.load("growing")
    two.create_collection("copies", {"settings": {"number_of_shards": 1, "number_of_replicas": 1}})
    with pytest.raises(BadInput, match="copies is kept in 2 copies, and 1 nodes would remain"):
        two.shrink()
    two.drop_collection("copies")
    assert two.deviations() == []


def test_a_node_killed_under_load_is_a_deviation_of_the_run_and_comes_back(tmp_path):
    two = Cluster.load("growing")
    last = two.nodes[-1].name

    run = under_load(two, tmp_path, lambda: two.kill(last))
    assert "node killed" in [event["kind"] for event in run.events]
    reasons = [reason["cause"] for reason in run.summary["verdict"]["reasons"]]
    assert any(f"{last} is gone, killed on purpose" in reason for reason in reasons), reasons
    assert two.mend()
    assert two.deviations() == []


def test_a_paused_node_is_a_deviation_until_it_is_resumed():
    two = Cluster.load("growing")
    two.pause(two.nodes[-1].name)
    assert f"{two.nodes[-1].name} is paused" in two.deviations()
    two.resume(two.nodes[-1].name)
    end = time.monotonic() + 120
    while two.deviations() and time.monotonic() < end:
        time.sleep(0.5)
    assert two.deviations() == []
