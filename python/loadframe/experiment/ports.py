"""The ports that sources listen at: whether they can be had, asked before a store is started."""

import contextlib
import socket

from loadframe.errors import BadInput
from loadframe.workload import ResolvedPhase


def require_ports(phase: ResolvedPhase) -> None:
    """BadInput if nothing can listen where a source of the phase does."""
    for name, source in phase.sources.items():
        if "listen" in source:
            _require(str(source["listen"]["address"]), name)


def _require(address: str, source: str) -> None:
    host, _, port = address.rpartition(":")
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)[0]
        with contextlib.closing(socket.socket(family, kind, protocol)) as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tried.bind(where)
            tried.listen()
    except OSError as error:
        what = f"nothing can listen at {address}: {error.strerror or error}"
        raise BadInput(what, where=f"source {source}", remedy="choose another port, or end what has it") from None
