"""Placement of shard copies on nodes, and their moves: each node with too few copies receives one at a time.

Time is an argument, so that the code runs in real and in virtual time. `advance` processes all events up to a time.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from loadframe.store.sim.model import SimModel


@dataclass
class Copy:
    """A copy of a shard. `node` is None if no node could hold it."""

    collection: str
    shard: int
    node: str | None


@dataclass
class Move:
    """A moving copy, by its index in `copies`. Times in s."""

    copy: int
    target: str
    begins: float
    ends: float


@dataclass
class Placement:
    """State of the cluster: present and future members, and the placement of data."""

    model: SimModel
    members: list[str] = field(default_factory=list)
    #: Nodes that are starting, and the time when each becomes a member.
    joining: dict[str, float] = field(default_factory=dict)
    copies: list[Copy] = field(default_factory=list)
    moves: list[Move] = field(default_factory=list)
    #: Nodes that must not hold data.
    excluded: set[str] = field(default_factory=set)
    #: Bytes of a copy by collection, unless the model fixes them.
    sizes: dict[str, float] = field(default_factory=dict)

    def start(self, node: str, now: float, *, founding: bool) -> None:
        """Register a started node as a member: now if it is a founder, else after the delay."""
        self.joining[node] = now if founding else now + self.model.join_delay

    def gone(self, nodes: Iterable[str], now: float) -> None:
        """Remove nodes that ended. Their data is missing until they return."""
        lost = set(nodes)
        self.members = [name for name in self.members if name not in lost]
        self.joining = {name: at for name, at in self.joining.items() if name not in lost}
        self.moves = [
            move for move in self.moves if move.target not in lost and self.copies[move.copy].node not in lost
        ]
        self._begin(now)

    def create(self, collection: str, shards: int, replicas: int, now: float) -> None:
        """Place the copies of a new collection, each on the member with the fewest copies and none of that shard."""
        for _ in range(1 + replicas):
            for shard in range(shards):
                self.copies.append(Copy(collection, shard, self._roomiest(collection, shard)))
        self._begin(now)

    def drop(self, collection: str, now: float) -> None:
        """Remove a collection's copies."""
        kept = [index for index, copy in enumerate(self.copies) if copy.collection != collection]
        place = {old: new for new, old in enumerate(kept)}
        self.moves = [
            Move(place[move.copy], move.target, move.begins, move.ends) for move in self.moves if move.copy in place
        ]
        self.copies = [self.copies[index] for index in kept]
        self._begin(now)

    def exclude(self, nodes: Iterable[str], now: float) -> None:
        """Set the nodes that must not hold data, and start moving it away."""
        self.excluded = set(nodes)
        self._begin(now)

    def advance(self, now: float) -> bool:
        """Process all events up to `now` in order; return whether anything changed."""
        changed = False
        while True:
            due = [(at, 0, name) for name, at in self.joining.items() if at <= now]
            due += [(move.ends, 1, str(index)) for index, move in enumerate(self.moves) if move.ends <= now]
            if not due:
                return changed
            at, kind, key = min(due)
            if kind == 0:
                del self.joining[key]
                self.members.append(key)
                self._place_unassigned()
            else:
                move = self.moves.pop(int(key))
                self.copies[move.copy].node = move.target
            self._begin(at)
            changed = True

    def next(self) -> float | None:
        """Return the time of the next event, or None."""
        return min([*self.joining.values(), *(move.ends for move in self.moves)], default=None)

    def counts(self) -> Counter[str]:
        """Return the number of copies on each member; a moving copy counts for its source."""
        counts = Counter(dict.fromkeys(self.members, 0))
        counts.update(copy.node for copy in self.copies if copy.node and copy.node in counts)
        return counts

    @property
    def missing(self) -> int:
        """Number of copies that no member holds."""
        return sum(copy.node not in self.members for copy in self.copies)

    def shards(self, collection: str) -> set[int]:
        """Return a collection's shards."""
        return {copy.shard for copy in self.copies if copy.collection == collection}

    def lost(self, collection: str) -> int:
        """Return the number of a collection's shards without a copy on a member."""
        there = {copy.shard for copy in self.copies if copy.collection == collection and copy.node in self.members}
        return len(self.shards(collection) - there)

    def shares(self) -> dict[str, float]:
        """Return each member's copies over its fair share; all 1 without data."""
        counts = self.counts()
        if not counts.total():
            return dict.fromkeys(self.members, 1.0)
        return {name: count * len(counts) / counts.total() for name, count in counts.items()}

    def moving(self) -> set[str]:
        """Return the nodes that send or receive data."""
        return {node for move in self.moves for node in (move.target, self.copies[move.copy].node) if node}

    def throughput(self) -> float:
        """Return requests per second with all servers busy, where a node with less than its share serves less.

        This is a fluid approximation while data moves; with balanced data it equals the model's throughput.
        """
        if not self.members:
            return 0.0
        per_member = self.model.throughput(len(self.members)) / len(self.members)
        busy = self.moving()
        return sum(
            per_member * min(share, 1.0) * (1 - self.model.move_cost if name in busy else 1.0)
            for name, share in self.shares().items()
        )

    def _place_unassigned(self) -> None:
        for copy in self.copies:
            if copy.node is None:
                copy.node = self._roomiest(copy.collection, copy.shard)

    def _roomiest(self, collection: str, shard: int) -> str | None:
        """Return the member with the fewest copies without a copy of that shard, or None."""
        there = {copy.node for copy in self.copies if (copy.collection, copy.shard) == (collection, shard)}
        counts = self.counts()
        free = [name for name in self.members if name not in there and name not in self.excluded]
        return min(free, key=lambda name: counts[name], default=None)

    def _begin(self, now: float) -> None:
        """Start a move to each node that has too few copies and receives none, from the node with the most."""
        while move := self._next_move():
            index, target = move
            size = self.model.shard_size or self.sizes.get(self.copies[index].collection, 0.0)
            self.moves.append(Move(index, target, now, now + size / self.model.bandwidth))

    def _next_move(self) -> tuple[int, str] | None:
        under_way = {move.copy for move in self.moves}
        taking = {move.target for move in self.moves}
        counts = self.counts()
        for move in self.moves:
            counts[move.target] += 1
            source = self.copies[move.copy].node
            if source and source in counts:
                counts[source] -= 1
        for target in sorted(self.members, key=lambda name: counts[name]):
            if target in taking or target in self.excluded:
                continue
            for source in sorted(self.members, key=lambda name: (name not in self.excluded, -counts[name])):
                if source not in self.excluded and counts[source] - counts[target] < 2:
                    continue
                for index, copy in enumerate(self.copies):
                    if copy.node == source and index not in under_way and not self._holds(target, copy):
                        return index, target
        return None

    def _holds(self, node: str, copy: Copy) -> bool:
        coming = [move.copy for move in self.moves if move.target == node]
        return any(
            (other.collection, other.shard) == (copy.collection, copy.shard) and (other.node == node or index in coming)
            for index, other in enumerate(self.copies)
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the state for `from_dict`, without the model and the sizes."""
        return {
            "members": self.members,
            "joining": self.joining,
            "copies": [asdict(copy) for copy in self.copies],
            "moves": [asdict(move) for move in self.moves],
            "excluded": sorted(self.excluded),
        }

    @classmethod
    def from_dict(cls, model: SimModel, content: Mapping[str, Any]) -> "Placement":
        """Restore a state from `as_dict`."""
        return cls(
            model,
            list(content["members"]),
            dict(content["joining"]),
            [Copy(**copy) for copy in content["copies"]],
            [Move(**move) for move in content["moves"]],
            set(content["excluded"]),
        )
