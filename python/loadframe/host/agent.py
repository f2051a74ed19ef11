"""The agent: what runs on another machine for as long as a command here works with it, and does there what is asked.

Its standard input and output carry lines of JSON, whatever carries those: ssh, srun, or the messages of MPI.

    -> {"id": n, "call": "module:function", "args": [...], "kwargs": {...}}        -> {"beat": true}
    <- {"ready": facts}, once          <- {"id": n, "value": v} or {"id": n, "error": {type, what, where, remedy}}
    <- {"process": n, "state": {alive, paused, status}}, when it changes           <- {"beat": true}

Processes that it starts are below guards, whose lifelines end with it: when its input ends, when it is killed, and when
it has heard nothing for a while, as behind a network that is cut.
"""

import contextlib
import itertools
import json
import os
import signal
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

from loadframe.base.errors import BadInput, LoadframeError
from loadframe.host import kinds, wire
from loadframe.host.base import Command
from loadframe.host.identity import facts
from loadframe.host.limits import Limits
from loadframe.host.local import LocalHost
from loadframe.host.local_process import LocalProcess

#: Seconds between signs of life, and seconds without one after which an agent ends, and its nodes with it.
BEAT, PATIENCE = 1.0, 120.0
#: Seconds between looks at whether processes still run.
_LOOK = 0.1
#: Calls that are worked on at once.
_CALLS = 16


@dataclass(frozen=True)
class Kind:
    """What kind of host the machine is to its nodes: its own, or one of containers."""

    image: str | None = None
    runtime: str | None = None

    def host(self) -> LocalHost:
        """Return it."""
        return _host("local" if self.image is None and self.runtime is None else "container", self)


@dataclass(frozen=True)
class State:
    """What is known of a process."""

    alive: bool = True
    paused: bool = False
    status: int | None = None  #: as Process.exit_status


@dataclass(frozen=True)
class Started:
    """A process that the agent has in hand, by its number."""

    number: int
    pid: int
    control_groups: Mapping[str, Path]
    record: Mapping[str, Any]
    state: State


@dataclass
class _Held:
    process: LocalProcess
    #: Held while somebody asks the guard, whose answer only one can have.
    lock: threading.Lock = field(default_factory=threading.Lock)
    told: State = State()

    def look(self) -> State:
        alive = self.process.alive()
        return State(alive, alive and self.process.paused(), None if alive else self.process.exit_status())


_HELD: dict[int, _Held] = {}
_NUMBERS = itertools.count()


@cache
def _host(name: str, kind: Kind) -> LocalHost:
    return kinds.find(name, kind.image, kind.runtime)


def require(kind: Kind) -> None:
    """BadInput when the machine has not what this kind of host takes."""
    kind.host().require()


def limited_by(kind: Kind, limits: Limits, folder: Path) -> tuple[str, str | None]:
    """Return how limits are enforced on the machine, and why not if they cannot be."""
    return kind.host().limited_by(limits, folder)


def server_user(named: bool) -> int | None:
    """Return the user for servers that refuse root, as LocalHost has it."""
    return LocalHost().server_user(named)


def free_ports(count: int, first: int | None, addresses: list[str]) -> list[int]:
    """Return free ports, as LocalHost has them."""
    return LocalHost().free_ports(count, first, addresses)


def start(kind: Kind, command: Command, limits: Limits) -> Started:
    """Start a command below a guard."""
    return _taken(kind.host().start(command, limits))


def find(kind: Kind, record: Mapping[str, Any]) -> Started | None:
    """Get hold of a process that was kept."""
    process = kind.host().find(record)
    return _taken(process) if process else None


def act(number: int, what: str) -> State:
    """Do something to a process, and return its state then. `what` is a method of Process, or (un)throttle."""
    held = _HELD[number]
    process = held.process
    match what:
        case "throttle" | "unthrottle":
            process.throttle(what == "throttle")
        case "stop":
            with held.lock:
                process.stop()
        case "kill" | "pause" | "resume" | "keep" | "request_stop":
            getattr(process, what)()
        case _:
            raise BadInput(f"nothing that can be done to a process is called {what!r}")
    with held.lock:
        return State() if what == "keep" else held.look()


def _taken(process: LocalProcess) -> Started:
    number, held = next(_NUMBERS), _Held(process)
    started = Started(number, process.pid, dict(process.control_groups), process.record(), held.look())
    _HELD[number] = held
    return started


class _Agent:
    """Reads, works and says."""

    def __init__(self, source: BinaryIO, sink: int) -> None:
        self._source, self._sink = source, sink
        self._saying = threading.Lock()
        self._heard = time.monotonic()

    def run(self) -> None:
        self._say({"ready": wire.encoded(facts())})
        for task in (self._beat, self._watch):
            threading.Thread(target=task, daemon=True).start()
        with ThreadPoolExecutor(_CALLS) as pool:
            for line in self._source:
                self._heard = time.monotonic()
                message = json.loads(line)
                if "call" in message:
                    pool.submit(self._answer, message)
        _end()

    def _answer(self, message: Mapping[str, Any]) -> None:
        answer: dict[str, Any] = {"id": message["id"]}
        try:
            function = wire.named(message["call"])
            value = function(*wire.decoded(message["args"]), **wire.decoded(message["kwargs"]))
            answer["value"] = wire.encoded(value)
        except LoadframeError as error:
            kind = wire.name_of(type(error))
            answer["error"] = {"type": kind, "what": error.what, "where": error.where, "remedy": error.remedy}
        except Exception as error:
            answer["error"] = {"type": None, "what": f"{type(error).__name__}: {error}", "where": message["call"]}
        self._say(answer)

    def _beat(self) -> None:
        while time.monotonic() - self._heard < PATIENCE:
            self._say({"beat": True})
            time.sleep(BEAT)
        # The lifelines end with the process.
        os._exit(1)

    def _watch(self) -> None:
        while True:
            for number, held in list(_HELD.items()):
                if held.lock.acquire(blocking=False):
                    # Said while the lock is held, so that an answer to `act` is never followed by what was before.
                    try:
                        state = held.look()
                        if state != held.told:
                            held.told = state
                            self._say({"process": number, "state": asdict(state)})
                    finally:
                        held.lock.release()
            time.sleep(_LOOK)

    def _say(self, message: Mapping[str, Any]) -> None:
        line = json.dumps(message).encode() + b"\n"
        with self._saying, contextlib.suppress(OSError):
            while line:
                line = line[os.write(self._sink, line) :]


def _end() -> None:
    """Stop what was not kept, and wait until it is gone: some launchers end what an agent leaves behind."""
    processes = [held.process for held in _HELD.values() if held.process.ours]
    for process in processes:
        process.request_stop()
    for process in processes:
        process.stop()


def main(source: BinaryIO) -> None:
    """Be an agent until the input ends. What is printed by mistake goes to standard error."""
    for ignored in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(ignored, signal.SIG_IGN)
    sink = os.dup(1)
    os.dup2(2, 1)
    _Agent(source, sink).run()
