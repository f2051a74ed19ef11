"""Reachability and distance of nodes, measured by TCP connections without data. A connection takes one round trip."""

import errno
import selectors
import socket
import time
from collections.abc import Sequence

#: Connection timeout, s.
_PATIENCE = 3.0
#: Number of connections per distance; the median counts.
_TRIPS = 7
#: Result for a reachable machine without a listener at the port.
REFUSED = errno.errorcode[errno.ECONNREFUSED]


def unreachable(hosts: Sequence[str]) -> dict[str, str]:
    """Return each unreachable `host:port` with the reason."""
    return {host: outcome for host, outcome in _connect(hosts).items() if isinstance(outcome, str)}


def distances(hosts: Sequence[str]) -> list[float | None]:
    """Return the median round trip to each host, s, or None if unreachable."""
    rounds = [_connect(hosts) for _ in range(_TRIPS)]
    trips = [[took for outcome in rounds if isinstance(took := outcome[host], float)] for host in hosts]
    return [sorted(took)[len(took) // 2] if took else None for took in trips]


def _connect(hosts: Sequence[str]) -> dict[str, float | str]:
    """Return the connection time to each host, s, or the reason for failure."""
    outcomes: dict[str, float | str] = {}
    with selectors.DefaultSelector() as waiting:
        for host in dict.fromkeys(hosts):
            try:
                family, kind, _, _, address = socket.getaddrinfo(*_split(host), type=socket.SOCK_STREAM)[0]
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


def _split(host: str) -> tuple[str, int]:
    name, _, port = host.rpartition(":")
    return name.strip("[]"), int(port)


def _words(status: int) -> str:
    return errno.errorcode.get(status, str(status))
