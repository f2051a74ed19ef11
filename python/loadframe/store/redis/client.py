"""Redis client (RESP) for administration, and sampled values of keys. Load uses the engine's driver instead.

Importing a client library takes longer than `loadframe cluster status`.
"""

import json
import socket
import ssl
import threading
from collections.abc import Iterator, Sequence
from typing import Any, Self

from loadframe.base.errors import BadInput, LoadframeError, StoreFailed
from loadframe.store.access import Access, split_address
from loadframe.store.base import Sample, Unreachable

#: A command: its name of one or several words, and its arguments.
Command = Sequence[str | int]


class ReplyError(Exception):
    """An error reply of a server."""

    def __init__(self, code: str, words: str) -> None:
        """`code` is the first word of the reply, such as `NOAUTH`, and `words` is the rest."""
        super().__init__(words)
        self.code = code


class Connection:
    """A connection to a server. It is unusable after OSError, which is also raised for an answer that is not RESP."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        timeout: float,
        connect_timeout: float,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Connect, with TLS if `tls` is given; OSError on failure.

        Both timeouts are in s; `timeout` limits each read and write.
        """
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
        """Close the connection."""
        self._replies.close()
        self._socket.close()

    def ask(self, commands: Sequence[Command]) -> list[Any]:
        """Send commands in one write, and return their replies in order; error replies are ReplyError objects."""
        self._socket.sendall(b"".join(map(_encoded, commands)))
        return [self._reply() for _ in commands]

    def _reply(self) -> Any:
        """Read one reply, with its elements if it is an array. A null is None, an error a ReplyError object."""
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
        """Read a text of `length` bytes and its line end; ConnectionResetError if the server closes before."""
        read = self._replies.read(length + 2)
        if len(read) < length + 2:
            raise ConnectionResetError("the server closed the connection")
        return _decoded(read[:-2])


def _encoded(command: Command) -> bytes:
    """Return a command in RESP. Its first item, the name, may have several words; each becomes an element."""
    name, *arguments = command
    words = [_bytes(word) for word in (*str(name).split(), *arguments)]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)


def _bytes(word: str | int) -> bytes:
    """Return a word as UTF-8; surrogate escapes become the original bytes."""
    return str(word).encode(errors="surrogateescape")


def _decoded(text: bytes) -> str:
    """Return UTF-8 as text, with surrogate escapes for other bytes."""
    # Keys may be any bytes; surrogate escapes return them to the server unchanged.
    return text.decode(errors="surrogateescape")


def _number(text: str) -> int:
    """Return the integer in a reply; OSError if it is not one."""
    try:
        return int(text)
    except ValueError as error:
        raise _not_resp(text.encode(errors="surrogateescape")) from error


def _not_resp(line: bytes) -> OSError:
    """Return the OSError for an answer that is not RESP."""
    return OSError(f"the answer is not RESP: {line[:60]!r}")


#: The user that all servers have.
USER = "default"
#: Timeouts, s.
_TIMEOUT = 30.0
_STATUS_TIMEOUT = 5.0
_CONNECT_TIMEOUT = 3.0
#: Codes of error replies for failed authentication and missing privileges.
_DENIED = {"NOAUTH", "WRONGPASS", "NOPERM"}
#: Code of a server that is still reading its data.
_LOADING = "LOADING"


class Client:
    """A client that connects on first use. BadInput if access is denied, Unreachable if the server does not answer."""

    def __init__(self, address: str, access: Access) -> None:
        """Store address and credentials; connections are opened on first use."""
        self.address = address
        self._access = access
        self._auth = access.auth
        self._commands = _Reconnecting(address, access, _TIMEOUT)
        #: For commands that servers answer immediately.
        self._status = _Reconnecting(address, access, _STATUS_TIMEOUT)

    @property
    def credentials(self) -> list[str]:
        """Arguments of MIGRATE with which another node logs in to this one; empty without credentials."""
        return ["AUTH2", self._auth.user or USER, self._auth.secret] if self._auth else []

    def ask(self, *words: str | int) -> Any:
        """Send a command, given as its words, and return its reply. The first word may be several, as in `CONFIG SET`.

        Unreachable without an answer for 30 s, and while the server loads its data; BadInput for denied access,
        StoreFailed for other error replies.
        """
        return self._send(self._commands, [words])[0]

    def ask_all(self, commands: Sequence[Command]) -> list[Any]:
        """Send commands in one write, and return their replies in order.

        All are executed, but the first error reply is raised: BadInput for denied access, otherwise StoreFailed.
        Unreachable without an answer, and while the server loads its data.
        """
        return self._send(self._commands, commands)

    def running(self) -> bool:
        """Whether the server runs: False if it refuses connections, also after it broke one.

        Unreachable if it does not answer otherwise, BadInput for denied access.
        """
        for last in (False, True):
            try:
                self.info()
            except Unreachable as error:
                if isinstance(error.__cause__, ConnectionRefusedError):
                    return False
                # A server that is being stopped still accepts connections and breaks them, before it refuses them.
                if last or not isinstance(error.__cause__, ConnectionError):
                    raise
            else:
                break
        return True

    def info(self) -> dict[str, str]:
        """Return the fields of INFO, without its long statistics per command."""
        return self.look("INFO")

    def look(self, command: str) -> dict[str, str]:
        """Return the fields `name:value` of the reply to a status command, such as `CLUSTER INFO`; skip other lines.

        Timeout and errors as for `look_at`.
        """
        return dict(line.split(":", 1) for line in self.look_at(command) if ":" in line)

    def look_at(self, command: str) -> list[str]:
        """Return the lines of a status command's reply, with a timeout of 5 s.

        Unreachable without an answer or while the server loads its data, BadInput for denied access, StoreFailed for
        other error replies.
        """
        return str(self._send(self._status, [[command]])[0]).splitlines()

    def keys(self, collection: str) -> Iterator[list[str]]:
        """Yield this node's keys `COLLECTION:...`, in batches, which may be empty; a key may appear twice."""
        pattern, cursor = "".join(f"\\{c}" if c in "*?[]\\^-" else c for c in collection) + ":*", "0"
        while True:
            cursor, keys = self.ask("SCAN", cursor, "MATCH", pattern, "COUNT", 1000)
            yield keys
            if int(cursor) == 0:
                return

    def _send(self, connection: "_Reconnecting", commands: Sequence[Command]) -> list[Any]:
        """Send commands over `connection`, and return their replies; the first error reply is raised as an error.

        All commands are executed. Unreachable if the server does not answer or loads its data, BadInput for denied
        access, otherwise StoreFailed.
        """
        try:
            replies = connection.ask(commands)
        except ReplyError as error:
            raise self._refused(error) from error
        except OSError as error:
            raise Unreachable(
                f"the server does not answer ({error})",
                where=self.address,
                remedy=f"check that it runs, and that the address is its RESP port{self._access.silence_hint}",
            ) from error
        for reply in replies:
            if isinstance(reply, ReplyError):
                raise self._refused(reply)
        return replies

    def _refused(self, reply: ReplyError) -> LoadframeError:
        """Return the error for an error reply.

        BadInput for denied access, Unreachable while the server loads its data, otherwise StoreFailed.
        """
        if reply.code in _DENIED:
            auth = self._access.auth
            remedy = (
                "give --user (default, if the server has no others), and its password with --password-file or in"
                " LOADFRAME_PASSWORD; the user needs the privilege for these commands"
            )
            if auth and reply.code == "NOPERM":
                remedy = f"allow {auth.user} these commands and keys (ACL SETUSER), or give another --user"
            elif auth:
                remedy = auth.check
            return BadInput(f"the server denies access: {reply}", where=self.address, remedy=remedy)
        if reply.code == _LOADING:
            return Unreachable(f"the server is loading its data ({reply})", where=self.address)
        words = str(reply) if reply.code == "ERR" else f"{reply.code} {reply}"
        return StoreFailed(f"the server reports an error: {words}", where=self.address)


class _Reconnecting:
    """A connection opened on first use, and again after it broke. Threads take turns."""

    def __init__(self, address: str, access: Access, timeout: float) -> None:
        """`address` is host:port; `timeout` limits each read and write, s. The first command connects."""
        self._host, self._port = split_address(address)
        self._access = access
        self._timeout = timeout
        self._connection: Connection | None = None
        self._lock = threading.Lock()

    def ask(self, commands: Sequence[Command]) -> list[Any]:
        """Send commands and return their replies; error replies are elements.

        If an open connection breaks, connect and send all commands once more; not after a timeout. ReplyError only if
        the login is refused, OSError without an answer.
        """
        with self._lock:
            try:
                return self._ask(commands, again=self._connection is not None)
            except BaseException:
                # A late reply would be read as the reply to the next command.
                self._close()
                raise

    def _ask(self, commands: Sequence[Command], *, again: bool) -> list[Any]:
        """Send commands, connecting first if necessary, and return their replies.

        `again` allows one more attempt on a new connection, but not after a timeout. ReplyError if the login is
        refused, OSError without an answer.
        """
        try:
            if self._connection is None:
                self._connection = self._connect()
            return self._connection.ask(commands)
        except TimeoutError:
            raise
        except OSError:
            if not again:
                raise
            # Retry once, in case the server was restarted. Do not retry after a timeout.
            self._close()
            return self._ask(commands, again=False)

    def _connect(self) -> Connection:
        """Open a connection and log in; ReplyError if the login is refused."""
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
                # A server without users reports this as a generic error.
                raise ReplyError("WRONGPASS", str(reply)) if reply.code == "ERR" else reply
        return connection

    def _close(self) -> None:
        """Close the connection if there is one; the next command opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


#: Keys per pipeline.
_BATCH = 500


def sampled_values(masters: Sequence[Client], name: str, documents: int) -> Sample:
    """Return up to `documents` hashes, and texts that are JSON objects, of keys `NAME:...`.

    Each master, of which there must be one at least, gives an equal share, or less if it has fewer. SCAN returns keys
    in the order of their hashes, which is random. Other types of values are left out.
    """
    per_node = -(-documents // len(masters))
    sampled: list[dict[str, Any]] = []
    for master in masters:
        sampled += _of(master, name, per_node)
    return Sample(sampled[:documents], {})


def _of(master: Client, name: str, most: int) -> list[dict[str, Any]]:
    """Return up to `most` documents of one node, from the first `most` keys that it yields.

    Empty objects and keys without an object or hash are left out, and not replaced by others.
    """
    keys: dict[str, None] = {}
    for batch in master.keys(name):
        keys.update(dict.fromkeys(batch))
        if len(keys) >= most:
            break
    documents = []
    names = list(keys)[:most]
    for begin in range(0, len(names), _BATCH):
        batch = names[begin : begin + _BATCH]
        types = master.ask_all([("TYPE", key) for key in batch])
        readers = {"hash": "HGETALL", "string": "GET"}
        commands = [(readers[type_], key) for key, type_ in zip(batch, types, strict=True) if type_ in readers]
        for reply in master.ask_all(commands):
            # None: the key expired after the first command.
            document = _value(reply) if isinstance(reply, str) else _hash(reply or ())
            if isinstance(document, dict) and document:
                documents.append(document)
    return documents


def _hash(reply: Sequence[str]) -> dict[str, Any]:
    """Return the fields of an HGETALL reply, which alternates names and values; JSON values are parsed."""
    return {_text(field): _value(value) for field, value in zip(reply[::2], reply[1::2], strict=True)}


def _value(text: str) -> Any:
    """Return the number, bool, list or object that a text holds as JSON; otherwise the text, also for null and NaN.

    Invalid bytes of a text are replaced.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return _text(text)
    is_data = isinstance(value, list | dict) or (isinstance(value, int | float) and value - value == 0)
    return value if is_data else _text(text)


def _text(text: str) -> str:
    """Return a text in which bytes that are not UTF-8 (surrogate escapes) are replaced."""
    # Bytes that are not UTF-8 are surrogates, which JSON files cannot hold.
    return text.encode(errors="surrogateescape").decode(errors="replace")
