"""Names of collections with a prefix, in every kind of request, and requests that change collections."""

import re

import pytest

from loadframe.base.errors import BadInput
from loadframe.workload import load_workload
from loadframe.workload.collection_use import changes_data, with_prefix, without_prefix
from loadframe.workload.workload import LIBRARY

HEAD = """\
workload: w
collections:
  things: {postgresql: {columns: {id: text, amount: integer}}}
  others: {}
operations:
"""


@pytest.fixture
def resolved(tmp_path):
    """Resolve a workload with one operation; return the workload and a function that gives the renamed operation."""

    def resolved(form: str, family: str):
        path = tmp_path / "w.yaml"
        path.write_text(f"{HEAD}  ask: {form}\nphases: [{{name: p, operation: ask, clients: 1, requests: 1}}]\n")
        return load_workload(str(path)).for_family(family, 1)

    return resolved


@pytest.mark.parametrize(
    ("family", "form", "expected"),
    [
        ("redis", "{read: {collection: things, id: 1}}", {"read": {"collection": "x_things", "id": 1}}),
        (
            "postgresql",
            "{postgresql: {sql: {statement: \"SELECT t.amount FROM things t JOIN others o ON o.id = 'things'\"}}}",
            {"sql": {"statement": "SELECT t.amount FROM x_things t JOIN x_others o ON o.id = 'things'"}},
        ),
        (
            "postgresql",
            '{postgresql: {sql: {transaction: [{statement: "DELETE FROM things WHERE things.id = $1", values: [1]}]}}}',
            {"sql": {"transaction": [{"statement": "DELETE FROM x_things WHERE x_things.id = $1", "values": [1]}]}},
        ),
        (
            "cassandra",
            "{cassandra: {cql: {statement: SELECT * FROM loadframe.things}}}",
            {"cql": {"statement": "SELECT * FROM loadframe.x_things"}},
        ),
        (
            "mongodb",
            "{mongodb: {command: {count: things, query: {things: others}}}}",
            {"command": {"count": "x_things", "query": {"things": "others"}}},
        ),
        (
            "mongodb",
            "{mongodb: {aggregate: {collection: things, pipeline: [{$lookup: {from: others, as: others}}]}}}",
            {"aggregate": {"collection": "x_things", "pipeline": [{"$lookup": {"from": "x_others", "as": "others"}}]}},
        ),
        ("redis", "{redis: {command: [HGET, 'things:1', things]}}", {"command": ["HGET", "x_things:1", "x_things"]}),
        (
            "elasticsearch",
            "{elasticsearch: {request: {method: GET, path: '/things,others/_stats'}}}",
            {"request": {"method": "GET", "path": "/x_things,x_others/_stats"}},
        ),
        (
            "elasticsearch",
            "{elasticsearch: {search: {collection: 'thing*'}}}",
            {"search": {"collection": "x_thing*"}},
        ),
        (
            "elasticsearch",
            "{elasticsearch: {multi_search: {searches: [{collection: things}, {collection: others}]}}}",
            {"multi_search": {"searches": [{"collection": "x_things"}, {"collection": "x_others"}]}},
        ),
    ],
)
def test_requests_use_the_collections_with_the_prefix(resolved, family, form, expected):
    workload = resolved(form, family)
    renamed = with_prefix(workload, "x_")
    assert list(renamed.collections) == ["x_things", "x_others"]
    operation = renamed.phase("p").operations["ask"]
    (kind,) = expected
    part = operation[kind]
    if isinstance(part, dict):
        part = {key: value for key, value in part.items() if key in expected[kind]}
        if kind == "multi_search":
            part = {"searches": [{"collection": search["collection"]} for search in part["searches"]]}
        if kind == "sql" and "transaction" in part:
            part = {
                "transaction": [{key: entry[key] for key in ("statement", "values")} for entry in part["transaction"]]
            }
    assert part == expected[kind]
    # The record has the names of the workload.
    assert without_prefix(operation, "x_") == workload.phase("p").operations["ask"]


@pytest.mark.parametrize(
    ("family", "form", "why"),
    [
        ("elasticsearch", "{elasticsearch: {search: {collection: 'absent*'}}}", "uses absent*"),
        ("elasticsearch", "{elasticsearch: {create_collection: {collection: more}}}", "is of kind create_collection"),
    ],
)
def test_requests_that_cannot_be_renamed_are_refused(resolved, family, form, why):
    with pytest.raises(BadInput, match="cannot use a prefix") as caught:
        with_prefix(resolved(form, family), "x_")
    assert why in caught.value.what


def test_a_collection_with_the_name_of_a_column_is_refused(tmp_path):
    path = tmp_path / "w.yaml"
    path.write_text(
        "workload: w\ncollections: {amount: {postgresql: {columns: {id: text, amount: integer}}}}\n"
        "operations: {ask: {postgresql: {sql: {statement: SELECT amount FROM amount}}}}\n"
        "phases: [{name: p, operation: ask, clients: 1, requests: 1}]\n"
    )
    with pytest.raises(BadInput, match="names a collection and a column"):
        with_prefix(load_workload(str(path)).for_family("postgresql", 1), "x_")


@pytest.mark.parametrize(
    ("family", "form", "changes"),
    [
        ("redis", "{read: {collection: things, id: 1}}", False),
        ("redis", "{upsert: {collection: things, id: 1, document: {a: 1}}}", True),
        ("redis", "{redis: {command: [GET, 'things:1']}}", False),
        ("redis", "{redis: {command: [INCR, 'things:1']}}", True),
        ("postgresql", "{postgresql: {sql: {statement: SELECT 1}}}", False),
        ("postgresql", "{postgresql: {sql: {statement: SELECT 1 INTO other}}}", True),
        ("postgresql", "{postgresql: {sql: {statement: EXPLAIN DELETE FROM things}}}", False),
        ("postgresql", "{postgresql: {sql: {statement: EXPLAIN ANALYZE DELETE FROM things}}}", True),
        ("postgresql", "{postgresql: {sql: {statement: 'EXPLAIN (COSTS, ANALYZE) DELETE FROM things'}}}", True),
        ("postgresql", "{postgresql: {sql: {statement: 'EXPLAIN /* x */ ANALYZE DELETE FROM things'}}}", True),
        ("postgresql", "{postgresql: {sql: {statement: 'SELECT 1; DELETE FROM things'}}}", True),
        ("postgresql", "{postgresql: {sql: {statement: 'SELECT 1; '}}}", False),
        ("mongodb", "{mongodb: {aggregate: {collection: things, pipeline: [{$match: {}}]}}}", False),
        ("mongodb", "{mongodb: {aggregate: {collection: things, pipeline: [{$out: others}]}}}", True),
        ("elasticsearch", "{elasticsearch: {search: {collection: things}}}", False),
        ("elasticsearch", "{elasticsearch: {force_merge: {collection: things}}}", True),
        ("elasticsearch", "{elasticsearch: {request: {method: POST, path: '/things/_search?size=1'}}}", False),
        ("elasticsearch", "{elasticsearch: {request: {method: POST, path: '/things/_msearch'}}}", False),
        ("elasticsearch", "{elasticsearch: {request: {method: POST, path: '/my_search/_doc'}}}", True),
    ],
)
def test_requests_that_change_collections_are_known(resolved, family, form, changes):
    assert changes_data(resolved(form, family).phases) is changes


@pytest.mark.parametrize(
    ("method", "path", "changes"),
    [
        ("GET", "/things/_search", False),
        ("GET", "/_search/pipeline/x", False),
        ("GET", "/things/_refresh", True),
        ("GET", "/things/_flush", True),
        ("HEAD", "/things", False),
        ("POST", "/_search", False),
        ("POST", "/things/_search/template?size=1", False),
        ("POST", "/_search/scroll", False),
        ("POST", "/things/_search/point_in_time?keep_alive=1m", False),
        ("POST", "/things/_pit", False),
        ("POST", "/_msearch/template", False),
        ("POST", "/things/_count", False),
        ("POST", "/things/_explain/1", False),
        ("POST", "/things/_async_search", False),
        ("POST", "/_plugins/_asynchronous_search", False),
        ("POST", "/_plugins/_knn/models/_search", False),
        ("POST", "/things/_eql/search", False),
        ("POST", "/_application/search_application/x/_search", False),
        ("POST", "/things/_doc/_search", True),
        ("POST", "/things/_create/_count", True),
        ("POST", "/things/_update/_search", True),
        ("POST", "/things/_delete_by_query", True),
        ("POST", "/_searchable_snapshots/cache/clear", True),
        ("POST", "/_plugins/_search_relevance/judgments", True),
        ("PUT", "/_search/pipeline/x", True),
        ("PUT", "/_plugins/_search_relevance/query_sets", True),
        ("PUT", "/_application/search_application/x", True),
        ("PUT", "/things/_doc/_search", True),
        ("DELETE", "/_search/pipeline/x", True),
        ("DELETE", "/_search/scroll", False),
        ("DELETE", "/_search/scroll/_all", False),
        ("DELETE", "/_search/point_in_time/_all", False),
        ("DELETE", "/_pit", False),
        ("DELETE", "/_async_search/id", False),
        ("DELETE", "/things/_doc/_search", True),
        ("DELETE", "/things/_doc/_pit", True),
        ("DELETE", "/things/_query", True),
    ],
)
def test_paths_of_a_search_cluster_read_or_write_by_method_and_end(resolved, method, path, changes):
    form = f"{{elasticsearch: {{request: {{method: {method}, path: '{path}'}}}}}}"
    assert changes_data(resolved(form, "elasticsearch").phases) is changes


def test_the_library_takes_a_prefix_except_with_daily_collections():
    refused = set()
    for path in LIBRARY.glob("*.yaml"):
        workload = load_workload(path.stem)
        for family in ("elasticsearch", "mongodb", "redis", "cassandra", "postgresql"):
            try:
                resolved = workload.for_family(family, 1)
            except BadInput:
                continue
            try:
                renamed = with_prefix(resolved, "x_")
            except BadInput:
                refused.add(path.stem)
                continue
            assert all(name.startswith("x_") for name in renamed.collections)
            before, after = ([phase.describe() for phase in part.phases] for part in (resolved, renamed))
            assert without_prefix(after, "x_") == before
            # No request is left with an old name.
            assert not [name for name in resolved.collections if re.search(rf"'collection': '{name}'", str(after))]
    # These have a collection per day.
    assert refused == {"adbids", "selfcare"}
