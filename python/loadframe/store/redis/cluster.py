"""How a Redis Cluster forms, and how its slots move while clients use them.

A slot moves as the store's own tool moves it: both nodes are told, its keys are sent over in batches, and then every
node is told who serves it. Meanwhile a client that asks the one node is sent to the other where that is right.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Self

from loadframe.base.errors import BadInput, LoadframeError, StoreFailed
from loadframe.store.access import split_address
from loadframe.store.base import Balancing, Health, Member, Unreachable, Watch
from loadframe.store.redis import routes
from loadframe.store.redis.client import Client
from loadframe.store.redis.nodes import ABSENT, SLOTS, RedisNode
from loadframe.store.redis.routes import Routes

#: Slots that are on their way at a time, and keys that one command sends over: it blocks its node meanwhile.
_SLOTS_AT_ONCE = 64
_KEYS_AT_ONCE = 100
#: Milliseconds that a node waits for the other while it sends keys.
_MIGRATION_TIMEOUT = 10_000
_POLL = 0.05

Clients = Callable[[str], Client]


@dataclass(frozen=True)
class Ring:
    """All nodes as one of them sees them."""

    nodes: tuple[RedisNode, ...]
    myself: RedisNode
    state: str  #: `ok` or `fail`, in the node's words

    @classmethod
    def read(cls, client: Client) -> Self:
        """Ask one node."""
        nodes = _known_to(client)
        return cls(nodes, _myself(nodes), client.look("CLUSTER INFO")["cluster_state"])

    @property
    def masters(self) -> list[RedisNode]:
        """Those that may serve slots, in the order of their addresses."""
        masters = (node for node in self.nodes if "master" in node.flags and not node.flags & ABSENT)
        return sorted(masters, key=lambda node: split_address(node.address))

    def serving(self, key: str) -> str:
        """Return the address of the node that serves a key."""
        slot = slot_of(key)
        for node in self.nodes:
            if any(slot in slots for slots in node.ranges):
                return node.address
        raise StoreFailed(f"no node serves the slot {slot}", remedy="see `loadframe cluster status`")

    def at(self, address: str) -> RedisNode | None:
        """Return the node at that address, if it is known."""
        return next((node for node in self.nodes if node.address == address), None)


def _known_to(client: Client) -> tuple[RedisNode, ...]:
    return tuple(RedisNode.parse(line) for line in client.look_at("CLUSTER NODES") if line)


def _myself(nodes: Sequence[RedisNode]) -> RedisNode:
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
    """Ready is that all slots are served, by nodes that can be reached."""
    present = [node for node in seen.nodes if node.present]
    served = sum(node.size for node in present)
    moving = len(seen.myself.migrating)
    for node in list(present):
        if node.ranges and node.address != seen.myself.address:
            try:
                moving += len(_myself(_known_to(clients(node.address))).migrating)
            except Unreachable:
                # The others have not seen yet that it is gone, or cut off.
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
    """Give each node its share of the slots, and have all meet."""
    wait(clients, watch)
    count = len(clients)
    for number, client in enumerate(clients):
        first, last = SLOTS * number // count, SLOTS * (number + 1) // count
        client.ask("CLUSTER ADDSLOTS", *range(first, last))
        # Founders with one epoch would have to quarrel over it.
        client.ask("CLUSTER SET-CONFIG-EPOCH", number + 1)
    meet(clients, members, watch)


def wait(clients: Sequence[Client], watch: Watch) -> None:
    """Wait until all nodes answer."""
    _until(lambda: all(_answers(client) for client in clients), watch, "starting")


def meet(clients: Sequence[Client], members: Sequence[Member], watch: Watch) -> None:
    """Have all nodes know each other at the addresses that they have now."""
    # Each to each: gossip, which would do the rest, takes a second or two.
    for number, client in enumerate(clients):
        for member in members[number + 1 :]:
            _introduce(client, member)
    _until(lambda: all(_sees(client, len(clients)) for client in clients), watch, "meeting")


def join(seen: Ring, member: Member, clients: Clients, watch: Watch) -> None:
    """Have a node meet the others, and wait until each knows each."""
    newcomer = clients(member.address)
    wait([newcomer], watch)
    mine = Ring.read(newcomer).myself.id
    _introduce(clients(seen.myself.address), member)
    everybody = {node.id for node in seen.nodes} | {mine}
    nodes = [newcomer, *(clients(node.address) for node in seen.nodes if node.present)]
    _until(lambda: all(everybody <= _met(node) for node in nodes), watch, "meeting")
    # A node serves nothing before it sees the cluster as sound, which a new one, and one that was just paused, puts off
    # for a second or two.
    _until(lambda: all(Ring.read(node).state == "ok" for node in nodes), watch, "meeting")


def balance(seen: Ring, clients: Clients, watch: Watch) -> None:
    """Finish what was begun, and move slots until no node has more than one above any other."""
    finish(seen, clients, watch)
    seen = Ring.read(clients(seen.myself.address))
    move(routes.balancing(seen.masters), seen.masters, clients, watch)


def finish(seen: Ring, clients: Clients, watch: Watch) -> None:
    """Finish moves that were broken off."""
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
    """Move all slots of a node to the others, to those first that have fewest."""
    finish(seen, clients, watch)
    seen = Ring.read(clients(seen.myself.address))
    leaving = seen.at(member.address)
    if leaving is None:
        return
    others = [node for node in seen.masters if node.id != leaving.id]
    if not others:
        raise BadInput("the last node of a cluster cannot leave it", remedy="stop it with `loadframe cluster down`")
    move(routes.leaving(leaving, others), seen.masters, clients, watch)


def forget(seen: Ring, member: Member, clients: Clients) -> None:
    """Have all others forget a node that is gone."""
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
    """Move slots with their keys, some at a time."""
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
    giver, taker = clients(source.address), clients(target.address)
    host, port = split_address(target.address)
    _tell(taker, [(slot, "IMPORTING", source.id) for slot in slots])
    _tell(giver, [(slot, "MIGRATING", target.id) for slot in slots])
    for keys in _keys(giver, slots):
        giver.ask("MIGRATE", host, port, "", 0, _MIGRATION_TIMEOUT, *taker.credentials, "KEYS", *keys)
    # The taker first: should all end here, it is better that two claim a slot than that nobody does.
    others = [node for node in masters if node.id not in (source.id, target.id)]
    for node in (target, source, *others):
        _tell(clients(node.address), [(slot, "NODE", target.id) for slot in slots])


def _keys(giver: Client, slots: Sequence[int]) -> Iterator[list[str]]:
    """Yield the keys in these slots, in batches of one slot; each batch has to be gone before the next is asked for."""
    while slots:
        batches = giver.ask_all([("CLUSTER GETKEYSINSLOT", slot, _KEYS_AT_ONCE) for slot in slots])
        yield from (keys for keys in batches if keys)
        slots = [slot for slot, keys in zip(slots, batches, strict=True) if keys]


def _tell(client: Client, words: Sequence[tuple[int, str, str]]) -> None:
    client.ask_all([("CLUSTER SETSLOT", *word) for word in words])


def _introduce(client: Client, member: Member) -> None:
    host, port = split_address(member.address)
    more = [split_address(member.peer_address)[1]] if member.peer_address else []
    client.ask("CLUSTER MEET", host, port, *more)


def _sees(client: Client, nodes: int) -> bool:
    seen = Ring.read(client)
    return len(seen.nodes) == nodes == sum(node.present for node in seen.nodes) and seen.state == "ok"


def _met(client: Client) -> set[str]:
    return {node.id for node in Ring.read(client).nodes if node.present}


def _answers(client: Client) -> bool:
    try:
        client.ask("PING")
    except Unreachable:
        return False
    return True


def _until(met: Callable[[], bool], watch: Watch, state: str) -> None:
    while not met():
        watch(Balancing(0, "slots", state))
        time.sleep(_POLL)
