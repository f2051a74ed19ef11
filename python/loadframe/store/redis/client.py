"""Redis client for administration, and its protocol (RESP).

The load uses the engine's driver instead; nothing here is on a request's path. A client library would take longer to
import than a command such as `loadframe cluster status` takes in all.
"""

import socket
import ssl
import threading
from collections.abc import Iterator, Sequence
from typing import Any, Self

from loadframe.base.errors import BadInput, LoadframeError, StoreFailed
from loadframe.store.access import Access, split_address
from loadframe.store.base import Unreachable

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


#: The user that every server has.
USER = "default"
#: Seconds.
_TIMEOUT = 30.0
_LOOK_TIMEOUT = 5.0
_CONNECT_TIMEOUT = 3.0
#: The first words of replies to somebody who is not known, or may not do that.
_NOT_LET_IN = {"NOAUTH", "WRONGPASS", "NOPERM"}
#: Of a server that has to read its data first.
_NOT_YET = "LOADING"


class Client:
    """Connects when it first asks. BadInput when access is denied, Unreachable when nobody answers."""

    def __init__(self, address: str, access: Access) -> None:
        """Remember where, and as whom."""
        self.address = address
        self._access = access
        self._auth = access.auth
        self._commands = _Line(address, access, _TIMEOUT)
        #: For what is answered at once.
        self._looks = _Line(address, access, _LOOK_TIMEOUT)

    @property
    def credentials(self) -> list[str]:
        """The words that let another node in here, for MIGRATE."""
        return ["AUTH2", self._auth.user or USER, self._auth.secret] if self._auth else []

    def ask(self, *words: str | int) -> Any:
        """Return the answer to one command."""
        return self._told(self._commands, [words])[0]

    def ask_all(self, commands: Sequence[Command]) -> list[Any]:
        """Return the answers to commands that are sent at once."""
        return self._told(self._commands, commands)

    def info(self) -> dict[str, str]:
        """Return what INFO says, without its figures for each command, which nobody asks for and which are many."""
        return self.look("INFO")

    def look(self, command: str) -> dict[str, str]:
        """Return the lines `name:value` of a command that a server answers at once; a silent one is given up soon."""
        return dict(line.split(":", 1) for line in self.look_at(command) if ":" in line)

    def look_at(self, command: str) -> list[str]:
        """Return the lines of the answer to such a command."""
        return str(self._told(self._looks, [[command]])[0]).splitlines()

    def keys(self, collection: str) -> Iterator[list[str]]:
        """Yield the keys of a collection's documents that this node holds, in batches; one may come twice."""
        pattern, cursor = "".join(f"\\{c}" if c in "*?[]\\^-" else c for c in collection) + ":*", "0"
        while True:
            cursor, keys = self.ask("SCAN", cursor, "MATCH", pattern, "COUNT", 1000)
            yield keys
            if int(cursor) == 0:
                return

    def _told(self, line: "_Line", commands: Sequence[Command]) -> list[Any]:
        try:
            replies = line.ask(commands)
        except ReplyError as error:
            raise self._refused(error) from error
        except OSError as error:
            raise Unreachable(
                f"the server does not answer ({error})",
                where=self.address,
                remedy=f"check that it runs, and that the address is where it speaks RESP{self._access.tls_remedy}",
            ) from error
        for reply in replies:
            if isinstance(reply, ReplyError):
                raise self._refused(reply)
        return replies

    def _refused(self, reply: ReplyError) -> LoadframeError:
        if reply.code in _NOT_LET_IN:
            return BadInput(
                f"the server denies access: {reply}",
                where=self.address,
                remedy="give --user (default, if the server has no others), and its password with --password-file or in"
                " LOADFRAME_PASSWORD; the user needs the right to these commands",
            )
        if reply.code == _NOT_YET:
            return Unreachable(f"the server does not answer yet ({reply})", where=self.address)
        words = str(reply) if reply.code == "ERR" else f"{reply.code} {reply}"
        return StoreFailed(f"the server says: {words}", where=self.address)


class _Line:
    """A connection that is made when it is needed, and again after it broke; one thread at a time uses it."""

    def __init__(self, address: str, access: Access, timeout: float) -> None:
        self._host, self._port = split_address(address)
        self._access = access
        self._timeout = timeout
        self._connection: Connection | None = None
        self._asking = threading.Lock()

    def ask(self, commands: Sequence[Command]) -> list[Any]:
        """Return the replies to commands; ReplyError where access is denied, OSError where there is no answer."""
        with self._asking:
            try:
                return self._ask(commands, again=self._connection is not None)
            except BaseException:
                # An answer that comes late would be taken for that to the next command.
                self._close()
                raise

    def _ask(self, commands: Sequence[Command], *, again: bool) -> list[Any]:
        try:
            if self._connection is None:
                self._connection = self._connect()
            return self._connection.ask(commands)
        except TimeoutError:
            raise
        except OSError:
            if not again:
                raise
            # Once more, for a server that was started again; a silent one is not waited for twice.
            self._close()
            return self._ask(commands, again=False)

    def _connect(self) -> Connection:
        connection = Connection(
            self._host,
            self._port,
            timeout=self._timeout,
            connect_timeout=_CONNECT_TIMEOUT,
            tls=self._access.context,
        )
        if auth := self._access.auth:
            (reply,) = connection.ask([["AUTH", *([auth.user] if auth.user else []), auth.secret]])
            if isinstance(reply, ReplyError):
                connection.close()
                # A server without users says so as it says of any other mistake.
                raise ReplyError("WRONGPASS", str(reply)) if reply.code == "ERR" else reply
        return connection

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
