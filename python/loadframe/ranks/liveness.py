"""Liveness of ranks and nodes: reachability by TCP connections; dead, unreachable, or waiting for a core.

Each rank listens on a port. The kernel accepts connections while the process lives, even if it is busy, and refuses
them after it has ended. An unreachable machine does not respond at all.
"""

import contextlib
import errno
import fcntl
import selectors
import socket
import struct
import time
from collections.abc import Sequence
from concurrent.futures import Future
from functools import cache

from loadframe.base.interrupts import background

#: Connection timeout, s.
_PATIENCE = 3.0
#: Number of connections per distance; the median counts.
_TRIPS = 7
#: Result for a reachable machine without a listener at the port.
REFUSED = errno.errorcode[errno.ECONNREFUSED]


def unreachable(hosts: Sequence[str]) -> dict[str, str]:
    """Return the reason for each `host:port` to which one TCP connection fails or takes over 3 s; empty if none.

    A refused connection counts as unreachable, with the reason `REFUSED`. All hosts are tried at once.
    """
    return {host: outcome for host, outcome in _connect(hosts).items() if isinstance(outcome, str)}


def distances(hosts: Sequence[str]) -> list[float | None]:
    """Return the median time of seven TCP connections to each `host:port`, s, in the given order.

    None for a host that no connection reaches. Waits up to 3 s for each attempt.
    """
    rounds = [_connect(hosts) for _ in range(_TRIPS)]
    trips = [[took for outcome in rounds if isinstance(took := outcome[host], float)] for host in hosts]
    return [sorted(took)[len(took) // 2] if took else None for took in trips]


def _connect(hosts: Sequence[str]) -> dict[str, float | str]:
    """Return the time of a TCP connection to each `host:port`, s, or the reason of its failure as text.

    All are attempted at once, for 3 s at most after the names are resolved.
    """
    outcomes: dict[str, float | str] = {}
    with selectors.DefaultSelector() as waiting:
        for host in dict.fromkeys(hosts):
            try:
                family, kind, _, _, address = socket.getaddrinfo(*_host_and_port(host), type=socket.SOCK_STREAM)[0]
            except OSError as error:
                outcomes[host] = str(error.strerror or error)
                continue
            connection = socket.socket(family, kind)
            connection.setblocking(False)
            sent = time.monotonic()
            status = connection.connect_ex(address)
            if status in (0, errno.EINPROGRESS):
                waiting.register(connection, selectors.EVENT_WRITE, (host, sent, connection))
            else:
                outcomes[host] = _words(status)
                connection.close()
        until = time.monotonic() + _PATIENCE
        while waiting.get_map() and (left := until - time.monotonic()) > 0:
            for key, _ in waiting.select(left):
                host, sent, finished = key.data
                status = finished.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                outcomes[host] = _words(status) if status else time.monotonic() - sent
                waiting.unregister(finished)
                finished.close()
        for key in list(waiting.get_map().values()):
            host, _, pending = key.data
            outcomes[host] = f"no answer within {_PATIENCE:g} s"
            pending.close()
    return outcomes


def _host_and_port(host: str) -> tuple[str, int]:
    """Return name and port of `host:port`, without the brackets of an IPv6 address. ValueError without a port."""
    name, _, port = host.rpartition(":")
    return name.strip("[]"), int(port)


def _words(status: int) -> str:
    """Return the symbol of an error number, such as `ECONNREFUSED`; the number as text if it has none."""
    return errno.errorcode.get(status, str(status))


#: Silence after which a rank is probed, and interval of further probes, s.
DOUBT = 8.0
#: Silence after which a rank that cannot be probed counts as lost, s.
SILENCE = 15.0
#: Silence after which a running rank counts as lost, because it hangs or is stopped, s.
HUNG = 180.0

#: Probe endpoint of a rank: boot id, port, and the addresses of its machine.
Door = Sequence[str]

_SIOCGIFADDR = 0x8915

_interface = ""


def stay_local() -> None:
    """Bind this process's port only to loopback, for ranks on a single machine. Call it before the port is opened."""
    global _interface  # noqa: PLW0603 - a process has one port
    _interface = "127.0.0.1"


@cache
def _listener() -> socket.socket:
    """Open this process's port, any free one, on the first call, and return its non-blocking socket."""
    listener = socket.create_server((_interface, 0), backlog=64)
    listener.setblocking(False)
    return listener


@cache
def door(boot: str) -> Door:
    """Return this process's probe endpoint: `boot`, port, and the machine's IPv4 addresses, all as texts.

    Opens the port on the first call. `boot` identifies the machine: ranks with the same one connect through loopback.
    """
    return [boot, str(_listener().getsockname()[1]), *_addresses()]


def answer() -> None:
    """Accept and close all pending probe connections, without waiting."""
    with contextlib.suppress(OSError):
        while True:
            _listener().accept()[0].close()


class Silence:
    """Liveness of a neighbour."""

    def __init__(self, boot: str) -> None:
        """`boot` identifies this machine's boot; set `door`, the neighbour's endpoint, when it is known."""
        self._boot = boot
        self.door: Door | None = None
        self._probing: Future[str] | None = None
        self._probed = 0.0
        self._result = ""

    def lost(self, silent: float) -> str | None:
        """Return why the neighbour counts as lost after `silent` s of silence, or None if it does not.

        Call it regularly. From 8 s on, probes in the background, at least 8 s apart. The neighbour is lost if its port
        refuses; after 180 s if it accepts; without an answer after 15 s, or 23 s while a probe is running.
        """
        if silent < DOUBT:
            self._probing, self._result, self._probed = None, "", 0.0
            return None
        now = time.monotonic()
        if self._probing is None and now - self._probed > DOUBT:
            self._probed = now
            self._probing = background(self._probe)
        if self._probing is not None and self._probing.done():
            self._result = "nothing" if self._probing.exception() else self._probing.result()
            self._probing = None
        words = f"has been silent for {silent:.0f} s"
        if self._result == "ended":
            return "died"
        if self._result == "alive":
            return f"{words}, although its process is running" if silent > HUNG else None
        return words if silent > SILENCE and (self._probing is None or silent > SILENCE + DOUBT) else None

    def _probe(self) -> str:
        """Connect to the neighbour, for up to 3 s; return `alive`, `ended` (its port refuses) or `nothing`.

        `nothing` means that no address answers, or that `door` is unknown.
        """
        if self.door is None:
            return "nothing"
        boot, port, *addresses = self.door
        # Separate networks can use the same addresses, so skip addresses that are also ours.
        places = ["127.0.0.1"] if boot == self._boot else [place for place in addresses if place not in _addresses()]
        hosts = [f"{place}:{port}" for place in places]
        missed = unreachable(hosts)
        if len(missed) < len(hosts):
            return "alive"
        return "ended" if REFUSED in missed.values() else "nothing"


@cache
def _addresses() -> list[str]:
    """Return the IPv4 address of each of this machine's interfaces except `lo`; later calls return the same list."""
    addresses = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):
                answer = fcntl.ioctl(probe, _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
                if name != "lo":
                    addresses.append(socket.inet_ntoa(answer[20:24]))
    return addresses
