"""Messages between ranks: a JSON header with a payload, framing, and the transport interface."""

import json
import struct
from collections import deque
from typing import Any, Protocol

#: Header of a message: `kind`, and fields that depend on it.
Header = dict[str, Any]


def encode(header: Header, payload: bytes = b"") -> bytes:
    """Encode a message."""
    return json.dumps(header, separators=(",", ":")).encode() + b"\n" + payload


def decode(message: bytes) -> tuple[Header, bytes]:
    """Return header and payload of a message."""
    line, _, payload = message.partition(b"\n")
    header: Header = json.loads(line)
    return header, payload


#: Length of the message in bytes, and its rank; -1 for no rank.
_HEAD = struct.Struct("<Ii")


class Frames:
    """Decoder of a byte stream into messages."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._whole: deque[tuple[int, bytes]] = deque()

    @staticmethod
    def pack(rank: int, header: Header, payload: bytes = b"") -> bytes:
        """Encode a message with its frame."""
        message = encode(header, payload)
        return _HEAD.pack(len(message), rank) + message

    def add(self, data: bytes) -> None:
        """Add received bytes."""
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
        """Whether a complete message is available."""
        return bool(self._whole)

    def take(self) -> tuple[int, Header, bytes]:
        """Return and remove the next message and its rank."""
        rank, message = self._whole.popleft()
        return rank, *decode(message)


class Wire(Protocol):
    """Non-blocking transport of messages between ranks."""

    rank: int
    size: int

    def send(self, rank: int, header: Header, payload: bytes = b"") -> None:
        """Send a message. Messages to the same rank arrive in order."""

    def receive(self) -> tuple[int, Header, bytes] | None:
        """Return a received message with its source rank, or None if there is none."""
