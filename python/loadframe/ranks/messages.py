"""Messages between ranks, the tree along which they travel, and clock offsets from their round trips."""

import json
import struct
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
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


def parent(position: int) -> int | None:
    """Return the position above, or None for the top, 0."""
    return position & (position - 1) if position else None


def children(position: int, count: int) -> list[int]:
    """Return the positions directly below, out of `count` positions."""
    lowest = position & -position if position else 1 << count.bit_length()
    below = []
    step = 1
    while step < lowest and position + step < count:
        below.append(position + step)
        step <<= 1
    return below


def depth(count: int) -> int:
    """Return the height of the tree."""
    return max((position.bit_count() for position in (count - 1, (1 << (count.bit_length() - 1)) - 1)), default=0)


#: Seconds between polls during round trips. Ranks that polled without sleep would block each other on busy machines; a
#: process that slept is scheduled first.
BRISK = 0.0002


@dataclass(frozen=True)
class Offset:
    """Difference of a remote clock to a local one, and its uncertainty, in s. Add it to local times."""

    seconds: float = 0.0
    uncertainty: float = 0.0

    def behind(self, nearer: "Offset") -> "Offset":
        """Return the offset to the base of `nearer`, for a clock that is reached through the clock of `nearer`."""
        return Offset(self.seconds + nearer.seconds, self.uncertainty + nearer.uncertainty)


def offset(trips: Iterable[tuple[float, float, float]]) -> Offset:
    """Return the offset of the shortest round trip.

    Each trip has the local time of sending, the remote time of the answer, and the local time of receiving.
    """
    sent, answered, received = min(trips, key=lambda trip: trip[2] - trip[0])
    return Offset(answered - (sent + received) / 2, (received - sent) / 2)
