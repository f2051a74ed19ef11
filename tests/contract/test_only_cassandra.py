"""Cassandra only: statements, refusals, and requests to every node."""

import csv
import re
from collections import Counter

import pytest

from loadframe.base.errors import BadInput
from loadframe.load import run_phase

pytestmark = pytest.mark.store
ONLY = "cassandra"

ANN = {"collection": "things", "id": "ann"}
DOCUMENT = {"name": "Ann", "age": 41, "tags": ["a", "b"]}


def test_each_node_has_an_address_of_its_own(store):
    assert len({address.rpartition(":")[0] for address in store.cluster.addresses}) == 2
    assert store.cluster.describe()["version"] == "5.0.9"


def test_a_statement_of_the_workloads_own_is_prepared_and_judged(things):
    statement = "INSERT INTO things (id, age) VALUES (?, ?) IF NOT EXISTS"
    insert = {"cql": {"statement": statement, "values": ["ann", 1], "consistency": "quorum"}}
    select = {"cql": {"statement": "SELECT age FROM things WHERE id = ?", "values": ["ann"]}}
    first, again, selected = things.asked(insert, insert, select | {"assert": {"fields": {"age": 1}}})
    assert (first["error"], again["error"], selected["error"]) == (None, "client", None)
    assert "not applied" in again["message"]


def test_rows_that_fail_assertions_are_not_a_success(things):
    assert things.errors({"insert": ANN | {"document": DOCUMENT}, "consistency": "all"}) == [None]
    select = {"cql": {"statement": "SELECT age, tags FROM things WHERE id = ?", "values": ["ann"]}}
    scan = {"scan": {"collection": "things", "from": "ann", "count": 5}}
    for operation in ({"read": ANN}, select, scan):
        right, wrong = things.asked(
            operation | {"assert": {"fields": {"age": 41, "tags.1": "b"}}},
            operation | {"assert": {"fields": {"age": 40}}},
        )
        assert (right["error"], right["documents"]) == (None, 1)
        assert (wrong["error"], wrong["message"]) == ("assertion", 'the field "age" is 41, and not 40')
    (few,) = things.asked(scan | {"assert": {"min_hits": 2}})
    assert (few["error"], few["message"]) == ("assertion", "1 hits, fewer than the 2 that are asserted")


def test_a_column_of_the_first_row_serves_later_statements(things):
    select = {"cql": {"statement": "SELECT sum(age) AS total FROM things"}}
    insert = {"cql": {"statement": "INSERT INTO things (id, age) VALUES (?, ?)", "values": ["sum", "${total}"]}}
    assert things.errors(
        {"insert": ANN | {"document": DOCUMENT}},
        select | {"capture": {"total": {"field": "total"}}},
        insert,
        {"cql": {"statement": "SELECT age FROM things WHERE id = 'sum'"}, "assert": {"fields": {"age": 41}}},
        variables={"total": {"captured": {}}},
    ) == 4 * [None]


def test_invalid_requests_are_reported_in_the_stores_words(things):
    wrong = [
        ({"insert": ANN | {"document": {"age": "old"}}}, 'column "age": the text "old" does not go into .* int'),
        ({"insert": ANN | {"document": {"aeg": 1}}}, "aeg"),
        ({"read": {"collection": "nobody", "id": "1"}}, r"the table loadframe\.nobody does not exist"),
        ({"cql": {"statement": "SELEC 1"}}, "SELEC"),
        ({"cql": {"statement": "SELECT * FROM things WHERE id = ?", "values": []}}, "1 markers, and there are 0"),
    ]
    for failed, (_, words) in zip(things.asked(*(operation for operation, _ in wrong)), wrong, strict=True):
        assert failed["error"] == "client"
        assert re.search(words, failed["message"])


def test_every_node_gets_the_requests_of_its_keys(things, tmp_path):
    insert = {"insert": {"collection": "things", "id": "${n}", "document": {"age": "${n}"}}}
    plan = things.plan({"a": insert}, variables={"n": {"sequential": {"from": 0}}})
    plan["streams"][0] |= {"pacing": {"closed": {"clients": 16}}, "stop": {"requests": 1000}}
    outcome = run_phase(plan, tmp_path, lambda _: None)
    served: Counter[str] = Counter()
    with (tmp_path / "nodes.csv").open() as lines:
        for row in csv.DictReader(lines):
            served[outcome["hosts"][int(row["node"])]] += int(row["requests"])
    assert set(served) == set(things.cluster.addresses)
    (answer,) = things.asked({"scan": {"collection": "things", "from": "500", "count": 20}})
    assert answer["documents"] == 20


def test_a_cluster_does_not_shrink_below_its_copies(things):
    with pytest.raises(BadInput, match="has 2 copies of its data, and 1 node would remain"):
        things.cluster.shrink()
