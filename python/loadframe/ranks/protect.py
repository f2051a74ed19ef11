"""Keeps rank 0 alive when its launcher ends all ranks, for long enough to write its record.

A launcher that sees a rank die kills the others at once, and so does MPI itself. What they know is the process that was
started; it only passes messages on between MPI and its child, in which the work is done.
"""

import contextlib
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import NoReturn

from loadframe.base.errors import BadInput
from loadframe.base.printable import printable
from loadframe.ranks import tree
from loadframe.ranks.clock import BRISK
from loadframe.ranks.environment import Place, forget
from loadframe.ranks.messages import Frames, Header
from loadframe.ranks.world import World

_TO_CHILD = (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
#: How long MPI is not looked at, s, until the child says another time; clocks are compared without such pauses.
_PAUSE = 0.02
_TIGHT = 0.05
#: How long it may take to tell the other ranks that all is over, and for all to leave, s.
_FAREWELL = 1.0
_ENDING = 5


#: Keeps what a process that was killed has recorded in a folder.
Rescue = Callable[[Path], None]


def protect(place: Place, rescue: Rescue) -> "Line":
    """Go on as a child of this process, which has MPI; return the line to it. It leaves with the child's status.

    Should the child die while it records, `rescue` is called with the folder.
    """
    ours, theirs = socket.socketpair()
    launcher = os.getppid()
    child = os.fork()
    if child:
        ours.close()
        _relay(place, theirs, child, rescue)
    theirs.close()
    os.setsid()
    forget()
    return Line(ours, launcher)


class Line:
    """All ranks as messages, over the process that has MPI: what `World` is to the others."""

    def __init__(self, line: socket.socket, launcher: int) -> None:
        self._line = line
        #: The process that started this rank.
        self.launcher = launcher
        self._frames = Frames()
        self.rank, self.size, self.library = 0, 1, ""
        #: Whether the launcher has told us that it ends the job.
        self.over = False
        #: Whether the process that has MPI is gone.
        self.lost = False
        self._pause = _PAUSE

    def open(self) -> None:
        """Wait until MPI is there. BadInput where it cannot be."""
        while not self._frames.ready and not self.lost:
            self._read(block=True)
        if self.lost:
            raise BadInput(
                "MPI ended this rank before it had begun", remedy="try mpirun by itself: mpirun -n 2 hostname"
            )
        _, told, _ = self._frames.take()
        if told["kind"] == "refused":
            raise BadInput(told["what"], where=told["where"], remedy=told["remedy"])
        self.size, self.library = told["size"], told["library"]

    def fileno(self) -> int:
        """Return what can be waited for."""
        return self._line.fileno()

    def send(self, rank: int, header: Header, payload: bytes = b"") -> None:
        """Send a message; one that can reach nobody any more is forgotten."""
        try:
            self._line.sendall(Frames.pack(rank, header, payload))
        except OSError:
            self.lost = True

    def receive(self) -> tuple[int, Header, bytes] | None:
        """Return a message that has arrived with the rank that it is from; None if there is none."""
        self._read(block=False)
        while self._frames.ready:
            source, header, payload = self._frames.take()
            if header["kind"] != "job over":
                return source, header, payload
            self.over = True
        return None

    def rest(self, pause: float) -> None:
        """Say how long MPI need not be looked at from now on, s. Shorter times than the usual one are the usual one."""
        pause = _PAUSE if pause < 2 * _PAUSE else pause
        # Said where it makes a difference: a word costs as much as a look.
        if pause == _PAUSE != self._pause or pause > 1.5 * self._pause:
            self._pause = pause
            self.send(-1, {"kind": "rest", "pause": pause})

    def close(self) -> None:
        """Have MPI left in good order."""
        self.send(-1, {"kind": "leave"})
        while not self.lost:
            self._read(block=True)

    def _read(self, *, block: bool) -> None:
        try:
            data = self._line.recv(1 << 20, 0 if block else socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self._frames.add(data)
        self.lost = self.lost or not data


def _hear(child: int) -> list[int]:
    """Pass signals on to the child; return where those are taken down by which a launcher ends its ranks."""
    told: list[int] = []

    def pass_on(number: int, _: FrameType | None) -> None:
        os.kill(child, number)

    for number in _TO_CHILD:
        signal.signal(number, pass_on)
    signal.signal(signal.SIGTERM, lambda number, _: told.append(number))
    return told


def _relay(  # noqa: PLR0912 - one loop between two sides
    place: Place, line: socket.socket, child: int, rescue: Rescue
) -> NoReturn:
    """Pass messages on between MPI and the child until that has ended."""
    told = _hear(child)
    try:
        world = World(place)
    except BadInput as error:
        refused = {"kind": "refused", "what": error.what, "where": error.where, "remedy": error.remedy}
        line.sendall(Frames.pack(-1, refused))
        _leave(child)
    line.setblocking(False)
    out = bytearray(Frames.pack(-1, {"kind": "open", "size": world.size, "library": world.library}))
    frames, tight, usual, leaving = Frames(), 0.0, _PAUSE, False
    recorded: Path | None = None
    while True:
        while (arrived := world.receive()) is not None:
            out += Frames.pack(*arrived)
            tight = _tight_after(arrived[1], tight)
        if told:
            told.clear()
            out += Frames.pack(-1, {"kind": "job over"})
        pause = BRISK if time.monotonic() < tight else usual
        ready, _, _ = select.select([line], [line] if out else [], [], pause)
        if ready:
            try:
                data = line.recv(1 << 20)
            except ConnectionError:
                data = b""
            if not data:
                _outlive(world, child, recorded, rescue)
            frames.add(data)
        while frames.ready:
            rank, header, payload = frames.take()
            if header["kind"] == "leave":
                leaving = True
            elif header["kind"] == "rest":
                usual = header["pause"]
            elif header["kind"] == "recording":
                recorded = Path(header["folder"])
            else:
                world.send(rank, header, payload)
                tight = _tight_after(header, tight)
        if out:
            with contextlib.suppress(BlockingIOError, ConnectionError):
                del out[: line.send(out)]
        if leaving and world.idle:
            world.close()
            line.close()
            _leave(child)


def _tight_after(header: Header, tight: float) -> float:
    return time.monotonic() + _TIGHT if header["kind"] in ("ping", "pong") else tight


def _outlive(world: World, child: int, recorded: Path | None, rescue: Rescue) -> NoReturn:
    """The child has died: end the other ranks, keep what it recorded, and leave as it did."""
    for rank in tree.children(0, world.size):
        world.send(rank, {"kind": "end"})
    until = time.monotonic() + _FAREWELL
    while not world.idle and time.monotonic() < until:
        world.receive()
        time.sleep(_PAUSE)
    _, status = os.waitpid(child, 0)
    # A run that the child gave up itself is gone.
    if recorded is not None and recorded.exists():
        try:
            rescue(recorded)
        except Exception as error:
            words = f"what was recorded in {recorded} could not be kept: {error}"
            print(f"loadframe: {printable(words)}", file=sys.stderr)
    if os.WIFSIGNALED(status):
        # Where a rank is gone, too, MPI would wait for it for good.
        signal.alarm(_ENDING)
        world.close()
    os._exit(_code(status))


def _leave(child: int) -> NoReturn:
    _, status = os.waitpid(child, 0)
    os._exit(_code(status))


def _code(status: int) -> int:
    """Return what a shell would leave with where a program ended so."""
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code
