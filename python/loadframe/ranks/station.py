"""What a rank hears and does: it passes things on along the tree of all ranks, and takes part in phases."""

import json
import time
from collections.abc import Callable

from loadframe.ranks import pulse, survey, tree
from loadframe.ranks.children import Children
from loadframe.ranks.member import ALERT, Member
from loadframe.ranks.messages import Header
from loadframe.ranks.survey import Survey
from loadframe.ranks.wire import Wire
from loadframe.ranks.world import introduce

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
            "answer": lambda source, header, payload: survey.hear(self.surveys, source, header, payload),
        }
        self._above = tree.parent(world.rank)
        self._below = tree.children(world.rank, world.size)
        self._silent = set(self._below)
        self._introductions = [introduce(world.rank)]
        self._boot: str = self._introductions[0]["boot"]
        self._heard = time.monotonic()
        self._silence = pulse.Silence(self._boot)
        self._introduce()

    def alone(self) -> str | None:
        """Return why rank 0 counts as gone, as seen from the rank above; None while it does not."""
        return self._silence.lost(time.monotonic() - self._heard)

    def beat(self) -> None:
        """Tell the ranks below that those above them are there, and where this one can be looked for."""
        self.spread({"kind": "beat", "door": pulse.door(self._boot)})

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
        pulse.answer()
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
