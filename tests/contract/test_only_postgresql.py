"""PostgreSQL only: statements and transactions, whole documents, and the servers of reads."""

import json
from collections import Counter
from dataclasses import replace

import pytest
from recorded import served

from loadframe.base.errors import BadInput
from loadframe.load import run_phase
from loadframe.store.access import Auth

pytestmark = pytest.mark.store
ONLY = "postgresql"

ANN = {"collection": "things", "id": "ann"}
TAKE = {"statement": "UPDATE things SET age = age - $1 WHERE id = $2", "values": [5, "ann"], "rows": 1}
GIVE = {"statement": "UPDATE things SET age = age + $1 WHERE id = $2", "values": [5, "bob"], "rows": 1}


def rows(answer: dict) -> list[dict]:
    assert answer["error"] is None, answer
    return [json.loads(line) for line in answer["answer"].splitlines()[1:]]


def two_people(things) -> None:
    people = [{"insert": {"collection": "things", "id": name, "document": {"age": 10}}} for name in ("ann", "bob")]
    assert things.errors(*people) == [None, None]


def test_statements_take_values_in_the_types_of_their_places(things):
    two_people(things)
    everything = "SELECT $1::bool a, $2::numeric b, $3::float8 c, $4::text[] d, $5::jsonb e, $6::uuid f, $7::int g"
    identity = "6f1b1f2e-8a41-4f0e-9d4f-0f2a1c5f7a55"
    values = [True, 12.5, 0.25, ["x", 'y"z'], {"k": [1]}, identity, None]
    (typed,) = things.asked({"sql": {"statement": everything, "values": values}})
    assert rows(typed) == [dict(zip("abcdefg", values, strict=True))]
    ages = {"statement": "SELECT id, age FROM things WHERE age >= $1 ORDER BY id", "values": [10]}
    answer, few, wrong = things.asked(
        {"sql": ages, "assert": {"hits": 2, "fields": {"id": "ann"}}},
        {"sql": ages, "assert": {"min_hits": 3}},
        {"sql": ages | {"rows": 1}},
    )
    assert rows(answer) == [{"id": "ann", "age": 10}, {"id": "bob", "age": 10}]
    assert (answer["documents"], few["error"], wrong["error"]) == (2, "assertion", "assertion")


def test_a_column_of_the_first_row_serves_later_statements(things):
    two_people(things)
    insert = {
        "statement": "INSERT INTO things (id, age) VALUES ($1, $2) RETURNING age + 1 AS next",
        "values": ["c", 20],
    }
    taken = {"sum": {"field": "sum"}}
    summed = {"sql": {"statement": "SELECT sum(age)::int FROM things WHERE age > $1", "values": ["${next}"]}}
    assert things.errors(
        {"sql": insert, "capture": {"next": {"field": "next"}}},
        summed | {"capture": {"sum": {"field": "sum", "otherwise": 0}}},
        {"sql": {"statement": "SELECT $1::int AS sum", "values": ["${sum}"]}, "assert": {"fields": {"sum": 0}}},
        {"sql": {"statement": "SELECT sum(age)::int FROM things"}, "capture": taken, "assert": {"fields": {"sum": 40}}},
        {"update": ANN | {"document": {"age": "${sum}"}}},
        {"read": ANN, "assert": {"fields": {"age": 40}}},
        variables={"next": {"captured": {}}, "sum": {"captured": {}}},
    ) == 6 * [None]


def test_errors_of_the_server_have_their_classes_and_keep_their_words(things):
    two_people(things)
    asked = things.asked(
        {"sql": {"statement": "SELECT nothing FROM things"}},
        {"insert": ANN | {"document": {"age": 1}}},
        {"sql": {"statement": "SELECT 1 / $1", "values": [0]}},
        {"sql": {"statement": "SELECT pg_sleep(60)"}, "timeout": 0.2},
        {"sql": {"statement": "DO $$ BEGIN RAISE SQLSTATE '40001'; END $$"}},
        {"sql": {"statement": "DO $$ BEGIN RAISE SQLSTATE 'XX000'; END $$"}},
        {"sql": {"statement": "SELECT age FROM things WHERE id = $1", "values": ["ann"]}},
    )
    assert [answer["error"] for answer in asked] == [
        *("client", "client", "client", "timeout", "rejected", "server", None)
    ]
    assert "[42703]" in asked[0]["message"]
    assert "duplicate key" in asked[1]["message"] and "[23505]" in asked[1]["message"]


def test_the_server_cancels_abandoned_requests(things):
    sleep = {"sql": {"statement": "SELECT pg_sleep(60)"}, "timeout": 0.2}
    seen = {
        "sql": {
            "statement": "SELECT count(*)::int AS n FROM pg_stat_activity "
            "WHERE state = 'active' AND query LIKE '%pg_sleep(60)%' AND pid <> pg_backend_pid()"
        },
        "assert": {"fields": {"n": 0}},
    }
    wait = {"sql": {"statement": "SELECT pg_sleep(0.3)"}}
    assert things.errors(sleep, wait, seen) == ["timeout", None, None]


@pytest.mark.parametrize("protocol", ["prepared", "simple"])
def test_a_transaction_is_done_whole_or_not_at_all(things, protocol):
    two_people(things)

    def ages() -> dict[str, int]:
        (answer,) = things.asked({"sql": {"statement": "SELECT id, age FROM things"}})
        return {row["id"]: row["age"] for row in rows(answer)}

    (done,) = things.asked({"sql": {"transaction": [TAKE, GIVE], "protocol": protocol}})
    assert (done["error"], done["documents"]) == (None, 2)
    assert ages() == {"ann": 5, "bob": 15}
    nobody = GIVE | {"values": [5, "eve"]}
    wrong = {"statement": "SELECT 1 / $1", "values": [0]}
    assert things.errors(
        {"sql": {"transaction": [TAKE, nobody], "protocol": protocol}},
        {"sql": {"transaction": [TAKE, wrong], "protocol": protocol}},
    ) == ["assertion", "client"]
    assert ages() == {"ann": 5, "bob": 15}


def test_a_transaction_is_recorded_with_its_parts(things, tmp_path):
    two_people(things)
    plan = things.plan({"move": {"sql": {"transaction": [TAKE, GIVE], "isolation": "serializable"}}})
    plan["streams"][0] |= {"stop": {"requests": 5}}
    outcome = run_phase(plan, tmp_path, lambda _: None)
    assert [operation["successes"] for operation in outcome["operations"]] == [5]
    assert {part["part"]: part["successes"] for part in outcome["parts"]} == {"begin": 5, "statement": 10, "commit": 5}


def test_transactions_that_got_into_each_others_way_are_rejected_and_may_be_tried_again(things, tmp_path):
    two_people(things)
    read = {"statement": "SELECT sum(age) FROM things"}
    transaction = {"transaction": [read, TAKE, GIVE], "isolation": "serializable"}
    plan = things.plan({"move": {"sql": transaction}})
    plan["streams"][0] |= {"pacing": {"closed": {"clients": 8}}, "stop": {"requests": 200}}
    move = run_phase(plan, tmp_path, lambda _: None)["operations"][0]
    assert {error["class"] for error in move["errors"]} == {"rejected"}
    (sums,) = things.asked({"sql": {"statement": "SELECT sum(age)::int AS n, min(age) AS least FROM things"}})
    assert rows(sums) == [{"n": 20, "least": 10 - 5 * move["successes"]}]


def test_a_table_without_columns_holds_whole_documents(store):
    store.cluster.create_collection("papers", {})
    paper = {"collection": "papers", "id": "a"}
    document = {"title": "It's", "size": {"pages": 3}, "tags": ["x"]}
    try:
        assert store.errors(
            {"insert": paper | {"document": document}},
            {"update": paper | {"document": {"tags": ["y"]}}},
            {"read": paper, "assert": {"fields": {"title": "It's", "size.pages": 3, "tags": ["y"]}}},
            {"read": paper | {"fields": ["title"]}, "assert": {"fields": {"title": "It's"}}},
            {"upsert": paper | {"document": {"new": True}}},
            {"read": paper, "assert": {"fields": {"title": "It's", "new": True}}},
            {"scan": {"collection": "papers", "from": "a", "count": 5}, "assert": {"hits": 1, "fields": {"new": True}}},
            {"insert": paper | {"document": document}},
        ) == [*7 * [None], "client"]
    finally:
        store.cluster.drop_collection("papers")


def test_a_checkpoint_shows_in_the_figures_of_the_primary(things):
    def primary():
        return next(node for node in things.cluster.statistics().values() if node["primary"])

    before = primary()
    written, checkpoint = things.asked({"upsert": ANN | {"document": {"age": 1}}}, {"sql": {"statement": "CHECKPOINT"}})
    assert (written["error"], checkpoint["error"]) == (None, None)
    after = primary()
    assert after["checkpoints"] > before["checkpoints"]
    assert after["checkpoint_ms"] >= before["checkpoint_ms"]
    assert after["vacuums_running"] >= 0


def test_reads_follow_the_read_preference_and_writes_go_to_the_primary(things):
    two_people(things)
    figures = things.cluster.statistics()
    replica = next(name for name, node in figures.items() if not node["primary"])
    at = {node.name: number for number, node in enumerate(things.cluster.nodes)}
    caught_up = {"sql": {"statement": "SELECT pg_sleep(0.5)"}}
    who = {"sql": {"statement": "SELECT pg_is_in_recovery() AS replica"}}
    read = {"read": ANN}
    asked = things.asked(
        caught_up,
        who | {"assert": {"fields": {"replica": False}}},
        who | {"read_from": "replica", "assert": {"fields": {"replica": True}}},
        read | {"read_from": "replica"},
        read | {"read_from": "prefer_replica"},
        {"sql": {"statement": "DELETE FROM things"}, "read_from": "replica"},
    )
    assert [answer["error"] for answer in asked] == [*5 * [None], "rejected"]
    assert [answer["node"] == at[replica] for answer in asked[2:5]] == [True, True, True]
    assert "read-only" in asked[-1]["message"]


def test_reads_from_any_server_are_spread_over_all(things, tmp_path):
    two_people(things)
    plan = things.plan({"read": {"read": ANN, "read_from": "any"}})
    plan["target"] |= {"spread": "round_robin"}
    plan["streams"][0] |= {"pacing": {"closed": {"clients": 4}}, "stop": {"requests": 400}}
    outcome = run_phase(plan, tmp_path, lambda _: None)
    assert outcome["operations"][0]["successes"] == 400
    hosts = sum(served(tmp_path, outcome), Counter())
    assert set(hosts) == set(things.cluster.addresses)
    assert min(hosts.values()) > 100


def test_settings_change_while_the_servers_run_or_are_refused(store):
    shown = {"sql": {"statement": "SELECT current_setting('work_mem') AS size"}, "read_from": "any"}
    store.cluster.configure({"work_mem": "9MB"})
    assert store.errors(*2 * [shown | {"assert": {"fields": {"size": "9MB"}}}]) == [None, None]
    prefix = "it's %m\\"
    store.cluster.configure({"log_line_prefix": prefix})
    settings = store.cluster.store.running_settings(store.cluster.addresses, ["log_line_prefix"])
    assert settings["log_line_prefix"].explicit == prefix
    with pytest.raises(BadInput, match="cannot be changed while it runs"):
        store.cluster.configure({"shared_buffers": "64MB"})
    with pytest.raises(BadInput, match="the server does not have the parameter wrok_mem"):
        store.cluster.configure({"wrok_mem": "9MB"})


REFUSED = "p5"


def refuse_a_row(things, does: str) -> None:
    """Make the server do this, a statement of PL/pgSQL, for each change of one row."""
    body = f"BEGIN IF OLD.id = '{REFUSED}' THEN {does}; END IF; RETURN coalesce(NEW, OLD); END"
    trigger = "CREATE TRIGGER refuse BEFORE UPDATE OR DELETE ON things FOR EACH ROW EXECUTE FUNCTION refuse()"
    assert things.errors(
        {"sql": {"statement": f"CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ {body} $$"}},
        {"sql": {"statement": trigger}},
    ) == [None, None]


def counted(things, where: str) -> int:
    (answer,) = things.asked({"sql": {"statement": f"SELECT count(*)::int AS n FROM things WHERE {where}"}})
    return rows(answer)[0]["n"]


@pytest.mark.parametrize("action", ["update", "delete"])
@pytest.mark.parametrize(
    ("does", "error", "good"),
    [
        ("RAISE SQLSTATE '55P03'", "rejected", 0),
        ("RAISE SQLSTATE '40P01'", "rejected", 0),
        ("PERFORM pg_terminate_backend(pg_backend_pid())", "connect", 0),
        ("RAISE SQLSTATE '23514'", "item", 9),
        ("RAISE SQLSTATE 'P0001'", "item", 9),
        ("RETURN NULL", "item", 9),
    ],
)
def test_documents_of_a_bulk_request_count_if_they_were_committed(things, tmp_path, action, does, error, good):
    file = tmp_path / "documents.json"
    file.write_text("".join(json.dumps({"key": f"p{age}", "age": age}) + "\n" for age in range(10)))
    documents = {"corpora": {"c": {"files": [str(file)]}}}
    bulk = {"collection": "things", "corpus": "c", "size": 10, "id": "key"}
    (put,) = things.asked({"bulk": bulk | {"action": "create"}}, **documents)
    assert (put["error"], put["documents"]) == (None, 10)
    assert things.errors({"sql": {"statement": "UPDATE things SET age = NULL"}}) == [None]
    refuse_a_row(things, does)
    (changed,) = things.asked({"bulk": bulk | {"action": action}}, **documents)
    assert (changed["error"], changed["documents"]) == (error, good), changed["message"]
    assert (counted(things, "age IS NOT NULL") if action == "update" else 10 - counted(things, "true")) == good


def test_a_row_that_a_trigger_drops_from_a_bulk_request_is_not_counted(things, tmp_path):
    body = "BEGIN IF NEW.id = 'p5' THEN RETURN NULL; END IF; RETURN NEW; END"
    trigger = "CREATE TRIGGER keep BEFORE INSERT ON things FOR EACH ROW EXECUTE FUNCTION keep()"
    things.asked(
        {"sql": {"statement": f"CREATE OR REPLACE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS $$ {body} $$"}},
        {"sql": {"statement": trigger}},
    )
    file = tmp_path / "documents.json"
    file.write_text("".join(json.dumps({"key": f"p{age}", "age": age}) + "\n" for age in range(10)))
    bulk = {"collection": "things", "corpus": "c", "size": 10, "id": "key", "action": "create"}
    (put,) = things.asked({"bulk": bulk}, corpora={"c": {"files": [str(file)]}})
    assert (put["error"], put["documents"], counted(things, "true")) == ("item", 9, 9)


@pytest.mark.parametrize("protocol", ["prepared", "simple"])
def test_a_transaction_may_be_expected_to_roll_back_and_then_has_no_documents(things, protocol):
    two_people(things)
    nobody = GIVE | {"values": [5, "eve"]}
    again = {"statement": "INSERT INTO things (id) VALUES ('ann')"}
    more = {"protocol": protocol, "expect": "rollback"}
    wrong_rows, wrong_key, told, committed = things.asked(
        {"sql": {"transaction": [TAKE, nobody], **more}},
        {"sql": {"transaction": [TAKE, again], **more}},
        {"sql": {"transaction": [TAKE, {"statement": "ROLLBACK"}], **more}},
        {"sql": {"transaction": [TAKE], **more}},
    )
    assert [(answer["error"], answer["documents"]) for answer in (wrong_rows, wrong_key, told)] == 3 * [(None, 0)]
    assert (committed["error"], committed["documents"]) == ("assertion", 1)
    assert counted(things, "age = 5") == 1


def test_a_transaction_that_fails_at_its_commit_has_no_documents(things):
    constraint = "ALTER TABLE things ADD CONSTRAINT one UNIQUE (age) DEFERRABLE INITIALLY DEFERRED"
    assert things.errors({"sql": {"statement": constraint}}) == [None]
    insert = {"statement": "INSERT INTO things (id, age) VALUES ('a', 1), ('b', 1)"}
    failed, expected = things.asked(
        {"sql": {"transaction": [insert]}}, {"sql": {"transaction": [insert], "expect": "rollback"}}
    )
    assert (failed["error"], failed["documents"]) == ("client", 0)
    assert (expected["error"], expected["documents"]) == (None, 0)
    assert counted(things, "true") == 0


def test_rows_before_a_savepoint_count_and_those_after_it_do_not(things):
    statements = [
        "INSERT INTO things (id) VALUES ('a')",
        "SAVEPOINT one",
        "INSERT INTO things (id) VALUES ('b'), ('c')",
        "ROLLBACK TO one",
    ]
    (done,) = things.asked({"sql": {"transaction": [{"statement": text} for text in statements]}})
    assert (done["error"], done["documents"], counted(things, "true")) == (None, 1, 1)


def test_a_sample_that_the_server_forbids_is_bad_input(things):
    store, addresses = things.cluster.store, things.cluster.addresses
    server = store.client(addresses[0])
    server.ask("CREATE ROLE nosy LOGIN PASSWORD 'nosy'")
    try:
        access = replace(store._access, auth=Auth("basic", "nosy", "nosy"))
        with pytest.raises(BadInput, match="permission denied for table things"):
            store.with_access(access).sample(addresses, "things", 10)
    finally:
        server.ask("DROP ROLE nosy")
