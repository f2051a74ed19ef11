"""Coordinator of all ranks: a thread of rank 0 that exchanges messages, and its interface for other threads."""

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
from loadframe.base.procfs import is_running
from loadframe.ranks.children import ChildOfRank
from loadframe.ranks.messages import Header, RankLost
from loadframe.ranks.phase_top import PhaseOfRanks, RootParticipant
from loadframe.ranks.protect import MpiProxy
from loadframe.ranks.rank_process import MessageRouter, wait

T = TypeVar("T")

#: Interval of heartbeats from rank 0, s.
_BEAT = 2.0
#: Timeout until all ranks have connected, s.
_COMING = 120.0
#: Timeout for answers of all ranks, s.
_ANSWERING = 120.0
#: Time to collect farewells when the job ends, s.
_LAST_WORDS = 0.7
#: Timeout for shutdown, s.
_LEAVING = 10.0


@dataclass(frozen=True)
class Rank:
    """Rank and its machine. `boot` identifies the machine's clock."""

    rank: int
    machine: str
    boot: str
    cores: tuple[int, ...]
    version: str
    engine: int


class _RootRouter(MessageRouter):
    """Message router of rank 0, which receives the introductions of all ranks."""

    def __init__(self, world: MpiProxy, all_here: "Future[list[Header]]") -> None:
        """Introduce this rank; `all_here` gets the introductions of all ranks, by rank, once they are complete."""
        self._all_here = all_here
        self.farewells: set[int] = set()
        super().__init__(world)
        self.handlers["farewell"] = lambda source, *_: self.farewells.add(source)
        #: Programs on other ranks, by number.
        self.programs: dict[int, ChildOfRank] = {}
        self.handlers["child said"] = self.handlers["child over"] = self._handle_child

    def _handle_child(self, source: int, header: Header, payload: bytes) -> None:
        """Pass output or exit of a program to its handle."""
        self.programs[header["number"]].hear(header, payload)

    def introduced(self, introductions: list[Header]) -> None:
        """Provide the introductions of all ranks, by rank, to `Coordinator.ranks`, which waits for them."""
        self._all_here.set_result(introductions)

    @property
    def talking(self) -> bool:
        """Whether a program or a survey of any rank may produce messages, so that `pause` must be short.

        Stays true once a program was started on another rank, even after its end.
        """
        return super().talking or bool(self.programs)


class Coordinator:
    """Coordinator of all ranks, for rank 0. As a context manager, it ends the other ranks on exit.

    Before that, it closes the input of programs on other ranks, and waits up to 30 s for each.
    """

    def __init__(self, size: int, line: MpiProxy) -> None:
        """Prepare for `size` ranks; `__enter__` starts the thread. `line` leads to the process that runs MPI."""
        self.size = size
        self._line = line
        self._work: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._ears, self._bell = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._all_here: Future[list[Header]] = Future()
        self._numbers = count()
        self._leaving = False
        #: Why no more phases can run, or None while they can.
        self.broken: str | None = None
        self.library = ""
        self._programs: list[ChildOfRank] = []
        #: Machines whose ranks do not generate load.
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
        # Programs must end before their ranks.
        for program in self._programs:
            program.close()
        self._leaving = True
        self._ring()
        self._thread.join(_LEAVING)
        for program in self._programs:
            program.lose(None, "the ranks have ended")

    def ranks(self) -> tuple[Rank, ...]:
        """Wait up to 120 s for all ranks, and return them in rank order.

        BadInput if MPI cannot start, or if versions or engine builds differ; RankLost if ranks are lost or do not
        connect in time; KeyboardInterrupt if an interrupt is pending.
        """
        until = time.monotonic() + _COMING
        while not self._all_here.done() and time.monotonic() < until and not self.broken:
            interrupts.check()
            time.sleep(0.02)
        if not self._all_here.done():
            raise RankLost(
                self.broken or f"not all of {self.size} ranks connected within {_COMING:.0f} s",
                remedy="check the output of the launcher, and start the ranks again",
            )
        introductions = self._all_here.result()
        return _alike(
            tuple(
                Rank(t["rank"], t["machine"], t["boot"], tuple(t["cores"]), t["version"], t["engine"])
                for t in introductions
            )
        )

    def choose(self, number: int | None) -> tuple[Rank, ...]:
        """Return `number` ranks in rank order, taken from the machines in turn, or all ranks if `number` is None.

        Excludes the machines of `spare`. BadInput if fewer ranks remain. Waits for all ranks; see `ranks` for its
        errors.
        """
        ranks = tuple(rank for rank in self.ranks() if rank.machine not in self._spared)
        if number is None:
            return ranks
        if number > len(ranks):
            spared = (
                f" (without those on the nodes' machines {', '.join(sorted(self._spared))})" if self._spared else ""
            )
            raise BadInput(
                f"{number} ranks requested, but only {len(ranks)} were started{spared}",
                remedy=f"start {number} ranks with --ranks {number}, mpirun -n {number} or srun --ntasks={number}",
            )
        return evenly(ranks, number)

    def spare(self, machines: Collection[str]) -> None:
        """Exclude the ranks on these machines (by name) from load generation, because nodes run there.

        Replaces the machines of an earlier call. The machine of rank 0 must not be among them; this is not checked.
        """
        self._spared = frozenset(machines)

    def recording(self, folder: Path) -> None:
        """Tell the MPI process the folder of the run, so that it rescues the recording if this process is killed."""
        message = {"kind": "recording", "folder": str(folder.absolute())}
        self._post(lambda: self._line.send(-1, message))

    def require_whole(self) -> None:
        """Raise RankLost if ranks are known to be lost, so that no phase can run."""
        if self.broken:
            raise RankLost(self.broken, remedy="start the ranks again")

    def start(self, rank: int, command: Sequence[str]) -> ChildOfRank:
        """Start a program on a rank above 0, and return its handle. It ends with its input or its rank.

        Waits for all ranks first, with the errors of `ranks`. RankLost if ranks are lost. If the program cannot start,
        its handle reports the exit status 127.
        """
        self.ranks()
        self.require_whole()
        number = next(self._numbers)

        def send(header: Header, payload: bytes) -> None:
            self._post(lambda: self._station.world.send(rank, header, payload))

        program = ChildOfRank(send, number, list(command))
        self._programs.append(program)
        self._post(lambda: self._station.programs.update({number: program}))
        return program

    def ask(self, question: str, about: Any) -> dict[int, Any]:
        """Ask all ranks a question of `rank_process.QUESTIONS`, wait up to 120 s, and return the answers by rank.

        `about` is the question's argument, as JSON values. The answer of a rank on which the question failed is None.
        RankLost if ranks are lost or do not answer in time; KeyboardInterrupt if an interrupt is pending.
        """
        self.require_whole()
        header = {"kind": "ask", "number": next(self._numbers), "question": question}
        survey = self._call(lambda: self._station.ask(header, json.dumps(about).encode()))
        answers = wait(survey, _ANSWERING, self._check)
        if answers is None:
            raise RankLost(f"not all ranks answered within {_ANSWERING:.0f} s", remedy="start the ranks again")
        return answers

    def _check(self) -> None:
        """Raise KeyboardInterrupt if an interrupt is pending, and RankLost if ranks are lost."""
        interrupts.check()
        self.require_whole()

    def phase(
        self, plan: Mapping[str, Any], folder: Path, ranks: Sequence[Rank], cores: Collection[int] | None
    ) -> PhaseOfRanks:
        """Start a phase on these ranks and return its handle. The first must be rank 0.

        `plan` is the engine's plan, `folder` the phase's folder, and `cores` the load's cores on the machine of rank 0
        (None or empty: all). Waits until all ranks are prepared. Raises the engine's errors, with the rank in the
        message; BadInput if a rank cannot reach a node that others reach, if only a rank above 0 refuses the plan, or
        if clocks cannot be compared; RankLost.
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
        top = self._call(lambda: self._begin(order, dict(plan), folder))
        return PhaseOfRanks(top, self._post)

    def _begin(self, order: Header, plan: dict[str, Any], folder: Path) -> RootParticipant:
        """Start a phase on its ranks and return rank 0's part, which removes itself from the router when done.

        Runs in the coordinator's thread, and does not wait.
        """
        top = RootParticipant(self._station.world, order, plan, folder)
        self._station.phases[top.id] = top
        top.done.add_done_callback(lambda _: self._station.phases.pop(top.id, None))
        top.start()
        return top

    def _call(self, work: Callable[[], T]) -> T:
        """Call a function in the coordinator's thread, wait, and return its result or raise its exception."""
        answer: Future[T] = Future()
        self._post(lambda: interrupts.fulfil(answer, work))
        return answer.result()

    def _post(self, work: Callable[[], None]) -> None:
        """Queue a function for the coordinator's thread and wake the thread, without waiting."""
        self._work.put(work)
        self._ring()

    def _ring(self) -> None:
        """Wake the coordinator's thread."""
        with contextlib.suppress(BlockingIOError):
            os.write(self._bell, b".")

    # In the coordinator's thread

    def _run(self) -> None:
        """Exchange messages and run queued functions until `__exit__`, then end the other ranks.

        An error while MPI starts is raised by `ranks` instead.
        """
        line = self._line
        try:
            line.open()
        except BaseException as error:
            self._all_here.set_exception(error)
            return
        self.library = line.library
        self._station = _RootRouter(line, self._all_here)
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
        """Sleep until `_ring`, a message, or the end of `pause` s; request polls of MPI at this interval."""
        self._line.rest(pause)
        line = [] if self._line.lost else [self._line.fileno()]
        ready, _, _ = select.select([self._ears, *line], [], [], pause)
        if self._ears in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(self._ears, 512)

    def _job_over(self) -> None:
        """Set `broken` to the reason why no more phases can run; abandon all phases and programs with it.

        Called when the launcher ends the job or the MPI process has ended. Waits up to 0.7 s for farewells of ranks. If
        the ranks were told to end, or the launcher was killed, also sends SIGTERM to this process.
        """
        introductions = self._all_here.result() if self._all_here.done() else []
        # After a rank dies, the launcher ends the others with a short delay.
        dead = [
            t
            for t in introductions
            if t["rank"] and t["boot"] == introductions[0]["boot"] and not is_running(t["process"])
        ]
        others = set(range(1, self.size))
        until = time.monotonic() + _LAST_WORDS
        while time.monotonic() < until and self._station.farewells != others and not self._line.lost:
            self._station.step()
            time.sleep(0.01)
        # A rank that was told to end sends a farewell before it exits.
        farewells = self._station.farewells
        dead = [t for t in dead if t["rank"] not in farewells]
        if not dead and self._line.over:
            dead = [t for t in introductions if t["rank"] and t["rank"] not in farewells]
        quiet = {
            rank: silent for phase in self._tops() for rank, silent in phase.quiet().items() if rank not in farewells
        }
        # If a rank died, the launcher is alive and ends the others.
        launcher_died = not self._line.over and not is_running(self._line.launcher)
        interrupted = launcher_died
        if launcher_died:
            self.broken = "the launcher of the ranks was killed"
        elif quiet and not (dead and self._line.over):
            words = (
                f"rank {rank} on {introductions[rank]['machine']} ({silent:.0f} s)" for rank, silent in quiet.items()
            )
            self.broken = f"the launcher ended the ranks; silent before that: {', '.join(words)}"
        elif dead and len(dead) <= max(len(others) // 2, 1):
            names = ", ".join(f"rank {t['rank']} on {t['machine']}" for t in dead[:8])
            self.broken = f"{names} died"
        elif dead or not self._line.over:
            self.broken = "a rank died, or its launcher ended it; see the launcher's output"
        else:
            self.broken = "the launcher told all ranks to end"
            interrupted = True
        for program in self._station.programs.values():
            program.lose(None, self.broken)
        for phase in self._tops():
            phase.abandon(self.broken, interrupted=interrupted)
        if interrupted:
            os.kill(os.getpid(), signal.SIGTERM)

    def _tops(self) -> list[RootParticipant]:
        """Return rank 0's parts in the running phases."""
        return [phase for phase in self._station.phases.values() if isinstance(phase, RootParticipant)]


_present: Coordinator | None = None


def present() -> Coordinator | None:
    """Return the coordinator of this process, or None if it runs without ranks or is not rank 0."""
    return _present


def evenly(ranks: Sequence[Rank], number: int) -> tuple[Rank, ...]:
    """Return `number` ranks in rank order, chosen from the machines in turn; all if there are fewer.

    `ranks` must be in rank order; its first rank is always chosen.
    """
    turns: dict[str, int] = {}
    placed = []
    for rank in ranks:
        turns[rank.machine] = turns.get(rank.machine, -1) + 1
        placed.append((turns[rank.machine], rank.rank, rank))
    return tuple(sorted((rank for _, _, rank in sorted(placed, key=lambda p: p[:2])[:number]), key=lambda r: r.rank))


def _alike(ranks: tuple[Rank, ...]) -> tuple[Rank, ...]:
    """Return the ranks. BadInput if one has another version or engine build than rank 0."""
    first = ranks[0]
    for rank in ranks:
        if (rank.version, rank.engine) != (first.version, first.engine):
            other = rank.version if rank.version != first.version else f"another build of {rank.version}"
            raise BadInput(
                f"rank {rank.rank} on {rank.machine} has loadframe {other}, but rank 0 has {first.version}",
                remedy="use the same installation on all machines, for example on a shared file system",
            )
    return ranks
