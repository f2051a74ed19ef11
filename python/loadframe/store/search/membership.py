"""Nodes that join and leave clusters of Elasticsearch and OpenSearch: shard allocation and votes.

Functions that send requests raise the errors of `SearchStore.request`.
"""

import os
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

from loadframe.base import nofollow
from loadframe.base.errors import BadInput, LoadframeError
from loadframe.base.units import by_number, counted, format_nodes, format_size
from loadframe.store.base import Balancing, Member, NodeSpec, Watch

#: Poll interval, s.
_POLL = 0.5
#: Polls in a row without moving shards that mean "balanced", for evenly and unevenly spread shards: the store starts to
#: move shards a moment after a node has joined.
_CALM, _CALM_UNEVEN = 2, 8
_EXCLUDED = "cluster.routing.allocation.exclude._name"
#: Number of electable nodes in a cluster of at least that size. Smaller clusters have one, since two cannot form a
#: majority over one another. More would only slow elections.
_ELECTORS = 3
#: Role settings before `node.roles`.
_OLD_ROLES = ("node.master", "node.data", "node.ingest")
#: Roles of a data node that is not electable.
_ROLES = ["data", "ingest", "remote_cluster_client"]
#: File with the addresses of the other nodes. A node rereads it while it knows no manager.
SEEDS = "config/unicast_hosts.txt"
#: Restrict discovery to that file. Without `seed_hosts`, a node would also try the first ports of this machine.
SEEDED = {"discovery.seed_hosts": [], "discovery.seed_providers": "file"}


def electors(nodes: int) -> int:
    """Return the number of electable nodes: 1 below three nodes, else 3."""
    return _ELECTORS if nodes >= _ELECTORS else 1


def roles(node: NodeSpec, *, by_name: bool) -> dict[str, Any]:
    """Return the role settings of a node that is not electable; empty if it is, or if the user sets any role.

    `by_name` is whether the version supports `node.roles`; older versions have a setting for each role.
    """
    if node.elects or any(key == "node.roles" or key in _OLD_ROLES for key in node.settings):
        return {}
    return {"node.roles": _ROLES} if by_name else {"node.master": False}


def founders(node: NodeSpec) -> list[str]:
    """Return the names of the founders that can be elected; they elect a new cluster's first manager."""
    return [name for name in node.founders if node.electors is None or name in node.electors]


class Request(Protocol):
    """Type of `SearchStore.request`."""

    def __call__(
        self,
        addresses: Sequence[str],
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        timeout: float | None = None,
    ) -> Any:
        """Send a request to the first address that answers, and return its JSON."""


def seeds(peers: Iterable[str]) -> str:
    """Return the content of the file SEEDS: each `address:peer_port` on a line."""
    return "".join(f"{peer}\n" for peer in peers)


def introduce(members: Sequence[Member]) -> None:
    """Replace the file SEEDS, if there is one, in each node's folder by the current peer addresses of all nodes.

    The only voter may restart on another port. It elects itself without contacting the others, which would wait for it
    at its old address.
    """
    text = seeds(member.peer_address for member in members if member.peer_address)
    for member in members:
        if member.folder:
            member.call(_introduce, member.folder, text)


def _introduce(folder: Path, text: str) -> None:
    """Replace the file SEEDS in a node's folder by `text`, if the node has such a file."""
    if os.path.lexists(folder / SEEDS):
        # Atomically, since the node may be reading the file.
        nofollow.rewrite_text(folder, SEEDS, text)


def join(request: Request, addresses: Sequence[str], member: Member, watch: Watch) -> None:
    """Wait until both the nodes at `addresses` and the node itself list it as a data node.

    Unanswered and refused requests are repeated, except for BadInput; `watch` limits the time.
    """
    while True:
        watch(Balancing(1, "nodes to join", f"waiting for {member.name}"))
        try:
            if member.name in names(request, addresses) and member.name in names(request, [member.address]):
                return
        except BadInput:
            raise
        except LoadframeError:
            # The node does not listen yet, or the others elect a manager; `watch` limits the time.
            pass
        time.sleep(_POLL)


def balance(request: Request, addresses: Sequence[str], watch: Watch) -> None:
    """Make the store reassign shards, and wait until none has moved for 2 polls, or 8 if they are spread unevenly.

    A poll takes 0.5 s or more. Copies whose assignment the store delays count as moving. `watch` gets the shards left;
    its last call has a warning if nodes hold no shards.
    """
    request(addresses, "POST", "/_cluster/reroute?metric=none")
    calm = 0
    while True:
        health = request(addresses, "GET", "/_cluster/health", timeout=10.0)
        # The store waits a minute for a node that left before it assigns its copies again.
        delayed = health.get("delayed_unassigned_shards", 0)
        moving = health["relocating_shards"] + health["initializing_shards"] + delayed
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
    """Exclude the node from holding shards, and wait until it has none; `watch` gets the shards left.

    BadInput if the others cannot hold all copies.
    """
    _require_place(request, addresses, member)
    _exclude(request, addresses, _excluded(request, addresses) | {member.name})
    while left := _shards(request, addresses).get(member.name, 0):
        health = request(addresses, "GET", "/_cluster/health", timeout=10.0)
        watch(Balancing(left, "shards", health["status"] + _recovering(request, addresses)))
        time.sleep(_POLL)
    watch(Balancing(0, "shards", "removing its vote"))


def take_vote(request: Request, addresses: Sequence[str], name: str, *, in_query: bool) -> None:
    """Exclude a node from elections by its name.

    Otherwise a cluster of two nodes could not shrink to one, and stopping the manager would interrupt the cluster.
    `give_votes` undoes it. `in_query` is whether the product expects the name in the query, or else in the path.
    """
    place = f"?node_names={name}" if in_query else f"/{name}"
    request(addresses, "POST", f"/_cluster/voting_config_exclusions{place}")


def give_votes(request: Request, addresses: Sequence[str], *, gone: bool) -> None:
    """Clear the list of nodes without a vote; with `gone`, the store first waits until these have left."""
    request(addresses, "DELETE", f"/_cluster/voting_config_exclusions?wait_for_removal={str(gone).lower()}")


def require_majority(request: Request, addresses: Sequence[str], nodes: int) -> None:
    """Set the persistent election quorum to a majority of `nodes`, for versions that do not determine it themselves."""
    body = {"persistent": {"discovery.zen.minimum_master_nodes": majority(nodes)}}
    request(addresses, "PUT", "/_cluster/settings", body)


def majority(nodes: int) -> int:
    """Return the size of a majority of `nodes`; any two majorities share a node."""
    return nodes // 2 + 1


def allow(request: Request, addresses: Sequence[str], name: str) -> None:
    """Allow shards on the node of that name again."""
    excluded = _excluded(request, addresses)
    if name in excluded:
        _exclude(request, addresses, excluded - {name})


def names(request: Request, addresses: Sequence[str], role: str = "data") -> list[str]:
    """Return the names of the nodes with a role, in the store's order: `data`, or `master` for electable nodes."""
    nodes = request(addresses, "GET", f"/_nodes/{role}:true/none?filter_path=nodes.*.name", timeout=10.0)
    return [node["name"] for node in nodes.get("nodes", {}).values()]


def require_electors(request: Request, addresses: Sequence[str], member: Member) -> None:
    """Raise BadInput if the node is the only electable one."""
    if set(names(request, addresses, "master")) <= {member.name}:
        raise BadInput(
            f"{member.name} cannot leave: it is the only node that can be elected to lead the others",
            remedy="remove another node, or start a cluster with --nodes 3: from three nodes on, three are electable",
        )


def _shards(request: Request, addresses: Sequence[str]) -> Counter[str]:
    """Return the number of shard copies by data node, also 0; a moving shard counts for its source.

    Unassigned copies are not counted.
    """
    counts = Counter(dict.fromkeys(names(request, addresses), 0))
    for shard in request(addresses, "GET", "/_cat/shards?format=json&h=node,state", timeout=10.0):
        # A moving shard has `node-0 -> 127.0.0.1 IDENTITY node-1`.
        if shard["node"]:
            counts[shard["node"].split(" -> ")[0]] += 1
    return counts


def _excess(shards: Counter[str]) -> int:
    """Return the number of copies above an even share per node, which is rounded up."""
    share = -(-shards.total() // max(len(shards), 1))
    return sum(max(count - share, 0) for count in shards.values())


def _uneven(shards: Counter[str]) -> str:
    """Return a warning about nodes without shards; empty if each node has some, or if no shards exist."""
    empty = sorted((name for name, count in shards.items() if not count), key=by_number)
    if not empty or not shards.total():
        return ""
    have = ", ".join(f"{name} {shards[name]}" for name in sorted(shards, key=by_number))
    cause = "the index has fewer shards than nodes" if shards.total() < len(shards) else "the store moves none there"
    return f"{' and '.join(empty)} got no data, since {cause} ({have}); give the index as many shards as nodes"


def _recovering(request: Request, addresses: Sequence[str]) -> str:
    """Ask for the copied part of the moving shards; return `, 12 MB of 34 MB copied`, or empty text if none moves."""
    path = "/_cat/recovery?active_only=true&bytes=b&format=json&h=bytes_recovered,bytes_total"
    rows = request(addresses, "GET", path, timeout=10.0)
    done = sum(int(row["bytes_recovered"]) for row in rows)
    total = sum(int(row["bytes_total"]) for row in rows)
    return f", {format_size(done)} of {format_size(total)} copied" if rows else ""


def _require_place(request: Request, addresses: Sequence[str], member: Member) -> None:
    """Raise BadInput if an index has more copies, with the primary, than nodes would remain without `member`.

    An index whose number of replicas the store adapts is not checked; hidden and closed indices are.
    """
    remaining = len(set(names(request, addresses)) - {member.name})
    path = "/_all/_settings/index.number_of_replicas,index.auto_expand_replicas?flat_settings=true&expand_wildcards=all"
    for index, answer in sorted(request(addresses, "GET", path).items()):
        settings = answer["settings"]
        copies = 1 + int(settings["index.number_of_replicas"])
        if copies > remaining and settings.get("index.auto_expand_replicas", "false") == "false":
            raise BadInput(
                f"{member.name} cannot leave: {index} has {counted(copies, 'copy', 'copies')},"
                f" and {format_nodes(remaining)} would remain",
                remedy=f"lower number_of_replicas of {index} to {remaining - 1}, or keep the node",
            )


def _excluded(request: Request, addresses: Sequence[str]) -> set[str]:
    """Return the names of the nodes that a cluster setting excludes from holding shards."""
    settings = request(addresses, "GET", "/_cluster/settings?flat_settings=true")
    return set(filter(None, settings["persistent"].get(_EXCLUDED, "").split(",")))


def _exclude(request: Request, addresses: Sequence[str], names: set[str]) -> None:
    """Set the nodes that may not hold shards, by a persistent cluster setting; the empty set resets it."""
    body = {"persistent": {_EXCLUDED: ",".join(sorted(names)) or None}}
    request(addresses, "PUT", "/_cluster/settings", body)
