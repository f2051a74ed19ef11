"""Documents in every store: verbs, bulk requests and collections, checked by the stored documents."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from held import Held

from loadframe.load import run_phase

pytestmark = pytest.mark.store

DOCUMENT = {"key": "ann", "name": "Ann Lee", "age": 41}
ANN = {"collection": "things", "id": "ann"}


def is_now(**fields: object) -> dict:
    """A read that is wrong unless the document has these values."""
    return {"read": ANN, "assert": {"fields": fields}}


def test_it_is_ready_with_the_expected_number_of_nodes(store):
    health = store.cluster.health()
    assert (health.ready, health.balanced, health.nodes) == (True, True, store.subject.nodes)
    assert store.cluster.deviations() == []
    described = store.cluster.describe()
    assert described["version"]
    assert described["addresses"] == store.cluster.addresses


def test_a_collection_is_there_until_it_is_dropped(store):
    assert not store.cluster.has_collection("things")
    store.create()
    assert store.cluster.has_collection("things")
    assert store.cluster.count("things") == 0
    store.drop()
    assert not store.cluster.has_collection("things")
    store.drop()


def test_written_documents_are_read_back(things):
    tags = {"tags": ["a", "b"]}
    assert things.errors(
        {"insert": ANN | {"document": DOCUMENT | tags}},
        is_now(**DOCUMENT, **tags),
        {"read": ANN | {"fields": ["age"]}, "assert": {"fields": {"age": 41}}},
        {"update": ANN | {"document": {"age": 42}}},
        is_now(**DOCUMENT | tags | {"age": 42}),
        {"upsert": ANN | {"document": {"tags": ["c"]}}},
        is_now(**DOCUMENT | {"age": 42, "tags": ["c"]}),
        {"upsert": {"collection": "things", "id": "bob", "document": {"age": 1}}},
    ) == 8 * [None]
    assert things.cluster.count("things") == 2
    assert things.errors(is_now(age=43), {"delete": ANN}) == ["assertion", None]
    assert things.cluster.count("things") == 1


def test_a_read_wants_the_fields_whose_names_are_drawn(things):
    read = {"read": ANN | {"fields": ["${which}", "name"]}, "assert": {"fields": {"age": 41}}}
    variables = {"which": {"derived": "a${rest}"}, "rest": {"constant": "ge"}}
    assert things.errors({"insert": ANN | {"document": DOCUMENT}}, read, variables=variables) == [None, None]


def test_updates_of_one_document_at_the_same_time_all_succeed(things, tmp_path):
    things.asked({"insert": ANN | {"document": DOCUMENT}})
    # Write a new value each time, because a write without a change takes no lock.
    numbers = {"variables": {"number": {"sequential": {"from": 0}}}}
    plan = things.plan({"update": {"update": ANN | {"document": {"age": "${number}"}}}}, **numbers)
    plan["streams"][0] |= {"pacing": {"closed": {"clients": 16}}, "stop": {"requests": 400}}
    (update,) = run_phase(plan, tmp_path, lambda _: None)["operations"]
    assert (update["successes"], update["errors"]) == (400, [])


def test_a_read_and_then_a_write_are_one_operation_of_two_parts(things):
    change = {"read_modify_write": ANN | {"document": {"age": 43}}, "assert": {"fields": {"age": 41}}}
    _, changed, now = things.asked({"insert": ANN | {"document": DOCUMENT}}, change, is_now(**DOCUMENT | {"age": 43}))
    assert (changed["error"], now["error"]) == (None, None)
    assert changed["documents"] >= 1


def test_captured_answers_are_used_in_the_same_users_later_requests(things):
    bob = {"collection": "things", "id": "bob"}
    names = {"variables": {"seen": {"captured": {}}, "called": {"captured": {}}}}
    taken = {"seen": {"field": "age"}, "called": {"field": "name"}}
    assert things.errors(
        {"insert": ANN | {"document": DOCUMENT}},
        {"read": ANN, "capture": taken},
        {"insert": bob | {"document": {"key": "bob", "name": "${called}", "age": "${seen}"}}},
        {"read": bob, "assert": {"fields": {"name": "Ann Lee", "age": 41}}},
        {"read": ANN | {"fields": ["name"]}, "capture": {"called": {"field": "name"}, "seen": {"field": "age"}}},
        {"read": ANN | {"fields": ["name"]}, "capture": {"seen": {"field": "age", "otherwise": 7}}},
        {"update": bob | {"document": {"age": "${seen}"}}},
        {"read": bob, "assert": {"fields": {"age": 7}}},
        **names,
    ) == [None, None, None, None, "assertion", None, None, None]
    (unsent,) = things.asked({"read": ANN | {"id": "${called}"}}, **names)
    assert (unsent["error"], unsent["message"].startswith("not sent: this user has not captured")) == (
        "assertion",
        True,
    )


def looked_for(things: Held, folder: Path, within: float, written: Callable[[], None]) -> dict[str, Any]:
    """Poll for a document that `written` writes during the load; return the engine's counts of it."""
    look = {"read": ANN, "assert": {"fields": {"age": 41}}}
    plan = things.plan({"bob": {"upsert": {"collection": "things", "id": "bob", "document": {"age": 1}}}, "seen": look})
    stream = {
        "name": "s",
        "journey": [{"operation": name, "think_time": 0.0} for name in ("bob", "seen")],
        "pacing": {"closed": {"clients": 1}},
        "stop": {"requests": 2},
    }
    plan |= {"streams": [stream], "visible": {"seen": {"every": 0.01, "within": within}}}
    folder.mkdir()
    outcome = run_phase(plan, folder, lambda _: written())
    return next(entry for entry in outcome["operations"] if entry["operation"] == "seen")


def test_later_writes_are_polled_until_they_are_visible(things, tmp_path):
    never = looked_for(things, tmp_path / "never", 0.3, lambda: None)
    assert (never["requests"], never["completed"]) == (1, 0)
    assert [error["class"] for error in never["errors"]] == ["unseen"]

    writes = iter([{"upsert": ANN | {"document": DOCUMENT}}])

    def write() -> None:
        for operation in writes:
            assert things.errors(operation) == [None]

    seen = looked_for(things, tmp_path / "later", 60.0, write)
    assert (seen["requests"], seen["completed"], seen["errors"]) == (1, 1, [])


def test_missing_and_existing_documents_are_reported(things):
    def told(verb: str) -> str | None:
        return None if verb in things.subject.blind else "client"

    document = {"document": {"age": 1}}
    assert things.errors(
        {"read": ANN}, {"read_modify_write": ANN | document}, {"delete": ANN}, {"update": ANN | document}
    ) == ["client", "client", told("delete"), told("update")]
    assert things.errors({"upsert": ANN | document}, {"insert": ANN | document}) == [None, told("insert")]
    assert things.errors({"delete": ANN}, {"read": ANN}) == [None, "client"]


def test_a_scan_begins_at_the_given_id(things):
    documents = {name: DOCUMENT | {"key": name, "age": age} for age, name in enumerate(["a", "b", "c", "d"])}
    things.asked(
        *(
            {"insert": {"collection": "things", "id": name, "document": document}}
            for name, document in documents.items()
        )
    )
    # After counting, everything that was written is visible to later requests.
    assert things.cluster.count("things") == 4
    scan = {"collection": "things", "from": "b", "by": "key"}
    first, all_of_them = things.asked(
        {"scan": scan | {"count": 1}, "assert": {"hits": 1, "fields": documents["b"]}},
        {"scan": scan | {"count": 100}, "assert": {"min_hits": 1}},
    )
    assert (first["error"], all_of_them["error"]) == (None, None)
    if things.subject.ordered:
        assert all_of_them["documents"] == 3


def corpus(folder: Path, documents: list[dict]) -> dict:
    """Return the part of a plan that makes these documents its corpus `c`."""
    file = folder / "documents.json"
    file.write_text("".join(json.dumps(document) + "\n" for document in documents))
    return {"corpora": {"c": {"files": [str(file)]}}}


def sent(things: Held, documents: dict, action: str) -> tuple[str | None, int]:
    """Send a corpus in one bulk request; return the class of error, and how many documents were taken."""
    bulk = {"collection": "things", "corpus": "c", "size": 10, "id": "key", "action": action}
    (answer,) = things.asked({"bulk": bulk}, **documents)
    return answer["error"], answer["documents"]


def test_a_bulk_request_counts_its_bad_item(things, tmp_path):
    good = [{"key": f"p{age}", "age": age} for age in range(9)]
    bad = things.subject.bad
    mixed = corpus(tmp_path, [*good, bad or good[0]])
    assert sent(things, mixed, "index" if bad else "create") == ("item", 9)
    assert things.cluster.count("things") == 9
    assert things.errors({"read": {"collection": "things", "id": "p8"}, "assert": {"fields": {"age": 8}}}) == [None]


def test_bulk_requests_put_change_and_remove_documents(things, tmp_path):
    documents = corpus(tmp_path, [{"key": f"p{age}", "age": age} for age in range(9)])
    assert sent(things, documents, "index") == (None, 9)
    changed = corpus(tmp_path, [{"key": f"p{age}", "name": "Bob"} for age in range(9)])
    assert sent(things, changed, "update") == (None, 9)
    assert sent(things, changed, "upsert") == (None, 9)
    read = {"read": {"collection": "things", "id": "p8"}, "assert": {"fields": {"age": 8, "name": "Bob"}}}
    assert things.errors(read) == [None]
    if "insert" not in things.subject.blind:
        assert sent(things, changed, "create") == ("item", 0)
    assert sent(things, changed, "delete") == (None, 9)
    assert things.cluster.count("things") == 0


def test_every_node_tells_its_figures(things):
    things.asked({"insert": ANN | {"document": DOCUMENT}}, {"read": ANN})
    figures = things.cluster.statistics()
    assert sorted(figures) == sorted(node.name for node in things.cluster.nodes)
    shown = {figure.metric for figure in things.cluster.store.watched}
    for node in figures.values():
        assert shown <= set(node)
    totals = [figure.metric for figure in things.cluster.store.watched if figure.total]
    assert any(node[total] > 0 for node in figures.values() for total in totals)
