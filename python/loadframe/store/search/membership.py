"""How nodes come to a cluster of the Elasticsearch family and leave it: shards allocated, votes taken and given."""

import os
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

from loadframe.base import nofollow
from loadframe.base.errors import BadInput, LoadframeError
from loadframe.base.units import counted, format_nodes, format_size
from loadframe.store.base import Balancing, Member, NodeSpec, Watch

#: Seconds between looks.
_POLL = 0.5
#: Looks in a row that must see nothing move, when the shards are spread and when they are not: the store begins to move
#: them a moment after a node has come.
_CALM, _CALM_UNEVEN = 2, 8
_EXCLUDED = "cluster.routing.allocation.exclude._name"
#: As many as this elect one of them, from that many nodes on; below one is enough, since two could not outvote each
#: other. More would only make elections slower.
_ELECTORS = 3
#: How nodes were told what they are before there was `node.roles`.
_SAID_BEFORE = ("node.master", "node.data", "node.ingest")
#: What a node is that nobody elects, beside holding data.
_ROLES = ["data", "ingest", "remote_cluster_client"]
#: Where a node reads the addresses of the others, again and again for as long as it knows no manager.
SEEDS = "config/unicast_hosts.txt"
#: Has it look there, and nowhere else: unset, the hosts would be this machine's first ports.
SEEDED = {"discovery.seed_hosts": [], "discovery.seed_providers": "file"}


def electors(nodes: int) -> int:
    """Return how many of that many nodes may be elected: 1 below three nodes, three from there on."""
    return _ELECTORS if nodes >= _ELECTORS else 1


def roles(node: NodeSpec, *, by_name: bool) -> dict[str, Any]:
    """Return the settings of a node that may not be elected; none of one that may, or where the user says what it is.

    Versions that do not know roles `by_name` have a setting for each.
    """
    if node.elects or any(key == "node.roles" or key in _SAID_BEFORE for key in node.settings):
        return {}
    return {"node.roles": _ROLES} if by_name else {"node.master": False}


def founders(node: NodeSpec) -> list[str]:
    """Return the names of those who elect the first manager of a new cluster."""
    return [name for name in node.founders if node.electors is None or name in node.electors]


class Request(Protocol):
    """SearchStore.request."""

    def __call__(
        self,
        addresses: Sequence[str],
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        timeout: float | None = None,
    ) -> Any:
        """Ask the first address that answers, and return its JSON."""


def seeds(peers: Iterable[str]) -> str:
    """Return the content of the file of addresses."""
    return "".join(f"{peer}\n" for peer in peers)


def introduce(members: Sequence[Member]) -> None:
    """Tell nodes that run where all of them are by now.

    The only voter may have come back at another port. It elects itself and looks for nobody, so the others, who wait
    for it where it was, have to look for it.
    """
    text = seeds(member.peer_address for member in members if member.peer_address)
    for member in members:
        if member.folder:
            member.call(_introduce, member.folder, text)


def _introduce(folder: Path, text: str) -> None:
    if os.path.lexists(folder / SEEDS):
        # In one step, since the node may be reading it.
        nofollow.rewrite_text(folder, SEEDS, text)


def join(request: Request, addresses: Sequence[str], member: Member, watch: Watch) -> None:
    """Return when the others list the node, and it answers with the same cluster."""
    while True:
        watch(Balancing(1, "nodes to join", f"waiting for {member.name}"))
        try:
            if member.name in names(request, addresses) and member.name in names(request, [member.address]):
                return
        except BadInput:
            raise
        except LoadframeError:
            # It does not listen yet, or the others elect a manager: the watch says when that has gone on too long.
            pass
        time.sleep(_POLL)


def balance(request: Request, addresses: Sequence[str], watch: Watch) -> None:
    """Return when no shard is on its way and the store has had a while to begin with another."""
    request(addresses, "POST", "/_cluster/reroute?metric=none")
    calm = 0
    while True:
        health = request(addresses, "GET", "/_cluster/health", timeout=10.0)
        moving = health["relocating_shards"] + health["initializing_shards"]
        shards = _shards(request, addresses)
        excess = _excess(shards)
        calm = 0 if moving or health["number_of_pending_tasks"] else calm + 1
        if calm == (_CALM_UNEVEN if excess else _CALM):
            watch(Balancing(0, "shards", health["status"], _uneven(shards)))
            return
        state = health["status"] + (_recovering(request, addresses) if moving else "")
        watch(Balancing(max(moving, excess), "shards", state))
        time.sleep(_POLL)


def leave(request: Request, addresses: Sequence[str], member: Member, watch: Watch) -> None:
    """Return when the node holds no shard; BadInput when copies would have no place without it."""
    _require_place(request, addresses, member)
    _exclude(request, addresses, _excluded(request, addresses) | {member.name})
    while left := _shards(request, addresses).get(member.name, 0):
        health = request(addresses, "GET", "/_cluster/health", timeout=10.0)
        watch(Balancing(left, "shards", health["status"] + _recovering(request, addresses)))
        time.sleep(_POLL)
    watch(Balancing(0, "shards", "taking its vote"))


def take_vote(request: Request, addresses: Sequence[str], name: str) -> None:
    """Have the cluster decide without a node.

    Without this two nodes could not become one, and a manager that is stopped would be missed for a while.
    """
    request(addresses, "POST", f"/_cluster/voting_config_exclusions?node_names={name}")


def give_votes(request: Request, addresses: Sequence[str], *, gone: bool) -> None:
    """Let all nodes decide again; with `gone` once the store sees that the one without a vote has left."""
    request(addresses, "DELETE", f"/_cluster/voting_config_exclusions?wait_for_removal={str(gone).lower()}")


def require_majority(request: Request, addresses: Sequence[str], nodes: int) -> None:
    """Have masters elected by a majority of that many nodes, in versions that do not count them themselves."""
    body = {"persistent": {"discovery.zen.minimum_master_nodes": majority(nodes)}}
    request(addresses, "PUT", "/_cluster/settings", body)


def majority(nodes: int) -> int:
    """Return how many of that many nodes are a majority: any two such groups share a node."""
    return nodes // 2 + 1


def allow(request: Request, addresses: Sequence[str], name: str) -> None:
    """Allow shards to a node again."""
    excluded = _excluded(request, addresses)
    if name in excluded:
        _exclude(request, addresses, excluded - {name})


def names(request: Request, addresses: Sequence[str], role: str = "data") -> list[str]:
    """Return the names of the nodes that may hold data, or of those that may be elected (`master`)."""
    nodes = request(addresses, "GET", f"/_nodes/{role}:true/none?filter_path=nodes.*.name", timeout=10.0)
    return [node["name"] for node in nodes.get("nodes", {}).values()]


def require_electors(request: Request, addresses: Sequence[str], member: Member) -> None:
    """BadInput when nobody could be elected without the node."""
    if set(names(request, addresses, "master")) <= {member.name}:
        raise BadInput(
            f"{member.name} cannot leave: it is the only node that may be elected to lead the others",
            remedy="take another node out; with three nodes or more three may be elected (`loadframe cluster down`, "
            "and `up` with --nodes 3)",
        )


def _shards(request: Request, addresses: Sequence[str]) -> Counter[str]:
    """Return how many copies of shards each node holds; one on its way counts where it comes from."""
    counts = Counter(dict.fromkeys(names(request, addresses), 0))
    for shard in request(addresses, "GET", "/_cat/shards?format=json&h=node,state", timeout=10.0):
        # A shard on its way reads `node-0 -> 127.0.0.1 IDENTITY node-1`.
        if shard["node"]:
            counts[shard["node"].split(" -> ")[0]] += 1
    return counts


def _excess(shards: Counter[str]) -> int:
    """Return how many shards lie on nodes that have more than their share."""
    share = -(-shards.total() // max(len(shards), 1))
    return sum(max(count - share, 0) for count in shards.values())


def _uneven(shards: Counter[str]) -> str:
    """Return what is wrong with the way in which shards at rest are spread, if anything."""
    empty = sorted(name for name, count in shards.items() if not count)
    if not empty or not shards.total():
        return ""
    have = ", ".join(f"{name} {count}" for name, count in sorted(shards.items()))
    cause = "there are fewer shards than nodes" if shards.total() < len(shards) else "the store moves none there"
    return f"{' and '.join(empty)} got no data, since {cause} ({have}); give the index as many shards as nodes"


def _recovering(request: Request, addresses: Sequence[str]) -> str:
    """Return how many bytes of the shards under way have arrived."""
    path = "/_cat/recovery?active_only=true&bytes=b&format=json&h=bytes_recovered,bytes_total"
    rows = request(addresses, "GET", path, timeout=10.0)
    done = sum(int(row["bytes_recovered"]) for row in rows)
    total = sum(int(row["bytes_total"]) for row in rows)
    return f", {format_size(done)} of {format_size(total)} copied" if rows else ""


def _require_place(request: Request, addresses: Sequence[str], member: Member) -> None:
    """BadInput when an index asks for more copies than the nodes that remain could hold."""
    remaining = len(set(names(request, addresses)) - {member.name})
    path = "/_all/_settings/index.number_of_replicas,index.auto_expand_replicas?flat_settings=true&expand_wildcards=all"
    for index, answer in sorted(request(addresses, "GET", path).items()):
        settings = answer["settings"]
        copies = 1 + int(settings["index.number_of_replicas"])
        if copies > remaining and settings.get("index.auto_expand_replicas", "false") == "false":
            raise BadInput(
                f"{member.name} cannot leave: {index} is kept in {counted(copies, 'copy', 'copies')},"
                f" and {format_nodes(remaining)} would remain",
                remedy=f"lower number_of_replicas of {index} to {remaining - 1}, or keep the node",
            )


def _excluded(request: Request, addresses: Sequence[str]) -> set[str]:
    settings = request(addresses, "GET", "/_cluster/settings?flat_settings=true")
    return set(filter(None, settings["persistent"].get(_EXCLUDED, "").split(",")))


def _exclude(request: Request, addresses: Sequence[str], names: set[str]) -> None:
    body = {"persistent": {_EXCLUDED: ",".join(sorted(names)) or None}}
    request(addresses, "PUT", "/_cluster/settings", body)
