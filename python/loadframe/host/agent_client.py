"""Client of one agent: starts it on another machine with its sources, sends calls and receives results.

The machine needs only Python. The sources are sent over the connection and stay in memory.
"""

import concurrent.futures
import contextlib
import io
import json
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from loadframe.base.errors import LoadframeError
from loadframe.host import wire
from loadframe.host.agent import BEAT, ProcessState
from loadframe.host.identity import Facts
from loadframe.host.wire import Connection

_PACKAGE = Path(__file__).parents[1]
#: Packages whose functions agents call. `_BARE` get an empty `__init__.py`, because the real one imports libraries.
_PACKAGES, _BARE = ("base", "host", "store", "cluster", "observe"), ("cluster", "observe")
#: Oldest supported Python version.
PYTHON = (3, 11)

_BOOT = """
import os, sys
source = sys.stdin.buffer
size = int(source.readline())
file = os.memfd_create("loadframe")
content = source.read(size)
while content:
    content = content[os.write(file, content):]
sys.path.insert(0, "/proc/self/fd/%d" % file)
from loadframe.host import agent
agent.main(source)
"""
_FIND = """
for python in {candidates}; do
  if "$python" -I -S -c "import sys; sys.exit(sys.version_info < ({major}, {minor}))" 2>/dev/null; then
    exec "$python" -I -S -c '{boot}'
  fi
done
echo "Python {major}.{minor} or newer is not installed" >&2
exit 72
"""
#: Exit status of the command if no supported Python is found.
NO_PYTHON = 72


@cache
def bundle() -> bytes:
    """Return a zip file with the sources that agents need, created once per process."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as content:
        for path in sorted(_PACKAGE.glob("*.py")):
            content.write(path, f"loadframe/{path.name}")
        for package in _PACKAGES:
            for path in sorted((_PACKAGE / package).rglob("*")):
                name = f"loadframe/{path.relative_to(_PACKAGE)}"
                if package in _BARE and name == f"loadframe/{package}/__init__.py":
                    content.writestr(name, "")
                elif path.suffix in (".py", ".json"):
                    content.write(path, name)
    return buffer.getvalue()


def agent_command() -> tuple[str, ...]:
    """Return the command that becomes an agent on another machine.

    It reads the size of the bundle and the bundle from its input. It prefers the path of the current Python, which
    exists on shared file systems, and falls back to a Python in PATH. Exit status 72 if none is version 3.11 or newer.
    """
    major, minor = PYTHON
    names = ["python3", *(f"python{major}.{newer}" for newer in range(minor, minor + 6))]
    candidates = " ".join(f'"{name}"' for name in (sys.executable, *names))
    return ("/bin/sh", "-c", _FIND.format(candidates=candidates, major=major, minor=minor, boot=_BOOT))


#: Seconds within which an agent must send `ready`.
_BEGIN = 60.0
_P = ParamSpec("_P")
_T = TypeVar("_T")


class MachineLost(LoadframeError):
    """The machine does not answer, or its connection has ended."""


class AgentClient:
    """Client of one agent: calls, results, and the last reported state of each process."""

    def __init__(self, hostname: str, connection: Connection) -> None:
        """Take the machine's name and an open connection to it; `begin` starts the agent."""
        self.hostname, self.connection = hostname, connection
        #: Last reported state by process number.
        self.states: dict[int, ProcessState] = {}
        self.facts: Facts
        self.ended = False
        self._ready: concurrent.futures.Future[Facts] = concurrent.futures.Future()
        self._waiting: dict[int, concurrent.futures.Future[Any]] = {}
        self._lock = threading.Lock()
        self._next = 0
        self._heard = time.monotonic()
        self._closing = threading.Event()

    def begin(self) -> None:
        """Send the agent's sources and wait until it is ready; MachineLost after 60 s, or if the connection ends.

        Starts two threads: one reads messages, the other sends heartbeats.
        """
        threading.Thread(target=self._read, name=f"agent-{self.hostname}", daemon=True).start()
        sources = bundle()
        with contextlib.suppress(OSError):
            self.connection.send(b"%d\n" % len(sources) + sources)
        try:
            self.facts = self._ready.result(_BEGIN)
        except concurrent.futures.TimeoutError:
            raise MachineLost(f"the agent did not start within {_BEGIN:.0f} s", where=self.hostname) from None
        threading.Thread(target=self._beat, name=f"beat-{self.hostname}", daemon=True).start()

    def silence(self) -> float:
        """Return the seconds since the last received data, or since the creation of this object."""
        return time.monotonic() - self._heard

    def ask(self, patience: float, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Return a function's result on the machine, or raise its error, a LoadframeError.

        Blocks while the machine sends data, such as heartbeats. MachineLost after `patience` s without, or if the
        connection has ended. TypeError for a function or argument that `wire` does not support.
        """
        answer: concurrent.futures.Future[Any] = concurrent.futures.Future()
        with self._lock:
            if self.ended:
                raise MachineLost("the connection to the machine has ended", where=self.hostname)
            number, self._next = self._next, self._next + 1
            self._waiting[number] = answer
        message = {
            "id": number,
            "call": wire.name_of(function),
            "args": wire.encoded(list(args)),
            "kwargs": wire.encoded(kwargs),
        }
        try:
            self._send(message)
            while True:
                try:
                    result: _T = answer.result(min(patience, BEAT))
                except concurrent.futures.TimeoutError:
                    if self.silence() > patience:
                        what = f"the machine has not answered for {self.silence():.0f} s"
                        raise MachineLost(what, where=self.hostname) from None
                else:
                    return result
        finally:
            self._waiting.pop(number, None)

    def learn(self, number: int, state: ProcessState) -> None:
        """Store the state of process `number`, unless the known state has the same or a higher `state.number`."""
        with self._lock:
            known = self.states.get(number)
            if known is None or state.number > known.number:
                self.states[number] = state

    def hang_up(self) -> None:
        """Close the input of the agent, so that it exits. Do not wait."""
        self._closing.set()
        self.connection.hang_up()

    def close(self) -> None:
        """Close the input of the agent and wait for the end of the connection, 30 s at most."""
        self.hang_up()
        self.connection.close()

    def _send(self, message: Mapping[str, Any]) -> None:
        """Send a message; MachineLost if the connection has ended."""
        try:
            self.connection.send(json.dumps(message).encode() + b"\n")
        except OSError as error:
            raise MachineLost("the connection to the machine has ended", where=self.hostname) from error

    def _beat(self) -> None:
        """Send a heartbeat every second until the connection ends or is closed."""
        while not self._closing.wait(BEAT) and not self.ended:
            with contextlib.suppress(MachineLost):
                self._send({"beat": True})

    def _read(self) -> None:
        """Handle messages until the connection ends, then let all pending calls raise MachineLost."""
        pieces: list[bytes] = []
        while data := self.connection.receive():
            self._heard = time.monotonic()
            *lines, rest = data.split(b"\n")
            for line in lines:
                self._take(b"".join((*pieces, line)))
                pieces = []
            pieces.append(rest)
        with self._lock:
            self.ended = True
            waiting = list(self._waiting.values())
        lost = MachineLost("the connection to the machine has ended", where=self.hostname)
        for future in (self._ready, *waiting):
            if not future.done():
                future.set_exception(lost)

    def _take(self, line: bytes) -> None:
        """Handle one line: the agent's facts, the state of a process, or the answer to a call. Ignore other output."""
        try:
            message = json.loads(line)
        except ValueError:
            # Output of a login script before the agent starts.
            return
        if not isinstance(message, dict):
            return
        if "ready" in message:
            self._ready.set_result(wire.decoded(message["ready"]))
        elif "process" in message:
            self.learn(message["process"], ProcessState(**message["state"]))
        elif answer := self._waiting.get(message.get("id", -1)):
            if "error" in message:
                answer.set_exception(self._raised(message["error"]))
            else:
                answer.set_result(wire.decoded(message["value"]))

    def _raised(self, error: Mapping[str, Any]) -> LoadframeError:
        """Return an agent's error as an exception of its type, with the machine's name in `where`.

        An error of a type outside the LoadframeErrors becomes a LoadframeError.
        """
        where = f"{self.hostname}: {error['where']}" if error["where"] else self.hostname
        kind = wire.import_named(error["type"]) if error["type"] else LoadframeError
        if not (isinstance(kind, type) and issubclass(kind, LoadframeError)):
            kind = LoadframeError
        return kind(error["what"], where=where, remedy=error.get("remedy"))
