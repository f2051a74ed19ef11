"""Just enough of Redis's protocol (RESP2) for administration: send one server commands, read its replies.

The load uses the engine's driver instead; nothing here is on a request's path. A client library would take longer to
import than a command such as `loadframe cluster status` takes in all.
"""

import socket
import ssl
from collections.abc import Sequence
from typing import Any, Self

#: A command: its name, which may be of several words, and its arguments.
Command = Sequence[str | int]


class ReplyError(Exception):
    """A server's reply that is an error."""

    def __init__(self, code: str, words: str) -> None:
        """`code` is the first word of the reply, such as `NOAUTH`, and `words` is the rest."""
        super().__init__(words)
        self.code = code


class Connection:
    """A connection to one server. OSError (also for an answer that is not RESP) means that it is of no use any more."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        timeout: float,
        connect_timeout: float,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Connect; `timeout` is the seconds that each read and write may take."""
        self._socket = socket.create_connection((host, port), timeout=connect_timeout)
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if tls:
                self._socket = tls.wrap_socket(self._socket, server_hostname=host)
            self._socket.settimeout(timeout)
            self._replies = self._socket.makefile("rb")
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the server."""
        self._replies.close()
        self._socket.close()

    def ask(self, commands: Sequence[Command]) -> list[Any]:
        """Send commands at once and return their replies in order, errors among them as ReplyError objects."""
        self._socket.sendall(b"".join(map(_encoded, commands)))
        return [self._reply() for _ in commands]

    def _reply(self) -> Any:
        line = self._replies.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionResetError("the server closed the connection")
        kind, text = line[:1], _decoded(line[1:-2])
        match kind:
            case b"+":
                return text
            case b"-":
                code, _, words = text.partition(" ")
                return ReplyError(code, words)
            case b":":
                return _number(text)
            case b"$":
                length = _number(text)
                return None if length < 0 else self._text(length)
            case b"*":
                count = _number(text)
                return None if count < 0 else [self._reply() for _ in range(count)]
            case _:
                raise _not_resp(line)

    def _text(self, length: int) -> str:
        read = self._replies.read(length + 2)
        if len(read) < length + 2:
            raise ConnectionResetError("the server closed the connection")
        return _decoded(read[:-2])


def _encoded(command: Command) -> bytes:
    name, *arguments = command
    words = [_bytes(word) for word in (*str(name).split(), *arguments)]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)


def _bytes(word: str | int) -> bytes:
    return str(word).encode(errors="surrogateescape")


def _decoded(text: bytes) -> str:
    # Keys may be any bytes, and have to get back to the server as they came.
    return text.decode(errors="surrogateescape")


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise _not_resp(text.encode(errors="surrogateescape")) from error


def _not_resp(line: bytes) -> OSError:
    return OSError(f"what answers does not speak RESP: {line[:60]!r}")
