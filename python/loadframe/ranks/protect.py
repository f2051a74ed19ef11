"""Protection of rank 0 from a launcher that kills all ranks when one dies, so that it can write its record.

The launcher and MPI know only the process that was started. It forwards messages between MPI and its child, which does
the work.
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
from loadframe.base.untrusted import printable
from loadframe.ranks import Place, forget, messages
from loadframe.ranks.messages import BRISK, Frames, Header, World

_TO_CHILD = (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
#: Interval of MPI polls, s, unless the child requests another one; and time without pauses after a clock comparison.
_PAUSE = 0.02
_TIGHT = 0.05
#: Timeout to tell the other ranks of the end, and for all to leave, s.
_FAREWELL = 1.0
_ENDING = 5


#: Rescues the recording of a killed process in a folder.
Rescue = Callable[[Path], None]


def protect(place: Place, rescue: Rescue) -> "MpiProxy":
    """Continue as a child of this process, which runs MPI; return the child's connection to it.

    The parent does not return: it exits with the child's status. If the child dies while it records, the parent calls
    `rescue` with the folder of the run.
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
    return MpiProxy(ours, launcher)


class MpiProxy:
    """Transport of rank 0 to all ranks, through the process that runs MPI. Replaces `World`."""

    def __init__(self, line: socket.socket, launcher: int) -> None:
        """`line` is the socket to the process that runs MPI, `launcher` the process id of the launcher."""
        self._line = line
        #: Process id of the launcher of this rank.
        self.launcher = launcher
        self._frames = Frames()
        self.rank, self.size, self.library = 0, 1, ""
        #: Whether the launcher is ending the job.
        self.over = False
        #: Whether the MPI process has ended.
        self.lost = False
        self._pause = _PAUSE

    def open(self) -> None:
        """Wait until MPI is initialized, then set `size` and `library`; BadInput if that fails."""
        while not self._frames.ready and not self.lost:
            self._read(block=True)
        if self.lost:
            raise BadInput("MPI ended this rank during its start", remedy="test mpirun alone: mpirun -n 2 hostname")
        _, header, _ = self._frames.take()
        if header["kind"] == "refused":
            raise BadInput(header["what"], where=header["where"], remedy=header["remedy"])
        self.size, self.library = header["size"], header["library"]

    def fileno(self) -> int:
        """Return a descriptor that is readable when messages arrive, or when the MPI process ends.

        Several messages can arrive at once: call `receive` until it returns None.
        """
        return self._line.fileno()

    def send(self, rank: int, header: Header, payload: bytes = b"") -> None:
        """Send a message to `rank`, or to the MPI process itself for -1.

        If the MPI process has ended, drop the message and set `lost`.
        """
        try:
            self._line.sendall(Frames.pack(rank, header, payload))
        except OSError:
            self.lost = True

    def receive(self) -> tuple[int, Header, bytes] | None:
        """Return a received message (source rank, header, payload), or None if none has arrived.

        Sets `over` if the launcher is ending the job, and `lost` if the MPI process has ended.
        """
        self._read(block=False)
        while self._frames.ready:
            source, header, payload = self._frames.take()
            if header["kind"] != "job over":
                return source, header, payload
            self.over = True
        return None

    def rest(self, pause: float) -> None:
        """Request polls of MPI every `pause` s from the MPI process; below 40 ms, every 20 ms.

        Sends nothing unless the interval falls back to 20 ms or grows by more than half.
        """
        pause = _PAUSE if pause < 2 * _PAUSE else pause
        # Send it only if it matters: a message costs as much as a poll.
        if pause == _PAUSE != self._pause or pause > 1.5 * self._pause:
            self._pause = pause
            self.send(-1, {"kind": "rest", "pause": pause})

    def close(self) -> None:
        """Tell the MPI process to finalize MPI, and wait until it has ended."""
        self.send(-1, {"kind": "leave"})
        while not self.lost:
            self._read(block=True)

    def _read(self, *, block: bool) -> None:
        """Add received bytes to the frames; with `block`, wait for some. Sets `lost` at the end of the stream."""
        try:
            data = self._line.recv(1 << 20, 0 if block else socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self._frames.add(data)
        self.lost = self.lost or not data


def _forward_signals(child: int) -> list[int]:
    """Forward SIGINT, SIGHUP, SIGUSR1 and SIGUSR2 to the child; return a list that collects SIGTERM.

    SIGTERM is the launcher's signal to end. It is not forwarded.
    """
    terminations: list[int] = []

    def pass_on(number: int, _: FrameType | None) -> None:
        os.kill(child, number)

    for number in _TO_CHILD:
        signal.signal(number, pass_on)
    signal.signal(signal.SIGTERM, lambda number, _: terminations.append(number))
    return terminations


def _relay(  # noqa: PLR0912 - one loop between two sides
    place: Place, line: socket.socket, child: int, rescue: Rescue
) -> NoReturn:
    """Start MPI, forward messages between it and the child over `line`, and exit with the child's status at its end.

    If MPI cannot start, the child receives the error. After SIGTERM, the child is told that the launcher ends the job.
    `rescue` recovers the run that a killed child was recording.
    """
    terminations = _forward_signals(child)
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
        if terminations:
            terminations.clear()
            out += Frames.pack(-1, {"kind": "job over"})
        pause = BRISK if time.monotonic() < tight else usual
        ready, _, _ = select.select([line], [line] if out else [], [], pause)
        if ready:
            try:
                data = line.recv(1 << 20)
            except ConnectionError:
                data = b""
            if not data:
                _end_after_child(world, child, recorded, rescue)
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
    """Return until when MPI is polled without pauses, s of the monotonic clock, after a message with this header.

    50 ms from now for a `ping` or `pong`, otherwise `tight`, the time so far.
    """
    return time.monotonic() + _TIGHT if header["kind"] in ("ping", "pong") else tight


def _end_after_child(world: World, child: int, recorded: Path | None, rescue: Rescue) -> NoReturn:
    """After the child has closed its connection: end the other ranks, and exit with the child's status.

    `recorded` is the folder of its run, or None. `rescue` is called with it before the exit if it still exists; an
    error of `rescue` is printed.
    """
    for rank in messages.children(0, world.size):
        world.send(rank, {"kind": "end"})
    until = time.monotonic() + _FAREWELL
    while not world.idle and time.monotonic() < until:
        world.receive()
        time.sleep(_PAUSE)
    _, status = os.waitpid(child, 0)
    # If the folder is missing, the child has discarded the run itself.
    if recorded is not None and recorded.exists():
        try:
            rescue(recorded)
        except Exception as error:
            words = f"could not rescue the recording in {recorded}: {error}"
            print(f"loadframe: {printable(words)}", file=sys.stderr)
    if os.WIFSIGNALED(status):
        # If another rank is also lost, MPI would wait for it forever.
        signal.alarm(_ENDING)
        world.close()
    os._exit(_code(status))


def _leave(child: int) -> NoReturn:
    """Wait for the child and exit with its status; with 128 + signal if it was killed."""
    _, status = os.waitpid(child, 0)
    os._exit(_code(status))


def _code(status: int) -> int:
    """Return the exit code for the wait status of a process, as in a shell: 128 + signal if it was killed."""
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code
