"""This machine as a host that runs each node in its own network namespace, with one address and one link.

The links of a cluster's nodes meet in a bridge. Its address is the machine's, so that loadframe and the load generator
reach the nodes. Addresses are from 198.19.0.0/16, which is reserved for network tests (RFC 2544) and not routed. The
kernel removes a node's namespace and link with its process. The last supervisor removes the bridge. Bridges that killed
supervisors left behind are removed when the next network is created.
"""

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from ipaddress import IPv4Address, IPv4Network, ip_network
from pathlib import Path
from random import Random
from typing import Any

from loadframe.base.errors import BadInput, LoadframeError
from loadframe.host.base import Command
from loadframe.host.local import PORTS, LocalHost, ports_from
from loadframe.host.local_process import Identity

_INTERFACES = Path("/sys/class/net")
#: Bridge name: `lf` and the number of its network. Link name: bridge name, `n`, and the number of its address.
_PREFIX = "lf"
#: First word of our bridges' alias. The identity of the last process that used the bridge follows.
_SIGN = "loadframe"
_PROGRAMS = {"ip": "iproute2", "tc": "iproute2", "nsenter": "util-linux", "unshare": "util-linux"}
#: Commands to test in a short-lived namespace.
_TRIAL = "link add lf type bridge\nlink add lf1 type veth peer name lf2\nlink set lf1 master lf up\n"


class NetnsHost(LocalHost):
    """Runs each process in its own network namespace. Needs root, or CAP_NET_ADMIN and CAP_SYS_ADMIN."""

    name = "netns"
    own_addresses = True

    @cached_property
    def obstacle(self) -> str | None:
        """Why network namespaces cannot be used here, tested once, or None if they can."""
        for program, package in _PROGRAMS.items():
            if shutil.which(program) is None:
                return f"{program} is not installed (package {package})"
        done = subprocess.run(
            ["unshare", "--net", "ip", "-batch", "-"], input=_TRIAL, capture_output=True, text=True, check=False
        )
        return None if done.returncode == 0 else (done.stderr.strip().splitlines() or ["it failed"])[0]

    def require(self) -> None:
        """Raise BadInput without the permission or the programs."""
        if self.obstacle:
            raise BadInput(
                f"network namespaces are not available: {self.obstacle}",
                remedy="run as root (in a container with CAP_NET_ADMIN and CAP_SYS_ADMIN), or omit --host netns",
            )

    def address_of(self, number: int, beside: Collection[str] = ()) -> str:
        """Return an address in the network of the addresses in `beside`, or in a new network; `number` counts from 0.

        BadInput if the network has no address for that number, or without permission. Side effect: for a new network,
        creates its bridge and removes abandoned bridges.
        """
        if beside:
            network = _network_of(next(iter(beside)))
        else:
            self.require()
            with _locked():
                _sweep()
                network = _unused()
                _sign(network)
        # The first address belongs to the bridge, the last is the broadcast address.
        if number > network.num_addresses - 4:
            raise BadInput(f"a network has addresses for {network.num_addresses - 3} nodes", remedy="use fewer nodes")
        return str(network[number + 2])

    def free_ports(self, count: int, first: int | None = None, addresses: Sequence[str] = ()) -> list[int]:
        """Return ports without testing them, because in a new namespace all are free.

        They are `count` random ports from 20000 to 31999, or the ports from `first` on; BadInput if a port from `first`
        on is out of range.
        """
        if first is None:
            return Random().sample(PORTS, count)
        return ports_from(first, count)

    def _network(self, command: Command) -> dict[str, str]:
        """Return the supervisor's instructions for the network: `ip`, bridge, link, address and MAC address."""
        assert command.address
        network = _network_of(command.address)
        bridge = _bridge(network)
        return {
            "ip": shutil.which("ip") or "ip",
            "bridge": bridge,
            "link": f"{bridge}n{int(IPv4Address(command.address)) - int(network.network_address)}",
            "address": f"{command.address}/{network.prefixlen}",
            "hardware": _hardware(IPv4Address(command.address)),
        }

    def _start_supervisor(self, order: dict[str, Any], path: Path) -> tuple["subprocess.Popen[bytes]", dict[str, Any]]:
        """Start a supervisor as on a local host, after its bridge is created and marked as used.

        `path` is the path of the log. Returns the supervisor and its first answer.
        """
        # The lock keeps the bridge until the supervisor has attached its node.
        with _locked():
            _sign(_network_of(order["network"]["address"].partition("/")[0]))
            return super()._start_supervisor(order, path)


@contextlib.contextmanager
def _locked() -> Iterator[None]:
    """Hold a lock on the network namespace of the bridges, after waiting for it. Supervisors use the same lock."""
    descriptor = os.open("/proc/self/ns/net", os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _network_of(address: str) -> IPv4Network:
    """Return the /24 network of an address."""
    return IPv4Network(f"{address}/24", strict=False)


def _bridge(network: IPv4Network) -> str:
    """Return the name of a network's bridge: `lf` and the third byte of its address."""
    return f"{_PREFIX}{network.network_address.packed[2]}"


def _hardware(address: IPv4Address) -> str:
    """Return a MAC address derived from an IP address, so that it stays the same when a node restarts.

    With a new MAC address, a restarted node would be unreachable for up to a minute, until the neighbours' ARP entries
    expire. A bridge without a fixed MAC address takes the lowest of its links, which changes when nodes join or leave,
    and packets to it are lost.
    """
    return f"02:00:{address.packed.hex(':')}"


def _unused() -> IPv4Network:
    """Return the first /24 network of 198.19.0.0/16 that no bridge or route uses; BadInput if there is none."""
    routes = [route["dst"] for route in _ip_json("route", "show", "table", "all")]
    taken = [ip_network(route, strict=False) for route in routes if route != "default"]
    # Routes shorter than /8 are default routes in two halves, and reserve no addresses.
    taken = [used for used in taken if used.prefixlen >= 8]
    for number in range(256):
        network = IPv4Network(f"198.19.{number}.0/24")
        if not (_INTERFACES / _bridge(network)).exists() and not any(network.overlaps(used) for used in taken):
            return network
    raise BadInput("all networks in 198.19.0.0/16 are in use", remedy="stop some clusters")


def _sign(network: IPv4Network) -> None:
    """Create the network's bridge if it is missing, and mark it as used by this process.

    LoadframeError if another program uses the name, or the kernel refuses.
    """
    bridge, us = _bridge(network), Identity.of(os.getpid())
    if not (_INTERFACES / bridge).exists():
        _ip("link", "add", bridge, "address", _hardware(network[1]), "type", "bridge")
        _ip("address", "add", f"{network[1]}/{network.prefixlen}", "dev", bridge)
        _ip("link", "set", bridge, "up")
    elif _user(bridge) is None:
        raise LoadframeError(
            f"loadframe needs the interface name {bridge}, which another program uses",
            remedy="rename that interface, or remove it",
        )
    _ip("link", "set", bridge, "alias", f"{_SIGN} {us.pid} {us.started}")


def _sweep() -> None:
    """Remove bridges without links after their last user has ended."""
    for folder in _INTERFACES.glob(f"{_PREFIX}*/brif"):
        user = _user(folder.parent.name)
        if user is not None and not user.alive() and not any(folder.iterdir()):
            _ip("link", "delete", folder.parent.name)


def _user(bridge: str) -> Identity | None:
    """Return the process that last used a bridge, which may have ended; None if the interface is not ours."""
    try:
        sign, pid, started = (_INTERFACES / bridge / "ifalias").read_text().split()
        return Identity(int(pid), int(started)) if sign == _SIGN else None
    except (OSError, ValueError):
        return None


def _ip(*arguments: str) -> str:
    """Execute `ip` with arguments and return its output; LoadframeError if it fails."""
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        error = (done.stderr.strip().splitlines() or ["it failed"])[0]
        raise LoadframeError(f"could not change the network: {error}", where=" ".join(("ip", *arguments)))
    return done.stdout


def _ip_json(*arguments: str) -> list[dict[str, Any]]:
    """Execute `ip` for IPv4 and return its JSON output; LoadframeError if it fails."""
    objects: list[dict[str, Any]] = json.loads(_ip("-4", "-json", *arguments) or "[]")
    return objects
