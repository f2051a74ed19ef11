"""Sharded clusters: shards and config servers, each a replica set, behind routers.

Functions that send commands raise the errors of `client.Client`. `watch` gets the progress of waits, and may end them
by an error.
"""

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from loadframe.base import nofollow
from loadframe.base.errors import BadInput, LoadframeError
from loadframe.base.units import by_number, parse_size
from loadframe.store.base import Balancing, Health, Member, Watch
from loadframe.store.mongodb import replica_set as sets
from loadframe.store.mongodb.client import Client, MongoError
from loadframe.store.mongodb.config import CONFIG, ROUTER, SEEDS, SHARD, shard_of
from loadframe.store.mongodb.replica_set import Clients

_POLL = 0.5
#: Error codes ShardNotFound and CommandNotFound.
_NO_SHARD, _NO_COMMAND = 70, 59


def form(members: Sequence[Member], settings: Mapping[str, Any], clients: Clients, watch: Watch) -> None:
    """Form the sets, start the routers with the config servers' addresses, and add the shards.

    Apply the settings `chunk_size` and `balancer`.
    """
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
    if "chunk_size" in settings:
        mebibytes = parse_size(settings["chunk_size"]) // 2**20
        change = {"q": {"_id": "chunksize"}, "u": {"$set": {"value": mebibytes}}, "upsert": True}
        router.ask({"update": "settings", "updates": [change]}, "config")
    if not settings.get("balancer", True):
        router.ask({"balancerStop": 1})


def tell(routers: Sequence[Member], name: str, config: Sequence[Member]) -> None:
    """Write the addresses of `config`, the config servers, into the routers' folders, which starts the routers.

    `name` is the name of the config servers' set.
    """
    for router in routers:
        assert router.folder
        router.call(nofollow.rewrite_text, router.folder, SEEDS, _seeds(name, config))


def reunite(members: Sequence[Member], clients: Clients, watch: Watch) -> None:
    """Wait until all sets have primaries, then start the routers; LoadframeError if addresses have changed."""
    groups: dict[str, list[Member]] = {}
    for member in members:
        if member.role in (SHARD, CONFIG):
            groups.setdefault(CONFIG if member.role == CONFIG else shard_of(member.name), []).append(member)
    # Config servers first, because the shards need them.
    for group in sorted(groups, key=lambda group: group != CONFIG):
        of_it = groups[group]
        servers = [clients(member.address) for member in of_it]
        sets.wait(servers, watch)
        config = servers[0].ask({"replSetGetConfig": 1})["config"]
        known = {entry["host"] for entry in config["members"]}
        if any(member.address not in known for member in of_it):
            raise LoadframeError(
                "a sharded cluster can restart only at its earlier ports, which are stored in its data",
                where=of_it[0].address,
                remedy="start it with its earlier --port",
            )
        sets.elect(servers, watch)
    name = str(clients(groups[CONFIG][0].address).hello()["setName"])
    routers = [member for member in members if member.role == ROUTER]
    tell(routers, name, groups[CONFIG])
    sets.wait([clients(router.address) for router in routers], watch)


def join(router: Client, member: Member, clients: Clients, watch: Watch) -> None:
    """Form the replica set of a new shard's processes (`member` and its others), and add it to the cluster."""
    of_it = [member, *member.others]
    sets.wait([clients(server.address) for server in of_it], watch)
    cluster = _names(router)[0].rpartition("-node-")[0]
    shard = shard_of(member.name)
    sets.initiate(f"{cluster}-{shard}", of_it, clients, watch)
    router.ask({"addShard": _seeds(f"{cluster}-{shard}", of_it), "name": shard})


def balance(router: Client, watch: Watch) -> None:
    """Wait until the balancer has nothing to do for any collection; return at once if it is off.

    The last call of `watch` has a warning if the balancer is off, or if shards hold no data.
    """
    if _is_off(router):
        watch(Balancing(0, "collections", "balancer off", warning="the balancer is off, so data does not move"))
        return
    while left := _unbalanced(router):
        watch(Balancing(left, "collections", "balancing"))
        time.sleep(_POLL)
    watch(Balancing(0, "collections", "balanced", warning=_idle(router)))


def leave(router: Client, member: Member, watch: Watch) -> None:
    """Move a shard's chunks and databases to the others, even if the balancer is off, and remove it.

    `watch` gets the chunks left. BadInput for the last shard.
    """
    shard = shard_of(member.name)
    if not _staying(router, shard):
        raise BadInput("the last shard of a cluster cannot leave it", remedy="stop it with `loadframe cluster down`")
    with _balancing(router):
        while (answer := _removal(router, shard)) is not None:
            state = str(answer["state"])
            # The first answer does not contain the remaining chunks.
            if state != "started":
                remaining = answer.get("remaining") or {}
                left, stuck = (int(remaining.get(name) or 0) for name in ("chunks", "jumboChunks"))
                if state == "ongoing" and not left:
                    # movePrimary requires a shard without chunks.
                    for database in answer.get("dbsToMove") or ():
                        router.ask({"movePrimary": database, "to": _staying(router, shard)[0]})
                watch(Balancing(left, "chunks", f"{state}, {stuck} too large to move" if stuck else state))
            time.sleep(_POLL)


def stay(router: Client, member: Member) -> None:
    """Stop draining a shard; do nothing if it is removed already.

    Before version 8.3 the server lacks that command: draining continues, without an error.
    """
    try:
        router.ask({"stopShardDraining": shard_of(member.name)})
    except MongoError as error:
        if error.code not in (_NO_COMMAND, _NO_SHARD):
            raise


def health(router: Client, clients: Clients) -> Health:
    """Return the health: ready if each shard has all its members. Draining shards count as moving.

    Nodes are shards, `missing` are members. StoreFailed if a shard has no primary, Unreachable if none of its members
    answers.
    """
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
    """Return the addresses of the members of all shards."""
    hosts = [str(shard["host"]).partition("/")[2] for shard in router.ask({"listShards": 1})["shards"]]
    return [address for members_of_shard in hosts for address in members_of_shard.split(",")]


def configuration(router: Client) -> list[str]:
    """Return the addresses of the config servers; empty if the user lacks the privilege."""
    try:
        known = router.ask({"getShardMap": 1})["map"]
    except (MongoError, BadInput):
        return []
    return [address for address in str(known.get("config", "")).rpartition("/")[2].split(",") if address]


def _shard_health(host: str, clients: Clients) -> Health:
    """Return the health of a shard's set; `host` is NAME/ADDRESS,ADDRESS as in listShards.

    StoreFailed if it has no primary, Unreachable if no member answers.
    """
    addresses = host.partition("/")[2].split(",")
    return sets.health(sets.primary(addresses, clients))


def _removal(router: Client, shard: str) -> dict[str, Any] | None:
    """Start removing a shard, or continue; return the store's progress, or None once the shard is removed."""
    try:
        answer = router.ask({"removeShard": shard})
    except MongoError as error:
        if error.code == _NO_SHARD:
            return None
        raise
    return None if answer["state"] == "completed" else answer


def _staying(router: Client, shard: str) -> list[str]:
    """Return the ids of the other shards that are not being drained."""
    shards = router.ask({"listShards": 1})["shards"]
    return [str(other["_id"]) for other in shards if other["_id"] != shard and not other.get("draining")]


@contextlib.contextmanager
def _balancing(router: Client) -> Iterator[None]:
    """Run the balancer during the block, then stop it if it was off: only it moves the data of a leaving shard."""
    off = _is_off(router)
    if off:
        router.ask({"balancerStart": 1})
    try:
        yield
    finally:
        if off:
            router.ask({"balancerStop": 1})


def _is_off(router: Client) -> bool:
    """Whether the balancer is off."""
    return bool(router.ask({"balancerStatus": 1})["mode"] == "off")


def _sharded(router: Client) -> list[dict[str, Any]]:
    """Return the documents of `config.collections` on sharded collections, except internal ones; `_id` is the name."""
    condition = {"unsplittable": {"$ne": True}, "_id": {"$not": {"$regex": "^config\\."}}}
    answer = router.ask({"find": "collections", "filter": condition, "batchSize": 100_000}, "config")
    return list(answer["cursor"]["firstBatch"])


def _unbalanced(router: Client) -> int:
    """Return the number of sharded collections that the balancer has yet to balance."""
    states = [router.ask({"balancerCollectionStatus": entry["_id"]}) for entry in _sharded(router)]
    return sum(not state["balancerCompliant"] for state in states)


def _idle(router: Client) -> str:
    """Return a warning that names the shards without chunks of sharded collections; empty if there are none.

    Empty also without sharded collections.
    """
    collections = [entry["uuid"] for entry in _sharded(router)]
    held = router.ask({"distinct": "chunks", "key": "shard", "query": {"uuid": {"$in": collections}}}, "config")
    shards = {str(shard["_id"]) for shard in router.ask({"listShards": 1})["shards"]}
    idle = sorted(shards - set(held["values"]), key=by_number)
    if not collections or not idle:
        return ""
    return (
        f"{', '.join(idle)} hold{'s' if len(idle) == 1 else ''} no data: the balancer moves none between shards that"
        " differ by less than three chunks (128 MiB each, unless chunk_size is set)"
    )


def _names(router: Client) -> list[str]:
    """Return the names of the shards' replica sets."""
    return [str(shard["host"]).partition("/")[0] for shard in router.ask({"listShards": 1})["shards"]]


def _cluster(members: Sequence[Member], clients: Clients, watch: Watch) -> str:
    """Wait for the first config server in `members`, and return the cluster's name: its set's without `-config`."""
    config = next(clients(member.address) for member in members if member.role == CONFIG)
    sets.wait([config], watch)
    options = config.ask({"getCmdLineOpts": 1})["parsed"]
    return str(options["replication"]["replSetName"]).removesuffix(f"-{CONFIG}")


def _seeds(name: str, members: Sequence[Member]) -> str:
    """Return the connection string of a set, NAME/ADDRESS,ADDRESS."""
    return f"{name}/{','.join(member.address for member in members)}"
