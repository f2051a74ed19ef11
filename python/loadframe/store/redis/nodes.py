"""A node of a Redis Cluster, as CLUSTER NODES tells of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Self

SLOTS = 16384
#: Flags of nodes that are not members, or not yet, or not to be reached.
ABSENT = {"handshake", "noaddr", "fail"}


@dataclass(frozen=True)
class RedisNode:
    """A node as another sees it."""

    id: str
    address: str  #: host:port for clients
    flags: frozenset[str]
    connected: bool
    ranges: tuple[range, ...]  #: the slots that it serves
    migrating: Mapping[int, str]  #: slots that it gives away, and the ids of those that get them; its own view has them
    importing: Mapping[int, str]  #: slots that it gets, and the ids of those that give them; the same

    @cached_property
    def slots(self) -> frozenset[int]:
        """The slots that it serves, one by one: thousands, which who only counts them need not make."""
        return frozenset(chain.from_iterable(self.ranges))

    @property
    def size(self) -> int:
        """How many slots it serves."""
        return sum(map(len, self.ranges))

    @property
    def present(self) -> bool:
        """Whether it is a member that can be reached."""
        return self.connected and not self.flags & ABSENT

    @classmethod
    def parse(cls, line: str) -> Self:
        """Read a line of CLUSTER NODES."""
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
