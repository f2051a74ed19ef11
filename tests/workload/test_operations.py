"""Operations: their forms, the store families of each, and the engine's plans."""

import json

import pytest
import yaml
from workload_texts import pointed_at

from loadframe.workload import load_workload

WORKLOAD = """\
workload: w
collections: {{things: {{}}, other: {{}}}}
corpora: {{trips: {{generate: nyc_taxi_trip, documents: 10}}}}
operations:
  o: {operation}
phases: [{{name: p, operation: o, clients: 1, requests: 1}}]
"""


def form(load, operation):
    resolved = load(WORKLOAD.format(operation=operation)).for_family("elasticsearch", 1)
    return resolved.phase("p").operations["o"]


@pytest.mark.parametrize(
    ("written", "dumped"),
    [
        ("{bulk: {collection: things, corpus: trips, size: 5}}",
         {"bulk": {"collection": "things", "corpus": "trips", "size": 5}}),
        ("{bulk: {collection: things, corpus: trips, size: 5, action: create}}",
         {"bulk": {"collection": "things", "corpus": "trips", "size": 5, "action": "create"}}),
        ("{search: {collection: things}}", {"search": {"collection": "things"}}),
        ("{search: {collection: things, body: {a: null, b: [1, {c: 1.5}]}, size: 0, request_cache: false,"
         " parameters: {preference: _local, n: 3}}}",
         {"search": {"collection": "things", "body": {"a": None, "b": [1, {"c": 1.5}]}, "size": 0,
                     "request_cache": False, "parameters": {"preference": "_local", "n": 3}}}),
        ('{get: {collection: things, id: "7"}}', {"get": {"collection": "things", "id": "7"}}),
        ("{get: {collection: things, id: 7}}", {"get": {"collection": "things", "id": 7}}),
        ("{get: {collection: things, id: 7, routing: {of: u, on: true}}}",
         {"get": {"collection": "things", "id": 7, "routing": "u"}}),
        ("{search: {collection: things, routing: {of: u, on: false}}}",
         {"search": {"collection": "things", "routing": None}}),
        ("{insert: {collection: things, id: x, document: {}, routing: u, refresh: wait_for}}",
         {"insert": {"collection": "things", "id": "x", "document": {}, "routing": "u", "refresh": "wait_for"}}),
        ("{index_many: {collection: things, documents: [{id: 1, document: {a: 1}}], refresh: true}}",
         {"index_many": {"collection": "things", "documents": [{"id": 1, "document": {"a": 1}}], "refresh": True}}),
        ("{count: {collection: things}, repeat: {until: {count: {at_least: 3}, /a.b: x}, every: 200ms, within: 1m}}",
         {"count": {"collection": "things"},
          "repeat": {"until": {"count": {"at_least": 3}, "/a.b": "x"}, "every": 0.2, "within": 60.0}}),
        ("{esql: {query: FROM things, body: {params: [1]}, parameters: {delimiter: x}}}",
         {"esql": {"query": "FROM things", "body": {"params": [1]}, "parameters": {"delimiter": "x"}}}),
        ("{eql: {collection: things, query: any where true, body: {size: 3}}}",
         {"eql": {"collection": "things", "query": "any where true", "body": {"size": 3}}}),
        ("{sql: {query: SELECT 1, body: {filter: {}}}}", {"sql": {"query": "SELECT 1", "body": {"filter": {}}}}),
        ("{knn: {collection: things, field: v, vector: [1, 2.5], k: 3}, assert: {recall: {of: [7, a]}}}",
         {"knn": {"collection": "things", "field": "v", "vector": [1, 2.5], "k": 3},
          "assert": {"recall": {"of": [7, "a"], "k": 3}}}),
        ("{search: {collection: things}, assert: {min_hits: 1}}",
         {"search": {"collection": "things"}, "assert": {"min_hits": 1}}),
        ("{scan: {collection: things, from: user1, count: 10, by: key}}",
         {"scan": {"collection": "things", "from": "user1", "count": 10, "by": "key"}}),
        ("{read: {collection: things, id: a, fields: [b]}, assert: {fields: {b: null}}}",
         {"read": {"collection": "things", "id": "a", "fields": ["b"]}, "assert": {"fields": {"b": None}}}),
        ("{bulk: {collection: things, corpus: trips, size: 5, conflicts: random, conflict_probability: 1}}",
         {"bulk": {"collection": "things", "corpus": "trips", "size": 5, "conflicts": "random",
                   "conflict_probability": 1.0}}),
        ("{index: {collection: things, document: {a: 1}}}", {"index": {"collection": "things", "document": {"a": 1}}}),
        ("{update: {collection: things, id: x, document: {}}}",
         {"update": {"collection": "things", "id": "x", "document": {}}}),
        ("{delete: {collection: things, id: x}}", {"delete": {"collection": "things", "id": "x"}}),
        ("{refresh: {collection: things}}", {"refresh": {"collection": "things"}}),
        ("{force_merge: {collection: things, max_segments: 1}, timeout: 2m}",
         {"force_merge": {"collection": "things", "max_segments": 1}, "timeout": 120.0}),
        ("{request: {method: GET, path: /_cat/nodes, parameters: {v: true}}}",
         {"request": {"method": "GET", "path": "/_cat/nodes", "parameters": {"v": True}}}),
        ("{request: {method: POST, path: /_x, body: {a: 1}}}",
         {"request": {"method": "POST", "path": "/_x", "body": {"a": 1}}}),
    ],
)  # fmt: skip
def test_an_engines_plan_has_exactly_the_values_of_the_file(load, written, dumped):
    assert form(load, written) == dumped


def test_an_operation_may_have_a_form_for_each_family(load):
    written = "{elasticsearch: {search: {collection: things}, timeout: 1s}}"
    assert form(load, written) == {"search": {"collection": "things"}, "timeout": 1.0}


def test_a_neutral_operation_serves_every_family(load):
    workload = load(WORKLOAD.format(operation="{bulk: {collection: things, corpus: trips, size: 5}}"))
    assert "bulk" in workload.for_family("mongodb", 1).phase("p").operations["o"]


@pytest.mark.parametrize(
    ("family", "written"),
    [
        ("cassandra", "cql: {statement: 'SELECT * FROM t WHERE id = ?', values: ['${n}'], consistency: one}"),
        ("mongodb", "find: {collection: things, filter: {a: {$gt: 1}}, limit: 5}"),
        ("mongodb", "aggregate: {collection: things, pipeline: [{$count: n}]}"),
        ("mongodb", "command: {dbStats: 1}"),
        ("redis", "command: [GET, 'things:${n}']"),
        ("couchbase", "query: {statement: 'SELECT 1', parameters: {a: 1}}"),
    ],
)
def test_every_family_has_requests_of_its_own(load, family, written):
    for operation in (f"{{{written}}}", f"{{{family}: {{{written}}}}}"):
        text = WORKLOAD.format(operation=operation).replace("operations:", "variables: {n: {constant: 1}}\noperations:")
        given = load(text).for_family(family, 1).phase("p").operations["o"]
        assert given == yaml.safe_load(f"{{{written}}}")


def test_a_collection_is_defined_for_each_family_in_its_own_terms(load):
    definitions = {
        "elasticsearch": {"settings": {"number_of_shards": 1}},
        "cassandra": {"columns": {"id": "text", "n": "int"}, "with": "comment = 'x'", "replication": {"class": "S"}},
        "mongodb": {"shard_key": {"_id": "hashed"}, "indexes": [{"n": 1}], "options": {"capped": True}},
        "redis": {},
        "couchbase": {"replicas": 1, "ram_quota": 1024, "durability": "majority", "index": True},
    }
    text = WORKLOAD.format(operation="{read: {collection: things, id: a}}")
    text = text.replace("things: {}", "things: " + json.dumps(definitions))
    for family, definition in definitions.items():
        assert load(text).for_family(family, 1).collections["things"] == definition


@pytest.mark.parametrize(
    "operation", ["{search: {collection: things}}", "{elasticsearch: {search: {collection: things}}}"]
)
def test_a_native_operation_is_refused_to_other_families(load, operation):
    workload = load(WORKLOAD.format(operation=operation))
    with pytest.raises(
        Exception, match="the operation 'o' does not support stores of the family 'mongodb'; it has only search"
    ):
        workload.for_family("mongodb", 1)


def test_a_verb_with_a_consistency_is_for_cassandra_alone(load):
    verb = "read: {collection: things, id: a}, consistency: quorum"
    for operation in (f"{{{verb}}}", f"{{cassandra: {{{verb}}}}}"):
        workload = load(WORKLOAD.format(operation=operation))
        assert workload.for_family("cassandra", 1).phase("p").operations["o"]["consistency"] == "quorum"
        with pytest.raises(
            Exception, match="the operation 'o' does not support stores of the family 'mongodb'; it has only"
        ):
            workload.for_family("mongodb", 1)


def test_a_verb_with_a_durability_is_for_couchbase_alone(load):
    workload = load(WORKLOAD.format(operation="{delete: {collection: things, id: a}, durability: majority}"))
    assert workload.for_family("couchbase", 1).phase("p").operations["o"]["durability"] == "majority"
    with pytest.raises(Exception, match="the operation 'o' does not support stores of the family 'redis'; it has only"):
        workload.for_family("redis", 1)


def test_a_verb_with_a_write_concern_or_a_read_preference_is_for_mongodb_alone(load):
    key = "collection: things, id: a"
    for verb in (f"delete: {{{key}}}, write_concern: majority", f"read: {{{key}}}, read_preference: nearest"):
        workload = load(WORKLOAD.format(operation=f"{{{verb}}}"))
        assert workload.for_family("mongodb", 1).phase("p").operations["o"] == yaml.safe_load(f"{{{verb}}}")
        with pytest.raises(
            Exception, match="the operation 'o' does not support stores of the family 'redis'; it has only"
        ):
            workload.for_family("redis", 1)


def test_an_operation_that_no_phase_uses_needs_no_form(load):
    text = WORKLOAD.format(operation="{bulk: {collection: things, corpus: trips, size: 5}}")
    text = text.replace("phases:", "  unused: {search: {collection: things}}\nphases:")
    assert set(load(text).for_family("mongodb", 1).phase("p").operations) == {"o"}


@pytest.mark.parametrize(
    ("operation", "where", "what", "remedy"),
    [
        ("{serach: {collection: things}}", "serach", "unknown key 'serach'", "did you mean 'search'?"),
        ("{search: {collection: thing}}", "thing", "unknown collection 'thing'", "did you mean 'things'?"),
        ("{search: {collection: things, bodi: {}}}", "bodi", "unknown key 'bodi'", "did you mean 'body'?"),
        ("{bulk: {collection: things, corpus: trips, size: 5}, repeat: {every: 1s}}", "repeat", "single request", None),
        ("{count: {collection: things}, repeat: {until: {}}}", "{", "at least one entry", None),
        ("{count: {collection: things}, repeat: {until: {count: {above: 3}}}}", "{above", "at_least, at_most", None),
        (
            "{count: {collection: things}, repeat: {until: {count: {at_most: x}}}}",
            "{at_most",
            'at_most requires a number; got "x"',
            None,
        ),
        ("{insert: {collection: things, id: x, document: {}}, new_documents: 1}", "new", "is known", "remove"),
        (
            "{index: {collection: things, document: {}}, visible: {}}",
            "visible",
            "requires a single request that reads; got index",
            "journey",
        ),
        (
            "{get: {collection: things, id: x}, repeat: {}, visible: {}}",
            "repeat",
            "visible and repeat exclude each other: both repeat",
            "remove",
        ),
        ("{get: {collection: things, id: x}, visible: {every: 0s}}", "0s", "above 0", None),
        ("{get: {collection: things, id: x}, visible: {sample: 1s}}", "visible", "sample requires take_in", "remove"),
        (
            "{index: {collection: things, document: {}}, first: true}",
            "first",
            "requires a single request that reads; got index",
            "remove",
        ),
        (
            "{get: {collection: things, id: x}, repeat: {}, shows: o}",
            "shows",
            "shows requires a single request that reads; got repeat",
            "remove",
        ),
        ("{get: {collection: things, id: x}, shows: p}", "p", "unknown operation 'p'", "valid here: o"),
        (
            "{get: {collection: things, id: x}, shows: o}",
            "o",
            "shows requires visibility probes in 'o'",
            "visible: {sample: 1s}",
        ),
        (
            "{take_in: {collection: things}, visible: {every: 1s}}",
            "visible",
            "visible with take_in requires sample: it probes only some events",
            "sample: 1s",
        ),
        ("{take_in: {collection: things}, read_preference: secondary}", "read_preference", "only reads", "remove"),
        ("{sql: {query: SELECT 1, body: {query: SELECT 2}}}", "body", "body must not contain query", "move"),
        ("{knn: {collection: things, field: v, vector: x, k: 3}}", "x", "expected a list of numbers", "${vector}"),
        (
            "{knn: {collection: things, field: v, vector: [1], k: 3, candidates: 2}}",
            "candidates",
            "candidates must be at least k, 3; got 2",
            None,
        ),
        ("{search: {collection: things}, assert: {recall: {of: [1]}}}", "assert", "recall requires k", "add k"),
        (
            "{count: {collection: things}, assert: {recall: {of: [1], k: 1}}}",
            "assert",
            "asserting recall requires search or knn; got count",
            None,
        ),
        (
            "{create_collection: {collection: a, data_stream: true, settings: {}}}",
            "settings",
            "data_stream and settings exclude each other",
            "move",
        ),
        ("{search: {body: {}}}", "{body", "the key 'collection' is missing", None),
        ("{search: {collection: things, size: ten}}", "ten", "expected a whole number", None),
        ("{search: {collection: things, body: [1]}}", "[1]", "expected a mapping", None),
        (
            "{bulk: {collection: things, corpus: trip, size: 5}}",
            "trip",
            "unknown corpus 'trip'",
            "did you mean 'trips'?",
        ),
        ("{bulk: {collection: things, corpus: trips, size: 0}}", "0", "at least 1", None),
        ("{bulk: {collection: things, corpus: trips, size: 5, action: creat}}", "creat", "not valid", "'create'"),
        ("{get: {collection: things, id: 1.5}}", "1.5", "expected a text or a whole number, not 1.5", None),
        ("{get: {collection: things, id: ''}}", "''", "expected a text or a whole number", None),
        ("{get: {collection: '', id: a}}", "''", "a text of at least 1 character", None),
        ("{get: {collection: 5, id: a}}", "5", "expected a text, not 5", "put it in quotes"),
        ("{search: {collection: things}, assert: {min_hits: 0}}", "0", "at least 1", None),
        ("{search: {collection: things}, assert: {hit: 1}}", "hit", "unknown key 'hit'", "'hits'"),
        (
            "{get: {collection: things, id: a}, assert: {min_hits: 1}}",
            "assert",
            "asserting hits requires a search; get has none",
            "remove",
        ),
        ("{index: {collection: things}}", "{collection", "the key 'document' is missing", None),
        ("{request: {method: FOO, path: /}}", "FOO", "not valid", "valid here"),
        ("{request: {method: GET, path: _cat}}", "_cat", "a path must start with /", "write /_cat"),
        (
            "{search: {collection: things}, get: {collection: things, id: a}}",
            "get",
            "search and get exclude each other",
            "split",
        ),
        ("{timeout: 5s}", "{timeout", "the operation lacks a request", "one of insert, read"),
        ("{}", "{", "the operation lacks a request", "one of"),
        ("3", "3", "expected a mapping", None),
        ("~", "~", "expected a mapping", None),
        ("{search: {collection: things}, timeout: 0}", "0", "above 0", None),
        ("{search: {collection: things}, timeout: soon}", "soon", "not a duration", "250ms"),
        ("{elasticsearch: {serach: {}}}", "serach", "unknown key 'serach'", "search"),
        ("{elasticsearch: {search: {collection: thing}}}", "thing", "unknown collection 'thing'", "things"),
        (
            "{search: {collection: things}, assert: {min_hits: 1, hits: 1}}",
            "min_hits",
            "min_hits and hits exclude each other",
            "remove",
        ),
        (
            "{search: {collection: things}, assert: {}}",
            "{}",
            "the assertion is empty",
            "min_hits, hits, fields or recall",
        ),
        (
            "{delete: {collection: things, id: a}, assert: {fields: {a: 1}}}",
            "assert",
            "asserting fields requires a request that reads documents; delete does not",
            "remove",
        ),
        ("{elasticsearch: {search: {collection: things}}, mongo: {}}", "mongo", "unknown key 'mongo'", "'mongodb'"),
        (
            "{redis: {command: [INCR, n]}, timeout: 1s}",
            "timeout",
            "belongs inside the form of each family",
            'into each form: redis: {..., timeout: "1s"}',
        ),
        (
            "{mongodb: {command: {ping: 1}}, assert: {hits: 1}}",
            "assert",
            "belongs inside the form of each family",
            "into each form: mongodb:",
        ),
        ("{mongodb: {search: {collection: things}}}", "mongodb", "mongodb does not support this form of search", None),
        ("{read: {collection: things, id: a}, consistency: quorom}", "quorom", "not valid", "'quorum'"),
        (
            "{cql: {statement: S}, consistency: one}",
            "consistency",
            "consistency requires a neutral verb; got cql",
            "into cql",
        ),
        (
            "{mongodb: {delete: {collection: things, id: a}, consistency: one}}",
            "mongodb",
            "mongodb does not support consistency",
            "cassandra",
        ),
        ("{mongodb: {command: [PING]}}", "mongodb", "mongodb does not support this form of command", None),
        ("{read: {collection: things, id: a}, durability: majority}", "durability", "got read", "remove"),
        ("{read: {collection: things, id: a}, write_concern: majority}", "write_concern", "got read", "remove"),
        (
            "{take_in: {collection: things}, write_concern: unacknowledged}",
            "write_concern",
            "take_in requires a write concern with acknowledgement",
            "acknowledged",
        ),
        (
            "{delete: {collection: things, id: a}, read_preference: nearest}",
            "read_preference",
            "read_preference requires a request that only reads; got delete",
            None,
        ),
        ("{read: {collection: things, id: a}, database: admin}", "database", "got read", "remove"),
        (
            "{command: {ping: 1}, write_concern: majority}",
            "write_concern",
            "write_concern requires a neutral verb that writes; got command",
            "inside command",
        ),
        ("{command: []}", "command", "the command is empty", None),
        ("{scan: {collection: things, from: a, count: 0}}", "0", "expected a whole number of at least 1", None),
        ("{read: {collection: things}}", "{collection", "the key 'id' is missing", None),
        (
            "{bulk: {collection: things, corpus: trips, size: 5, action: delete}}",
            "action",
            "action: delete requires id",
            "id",
        ),
        (
            "{bulk: {collection: things, corpus: trips, size: 5, recency: 1}}",
            "recency",
            "recency requires conflicts",
            "sequential",
        ),
        (
            "{bulk: {collection: things, corpus: trips, size: 5, conflicts: random, id: a}}",
            "id",
            "id and conflicts exclude each other: conflicts generates ids",
            "remove",
        ),
        (
            "{bulk: {collection: things, corpus: trips, size: 5, conflicts: random, action: create}}",
            "action",
            "conflicts requires action: index; got create",
            "on_conflict",
        ),
        (
            "{bulk: {collection: things, corpus: trips, size: 5, conflicts: random, conflict_probability: 25}}",
            "25",
            "expected a number of at most 1",
            None,
        ),
        ("{elasticsearch: {search: {collection: things}}, search: {}}", "search", "unknown key 'search'", "elastic"),
    ],
)
def test_a_wrong_operation_is_refused_at_its_place(refused, operation, where, what, remedy):
    text = WORKLOAD.format(operation=operation)
    error = refused(text)
    assert what in error.what
    assert pointed_at(text, error).startswith(where)
    assert (remedy or "") in (error.remedy or "")


def test_the_number_of_hits_can_be_drawn_per_request(load):
    text = WORKLOAD.format(operation='{search: {collection: things, size: "${n}"}}')
    phase = load(text.replace("operations:", "variables: {n: {choice: [10, 100]}}\noperations:"))
    phase = phase.for_family("elasticsearch", 1).phase("p")
    assert phase.operations["o"]["search"]["size"] == "${n}"


def test_values_for_the_analysis_are_in_the_manifest_instead_of_the_engines_plan(load):
    operation = "{index: {collection: things, id: x, document: {}}, new_documents: 1}"
    phase = load(WORKLOAD.format(operation=operation)).for_family("elasticsearch", 1).phase("p")
    assert phase.plan(seed=1, hosts=["127.0.0.1:1"], driver="search", threads=1)["operations"]["o"].keys() == {"index"}
    assert phase.describe()["operations"]["o"]["new_documents"] == 1


def test_the_engine_repeats_reads_that_poll_for_writes(load):
    operation = "{read: {collection: things, id: x}, visible: {within: 2s}}"
    for family in ("elasticsearch", "mongodb", "cassandra", "redis"):
        phase = load(WORKLOAD.format(operation=operation)).for_family(family, 1).phase("p")
        plan = phase.plan(seed=1, hosts=["127.0.0.1:1"], driver="null", threads=1)
        assert plan["visible"] == {"o": {"every": 0.01, "within": 2.0}}
        assert plan["operations"]["o"].keys() == {"read"}


def test_first_executions_are_recorded_only_by_a_single_generator(load):
    phase = load(WORKLOAD.format(operation="{read: {collection: things, id: x}, first: true}")).for_family("redis", 1)
    alone, one_of_two = (
        phase.phase("p").plan(seed=1, hosts=["127.0.0.1:1"], driver="null", ranks=ranks) for ranks in (1, 2)
    )
    assert alone["first"] == ["o"]
    assert "first" not in one_of_two


@pytest.mark.parametrize(("probe", "shows"), [("1s", {"shows": {"top_ads": "take_in"}}), ("0s", {})])
def test_the_age_of_answers_is_known_where_events_are_taken_in_and_looked_for(probe, shows):
    workload = load_workload("adbids", {"probe": probe}).for_family("elasticsearch", 1)
    told = {}
    for name in ("queries", "stress"):
        plan = workload.phase(name).plan(seed=1, hosts=["127.0.0.1:1"], driver="search")
        told[name] = {key: {"top_ads": of["top_ads"]} for key, of in plan.items() if key == "shows"}
    assert told == {"queries": {}, "stress": shows}


def test_a_collection_that_is_named_per_request_is_left_to_the_store(load):
    text = WORKLOAD.format(operation='{search: {collection: "things-${day}"}}')
    text = text.replace("operations:", "variables: {day: {uniform: [1, 3]}}\noperations:")
    phase = load(text).for_family("elasticsearch", 1).phase("p")
    assert phase.operations["o"]["search"]["collection"] == "things-${day}"
    assert phase.variables == {"day": {"uniform": [1, 3]}}


@pytest.mark.parametrize(
    ("written", "dumped"),
    [
        ("{uniform: [1, 5]}", {"uniform": [1, 5]}),
        ("{uniform: [1, 5.0]}", {"uniform": [1, 5.0]}),
        ("{constant: {a: [1]}}", {"constant": {"a": [1]}}),
        ("{constant: null}", {"constant": None}),
        ("{choice: [a, 1, null]}", {"choice": ["a", 1, None]}),
        ("{choice: {values: [a, b], weights: [1, 3]}}", {"choice": {"values": ["a", "b"], "weights": [1.0, 3.0]}}),
        ("{choice: {values: [a, b]}}", {"choice": ["a", "b"]}),
        ("{sequential: {from: 7}}", {"sequential": {"from": 7}}),
        ("{sequential: {}}", {"sequential": {"from": 0}}),
    ],
)
def test_variables_are_given_as_the_engine_reads_them(load, written, dumped):
    text = WORKLOAD.format(operation='{get: {collection: things, id: "${v}"}}')
    workload = load(text.replace("operations:", f"variables: {{v: {written}}}\noperations:"))
    (value,) = workload.for_family("elasticsearch", 1).phase("p").variables.values()
    assert value == dumped
    assert repr(value) == repr(dumped)


@pytest.mark.parametrize(
    ("written", "what"),
    [
        ("{uniform: [5, 1]}", "lower bound is above"), ("{uniform: [1]}", "two numbers"),
        ("{uniform: 5}", "two numbers"), ("{uniform: [1, 2, 3]}", "two numbers"),
        ("{uniform: [a, 2]}", "expected a number"), ("{uniform: [true, 2]}", "expected a number"),
        ("{choice: []}", "at least one entry"),
        ("{choice: 3}", "expected a mapping"), ("{choice: {values: [a], weights: [1, 2]}}", "got 2 weights for"),
        ("{choice: {values: [a], weights: [0]}}", "above 0"), ("{choice: {values: [a], weight: [1]}}", "unknown key"),
        ("{sequential: 3}", "expected a mapping"), ("{sequential: {from: a}}", "whole number"),
        ("{}", "needs exactly one kind; got 0"), ("{uniform: [1, 2], constant: 3}", "exactly one kind; got 2"),
        ("{unifrom: [1, 2]}", "unknown key"),
        ("3", "expected a mapping"),
    ],
)  # fmt: skip
def test_a_wrong_variable_is_refused_at_its_line(refused, written, what):
    text = WORKLOAD.format(operation='{get: {collection: things, id: "${v}"}}')
    error = refused(text.replace("operations:", f"variables:\n  v: {written}\noperations:"))
    assert what in error.what
    assert str(error.where).startswith("w.yaml:5:")
