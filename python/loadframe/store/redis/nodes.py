"""A node of a Redis Cluster, parsed from CLUSTER NODES."""

from collections.abc import Mapping
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
