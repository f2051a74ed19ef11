"""MongoDB: the primary of a replica set is killed or leaves; composition of sharded clusters."""

import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from held import Held
from recorded import run_while

from loadframe.base.errors import BadInput, LoadframeError
from loadframe.cluster import Cluster, ClusterSpec
from loadframe.cluster.software import prepare
from loadframe.host.files import write_node
from loadframe.host.local import LocalHost
from loadframe.store import Access, Balancing, Member, NodeSpec, find
from loadframe.store.access import Auth
from loadframe.store.mongodb import replica_set as sets
from loadframe.store.mongodb import shards
from loadframe.store.mongodb.client import Client

pytestmark = pytest.mark.store
ONLY = "mongodb"


def loaded(store: Held, folder: Path) -> AbstractContextManager[Callable[[], dict]]:
    """Insert documents in the background with majority write concern; yield a function that returns the result."""
    document = {"collection": "things", "id": "${new}", "document": {"age": "${new}"}}
    return run_while(store, folder, {"put": {"insert": document, "write_concern": "majority", "timeout": 5}})


def until(met: Callable[[], bool]) -> bool:
    """Wait up to a minute for a condition; return whether it was met."""
    deadline = time.monotonic() + 60
    while not met():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return True


def primary(cluster: Cluster) -> str:
    return next(name for name, node in cluster.statistics().items() if node["primary"])


def elected(cluster: Cluster) -> bool:
    """Ask the remaining members for an election, which they would start after ten seconds."""
    for address in cluster.addresses:
        server = cluster.store.client(address)
        try:
            if server.hello().get("isWritablePrimary"):
                return True
            server.ask({"replSetStepUp": 1})
        except LoadframeError:
            continue
    return False


def test_another_serves_when_the_primary_is_killed_or_leaves(things, tmp_path):
    cluster, changed = things.cluster, {"setParameter.ttlMonitorSleepSecs": 30, "cache": "300m"}
    cluster.configure(changed)
    cluster.grow()
    killed = primary(cluster)
    with loaded(things, tmp_path / "killed") as outcome:
        assert until(lambda: cluster.count("things") > 0)
        cluster.kill(killed)
        assert until(lambda: f"{killed} has ended, killed on purpose" in cluster.deviations())
        assert until(lambda: elected(cluster))
        before = cluster.count("things")
        assert until(lambda: cluster.count("things") > before), "the load goes to the new primary"
    # One of two members is named, and the third is stopped.
    changed["cache"] = "400m"
    store, (first, second) = cluster.store, cluster.addresses
    store.configure([first], changed)
    values = store.running_settings([second], list(changed)).values()
    assert [setting.value for setting in values] == ["30", str(400 * 2**20)]
    changed["cache"] = "300m"
    store.configure([second], changed)
    assert outcome()["operations"][0]["errors"]
    assert cluster.count("things") >= outcome()["operations"][0]["successes"]
    with pytest.raises(BadInput, match="the other members could not elect a primary without it"):
        cluster.shrink(next(node.name for node in cluster.nodes if node.alive))
    assert cluster.mend()
    assert cluster.health().status == "1 primary, 2 secondary"
    # BadInput if servers differ.
    values = cluster.store.running_settings(cluster.addresses, list(changed)).values()
    assert [setting.value for setting in values] == ["30", str(300 * 2**20)]
    things.drop()
    things.create()
    leaving = primary(cluster)
    with loaded(things, tmp_path / "left") as outcome:
        assert cluster.shrink(leaving) == [leaving]
    assert {error["class"] for error in outcome()["operations"][0]["errors"]} <= {"rejected", "connect", "timeout"}
    assert cluster.count("things") >= outcome()["operations"][0]["successes"] > 0
    assert cluster.health().status == "1 primary, 1 secondary"


def test_a_single_server_does_not_grow(store):
    with Cluster.start(ClusterSpec(store="mongodb")) as single:
        assert single.health().status == "ok"
        with pytest.raises(BadInput, match="cannot grow"):
            single.grow()


MAJORITY = {"writeConcern": {"w": "majority"}}


class Passing:
    """Forwards a router's commands to the primary of the configuration servers or to the home shard of a database."""

    address = "a router's"

    def __init__(self, config: Client, shards: Mapping[str, Client]) -> None:
        self.config, self.shards = config, shards

    def ask(self, command: Mapping[str, Any], database: str = "admin") -> dict[str, Any]:
        name = next(iter(command))
        passed = {f"_configsvr{name[0].upper()}{name[1:]}": command[name], **command}
        del passed[name]
        if name in ("addShard", "removeShard"):
            return self.config.ask({**passed, **MAJORITY})
        if name.startswith("balancer"):
            return self.config.ask(passed)
        if name == "listShards":
            return {"shards": self.config.ask({"find": "shards"}, "config")["cursor"]["firstBatch"]}
        if name == "movePrimary":
            answer = self.config.ask({"find": "databases", "filter": {"_id": command[name]}}, "config")
            (entry,) = answer["cursor"]["firstBatch"]
            move = {"_shardsvrMovePrimary": command[name], "to": command["to"], "databaseVersion": entry["version"]}
            return self.shards[entry["primary"]].ask({**move, **MAJORITY})
        return self.config.ask(command, database)


def test_a_sharded_cluster_forms_and_gives_a_shard_up_as_far_as_that_goes_without_a_router(store, tmp_path):
    """Routers are in no package registry."""
    host, auth = LocalHost(), Auth("basic", "secret", user="loadframe")
    kind = find("mongodb").with_access(Access(auth=auth))
    installation = prepare(kind, ClusterSpec(store="mongodb"), host, print).installation
    places = {"config-0": "config", "node-0": "shard", "node-1": "shard"}
    members, processes = [], []
    try:
        for (name, role), port in zip(places.items(), host.free_ports(3), strict=True):
            more = {"role": role, "memory": 2**29, "password": auth.secret}
            node = NodeSpec("sharded", name, host.address, port, 0, tmp_path / name, (), (name,), **more)
            planned = kind.plan(node, installation)
            write_node(node.folder, planned.folders, planned.files, None)
            processes.append(subprocess.Popen(planned.argv, stdout=subprocess.DEVNULL))
            members.append(Member(name, f"{host.address}:{port}", folder=node.folder, role=role))
        config, first, second = members
        sets.initiate("sharded-config", [config], kind.client, lambda _: None, configsvr=True)
        sets.initiate("sharded-node-0", [first], kind.client, lambda _: None)
        assert kind.client(config.address).hello()["configsvr"] == 2
        shards.tell([Member("router-0", "a:1", folder=tmp_path / "node-0")], "sharded-config", [config])
        assert (tmp_path / "node-0" / "config" / "seeds").read_text() == f"sharded-config/{config.address}"

        behind = {"node-0": kind.client(first.address), "node-1": kind.client(second.address)}
        router = Passing(kind.client(config.address), behind)
        router.ask({"addShard": f"sharded-node-0/{first.address}", "name": "node-0"})
        shards.join(router, second, kind.client, lambda _: None)
        assert shards.members(router) == [first.address, second.address]
        assert shards.health(router, kind.client).balanced
        # A ranged key has all data begin in one place, and that is where the database is at home.
        for database, home in (("loadframe", "node-0"), ("other", "node-1")):
            router.ask({"_configsvrCreateDatabase": database, "primaryShardId": home, **MAJORITY})
        database = router.ask({"find": "databases", "filter": {"_id": "loadframe"}}, "config")["cursor"]["firstBatch"][
            0
        ]
        create = {"_shardsvrCreateCollection": "things", "shardKey": {"_id": 1}, "databaseVersion": database["version"]}
        behind["node-0"].ask({**create, **MAJORITY}, "loadframe")
        told: list[Balancing] = []
        shards.balance(router, told.append)
        assert (told[-1].left, told[-1].state) == (0, "balanced")
        assert told[-1].warning.startswith("node-1 holds no data")

        router.ask({"balancerStop": 1})
        shards.leave(router, second, told.append)
        assert shards.members(router) == [first.address]
        assert (
            router.ask({"find": "databases", "filter": {"primary": "node-1"}}, "config")["cursor"]["firstBatch"] == []
        )
        assert router.ask({"balancerStatus": 1})["mode"] == "off"
        with pytest.raises(BadInput, match="the last shard"):
            shards.leave(router, first, told.append)
    finally:
        for process in processes:
            process.kill()
            process.wait()
