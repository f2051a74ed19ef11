"""Data streams, rollover, drawn parameters, searches during indexing, and recall, on real nodes."""

import json
import struct

import httpx
import numpy as np
import pytest

from loadframe.analyze.summary import summarize
from loadframe.base.errors import BadInput
from loadframe.cluster import Cluster, ClusterSpec
from loadframe.load import check_operations, run_phase
from loadframe.record import RunWriter
from loadframe.workload import load_workload

pytestmark = pytest.mark.store

NO_REPLICAS = "settings: {number_of_shards: 1, number_of_replicas: 0}"


def run(cluster, folder, text):
    """Make the collections and run the phases; return the figures of each phase's operations, and its streams."""
    (folder / "w.yaml").write_text(text)
    resolved = load_workload(str(folder / "w.yaml")).for_family("elasticsearch", 1)
    for name, definition in resolved.collections.items():
        cluster.drop_collection(name)
        cluster.create_collection(name, definition)
    phases = {}
    for phase in resolved.phases:
        with RunWriter(folder, phase.name) as writer:
            plan = phase.plan(seed=1, hosts=cluster.addresses, driver=cluster.store.driver, target=cluster.target())
            outcome = run_phase(plan, writer.phase(phase.name, 0.0), lambda _: None)
            joined = writer.join()
            (judged,) = summarize(joined.series, joined.histograms, [outcome], joined.telemetry, []).as_dict()["phases"]
        streams = {stream["name"]: stream["measured"] for stream in outcome["streams"]}
        phases[phase.name] = (judged["operations"], streams)
    return phases


def indices(cluster, pattern):
    answer = httpx.get(f"http://{cluster.addresses[0]}/{pattern}?expand_wildcards=all")
    return sorted(answer.json())


@pytest.fixture(scope="module")
def old_node():
    with Cluster.start(ClusterSpec("elasticsearch")) as cluster:
        yield cluster


def lines(folder, documents):
    path = folder / "lines.ndjson"
    path.write_text("".join(json.dumps({"@timestamp": 1_700_000_000_000 + n, "n": n}) + "\n" for n in range(documents)))
    return path


STREAM = f"""\
workload: w
collections:
  logs: {{elasticsearch: {{data_stream: true, {NO_REPLICAS}, mappings: {{properties: {{n: {{type: long}}}}}}}}}}
corpora: {{lines: {{file: lines.ndjson}}}}
operations:
  fill: {{bulk: {{collection: logs, corpus: lines, size: 10, action: create}}}}
  roll: {{rollover: {{alias: logs}}}}
  refresh: {{refresh: {{collection: logs}}}}
  count: {{count: {{collection: logs, query: {{range: {{n: {{gte: 20}}}}}}}}, assert: {{hits: 35}}}}
  template: {{put_template: {{name: more, patterns: ["more-*"], priority: 300, data_stream: true, {NO_REPLICAS}}}}}
  make: {{create_collection: {{collection: more-1, data_stream: true}}}}
  drop: {{delete_collection: {{collection: more-1, data_stream: true}}}}
  again: {{delete_collection: {{collection: more-1, data_stream: true, ignore_missing: true}}}}
  gone: {{delete_template: {{name: more}}}}
phases:
  - {{name: fill, operation: fill, clients: 2, until: exhausted}}
  - {{name: rest, journey: [roll, refresh, count, template, make, drop, again, gone], clients: 1, requests: 8}}
"""


def templates(node):
    """The names of the node's templates: tests of other modules may have left some on it."""
    answer = httpx.get(f"http://{node.addresses[0]}/_index_template").json()
    return {template["name"] for template in answer["index_templates"]}


def test_a_data_stream_takes_documents_and_rolls_over(node, tmp_path):
    lines(tmp_path, 55)
    before = templates(node)
    phases = run(node, tmp_path, STREAM)
    for operations, _ in phases.values():
        assert {name: figures["errors"] for name, figures in operations.items() if figures["errors"]} == {}
    assert node.count("logs") == phases["fill"][0]["fill"]["documents"] == 55
    assert len(indices(node, ".ds-logs-*")) == 2
    node.drop_collection("logs")
    assert (node.has_collection("logs"), indices(node, ".ds-logs-*")) == (False, [])
    assert templates(node) == before


def test_documents_of_a_data_stream_can_only_be_added(tmp_path):
    (tmp_path / "w.yaml").write_text(STREAM.replace(", action: create", ""))
    with pytest.raises(BadInput, match="is a data stream, which only accepts action: create"):
        load_workload(str(tmp_path / "w.yaml"))


def test_a_data_stream_is_refused_where_there_are_none(old_node, tmp_path):
    lines(tmp_path, 1)
    with pytest.raises(BadInput, match="this Elasticsearch does not support"):
        run(old_node, tmp_path, STREAM)


ROLLING = f"""\
workload: w
collections:
  events: {{elasticsearch: {{rollover: true, {NO_REPLICAS}, mappings: {{properties: {{n: {{type: long}}}}}}}}}}
corpora: {{lines: {{file: lines.ndjson}}}}
operations:
  fill: {{bulk: {{collection: events, corpus: lines, size: 10}}}}
  roll: {{rollover: {{alias: events, conditions: {{max_docs: 5}}}}}}
  refresh: {{refresh: {{collection: events}}}}
phases:
  - {{name: first, operation: fill, clients: 1, until: exhausted}}
  - {{name: over, journey: [refresh, roll], clients: 1, requests: 2}}
  - {{name: second, operation: fill, clients: 1, until: exhausted}}
"""


@pytest.mark.parametrize("product", ["opensearch", "elasticsearch 6"])
def test_an_alias_rolls_over_to_an_index_of_the_same_definition(request, product, tmp_path):
    cluster = request.getfixturevalue("node" if product == "opensearch" else "old_node")
    lines(tmp_path, 30)
    phases = run(cluster, tmp_path, ROLLING)
    for operations, _ in phases.values():
        assert {name: figures["errors"] for name, figures in operations.items() if figures["errors"]} == {}
    assert cluster.count("events") == 60
    assert indices(cluster, "events-*") == ["events-000001", "events-000002"]
    mapping = json.dumps(httpx.get(f"http://{cluster.addresses[0]}/events-000002/_mapping").json())
    assert '"n": {"type": "long"}' in mapping
    cluster.drop_collection("events")
    assert (cluster.has_collection("events"), indices(cluster, "events-*")) == (False, [])


def test_parameters_are_drawn_for_each_request(node, tmp_path):
    lines(tmp_path, 40)
    sets = [{"body": {"query": {"term": {"n": n}}}, "n": n} for n in range(40)]
    (tmp_path / "sets.ndjson").write_text("".join(json.dumps(entry) + "\n" for entry in sets))
    text = f"""\
workload: w
collections: {{things: {{elasticsearch: {{{NO_REPLICAS}}}}}}}
corpora: {{lines: {{file: lines.ndjson}}, sets: {{file: sets.ndjson}}}}
variables:
  set: {{document: {{corpus: sets, order: sequential}}}}
  body: {{part: {{of: set, field: body}}}}
  n: {{part: {{of: set, field: n}}}}
operations:
  fill: {{bulk: {{collection: things, corpus: lines, size: 40}}}}
  refresh: {{refresh: {{collection: things}}}}
  ask: {{search: {{collection: things, body: "${{body}}"}}, assert: {{hits: 1, fields: {{n: "${{n}}"}}}}}}
phases:
  - {{name: fill, operation: fill, clients: 1, until: exhausted}}
  - {{name: refresh, operation: refresh, clients: 1, requests: 1}}
  - {{name: ask, operation: ask, clients: 3, requests: 100}}
"""
    figures = run(node, tmp_path, text)["ask"][0]["ask"]
    assert (figures["requests"], figures["successes"], figures["documents"]) == (100, 100, 100)
    node.drop_collection("things")


def test_searches_continue_until_the_corpus_is_indexed(node, tmp_path):
    lines(tmp_path, 4000)
    text = f"""\
workload: w
collections: {{things: {{elasticsearch: {{{NO_REPLICAS}}}}}}}
corpora: {{lines: {{file: lines.ndjson}}}}
operations:
  fill: {{bulk: {{collection: things, corpus: lines, size: 10}}}}
  ask: {{search: {{collection: things, body: {{query: {{match_all: {{}}}}}}}}}}
  few: {{count: {{collection: things}}}}
phases:
  - name: both
    ends_with: fill
    streams:
      - {{operation: fill, clients: 1, until: exhausted}}
      - {{operation: ask, clients: 1}}
      - {{operation: few, clients: 1, requests: 5}}
"""
    operations, streams = run(node, tmp_path, text)["both"]
    assert {name: figures["errors"] for name, figures in operations.items() if figures["errors"]} == {}
    assert (operations["fill"]["documents"], operations["few"]["successes"]) == (4000, 5)
    assert operations["ask"]["requests"] > 5
    assert streams["ask"] == pytest.approx(streams["fill"], abs=0.2)
    assert streams["few"] < streams["fill"]
    node.drop_collection("things")


DIMENSIONS, VECTORS, QUERIES = 6, 200, 20

EXACT = f"""\
workload: w
parameters: {{base: base.fvecs, vectors: "queries.hdf5:test", near: "queries.hdf5:neighbors"}}
collections:
  base: {{elasticsearch: {{{NO_REPLICAS}, mappings: {{properties: {{vector: {{type: float, index: false}}}}}}}}}}
corpora:
  base: {{columns: {{vector: "${{base}}"}}}}
  queries: {{columns: {{vector: "${{vectors}}", neighbors: "${{near}}"}}}}
variables:
  query: {{document: {{corpus: queries, order: sequential}}}}
  vector: {{part: {{of: query, field: vector}}}}
  neighbors: {{part: {{of: query, field: neighbors}}}}
operations:
  fill: {{bulk: {{collection: base, corpus: base, size: 50, id: id}}}}
  refresh: {{refresh: {{collection: base}}}}
  exact:
    search:
      collection: base
      size: 10
      body:
        _source: false
        query:
          script_score:
            query: {{match_all: {{}}}}
            script:
              params: {{q: "${{vector}}"}}
              source: >-
                double s = 0; def v = params._source.vector;
                for (int i = 0; i < params.q.length; i++) {{ double d = v[i] - params.q[i]; s += d * d }}
                return 1 / (1 + s)
    assert: {{recall: {{of: "${{neighbors}}", k: 10, at_least: 1}}}}
  any:
    search: {{collection: base, size: 10, body: {{_source: false}}}}
    assert: {{recall: {{of: "${{neighbors}}", k: 10}}}}
  refused:
    search: {{collection: base, size: 10}}
    assert: {{recall: {{of: "${{neighbors}}", k: 10, at_least: 0.99}}}}
phases:
  - {{name: fill, operation: fill, clients: 1, until: exhausted}}
  - {{name: refresh, operation: refresh, clients: 1, requests: 1}}
  - {{name: ask, journey: [exact, any, refused], clients: 1, requests: {3 * QUERIES}}}
"""


@pytest.fixture
def vectors(tmp_path):
    """Write vectors, queries and their nearest neighbours as files of each format; return the neighbours."""
    h5py = pytest.importorskip("h5py")
    import pyarrow as pa
    import pyarrow.parquet as pq

    random = np.random.default_rng(7)
    base = random.normal(size=(VECTORS, DIMENSIONS)).astype("<f4")
    queries = random.normal(size=(QUERIES, DIMENSIONS)).astype("<f4")
    distances = ((queries[:, None, :].astype("f8") - base[None, :, :]) ** 2).sum(axis=2)
    neighbors = np.argsort(distances, axis=1)[:, :25].astype("<i4")
    with (tmp_path / "base.fvecs").open("wb") as file:
        for row in base:
            file.write(struct.pack("<i", DIMENSIONS) + row.tobytes())
    with h5py.File(tmp_path / "queries.hdf5", "w") as file:
        file["test"], file["neighbors"] = queries, neighbors
    pq.write_table(pa.table({"emb": list(base)}), tmp_path / "base.parquet")
    return neighbors


def test_an_exact_search_for_neighbours_has_a_recall_of_one_and_any_other_less(node, vectors, tmp_path):
    figures = run(node, tmp_path, EXACT)["ask"][0]
    assert (figures["exact"]["recall"], figures["exact"]["errors"]) == (1.0, {})
    # A search without a query finds the first ten documents.
    expected = np.mean([np.isin(row[:10], np.arange(10)).mean() for row in vectors])
    assert figures["any"]["recall"] == pytest.approx(expected)
    assert figures["any"]["successes"] == QUERIES
    assert figures["refused"]["errors"] == {"assertion": QUERIES}
    assert figures["refused"]["recall"] == pytest.approx(expected)


def test_vectors_of_a_parquet_file_are_the_same(node, vectors, tmp_path):
    figures = run(node, tmp_path, EXACT.replace("base: base.fvecs", 'base: "base.parquet:emb"'))["ask"][0]
    assert figures["exact"]["recall"] == 1.0


def test_a_search_whose_right_answer_is_not_a_list_fails(node, tmp_path):
    node.create_collection("empty", {})
    text = """\
workload: w
collections: {empty: {}}
variables: {n: {constant: 3}}
operations: {ask: {search: {collection: empty}, assert: {recall: {of: "${n}", k: 3}}}}
phases: [{name: ask, operation: ask, clients: 1, requests: 1}]
"""
    (tmp_path / "w.yaml").write_text(text)
    phase = load_workload(str(tmp_path / "w.yaml")).for_family("elasticsearch", 1).phase("ask")
    plan = phase.plan(seed=1, hosts=node.addresses, driver=node.store.driver, target=node.target())
    (answer,) = check_operations(plan)
    assert (answer["error"], answer["message"]) == (
        "assertion",
        'recall: "of" is not a list of ids: 3',
    )
