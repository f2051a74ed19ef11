"""What is Redis's own: commands, slots, and no order of ids in a cluster."""

import pytest

pytestmark = pytest.mark.store
ONLY = "redis"


def test_commands_of_the_workloads_own_are_judged(things):
    done, value, read, wrong, nothing = things.asked(
        {"command": ["SET", "things:x", "a b"]},
        {"command": ["GET", "things:x"], "assert": {"min_hits": 1}},
        {"read": {"collection": "things", "id": "x"}},
        {"command": ["GETT", "things:x"]},
        {"command": ["GET", "things:y"], "assert": {"min_hits": 1}},
    )
    assert (done["answer"], value["answer"]) == ("OK", "a b")
    assert (read["error"], wrong["error"], nothing["error"]) == ("client", "client", "assertion")
    assert read["message"].startswith("WRONGTYPE")
    assert wrong["message"].startswith("ERR unknown command")


def test_each_node_serves_half_of_the_slots(store):
    assert [node["slots"] for node in store.cluster.statistics().values()] == [8192, 8192]


def test_a_cluster_says_that_it_cannot_scan(things):
    (refused,) = things.asked({"scan": {"collection": "things", "from": "b", "count": 2}})
    assert (refused["error"], "single servers" in refused["message"]) == ("client", True)
