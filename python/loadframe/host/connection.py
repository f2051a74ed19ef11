"""What carries the lines between a command and an agent."""

import contextlib
import subprocess
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Protocol

#: Lines of what a launcher says that are kept for messages.
_WORDS = 20
#: Seconds that a launcher is waited for after its input has ended: the agent stops its nodes meanwhile.
_LEAVING = 30.0


class Connection(Protocol):
    """A stream of bytes to an agent, and one from it."""

    def send(self, data: bytes) -> None:
        """Send all of it; OSError when the connection is gone."""

    def receive(self) -> bytes:
        """Return what has come since, waiting for some; empty at the end."""

    def hang_up(self) -> None:
        """End what is sent, so that the agent ends."""

    def close(self) -> None:
        """The same, and return when the connection is gone, or after a while."""

    def status(self) -> int | None:
        """Return what the launcher has left with; None if that is not known."""

    def words(self) -> str:
        """Return what the launcher said on the way, such as why it could not connect."""


class PipeConnection:
    """The standard input and output of a command that reaches the machine, such as ssh or srun."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        """Start it, in our own environment if none is given; OSError when it cannot be.

        Ctrl-C is not for it: nodes are stopped through it.
        """
        self._process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._words: deque[str] = deque(maxlen=_WORDS)
        self._sending = threading.Lock()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def send(self, data: bytes) -> None:
        """Write it through."""
        assert self._process.stdin
        with self._sending:
            if self._process.stdin.closed:
                raise BrokenPipeError("the connection is closed")
            self._process.stdin.write(data)
            self._process.stdin.flush()

    def receive(self) -> bytes:
        """Return the bytes that are there."""
        assert self._process.stdout
        return self._process.stdout.read1(2**16)  # type: ignore[attr-defined,no-any-return]

    def hang_up(self) -> None:
        """End its input."""
        assert self._process.stdin
        with self._sending, contextlib.suppress(OSError):
            self._process.stdin.close()

    def close(self) -> None:
        """End its input and wait; kill one that does not leave, as behind a network that is cut."""
        self.hang_up()
        try:
            self._process.wait(_LEAVING)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def status(self) -> int | None:
        """Return its exit status, waiting for it briefly."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(2.0)
        return None

    def words(self) -> str:
        """Return the end of its standard error."""
        self._listener.join(1.0)
        return "\n".join(self._words)

    def _listen(self) -> None:
        assert self._process.stderr
        for line in self._process.stderr:
            self._words.append(line.decode(errors="replace").rstrip())
