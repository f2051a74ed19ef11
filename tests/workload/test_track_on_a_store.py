"""Tracks of other tools with one operation of each kind, imported and run on real nodes: every assertion is true."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml

from commands import open_folder
from loadframe.analyze.summary import summarize
from loadframe.cluster import Cluster, ClusterSpec
from loadframe.load import check_operations, run_phase
from loadframe.record import RunWriter
from loadframe.workload import load_workload
from loadframe.workload.importers.rally import import_rally

pytestmark = pytest.mark.store

DATA = Path(__file__).parents[1] / "data"
TRACK = DATA / "shop_track"


def measured(cluster, folder, path, without=(), **parameters):
    """Run a workload file but for some phases; yield each phase's name with the figures of its operations."""
    loaded = load_workload(str(path), parameters)
    chosen = loaded.choose([phase.name for phase in loaded.file.phases if phase.name not in without])
    workload = chosen.for_family("elasticsearch", 1)
    for name, definition in workload.collections.items():
        cluster.drop_collection(name)
        cluster.create_collection(name, definition)
    for phase in workload.phases:
        with RunWriter(folder, phase.name) as writer:
            plan = phase.plan(seed=1, hosts=cluster.addresses, driver=cluster.store.driver, target=cluster.target())
            outcome = run_phase(plan, writer.phase(phase.name, 0.0), lambda _: None)
            joined = writer.join()
            (judged,) = summarize(joined.series, joined.histograms, [outcome], joined.telemetry, []).as_dict()["phases"]
        yield phase.name, judged["operations"]


def errors(cluster, folder, **parameters):
    """Run the track; return the number of its operations, and the operations with failed requests."""
    path = folder / "track.yaml"
    path.write_text(import_rally(TRACK, None, parameters).text())
    operations, failed = set(), {}
    for _, figures in measured(cluster, folder, path, data=str(TRACK)):
        for name, operation in figures.items():
            operations.add(name)
            if operation["successes"] < operation["requests"] or not operation["requests"]:
                failed[name] = operation["errors"]
    return len(operations), failed


def test_all_kinds_of_operations_of_a_track_succeed_on_opensearch(node, tmp_path):
    assert errors(node, tmp_path) == (25, {})


def imported(track, folder, **options):
    """Import a track into a folder; return the workload file."""
    path = folder / f"{track}.yaml"
    text, valid = import_rally(DATA / "checkout" / track, None, {}, requests="requests", **options).valid()
    path.write_text(text)
    (folder / "requests").mkdir(exist_ok=True)
    for name, lines in valid.files.items():
        (folder / name).write_text("".join(f"{line}\n" for line in lines))
    return path


def failures(figures):
    return {name: operation["errors"] for name, operation in figures.items() if operation["errors"]}


def test_data_streams_waits_and_searches_while_indexing_run_as_imported_in_test_mode(node, tmp_path):
    path = imported("logs", tmp_path, test_mode=True)
    shutil.copy(DATA / "checkout" / "logs" / "lines.json", tmp_path)
    try:
        # The embedded store has neither ES|QL, EQL nor SQL.
        phases = dict(measured(node, tmp_path, path, without=("piped", "events", "rows")))
        assert node.count("logs-shop-default") == 300
    finally:
        node.drop_collection("logs-shop-default")
    assert [failures(figures) for figures in phases.values() if failures(figures)] == []
    (indexing,) = [figures for figures in phases.values() if "write" in figures]
    assert indexing["write"]["documents"] == 300
    assert indexing["newest"]["successes"] > 0
    assert phases["merged"]["merged"]["successes"] == 1


def test_parameters_that_code_drew_ahead_are_sent(node, tmp_path):
    path = imported("rides", tmp_path, allow_code=True)
    # Its second index is empty and has a replica, which keeps one node from being green.
    text = re.sub(r"(?m)^  empty: .*\n", "", path.read_text())
    path.write_text(text.replace("rate: 3/s", "rate: 60/s"))
    (tmp_path / "rides.json").write_text("".join(f'{{"fare": {n % 100}, "zone": "z"}}\n' for n in range(500)))
    phases = dict(measured(node, tmp_path, path, documents=500, file_rides=str(tmp_path / "rides.json")))
    assert {name: failures(figures) for name, figures in phases.items() if failures(figures)} == {}
    assert phases["random-fare"]["random-fare"]["requests"] == 600
    assert node.count("rides") == 500


def test_ids_of_action_lines_and_pipelines_reach_the_store(node, tmp_path):
    lines = [f'{{"index": {{"_index": "kept", "_id": "k{n % 3}"}}}}\n{{"n": {n}}}\n' for n in range(6)]
    (tmp_path / "d.json").write_text("".join(lines))
    bulk = {"operation-type": "bulk", "bulk-size": 2}
    three_hits = {"property": "hits.total.value", "condition": "==", "value": 3}
    operations = [
        {"name": "make", "operation-type": "put-pipeline", "id": "empty", "body": {"processors": []}},
        {"name": "plain", **bulk},
        {"name": "piped", "pipeline": "empty", **bulk},
        {"name": "lost", "pipeline": "missing", **bulk},
        {"name": "refresh", "operation-type": "refresh"},
        {"name": "find", "operation-type": "search", "body": {}, "assertions": [three_hits]},
        {"name": "remove", "operation-type": "delete-pipeline", "id": "empty"},
    ]
    documents = [{"source-file": "d.json", "document-count": 6, "includes-action-and-meta-data": True}]
    track = {
        "indices": [{"name": "kept"}],
        "corpora": [{"name": "d", "documents": documents}],
        "schedule": [{"operation": operation} for operation in operations],
    }
    (tmp_path / "track.json").write_text(json.dumps(track))
    path = tmp_path / "kept.yaml"
    path.write_text(import_rally(tmp_path, None, {}).text())
    try:
        phases = dict(measured(node, tmp_path, path))
        assert node.count("kept") == 3
    finally:
        node.drop_collection("kept")
    # The store rejected the pipeline `missing`, so the request named it.
    assert [name for name, figures in phases.items() if failures(figures)] == ["lost"]
    assert [phases[name][name]["documents"] for name in ("plain", "piped")] == [6, 6]


#: An exact nearest-neighbour search, because the embedded store lacks the k-NN plugin: it compares all vectors.
EXACT = {
    "script_score": {
        "query": {"match_all": {}},
        "script": {
            "params": {"q": "${nearest_vector}"},
            "source": "double s = 0; def v = params._source.place; for (int i = 0; i < params.q.length; i++) "
            "{ double d = v[i] - params.q[i]; s += d * d } return 1 / (1 + s)",
        },
    }
}


def test_imported_vectors_have_the_ids_that_their_right_answers_name(node, tmp_path):
    h5py = pytest.importorskip("h5py")
    random = np.random.default_rng(3)
    base, queries = random.normal(size=(300, 6)).astype("<f4"), random.normal(size=(20, 6)).astype("<f4")
    distances = ((queries[:, None, :].astype("f8") - base[None, :, :]) ** 2).sum(axis=2)
    with h5py.File(tmp_path / "glyphs.hdf5", "w") as file:
        file["train"], file["test"] = base, queries
        file["neighbors"] = np.argsort(distances, axis=1)[:, :25].astype("<i4")
    values = {"knn": False, "query_k": 10, "query_count": 20, "data_set_path": str(tmp_path / "glyphs.hdf5")}
    path = imported("nearest", tmp_path, values=values)
    workload = yaml.safe_load(path.read_text())
    del workload["operations"]["warm-up"]
    workload["phases"] = [phase for phase in workload["phases"] if phase["name"] != "warm-up"]
    search = {"collection": "points", "size": 10, "body": {"_source": False, "query": EXACT}}
    workload["operations"]["nearest"] = {"search": search, "assert": workload["operations"]["nearest"]["assert"]}
    path.write_text(yaml.safe_dump(workload))
    phases = dict(measured(node, tmp_path, path))
    assert {name: failures(figures) for name, figures in phases.items() if failures(figures)} == {}
    assert node.count("points") == 300
    assert (phases["nearest"]["nearest"]["requests"], phases["nearest"]["nearest"]["recall"]) == (20, 1.0)


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
    snapshots = []
    for phase in workload.phases:
        plan = phase.plan(seed=1, hosts=cluster.addresses, driver=cluster.store.driver, target=cluster.target())
        (answer,) = check_operations(plan)
        assert answer["error"] is None, answer["message"]
        snapshots.append(len(list(folder.glob("snap-*.dat"))))
    assert snapshots == [0, 0, 1, 0]
