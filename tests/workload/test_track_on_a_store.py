"""A track of another tool with one operation of each kind, imported and run on real nodes: every assertion is true."""

from pathlib import Path

import pytest

from commands import open_folder
from loadframe.analyze.summary import summarize
from loadframe.cluster import Cluster, ClusterSpec
from loadframe.load import check_operations, run_phase
from loadframe.record import RunWriter
from loadframe.workload import load_workload
from loadframe.workload.importers import import_rally

pytestmark = pytest.mark.store

TRACK = Path(__file__).parents[1] / "data" / "shop_track"


def errors(cluster, folder, **parameters):
    """Run the track; return the number of its operations, and those with requests that failed."""
    path = folder / "track.yaml"
    path.write_text(import_rally(TRACK, None, parameters).text())
    workload = load_workload(str(path), {"data": str(TRACK)}).for_family("elasticsearch", 1)
    for name, definition in workload.collections.items():
        cluster.create_collection(name, definition)
    operations, failed = set(), {}
    for phase in workload.phases:
        with RunWriter(folder, phase.name) as writer:
            plan = phase.plan(seed=1, hosts=cluster.addresses, driver=cluster.store.driver, target=cluster.target())
            outcome = run_phase(plan, writer.phase(phase.name, 0.0), lambda _: None)
            joined = writer.join()
            (judged,) = summarize(joined.series, joined.histograms, [outcome], joined.telemetry, [])["phases"]
        for name, operation in judged["operations"].items():
            operations.add(name)
            if operation["successes"] < operation["requests"] or not operation["requests"]:
                failed[name] = operation["errors"]
    return len(operations), failed


def test_all_kinds_of_operations_of_a_track_succeed_on_opensearch(node, tmp_path):
    assert errors(node, tmp_path) == (25, {})


@pytest.fixture(scope="module")
def old_node():
    """Yield Elasticsearch 6 and a folder for its snapshots."""
    # The server's user is another one, and enters no folder of pytest's.
    with open_folder("snapshots") as folder:
        folder.chmod(0o777)
        with Cluster.start(ClusterSpec("elasticsearch", settings={"path.repo": str(folder)})) as cluster:
            yield cluster, folder


def test_all_but_a_point_in_time_succeed_on_elasticsearch_6(old_node, tmp_path):
    sql = "SELECT number FROM orders WHERE price < 5"
    assert errors(old_node[0], tmp_path, point_in_time="false", sql=sql) == (25, {})


def test_a_snapshot_is_kept_in_a_folder(old_node, tmp_path):
    cluster, folder = old_node
    path = tmp_path / "w.yaml"
    path.write_text(
        f"""
        workload: snapshots
        operations:
          make: {{create_collection: {{collection: kept}}}}
          repository: {{create_repository: {{repository: here, location: {folder}}}}}
          snapshot: {{snapshot: {{repository: here, name: first, collections: kept}}}}
          forget: {{delete_snapshot: {{repository: here, name: first}}}}
        phases:
          - {{name: make, operation: make, clients: 1, requests: 1}}
          - {{name: repository, operation: repository, clients: 1, requests: 1}}
          - {{name: snapshot, operation: snapshot, clients: 1, requests: 1}}
          - {{name: forget, operation: forget, clients: 1, requests: 1}}
        """
    )
    workload = load_workload(str(path)).for_family("elasticsearch", 1)
    found = []
    for phase in workload.phases:
        plan = phase.plan(seed=1, hosts=cluster.addresses, driver=cluster.store.driver, target=cluster.target())
        (answer,) = check_operations(plan)
        assert answer["error"] is None, answer["message"]
        found.append(len(list(folder.glob("snap-*.dat"))))
    assert found == [0, 0, 1, 0]
