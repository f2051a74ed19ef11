"""Import of each Rally operation; unsupported ones are named with the reason."""

import pytest
from rally_tracks import simple

from loadframe.workload.importers.rally import import_rally


@pytest.mark.parametrize(
    ("operation", "form"),
    [
        ({"operation-type": "refresh"}, {"refresh": {"collection": "a"}}),
        ({"operation-type": "refresh", "index": "b*"}, {"request": {"method": "POST", "path": "/b*/_refresh"}}),
        ({"operation-type": "flush"}, {"flush": {"collection": "a"}}),
        (
            {"operation-type": "force-merge", "index": "_all", "max-num-segments": 2},
            {
                "request": {"method": "POST", "path": "/_all/_forcemerge", "parameters": {"max_num_segments": 2}},
                "timeout": 3600,
            },
        ),
        (
            {"operation-type": "search", "index": "a,b", "body": {"size": 0}, "cache": True},
            {
                "request": {
                    "method": "POST",
                    "path": "/a,b/_search",
                    "body": {"size": 0},
                    "parameters": {"request_cache": True},
                }
            },
        ),
        (
            {"operation-type": "scroll-search", "body": {}, "pages": 3, "results-per-page": 50},
            {"scroll": {"collection": "a", "body": {}, "size": 50, "pages": 3}},
        ),
        (
            {"operation-type": "search", "body": {"size": 20}, "pages": "all"},
            {"scroll": {"collection": "a", "body": {}, "size": 20}},
        ),
        (
            {"operation-type": "paginated-search", "body": {"sort": ["x"]}, "pages": "all", "results-per-page": 7},
            {"search_after": {"collection": "a", "body": {"sort": ["x"]}, "size": 7, "point_in_time": False}},
        ),
        (
            {
                "operation-type": "composite",
                "requests": [
                    {
                        "stream": [
                            {"operation-type": "open-point-in-time", "name": "p", "index": "a"},
                            {
                                "operation-type": "paginated-search",
                                "with-point-in-time-from": "p",
                                "body": {"sort": ["x"]},
                                "pages": 2,
                            },
                            {"operation-type": "close-point-in-time", "with-point-in-time-from": "p"},
                        ]
                    }
                ],
            },
            {"search_after": {"collection": "a", "body": {"sort": ["x"]}, "size": 10, "pages": 2}},
        ),
        (
            {
                "operation-type": "composite-agg",
                "body": {"size": 0, "aggs": {"all": {"composite": {"sources": [{"x": {"terms": {"field": "x"}}}]}}}},
                "results-per-page": 5,
            },
            {"composite": {"collection": "a", "sources": [{"x": {"terms": {"field": "x"}}}], "size": 5}},
        ),
        (
            {
                "operation-type": "composite-agg",
                "index": "a,b",
                "body": {"size": 0, "aggs": {"all": {"composite": {"size": 3, "sources": []}}}},
                "results-per-page": 5,
                "pages": 1,
            },
            {
                "request": {
                    "method": "POST",
                    "path": "/a,b/_search",
                    "body": {"size": 0, "aggs": {"all": {"composite": {"size": 5, "sources": []}}}},
                }
            },
        ),
        (
            {"operation-type": "search", "body": {"size": 20}, "results-per-page": 0},
            {"search": {"collection": "a", "body": {"size": 20}}},
        ),
        (
            {"operation-type": "search", "body": {"size": 20}, "results-per-page": 30},
            {"search": {"collection": "a", "body": {"size": 20}, "size": 30}},
        ),
        (
            {"operation-type": "shrink-index", "target-index": "b", "target-body": {"settings": {"x": 1}}},
            {"shrink": {"from": "a", "to": "b", "settings": {"x": 1}}},
        ),
        (
            {"operation-type": "create-snapshot-repository", "repository": "r"}
            | {"body": {"type": "fs", "settings": {"location": "/there"}}},
            {"create_repository": {"repository": "r", "location": "/there"}},
        ),
        (
            {"operation-type": "create-snapshot", "repository": "r", "snapshot": "s", "wait-for-completion": True},
            {"snapshot": {"repository": "r", "name": "s", "wait": True}},
        ),
        (
            {"operation-type": "start-transform", "transform-id": "t"},
            {"request": {"method": "POST", "path": "/_transform/t/_start"}},
        ),
        (
            {"operation-type": "raw-request", "path": "_cat/indices", "method": "get"},
            {"request": {"method": "GET", "path": "/_cat/indices"}},
        ),
        (
            {"operation-type": "put-settings", "body": {"transient": {"x": "${y}"}}},
            {"request": {"method": "PUT", "path": "/_cluster/settings", "body": {"transient": {"x": "$${y}"}}}},
        ),
        (
            {"operation-type": "put-pipeline", "id": "p", "body": {"processors": []}},
            {"request": {"method": "PUT", "path": "/_ingest/pipeline/p", "body": {"processors": []}}},
        ),
        ({"operation-type": "index-stats"}, {"request": {"method": "GET", "path": "/a/_stats"}}),
        ({"operation-type": "node-stats"}, {"request": {"method": "GET", "path": "/_nodes/stats"}}),
        (
            {"operation-type": "raw-request", "path": "/_cat/indices", "retry-until-success": True},
            {
                "request": {"method": "GET", "path": "/_cat/indices"},
                "repeat": {"every": 0.5, "within": 86400.0},
            },
        ),
        (
            {"operation-type": "create-index", "index": "n", "body": {"settings": {"x": 1}}},
            {"create_collection": {"collection": "n", "settings": {"x": 1}}},
        ),
        (
            {"operation-type": "sql", "body": {"query": "SELECT 1"}},
            {"sql": {"query": "SELECT 1"}},
        ),
        (
            {"operation-type": "esql", "query": "FROM a", "filter": {"term": {"x": 1}}, "body": {"columnar": True}},
            {"esql": {"query": "FROM a", "body": {"columnar": True, "filter": {"term": {"x": 1}}}}},
        ),
        (
            {"operation-type": "raw-request", "method": "POST", "path": "/a/_eql/search", "body": {"query": "any"}},
            {"eql": {"collection": "a", "query": "any"}},
        ),
        (
            {
                "operation-type": "cluster-health",
                "index": "a*",
                "request-params": {"wait_for_status": "yellow", "wait_for_no_relocating_shards": True},
                "retry-until-success": True,
                "retry-wait-period": 2,
            },
            {
                "request": {
                    "method": "GET",
                    "path": "/_cluster/health/a*",
                    "parameters": {"wait_for_status": "yellow", "wait_for_no_relocating_shards": True},
                },
                "repeat": {
                    "until": {"status": {"one_of": ["green", "yellow"]}, "relocating_shards": {"at_most": 0}},
                    "every": 2.0,
                    "within": 86400.0,
                },
            },
        ),
        (
            {"operation-type": "field-caps", "fields": ["x", "y"]},
            {"request": {"method": "GET", "path": "/a/_field_caps", "parameters": {"fields": "x,y"}}},
        ),
    ],
)
def test_each_kind_of_operation_has_its_form(written, loaded, operation, form):
    imported = import_rally(written("track.json", simple(operation)), None, {})
    assert loaded(imported).file.operations["o0"].dump() == form


def test_templates_are_made_and_removed(written, loaded):
    written("whole.json", {"index_patterns": ["x*"], "template": {"settings": {"a": 1}}, "priority": 3})
    written("part.json", {"index_patterns": "y*", "composed_of": ["z"]})
    named = [{"name": name, "template": f"{name}.json", "index-pattern": "x*"} for name in ("whole", "part")]
    make, remove = ({"operation-type": f"{verb}-composable-template"} for verb in ("create", "delete"))
    track = simple(remove, make, remove) | {"composable-templates": named}
    imported = import_rally(written("track.json", track), None, {})
    assert [form.dump() for form in loaded(imported).file.operations.values()] == [
        {"put_template": {"name": "whole", "patterns": ["x*"], "settings": {"a": 1}, "priority": 3}},
        {"put_template": {"name": "part", "patterns": ["y*"], "composed_of": ["z"]}},
        {"delete_template": {"name": "part"}},
        {"delete_template": {"name": "whole"}},
    ]
    assert "operation o0: the deletion of templates, because no operation creates them" in imported.left_out


def test_operations_can_remove_their_own_objects(written, loaded):
    index, pipeline = {"index": "n", "body": {}}, {"id": "p", "body": {"processors": []}}
    track = simple(
        {"operation-type": "delete-index", "index": "n"},
        {"operation-type": "create-index", **index},
        {"operation-type": "refresh", "index": "n"},
        {"operation-type": "delete-index", "index": "n"},
        {"operation-type": "delete-pipeline", "id": "p"},
        {"operation-type": "put-pipeline", **pipeline},
        {"operation-type": "delete-pipeline", "id": "p"},
    )
    forms = [form.dump() for form in loaded(import_rally(written("t.json", track), None, {})).file.operations.values()]
    assert [next(iter(form)) for form in forms] == [
        *("create_collection", "refresh", "delete_collection", "request", "request")
    ]
    assert forms[-1]["request"] == {"method": "DELETE", "path": "/_ingest/pipeline/p"}


def test_conflicts_of_documents_are_told_in_shares(written, loaded):
    bulk = {"operation-type": "bulk", "bulk-size": 5, "conflicts": "random", "on-conflict": "update", "recency": 0.4}
    corpora = [{"name": "x", "documents": [{"source-file": "x.json"}]}]
    for percent, share in ((None, 0.25), (60, 0.6)):
        given = {} if percent is None else {"conflict-probability": percent}
        file = loaded(import_rally(written("t.json", simple(bulk | given, corpora=corpora)), None, {})).file
        said = file.operations["o0"].bulk
        assert (said.conflicts, said.on_conflict, said.conflict_probability) == ("random", "update", share)
        assert said.recency == 0.4


CORPORA = [{"name": "x", "documents": [{"source-file": "x.json"}]}]


def test_a_bulk_operation_keeps_the_parameters_of_its_requests(written, loaded):
    plain = {"operation-type": "bulk", "bulk-size": 2}
    given = {
        "pipeline": "upper",
        "timeout": "5s",
        "request-params": {"refresh": "true", "routing": "r", "preference": "${p}"},
    }
    imported = import_rally(written("t.json", simple(plain, plain | given, corpora=CORPORA)), None, {})
    alone, piped = (form.bulk for form in loaded(imported).file.operations.values())
    assert (alone.pipeline, alone.parameters) == (None, {})
    assert (piped.pipeline, piped.refresh, piped.routing) == ("upper", True, "r")
    assert piped.parameters == {"timeout": "5s", "preference": "$${p}"}
    assert not [entry for entry in imported.left_out if entry.startswith("operation")]


def test_an_operation_that_equals_another_without_what_is_lost_is_left_out(written, loaded):
    look, other = ({"operation-type": "search", "body": {"size": size}} for size in (0, 1))
    odd, same = look | {"runtime": "fast"}, other | {"runtime": "fast"}
    track = simple(odd, look, same)
    track["schedule"].append({"parallel": {"tasks": [{"operation": {"name": "o3", **odd}}, *track["schedule"][:2]]}})
    imported = import_rally(written("t.json", track), None, {})
    file = loaded(imported).file
    assert list(file.operations) == ["o1", "o2"]
    assert [phase.name for phase in file.phases] == ["o1", "o2", "o3-o0-o1"]
    reason = 'without runtime "fast", it is identical to o1'
    assert f"operation o0: {reason}" in imported.left_out
    assert f"operation o3: {reason}" in imported.left_out
    assert "operation o2: runtime" in imported.left_out


@pytest.mark.parametrize(
    ("lost", "documents", "reason"),
    [
        (
            {"conflicts": "random"},
            {"includes-action-and-meta-data": True},
            "its conflicts, because x has its own action lines",
        ),
        ({"ingest-percentage": 10}, {}, "its ingest-percentage, because the number of documents of x is unknown"),
    ],
)
def test_a_bulk_operation_that_would_measure_something_else_is_left_out(written, loaded, lost, documents, reason):
    corpora = [{"name": "x", "documents": [{"source-file": "x.json", **documents}]}]
    bulk = {"operation-type": "bulk", "bulk-size": 2}
    imported = import_rally(written("t.json", simple(bulk, bulk | lost, corpora=corpora)), None, {})
    assert list(loaded(imported).file.operations) == ["o0"]
    assert any(entry.startswith(f"operation o1: {reason}") for entry in imported.left_out)


@pytest.mark.parametrize(
    ("operation", "reason"),
    [
        ({"operation-type": "sleep", "duration": 3}, "sleep is not supported"),
        ({"operation-type": "open-point-in-time", "index": "a"}, "unsupported type open-point-in-time"),
        ({"operation-type": "paginated-search", "body": {}, "pages": 3}, "it lacks a sort"),
        (
            {"operation-type": "composite-agg", "body": {"aggs": {"all": {"composite": {"sources": [{"x": {}}]}}}}},
            "the 10 hits of each page beside its buckets",
        ),
        (
            {"operation-type": "composite", "requests": [{"operation-type": "search", "name": "s"}]},
            "a composite other than",
        ),
        ({"operation-type": "scroll-search", "index": "a,b", "body": {}}, "it searches more than one index"),
    ],
)
def test_unsupported_operations_are_left_out_with_the_reason(written, operation, reason):
    look = {"operation-type": "search", "body": {}}
    imported = import_rally(written("track.json", simple(operation, look)), None, {})
    assert any(entry.startswith(f"operation o0: {reason}") for entry in imported.left_out)
