"""Client of the CQL protocol (version 4) for administration: send a statement to one node, and decode its rows.

Load uses the engine's driver instead. It does not discover nodes, because statistics must come from the given node.
"""

import socket
import ssl
import struct
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any, Self, TypeVar

from loadframe.base.errors import LoadframeError, StoreFailed
from loadframe.store.access import split_address

#: Attempts of a login or a SELECT that fails temporarily, and the time between them, s.
TRIES, _PAUSE = 4, 0.5
_Answer = TypeVar("_Answer")
_VERSION = 4
_ERROR, _READY, _AUTHENTICATE, _RESULT, _AUTH_SUCCESS = 0x00, 0x02, 0x03, 0x08, 0x10
_STARTUP, _QUERY, _AUTH_RESPONSE = 0x01, 0x07, 0x0F
_ROWS = 2
_QUORUM = 0x0004
_ONE = 0x0001


class CqlError(StoreFailed):
    """An error answer of a node, with its text."""

    def __init__(self, code: int, words: str, address: str) -> None:
        """`code` is the protocol's error code, `words` the error text, and `address` the node's host:port.

        BAD_CREDENTIALS becomes READ_TIMEOUT if the node could not read its roles in time.
        """
        super().__init__(words, where=address, remedy="see the store's documentation for that error")
        # Cassandra also refuses the login if it could not read its roles in time.
        self.code = READ_TIMEOUT if code == BAD_CREDENTIALS and words.startswith(_ROLES_NOT_READ) else code


#: Error codes for failed authentication and missing privileges.
BAD_CREDENTIALS = 0x0100
DENIED = (BAD_CREDENTIALS, 0x2100)
#: Error codes for temporary failures: a node is starting, overloaded, or too slow.
READ_TIMEOUT = 0x1200
TEMPORARY = (0x1001, 0x1002, READ_TIMEOUT, 0x1300)
#: Beginning of the error text if a node could not read its roles. Its code is BAD_CREDENTIALS.
_ROLES_NOT_READ = "Unable to perform authentication"


def repeat(ask: Callable[[], _Answer], tries: int = TRIES) -> _Answer:
    """Return the result of `ask`; up to `tries` attempts, 0.5 s apart, after a CqlError with a code in TEMPORARY.

    The last error is raised, and any other error at once.
    """
    for _ in range(tries - 1):
        try:
            return ask()
        except CqlError as error:
            if error.code not in TEMPORARY:
                raise
        time.sleep(_PAUSE)
    return ask()


def quoted(name: str) -> str:
    """Return a name as a quoted CQL identifier."""
    return '"' + name.replace('"', '""') + '"'


class Connection:
    """A connection to one node, usable as a context manager. OSError if the node does not answer."""

    def __init__(
        self,
        address: str,
        user: tuple[str, str] | None = None,
        timeout: float = 10.0,
        tls: ssl.SSLContext | None = None,
        name: str | None = None,
    ) -> None:
        """Connect and log in; OSError if the node does not answer, CqlError if it refuses the login.

        `address` is host:port, `user` a name and a password; `timeout` limits each answer, s, and connecting if it is
        below 5 s. With TLS, the node's certificate must be valid for `name`, or without it for the address's host.
        """
        host, port = split_address(address)
        self._address = address
        self._socket = socket.create_connection((host, port), timeout=min(timeout, 5.0))
        try:
            if tls:
                self._socket = tls.wrap_socket(self._socket, server_hostname=name or host)
            self._socket.settimeout(timeout)
            opcode, _ = self._exchange(_STARTUP, struct.pack(">H", 1) + _text("CQL_VERSION") + _text("3.0.0"))
            if opcode == _AUTHENTICATE:
                name, password = user or ("", "")
                token = f"\0{name}\0{password}".encode()
                opcode, _ = self._exchange(_AUTH_RESPONSE, struct.pack(">i", len(token)) + token)
            if opcode not in (_READY, _AUTH_SUCCESS):
                raise OSError(f"{address} sent an unexpected CQL message ({opcode:#x})")
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def ask(self, statement: str, *, one: bool = True, timeout: float | None = None) -> list[dict[str, Any]]:
        """Execute a statement and return its rows by column name, if any; CqlError with the node's error text.

        `one` reads at consistency ONE, else at QUORUM. `timeout` limits each answer from now on, s; None keeps the
        limit. OSError without an answer.
        """
        self._socket.settimeout(timeout or self._socket.gettimeout())
        encoded = statement.encode()
        consistency = _ONE if one else _QUORUM
        body = struct.pack(">i", len(encoded)) + encoded + struct.pack(">HB", consistency, 0)
        opcode, answer = self._exchange(_QUERY, body)
        if opcode != _RESULT:
            raise OSError(f"{self._address} answered a statement with {opcode:#x}")
        return list(_rows(_Reader(answer)))

    def _exchange(self, opcode: int, body: bytes) -> tuple[int, bytes]:
        """Send one request, and return the opcode and body of its answer; CqlError for an error answer.

        OSError without an answer. The tracing id and the warnings of the answer are dropped.
        """
        self._socket.sendall(struct.pack(">BBhBi", _VERSION, 0, 0, opcode, len(body)) + body)
        _, flags, _, answered, length = struct.unpack(">BBhBi", self._receive(9))
        reader = _Reader(self._receive(length))
        if flags & 0x02:
            reader.take(16)
        if flags & 0x08:
            for _ in range(reader.short()):
                reader.text()
        if answered == _ERROR:
            code = reader.int()
            raise CqlError(code, reader.text(), self._address)
        return answered, reader.rest()

    def _receive(self, length: int) -> bytes:
        """Read exactly `length` bytes; ConnectionResetError if the server closes the connection before."""
        received = bytearray()
        while len(received) < length:
            piece = self._socket.recv(length - len(received))
            if not piece:
                raise ConnectionResetError(f"{self._address} closed the connection")
            received += piece
        return bytes(received)


class _Reader:
    """Decodes the body of an answer; a body that ends early gives wrong values instead of an error."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._at = 0

    def take(self, length: int) -> bytes:
        """Return the next `length` bytes (fewer at the end), and advance."""
        piece = self._body[self._at : self._at + length]
        self._at += length
        return piece

    def rest(self) -> bytes:
        """Return all further bytes without advancing."""
        return self._body[self._at :]

    def short(self) -> int:
        """Read an unsigned integer of 2 bytes, big-endian, and advance."""
        return int.from_bytes(self.take(2))

    def int(self) -> int:
        """Read a signed integer of 4 bytes, big-endian, and advance."""
        return int.from_bytes(self.take(4), signed=True)

    def text(self) -> str:
        """Read a UTF-8 text after its length of 2 bytes, and advance."""
        return self.take(self.short()).decode()

    def value(self) -> bytes | None:
        """Read a value after its length of 4 bytes, and advance; return None for a null, whose length is negative."""
        length = self.int()
        return None if length < 0 else self.take(length)


def _text(text: str) -> bytes:
    """Return a text in the protocol's form: its length in bytes, as 2 bytes big-endian, and its UTF-8."""
    encoded = text.encode()
    return struct.pack(">H", len(encoded)) + encoded


def _rows(reader: _Reader) -> Iterator[dict[str, Any]]:
    """Yield the rows of a result by column name; none for a result without rows, such as that of a schema change."""
    if reader.int() != _ROWS:
        return
    flags, columns = reader.int(), reader.int()
    if flags & 0x02:
        reader.take(max(reader.int(), 0))
    if flags & 0x01:
        reader.text(), reader.text()
    named = []
    for _ in range(columns):
        if not flags & 0x01:
            reader.text(), reader.text()
        named.append((reader.text(), _type(reader)))
    for _ in range(reader.int()):
        row = {}
        for name, decode in named:
            value = reader.value()
            row[name] = None if value is None else decode(value)
        yield row


def _whole(value: bytes) -> int:
    """Return the signed big-endian integer in a value."""
    return int.from_bytes(value, signed=True)


def _address(value: bytes) -> str:
    """Return the text of an IPv4 or IPv6 address of 4 or 16 bytes."""
    return socket.inet_ntop(socket.AF_INET if len(value) == 4 else socket.AF_INET6, value)


_PLAIN: dict[int, Callable[[bytes], Any]] = {
    0x01: bytes.decode,
    0x02: _whole,
    0x04: lambda value: value != b"\0",
    0x05: _whole,
    0x07: lambda value: struct.unpack(">d", value)[0],
    0x08: lambda value: struct.unpack(">f", value)[0],
    0x09: _whole,
    0x0B: _whole,
    0x0C: lambda value: uuid.UUID(bytes=value),
    0x0D: bytes.decode,
    0x0E: _whole,
    0x0F: lambda value: uuid.UUID(bytes=value),
    0x10: _address,
    0x13: _whole,
    0x14: _whole,
}


def _type(reader: _Reader) -> Callable[[bytes], Any]:
    """Read a column's type, and return its decoder. Values of unknown types remain bytes.

    LoadframeError for tuples and user-defined types.
    """
    kind = reader.short()
    if kind == 0x00:
        reader.text()
    if kind in (0x20, 0x22):
        element = _type(reader)
        return lambda value: [element(part) for part in _sized(value, 1)]
    if kind == 0x21:
        key, element = _type(reader), _type(reader)

        def pairs(value: bytes) -> dict[Any, Any]:
            """Return the decoded map in a value: a count, then key and value of each entry."""
            flat = list(_sized(value, 2))
            return {key(a): element(b) for a, b in zip(flat[::2], flat[1::2], strict=True)}

        return pairs
    if kind in (0x30, 0x31):
        raise LoadframeError("cannot read a table of the store: a column has a user-defined type or tuple type")
    return _PLAIN.get(kind, bytes)


def _sized(value: bytes, per: int) -> Iterator[bytes]:
    """Yield the elements of a collection in their order: `per` for each entry (2 in a map: key and value; else 1).

    The number of entries comes first. A null becomes empty bytes.
    """
    reader = _Reader(value)
    for _ in range(reader.int() * per):
        yield reader.value() or b""
