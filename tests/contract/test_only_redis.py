"""Redis only: commands, slots, and unordered ids in a cluster."""

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


def test_a_reply_serves_the_same_users_later_commands(things):
    things.asked({"command": ["SET", "things:x", "007"]}, {"command": ["RPUSH", "things:l", "a", "12"]})
    listed = {"command": ["LRANGE", "things:l", "0", "-1"]}
    first, _, _, read, short = things.asked(
        {"command": ["GET", "things:x"], "capture": {"whole": {"reply": True}}},
        listed | {"capture": {"item": {"reply": 1}}},
        {"command": ["SET", "things:y", "${whole}/${item}"]},
        {"command": ["GET", "things:y"]},
        listed | {"capture": {"item": {"reply": 2}}},
        variables={"whole": {"captured": {}}, "item": {"captured": {}}},
    )
    assert (first["error"], read["answer"]) == (None, "007/12")
    assert (short["error"], "the reply has 2 items" in short["message"]) == ("assertion", True)


def test_a_snapshot_shows_in_the_figures(things):
    before = sum(node["forks"] for node in things.cluster.statistics().values())
    (answer,) = things.asked({"command": ["BGSAVE", "SCHEDULE"]})
    assert answer["error"] is None
    after = things.cluster.statistics().values()
    assert sum(node["forks"] for node in after) > before
    assert {node["saving"] for node in after} <= {0.0, 1.0}


def test_each_node_serves_half_of_the_slots(store):
    assert [node["slots"] for node in store.cluster.statistics().values()] == [8192, 8192]


def test_a_cluster_refuses_scans(things):
    (refused,) = things.asked({"scan": {"collection": "things", "from": "b", "count": 2}})
    assert (refused["error"], "single servers" in refused["message"]) == ("client", True)
