"""Rank 0's thread that talks to the others, and what the rest of rank 0 asks of it."""

import contextlib
import json
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

from loadframe.base import interrupts
from loadframe.base.errors import BadInput
from loadframe.ranks.children import ChildOfRank
from loadframe.ranks.messages import Header
from loadframe.ranks.phase_top import PhaseOfRanks, Top
from loadframe.ranks.protect import Line
from loadframe.ranks.rank_process import Station, wait
from loadframe.ranks.world import RankLost

T = TypeVar("T")

#: How often ranks above 0 hear that rank 0 is there, s.
_BEAT = 2.0
#: How long rank 0 waits for all ranks to come, s.
_COMING = 120.0
#: How long it waits for what it has asked all ranks, s.
_ANSWERING = 120.0
#: How long it waits for the last words of ranks when the job is over, s.
_LAST_WORDS = 0.7
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

    def __init__(self, world: Line, all_here: "Future[list[Header]]") -> None:
        self._all_here = all_here
        self.farewells: set[int] = set()
        super().__init__(world)
        self.handlers["farewell"] = lambda source, *_: self.farewells.add(source)
        #: Programs on other ranks, by their numbers.
        self.programs: dict[int, ChildOfRank] = {}
        self.handlers["child said"] = self.handlers["child over"] = self._said

    def _said(self, source: int, header: Header, payload: bytes) -> None:
        self.programs[header["number"]].hear(header, payload)

    def introduced(self, introductions: list[Header]) -> None:
        self._all_here.set_result(introductions)

    @property
    def talking(self) -> bool:
        return super().talking or bool(self.programs)


class Hub:
    """All ranks, for the main thread of rank 0. A context manager; leaving it ends the others."""

    def __init__(self, size: int, line: Line) -> None:
        """Come together in the background, over the line to the process that has MPI."""
        self.size = size
        self._line = line
        self._work: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._ears, self._bell = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._all_here: Future[list[Header]] = Future()
        self._numbers = count()
        self._leaving = False
        #: Why no phase can be run any more.
        self.broken: str | None = None
        self.library = ""
        self._programs: list[ChildOfRank] = []
        #: Machines whose ranks do not load.
        self._spared: frozenset[str] = frozenset()
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
        # They end before their ranks do, in peace.
        for program in self._programs:
            program.close()
        self._leaving = True
        self._ring()
        self._thread.join(_LEAVING)
        for program in self._programs:
            program.lose(None, "the ranks have left")

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
        ranks = tuple(rank for rank in self.ranks() if rank.machine not in self._spared)
        if number is None:
            return ranks
        if number > len(ranks):
            spared = f", besides those that keep nodes on {', '.join(sorted(self._spared))}" if self._spared else ""
            raise BadInput(
                f"{number} ranks are asked for, and {len(ranks)} were started{spared}",
                remedy=f"start {number}, with --ranks {number}, mpirun -n {number} or srun --ntasks={number}",
            )
        return evenly(ranks, number)

    def spare(self, machines: Collection[str]) -> None:
        """Have no rank of these machines load from now on: they keep nodes. That of rank 0 is not among them."""
        self._spared = frozenset(machines)

    def recording(self, folder: Path) -> None:
        """Say where this process records a run, so that what is there can be kept if it is killed."""
        where = {"kind": "recording", "folder": str(folder.absolute())}
        self._tell(lambda: self._line.send(-1, where))

    def require_whole(self) -> None:
        """Raise RankLost if ranks are gone: no phase could be run."""
        if self.broken:
            raise RankLost(self.broken, remedy="start the ranks again")

    def start(self, rank: int, command: Sequence[str]) -> ChildOfRank:
        """Start a program on a rank above 0, and return the line to it. It ends when its input does, or its rank.

        RankLost if ranks are gone.
        """
        self.ranks()
        self.require_whole()
        number = next(self._numbers)

        def say(header: Header, payload: bytes) -> None:
            self._tell(lambda: self._station.world.send(rank, header, payload))

        program = ChildOfRank(say, number, list(command))
        self._programs.append(program)
        self._tell(lambda: self._station.programs.update({number: program}))
        return program

    def ask(self, question: str, about: Any) -> dict[int, Any]:
        """Ask all ranks one of `survey.QUESTIONS`; return the answers by rank. RankLost if one does not answer."""
        self.require_whole()
        header = {"kind": "ask", "number": next(self._numbers), "question": question}
        asked = self._asked(lambda: self._station.ask(header, json.dumps(about).encode()))
        answers = wait(asked, _ANSWERING, self._look)
        if answers is None:
            raise RankLost(f"not all ranks answered within {_ANSWERING:.0f} s", remedy="start the ranks again")
        return answers

    def _look(self) -> None:
        interrupts.check()
        self.require_whole()

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
        line = self._line
        try:
            line.open()
        except BaseException as error:
            self._all_here.set_exception(error)
            return
        self.library = line.library
        self._station = _Told(line, self._all_here)
        beaten = 0.0
        while not self._leaving:
            self._station.step()
            while not self._work.empty():
                self._work.get()()
            now = time.monotonic()
            if now - beaten > _BEAT and not self.broken:
                self._station.beat()
                beaten = now
            if not self.broken and (line.over or line.lost):
                self._job_over()
            self._listen(self._station.pause)
        if not self.broken:
            self._station.spread({"kind": "end"})
            line.close()

    def _listen(self, pause: float) -> None:
        """Sleep, unless there is work, or something arrives."""
        self._line.rest(pause)
        line = [] if self._line.lost else [self._line.fileno()]
        ready, _, _ = select.select([self._ears, *line], [], [], pause)
        if self._ears in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(self._ears, 512)

    def _job_over(self) -> None:
        """The launcher ends the ranks: because one died, or because it was told to."""
        told = self._all_here.result() if self._all_here.done() else []
        # The launcher ends the others a moment after one has died.
        dead = [t for t in told if t["rank"] and t["boot"] == told[0]["boot"] and _is_dead(t["process"])]
        others = set(range(1, self.size))
        until = time.monotonic() + _LAST_WORDS
        while time.monotonic() < until and self._station.farewells != others and not self._line.lost:
            self._station.step()
            time.sleep(0.01)
        # One that was told to end says so, and has ended a moment later.
        said = self._station.farewells
        dead = [t for t in dead if t["rank"] not in said]
        if not dead and self._line.over:
            dead = [t for t in told if t["rank"] and t["rank"] not in said]
        quiet = {rank: silent for phase in self._tops() for rank, silent in phase.quiet().items() if rank not in said}
        # Where a rank died, its launcher is alive: it ends the others.
        launcher_died = not self._line.over and _is_dead(self._line.launcher)
        interrupted = launcher_died
        if launcher_died:
            self.broken = "the launcher of the ranks was killed"
        elif quiet and not (dead and self._line.over):
            words = (f"rank {rank} on {told[rank]['machine']} ({silent:.0f} s)" for rank, silent in quiet.items())
            self.broken = f"the launcher ended the ranks; not heard of was {', '.join(words)}"
        elif dead and len(dead) <= max(len(others) // 2, 1):
            names = ", ".join(f"rank {t['rank']} on {t['machine']}" for t in dead[:8])
            self.broken = f"{names} died"
        elif dead or not self._line.over:
            self.broken = "a rank died, or was ended by its launcher, which says more"
        else:
            self.broken = "all ranks were told to end"
            interrupted = True
        for program in self._station.programs.values():
            program.lose(None, self.broken)
        for phase in self._tops():
            phase.abandon(self.broken, interrupted=interrupted)
        if interrupted:
            os.kill(os.getpid(), signal.SIGTERM)

    def _tops(self) -> list[Top]:
        return [phase for phase in self._station.phases.values() if isinstance(phase, Top)]


def _is_dead(process: int) -> bool:
    """Whether a process of this machine has ended, even if its parent does not know yet."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


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
