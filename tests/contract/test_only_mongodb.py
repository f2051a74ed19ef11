"""MongoDB only: queries and commands, write concerns, and read preferences."""

import json

import pytest

from loadframe.base.errors import BadInput
from loadframe.load import render_operations

pytestmark = pytest.mark.store
ONLY = "mongodb"

ANN = {"collection": "things", "id": "ann"}
DOCUMENT = {"name": "Ann", "age": 41, "home": {"city": "Ulm"}, "born": {"$date": "1984-02-29T00:00:00Z"}}


SUM = {"sum": {"captured": {}}}


def rows(answer: dict) -> list[dict]:
    assert answer["error"] is None, answer
    return [json.loads(line) for line in answer["answer"].splitlines()[1:]]


def test_documents_keep_their_types_and_reach_inside(things):
    inserted, read, some, asserted = things.asked(
        {"insert": ANN | {"document": DOCUMENT}},
        {"read": ANN},
        {"read": ANN | {"fields": ["age", "home.city"]}},
        {"read": ANN, "assert": {"fields": {"home.city": "Ulm", "age": 41.0}}},
    )
    assert (inserted["error"], asserted["error"]) == (None, None)
    assert rows(read) == [{"_id": "ann"} | DOCUMENT]
    assert rows(some) == [{"age": 41, "home": {"city": "Ulm"}}]


def test_queries_and_commands_are_judged_by_their_results(things):
    names = ["c", "a", "d", "b"]
    things.asked(*({"upsert": {"collection": "things", "id": name, "document": {"age": ord(name)}}} for name in names))
    find = {"collection": "things", "filter": {"age": {"$gt": 97}}, "sort": {"age": -1}, "limit": 2}
    pipeline = [{"$group": {"_id": None, "sum": {"$sum": "$age"}}}]
    matching, grouped, counted, listed, elsewhere, wrong, few = things.asked(
        {"find": find},
        {"aggregate": {"collection": "things", "pipeline": pipeline}, "assert": {"fields": {"sum": 394}}},
        {"command": {"count": "things"}},
        {"command": {"listDatabases": 1, "nameOnly": True}, "database": "admin"},
        {"command": {"listDatabases": 1, "nameOnly": True}},
        {"command": {"cuont": "things"}},
        {"find": find, "assert": {"min_hits": 3}},
    )
    assert [row["_id"] for row in rows(matching)] == ["d", "c"]
    assert grouped["error"] is None
    assert json.loads(counted["answer"])["n"] == 4
    assert "loadframe" in [database["name"] for database in json.loads(listed["answer"])["databases"]]
    assert "may only be run against the admin database" in elsewhere["message"]
    assert (wrong["error"], few["error"]) == ("client", "assertion")
    assert wrong["message"].startswith("no such command")


def test_writes_that_a_command_did_not_do_are_failures(things):
    insert = {"insert": "things", "documents": [{"_id": 1, "v": 1}]}
    more = {"insert": "things", "documents": [{"_id": key} for key in (1, 2, 3)], "ordered": False}
    done, again, some, unsure, gone, none = things.asked(
        {"command": insert},
        {"command": insert},
        {"command": more},
        {"command": {"insert": "things", "documents": [{"_id": 4}], "writeConcern": {"w": 9, "wtimeout": 100}}},
        {"command": {"delete": "things", "deletes": [{"q": {"_id": {"$in": [1, 2]}}, "limit": 0}]}},
        {"command": {"update": "things", "updates": [{"q": {"_id": 1}, "u": {"$set": {"v": 2}}}]}},
    )
    assert [answer["error"] for answer in (done, again, some, unsure)] == [None, "client", "client", "server"]
    assert [answer["documents"] for answer in (done, again, some, unsure, gone, none)] == [1, 0, 2, 0, 2, 0]
    assert again["message"].startswith("E11000 duplicate key")
    assert (gone["error"], none["error"]) == (None, None)
    assert things.cluster.count("things") == 2


def test_values_are_taken_from_sums_and_commands_and_a_sum_of_nothing_may_have_one(things):
    pipeline = [{"$group": {"_id": None, "sum": {"$sum": "$age"}, "last": {"$max": "$born"}}}]
    sums = {"aggregate": {"collection": "things", "pipeline": pipeline}}
    taken = {"sum": {"field": "sum"}, "last": {"json": "/last"}}
    keep = {"insert": {"collection": "things", "id": "sum", "document": {"total": "${sum}", "born": "${last}"}}}
    empty = sums | {"capture": {"sum": {"field": "sum", "otherwise": 0}}}
    nothing, none, _, summed, kept, counted, read = things.asked(
        sums | {"capture": taken},
        empty,
        {"insert": ANN | {"document": DOCUMENT}},
        sums | {"capture": taken},
        keep,
        {"command": {"count": "things"}, "capture": {"sum": {"field": "n"}}},
        {"find": {"collection": "things", "filter": {"_id": "sum"}}, "assert": {"fields": {"total": 41}}},
        variables={"sum": {"captured": {}}, "last": {"captured": {}}},
    )
    assert nothing["message"] == 'cannot capture "sum": the answer has no document and lacks field "sum"'
    assert [answer["error"] for answer in (none, summed, kept, counted)] == 4 * [None]
    assert rows(read) == [{"_id": "sum", "total": 41, "born": DOCUMENT["born"]}], "a date stays one"
    (refused,) = things.errors({"find": {"collection": "things", "filter": {"n": "${sum}"}}}, variables=SUM)
    assert refused == "assertion"


def test_existing_documents_are_refused_in_the_stores_words(things):
    _, again = things.asked(*2 * [{"insert": ANN | {"document": DOCUMENT}}])
    assert again["message"].startswith("E11000 duplicate key")


def test_a_write_is_as_sure_as_it_is_asked_for(things):
    for concern in ("unacknowledged", "acknowledged", "journaled", "majority"):
        insert = {"insert": {"collection": "things", "id": concern, "document": DOCUMENT}, "write_concern": concern}
        assert things.errors(insert) == [None], concern
    assert things.cluster.count("things") == 4


def test_a_secondary_is_read_where_it_is_preferred_and_recorded(things):
    (written,) = things.asked({"insert": ANN | {"document": DOCUMENT}, "write_concern": "majority"})
    wanted = ("primary", "secondary", "secondary_preferred")
    read = things.asked(*({"read": ANN, "read_preference": preference} for preference in wanted))
    assert all(rows(answer)[0]["age"] == 41 for answer in read)
    primary, secondary, preferred = (answer["node"] for answer in read)
    assert primary == written["node"]
    assert secondary == preferred != written["node"]


def test_documents_without_ids_get_theirs_from_the_server(things, tmp_path):
    file = tmp_path / "documents.json"
    file.write_text("".join(json.dumps({"age": age}) + "\n" for age in range(9)))
    bulk = {"bulk": {"collection": "things", "corpus": "c", "size": 10}}
    (answer,) = things.asked(bulk, corpora={"c": {"files": [str(file)]}})
    assert (answer["error"], answer["documents"]) == (None, 9)


def test_a_request_is_shown_without_being_sent(things):
    shown = dict(render_operations(things.plan({"a": {"read": ANN}})))
    assert json.loads(shown["a"]) == {"find": "things", "filter": {"_id": "ann"}, "limit": 1, "singleBatch": True}


def test_a_checkpoint_shows_in_the_figures(things):
    before = sum(node["checkpoints"] for node in things.cluster.statistics().values())
    for address in things.cluster.addresses:
        things.cluster.store.client(address).ask({"fsync": 1})
    after = things.cluster.statistics().values()
    assert sum(node["checkpoints"] for node in after) > before
    assert all(node["checkpoint_running"] in (0.0, 1.0) for node in after)


def test_parameters_of_servers_that_run_can_be_changed(store):
    cluster = store.cluster
    cluster.store.configure(cluster.addresses, {"cache": "300m", "setParameter.ttlMonitorSleepSecs": 30})
    figures = cluster.statistics()
    assert set(figures) == {node.name for node in cluster.nodes}
    assert {node["cache_max_bytes"] for node in figures.values()} == {300 * 2**20}
    assert sum(node["primary"] for node in figures.values()) == 1
    with pytest.raises(BadInput, match="cannot be changed while it runs"):
        cluster.store.configure(cluster.addresses, {"storage.journal.commitIntervalMs": 5})


def test_the_server_publishes_the_columns_of_mongostat(things):
    things.asked({"insert": {"collection": "things", "id": "1", "document": {"age": 1}}})
    for figures in things.cluster.statistics().values():
        missing = {figure.title for figure in things.cluster.store.exported if figure.metric not in figures}
        assert missing == {"mapped"}, "servers from 4.2 on map no data files"
        assert figures["memory_virtual_bytes"] > figures["memory_rss_bytes"] > 0
