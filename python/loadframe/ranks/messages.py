"""Messages between ranks over non-blocking MPI, their tree, and clock offsets from their round trips."""

import json
import os
import socket
import struct
import sys
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import loadframe
from loadframe.base.errors import BadInput, LoadframeError
from loadframe.ranks import Place, forget

#: Header of a message: `kind`, and fields that depend on it.
Header = dict[str, Any]


def encode(header: Header, payload: bytes = b"") -> bytes:
    """Return a message as bytes: the header as a line of JSON, then the payload."""
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
        """Begin with an empty stream."""
        self._rest = bytearray()
        self._whole: deque[tuple[int, bytes]] = deque()

    @staticmethod
    def pack(rank: int, header: Header, payload: bytes = b"") -> bytes:
        """Return a message as bytes for a stream, with its length and rank before it; -1 stands for no rank."""
        message = encode(header, payload)
        return _HEAD.pack(len(message), rank) + message

    def add(self, data: bytes) -> None:
        """Append received bytes, and decode the messages that they complete."""
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
        """Return and remove the next message: rank, header and payload. IndexError if none is `ready`."""
        rank, message = self._whole.popleft()
        return rank, *decode(message)


class Wire(Protocol):
    """Non-blocking transport of messages between ranks."""

    rank: int
    size: int

    def send(self, rank: int, header: Header, payload: bytes = b"") -> None:
        """Send a message to `rank`. Messages to the same rank arrive in order."""

    def receive(self) -> tuple[int, Header, bytes] | None:
        """Return a received message (source rank, header, payload), or None if none has arrived."""


def parent(position: int) -> int | None:
    """Return the position above in the binomial tree of ranks, or None for the top, 0."""
    return position & (position - 1) if position else None


def children(position: int, count: int) -> list[int]:
    """Return the positions directly below in the binomial tree of `count` ranks, ascending."""
    lowest = position & -position if position else 1 << count.bit_length()
    below = []
    step = 1
    while step < lowest and position + step < count:
        below.append(position + step)
        step <<= 1
    return below


def depth(count: int) -> int:
    """Return the largest number of steps from the top to a position of the binomial tree of `count` (1 or more)."""
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
        """Return this offset to the clock of `nearer` as an offset to the clock that `nearer` is relative to.

        Offsets add, and so do uncertainties.
        """
        return Offset(self.seconds + nearer.seconds, self.uncertainty + nearer.uncertainty)


def offset(trips: Iterable[tuple[float, float, float]]) -> Offset:
    """Return the offset (remote minus local time) of the shortest round trip; its uncertainty is half that trip.

    Each trip has the local time of sending, the remote time of the answer, and the local time of receiving, s.
    ValueError without trips.
    """
    sent, answered, received = min(trips, key=lambda trip: trip[2] - trip[0])
    return Offset(answered - (sent + received) / 2, (received - sent) / 2)


#: All messages have the same tag; their kind is in the header.
_TAG = 17
_BOOT = Path("/proc/sys/kernel/random/boot_id")


class World:
    """All ranks of this job. Use it from one thread only.

    Sending and receiving never block, because a blocking MPI call keeps a core busy.
    """

    def __init__(self, place: Place) -> None:
        """Initialize MPI. BadInput if it is missing, or its number of ranks differs from the launcher's."""
        self._mpi = _mpi(place)
        self._comm = self._mpi.COMM_WORLD
        self.rank: int = self._comm.rank
        self.size: int = self._comm.size
        self.library: str = self._mpi.Get_library_version().partition(",")[0].partition("\n")[0].strip("\0 ")
        self._status = self._mpi.Status()
        self._sent: list[tuple[Any, bytes]] = []

    def send(self, rank: int, header: Header, payload: bytes = b"") -> None:
        """Send a message to `rank`, without waiting. Messages to the same rank arrive in order."""
        message = encode(header, payload)
        self._sent.append((self._comm.Isend([message, self._mpi.BYTE], dest=rank, tag=_TAG), message))

    def receive(self) -> tuple[int, Header, bytes] | None:
        """Return a received message (source rank, header, payload), or None if none has arrived."""
        if self._sent:
            self._sent = [(request, message) for request, message in self._sent if not request.Test()]
        message = self._comm.Improbe(tag=_TAG, status=self._status)
        if message is None:
            return None
        source = self._status.Get_source()
        data = bytearray(self._status.Get_count(self._mpi.BYTE))
        message.Recv([data, self._mpi.BYTE])
        return source, *decode(bytes(data))

    @property
    def idle(self) -> bool:
        """Whether all messages have been sent."""
        self._sent = [(request, message) for request, message in self._sent if not request.Test()]
        return not self._sent

    def close(self) -> None:
        """Finalize MPI; blocks until all ranks do so. No other method may be called afterwards."""
        self._mpi.Finalize()


def _mpi(place: Place) -> Any:
    """Initialize MPI and return its module; BadInput if it is missing or has another number of ranks.

    Also removes the launcher's variables from the environment.
    """
    try:
        import mpi4py

        mpi4py.rc.initialize = mpi4py.rc.finalize = False
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise BadInput(
            f"{place.launcher} started {place.size} ranks, but this Python has no MPI: {error}",
            remedy="install loadframe[mpi], or mpi4py for the site's MPI, or start loadframe without a launcher",
        ) from None
    _locate()
    MPI.Init_thread(MPI.THREAD_SERIALIZED)
    if MPI.COMM_WORLD.size != place.size:
        raise BadInput(
            f"{place.launcher} started {place.size} ranks, but by {MPI.Get_library_version().partition(',')[0]}"
            f" each of them is one of {MPI.COMM_WORLD.size}: mpi4py uses another MPI than the launcher",
            where=f"rank {place.rank} on {machine()}",
            remedy="use the mpirun of mpi4py's MPI (that of loadframe[mpi] is next to"
            " this Python), under Slurm an --mpi that it supports (srun --mpi=list), or use --ranks",
        )
    forget()
    return MPI


def _locate() -> None:
    """Set OPAL_PREFIX for the Open MPI of PyPI, as its mpirun does, because srun does not."""
    if (Path(sys.prefix) / "lib" / "libmpi.so").exists():
        os.environ.setdefault("OPAL_PREFIX", sys.prefix)


def machine() -> str:
    """Return this machine's name: Slurm's in a job, else the host name."""
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname()


def introduce(rank: int) -> Header:
    """Return the introduction of a rank: its number, machine, clock, cores, versions and process id.

    `boot` identifies the clock, `cores` are the usable cores, and `engine` is the size of the engine's library in
    bytes.
    """
    return {
        "rank": rank,
        "machine": machine(),
        "boot": _boot(),
        "cores": sorted(os.sched_getaffinity(0)),
        "version": loadframe.__version__,
        "engine": _engine_size(),
        "process": os.getpid(),
    }


def _boot() -> str:
    """Return an identifier of this machine's clock: its boot id and time namespace; if unreadable, the host name."""
    try:
        return f"{_BOOT.read_text().strip()} {Path('/proc/self/ns/time').readlink()}"
    except OSError:
        return socket.gethostname()


def _engine_size() -> int:
    """Return the size of the engine's library in bytes, to detect different builds."""
    folder = Path(loadframe.__file__).parent
    return sum(path.stat().st_size for path in folder.glob("_engine*.so"))


class RankLost(LoadframeError):
    """A rank died or is silent, so its part of the load is missing."""

    fault = "generator"
