"""HTTP server on loopback with programmable behaviour, which counts completely read requests."""

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

#: Answers one request on its connection; says whether the connection goes on.
Behaviour = Callable[[socket.socket, int], bool]


class Misbehaving:
    """Context manager of the server, with a thread per connection.

    `behaviour` gets the socket and the number of the request.
    """

    def __init__(self, behaviour: Behaviour) -> None:
        self._behaviour = behaviour
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._over = False
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.requests = 0

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over = True
        self._listener.close()
        with self._lock:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while not self._over:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._open.add(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            while self._read(connection):
                with self._lock:
                    self.requests += 1
                    number = self.requests
                if not self._behaviour(connection, number):
                    break
        with self._lock:
            self._open.discard(connection)

    def _read(self, connection: socket.socket) -> bool:
        """Read one request without a body."""
        data = b""
        while not data.endswith(b"\r\n\r\n"):
            more = connection.recv(4096)
            if not more:
                return False
            data += more
        return True


def reset(connection: socket.socket) -> None:
    """Close the connection with a reset."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def says(*parts: bytes, pause: float = 0.0, stays: bool = True) -> Behaviour:
    """Send the parts with a pause (s) between them; then keep or close the connection."""

    def answer(connection: socket.socket, _: int) -> bool:
        for place, part in enumerate(parts):
            if place and pause:
                time.sleep(pause)
            connection.sendall(part)
        return stays

    return answer


def never(connection: socket.socket, _: int) -> bool:
    """Leave the request unanswered until the client closes the connection."""
    connection.recv(1)
    return False


def resets(before: bytes = b"") -> Behaviour:
    """Send the data, then reset the connection."""

    def answer(connection: socket.socket, _: int) -> bool:
        if before:
            connection.sendall(before)
            time.sleep(0.005)
        reset(connection)
        return False

    return answer


def endless(head: bytes, part: bytes) -> Behaviour:
    """Send the part repeatedly until the client closes the connection."""

    def answer(connection: socket.socket, _: int) -> bool:
        connection.sendall(head)
        while True:
            connection.sendall(part)

    return answer


def in_turns(*behaviours: Behaviour) -> Behaviour:
    """Cycle through these behaviours, one per request."""
    return lambda connection, number: behaviours[(number - 1) % len(behaviours)](connection, number)
