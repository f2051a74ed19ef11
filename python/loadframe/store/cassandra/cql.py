"""Client of the CQL protocol (version 4) for administration: send a statement to one node, and decode its rows.

Load uses the engine's driver instead. It does not discover nodes, because statistics must come from the given node.
Below the client: ring state, statistics and sampled rows.
"""

import json
import socket
import ssl
import struct
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Self

from loadframe.base.errors import BadInput, LoadframeError, StoreFailed
from loadframe.store.access import split_address
from loadframe.store.base import Sample

_VERSION = 4
_ERROR, _READY, _AUTHENTICATE, _RESULT, _AUTH_SUCCESS = 0x00, 0x02, 0x03, 0x08, 0x10
_STARTUP, _QUERY, _AUTH_RESPONSE = 0x01, 0x07, 0x0F
_ROWS = 2
_QUORUM = 0x0004
_ONE = 0x0001


class CqlError(StoreFailed):
    """An error answer of a node, with its text."""

    def __init__(self, code: int, words: str, address: str) -> None:
        """`code` is the protocol's error code, `words` the error text."""
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
        """Connect and log in. `address` is host:port; `timeout` limits each answer, s.

        With TLS, the node's certificate must be valid for `name`, or without it for the address's host.
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
        """Execute a statement and return its rows, if any; CqlError with the node's error text.

        `one` reads at consistency ONE, else at QUORUM.
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
        received = bytearray()
        while len(received) < length:
            piece = self._socket.recv(length - len(received))
            if not piece:
                raise ConnectionResetError(f"{self._address} closed the connection")
            received += piece
        return bytes(received)


class _Reader:
    """Decodes the body of an answer."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._at = 0

    def take(self, length: int) -> bytes:
        piece = self._body[self._at : self._at + length]
        self._at += length
        return piece

    def rest(self) -> bytes:
        return self._body[self._at :]

    def short(self) -> int:
        return int.from_bytes(self.take(2))

    def int(self) -> int:
        return int.from_bytes(self.take(4), signed=True)

    def text(self) -> str:
        return self.take(self.short()).decode()

    def value(self) -> bytes | None:
        length = self.int()
        return None if length < 0 else self.take(length)


def _text(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()


def _rows(reader: _Reader) -> Iterator[dict[str, Any]]:
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
    return int.from_bytes(value, signed=True)


def _address(value: bytes) -> str:
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
    """Read a column's type, and return its decoder. Values of unknown types remain bytes."""
    kind = reader.short()
    if kind == 0x00:
        reader.text()
    if kind in (0x20, 0x22):
        element = _type(reader)
        return lambda value: [element(part) for part in _sized(value, 1)]
    if kind == 0x21:
        key, element = _type(reader), _type(reader)

        def pairs(value: bytes) -> dict[Any, Any]:
            flat = list(_sized(value, 2))
            return {key(a): element(b) for a, b in zip(flat[::2], flat[1::2], strict=True)}

        return pairs
    if kind in (0x30, 0x31):
        raise LoadframeError("cannot read a table of the store: a column has a user-defined type or tuple type")
    return _PLAIN.get(kind, bytes)


def _sized(value: bytes, per: int) -> Iterator[bytes]:
    reader = _Reader(value)
    for _ in range(reader.int() * per):
        yield reader.value() or b""


Ask = Callable[[str], list[dict[str, Any]]]

#: States of nodes while their data moves.
_MOVING = {"BOOT", "BOOT_REPLACE", "LEAVING", "MOVING"}
#: States of members, reachable or not. SHUTDOWN is announced by a node that stops.
_MEMBERS = {"NORMAL", "LEAVING", "MOVING", "SHUTDOWN"}


@dataclass(frozen=True)
class Ring:
    """Members of a cluster, as one node reports them."""

    members: tuple[str, ...]  #: host:port for clients of nodes that hold data
    states: frozenset[str]  #: states of all members and moving nodes

    moving: int  #: nodes that receive or give away data

    @classmethod
    def read(cls, ask: Ask) -> Self:
        """Read the view of one node. Stores without a gossip table are queried for their peers only."""
        local = ask("SELECT * FROM system.local")[0]
        try:
            peers = ask("SELECT * FROM system.peers_v2")
            gossip = ask("SELECT * FROM system_views.gossip_info")
        except LoadframeError as error:
            if "does not exist" not in error.what and "unconfigured table" not in error.what:
                raise
            peers, gossip = ask("SELECT * FROM system.peers"), []
        port = local.get("rpc_port") or 9042
        addresses = {local["broadcast_address"]: f"{local['rpc_address']}:{port}"}
        for peer in peers:
            client = peer.get("native_address") or peer.get("rpc_address")
            if client and peer.get("tokens"):
                addresses[peer["peer"]] = f"{client}:{peer.get('native_port') or port}"
        states = {node["address"]: _state(node) for node in gossip} or dict.fromkeys(addresses, "NORMAL")
        members = tuple(address for node, address in addresses.items() if states.get(node, "NORMAL") in _MEMBERS)
        present = {state for state in states.values() if state in _MEMBERS | _MOVING}
        moving = sum(state in _MOVING for state in states.values())
        return cls(members, frozenset(present), moving)


def _state(node: dict[str, Any]) -> str:
    status = node.get("status_with_port") or node.get("status") or ""
    return str(status).split(",")[0].upper()


#: Thread pools -> prefixes of their statistics.
_POOLS = {
    "ReadStage": "read",
    "MutationStage": "write",
    "Native-Transport-Requests": "request",
    "CompactionExecutor": "compaction",
    "MemtableFlushWriter": "flush",
}
_POOL_FIGURES = {
    "active_tasks": "active",
    "pending_tasks": "queue",
    "completed_tasks": "completed",
    "blocked_tasks_all_time": "blocked",
}
_CACHES = {"keys": "key_cache", "rows": "row_cache", "chunks": "chunk_cache"}
_MEBIBYTE = 2**20


def figures(ask: Ask) -> dict[str, float]:
    """Return a node's statistics from its virtual tables."""
    totals: dict[str, float] = {}
    for pool in ask("SELECT * FROM system_views.thread_pools"):
        if (prefix := _POOLS.get(pool["name"])) is not None:
            for column, name in _POOL_FIGURES.items():
                totals[f"{prefix}_{name}"] = float(pool[column])
    for cache in ask("SELECT * FROM system_views.caches"):
        if (prefix := _CACHES.get(cache["name"])) is not None:
            totals[f"{prefix}_bytes"] = float(cache["size_bytes"])
            totals[f"{prefix}_hits"] = float(cache["hit_count"])
            totals[f"{prefix}_requests"] = float(cache["request_count"])
    tasks = ask("SELECT * FROM system_views.sstable_tasks")
    totals["compactions_current"] = float(len(tasks))
    totals["compactions_bytes_left"] = float(sum(task["total"] - task["progress"] for task in tasks))
    totals["clients"] = float(len(ask("SELECT address FROM system_views.clients")))
    totals["hints_pending"] = float(sum(row["files"] for row in ask("SELECT * FROM system_views.pending_hints")))
    totals["store_bytes"] = float(
        sum(
            row["mebibytes"] * _MEBIBYTE
            for row in ask("SELECT * FROM system_views.disk_usage")
            if not row["keyspace_name"].startswith("system")
        )
    )
    streams = ask("SELECT * FROM system_views.streaming")
    totals["stream_bytes_received"] = float(sum(stream["bytes_received"] or 0 for stream in streams))
    totals["stream_bytes_sent"] = float(sum(stream["bytes_sent"] or 0 for stream in streams))
    return totals


#: Timeout of the statement that reads the rows, s.
_TIMEOUT = 120.0


def sampled_rows(ask: Callable[..., list[dict[str, Any]]], name: str, documents: int, keyspace: str) -> Sample:
    """Return up to `documents` rows in the order of their tokens, which is random. BadInput without the table.

    `ask(statement, timeout=...)` returns the rows of a statement.
    """
    for word in (name, keyspace):
        if not word.replace("_", "").isalnum():
            raise BadInput(f"{word!r} is not a name of a table or keyspace", remedy="check --collection and --database")
    statement = "SELECT column_name, kind, position, type FROM system_schema.columns"
    columns = ask(f"{statement} WHERE keyspace_name = '{keyspace}' AND table_name = '{name}'")
    if not columns:
        what = f"the keyspace {keyspace} does not have the table {name}"
        raise BadInput(what, remedy="check --collection and --database")
    parts = sorted((c for c in columns if c["kind"] in _KEYS), key=lambda c: (_KEYS.index(c["kind"]), c["position"]))
    key = [str(column["column_name"]) for column in parts]
    rows = ask(f'SELECT JSON * FROM "{keyspace}"."{name}" LIMIT {documents}', timeout=_TIMEOUT)
    # JSON keys of names with capital letters are quoted.
    sampled = [{k.strip('"'): v for k, v in json.loads(row["[json]"]).items() if v is not None} for row in rows]
    types = {str(column["column_name"]): str(column["type"]) for column in columns}
    only = key[0] if len(key) == 1 else None
    return Sample(sampled, {"columns": types, "key": only or key}, only)


_KEYS = ("partition_key", "clustering")
