"""Agent: the process on another machine that executes calls for a command on this machine.

It exchanges JSON lines on standard input and output. The carrier can be ssh, srun or MPI messages.

    -> {"id": n, "call": "module:function", "args": [...], "kwargs": {...}}        -> {"beat": true}
    <- {"ready": facts}, once          <- {"id": n, "value": v} or {"id": n, "error": {type, what, where, remedy}}
    <- {"process": n, "state": {alive, paused, status}}, on change                 <- {"beat": true}

Each process that it starts has a supervisor. The supervisor stops the process when the agent ends. The agent exits
at the end of its input, or after `PATIENCE` s without input, such as after a network partition.
"""

import contextlib
import itertools
import json
import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

from loadframe.base.errors import BadInput, LoadframeError
from loadframe.host import wire
from loadframe.host.base import Command
from loadframe.host.container import ContainerHost
from loadframe.host.identity import facts
from loadframe.host.limits import Difference, Limits
from loadframe.host.local import LocalHost
from loadframe.host.local_process import LocalProcess

#: Seconds between heartbeats, and seconds without input after which an agent exits and its nodes stop.
BEAT, PATIENCE = 1.0, 120.0
#: Seconds between checks of the processes' states.
_LOOK = 0.1
#: Calls that are executed concurrently.
_CALLS = 16


@dataclass(frozen=True)
class HostKind:
    """Type of host that runs the nodes of this machine: `local`, or `container` if an image or a runtime is set."""

    image: str | None = None
    runtime: str | None = None

    def host(self) -> LocalHost:
        """Return the host object of this type."""
        return _host(self)


@dataclass(frozen=True)
class ProcessState:
    """Last known state of a process."""

    alive: bool = True
    paused: bool = False
    status: int | None = None  #: as Process.exit_status
    number: int = field(default=0, compare=False)  #: number of the reading; a higher one is newer


@dataclass(frozen=True)
class StartedProcess:
    """Process that the agent manages, with the number that identifies it in later calls."""

    number: int
    pid: int
    control_groups: Mapping[str, Path]
    record: Mapping[str, Any]
    state: ProcessState


@dataclass
class _RunningProcess:
    """A process of this agent, with the state that was reported last."""

    process: LocalProcess
    #: Serializes access to the supervisor's answer, which can be read only once.
    lock: threading.Lock = field(default_factory=threading.Lock)
    reported: ProcessState = ProcessState()
    _readings: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def current_state(self) -> ProcessState:
        """Read the state of the process now; the caller must hold `lock`. The exit status is None while it runs."""
        alive, number = self.process.alive(), next(self._readings)
        status = None if alive else self.process.exit_status()
        return ProcessState(alive, alive and self.process.paused(), status, number)


_HELD: dict[int, _RunningProcess] = {}
_NUMBERS = itertools.count()


@cache
def _host(kind: HostKind) -> LocalHost:
    """Return the host object of a type; the same object for equal types."""
    return LocalHost() if kind == HostKind() else ContainerHost(kind.image, kind.runtime)


def require(kind: HostKind) -> None:
    """Raise BadInput if this machine lacks something that this type of host needs."""
    kind.host().require()


def limited_by(kind: HostKind, limits: Limits, folder: Path) -> tuple[str, str | None]:
    """Return the name of this machine's limiter, and the reason if limits cannot be enforced, else None.

    See `LocalHost.limited_by`.
    """
    return kind.host().limited_by(limits, folder)


def server_user(named: bool) -> int | None:
    """Return the user id for servers that refuse to run as root, or None; see `LocalHost.server_user`."""
    return LocalHost().server_user(named)


def free_ports(count: int, first: int | None, addresses: list[str]) -> list[int]:
    """Return `count` free ports; see `LocalHost.free_ports`."""
    return LocalHost().free_ports(count, first, addresses)


def start(kind: HostKind, command: Command, limits: Limits) -> StartedProcess:
    """Start a command under a supervisor, and return it with a number for later calls; see `LocalHost.start`."""
    return _register(kind.host().start(command, limits))


def find(kind: HostKind, record: Mapping[str, Any]) -> StartedProcess | None:
    """Attach to a kept process, by the result of `LocalProcess.record`, and register it; None if it has ended."""
    process = kind.host().find(record)
    return _register(process) if process else None


def act(number: int, what: str) -> ProcessState:
    """Apply an action to the process with a number, and return its new state.

    `what` is `throttle`, `unthrottle`, `stop`, `kill`, `pause`, `resume`, `keep` or `request_stop`; BadInput for
    another word. KeyError for an unknown number.
    """
    held = _HELD[number]
    process = held.process
    match what:
        case "throttle" | "unthrottle":
            process.throttle(what == "throttle")
        case "stop" | "keep":
            # They close the supervisor's pipe, which `current_state` reads.
            with held.lock:
                getattr(process, what)()
        case "kill" | "pause" | "resume" | "request_stop":
            getattr(process, what)()
        case _:
            raise BadInput(f"unknown action on a process: {what!r}")
    with held.lock:
        # `_report_changes` sends it as well, for a caller who no longer waits.
        return held.current_state()


def limit_differences(number: int, throttled: bool) -> list[Difference]:
    """Return the differences of a process from its limits; see `Process.limit_differences`."""
    return _HELD[number].process.limit_differences(throttled)


def _register(process: LocalProcess) -> StartedProcess:
    """Give a process a number, keep it for later calls, and return it with its state."""
    number, held = next(_NUMBERS), _RunningProcess(process)
    started = StartedProcess(number, process.pid, dict(process.control_groups), process.record(), held.current_state())
    _HELD[number] = held
    return started


class _Agent:
    """Reads calls, executes them, and writes results, heartbeats and state changes."""

    def __init__(self, source: BinaryIO, sink: int) -> None:
        """Take the input stream, and the file descriptor of the output."""
        self._source, self._sink = source, sink
        self._writing = threading.Lock()
        self._heard = time.monotonic()

    def run(self) -> None:
        """Send the facts of this machine, then execute calls in threads until the input ends; then stop processes.

        Processes that were kept continue.
        """
        self._write({"ready": wire.encoded(facts())})
        for task in (self._beat, self._report_changes):
            threading.Thread(target=task, daemon=True).start()
        with ThreadPoolExecutor(_CALLS) as pool:
            for line in self._source:
                self._heard = time.monotonic()
                message = json.loads(line)
                if "call" in message:
                    pool.submit(self._answer, message)
        _stop_processes()

    def _answer(self, message: Mapping[str, Any]) -> None:
        """Execute a call, and send its value or its error, whose type only a LoadframeError keeps; raise nothing."""
        answer: dict[str, Any] = {"id": message["id"]}
        try:
            function = wire.import_named(message["call"])
            value = function(*wire.decoded(message["args"]), **wire.decoded(message["kwargs"]))
            answer["value"] = wire.encoded(value)
        except LoadframeError as error:
            kind = wire.name_of(type(error))
            answer["error"] = {"type": kind, "what": error.what, "where": error.where, "remedy": error.remedy}
        except Exception as error:
            answer["error"] = {"type": None, "what": f"{type(error).__name__}: {error}", "where": message["call"]}
        self._write(answer)

    def _beat(self) -> None:
        """Send a heartbeat every second, and exit at once if the other side was silent for 120 s."""
        while time.monotonic() - self._heard < PATIENCE:
            self._write({"beat": True})
            time.sleep(BEAT)
        # The supervisors' pipes close with this process, so the nodes stop.
        os._exit(1)

    def _report_changes(self) -> None:
        """Look at the processes every 0.1 s and send each change of a process's state, forever."""
        while True:
            for number, held in list(_HELD.items()):
                if held.lock.acquire(blocking=False):
                    try:
                        state = held.current_state()
                        if state != held.reported:
                            held.reported = state
                            self._write({"process": number, "state": asdict(state)})
                    finally:
                        held.lock.release()
            time.sleep(_LOOK)

    def _write(self, message: Mapping[str, Any]) -> None:
        """Send a message as one line. Threads take turns; a broken connection is ignored."""
        line = json.dumps(message).encode() + b"\n"
        with self._writing, contextlib.suppress(OSError):
            while line:
                line = line[os.write(self._sink, line) :]


def _stop_processes() -> None:
    """Stop all processes that were not kept, and wait: some launchers kill everything that an agent leaves running."""
    processes = [held.process for held in _HELD.values() if held.process.ours]
    for process in processes:
        process.request_stop()
    for process in processes:
        process.stop()


def main(source: BinaryIO) -> None:
    """Run the agent with the input `source` until that ends.

    Redirects standard output to standard error, so that stray prints do not break the protocol. Ignores SIGINT, SIGHUP
    and SIGPIPE.
    """
    for ignored in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(ignored, signal.SIG_IGN)
    sink = os.dup(1)
    os.dup2(2, 1)
    _Agent(source, sink).run()
