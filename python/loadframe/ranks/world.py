"""All ranks, as messages between them: MPI without waiting. One thread of a process uses it."""

import os
import socket
import sys
from pathlib import Path
from typing import Any

import loadframe
from loadframe.base.errors import BadInput, LoadframeError
from loadframe.ranks.environment import Place, forget
from loadframe.ranks.messages import Header, decode, encode

#: All messages have one tag: their kinds are in their lines.
_TAG = 17
_BOOT = Path("/proc/sys/kernel/random/boot_id")


class World:
    """The ranks that were started together, of which this process is one.

    Sending and receiving never wait: an MPI that waits keeps a core busy.
    """

    def __init__(self, place: Place) -> None:
        """Start MPI. BadInput where there is none, or where it does not know the ranks that the launcher started."""
        self._mpi = _mpi(place)
        self._comm = self._mpi.COMM_WORLD
        self.rank: int = self._comm.rank
        self.size: int = self._comm.size
        self.library: str = self._mpi.Get_library_version().partition(",")[0].partition("\n")[0].strip("\0 ")
        self._status = self._mpi.Status()
        self._sent: list[tuple[Any, bytes]] = []

    def send(self, rank: int, header: Header, payload: bytes = b"") -> None:
        """Send a message; it arrives behind those that were sent to the same rank before."""
        message = encode(header, payload)
        self._sent.append((self._comm.Isend([message, self._mpi.BYTE], dest=rank, tag=_TAG), message))

    def receive(self) -> tuple[int, Header, bytes] | None:
        """Return a message that has arrived with the rank that it is from; None if there is none."""
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
        """Whether all that was sent has left."""
        self._sent = [(request, message) for request, message in self._sent if not request.Test()]
        return not self._sent

    def close(self) -> None:
        """Take leave: all ranks do, or nobody gets away."""
        self._mpi.Finalize()


def _mpi(place: Place) -> Any:
    """Return the initialised module of MPI, in which several ranks are; BadInput if that cannot be."""
    try:
        import mpi4py

        mpi4py.rc.initialize = mpi4py.rc.finalize = False
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise BadInput(
            f"{place.size} ranks were started by {place.launcher}, and this Python has no MPI: {error}",
            remedy="install loadframe[mpi], or mpi4py for this site's MPI; without ranks start loadframe by itself",
        ) from None
    _locate()
    MPI.Init_thread(MPI.THREAD_SERIALIZED)
    if MPI.COMM_WORLD.size != place.size:
        raise BadInput(
            f"{place.launcher} started {place.size} ranks, but by {MPI.Get_library_version().partition(',')[0]}"
            f" each of them is one of {MPI.COMM_WORLD.size}: mpi4py uses another MPI than what started them",
            where=f"rank {place.rank} on {machine()}",
            remedy="start them with the mpirun of the MPI that mpi4py was built for (that of loadframe[mpi] lies beside"
            " this Python), under Slurm with an --mpi that it knows (srun --mpi=list), or let --ranks start them",
        )
    forget()
    return MPI


def _locate() -> None:
    """Tell Open MPI of PyPI where it lies, as its mpirun does and srun does not: it would look where it was built."""
    if (Path(sys.prefix) / "lib" / "libmpi.so").exists():
        os.environ.setdefault("OPAL_PREFIX", sys.prefix)


def machine() -> str:
    """Return what this machine is called: as Slurm calls it in its jobs, or else by its host name."""
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname()


def introduce(rank: int) -> Header:
    """Return what a rank says of itself at first."""
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
    """Return what tells this machine's clock from those of others: its boot, and the namespace of its time."""
    try:
        return f"{_BOOT.read_text().strip()} {Path('/proc/self/ns/time').readlink()}"
    except OSError:
        return socket.gethostname()


def _engine_size() -> int:
    """Return the size of the engine's library, B: another build has another, as good as always."""
    folder = Path(loadframe.__file__).parent
    return sum(path.stat().st_size for path in folder.glob("_engine*.so"))


class RankLost(LoadframeError):  # noqa: N818 - reads as what it is where it is raised
    """A rank died, or is silent: what it would have done is missing."""

    fault = "generator"
