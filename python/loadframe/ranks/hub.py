"""Rank 0's thread that talks to the others, and what the rest of rank 0 asks of it."""

import contextlib
import os
import queue
import select
import signal
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from loadframe import interrupts
from loadframe.errors import BadInput
from loadframe.ranks.environment import Place
from loadframe.ranks.messages import Header
from loadframe.ranks.phase import PhaseOfRanks
from loadframe.ranks.station import Station
from loadframe.ranks.top import Top
from loadframe.ranks.world import RankLost, World

T = TypeVar("T")

#: How often ranks above 0 hear that rank 0 is there, s.
_BEAT = 2.0
#: How long rank 0 waits for all ranks to come, s.
_COMING = 120.0
#: How long it waits for the last words of ranks when the job is over, s.
_LAST_WORDS = 0.5
#: How long it waits for all to leave, s.
_LEAVING = 10.0


@dataclass(frozen=True)
class Rank:
    """A rank of those that were started, and its machine; `boot` tells machines' clocks apart."""

    rank: int
    machine: str
    boot: str
    cores: tuple[int, ...]
    version: str
    engine: int


class _Told(Station):
    """The station of rank 0: here all introductions arrive."""

    def __init__(self, world: World, all_here: "Future[list[Header]]") -> None:
        self._all_here = all_here
        self.farewells: set[int] = set()
        super().__init__(world)
        self.handlers["farewell"] = lambda source, *_: self.farewells.add(source)

    def introduced(self, introductions: list[Header]) -> None:
        self._all_here.set_result(introductions)


class Hub:
    """All ranks, for the main thread of rank 0. A context manager; leaving it ends the others."""

    def __init__(self, place: Place, lifeline: int) -> None:
        """Come together in the background; `lifeline` is the pipe that says when the launcher ends the job."""
        self.size = place.size
        self._place = place
        self._lifeline = lifeline
        self._work: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._ears, self._bell = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._all_here: Future[list[Header]] = Future()
        self._numbers = count()
        self._leaving = False
        #: Why no phase can be run any more.
        self.broken: str | None = None
        self.library = ""
        self._thread = threading.Thread(target=self._run, name="ranks", daemon=True)

    def __enter__(self) -> Self:
        global _present  # noqa: PLW0603 - a process is one rank of one world
        _present = self
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        global _present  # noqa: PLW0603
        _present = None
        self._leaving = True
        self._ring()
        self._thread.join(_LEAVING)

    def ranks(self) -> tuple[Rank, ...]:
        """Return all ranks, when all have come. BadInput if their versions differ; RankLost if some do not come."""
        until = time.monotonic() + _COMING
        while not self._all_here.done() and time.monotonic() < until and not self.broken:
            interrupts.check()
            time.sleep(0.02)
        if not self._all_here.done():
            raise RankLost(
                self.broken or f"not all of {self.size} ranks came together within {_COMING:.0f} s",
                remedy="see what the launcher says, and start them again",
            )
        told = self._all_here.result()
        return _alike(
            tuple(Rank(t["rank"], t["machine"], t["boot"], tuple(t["cores"]), t["version"], t["engine"]) for t in told)
        )

    def choose(self, number: int | None) -> tuple[Rank, ...]:
        """Return so many of the ranks, evenly from all machines; BadInput if fewer were started. None: all."""
        ranks = self.ranks()
        if number is None:
            return ranks
        if number > len(ranks):
            raise BadInput(
                f"{number} ranks are asked for, and {len(ranks)} were started",
                remedy=f"start {number}, with --ranks {number}, mpirun -n {number} or srun --ntasks={number}",
            )
        return evenly(ranks, number)

    def require_whole(self) -> None:
        """Raise RankLost if ranks are gone: no phase could be run."""
        if self.broken:
            raise RankLost(self.broken, remedy="start the ranks again")

    def phase(
        self, plan: Mapping[str, Any], folder: Path, ranks: Sequence[Rank], cores: Collection[int] | None
    ) -> PhaseOfRanks:
        """Begin a phase on these ranks, the first of which is rank 0, and return it.

        `cores`: those that the load has on the machine of rank 0. Raises what the engine raises, with the rank in
        words; BadInput if some cannot reach a node or their clocks cannot be compared; RankLost.
        """
        self.require_whole()
        order = {
            "kind": "phase",
            "id": next(self._numbers),
            "members": [rank.rank for rank in ranks],
            "boots": [rank.boot for rank in ranks],
            "names": [rank.machine for rank in ranks],
            "cores": sorted(cores) if cores else None,
        }
        top = self._asked(lambda: self._begin(order, dict(plan), folder))
        return PhaseOfRanks(top, self._tell)

    def _begin(self, order: Header, plan: dict[str, Any], folder: Path) -> Top:
        top = Top(self._station.world, order, plan, folder)
        self._station.phases[top.id] = top
        top.done.add_done_callback(lambda _: self._station.phases.pop(top.id, None))
        top.start()
        return top

    def _asked(self, work: Callable[[], T]) -> T:
        """Return what work in the thread of the ranks returns."""
        answer: Future[T] = Future()

        def run() -> None:
            try:
                answer.set_result(work())
            except BaseException as error:
                answer.set_exception(error)

        self._tell(run)
        return answer.result()

    def _tell(self, work: Callable[[], None]) -> None:
        self._work.put(work)
        self._ring()

    def _ring(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(self._bell, b".")

    # In the thread of the ranks

    def _run(self) -> None:
        try:
            world = World(self._place)
        except BaseException as error:
            self._all_here.set_exception(error)
            return
        self.library = world.library
        self._station = _Told(world, self._all_here)
        beaten = 0.0
        while not self._leaving:
            self._station.step()
            while not self._work.empty():
                self._work.get()()
            now = time.monotonic()
            if now - beaten > _BEAT and not self.broken:
                self._station.spread({"kind": "beat"})
                beaten = now
            self._listen(self._station.pause)
        if self.broken:
            return
        self._station.spread({"kind": "end"})
        world.close()

    def _listen(self, pause: float) -> None:
        """Sleep, unless there is work, or the job is over."""
        ready, _, _ = select.select([self._ears, *([] if self.broken else [self._lifeline])], [], [], pause)
        if self._ears in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(self._ears, 512)
        if self._lifeline in ready:
            self._job_over()

    def _job_over(self) -> None:
        """The launcher ends the ranks: because one died, or because it was told to."""
        until = time.monotonic() + _LAST_WORDS
        others = set(range(1, self.size))
        while time.monotonic() < until and self._station.farewells != others:
            with contextlib.suppress(Exception):
                self._station.step()
            time.sleep(0.01)
        dead = sorted(others - self._station.farewells)
        names = {t["rank"]: t["machine"] for t in self._all_here.result()} if self._all_here.done() else {}
        if (dead and len(dead) < self.size - 1) or (self.size == 2 and dead):
            words = ", ".join(f"rank {rank} on {names.get(rank, '?')}" for rank in dead[:8])
            self.broken = f"{words} died"
        elif dead:
            self.broken = "the launcher ended all ranks"
        else:
            self.broken = "all ranks were told to end"
            # As an interrupt is: what was measured is kept.
            os.kill(os.getpid(), signal.SIGINT)
        for phase in list(self._station.phases.values()):
            if isinstance(phase, Top):
                phase.abandon(self.broken)


_present: Hub | None = None


def present() -> Hub | None:
    """Return the ranks of this process; None where it was started alone."""
    return _present


def evenly(ranks: Sequence[Rank], number: int) -> tuple[Rank, ...]:
    """Return the first `number` ranks when machines take turns, rank 0 first; in the order of their numbers."""
    turns: dict[str, int] = {}
    placed = []
    for rank in ranks:
        turns[rank.machine] = turns.get(rank.machine, -1) + 1
        placed.append((turns[rank.machine], rank.rank, rank))
    return tuple(sorted((rank for _, _, rank in sorted(placed, key=lambda p: p[:2])[:number]), key=lambda r: r.rank))


def _alike(ranks: tuple[Rank, ...]) -> tuple[Rank, ...]:
    first = ranks[0]
    for rank in ranks:
        if (rank.version, rank.engine) != (first.version, first.engine):
            what = rank.version if rank.version != first.version else f"another build of {rank.version}"
            raise BadInput(
                f"rank {rank.rank} on {rank.machine} is loadframe {what}, and rank 0 is {first.version}",
                remedy="give all machines the same installation, for example on a file system that they share",
            )
    return ranks
