"""Whether a rank that says nothing is dead, cut off, or only waits for a core.

Each rank has a port that the kernel answers at, however busy the rank is: it takes connections while the process lives,
and refuses them when it has ended. From a machine that is cut off nothing comes at all.
"""

import contextlib
import fcntl
import socket
import struct
import time
from collections.abc import Sequence
from concurrent.futures import Future
from functools import cache

from loadframe.ranks.reach import REFUSED, unreachable
from loadframe.ranks.threads import background

#: After this silence of a rank it is looked for, s, and again after as much more.
DOUBT = 8.0
#: One that cannot be found counts as lost then, s.
SILENCE = 15.0
#: And one whose process is there, s: it hangs, or was stopped.
HUNG = 180.0

#: Where a rank can be looked for: its port, and the addresses of its machine.
Door = Sequence[str]

_SIOCGIFADDR = 0x8915

_interface = ""


def stay_local() -> None:
    """Have this process's port on the loopback alone: all ranks are on this machine. Before it is opened."""
    global _interface  # noqa: PLW0603 - a process has one port
    _interface = "127.0.0.1"


@cache
def _listener() -> socket.socket:
    listener = socket.create_server((_interface, 0), backlog=64)
    listener.setblocking(False)
    return listener


@cache
def door(boot: str) -> Door:
    """Open this process's port, if that has not been done, and return where it is looked for.

    The first entry is the machine's boot: who runs on the same machine takes the loopback.
    """
    return [boot, str(_listener().getsockname()[1]), *_addresses()]


def answer() -> None:
    """Let those go that have looked."""
    with contextlib.suppress(OSError):
        while True:
            _listener().accept()[0].close()


class Silence:
    """A neighbour that may be silent."""

    def __init__(self, boot: str) -> None:
        self._boot = boot
        self.door: Door | None = None
        self._looking: Future[str] | None = None
        self._looked = 0.0
        self._seen = ""

    def lost(self, silent: float) -> str | None:
        """Return why it counts as lost, having been silent for this time, s; None while it does not."""
        if silent < DOUBT:
            self._looking, self._seen, self._looked = None, "", 0.0
            return None
        now = time.monotonic()
        if self._looking is None and now - self._looked > DOUBT:
            self._looked = now
            self._looking = background(self._look)
        if self._looking is not None and self._looking.done():
            self._seen = "nothing" if self._looking.exception() else self._looking.result()
            self._looking = None
        words = f"has not been heard of for {silent:.0f} s"
        if self._seen == "ended":
            return "died"
        if self._seen == "alive":
            return f"{words}, though its process is there" if silent > HUNG else None
        return words if silent > SILENCE and (self._looking is None or silent > SILENCE + DOUBT) else None

    def _look(self) -> str:
        if self.door is None:
            return "nothing"
        boot, port, *addresses = self.door
        # Machines may have networks of their own that are called alike: an address of ours is not the other's.
        places = ["127.0.0.1"] if boot == self._boot else [place for place in addresses if place not in _addresses()]
        hosts = [f"{place}:{port}" for place in places]
        missed = unreachable(hosts)
        if len(missed) < len(hosts):
            return "alive"
        return "ended" if REFUSED in missed.values() else "nothing"


@cache
def _addresses() -> list[str]:
    """Return the addresses of this machine's networks, IPv4; none that it cannot say."""
    addresses = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):
                said = fcntl.ioctl(asking, _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
                if name != "lo":
                    addresses.append(socket.inet_ntoa(said[20:24]))
    return addresses
