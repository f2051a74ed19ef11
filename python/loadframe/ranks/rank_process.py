"""Process of a rank: routes messages along the tree and takes part in phases."""

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
from loadframe.base.interrupts import background
from loadframe.base.untrusted import printable
from loadframe.ranks import Place, liveness, messages
from loadframe.ranks.children import Children
from loadframe.ranks.liveness import distances
from loadframe.ranks.messages import Header, Wire, World, introduce, machine
from loadframe.ranks.phase_participant import ALERT, Participant

#: Questions to ranks -> functions that answer them. Arguments and results are JSON values.
QUESTIONS: dict[str, Callable[[Any], Any]] = {"distances": distances}


class Survey:
    """One rank's part in a question: collects its own answer, and the answers of the ranks behind it."""

    def __init__(self, world: Wire, number: int, question: str, argument: Any) -> None:
        """Begin to answer a question of `QUESTIONS` in the background; `number` identifies the survey on all ranks."""
        self.number = number
        #: On rank 0: answers by rank.
        self.answers: Future[dict[int, Any]] = Future()
        self._world = world
        self._above = messages.parent(world.rank)
        self._waiting: set[int] = {world.rank, *messages.children(world.rank, world.size)}
        self._gathered: list[list[Any]] = []
        self._own = background(lambda: QUESTIONS[question](argument))

    def tick(self) -> bool:
        """Poll the own answer (None if it failed); once all have answered, pass the answers on and return True.

        Returns False before. Rank 0 sets `answers` instead of passing them on. Must not be called after it has returned
        True.
        """
        if self._world.rank in self._waiting and self._own.done():
            error = self._own.exception()
            self.take(self._world.rank, [[self._world.rank, None if error else self._own.result()]])
        if self._waiting:
            return False
        if self._above is None:
            self.answers.set_result({int(rank): answer for rank, answer in self._gathered})
        else:
            answers = json.dumps(self._gathered).encode()
            self._world.send(self._above, {"kind": "answer", "number": self.number}, answers)
        return True

    def take(self, source: int, answers: list[list[Any]]) -> None:
        """Add the answers of the rank `source`, this one or one below, and of those behind it: [rank, answer]."""
        self._waiting.discard(source)
        self._gathered += answers


def hear(surveys: dict[int, Survey], source: int, header: Header, payload: bytes) -> None:
    """Pass a received answer to its survey in `surveys`, by number; ignore it if that survey is closed.

    The payload has pairs of rank and answer, as JSON.
    """
    survey = surveys.get(header["number"])
    if survey is not None:
        survey.take(source, json.loads(payload))


def wait(survey: Survey, patience: float, look: Callable[[], None]) -> dict[int, Any] | None:
    """Wait for a survey; return its answers by rank, or None without all of them after `patience` s.

    `look` is called every 20 ms meanwhile and may raise.
    """
    until = time.monotonic() + patience
    while not survey.answers.done() and time.monotonic() < until:
        look()
        time.sleep(0.02)
    return survey.answers.result() if survey.answers.done() else None


#: Sleep between polls outside phases, s.
_IDLE = 0.05

#: Kinds of messages that only go down the tree of a phase.
_DOWN = frozenset({"clocks", "ping", "prepare", "begin", "directives", "stop", "close", "hold", "adjust", "hosts"})

#: Handles messages that do not belong to a phase.
Handler = Callable[[int, Header, bytes], None]


class MessageRouter:
    """Message router of one rank. `step` handles received messages and polls work; it never blocks."""

    def __init__(self, world: Wire) -> None:
        """Register the handlers of messages; without ranks below, introduce this rank to the one above."""
        self.world = world
        self.over = False
        self.phases: dict[int, Participant] = {}
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
        self._above = messages.parent(world.rank)
        self._below = messages.children(world.rank, world.size)
        self._silent = set(self._below)
        self._introductions = [introduce(world.rank)]
        self._boot: str = self._introductions[0]["boot"]
        self._heard = time.monotonic()
        self._silence = liveness.Silence(self._boot)
        self._introduce()

    def alone(self) -> str | None:
        """Return why the rank above counts as lost, or None if it does not; see `liveness.Silence.lost`."""
        return self._silence.lost(time.monotonic() - self._heard)

    def beat(self) -> None:
        """Send a heartbeat with this rank's probe endpoint to the ranks below."""
        self.spread({"kind": "beat", "door": liveness.door(self._boot)})

    @property
    def pause(self) -> float:
        """Time to sleep before the next step, s: the least pause of the phases, or 0.05 without a phase.

        It is at most 0.02 while `talking`.
        """
        pause = min((phase.pause for phase in self.phases.values()), default=_IDLE)
        return min(pause, ALERT) if self.talking else pause

    @property
    def talking(self) -> bool:
        """Whether a program or a survey may produce messages at any time."""
        return bool(self.surveys) or self.children.running

    def step(self) -> None:
        """Handle all received messages, and poll phases, programs and surveys."""
        liveness.answer()
        while (arrived := self.world.receive()) is not None:
            self._hear(*arrived)
        for phase in list(self.phases.values()):
            phase.tick()
        self.children.tick()
        for number in [number for number, survey in self.surveys.items() if survey.tick()]:
            del self.surveys[number]

    def ask(self, header: Header, payload: bytes) -> Survey:
        """Send a question to the ranks below, and collect their answers and this rank's, without waiting.

        `header` has the `number` of the survey and the `question`; `payload` is the argument as JSON.
        """
        self.spread(header, payload)
        survey = Survey(self.world, header["number"], header["question"], json.loads(payload))
        self.surveys[survey.number] = survey
        return survey

    def spread(self, header: Header, payload: bytes = b"") -> None:
        """Send a message to the ranks below, which forward it."""
        for rank in self._below:
            self.world.send(rank, header, payload)

    def _hear(self, source: int, header: Header, payload: bytes) -> None:
        """Pass a message to its handler or its phase; create a phase for `phase`, and end it for `over`."""
        if source == self._above:
            self._heard = time.monotonic()
        kind = header["kind"]
        if kind in self.handlers:
            self.handlers[kind](source, header, payload)
        elif kind == "phase":
            member = Participant(self.world, header, json.loads(payload))
            self.phases[member.id] = member
            member.down(header, payload)
        elif (phase := self.phases.get(header["id"])) is None:
            # The message is late: the phase has ended here.
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
        """Add the introductions of a rank below and those behind it; pass all on when complete."""
        self._introductions += json.loads(payload)
        self._silent.discard(source)
        self._introduce()

    def _introduce(self) -> None:
        """Call `introduced` with all introductions, by rank, once each rank below has sent its own."""
        if not self._silent:
            self.introduced(sorted(self._introductions, key=lambda introduction: int(introduction["rank"])))

    def introduced(self, introductions: list[Header]) -> None:
        """Send the introductions of this rank and all ranks behind it to the rank above."""
        if self._above is not None:
            self.world.send(self._above, {"kind": "hello"}, json.dumps(introductions).encode())

    def _asked(self, source: int, header: Header, payload: bytes) -> None:
        """Take part in a question of rank 0, and forward it to the ranks below."""
        self.ask(header, payload)

    def _beat(self, source: int, header: Header, payload: bytes) -> None:
        """Note the probe endpoint of the rank above, and send a heartbeat to the ranks below."""
        self._silence.door = header["door"]
        self.beat()

    def _end(self, source: int, header: Header, payload: bytes) -> None:
        """Forward the order to end, and set `over`."""
        self.spread(header)
        self.over = True


#: Time in which a rank sends its farewell before it exits, s; shorter than launchers wait before SIGKILL.
_FAREWELL = 0.5


def serve(place: Place) -> int:
    """Follow rank 0 until it ends the job, then stop load and programs; return the exit status.

    Ignores SIGINT and SIGHUP. SIGTERM ends the process after a farewell to rank 0. The loss of the rank above ends it
    with a message and ExitCode.FAILED. If MPI cannot start, returns the status of the error, which rank 0 prints.
    """
    terminations: list[int] = []
    # Rank 0 decides about interrupts.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, _: terminations.append(number))
    try:
        world = World(place)
    except BadInput as error:
        # Rank 0 reports the error.
        return error.exit_status
    station = MessageRouter(world)
    while not station.over:
        station.step()
        if terminations:
            _send_farewell(world)
        if why := station.alone():
            words = f"rank {world.rank} on {machine()} ends: the rank above it {why}"
            with contextlib.suppress(OSError):
                print(f"loadframe: {printable(words)}", file=sys.stderr)
            # MPI cannot be finalized without the other ranks.
            os._exit(ExitCode.FAILED)
        if station.pause:
            time.sleep(station.pause)
    # If rank 0 was killed, its phase is still open.
    for phase in station.phases.values():
        phase.stop()
    station.children.end()
    world.close()
    return ExitCode.OK


def _send_farewell(world: World) -> None:
    """Tell rank 0 that this rank was told to end, so that it does not count as crashed; exit after 0.5 s.

    Does not return. The exit code is `ExitCode.TERMINATED`.
    """
    world.send(0, {"kind": "farewell"})
    until = time.monotonic() + _FAREWELL
    # MPI takes a rank that exits at once for a crashed rank.
    while time.monotonic() < until:
        world.receive()
        time.sleep(0.005)
    os._exit(ExitCode.TERMINATED)
