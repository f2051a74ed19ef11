"""Shards join, leave and are balanced through a simulated router that answers as documented."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from loadframe.base.errors import BadInput, LoadframeError
from loadframe.cluster import Cluster
from loadframe.store import OPEN, Balancing, Member, find
from loadframe.store.mongodb import client, shards
from loadframe.store.mongodb.client import MongoError
from own_servers import free_port

LEAVING = Member("node-2", "127.0.0.1:3")


class Router:
    """Server that answers each command with its next answer and repeats the last one; records the commands."""

    address = "127.0.0.1:1"

    def __init__(self, **answers: Any) -> None:
        self.answers = {
            "balancerStatus": [{"mode": "full"}],
            "listShards": [{"shards": [{"_id": f"node-{n}", "host": f"loadframe-x-node-{n}/a:{n}"} for n in range(3)]}],
        } | {name: answer if isinstance(answer, list) else [answer] for name, answer in answers.items()}
        self.asked: list[tuple[str, Any]] = []

    def ask(self, command: Mapping[str, Any], database: str = "admin") -> dict[str, Any]:
        name = next(iter(command))
        self.asked.append((name, dict(command)))
        answers = self.answers.get(name, [{}])
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def named(self, *names: str) -> list[Any]:
        """Return the arguments of the commands with these names, in order."""
        return [command for name, command in self.asked if name in names]


class Watched(list[Balancing]):
    """Progress reports that were received."""

    def __call__(self, balancing: Balancing) -> None:
        self.append(balancing)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(shards, "_POLL", 0.0)


def test_the_start_of_a_sharded_cluster_includes_all_its_processes():
    # 2 x 3 members, 3 config servers and 2 routers: 6 s for the first process and 1 s for each of the other ten.
    settings = {"members": 3, "config_members": 3, "routers": 2}
    assert Cluster.start_seconds("mongodb", 2, settings) == 16
    assert Cluster.start_seconds("mongodb", 2, {}) == 7
    with pytest.raises(BadInput, match="members must be a whole number above 0"):
        Cluster.start_seconds("mongodb", 2, {"members": "three"})


def ongoing(chunks: int, *databases: str, jumbo: int = 0) -> dict[str, Any]:
    remaining = {"chunks": chunks, "dbs": len(databases), "jumboChunks": jumbo}
    return {"state": "ongoing", "remaining": remaining, "dbsToMove": list(databases)}


def status(set_name: str, second: int) -> dict[str, Any]:
    """Return the status of a server with its last write in that second."""
    written = datetime.fromtimestamp(second, tz=UTC)
    return {"repl": {"setName": set_name, "isWritablePrimary": True, "lastWrite": {"lastWriteDate": written}}}


def test_servers_of_the_configuration_are_asked_too_and_lag_is_within_a_set(monkeypatch):
    store = find("mongodb")
    answers = {
        "r:1": {},
        "a:0": status("s0", 100),
        "b:0": status("s0", 97),
        "arbiter:0": status("s0", 0),
        "a:1": status("s1", 40),
        "c:1": status("c", 7),
    }
    two = [{"_id": "s0", "host": "s0/a:0,b:0,arbiter:0"}, {"_id": "s1", "host": "s1/a:1"}]
    clients = {
        address: Router(
            serverStatus=told,
            listShards={"shards": two},
            getShardMap={"map": {"config": "c/c:1"}},
            getCmdLineOpts={"parsed": {}},
        )
        for address, told in answers.items()
    }
    monkeypatch.setattr(type(store), "client", lambda _, address: clients[address])
    monkeypatch.setattr(type(store), "_hello", lambda _, addresses: (clients[addresses[0]], {"msg": "isdbgrid"}))
    known = store.statistics(["r:1"])
    assert set(known) == set(answers)
    assert {name: node["lag_seconds"] for name, node in known.items() if "lag_seconds" in node} == {
        "a:0": 0.0, "b:0": 3.0, "a:1": 0.0, "c:1": 0.0
    }  # fmt: skip


class Behind(Router):
    """A server behind the router that runs, by its answer to `hello`."""

    def __init__(self, address: str, hello: Mapping[str, Any], **answers: Any) -> None:
        super().__init__(**answers)
        self.address, self.hello = address, lambda: hello

    def running(self) -> Mapping[str, Any]:
        return self.hello()


@pytest.mark.slow
def test_settings_go_to_running_servers_behind_routers_and_the_cache_of_config_servers_stays(monkeypatch):
    store, stopped = find("mongodb"), f"127.0.0.1:{free_port()}"
    shard = {"_id": "s0", "host": f"s0/a:0,{stopped},arbiter:0"}
    caches = {"serverStatus": {"wiredTiger": {"cache": {"maximum bytes configured": 300 * 2**20}}}}
    known = {
        "r:1": Behind(
            "r:1", {"msg": "isdbgrid"}, listShards={"shards": [shard]}, getShardMap={"map": {"config": "c/c:1"}}
        ),
        "a:0": Behind("a:0", {"setName": "s0"}, getParameter={"ttlMonitorSleepSecs": 30}, **caches),
        "arbiter:0": Behind("arbiter:0", {"arbiterOnly": True}),
        "c:1": Behind("c:1", {"configsvr": 2}, getParameter={"ttlMonitorSleepSecs": 30}, serverStatus={}),
        stopped: client.Client(stopped, OPEN),
    }
    monkeypatch.setattr(client, "_SELECTION", 0.1)
    monkeypatch.setattr(type(store), "client", lambda _, address: known[address])
    settings = {"cache": "300m", "setParameter.ttlMonitorSleepSecs": 30}
    store.configure(["r:1"], settings)
    assert {address: len(known[address].named("setParameter")) for address in ("r:1", "a:0", "arbiter:0", "c:1")} == {
        "r:1": 0, "a:0": 2, "arbiter:0": 0, "c:1": 1
    }  # fmt: skip
    assert [setting.explicit for setting in store.running_settings(["r:1"], list(settings)).values()] == [
        300 * 2**20,
        30,
    ]


def test_a_user_without_access_to_the_configuration_gets_the_shards():
    refusing = Router(getShardMap=MongoError("not authorized", "a:1", 13))
    assert shards.configuration(refusing) == []


STARTED = {"state": "started", "shard": "node-2", "dbsToMove": ["loadframe"]}
COMPLETED = {"state": "completed", "shard": "node-2"}


def test_a_shard_gives_its_chunks_first_and_then_the_databases_that_it_is_home_to():
    router, watch = (
        Router(removeShard=[STARTED, ongoing(2, "loadframe"), ongoing(0, "loadframe"), COMPLETED]),
        Watched(),
    )
    shards.leave(router, LEAVING, watch)
    assert router.named("movePrimary") == [{"movePrimary": "loadframe", "to": "node-0"}]
    assert [name for name, _ in router.asked].index("movePrimary") > len(router.named("listShards"))
    assert [(told.left, told.unit, told.state) for told in watch] == [
        (2, "chunks", "ongoing"),
        (0, "chunks", "ongoing"),
    ]
    assert len(router.named("removeShard")) == 4


def test_only_a_sharded_cluster_has_to_be_where_it_was():
    assert find("mongodb").keeps_addresses({}) is None
    assert "the address of the config servers" in str(find("mongodb").keeps_addresses({"members": 1}))


def test_databases_move_to_no_shard_that_leaves_itself():
    listed = {"shards": [{"_id": "node-0", "draining": True}, {"_id": "node-1"}, {"_id": "node-2", "draining": True}]}
    router = Router(listShards=listed, removeShard=[ongoing(0, "loadframe"), COMPLETED])
    shards.leave(router, LEAVING, Watched())
    assert router.named("movePrimary") == [{"movePrimary": "loadframe", "to": "node-1"}]
    alone = Router(listShards={"shards": [{"_id": "node-0", "draining": True}, {"_id": "node-2"}]})
    with pytest.raises(BadInput, match="the last shard"):
        shards.leave(alone, LEAVING, Watched())
    assert alone.named("removeShard") == []


def test_the_balancer_runs_while_a_shard_leaves_and_is_as_it_was_then():
    router = Router(balancerStatus={"mode": "off"}, removeShard=[STARTED, COMPLETED])
    shards.leave(router, LEAVING, Watched())
    names = [name for name, _ in router.asked]
    assert names.index("balancerStart") < names.index("removeShard") < names.index("balancerStop")

    def out_of_time(_balancing: Balancing) -> None:
        raise LoadframeError("out of time")

    router = Router(balancerStatus={"mode": "off"}, removeShard=[STARTED, ongoing(1, jumbo=1)])
    with pytest.raises(LoadframeError, match="out of time"):
        shards.leave(router, LEAVING, out_of_time)
    assert router.asked[-1][0] == "balancerStop"


def test_immovable_chunks_are_reported():
    router, watch = Router(removeShard=[ongoing(3, jumbo=1), MongoError("gone", "a:1", 70)]), Watched()
    shards.leave(router, LEAVING, watch)
    assert watch[0].state == "ongoing, 1 too large to move"


def test_whoever_waits_is_asked_in_every_state_that_a_router_may_name():
    router, watch = Router(removeShard=[STARTED, {"state": "pendingDataCleanup"}, COMPLETED]), Watched()
    shards.leave(router, LEAVING, watch)
    assert [told.state for told in watch] == ["pendingDataCleanup"]


def test_a_shard_that_is_to_stay_is_drained_no_more_where_the_store_knows_how():
    router = Router()
    shards.stay(router, LEAVING)
    assert router.named("stopShardDraining") == [{"stopShardDraining": "node-2"}]
    shards.stay(Router(stopShardDraining=MongoError("no such command", "a:1", 59)), LEAVING)
    with pytest.raises(MongoError):
        shards.stay(Router(stopShardDraining=MongoError("not now", "a:1", 117)), LEAVING)


def collections(*names: str) -> dict[str, Any]:
    return {"cursor": {"firstBatch": [{"_id": name, "uuid": name} for name in names]}}


def test_data_is_balanced_when_every_collection_is():
    compliance = [{"balancerCompliant": compliant} for compliant in (False, True, True, True)]
    holders = {"values": ["node-0", "node-1", "node-2"]}
    router = Router(
        find=collections("loadframe.a", "loadframe.b"), balancerCollectionStatus=compliance, distinct=holders
    )
    watch = Watched()
    shards.balance(router, watch)
    assert [told.left for told in watch] == [1, 0]
    assert watch[-1].warning == ""


def test_a_shard_that_is_left_without_data_is_told_though_the_store_calls_that_balanced():
    router = Router(
        find=collections("loadframe.a"),
        balancerCollectionStatus={"balancerCompliant": True},
        distinct={"values": ["node-0", "node-1"]},
    )
    watch = Watched()
    shards.balance(router, watch)
    assert watch[-1].warning.startswith("node-2 holds no data: the balancer moves none between shards that differ by")
    empty = Watched()
    shards.balance(Router(find=collections(), distinct={"values": []}), empty)
    assert empty[-1].warning == ""
    off = Watched()
    shards.balance(Router(balancerStatus={"mode": "off"}), off)
    assert "the balancer is off" in off[-1].warning
