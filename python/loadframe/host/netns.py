"""This machine as a host where each node has a network of its own: a namespace with one address on one link.

The links of a cluster's nodes meet in a bridge, whose own address is the machine's, so that loadframe and its load
generator reach them and nobody else does. Addresses are of 198.19.0.0/16, which is set aside for tests of networks
(RFC 2544) and which nobody routes. A node's namespace ends with its process, whatever ends that, and takes its link
along; the last guard removes the bridge, and a later start one that was left by guards that were killed themselves.
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
from loadframe.host.local import PORTS, LocalHost
from loadframe.host.local_process import Identity

_INTERFACES = Path("/sys/class/net")
#: Bridges are `lf` and the number of their network, links that and the number of their address.
_PREFIX = "lf"
#: What our bridges say of themselves, followed by the process that made use of them last, as an Identity.
_SIGN = "loadframe"
_PROGRAMS = {"ip": "iproute2", "tc": "iproute2", "nsenter": "util-linux", "unshare": "util-linux"}
#: What is tried out in a namespace that ends at once.
_TRIAL = "link add lf type bridge\nlink add lf1 type veth peer name lf2\nlink set lf1 master lf up\n"


class NetnsHost(LocalHost):
    """Runs each process in a network namespace of its own on this machine. Needs root, or CAP_NET_ADMIN and more."""

    name = "netns"
    own_addresses = True

    @cached_property
    def obstacle(self) -> str | None:
        """What keeps nodes from having networks of their own here; tried out once."""
        for program, package in _PROGRAMS.items():
            if shutil.which(program) is None:
                return f"there is no {program}, which the package {package} has"
        done = subprocess.run(
            ["unshare", "--net", "ip", "-batch", "-"], input=_TRIAL, capture_output=True, text=True, check=False
        )
        return None if done.returncode == 0 else (done.stderr.strip().splitlines() or ["it failed"])[0]

    def require(self) -> None:
        """BadInput without the permission or the programs."""
        if self.obstacle:
            raise BadInput(
                f"nodes cannot have networks of their own here: {self.obstacle}",
                remedy="run as root (in a container with CAP_NET_ADMIN and CAP_SYS_ADMIN), or leave --host netns out",
            )

    def address_of(self, number: int, beside: Collection[str] = ()) -> str:
        """Return an address in the network of those beside it, or in one that is new; its bridge then stands."""
        if beside:
            network = _network_of(next(iter(beside)))
        else:
            self.require()
            with _locked():
                _sweep()
                network = _unused()
                _sign(network)
        # The first address is the bridge's, the last the broadcast's.
        if number > network.num_addresses - 4:
            raise BadInput(f"a network of nodes has {network.num_addresses - 3} addresses", remedy="take fewer nodes")
        return str(network[number + 2])

    def free_ports(self, count: int, first: int | None = None, addresses: Sequence[str] = ()) -> list[int]:
        """Return ports: where nothing else runs all are free."""
        if first is None:
            return Random().sample(PORTS, count)
        if not 1024 <= first <= 65536 - count:
            raise BadInput(f"port {first} is not a valid port for a node", remedy="take one from 1024 to 65535")
        return list(range(first, first + count))

    def _network(self, command: Command) -> dict[str, str]:
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

    def _guarded(self, order: dict[str, Any], path: Path) -> tuple["subprocess.Popen[bytes]", dict[str, Any]]:
        # The lock keeps the bridge until the guard has plugged its node in.
        with _locked():
            _sign(_network_of(order["network"]["address"].partition("/")[0]))
            return super()._guarded(order, path)


@contextlib.contextmanager
def _locked() -> Iterator[None]:
    """Hold what guards hold, too: a lock on the network that the bridges are in."""
    descriptor = os.open("/proc/self/ns/net", os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _network_of(address: str) -> IPv4Network:
    return IPv4Network(f"{address}/24", strict=False)


def _bridge(network: IPv4Network) -> str:
    return f"{_PREFIX}{network.network_address.packed[2]}"


def _hardware(address: IPv4Address) -> str:
    """Return the hardware address that goes with an address, as on a machine, which keeps its own.

    A node that came back with another one would not be reached until those that know the old one give it up, which
    takes up to a minute. A bridge without one has the lowest of its links, which changes when nodes join or leave, and
    what is then on its way to it is lost.
    """
    return f"02:00:{address.packed.hex(':')}"


def _unused() -> IPv4Network:
    """Return a network that no route of this machine touches; BadInput when there is none left."""
    routes = [route["dst"] for route in _ip_json("route", "show", "table", "all")]
    taken = [ip_network(route, strict=False) for route in routes if route != "default"]
    # A route for half of all addresses is a way out like the default one, and claims none of them.
    taken = [used for used in taken if used.prefixlen >= 8]
    for number in range(256):
        network = IPv4Network(f"198.19.{number}.0/24")
        if not (_INTERFACES / _bridge(network)).exists() and not any(network.overlaps(used) for used in taken):
            return network
    raise BadInput("all networks of 198.19.0.0/16 are in use here", remedy="stop some clusters")


def _sign(network: IPv4Network) -> None:
    """Have the network's bridge stand, and say that it is in use by this process."""
    bridge, us = _bridge(network), Identity.of(os.getpid())
    if not (_INTERFACES / bridge).exists():
        _ip("link", "add", bridge, "address", _hardware(network[1]), "type", "bridge")
        _ip("address", "add", f"{network[1]}/{network.prefixlen}", "dev", bridge)
        _ip("link", "set", bridge, "up")
    elif _user(bridge) is None:
        raise LoadframeError(f"the interface {bridge} is not loadframe's", remedy="rename it, or remove it")
    _ip("link", "set", bridge, "alias", f"{_SIGN} {us.pid} {us.started}")


def _sweep() -> None:
    """Remove bridges that nothing is plugged into and whose users are gone."""
    for folder in _INTERFACES.glob(f"{_PREFIX}*/brif"):
        user = _user(folder.parent.name)
        if user is not None and not user.alive() and not any(folder.iterdir()):
            _ip("link", "delete", folder.parent.name)


def _user(bridge: str) -> Identity | None:
    """Return the process that used one of our bridges last; None for an interface that is not ours."""
    try:
        sign, pid, started = (_INTERFACES / bridge / "ifalias").read_text().split()
        return Identity(int(pid), int(started)) if sign == _SIGN else None
    except (OSError, ValueError):
        return None


def _ip(*arguments: str) -> str:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        told = (done.stderr.strip().splitlines() or ["it failed"])[0]
        raise LoadframeError(f"the network cannot be changed: {told}", where=" ".join(("ip", *arguments)))
    return done.stdout


def _ip_json(*arguments: str) -> list[dict[str, Any]]:
    objects: list[dict[str, Any]] = json.loads(_ip("-4", "-json", *arguments) or "[]")
    return objects
