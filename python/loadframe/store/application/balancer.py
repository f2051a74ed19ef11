"""The load balancer: HAProxy, as the system has it. Its configuration, its commands and its figures."""

import csv
import io
import shutil
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path

from loadframe.base.errors import BadInput, StoreFailed
from loadframe.store import installed
from loadframe.store.access import split_address
from loadframe.store.base import Unreachable
from loadframe.store.web import UnansweredError, Web

#: The most instances; places for those that are not there yet are in the configuration from the start.
MOST = 64
#: Where it tells its figures, at the address for clients.
FIGURES = "/_balancer"
_GROUP = "instances"
#: Seconds that a command may take.
_PATIENCE = 5.0
#: Where Debian puts it, which is not on everybody's PATH.
_PLACE = Path("/usr/sbin/haproxy")

_CONFIGURATION = """\
global
    nbthread {threads}
    stats socket ipv4@{commands} level admin
defaults
    mode http
    timeout connect 2s
    timeout client 1h
    timeout server 1h
    # A request that got no connection goes to another instance. One that was sent is not sent twice.
    retries 3
    option redispatch 1
    option httpchk GET {health}
    default-server inter 500ms fall 2 rise 1
frontend users
    bind {address}
    stats enable
    stats uri {figures}
    default_backend {group}
backend {group}
    balance {balance}
"""


def program() -> Path:
    """Return where the system has it; BadInput where it has not."""
    path = shutil.which("haproxy") or (_PLACE if _PLACE.is_file() else None)
    if path is None:
        raise BadInput(
            "there is no haproxy here, which applications have for their load balancer",
            where="PATH",
            remedy="install your system's package haproxy (Debian: apt-get install haproxy); its own service may stay"
            " off",
        )
    return Path(path)


def version(path: Path) -> str:
    """Return the version that the program says it is of."""
    return installed.program_version(path, r"HAProxy version (\d+(?:\.\d+)*)", "-v")


def configuration(
    address: str, commands: str, instances: Mapping[str, str], *, health: str, balance: str, threads: int
) -> str:
    """Return its configuration file: instances by name with their addresses, and places for those that may come."""
    text = _CONFIGURATION.format(
        address=address,
        commands=commands,
        health=health,
        balance=balance,
        threads=threads,
        group=_GROUP,
        figures=FIGURES,
    )
    for number in range(1, MOST + 1):
        name = instance_name(number)
        place = instances.get(name)
        text += f"    server {name} {place} check\n" if place else f"    server {name} 127.0.0.1:1 check disabled\n"
    return text


def instance_name(number: int) -> str:
    """Return the name of an instance, by its number from 1."""
    return f"app-{number}"


def enter(commands: str, name: str, address: str) -> None:
    """Have it send requests to an instance at an address, once that answers."""
    host, port = split_address(address)
    _order(commands, f"set server {_GROUP}/{name} addr {host} port {port}")
    _order(commands, f"set server {_GROUP}/{name} state ready")


def drain(commands: str, name: str) -> None:
    """Send no new requests to an instance."""
    _order(commands, f"set server {_GROUP}/{name} state drain")


def drop(commands: str, name: str) -> None:
    """Forget an instance."""
    _order(commands, f"set server {_GROUP}/{name} state maint")


def _order(commands: str, order: str) -> None:
    try:
        with socket.create_connection(split_address(commands), timeout=_PATIENCE) as connection:
            connection.sendall(f"{order}\n".encode())
            connection.shutdown(socket.SHUT_WR)
            answer = b"".join(iter(lambda: connection.recv(4096), b"")).decode(errors="replace").strip()
    except OSError as error:
        raise Unreachable(f"the load balancer takes no command ({error})", where=commands) from error
    # It says nothing where all is well, or what has changed.
    if answer and "changed" not in answer and "no need to change" not in answer:
        raise StoreFailed(f"the load balancer refuses {order!r}: {answer}", where=commands)


def figures(web: Web, addresses: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return the rows of its statistics by the names of instances, those without one left out; Unreachable if silent.

    The row `FRONTEND` is about all of it.
    """
    address = addresses[0]
    try:
        answer = web.request(address, "GET", f"{FIGURES};csv")
    except UnansweredError as error:
        raise Unreachable(
            f"the load balancer does not answer ({error})", where=address, remedy="check that it runs"
        ) from error
    rows = csv.DictReader(io.StringIO(answer.text.removeprefix("# ")))
    kept = (row for row in rows if row.get("svname") != "BACKEND" and row.get("status") != "MAINT")
    return {row["svname"]: row for row in kept if "svname" in row}
