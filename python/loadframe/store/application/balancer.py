"""The load balancer, HAProxy: configuration, commands and statistics."""

import csv
import io
import shutil
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path

from loadframe.base.errors import BadInput, StoreFailed
from loadframe.store import distribution
from loadframe.store.access import split_address
from loadframe.store.base import Unreachable
from loadframe.store.web import UnansweredError, Web

#: Maximum number of instances; the configuration reserves an entry for each.
MOST = 64
#: Path of the statistics, at the address for clients.
FIGURES = "/_balancer"
_GROUP = "instances"
#: Timeout of a command, s.
_TIMEOUT = 5.0
#: Debian's location, which is often missing from the PATH.
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
    # Retry a request on another instance if the connection fails, but never send it twice.
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
    """Return the path of haproxy, from PATH or /usr/sbin; BadInput if it is not installed."""
    path = shutil.which("haproxy") or (_PLACE if _PLACE.is_file() else None)
    if path is None:
        raise BadInput(
            "cannot find haproxy, the load balancer of applications",
            where="PATH",
            remedy="install your system's package haproxy (Debian: apt-get install haproxy); its service can stay off",
        )
    return Path(path)


def version(path: Path) -> str:
    """Run haproxy, and return the version that it reports; BadInput if that fails."""
    return distribution.program_version(path, r"HAProxy version (\d+(?:\.\d+)*)", "-v")


def configuration(
    address: str, commands: str, instances: Mapping[str, str], *, health: str, balance: str, threads: int
) -> str:
    """Return the text of haproxy.cfg, with one entry for each name `app-1` to `app-64`.

    `instances` are name -> address; entries without an instance are disabled, for later ones, and other names are left
    out. `address` is for clients, `commands` for commands (host:port); `health` is the path of the health request,
    `balance` the algorithm of HAProxy, and `threads` its number of threads.
    """
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
        known = instances.get(name)
        text += f"    server {name} {known} check\n" if known else f"    server {name} 127.0.0.1:1 check disabled\n"
    return text


def instance_name(number: int) -> str:
    """Return the name of an instance, such as `app-1` for number 1, the first."""
    return f"app-{number}"


def enter(commands: str, name: str, address: str) -> None:
    """Set an instance's address (host:port) in the balancer, which sends it requests once its health check passes.

    Returns before that. `name` is such as `app-1`; `commands` is the balancer's address for commands, host:port.
    Unreachable if the balancer does not answer, StoreFailed if it rejects a command.
    """
    host, port = split_address(address)
    _command(commands, f"set server {_GROUP}/{name} addr {host} port {port}")
    _command(commands, f"set server {_GROUP}/{name} state ready")


def drain(commands: str, name: str) -> None:
    """Make the balancer send the instance `name` no new requests, and return at once; requests in progress continue.

    `commands` is the balancer's address for commands, host:port. Unreachable if the balancer does not answer,
    StoreFailed if it rejects the command.
    """
    _command(commands, f"set server {_GROUP}/{name} state drain")


def drop(commands: str, name: str) -> None:
    """Make the balancer disable the entry of the instance `name`.

    `commands` is the balancer's address for commands, host:port. Unreachable if the balancer does not answer,
    StoreFailed if it rejects the command.
    """
    _command(commands, f"set server {_GROUP}/{name} state maint")


def _command(commands: str, command: str) -> None:
    """Send a command to the load balancer at `commands` (host:port).

    Unreachable if it does not answer, StoreFailed if it rejects the command.
    """
    try:
        with socket.create_connection(split_address(commands), timeout=_TIMEOUT) as connection:
            connection.sendall(f"{command}\n".encode())
            connection.shutdown(socket.SHUT_WR)
            answer = b"".join(iter(lambda: connection.recv(4096), b"")).decode(errors="replace").strip()
    except OSError as error:
        raise Unreachable(f"the load balancer does not accept commands ({error})", where=commands) from error
    # Success is an empty answer, or a description of the change.
    if answer and "changed" not in answer and "no need to change" not in answer:
        raise StoreFailed(f"the load balancer rejects {command!r}: {answer}", where=commands)


def figures(web: Web, addresses: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return HAProxy's statistics (column -> text) of all enabled instances by name; Unreachable without an answer.

    The row `FRONTEND` is the total. Only the first address, the balancer's for clients, is asked. Instances that are
    draining are included.
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
