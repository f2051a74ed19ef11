"""PostgreSQL: the primary is killed or leaves, and replicas serve a share of the reads."""

import time

import pytest
from held import Held
from recorded import run_while, served

pytestmark = pytest.mark.store
ONLY = "postgresql"


def primary(store: Held) -> str:
    return next(name for name, node in store.cluster.statistics().items() if node["primary"])


def operations(store: Held) -> dict:
    """Return an insert with sequential ids, and a read of an existing document from any server."""
    document = {"collection": "things", "id": "${new}", "document": {"age": "${new}"}}
    ann = {"collection": "things", "id": "ann"}
    assert store.errors({"upsert": ann | {"document": {"age": 1}}}) == [None]
    return {"put": {"insert": document, "timeout": 5}, "look": {"read": ann, "read_from": "any", "timeout": 5}}


def classes(operation: dict) -> set[str]:
    return {error["class"] for error in operation["errors"]}


def test_while_the_primary_is_gone_nothing_is_written_and_replicas_are_read(things, tmp_path):
    asked = operations(things)
    before = things.cluster.count("things")
    with run_while(things, tmp_path / "run", asked) as outcome:
        time.sleep(1)
        things.cluster.kill(primary(things))
        time.sleep(3)
        assert not things.cluster.health().ready
        assert things.cluster.health().status == "without a primary"
        assert things.cluster.mend()
        time.sleep(2)
    put, look = outcome()["operations"]
    assert classes(put) <= {"connect", "timeout", "rejected"} and put["errors"]
    assert look["successes"] > put["successes"], "reads went on meanwhile"
    assert things.cluster.deviations() == []
    # Acknowledged writes must be present. Unanswered writes may be present.
    unknown = put["requests"] - put["successes"] + put["in_flight_at_end"]
    assert before + put["successes"] <= things.cluster.count("things") <= before + put["successes"] + unknown


def test_a_primary_that_leaves_hands_over_and_loses_nothing(things, tmp_path):
    asked = operations(things)
    (joined,) = things.cluster.grow()
    before, leaving = things.cluster.count("things"), primary(things)
    with run_while(things, tmp_path / "run", asked) as outcome:
        time.sleep(1)
        things.cluster.shrink(leaving)
        assert things.cluster.deviations() == []
        time.sleep(1)
    put, look = outcome()["operations"]
    assert primary(things) != leaving
    assert classes(put) <= {"connect", "rejected"} and classes(look) <= {"connect", "rejected", "client"}
    unknown = put["requests"] - put["successes"] + put["in_flight_at_end"]
    assert put["successes"] > 100
    assert before + put["successes"] <= things.cluster.count("things") <= before + put["successes"] + unknown
    assert joined in {node.name for node in things.cluster.nodes}


def test_a_replica_that_joins_gets_its_share_of_the_reads(things, tmp_path):
    asked = operations(things)
    with run_while(things, tmp_path / "run", {"look": asked["look"]}) as outcome:
        time.sleep(1)
        (joined,) = things.cluster.grow()
        address = next(node.address for node in things.cluster.nodes if node.name == joined)
        time.sleep(3)
    assert outcome()["operations"][0]["errors"] == []
    both = served(tmp_path / "run", outcome())[-2]
    assert both[address] > 0.7 * both.total() / things.cluster.size
    things.cluster.shrink(joined)


def test_replicas_find_the_primary_at_its_new_address(things):
    operations(things)
    before = things.cluster.count("things")
    things.restart(nodes=things.cluster.size)
    assert things.cluster.deviations() == []
    assert things.cluster.count("things") == before
    role = {"sql": {"statement": "SELECT 1"}, "read_from": "replica"}
    assert things.errors(role) == [None]
