"""Results longer than one answer, and administration, on a real OpenSearch: every operation once, judged by value."""

import json
import tempfile
from pathlib import Path

import pytest

from loadframe.analyze.summary import summarize
from loadframe.load import check_operations, run_phase
from loadframe.record import Run, RunWriter, schema

pytestmark = pytest.mark.store

#: More than an answer may hold by default (10,000), and no whole number of pages.
DOCUMENTS = 12_345
FIELDS = {"n": {"type": "integer"}, "kind": {"type": "keyword"}}


@pytest.fixture
def numbered(node):
    """Fill a collection of three shards with numbered documents; return the cluster."""
    definition = {"settings": {"number_of_shards": 3, "number_of_replicas": 0}, "mappings": {"properties": FIELDS}}
    node.create_collection("numbered", definition)
    with tempfile.TemporaryDirectory() as folder:
        lines = (json.dumps({"n": n, "kind": f"k{n % 40}"}) + "\n" for n in range(DOCUMENTS))
        (Path(folder) / "corpus.json").write_text("".join(lines))
        load = plan(node, {"bulk": {"collection": "numbered", "corpus": "all", "size": 5000}}, stop="exhausted")
        load["corpora"] = {"all": {"files": [str(Path(folder) / "corpus.json")]}}
        (Path(folder) / "load").mkdir()
        run_phase(load, Path(folder) / "load", lambda _: None)
    assert node.count("numbered") == DOCUMENTS
    return node


def plan(node, *forms, stop=None):
    operations = {f"a{number}": form for number, form in enumerate(forms)}
    stream = {"name": "s", "pacing": {"closed": {"clients": 1}}, "stop": stop or {"requests": len(forms)}}
    steps = [{"operation": name} for name in operations]
    stream |= {"mix": [["a0", 1]]} if len(forms) == 1 else {"journey": steps}
    store = {"distribution": "opensearch", "version": node.store.versions[0]}
    target = {"driver": "search", "hosts": node.addresses, "store": store}
    return {"seed": 1, "phase": "p", "target": target, "operations": operations, "streams": [stream]}


def answered(node, form):
    (answer,) = check_operations(plan(node, form))
    assert answer["error"] is None, answer["message"]
    return answer


def test_results_of_any_length_are_read_page_by_page(numbered, tmp_path):
    scroll = {"scroll": {"collection": "numbered", "size": 1000}, "assert": {"hits": DOCUMENTS}}
    sort = [{"kind": "asc"}, {"n": "asc"}]
    after = {"search_after": {"collection": "numbered", "size": 1000, "body": {"sort": sort}}}
    some = {"search_after": {**after["search_after"], "pages": 11, "point_in_time": False}}
    sources = [{"kind": {"terms": {"field": "kind"}}}, {"n": {"histogram": {"field": "n", "interval": 1000}}}]
    composite = {"composite": {"collection": "numbered", "size": 100, "sources": sources}}
    with RunWriter(tmp_path, "r") as writer:
        folder = writer.phase("p", 0.0)
        outcome = run_phase(plan(numbered, scroll, after, some, composite), folder, lambda _: None)
        joined = writer.join()
        judged = summarize(joined.series, joined.histograms, [outcome], joined.telemetry, [])
        run = Run(writer.finish({"format": schema.FORMAT}, judged.as_dict()))
    operations = run.raw_summary["phases"][0]["operations"]
    assert {name: operation["successes"] for name, operation in operations.items()} == dict.fromkeys(operations, 1)
    buckets = len({(n % 40, n // 1000) for n in range(DOCUMENTS)})
    documents = [operation["documents"] for operation in operations.values()]
    assert documents == [DOCUMENTS, DOCUMENTS, 11_000, buckets]
    parts = [{part: figures["successes"] for part, figures in one["parts"].items()} for one in operations.values()]
    # A composite aggregation ends with a page that lacks a last key.
    assert parts == [{"page": 13, "close": 1}, {"page": 13, "close": 1, "open": 1}, {"page": 11}, {"page": 7}]
    assert operations["a0"]["parts"]["page"]["documents"] == DOCUMENTS
    assert operations["a0"]["parts"]["page"]["response"] == operations["a0"]["parts"]["page"]["service"]
    nodes = numbered.store.request(numbered.addresses, "GET", "/_nodes/stats/indices/search")["nodes"]
    assert [node["indices"]["search"]["scroll_current"] for node in nodes.values()] == [0]


def test_a_scan_is_shown_by_its_first_page_and_its_totals(numbered):
    shown = answered(numbered, {"scroll": {"collection": "numbered", "size": 5000}})
    assert shown["documents"] == DOCUMENTS
    assert shown["request"].count("POST /numbered/_search?scroll=1m&size=5000") == 1
    assert shown["answer"].endswith(f"{DOCUMENTS} documents on 3 pages in all")


def test_searches_without_hits_are_judged_by_their_other_results(numbered):
    few = {"collection": "numbered", "size": 2, "body": {"query": {"range": {"n": {"lt": 5}}}}}
    assert answered(numbered, {"multi_search": {"searches": [few, few | {"size": 4}]}})["documents"] == 6
    (bad,) = check_operations(plan(numbered, {"multi_search": {"searches": [few, {"collection": "nowhere"}]}}))
    assert bad["error"] == "item"
    assert bad["message"].startswith("1 of 2 searches failed, the first with index_not_found_exception")
    kinds = {"kinds": {"terms": {"field": "kind", "size": 7}}, "mean": {"avg": {"field": "n"}}}
    mean = {"fields": {"aggregations.mean.value": (DOCUMENTS - 1) / 2}}
    form = {"aggregation": {"collection": "numbered", "aggregations": kinds}, "assert": mean}
    assert answered(numbered, form)["documents"] == 7
    answered(numbered, {"count": {"collection": "numbered"}, "assert": {"hits": DOCUMENTS}})
    below = {"collection": "numbered", "query": {"range": {"n": {"lt": 7}}}}
    (short,) = check_operations(plan(numbered, {"count": below, "assert": {"min_hits": 8}}))
    assert short["message"] == "7 hits, fewer than the 8 that are asserted"


def test_collections_are_administered(node):
    def ask(**form):
        return answered(node, form)

    ask(put_template={"name": "few", "patterns": ["log-*"], "priority": 5, "settings": {"number_of_replicas": 0}})
    settings = {"number_of_shards": 2, "number_of_replicas": 0}
    ask(create_collection={"collection": "log-1", "settings": settings, "aliases": {"log": {"is_write_index": True}}})
    ask(index={"collection": "log", "id": "x", "document": {"a": 1}})
    ask(put_settings={"collection": "log-1", "settings": {"index.refresh_interval": "5s"}})
    ask(aliases={"actions": [{"add": {"index": "log-1", "alias": "again"}}]})
    ask(flush={"collection": "again", "force": True})
    ask(rollover={"alias": "log", "to": "log-2", "conditions": {"max_docs": 1}})
    made = node.store.request(node.addresses, "GET", "/log-2")["log-2"]["settings"]["index"]
    assert made["number_of_replicas"] == "0", "the template's"
    one = {"index.number_of_shards": 1, "index.number_of_replicas": 0}
    ask(shrink={"from": "log-1", "to": "small", "settings": one})
    ask(wait_for_health={"collection": "small", "status": "green", "still": True, "wait": 20})
    answered(node, {"count": {"collection": "small"}, "assert": {"hits": 1}})
    ask(index={"collection": "small", "id": "y", "document": {"a": 2}})
    (waited,) = check_operations(plan(node, {"wait_for_health": {"nodes": 9, "wait": 0.1}}))
    assert waited["error"] == "timeout"
    ask(delete_template={"name": "few"})
    ask(delete_collection={"collection": "small,log-1,log-2"})
    ask(delete_collection={"collection": "small", "ignore_missing": True})
    (gone,) = check_operations(plan(node, {"delete_collection": {"collection": "small"}}))
    assert gone["error"] == "client"
