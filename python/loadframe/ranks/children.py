"""Programs that ranks start for rank 0, with their standard input and output as messages.

So a rank can be a machine: what serves nodes there is such a program, and it ends with its rank.
"""

import contextlib
import queue
import subprocess
import threading
from collections import deque
from collections.abc import Callable

from loadframe.ranks.messages import Header, Wire

#: Bytes that are read at a time, and lines that are kept of what a program says on its standard error.
_PIECE = 1 << 16
_WORDS = 20
#: How long programs may take to end when their input has ended, s: they stop what they serve.
_ENDING = 30.0


class Children:
    """The programs of one rank."""

    def __init__(self, world: Wire) -> None:
        self._world = world
        self._running: dict[int, _Child] = {}

    @property
    def running(self) -> bool:
        """Whether there are any."""
        return bool(self._running)

    def hear(self, _source: int, header: Header, payload: bytes) -> None:
        """Do what rank 0 says: start a program, give it input, or end its input."""
        number, what = header["number"], header["what"]
        if what == "start":
            try:
                self._running[number] = _Child(header["command"])
            except OSError as error:
                words = f"{header['command'][0]}: {error.strerror}"
                self._world.send(0, {"kind": "child over", "number": number, "status": 127, "words": words})
        elif (child := self._running.get(number)) is not None:
            child.input.put(payload if what == "input" else None)

    def tick(self) -> None:
        """Send on what programs have said, and that they have ended."""
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
        """End the input of all, and wait until they have ended."""
        for child in self._running.values():
            child.input.put(None)
        for child in self._running.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.process.wait(_ENDING)


class _Child:
    """A program, and threads that wait for it. Its output ends with an empty piece."""

    def __init__(self, command: list[str]) -> None:
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
        self.input: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self.output: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self.words: deque[str] = deque(maxlen=_WORDS)
        for work in (self._write, self._read, self._listen):
            threading.Thread(target=work, name="rank-child", daemon=True).start()

    def _write(self) -> None:
        assert self.process.stdin
        with contextlib.suppress(OSError), self.process.stdin:
            while (piece := self.input.get()) is not None:
                self.process.stdin.write(piece)
                if self.input.empty():
                    self.process.stdin.flush()

    def _read(self) -> None:
        assert self.process.stdout
        while piece := self.process.stdout.read1(_PIECE):  # type: ignore[attr-defined]
            self.output.put(piece)
        self.output.put(b"")

    def _listen(self) -> None:
        assert self.process.stderr
        for line in self.process.stderr:
            self.words.append(line.decode(errors="replace").strip())


class ChildOfRank:
    """A program on another rank, for rank 0: what goes to it and comes from it. Threads of rank 0 may share it."""

    def __init__(self, say: Callable[[Header, bytes], None], number: int, command: list[str]) -> None:
        self._say = say
        self._number = number
        self._arrived: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._over = threading.Event()
        self._status: int | None = None
        self._words = ""
        say(self._header("start", command=command), b"")

    def send(self, data: bytes) -> None:
        """Give it input; BrokenPipeError when it has ended."""
        if self._over.is_set():
            raise BrokenPipeError("the program on that rank has ended")
        self._say(self._header("input"), data)

    def receive(self) -> bytes:
        """Return what it has said since, waiting for some; empty at its end."""
        return b"" if self._over.is_set() and self._arrived.empty() else self._arrived.get()

    def hang_up(self) -> None:
        """End its input."""
        self._say(self._header("end"), b"")

    def close(self) -> None:
        """End its input, and return when it has ended, or after a while."""
        if not self._over.is_set():
            self.hang_up()
            self._over.wait(_ENDING)

    def status(self) -> int | None:
        """Return what it has left with; None if that is not known."""
        return self._status

    def words(self) -> str:
        """Return what it said on its standard error, when it has ended."""
        return self._words

    def hear(self, header: Header, payload: bytes) -> None:
        """Take what its rank says of it."""
        if header["kind"] == "child said":
            self._arrived.put(payload)
        else:
            self.lose(header["status"], header["words"])

    def lose(self, status: int | None, words: str) -> None:
        """It has ended, or its rank is gone."""
        self._status, self._words = status, words
        self._over.set()
        self._arrived.put(b"")

    def _header(self, what: str, **more: object) -> Header:
        return {"kind": "child", "number": self._number, "what": what, **more}
