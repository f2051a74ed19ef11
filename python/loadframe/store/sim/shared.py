"""Shared state of a simulated cluster's processes: a folder next to theirs, protected by one lock.

A request is admitted once, on arrival, and its end is then known: first come, first served needs only the time at which
each server becomes free (the Kiefer-Wolfowitz recursion).

All nodes see the same members, data and queues, though each answers its own clients. A node holds a file lock for its
lifetime; the kernel releases it however the process ends, which the others detect. The last node to leave removes the
folder. Each node keeps a copy of the state in its own folder, from which a cluster restarts.

Copies of shards move between nodes: each node with too few copies receives one at a time. Time is an argument, so that
the code runs in real and in virtual time.
"""

import contextlib
import fcntl
import json
import mmap
import os
import random
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from io import BufferedRandom
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from loadframe.base.errors import BadInput
from loadframe.store.sim.model import FOLDER, MOST_QUEUED, MOST_SERVERS, SimModel


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
        """Note when a started node becomes a member: at `now` if it is a founder, else `join_delay` later."""
        self.joining[node] = now if founding else now + self.model.join_delay

    def gone(self, nodes: Iterable[str], now: float) -> None:
        """Remove nodes that ended, also joining ones, and moves from or to them; start the moves that follow at `now`.

        Their copies stay assigned to them, and are missing until they return.
        """
        lost = set(nodes)
        self.members = [name for name in self.members if name not in lost]
        self.joining = {name: at for name, at in self.joining.items() if name not in lost}
        self.moves = [
            move for move in self.moves if move.target not in lost and self.copies[move.copy].node not in lost
        ]
        self._begin(now)

    def create(self, collection: str, shards: int, replicas: int, now: float) -> None:
        """Place the copies of a new collection, each on the member with the fewest copies and none of that shard.

        Each shard has 1 + `replicas` copies. Excluded members get none. Copies without such a member stay unassigned.
        `now` is the start of moves that follow.
        """
        for _ in range(1 + replicas):
            for shard in range(shards):
                self.copies.append(Copy(collection, shard, self._roomiest(collection, shard)))
        self._begin(now)

    def drop(self, collection: str, now: float) -> None:
        """Remove a collection's copies and their moves. `now` is the start of moves that follow."""
        kept = [index for index, copy in enumerate(self.copies) if copy.collection != collection]
        place = {old: new for new, old in enumerate(kept)}
        self.moves = [
            Move(place[move.copy], move.target, move.begins, move.ends) for move in self.moves if move.copy in place
        ]
        self.copies = [self.copies[index] for index in kept]
        self._begin(now)

    def exclude(self, nodes: Iterable[str], now: float) -> None:
        """Replace the set of nodes that must not hold data, and start moving data away from them at `now`.

        Unassigned copies are placed on nodes that may hold them now.
        """
        self.excluded = set(nodes)
        self._place_unassigned()
        self._begin(now)

    def advance(self, now: float) -> bool:
        """Process joins and ended moves up to `now` in order; return whether there were any."""
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
        """Return the time of the next join or end of a move, s on the clock of `now`; None if none is due."""
        return min([*self.joining.values(), *(move.ends for move in self.moves)], default=None)

    def counts(self) -> Counter[str]:
        """Return the number of copies on each member; a moving copy counts for its source, one of an ended node not."""
        counts = Counter(dict.fromkeys(self.members, 0))
        counts.update(copy.node for copy in self.copies if copy.node and copy.node in counts)
        return counts

    @property
    def missing(self) -> int:
        """Number of copies that no member holds."""
        return sum(copy.node not in self.members for copy in self.copies)

    def shards(self, collection: str) -> set[int]:
        """Return the numbers, from 0, of a collection's shards, also of lost ones; empty for an unknown collection."""
        return {copy.shard for copy in self.copies if copy.collection == collection}

    def lost(self, collection: str) -> int:
        """Return the number of a collection's shards without a copy on a member."""
        there = {copy.shard for copy in self.copies if copy.collection == collection and copy.node in self.members}
        return len(self.shards(collection) - there)

    def shares(self) -> dict[str, float]:
        """Return each member's number of copies over the mean of all members: 1 is a fair share; all 1 without data."""
        counts = self.counts()
        if not counts.total():
            return dict.fromkeys(self.members, 1.0)
        return {name: count * len(counts) / counts.total() for name, count in counts.items()}

    def moving(self) -> set[str]:
        """Return the nodes that send or receive data."""
        return {node for move in self.moves for node in (move.target, self.copies[move.copy].node) if node}

    def throughput(self) -> float:
        """Return requests per second of all members with all servers busy; a member below its fair share serves less.

        It serves its share in proportion; members that send or receive data lose `move_cost`. This is a fluid
        approximation while data moves; with balanced data it equals the model's throughput.
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
        """Assign each copy without a node to the member with the fewest copies that may hold it, if there is one."""
        for copy in self.copies:
            if copy.node is None:
                copy.node = self._roomiest(copy.collection, copy.shard)

    def _roomiest(self, collection: str, shard: int) -> str | None:
        """Return the member with the fewest copies that may hold data and has no copy of that shard, or None."""
        there = {copy.node for copy in self.copies if (copy.collection, copy.shard) == (collection, shard)}
        counts = self.counts()
        free = [name for name in self.members if name not in there and name not in self.excluded]
        return min(free, key=lambda name: counts[name], default=None)

    def _begin(self, now: float) -> None:
        """Start moves at `now` until none would improve the balance; a node that receives a copy gets no other.

        Copies move from excluded nodes, or else from the fullest. A move takes the copy's bytes (the model's
        `shard_size`, if set) over the model's `bandwidth`.
        """
        while move := self._next_move():
            index, target = move
            size = self.model.shard_size or self.sizes.get(self.copies[index].collection, 0.0)
            self.moves.append(Move(index, target, now, now + size / self.model.bandwidth))

    def _next_move(self) -> tuple[int, str] | None:
        """Return the index of the next copy to move and its target; None if no move improves the balance.

        Running moves count as done. Excluded nodes are emptied first; otherwise the source has at least 2 copies more
        than the target. A target takes one copy at a time, and no second copy of a shard.
        """
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
        """Whether a node holds a copy of the same collection and shard, or is receiving one."""
        coming = [move.copy for move in self.moves if move.target == node]
        return any(
            (other.collection, other.shard) == (copy.collection, copy.shard) and (other.node == node or index in coming)
            for index, other in enumerate(self.copies)
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the state as JSON values for `from_dict`, without the model and the sizes."""
        return {
            "members": self.members,
            "joining": self.joining,
            "copies": [asdict(copy) for copy in self.copies],
            "moves": [asdict(move) for move in self.moves],
            "excluded": sorted(self.excluded),
        }

    @classmethod
    def from_dict(cls, model: SimModel, content: Mapping[str, Any]) -> "Placement":
        """Return the placement in the result of `as_dict`."""
        return cls(
            model,
            list(content["members"]),
            dict(content["joining"]),
            [Copy(**copy) for copy in content["copies"]],
            [Move(**move) for move in content["moves"]],
            set(content["excluded"]),
        )


MOST_NODES = 64
#: Row of a node: the time when each server is free, the end of each present request, and the sums.
_ENDS = MOST_SERVERS + MOST_QUEUED
_SUMS = 4
_ROW = MOST_SERVERS + _ENDS + _SUMS
SIZE = MOST_NODES * _ROW * 8
COMPLETED, REJECTED, BUSY = range(3)


class Stations:
    """Queues of up to MOST_NODES nodes in a buffer of SIZE bytes, which processes may share under a lock."""

    def __init__(self, buffer: bytearray | mmap.mmap, model: SimModel) -> None:
        """View `buffer` as the nodes' queues; a new one must be zeroed. Writes go into it."""
        numbers = np.frombuffer(buffer, dtype=np.float64, count=MOST_NODES * _ROW)
        self._rows: npt.NDArray[np.float64] = numbers.reshape(MOST_NODES, _ROW)
        self._model = model
        self._most = model.servers + model.queue

    def clear(self, station: int) -> None:
        """Empty the queue of the node in row `station`, and reset its sums."""
        self._rows[station] = 0.0

    def admit(self, station: int, now: float, nodes: int, source: random.Random, *, moving: bool) -> float | None:
        """Queue a request that arrives at `now`, and return its end, s; None if the queue is full, which rejects it.

        `station` is the node's row, `nodes` the number of members, `source` draws the service time, and `moving` is
        whether the node sends or receives data.
        """
        row = self._rows[station]
        free = row[: self._model.servers]
        ends = row[MOST_SERVERS : MOST_SERVERS + self._most]
        sums = row[-_SUMS:]
        present = int(np.count_nonzero(ends > now)) + 1
        if present > self._most:
            sums[REJECTED] += 1
            return None
        server = int(free.argmin())
        work = self._model.draw(source) * self._model.slowdown(nodes, present, moving=moving)
        end = self._model.finish(max(now, float(free[server])), work)
        free[server] = end
        ends[int(ends.argmin())] = end
        sums[COMPLETED] += 1
        sums[BUSY] += work
        return end

    def load(self, station: int, now: float) -> tuple[int, int]:
        """Return the numbers of requests in service and waiting at `now`, of the node in row `station`."""
        row = self._rows[station]
        served = int(np.count_nonzero(row[: self._model.servers] > now))
        present = int(np.count_nonzero(row[MOST_SERVERS : MOST_SERVERS + self._most] > now))
        return served, max(present - served, 0)

    def sums(self, station: int) -> tuple[float, float, float]:
        """Return requests admitted, requests rejected, and seconds of work admitted, since the start of the node.

        `station` is the node's row.
        """
        completed, rejected, busy, _ = self._rows[station, -_SUMS:].tolist()
        return completed, rejected, busy


_STATE, _LOCK, _STATIONS, _KEPT = "state.json", "lock", "stations", "state.json"


class SharedState:
    """A node's view of the cluster's state. Use its members only inside `locked`."""

    def __init__(self, folder: Path, node: str, model: SimModel) -> None:
        """Create or open the shared folder below `folder`, which holds the nodes' folders, and lock this node's file.

        The lock shows the other nodes that this process lives. `start` then registers the node.
        """
        self._folder = folder / FOLDER
        self._own = folder / node
        self._node = node
        self._model = model
        #: Whether this node was a member of this cluster before.
        self.again = (self._own / _KEPT).exists()
        self._lock = self._enter()
        self._alive = (self._folder / f"{node}.alive").open("wb")
        fcntl.flock(self._alive, fcntl.LOCK_EX)
        self._seen = 0
        self.placement = Placement(model)
        #: Row of each node in the stations.
        self.slots: dict[str, int] = {}
        #: Documents, bytes and definitions by collection.
        self.documents: dict[str, int] = {}
        self.bytes: dict[str, int] = {}
        self.definitions: dict[str, Any] = {}
        #: Seed of the run in progress; the service times of each node follow from it and the node's name.
        self.seed = ""
        #: The number of seeds so far: a run with the seed of the one before draws the same numbers again.
        self.seeds = 0
        with (self._folder / _STATIONS).open("r+b") as file:
            shared = mmap.mmap(file.fileno(), SIZE + 8)
        self.stations = Stations(shared, model)
        #: Counts the written states.
        self._version = np.frombuffer(shared, dtype=np.int64, offset=SIZE)
        fcntl.flock(self._lock, fcntl.LOCK_UN)

    def _enter(self) -> BufferedRandom:
        """Create or open the shared folder and return its lock file, locked; retry if another node removes the folder.

        A node that starts again restores the state from its own copy if the shared one is gone. Creates the stations'
        file.
        """
        while True:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            try:
                lock = (self._folder / _LOCK).open("a+b")
            except FileNotFoundError:
                continue
            fcntl.flock(lock, fcntl.LOCK_EX)
            with contextlib.suppress(FileNotFoundError):
                if (self._folder / _LOCK).stat().st_ino == os.fstat(lock.fileno()).st_ino:
                    break
            lock.close()
        if self.again and not (self._folder / _STATE).exists():
            shutil.copy(self._own / _KEPT, self._folder / _STATE)
        with (self._folder / _STATIONS).open("ab") as file:
            file.truncate(SIZE + 8)
        return lock

    @contextlib.contextmanager
    def locked(self, now: float) -> Iterator[None]:
        """Hold the lock of all nodes during the block; `now` is the time of the simulation, s.

        Before the block, reads the state and processes events up to `now`; after it, saves changes. An error saves
        nothing.
        """
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        try:
            self._read()
            self.placement.sizes = {name: self._copy_size(name) for name in self.definitions}
            before = self._content()
            self.placement.advance(now)
            yield
            if self._content() != before:
                self._write()
        finally:
            fcntl.flock(self._lock, fcntl.LOCK_UN)

    @contextlib.contextmanager
    def queues(self) -> Iterator[Stations]:
        """Hold the lock of all nodes in the block, with the stored state read; yield the stations in shared memory.

        Changes to the rest of the state are not saved. Due events are not processed.
        """
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        try:
            self._read()
            yield self.stations
        finally:
            fcntl.flock(self._lock, fcntl.LOCK_UN)

    def start(self, now: float, *, founding: bool) -> None:
        """Register this node as started, in a free row of the stations, and remove ended nodes; call it in `locked`.

        A `founding` node, or one that starts again, is a member at once. BadInput if all 64 rows are taken.
        """
        self._bury({self._node, *self._dead()}, now)
        slot = next((slot for slot in range(MOST_NODES) if slot not in self.slots.values()), None)
        if slot is None:
            raise BadInput(f"a simulated cluster has at most {MOST_NODES} nodes", remedy="start fewer")
        self.slots[self._node] = slot
        self.stations.clear(slot)
        self.placement.start(self._node, now, founding=founding or self.again)

    def bury(self, now: float) -> None:
        """Remove nodes after their processes have ended; call it in `locked`."""
        if dead := self._dead():
            self._bury(dead, now)

    def _dead(self) -> set[str]:
        """Return the registered nodes, except this one, whose processes have ended."""
        return {name for name in self.slots if name != self._node and not self._is_alive(name)}

    def _bury(self, dead: set[str], now: float) -> None:
        """Remove ended nodes from the placement, and free their rows of the stations. Call it in `locked`.

        `now` is the time of the simulation, s, at which the moves that follow start.
        """
        self.placement.gone(dead, now)
        self.slots = {name: slot for name, slot in self.slots.items() if name not in dead}

    def leave(self, now: float) -> None:
        """Leave at the end of the process: save a copy of the state in the node's folder.

        Removes the shared folder if no other node is alive. Do not call it in `locked`.
        """
        with self.locked(now):
            self._bury({self._node}, now)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        (self._own / _KEPT).write_text((self._folder / _STATE).read_text())
        # Release the own lock before checking the others', so that the second of two that leave together removes it.
        self._alive.close()
        if not any(self._is_alive(path.name.removesuffix(".alive")) for path in self._folder.glob("*.alive")):
            shutil.rmtree(self._folder)
        fcntl.flock(self._lock, fcntl.LOCK_UN)

    def _is_alive(self, node: str) -> bool:
        """Whether a node's process holds its file lock."""
        try:
            with (self._folder / f"{node}.alive").open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except FileNotFoundError:
            return False
        return False

    def _copy_size(self, collection: str) -> float:
        """Return the bytes of a copy of one shard: the collection's bytes over its shards; 0 if unknown."""
        return self.bytes.get(collection, 0) / max(len(self.placement.shards(collection)), 1)

    def _read(self) -> None:
        """Replace this process's state by the stored one, unless no process has written since the last read."""
        path = self._folder / _STATE
        if (self._seen and self._seen == self._version[0]) or not path.exists():
            return
        content = json.loads(path.read_text())
        self._seen = int(self._version[0])
        self.placement = Placement.from_dict(self._model, content["placement"])
        self.slots = dict(content["slots"])
        self.documents = dict(content["documents"])
        self.bytes = dict(content["bytes"])
        self.definitions = dict(content["definitions"])
        self.seed, self.seeds = str(content.get("seed", "")), int(content.get("seeds", 0))

    def _content(self) -> str:
        """Return the state as JSON text."""
        return json.dumps(
            {
                "placement": self.placement.as_dict(),
                "slots": self.slots,
                "documents": self.documents,
                "bytes": self.bytes,
                "definitions": self.definitions,
                "seed": self.seed,
                "seeds": self.seeds,
            }
        )

    def _write(self) -> None:
        """Replace the stored state, and increment the shared version, so that other processes read it."""
        part = self._folder / f"{_STATE}.part"
        part.write_text(self._content())
        part.rename(self._folder / _STATE)
        self._version[0] += 1
        self._seen = int(self._version[0])
