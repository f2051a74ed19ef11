"""Formation of a Redis Cluster, and moving its slots under load.

Contiguous ranges keep the slot table short, which nodes exchange and clients cache.

A slot moves as with `redis-cli`: mark it on both nodes, send its keys in batches, then announce the new owner to all
nodes. Meanwhile the nodes redirect clients.

Functions raise the errors of `Client.ask`. `watch` gets the progress of waits, and may end them by an error. `seen` is
the cluster as one node reports it.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, islice
from typing import Self

from loadframe.base.errors import BadInput, LoadframeError, StoreFailed
from loadframe.store.access import join_address, split_address
from loadframe.store.base import Balancing, Health, Member, Unreachable, Watch
from loadframe.store.redis.client import Client

SLOTS = 16384
#: Flags of nodes that are unreachable or not yet members.
ABSENT = {"handshake", "noaddr", "fail"}


@dataclass(frozen=True)
class RedisNode:
    """A node as another node reports it."""

    id: str
    address: str  #: host:port for clients
    flags: frozenset[str]
    connected: bool
    ranges: tuple[range, ...]  #: its slots
    migrating: Mapping[int, str]  #: slots leaving it -> id of the target; only in a node's view of itself
    importing: Mapping[int, str]  #: slots coming to it -> id of the source; only in a node's view of itself

    @cached_property
    def slots(self) -> frozenset[int]:
        """Its slots one by one: up to 16,384, so use `size` to count them."""
        return frozenset(chain.from_iterable(self.ranges))

    @property
    def size(self) -> int:
        """Its number of slots."""
        return sum(map(len, self.ranges))

    @property
    def present(self) -> bool:
        """Whether it is a reachable member, in the view of the node that reports it."""
        return self.connected and not self.flags & ABSENT

    @classmethod
    def parse(cls, line: str) -> Self:
        """Return the node that a line of CLUSTER NODES describes.

        If the node does not know its own host, `address` is `:PORT`. Only the line of the node that was asked has marks
        of migrating and importing slots.
        """
        node, place, flags, _, _, _, _, link, *rest = line.split()
        # `ip:port@bus[,hostname]`, without brackets around an IPv6 address.
        host, _, port = place.partition("@")[0].rpartition(":")
        ranges: list[range] = []
        migrating: dict[int, str] = {}
        importing: dict[int, str] = {}
        for part in rest:
            if part.startswith("["):
                slot, arrow, other = part[1:-1].split("-", 2)
                (migrating if arrow == ">" else importing)[int(slot)] = other
            else:
                first, _, last = part.partition("-")
                ranges.append(range(int(first), int(last or first) + 1))
        return cls(
            id=node,
            address=join_address(host, port) if host else f":{port}",
            flags=frozenset(flags.split(",")),
            connected="myself" in flags or link == "connected",
            ranges=tuple(ranges),
            migrating=migrating,
            importing=importing,
        )


#: Slots to move, by (source id, target id).
Routes = dict[tuple[str, str], list[int]]


def balancing_moves(nodes: Sequence[RedisNode]) -> Routes:
    """Return the slots to move by (source id, target id), after which nodes differ by one slot at most.

    `nodes` are all masters, and have all slots. Moves as few slots as possible: the largest nodes keep the remainder.
    """
    least, over = divmod(SLOTS, len(nodes))
    # The largest nodes keep the remainder, so that fewest slots move.
    by_size = sorted(nodes, key=lambda node: -node.size)
    share = {node.id: least + (place < over) for place, node in enumerate(by_size)}
    surplus = [(node, piece) for node in by_size for piece in _spare(node, node.size - share[node.id])]
    return _routes(surplus, by_size, {node.id: max(share[node.id] - node.size, 0) for node in by_size})


def leaving_moves(gone: RedisNode, others: Sequence[RedisNode]) -> Routes:
    """Return the slots to move by (source id, target id), which empty the node `gone`.

    Each slot goes to the one of the `others` that then has the fewest.
    """
    demand = dict.fromkeys((node.id for node in others), 0)
    sizes = {node.id: node.size for node in others}
    for _ in range(gone.size):
        target = min(sizes, key=lambda node: sizes[node])
        sizes[target] += 1
        demand[target] += 1
    return _routes([(gone, piece) for piece in gone.ranges], others, demand)


def _spare(node: RedisNode, count: int) -> list[range]:
    """Return ranges of `count` slots in total that a node gives away: its shortest ranges, and the end of the next one.

    Empty if `count` is not above 0.
    """
    pieces: list[range] = []
    for piece in sorted(node.ranges, key=lambda piece: (len(piece), piece.start)):
        if count <= 0:
            break
        pieces.append(piece[-count:] if count < len(piece) else piece)
        count -= len(piece)
    return pieces


def _routes(
    surplus: Sequence[tuple[RedisNode, range]], targets: Sequence[RedisNode], demand: Mapping[str, int]
) -> Routes:
    """Return the slots to move by (source id, target id): `surplus` (source, range), distributed over the targets.

    `demand` is the number of slots for each target's id, in total at least those of `surplus`. A target preferably gets
    slots next to its own ranges.
    """
    left = dict(demand)
    routes: Routes = {}
    rest: list[tuple[RedisNode, range]] = []

    def give(source: RedisNode, target: str, piece: range) -> None:
        """Add a range to the route from `source` to `target`, and reduce the target's remaining demand."""
        routes.setdefault((source.id, target), []).extend(piece)
        left[target] -= len(piece)

    for source, whole in surplus:
        piece = whole
        # Nodes give away the ends of their ranges, so first return a range to the node that has the range before it.
        for node in targets:
            if any(slots.stop == piece.start for slots in node.ranges) and (taken := piece[: left[node.id]]):
                give(source, node.id, taken)
                piece = piece[len(taken) :]
        for node in targets:
            taken = piece[max(len(piece) - left[node.id], 0) :]
            if taken and any(slots.start == piece.stop for slots in node.ranges):
                give(source, node.id, taken)
                piece = piece[: len(piece) - len(taken)]
        if piece:
            rest.append((source, piece))
    for source, whole in rest:
        piece = whole
        for node in targets:
            if taken := piece[: left[node.id]]:
                give(source, node.id, taken)
                piece = piece[len(taken) :]
    return {route: sorted(slots) for route, slots in routes.items()}


#: Slots to move at a time, and keys per MIGRATE command, which blocks its node.
_SLOTS_AT_ONCE = 64
_KEYS_AT_ONCE = 100
#: Timeout between nodes while keys are sent, ms.
_MIGRATION_TIMEOUT = 10_000
_POLL = 0.05

Clients = Callable[[str], Client]


@dataclass(frozen=True)
class Ring:
    """All nodes of a cluster, as reported by one node."""

    nodes: tuple[RedisNode, ...]
    myself: RedisNode
    state: str  #: `ok` or `fail`

    @classmethod
    def read(cls, client: Client) -> Self:
        """Ask one node for its view of the cluster, and return it."""
        nodes = _nodes_known_to(client)
        return cls(nodes, _myself(nodes), client.look("CLUSTER INFO")["cluster_state"])

    @property
    def masters(self) -> list[RedisNode]:
        """All masters that are not failed or still joining, sorted by host (as text) and port."""
        masters = (node for node in self.nodes if "master" in node.flags and not node.flags & ABSENT)
        return sorted(masters, key=lambda node: split_address(node.address))

    def serving(self, key: str) -> str:
        """Return the address of the node that serves a key without a hash tag; StoreFailed without one."""
        slot = slot_of(key)
        for node in self.nodes:
            if any(slot in slots for slots in node.ranges):
                return node.address
        raise StoreFailed(f"no node serves the slot {slot}", remedy="see `loadframe cluster status`")

    def at(self, address: str) -> RedisNode | None:
        """Return the node at that address (host:port); None if it is unknown."""
        return next((node for node in self.nodes if node.address == address), None)


def _nodes_known_to(client: Client) -> tuple[RedisNode, ...]:
    """Return all nodes in a node's CLUSTER NODES; its own missing host is filled in."""
    nodes = (RedisNode.parse(line) for line in client.look_at("CLUSTER NODES") if line)
    # A node that has met no other node does not know its own host.
    host = client.address.rpartition(":")[0]
    return tuple(replace(node, address=host + node.address) if node.address[0] == ":" else node for node in nodes)


def _myself(nodes: Sequence[RedisNode]) -> RedisNode:
    """Return the node that reported these nodes."""
    return next(node for node in nodes if "myself" in node.flags)


def slot_of(key: str) -> int:
    """Return the slot of a key without a hash tag: its CRC-16/XMODEM modulo 16,384."""
    crc = 0
    for byte in key.encode():
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ 0x1021 if crc & 0x8000 else crc << 1) & 0xFFFF
    return crc % SLOTS


def health(seen: Ring, clients: Clients) -> Health:
    """Return the cluster's health: ready if all nodes are reachable and serve all slots, and the state is ok.

    `seen` is one node's view; each node in it with slots is queried, too, and its slots are missing if it does not
    answer. `moving` and `missing` are numbers of slots.
    """
    present = [node for node in seen.nodes if node.present]
    served = sum(node.size for node in present)
    moving = len(seen.myself.migrating)
    for node in list(present):
        if node.ranges and node.address != seen.myself.address:
            try:
                moving += len(_myself(_nodes_known_to(clients(node.address))).migrating)
            except Unreachable:
                # The other nodes have not noticed yet that it is down or cut off.
                present.remove(node)
                served -= node.size
    complete = served == SLOTS and len(present) == len(seen.nodes)
    return Health(
        ready=complete and seen.state == "ok",
        status=seen.state,
        nodes=len(present),
        moving=moving,
        missing=SLOTS - served,
        piece=("hash slot", "hash slots"),
    )


def form(clients: Sequence[Client], members: Sequence[Member], watch: Watch) -> None:
    """Wait for all nodes, assign each a range of slots, equal up to one slot, and introduce them to each other.

    Returns when all nodes see a complete cluster. `clients` are the clients of `members`, in the same order.
    """
    wait(clients, watch)
    count = len(clients)
    for number, client in enumerate(clients):
        first, last = SLOTS * number // count, SLOTS * (number + 1) // count
        client.ask("CLUSTER ADDSLOTS", *range(first, last))
        # Founders with equal epochs would first have to resolve the conflict.
        client.ask("CLUSTER SET-CONFIG-EPOCH", number + 1)
    meet(clients, members, watch)


def wait(clients: Sequence[Client], watch: Watch) -> None:
    """Wait until all nodes answer PING; `watch` is called between attempts, and may raise an error to end the wait."""
    _until(lambda: all(_answers(client) for client in clients), watch, "starting")


def meet(clients: Sequence[Client], members: Sequence[Member], watch: Watch) -> None:
    """Send CLUSTER MEET for all pairs of nodes, and wait until all see a complete cluster in state ok.

    `clients` are the clients of `members`, in the same order.
    """
    # All pairs, because waiting for gossip takes a second or two.
    for number, client in enumerate(clients):
        for member in members[number + 1 :]:
            _introduce(client, member)
    _until(lambda: all(_sees(client, len(clients)) for client in clients), watch, "meeting")


def join(seen: Ring, member: Member, clients: Clients, watch: Watch) -> None:
    """Wait for a node, introduce it to the cluster, and wait until the reachable nodes see all nodes in state ok.

    `seen` is one node's view of the cluster. All its nodes must be reachable, or become so. There is no time limit;
    `watch` ends the wait by an error.
    """
    newcomer = clients(member.address)
    wait([newcomer], watch)
    mine = Ring.read(newcomer).myself.id
    _introduce(clients(seen.myself.address), member)
    ids = {node.id for node in seen.nodes} | {mine}
    nodes = [newcomer, *(clients(node.address) for node in seen.nodes if node.present)]
    _until(lambda: all(ids <= _present_ids(node) for node in nodes), watch, "meeting")
    # A node serves requests only once it considers the cluster ok, which takes a new or paused node a second or two.
    _until(lambda: all(Ring.read(node).state == "ok" for node in nodes), watch, "meeting")


def balance(seen: Ring, clients: Clients, watch: Watch) -> None:
    """Finish interrupted moves, then move slots until nodes differ by one slot at most."""
    finish(seen, clients, watch)
    seen = Ring.read(clients(seen.myself.address))
    move(balancing_moves(seen.masters), seen.masters, clients, watch)


def finish(seen: Ring, clients: Clients, watch: Watch) -> None:
    """Complete interrupted moves of slots, and clear the other migrating and importing marks.

    A move is completed if its source still has the slot and its target is one of the masters.
    """
    by_id = {node.id: node for node in seen.masters}
    views = {node.id: Ring.read(clients(node.address)).myself for node in seen.masters}
    begun: Routes = {}
    for view in views.values():
        for slot, target in view.migrating.items():
            if target in by_id and slot in view.slots:
                begun.setdefault((view.id, target), []).append(slot)
    if begun:
        move(begun, seen.masters, clients, watch)
    for view in (Ring.read(clients(node.address)).myself for node in seen.masters):
        for slot in {**view.migrating, **view.importing}:
            clients(by_id[view.id].address).ask("CLUSTER SETSLOT", slot, "STABLE")


def leave(seen: Ring, member: Member, clients: Clients, watch: Watch) -> None:
    """Complete interrupted moves of all nodes, then move the slots of `member`, if it is known, to the others.

    The nodes with the fewest slots get them first. The node stays a member. BadInput for the last node.
    """
    finish(seen, clients, watch)
    seen = Ring.read(clients(seen.myself.address))
    leaving = seen.at(member.address)
    if leaving is None:
        return
    others = [node for node in seen.masters if node.id != leaving.id]
    if not others:
        raise BadInput("the last node of a cluster cannot leave it", remedy="stop it with `loadframe cluster down`")
    move(leaving_moves(leaving, others), seen.masters, clients, watch)


def forget(seen: Ring, member: Member, clients: Clients) -> None:
    """Send CLUSTER FORGET for a removed node to all reachable nodes; do nothing if it is unknown.

    Nodes that do not know it are skipped.
    """
    gone = seen.at(member.address)
    if gone is None:
        return
    for node in seen.nodes:
        if node.id != gone.id and node.present:
            try:
                clients(node.address).ask("CLUSTER FORGET", gone.id)
            except LoadframeError as error:
                if "Unknown node" not in error.what:
                    raise


def move(planned: Routes, masters: Sequence[RedisNode], clients: Clients, watch: Watch) -> None:
    """Move slots, by (source id, target id), with their keys, 64 at a time; `watch` gets the slots left.

    `masters` include all sources and targets; all of them get the new owners.
    """
    nodes = {node.id: node for node in masters}
    left = sum(len(slots) for slots in planned.values())
    watch(Balancing(left, "slots"))
    for (source, target), slots in planned.items():
        coming = iter(slots)
        while some := list(islice(coming, _SLOTS_AT_ONCE)):
            _move(some, nodes[source], nodes[target], masters, clients)
            left -= len(some)
            watch(Balancing(left, "slots", f"{nodes[source].address} to {nodes[target].address}"))


def _move(
    slots: Sequence[int], source: RedisNode, target: RedisNode, masters: Sequence[RedisNode], clients: Clients
) -> None:
    """Move slots with their keys from one master to another, then tell the new owner to all masters."""
    giver, taker = clients(source.address), clients(target.address)
    host, port = split_address(target.address)
    _tell(taker, [(slot, "IMPORTING", source.id) for slot in slots])
    _tell(giver, [(slot, "MIGRATING", target.id) for slot in slots])
    for keys in _keys(giver, slots):
        giver.ask("MIGRATE", host, port, "", 0, _MIGRATION_TIMEOUT, *taker.credentials, "KEYS", *keys)
    # The target first: if this is interrupted, two owners of a slot are better than none.
    others = [node for node in masters if node.id not in (source.id, target.id)]
    for node in (target, source, *others):
        _tell(clients(node.address), [(slot, "NODE", target.id) for slot in slots])


def _keys(giver: Client, slots: Sequence[int]) -> Iterator[list[str]]:
    """Yield batches of keys in these slots, one slot each. The caller must move a batch before it takes the next."""
    while slots:
        batches = giver.ask_all([("CLUSTER GETKEYSINSLOT", slot, _KEYS_AT_ONCE) for slot in slots])
        yield from (keys for keys in batches if keys)
        slots = [slot for slot, keys in zip(slots, batches, strict=True) if keys]


def _tell(client: Client, words: Sequence[tuple[int, str, str]]) -> None:
    """Send CLUSTER SETSLOT for each (slot, state, node id); states are IMPORTING, MIGRATING and NODE."""
    client.ask_all([("CLUSTER SETSLOT", *word) for word in words])


def _introduce(client: Client, member: Member) -> None:
    """Make a node contact another one, with CLUSTER MEET."""
    host, port = split_address(member.address)
    more = [split_address(member.peer_address)[1]] if member.peer_address else []
    client.ask("CLUSTER MEET", host, port, *more)


def _sees(client: Client, nodes: int) -> bool:
    """Whether a node sees exactly `nodes` nodes, with itself, all of them reachable, and the cluster in state ok."""
    seen = Ring.read(client)
    return len(seen.nodes) == nodes == sum(node.present for node in seen.nodes) and seen.state == "ok"


def _present_ids(client: Client) -> set[str]:
    """Return the ids of the nodes that a node considers reachable members."""
    return {node.id for node in Ring.read(client).nodes if node.present}


def _answers(client: Client) -> bool:
    """Whether a server answers PING; other errors than Unreachable are raised."""
    try:
        client.ask("PING")
    except Unreachable:
        return False
    return True


def _until(met: Callable[[], bool], watch: Watch, state: str) -> None:
    """Poll `met` every 0.05 s until it returns True, without a time limit; `watch` gets `state` meanwhile."""
    while not met():
        watch(Balancing(0, "slots", state))
        time.sleep(_POLL)
