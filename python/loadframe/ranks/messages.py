"""Messages between ranks: JSON lines with bytes, their framing, and their transport."""

import json
import struct
from collections import deque
from typing import Any, Protocol

#: A message's line: `kind`, and what belongs to the kind.
Header = dict[str, Any]


def encode(header: Header, payload: bytes = b"") -> bytes:
    """Return a message as bytes."""
    return json.dumps(header, separators=(",", ":")).encode() + b"\n" + payload


def decode(message: bytes) -> tuple[Header, bytes]:
    """Return the line and the bytes behind it."""
    line, _, payload = message.partition(b"\n")
    header: Header = json.loads(line)
    return header, payload


#: Length of the message in bytes, and the rank; -1 is nobody.
_HEAD = struct.Struct("<Ii")


class Frames:
    """Takes bytes as they come, and gives the messages that are whole."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._whole: deque[tuple[int, bytes]] = deque()

    @staticmethod
    def pack(rank: int, header: Header, payload: bytes = b"") -> bytes:
        """Return a message as bytes of the stream."""
        message = encode(header, payload)
        return _HEAD.pack(len(message), rank) + message

    def add(self, data: bytes) -> None:
        """Take what has come."""
        self._rest += data
        while len(self._rest) >= _HEAD.size:
            length, rank = _HEAD.unpack_from(self._rest)
            end = _HEAD.size + length
            if len(self._rest) < end:
                return
            self._whole.append((rank, bytes(self._rest[_HEAD.size : end])))
            del self._rest[:end]

    @property
    def ready(self) -> bool:
        """Whether there is a whole message."""
        return bool(self._whole)

    def take(self) -> tuple[int, Header, bytes]:
        """Return the next message with its rank."""
        rank, message = self._whole.popleft()
        return rank, *decode(message)


class Wire(Protocol):
    """Messages between ranks. Nothing in it waits."""

    rank: int
    size: int

    def send(self, rank: int, header: Header, payload: bytes = b"") -> None:
        """Send a message; it arrives behind those that were sent to the same rank before."""

    def receive(self) -> tuple[int, Header, bytes] | None:
        """Return a message that has arrived with the rank that it is from; None if there is none."""
