"""Process of a rank: passes messages along the tree and takes part in phases."""

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from loadframe.base.errors import BadInput, ExitCode
from loadframe.base.printable import printable
from loadframe.ranks import liveness, tree
from loadframe.ranks.children import Children
from loadframe.ranks.environment import Place
from loadframe.ranks.messages import Header, Wire
from loadframe.ranks.phase_participant import ALERT, Member
from loadframe.ranks.reach import distances
from loadframe.ranks.threads import background
from loadframe.ranks.world import World, introduce, machine

#: What a rank can be asked; each gets what was sent with the question and returns values for JSON.
QUESTIONS: dict[str, Callable[[Any], Any]] = {"distances": distances}


class Survey:
    """One rank's part in a question: its own answer, and those of all ranks behind it."""

    def __init__(self, world: Wire, number: int, question: str, about: Any) -> None:
        self.number = number
        #: For rank 0: the answers by rank.
        self.answers: Future[dict[int, Any]] = Future()
        self._world = world
        self._above = tree.parent(world.rank)
        self._waiting: set[int] = {world.rank, *tree.children(world.rank, world.size)}
        self._gathered: list[list[Any]] = []
        self._own = background(lambda: QUESTIONS[question](about))

    def tick(self) -> bool:
        """Look whether all have answered; if so pass it on, and return that it is over here."""
        if self._world.rank in self._waiting and self._own.done():
            error = self._own.exception()
            self.take(self._world.rank, [[self._world.rank, None if error else self._own.result()]])
        if self._waiting:
            return False
        if self._above is None:
            self.answers.set_result({int(rank): answer for rank, answer in self._gathered})
        else:
            told = json.dumps(self._gathered).encode()
            self._world.send(self._above, {"kind": "answer", "number": self.number}, told)
        return True

    def take(self, source: int, answers: list[list[Any]]) -> None:
        """Take the answers of a rank below and of those behind it."""
        self._waiting.discard(source)
        self._gathered += answers


def hear(surveys: dict[int, Survey], source: int, header: Header, payload: bytes) -> None:
    """Take an answer that has arrived for one of these."""
    survey = surveys.get(header["number"])
    if survey is not None:
        survey.take(source, json.loads(payload))


def wait(survey: Survey, patience: float, look: Callable[[], None]) -> dict[int, Any] | None:
    """Return the answers, None if they do not come in time; `look` is called meanwhile and may raise."""
    until = time.monotonic() + patience
    while not survey.answers.done() and time.monotonic() < until:
        look()
        time.sleep(0.02)
    return survey.answers.result() if survey.answers.done() else None


#: How long a rank sleeps between phases, s.
_IDLE = 0.05

#: What only goes down the tree of a phase's members.
_DOWN = frozenset({"clocks", "ping", "prepare", "begin", "obey", "stop", "close", "hold", "hosts"})

#: Answers messages of a kind that phases have nothing to do with.
Handler = Callable[[int, Header, bytes], None]


class Station:
    """A rank among all. `step` hears what has arrived and looks at what goes on; it never waits."""

    def __init__(self, world: Wire) -> None:
        self.world = world
        self.over = False
        self.phases: dict[int, Member] = {}
        self.surveys: dict[int, Survey] = {}
        self.children = Children(world)
        self.handlers: dict[str, Handler] = {
            "hello": self._hello,
            "beat": self._beat,
            "end": self._end,
            "ask": self._asked,
            "child": self.children.hear,
            "answer": lambda source, header, payload: hear(self.surveys, source, header, payload),
        }
        self._above = tree.parent(world.rank)
        self._below = tree.children(world.rank, world.size)
        self._silent = set(self._below)
        self._introductions = [introduce(world.rank)]
        self._boot: str = self._introductions[0]["boot"]
        self._heard = time.monotonic()
        self._silence = liveness.Silence(self._boot)
        self._introduce()

    def alone(self) -> str | None:
        """Return why rank 0 counts as gone, as seen from the rank above; None while it does not."""
        return self._silence.lost(time.monotonic() - self._heard)

    def beat(self) -> None:
        """Tell the ranks below that those above them are there, and where this one can be looked for."""
        self.spread({"kind": "beat", "door": liveness.door(self._boot)})

    @property
    def pause(self) -> float:
        """How long to sleep before the next step, s."""
        pause = min((phase.pause for phase in self.phases.values()), default=_IDLE)
        return min(pause, ALERT) if self.talking else pause

    @property
    def talking(self) -> bool:
        """Whether a program that this rank serves, or somebody's question, may have something to say at any time."""
        return bool(self.surveys) or self.children.running

    def step(self) -> None:
        """Hear all that has arrived."""
        liveness.answer()
        while (arrived := self.world.receive()) is not None:
            self._hear(*arrived)
        for phase in list(self.phases.values()):
            phase.tick()
        self.children.tick()
        for number in [number for number, asked in self.surveys.items() if asked.tick()]:
            del self.surveys[number]

    def ask(self, header: Header, payload: bytes) -> Survey:
        """Ask all ranks from here down what a message says; as rank 0, all there are."""
        self.spread(header, payload)
        asked = Survey(self.world, header["number"], header["question"], json.loads(payload))
        self.surveys[asked.number] = asked
        return asked

    def spread(self, header: Header, payload: bytes = b"") -> None:
        """Send something to the ranks below in the tree of all; they pass it on."""
        for rank in self._below:
            self.world.send(rank, header, payload)

    def _hear(self, source: int, header: Header, payload: bytes) -> None:
        if source == self._above:
            self._heard = time.monotonic()
        kind = header["kind"]
        if kind in self.handlers:
            self.handlers[kind](source, header, payload)
        elif kind == "phase":
            member = Member(self.world, header, json.loads(payload))
            self.phases[member.id] = member
            member.down(header, payload)
        elif (phase := self.phases.get(header["id"])) is None:
            # It is over here, and this is late.
            return
        elif kind == "over":
            phase.down(header)
            phase.stop()
            del self.phases[header["id"]]
        elif kind in _DOWN:
            phase.down(header, payload)
        else:
            phase.heard(source, header, payload)

    def _hello(self, source: int, header: Header, payload: bytes) -> None:
        self._introductions += json.loads(payload)
        self._silent.discard(source)
        self._introduce()

    def _introduce(self) -> None:
        if not self._silent:
            self.introduced(sorted(self._introductions, key=lambda told: int(told["rank"])))

    def introduced(self, introductions: list[Header]) -> None:
        """Tell the rank above of all ranks behind this one."""
        if self._above is not None:
            self.world.send(self._above, {"kind": "hello"}, json.dumps(introductions).encode())

    def _asked(self, source: int, header: Header, payload: bytes) -> None:
        self.ask(header, payload)

    def _beat(self, source: int, header: Header, payload: bytes) -> None:
        self._silence.door = header["door"]
        self.beat()

    def _end(self, source: int, header: Header, payload: bytes) -> None:
        self.spread(header)
        self.over = True


#: How long a rank that is told to end stays to say so, s: shorter than launchers wait before they kill.
_FAREWELL = 0.5


def serve(place: Place) -> int:
    """Do what rank 0 says until it says that all is over; return the exit status."""
    ordered: list[int] = []
    # Whether an interrupt ends anything is rank 0's to say.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, _: ordered.append(number))
    try:
        world = World(place)
    except BadInput as error:
        # Rank 0 says it.
        return error.exit_status
    station = Station(world)
    while not station.over:
        station.step()
        if ordered:
            _say_farewell(world)
        if why := station.alone():
            words = f"rank {world.rank} on {machine()} ends: the rank above it {why}"
            with contextlib.suppress(OSError):
                print(f"loadframe: {printable(words)}", file=sys.stderr)
            # Without the others MPI cannot be left.
            os._exit(ExitCode.FAILED)
        if station.pause:
            time.sleep(station.pause)
    # Where rank 0 was killed, its phase is not over.
    for phase in station.phases.values():
        phase.stop()
    station.children.end()
    world.close()
    return ExitCode.OK


def _say_farewell(world: World) -> None:
    """Tell rank 0 that this rank was told to end: the one that says nothing died by itself."""
    world.send(0, {"kind": "farewell"})
    until = time.monotonic() + _FAREWELL
    # A rank that ends at once looks to MPI like one that died.
    while time.monotonic() < until:
        world.receive()
        time.sleep(0.005)
    os._exit(ExitCode.TERMINATED)
