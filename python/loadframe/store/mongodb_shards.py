"""A sharded cluster: shards and the cluster's configuration, each a replica set, behind routers."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from loadframe.errors import BadInput, LoadframeError
from loadframe.store import mongodb_set as sets
from loadframe.store.base import Balancing, Health, Member, Watch
from loadframe.store.mongodb_client import Client, MongoError
from loadframe.store.mongodb_config import CONFIG, ROUTER, SEEDS, SHARD, shard_of
from loadframe.store.mongodb_set import Clients

_POLL = 0.5
#: ShardNotFound.
_NO_SHARD = 70


def form(members: Sequence[Member], settings: Mapping[str, Any], clients: Clients, watch: Watch) -> None:
    """Put the sets together, tell the routers of the configuration, and add the shards."""
    name = _cluster(members, clients, watch)
    config = [member for member in members if member.role == CONFIG]
    sets.initiate(f"{name}-{CONFIG}", config, clients, watch, configsvr=True)
    shards: dict[str, list[Member]] = {}
    for member in members:
        if member.role == SHARD:
            shards.setdefault(shard_of(member.name), []).append(member)
    for shard, of_it in shards.items():
        sets.initiate(f"{name}-{shard}", of_it, clients, watch)
    routers = [member for member in members if member.role == ROUTER]
    tell(routers, f"{name}-{CONFIG}", config)
    sets.wait([clients(router.address) for router in routers], watch)
    router = clients(routers[0].address)
    for shard, of_it in shards.items():
        router.ask({"addShard": _seeds(f"{name}-{shard}", of_it), "name": shard})
    if not settings.get("balancer", True):
        router.ask({"balancerStop": 1})


def tell(routers: Sequence[Member], name: str, config: Sequence[Member]) -> None:
    """Tell routers, which wait for it, where the cluster's configuration is."""
    for router in routers:
        assert router.folder
        (router.folder / SEEDS).write_text(_seeds(name, config))


def reunite(members: Sequence[Member], clients: Clients, watch: Watch) -> None:
    """Have all sets elect their primaries, and let the routers go on; at other addresses than before that cannot be."""
    groups: dict[str, list[Member]] = {}
    for member in members:
        if member.role in (SHARD, CONFIG):
            groups.setdefault(CONFIG if member.role == CONFIG else shard_of(member.name), []).append(member)
    for of_it in groups.values():
        servers = [clients(member.address) for member in of_it]
        sets.wait(servers, watch)
        config = servers[0].ask({"replSetGetConfig": 1})["config"]
        known = {entry["host"] for entry in config["members"]}
        if any(member.address not in known for member in of_it):
            raise LoadframeError(
                "a sharded cluster starts again only at the ports that it had: it has them written down",
                where=of_it[0].address,
                remedy="start it with the --port that it had",
            )
        sets.elect(servers, watch)
    name = str(clients(groups[CONFIG][0].address).hello()["setName"])
    routers = [member for member in members if member.role == ROUTER]
    tell(routers, name, groups[CONFIG])
    sets.wait([clients(router.address) for router in routers], watch)


def join(router: Client, member: Member, clients: Clients, watch: Watch) -> None:
    """Make a set of a new shard's processes and add it."""
    of_it = [member, *member.others]
    sets.wait([clients(each.address) for each in of_it], watch)
    cluster = _names(router)[0].rpartition("-node-")[0]
    shard = shard_of(member.name)
    sets.initiate(f"{cluster}-{shard}", of_it, clients, watch)
    router.ask({"addShard": _seeds(f"{cluster}-{shard}", of_it), "name": shard})


def balance(router: Client, watch: Watch) -> None:
    """Wait until the balancer finds nothing to do for any collection; at once if it is off."""
    if router.ask({"balancerStatus": 1})["mode"] == "off":
        watch(Balancing(0, "collections", "balancer off", warning="the balancer is off: data stays where it is"))
        return
    while left := _unbalanced(router):
        watch(Balancing(left, "collections", "balancing"))
        time.sleep(_POLL)
    watch(Balancing(0, "collections", "balanced"))


def leave(router: Client, member: Member, watch: Watch) -> None:
    """Have a shard's chunks and databases moved to the others."""
    shard = shard_of(member.name)
    if len(_names(router)) < 2:
        raise BadInput("the last shard of a cluster cannot leave it", remedy="stop it with `loadframe cluster down`")
    while True:
        try:
            answer = router.ask({"removeShard": shard})
        except MongoError as error:
            if error.code == _NO_SHARD:
                return
            raise
        if answer["state"] == "completed":
            return
        left = answer.get("remaining") or {}
        others = [other["_id"] for other in router.ask({"listShards": 1})["shards"] if other["_id"] != shard]
        if not int(left.get("chunks") or 0):
            for database in answer.get("dbsToMove") or []:
                router.ask({"movePrimary": database, "to": others[0]})
        watch(Balancing(float(left.get("chunks") or 0), "chunks", str(answer["state"])))
        time.sleep(_POLL)


def health(router: Client, clients: Clients) -> Health:
    """Ready is that each shard has all its members, one of them primary."""
    shards = router.ask({"listShards": 1})["shards"]
    states = [_shard_health(str(shard["host"]), clients) for shard in shards]
    broken = [f"{shard['_id']}: {state.status}" for shard, state in zip(shards, states, strict=True) if not state.ready]
    return Health(
        ready=not broken,
        status="; ".join(broken) or "ok",
        nodes=len(shards),
        moving=sum(bool(shard.get("draining")) for shard in shards),
        missing=sum(state.missing for state in states),
    )


def members(router: Client) -> list[str]:
    """Return the addresses of all servers that hold data."""
    hosts = [str(shard["host"]).partition("/")[2] for shard in router.ask({"listShards": 1})["shards"]]
    return [address for each in hosts for address in each.split(",")]


def _shard_health(host: str, clients: Clients) -> Health:
    addresses = host.partition("/")[2].split(",")
    return sets.health(sets.primary(addresses, clients))


def _unbalanced(router: Client) -> int:
    sharded = router.ask({"find": "collections", "filter": {"unsplittable": {"$ne": True}}}, "config")
    names = [str(entry["_id"]) for entry in sharded["cursor"]["firstBatch"]]
    states = [router.ask({"balancerCollectionStatus": name}) for name in names if not name.startswith("config.")]
    return sum(not state["balancerCompliant"] for state in states)


def _names(router: Client) -> list[str]:
    return [str(shard["host"]).partition("/")[0] for shard in router.ask({"listShards": 1})["shards"]]


def _cluster(members: Sequence[Member], clients: Clients, watch: Watch) -> str:
    """Return the name of the cluster, which the configuration's servers were started with."""
    config = next(clients(member.address) for member in members if member.role == CONFIG)
    sets.wait([config], watch)
    options = config.ask({"getCmdLineOpts": 1})["parsed"]
    return str(options["replication"]["replSetName"]).removesuffix(f"-{CONFIG}")


def _seeds(name: str, members: Sequence[Member]) -> str:
    return f"{name}/{','.join(member.address for member in members)}"
