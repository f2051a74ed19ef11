"""Queries of slow logs and files in sampled workloads: their forms, and the anonymity of their values."""

import json
import random
from pathlib import Path

import pytest
from test_sampled_files import document, found_secrets, generated, write

from commands import within
from loadframe.workload import load_workload

SEARCH = {
    "size": 20,
    "query": {
        "bool": {
            "filter": [
                {"term": {"email": "alice1.planted@example.com"}},
                {"terms": {"color": ["Zyxwoman", "hunter2secret"]}},
                {"range": {"phone": {"gte": 79927398713}}},
            ],
            "must": {"match": {"note": {"query": "card of Évariste Zyxwoman", "operator": "and"}}},
        }
    },
    "sort": [{"id": "asc"}],
    "aggs": {"for planted": {"terms": {"field": "color", "size": 5}}},
}
SLOW_TEXT = (
    "[2024-05-01T10:00:00,000][WARN ][i.s.s.query] [node-1] [users][0] took[1.2s], took_millis[1200], types[], "
    f"search_type[QUERY_THEN_FETCH], source[{json.dumps(SEARCH)}], id[],"
)
SLOW_JSON = json.dumps({"type": "index_search_slowlog", "elasticsearch.slowlog.source": json.dumps(SEARCH)})
SQL_LOG = (
    "2024-05-01 10:00:00 UTC [7] LOG:  duration: 1200.1 ms  statement: SELECT * FROM users -- planted\n"
    "\tWHERE email = 'alice1.planted@example.com' AND color IN ('Zyxwoman') AND phone > 79927398713 LIMIT 5\n"
    "2024-05-01 10:00:01 UTC [7] LOG:  duration: 2.1 ms  statement: UPDATE users SET color = 'planted'\n"
)
FIND = {"find": "users", "filter": {"email": "alice1.planted@example.com", "color": "Zyxwoman"}, "limit": 5}
MONGO_LOG = json.dumps({"c": "COMMAND", "msg": "Slow query", "attr": {"ns": "a.users", "command": FIND}})


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = random.Random(5)
    write("users.ndjson", [document(number, rng) for number in range(300)])
    return tmp_path


def operation(log: str) -> dict:
    """Import the documents with a log, check that no secret is left, and return the only query's form."""
    Path("slow.log").write_text(log)
    status, _, errors = within("import", "sample", "users.ndjson", "--queries", "slow.log", "--output", "users.yaml")
    assert status == 0, errors
    Path("made-documents.ndjson").write_text(Path("users-documents.ndjson").read_text())
    assert found_secrets(Path(), {"users.ndjson", "slow.log"}) == set()
    return only_query("./users.yaml")


def only_query(workload: str) -> dict:
    """Return the forms of a workload's only query, by family."""
    operations = load_workload(workload).file.operations
    assert [name for name in operations if name.startswith("query")] == ["query_1"]
    forms = operations["query_1"]
    return {f: form.dump() for f in ("elasticsearch", "mongodb", "postgresql") if (form := getattr(forms, f))}


@pytest.mark.parametrize("log", [SLOW_TEXT, SLOW_JSON, json.dumps(SEARCH), f"{SLOW_TEXT}\n\nother\n{SLOW_TEXT}"])
def test_a_search_keeps_its_structure_and_finds_the_generated_values(log):
    body = operation(log)["elasticsearch"]["search"]["body"]
    clauses = body["query"]["bool"]
    assert [next(iter(clause)) for clause in clauses["filter"]] == ["term", "terms", "range"]
    assert clauses["must"]["match"]["note"]["operator"] == "and"
    assert (body["size"], body["sort"]) == (20, [{"id": "asc"}])
    assert list(body["aggs"].values()) == [{"terms": {"field": "color", "size": 5}}]
    colors = clauses["filter"][1]["terms"]["color"]
    assert set(colors) <= {made["color"] for made in generated()}


def test_a_statement_of_a_log_becomes_sql_for_the_table_of_the_workload():
    statement = operation(SQL_LOG)["postgresql"]["sql"]["statement"]
    assert statement.startswith('SELECT * FROM "users" WHERE email = ')
    assert statement.endswith("LIMIT 5")
    color = statement.partition("color IN ('")[2].partition("'")[0]
    assert color in {made["color"] for made in generated()}


HIDDEN = ("planted", "4930901820", "4_930", "125e2b9c")


def imported(documents: list[dict], queries: str) -> tuple[int, str, str]:
    """Import documents with queries; return the exit status, the messages, and all output in lower case."""
    write("a.ndjson", documents)
    Path("queries").write_text(queries)
    status, output, errors = within("import", "sample", "a.ndjson", "--queries", "queries", "--output", "a.yaml")
    files = [path.read_text() for path in (Path("a.yaml"), Path("a-documents.ndjson")) if path.exists()]
    return status, errors, "".join([output, errors, *files]).lower()


@pytest.mark.parametrize(
    "condition",
    [
        "name = 'planted--foo' AND phone = 3",
        "name = 'planted;foo'",
        "name = E'it\\'s planted here'",
        'name = "planted"',
        "phone = 004930901820",
        "phone = 4930901820e0",
        "phone = 4_930_901_820 AND x = 0x125E2B9C",
        "phone > -4930901820.55",
        "phone > 1e9 AND phone < 4930901820" + "0" * 5000,
        "phone > .4930901820",
        "name = 'x' /* planted */ -- planted",
        "name = 'x/*' AND name = '*/ planted'",
        "name LIKE '%planted%'",
    ],
)
@pytest.mark.parametrize("log", ["{};", "2024-01-01 UTC LOG:  duration: 3 ms  statement: {}\n2024 UTC DETAIL: planted"])
def test_a_statement_reveals_no_value(condition, log):
    documents = [{"name": "planted", "phone": 4930901820}] * 5
    status, errors, text = imported(documents, log.format(f"SELECT * FROM a WHERE {condition}"))
    assert status == 0, errors
    assert [secret for secret in HIDDEN if secret in text] == []
    assert [name for name in load_workload("./a.yaml").file.operations if name.startswith("query")] == ["query_1"]


@pytest.mark.parametrize(
    "condition",
    ["name = 'planted", "x /* /* y */ planted */", "name = $$planted;$$", r"name = 'it\'s planted' OR name = 'a\'b'"],
)
def test_an_unclear_statement_is_left_out(condition):
    statements = f"SELECT 1 FROM a;\nSELECT * FROM a WHERE {condition}"
    status, errors, text = imported([{"name": "planted"}] * 5, statements)
    assert status == 0, errors
    assert "without a query" in errors
    assert "planted" not in text


def test_statements_may_stand_one_a_line():
    statements = "SELECT 1 FROM a\nselect 2 FROM a WHERE name = 'x;y'\n"
    assert imported([{"name": "planted"}] * 5, statements)[0] == 0
    operations = load_workload("./a.yaml").file.operations
    assert [name for name in operations if name.startswith("query")] == ["query_1", "query_2"]


@pytest.mark.parametrize("value", ["123456AB", "4711X", "standard", "english", "UTC", "x\ud800planted"])
def test_a_value_that_resembles_a_word_of_the_language_becomes_the_generated_one(value):
    searches = [
        {"query": {"term": {"plan": value}}, "sort": [{"plan": {"order": "asc", "mode": "min"}}]},
        {"query": {"bool": {"filter": [{"terms": {"plan": [value]}}]}}},
        {"query": {"match": {"plan": {"query": value, "operator": "and"}}}},
    ]
    documents = [{"plan": value.replace("\ud800", "?"), "note": f"asc and {number}"} for number in range(5)]
    status, errors, text = imported(documents, json.dumps(searches))
    assert status == 0, errors
    assert value.lower() not in text
    assert "planted" not in text
    plan = json.loads(Path("a-documents.ndjson").read_text().splitlines()[0])["plan"]
    written = Path("a.yaml").read_text()
    assert written.count(plan) == 3
    assert "operator: and" in written


def test_quantities_stay_unless_they_are_values():
    search = {
        "query": {
            "bool": {
                "filter": [
                    {"term": {"plate": "4711AB"}},
                    {"range": {"at": {"gte": "now-90d/d", "time_zone": "+01:00"}}},
                    {"geo_distance": {"distance": "12km", "place": {"lat": 1.5, "lon": 2.5}}},
                ],
                "must": {"match": {"note": {"query": "x", "minimum_should_match": "75%"}}},
            }
        },
        "aggs": {"per": {"date_histogram": {"field": "at", "fixed_interval": "30m"}}},
    }
    documents = [
        {"plate": f"B {n}", "at": "2024-01-01", "place": "1.1,2.2", "note": f"words of a day {n}"} for n in range(9)
    ]
    status, errors, text = imported(documents, json.dumps(search))
    assert status == 0, errors
    assert [word for word in ("now-90d/d", "+01:00", "12km", "75%", "30m") if word not in text] == []
    assert "4711ab" not in text
    statement = "SELECT date_trunc('day', at) FROM a WHERE at > now() - INTERVAL '7 days' AND plate <> '4711AB'"
    Path("a.yaml").unlink()
    Path("a-documents.ndjson").unlink()
    status, errors, text = imported(documents, statement)
    assert status == 0, errors
    assert "date_trunc('day', at)" in text
    assert "interval '7 days'" in text
    assert "4711ab" not in text


def test_a_number_of_more_than_64_bits_is_replaced():
    status, errors, text = imported([{"a": 1}] * 5, '{"query": {"term": {"a": 12345678901234567890}}}')
    assert status == 0, errors
    assert "12345678901234567890" not in text


def test_a_command_of_a_mongodb_log_becomes_a_find():
    find = operation(MONGO_LOG)["mongodb"]["find"]
    assert (find["collection"], find["limit"], list(find["filter"])) == ("users", 5, ["color", "email"])
    assert find["filter"]["color"] in {made["color"] for made in generated()}


def test_a_malformed_command_is_left_out():
    commands = [{"find": "a", "filter": {"a": 1}}, {"find": "a", "filter": [1]}, {"aggregate": "a", "pipeline": 5}]
    status, errors, _ = imported([{"a": 1}] * 5, json.dumps(commands))
    assert status == 0, errors
    assert "2 lines without a query" in errors


def test_frequent_queries_have_a_larger_weight():
    other = json.dumps({"query": {"match_all": {}}})
    Path("slow.log").write_text(f"{SLOW_TEXT}\n{other}\n{SLOW_TEXT}\n")
    status, _, errors = within("import", "sample", "users.ndjson", "--queries", "slow.log", "--output", "u.yaml")
    assert status == 0, errors
    (queries,) = [phase for phase in load_workload("./u.yaml").file.phases if phase.name == "queries"]
    assert queries.mix == {"query_1": 2, "query_2": 1}


@pytest.mark.parametrize("content", ["", "nothing here\n", '{"a": 1}\n', "DROP TABLE users;", "%PDF"])
def test_a_file_without_queries_is_refused(content):
    Path("slow.log").write_text(content)
    status, _, errors = within("import", "sample", "users.ndjson", "--queries", "slow.log", "--output", "u.yaml")
    assert status == 2
    assert "the file has no queries" in errors
    assert not Path("u.yaml").exists()


BOX = {"top_left": {"lat": 50, "lon": 0}, "bottom_right": {"lat": 40, "lon": 10}}
FUNCTION = {"field_value_factor": {"field": "age", "factor": 1.2, "missing": 1}, "weight": 2}
REQUESTS = [
    {"query": {"bool": {"must": [{"match": {"note": {"query": "a", "operator": "and"}}}], "must_not": [], "boost": 1}}},
    {"query": {"geo_bounding_box": {"place": BOX}}},
    {"query": {"function_score": {"query": {"match_all": {}}, "functions": [FUNCTION], "score_mode": "sum"}}},
    {
        "query": {"nested": {"path": "note", "query": {"exists": {"field": "note"}}}},
        "sort": [{"age": {"order": "asc"}}],
    },
    {"aggs": {"x": {"date_histogram": {"field": "age", "interval": "day"}}}, "size": 0, "highlight": {"fields": {}}},
    {"aggs": {"x": {"filter": {"term": {"age": 1}}}}, "size": 0, "from": 3, "track_total_hits": True, "explain": True},
    {"find": "a", "filter": {"age": {"$in": [1]}}, "sort": {"age": 1}},
    {"aggregate": "a", "pipeline": [{"$lookup": {"from": "a", "localField": "age", "foreignField": "age", "as": "x"}}]},
]


def _keys(value) -> list[str]:
    if isinstance(value, dict):
        return [*value, *(key for inner in value.values() for key in _keys(inner))]
    return [key for inner in value for key in _keys(inner)] if isinstance(value, list) else []


@pytest.mark.parametrize("request_", REQUESTS)
def test_words_of_a_sampled_text_do_not_change_the_language_of_queries(request_):
    words = " ".join({*_keys(request_), "and", "sum", "asc", "day"})
    documents = [{"note": f"{words} {number}", "place": {"lat": 1.5, "lon": 2.5}, "age": number} for number in range(9)]
    assert imported(documents, json.dumps([request_]))[0] == 0
    (made,) = only_query("./a.yaml").values()
    expected = {"x": "part_1"}
    kept = {"search", "aggregate", "find", "collection", "request_cache", "body"}
    assert {*_keys(made)} - kept == {expected.get(key, key) for key in _keys(request_)} - kept
    assert [word for word in ("and", "sum", "asc", "day") if f'"{word}"' in json.dumps(request_)] == [
        word for word in ("and", "sum", "asc", "day") if f'"{word}"' in json.dumps(made)
    ]
