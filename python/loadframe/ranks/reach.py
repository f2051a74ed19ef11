"""How long a rank's way to nodes is, by TCP connections: one takes one round trip. It sends nothing over them."""

import errno
import selectors
import socket
import time
from collections.abc import Sequence

#: How long a node may take to take a connection, s.
_PATIENCE = 3.0
#: Connections to a node whose median is its distance.
_TRIPS = 7
#: What is said of a machine that is there, and on which nothing listens at that port.
REFUSED = errno.errorcode[errno.ECONNREFUSED]


def unreachable(hosts: Sequence[str]) -> dict[str, str]:
    """Return which of these `host:port` this rank gets no connection to, with the reasons."""
    return {host: outcome for host, outcome in _connect(hosts).items() if isinstance(outcome, str)}


def distances(hosts: Sequence[str]) -> list[float | None]:
    """Return the median round trip to each host, s; None for one that cannot be reached."""
    rounds = [_connect(hosts) for _ in range(_TRIPS)]
    trips = [[took for outcome in rounds if isinstance(took := outcome[host], float)] for host in hosts]
    return [sorted(took)[len(took) // 2] if took else None for took in trips]


def _connect(hosts: Sequence[str]) -> dict[str, float | str]:
    """Return how long a connection to each host took, s, or why there was none."""
    outcomes: dict[str, float | str] = {}
    with selectors.DefaultSelector() as waiting:
        for host in dict.fromkeys(hosts):
            try:
                family, kind, _, _, address = socket.getaddrinfo(*_split(host), type=socket.SOCK_STREAM)[0]
            except OSError as error:
                outcomes[host] = str(error.strerror or error)
                continue
            line = socket.socket(family, kind)
            line.setblocking(False)
            sent = time.monotonic()
            status = line.connect_ex(address)
            if status in (0, errno.EINPROGRESS):
                waiting.register(line, selectors.EVENT_WRITE, (host, sent, line))
            else:
                outcomes[host] = _words(status)
                line.close()
        until = time.monotonic() + _PATIENCE
        while waiting.get_map() and (left := until - time.monotonic()) > 0:
            for key, _ in waiting.select(left):
                host, sent, taken = key.data
                status = taken.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                outcomes[host] = _words(status) if status else time.monotonic() - sent
                waiting.unregister(taken)
                taken.close()
        for key in list(waiting.get_map().values()):
            host, _, taken = key.data
            outcomes[host] = f"no answer within {_PATIENCE:g} s"
            taken.close()
    return outcomes


def _split(host: str) -> tuple[str, int]:
    name, _, port = host.rpartition(":")
    return name.strip("[]"), int(port)


def _words(status: int) -> str:
    return errno.errorcode.get(status, str(status))
