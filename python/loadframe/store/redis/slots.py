"""Slots of a Redis Cluster: the nodes that hold them, and the moves for scaling and balancing.

Contiguous ranges keep the slot table short, which nodes exchange and clients cache.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Self

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
        """Whether it is a reachable member."""
        return self.connected and not self.flags & ABSENT

    @classmethod
    def parse(cls, line: str) -> Self:
        """Parse a line of CLUSTER NODES."""
        node, address, flags, _, _, _, _, link, *rest = line.split()
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
            address=address.partition("@")[0],
            flags=frozenset(flags.split(",")),
            connected="myself" in flags or link == "connected",
            ranges=tuple(ranges),
            migrating=migrating,
            importing=importing,
        )


#: Slots to move, by (source id, target id).
Routes = dict[tuple[str, str], list[int]]


def balancing_moves(nodes: Sequence[RedisNode]) -> Routes:
    """Return the moves after which nodes differ by one slot at most."""
    least, over = divmod(SLOTS, len(nodes))
    # The largest nodes keep the remainder, so that fewest slots move.
    by_size = sorted(nodes, key=lambda node: -node.size)
    share = {node.id: least + (place < over) for place, node in enumerate(by_size)}
    surplus = [(node, piece) for node in by_size for piece in _spare(node, node.size - share[node.id])]
    return _routes(surplus, by_size, {node.id: max(share[node.id] - node.size, 0) for node in by_size})


def leaving_moves(gone: RedisNode, others: Sequence[RedisNode]) -> Routes:
    """Return the moves that empty a node; its slots go first to the nodes with the fewest."""
    demand = dict.fromkeys((node.id for node in others), 0)
    sizes = {node.id: node.size for node in others}
    for _ in range(gone.size):
        target = min(sizes, key=lambda node: sizes[node])
        sizes[target] += 1
        demand[target] += 1
    return _routes([(gone, piece) for piece in gone.ranges], others, demand)


def _spare(node: RedisNode, count: int) -> list[range]:
    """Return `count` slots of a node: its shortest ranges, and the end of the next one."""
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
    """Distribute the ranges over the targets, with `demand` slots each, preferring ranges next to a target's own."""
    left = dict(demand)
    routes: Routes = {}
    rest: list[tuple[RedisNode, range]] = []

    def give(source: RedisNode, target: str, piece: range) -> None:
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
