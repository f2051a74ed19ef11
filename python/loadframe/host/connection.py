"""Byte streams between a command and an agent."""

import contextlib
import subprocess
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Protocol

#: Last lines of a launcher's standard error that are kept for messages.
_WORDS = 20
#: Seconds to wait for a launcher after its input is closed. The agent stops its nodes in this time.
_LEAVING = 30.0


class Connection(Protocol):
    """Byte stream to and from an agent."""

    def send(self, data: bytes) -> None:
        """Send all of the data; OSError if the connection is closed."""

    def receive(self) -> bytes:
        """Wait for data and return it; empty at the end of the stream."""

    def hang_up(self) -> None:
        """Close the stream to the agent, so that it exits."""

    def close(self) -> None:
        """Close the stream and wait a limited time for the connection to end."""

    def status(self) -> int | None:
        """Return the exit status of the launcher, or None if unknown."""

    def words(self) -> str:
        """Return the launcher's last error output, such as the reason for a failed connection."""


class PipeConnection:
    """Standard input and output of a command that reaches the machine, such as ssh or srun."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        """Start the command; OSError if it cannot be started. `environment` None: inherit the environment.

        It runs in its own session: Ctrl-C must not end it, because nodes are stopped through it.
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
        """Write the data to the command's input."""
        assert self._process.stdin
        with self._sending:
            if self._process.stdin.closed:
                raise BrokenPipeError("the connection is closed")
            self._process.stdin.write(data)
            self._process.stdin.flush()

    def receive(self) -> bytes:
        """Return the available output, waiting if there is none."""
        assert self._process.stdout
        return self._process.stdout.read1(2**16)  # type: ignore[attr-defined,no-any-return]

    def hang_up(self) -> None:
        """Close its input."""
        assert self._process.stdin
        with self._sending, contextlib.suppress(OSError):
            self._process.stdin.close()

    def close(self) -> None:
        """Close its input and wait; kill it if it does not exit in time, such as after a network partition."""
        self.hang_up()
        try:
            self._process.wait(_LEAVING)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def status(self) -> int | None:
        """Wait up to 2 s for its exit status, or None if it still runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(2.0)
        return None

    def words(self) -> str:
        """Return the last lines of its standard error."""
        self._listener.join(1.0)
        return "\n".join(self._words)

    def _listen(self) -> None:
        assert self._process.stderr
        for line in self._process.stderr:
            self._words.append(line.decode(errors="replace").rstrip())
