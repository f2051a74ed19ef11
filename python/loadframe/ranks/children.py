"""Programs that ranks start for rank 0. Their input and output are sent as messages.

This makes a rank's machine usable for nodes: the agent there is such a program. It ends with its rank.
"""

import contextlib
import queue
import subprocess
import threading
from collections import deque
from collections.abc import Callable

from loadframe.ranks.messages import Header, Wire

#: Size of a read in bytes, and number of lines of standard error that are kept.
_PIECE = 1 << 16
_WORDS = 20
#: Timeout for programs to exit after their input ends, s. In this time an agent stops its nodes.
_ENDING = 30.0


class Children:
    """Programs on one rank."""

    def __init__(self, world: Wire) -> None:
        """Begin without programs; `world` sends messages to rank 0."""
        self._world = world
        self._running: dict[int, _Child] = {}

    @property
    def running(self) -> bool:
        """Whether any program is running."""
        return bool(self._running)

    def hear(self, _source: int, header: Header, payload: bytes) -> None:
        """Handle a message of rank 0: start a program, pass input to it, or close its input.

        The header has the program's `number`, the action `what` (`start`, `input` or `end`), and the `command` to
        start. If the program cannot start, rank 0 gets the exit status 127. Messages for an ended program are ignored.
        """
        number, action = header["number"], header["what"]
        if action == "start":
            try:
                self._running[number] = _Child(header["command"])
            except OSError as error:
                words = f"{header['command'][0]}: {error.strerror}"
                self._world.send(0, {"kind": "child over", "number": number, "status": 127, "words": words})
        elif (child := self._running.get(number)) is not None:
            child.input.put(payload if action == "input" else None)

    def tick(self) -> None:
        """Send new output, and the exit of programs, to rank 0.

        After the end of a program's output, blocks until its exit without a time limit. The exit message has the status
        (the negative signal number after a signal) and the last 20 lines of standard error, joined by spaces.
        """
        for number, child in list(self._running.items()):
            while not child.output.empty():
                piece = child.output.get()
                if piece:
                    self._world.send(0, {"kind": "child said", "number": number}, piece)
                    continue
                status = child.process.wait()
                words = " ".join(child.words)
                self._world.send(0, {"kind": "child over", "number": number, "status": status, "words": words})
                del self._running[number]
                break

    def end(self) -> None:
        """Close the input of all programs, then wait up to 30 s for each to exit. Does not kill them."""
        for child in self._running.values():
            child.input.put(None)
        for child in self._running.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.process.wait(_ENDING)


class _Child:
    """Program with threads that read and write its pipes. An empty piece marks the end of its output."""

    def __init__(self, command: list[str]) -> None:
        """Start a program in its own session, with three threads for its pipes; OSError if it cannot start."""
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
        self.input: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self.output: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self.words: deque[str] = deque(maxlen=_WORDS)
        for work in (self._write, self._read, self._listen):
            threading.Thread(target=work, name="rank-child", daemon=True).start()

    def _write(self) -> None:
        """Write queued input to the program until None is taken from the queue, then close its standard input.

        Ends without an error if the program has closed its input.
        """
        assert self.process.stdin
        with contextlib.suppress(OSError), self.process.stdin:
            while (piece := self.input.get()) is not None:
                self.process.stdin.write(piece)
                if self.input.empty():
                    self.process.stdin.flush()

    def _read(self) -> None:
        """Queue the program's standard output in pieces of up to 64 KiB, then an empty piece at its end."""
        assert self.process.stdout
        while piece := self.process.stdout.read1(_PIECE):  # type: ignore[attr-defined]
            self.output.put(piece)
        self.output.put(b"")

    def _listen(self) -> None:
        """Keep the last 20 lines of the program's standard error as text in `words`, until its end."""
        assert self.process.stderr
        for line in self.process.stderr:
            self.words.append(line.decode(errors="replace").strip())


class ChildOfRank:
    """Handle of rank 0 for a program on another rank. Thread-safe."""

    def __init__(self, send_message: Callable[[Header, bytes], None], number: int, command: list[str]) -> None:
        """Start `command` on a rank by a message, without waiting for the start.

        `send_message` sends to that rank; `number` identifies the program in all its messages.
        """
        self._send = send_message
        self._number = number
        self._arrived: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._over = threading.Event()
        self._status: int | None = None
        self._words = ""
        send_message(self._header("start", command=command), b"")

    def send(self, data: bytes) -> None:
        """Send input to the program, without waiting; BrokenPipeError if it is known to have ended."""
        if self._over.is_set():
            raise BrokenPipeError("the program on that rank has ended")
        self._send(self._header("input"), data)

    def receive(self) -> bytes:
        """Wait for output of the program and return it; return empty bytes at its end."""
        return b"" if self._over.is_set() and self._arrived.empty() else self._arrived.get()

    def hang_up(self) -> None:
        """Close the program's input, without waiting for its exit."""
        self._send(self._header("end"), b"")

    def close(self) -> None:
        """Close the program's input and wait for its exit; return after 30 s even if the program still runs."""
        if not self._over.is_set():
            self.hang_up()
            self._over.wait(_ENDING)

    def status(self) -> int | None:
        """Return the program's exit status, negative after a signal; None while it runs, or if its rank was lost."""
        return self._status

    def words(self) -> str:
        """Return the program's last error output, or the reason if its rank was lost; empty until it has ended."""
        return self._words

    def hear(self, header: Header, payload: bytes) -> None:
        """Handle a message about the program from its rank: `child said` with output, else its exit."""
        if header["kind"] == "child said":
            self._arrived.put(payload)
        else:
            self.lose(header["status"], header["words"])

    def lose(self, status: int | None, words: str) -> None:
        """Mark the program as ended, and wake waiting calls.

        `status` is its exit status, None if its rank was lost; `words` its last error output, or the reason of the
        loss.
        """
        self._status, self._words = status, words
        self._over.set()
        self._arrived.put(b"")

    def _header(self, action: str, **more: object) -> Header:
        """Return the header of a message about the program; `action` is `start`, `input` or `end`."""
        return {"kind": "child", "number": self._number, "what": action, **more}
