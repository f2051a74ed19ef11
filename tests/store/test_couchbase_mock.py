"""The driver for Couchbase against CouchbaseMock, its maker's own stand-in: two nodes, with one bucket."""

import json
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks import couchbase_mock
from benchmarks.couchbase_mock import ADMINISTRATOR, USER

from loadframe.base.errors import BadInput
from loadframe.load import check_operations, run_phase
from loadframe.store import find
from loadframe.store.access import Access, Auth

pytestmark = pytest.mark.store

ANN = {"collection": "things", "id": "ann"}
DOCUMENT = {"key": "ann", "name": "Ann Lee", "age": 41, "tags": ["a", "b"], "in": {"x": 1}}


@pytest.fixture(scope="module")
def mock() -> Iterator[str]:
    """The address of its administration."""
    with couchbase_mock.running() as address:
        yield address


def plan(mock: str, operations: dict, access: Access = USER, **more) -> dict:
    stream = {"name": "s", "mix": [[name, 1] for name in operations], "pacing": {"closed": {"clients": 1}}}
    streams = [stream | {"stop": {"requests": 1}} | more.pop("stream", {})]
    target = {"driver": "couchbase", "hosts": [mock], "timeout": 10, **access.plan()}
    return {"seed": 1, "phase": "p", "target": target, "operations": operations, "streams": streams, **more}


def asked(mock: str, *operations: dict, **more) -> list[dict]:
    return check_operations(plan(mock, {f"{n:02}": operation for n, operation in enumerate(operations)}, **more))


def errors(mock: str, *operations: dict) -> list[str | None]:
    return [answer["error"] for answer in asked(mock, *operations)]


def test_every_verb_but_scan_works(mock):
    def is_now(**fields: object) -> dict:
        return {"read": ANN, "assert": {"fields": fields}}

    assert errors(
        mock,
        {"insert": ANN | {"document": DOCUMENT}},
        is_now(**DOCUMENT),
        {"read": ANN | {"fields": ["age", "nothing"]}, "assert": {"fields": {"age": 41}}},
        {"update": ANN | {"document": {"age": 42, "in": {"x": 2}}}},
        is_now(**DOCUMENT | {"age": 42, "in": {"x": 2}}),
        {"upsert": ANN | {"document": {"tags": ["c"]}}},
        {"upsert": {"collection": "things", "id": "bob", "document": {"age": 1}}},
        {"read_modify_write": ANN | {"document": {"age": 43}}, "assert": {"fields": {"age": 42}}},
        is_now(name="Ann Lee", age=43, tags=["c"]),
        {"delete": ANN},
    ) == 10 * [None]
    assert errors(mock, is_now(age=43), {"delete": {"collection": "things", "id": "bob"}}) == ["client", None]


def test_captured_fields_are_used_in_the_same_users_later_requests(mock):
    bob = {"collection": "things", "id": "bob"}
    answers = asked(
        mock,
        {"insert": ANN | {"document": DOCUMENT}},
        {"read": ANN, "capture": {"seen": {"field": "in.x"}, "called": {"json": "/name"}}},
        {"query": {"statement": "SELECT mockrow"}, "capture": {"row": {"field": "row"}}},
        {"upsert": bob | {"document": {"age": "${seen}", "name": "${called}", "row": "${row}"}}},
        {"read": bob, "assert": {"fields": {"age": 1, "name": "Ann Lee", "row": "value"}}},
        {"read": bob | {"fields": ["age"]}, "capture": {"seen": {"field": "none"}}},
        {"delete": bob},
        {"delete": ANN},
        variables={name: {"captured": {}} for name in ("seen", "called", "row")},
    )
    assert [answer["error"] for answer in answers] == [*5 * [None], "assertion", None, None]


def test_missing_and_existing_documents_are_reported(mock):
    document = {"document": {"age": 1}}
    missing = asked(
        mock,
        {"read": ANN},
        {"read": ANN | {"fields": ["age"]}},
        {"update": ANN | document},
        {"read_modify_write": ANN | document},
        {"delete": ANN},
    )
    assert {(answer["error"], answer["message"]) for answer in missing} == {("client", "not found")}
    *_, again, _ = asked(mock, {"upsert": ANN | document}, {"insert": ANN | document}, {"delete": ANN})
    assert (again["error"], again["message"]) == ("client", "already there")


def test_what_the_server_does_not_know_is_said_and_not_left_out(mock):
    durable, statement, query, nobody = asked(
        mock,
        {"insert": ANN | {"document": {}}, "durability": "majority"},
        {"query": {"statement": "SELECT name FROM things WHERE age > $1", "parameters": [1]}},
        {"query": {"statement": "SELECT mockrow"}, "assert": {"hits": 1, "fields": {"row": "value"}}},
        {"read": {"collection": "nobody", "id": "a"}},
    )
    assert (durable["error"], durable["message"]) == ("client", "this server does not support durable writes")
    assert (statement["error"], statement["message"]) == ("client", "keyspace not found")
    assert (query["error"], query["documents"]) == (None, 1)
    assert (nobody["error"], nobody["message"]) == ("client", 'the bucket "nobody" does not exist')


def test_a_bulk_request_counts_its_bad_item(mock, tmp_path):
    lines = [{"key": f"p{n}", "age": n} for n in range(9)] + [{"age": 9}]
    file = tmp_path / "people.json"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    corpora = {"corpora": {"c": {"files": [str(file)]}}}

    def sent(**more) -> tuple[str, int]:
        bulk = {"collection": "things", "corpus": "c", "size": 10, "id": "key"}
        (answer,) = asked(mock, {"bulk": bulk | more}, **corpora)
        return answer["error"], answer["documents"]

    assert sent() == ("item", 9)
    assert errors(mock, {"read": {"collection": "things", "id": "p8"}, "assert": {"fields": {"age": 8}}}) == [None]
    assert sent(action="create") == ("item", 0)
    assert sent(action="update") == ("item", 9)
    assert sent(action="upsert") == ("item", 9)
    assert sent(action="delete") == ("item", 9)
    assert sent(action="delete") == ("item", 0)


def load(mock: str, folder: Path, tell=lambda _: None, **more) -> dict:
    folder.mkdir()
    return run_phase(plan(mock, **more), folder, tell)


def test_requests_follow_documents_that_move_between_nodes_and_none_fails(mock, tmp_path):
    put = {"upsert": {"collection": "things", "id": "${n}", "document": {"age": "${n}"}}}
    look = {"read": {"collection": "things", "id": "${n}"}, "assert": {"fields": {"age": "${n}"}}}
    change = {"update": {"collection": "things", "id": "${n}", "document": {"changed": True}}}
    filled = load(
        mock,
        tmp_path / "fill",
        operations={"put": put},
        variables={"n": {"sequential": {"from": 0}}},
        stream={"pacing": {"closed": {"clients": 8}}, "stop": {"requests": 1000}},
    )
    assert filled["operations"][0]["successes"] == 1000

    moves = 3

    def move() -> None:
        for _ in range(moves):
            # All documents are distributed again among the present nodes: first one, then two.
            for command in ("failover", "respawn"):
                with urllib.request.urlopen(f"http://{mock}/mock/{command}?idx=1&bucket=things") as answer:
                    assert json.load(answer)["status"] == "ok"
                time.sleep(0.2)

    mover = threading.Thread(target=move)

    def tell(_progress) -> None:
        if not mover.ident:
            mover.start()
        elif not mover.is_alive():
            raise KeyboardInterrupt

    outcome = load(
        mock,
        tmp_path / "moving",
        tell,
        operations={"look": look, "change": change},
        variables={"n": {"uniform": [0, 999]}},
        stream={"pacing": {"closed": {"clients": 4}}, "stop": {"duration": 120}},
    )
    done = {operation["operation"]: operation for operation in outcome["operations"]}
    assert all(operation["successes"] > 0 and operation["errors"] == [] for operation in done.values()), done


def test_unknown_users_are_refused(mock):
    wrong = Access(auth=Auth("basic", "hush", user="things"))
    with pytest.raises(BadInput, match="does not know that user and password") as caught:
        check_operations(plan(mock, {"a": {"read": ANN}}, access=wrong))
    assert "hush" not in str(caught.value)


def test_buckets_are_listed_and_data_missing_in_the_mock_are_an_error(mock):
    store = find("couchbase").with_access(ADMINISTRATOR)
    assert store.version([mock]) == "CouchbaseMock"
    assert store.has_collection([mock], "things")
    assert not store.has_collection([mock], "nobody")
    assert not store.health([mock]).ready, "it tells of no nodes"
