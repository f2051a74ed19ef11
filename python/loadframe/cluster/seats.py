"""Which address and ports each process of a cluster gets, beside those that it has already."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count, islice

from loadframe.cluster.node import Node
from loadframe.cluster.spec import ClusterSpec
from loadframe.errors import BadInput
from loadframe.host.base import Host
from loadframe.store import Store


@dataclass(frozen=True)
class Seat:
    """Where a process listens."""

    address: str
    port: int
    peer_port: int
    extra_ports: tuple[int, ...]


def seats(
    store: Store,
    spec: ClusterSpec,
    host: Host,
    numbers: Sequence[int | None],
    present: Sequence[Node],
    before: Sequence[Node] = (),
) -> list[Seat]:
    """Return a seat for a process of each number; BadInput when there are not so many.

    With one address for all nodes the ports differ, from the spec's on if it says one. With an address for each, as
    some stores and some hosts want it, all have the same ports: those of the nodes that are present.

    `before` are the same processes as they were. One that comes back to others that run gets its ports again where they
    are free: that is where the others look for it, who may not be able to elect anybody without it.
    """
    wanted = len(numbers)
    if store.own_address or host.own_addresses:
        addresses = _addresses(host, numbers, {_host(node.address) for node in present})
        if present:
            port, peer_port = _port(present[0].address), _port(str(present[0].peer_address))
            host.free_ports(1, port, addresses)
            host.free_ports(1, peer_port, addresses)
        else:
            [port] = host.free_ports(1, spec.port, addresses)
            peer_port = next(free for free in host.free_ports(2, None, addresses) if free != port)
        ports, peer_ports = [port] * wanted, [peer_port] * wanted
    else:
        addresses = [host.address] * wanted
        kept = _kept(host, before) if present and len(before) == wanted else None
        if kept:
            ports, peer_ports = kept
        else:
            first = spec.port
            if first is not None and present:
                first = 1 + max(_port(node.address) for node in present)
            ports = host.free_ports(wanted, first)
            peer_ports = _distinct(host, wanted, set(ports))
    extra = iter(_distinct(host, wanted * store.extra_ports, {*ports, *peer_ports}))
    return [
        Seat(address, port, peer_port, tuple(islice(extra, store.extra_ports)))
        for address, port, peer_port in zip(addresses, ports, peer_ports, strict=True)
    ]


def seats_again(host: Host, kind: str, nodes: Sequence[Node], first: int | None) -> list[Seat]:
    """Return the seats that nodes had before, of a kind of store whose nodes keep them; BadInput where one is taken.

    `first` is the port that is asked for. Further ports are in the nodes' folders.
    """
    kept = f"nodes of {kind} keep their addresses"
    if first is not None and first != _port(nodes[0].address):
        raise BadInput(
            f"{kept}, and {nodes[0].name} has been at {nodes[0].address}", remedy="leave --port out, or give that port"
        )
    if any(host.own_addresses == (_host(node.address) == host.address) for node in nodes):
        raise BadInput(
            f"{kept}, and {nodes[0].name} has been at {nodes[0].address}",
            remedy="start the cluster with the --host that it was made with",
        )
    for node in nodes:
        try:
            host.free_ports(1, _port(node.address), [_host(node.address)])
        except BadInput as error:
            raise BadInput(
                f"{kept}, and that of {node.name} is in use",
                where=node.address,
                remedy=f"stop what listens there (`ss -ltnp sport = :{_port(node.address)}` names it)",
            ) from error
    return [Seat(_host(node.address), _port(node.address), _port(str(node.peer_address)), ()) for node in nodes]


def _kept(host: Host, nodes: Sequence[Node]) -> tuple[list[int], list[int]] | None:
    """Return the ports that processes had at the host's address; None if one cannot be had again."""
    if any(node.peer_address is None or _host(node.address) != host.address for node in nodes):
        return None
    ports = [_port(node.address) for node in nodes]
    peer_ports = [_port(str(node.peer_address)) for node in nodes]
    try:
        for port in (*ports, *peer_ports):
            host.free_ports(1, port)
    except BadInput:
        return None
    return ports, peer_ports


def _addresses(host: Host, numbers: Sequence[int | None], taken: set[str]) -> list[str]:
    """Return for each process the address of its number, or the next one that is not taken."""
    addresses = []
    for number in numbers:
        address = next(
            candidate
            for candidate in (host.address_of(at, taken) for at in count(number or 0))
            if candidate not in taken
        )
        taken.add(address)
        addresses.append(address)
    return addresses


def _distinct(host: Host, wanted: int, taken: set[int]) -> list[int]:
    """Return free ports beside those that are taken, though nobody listens there yet."""
    return [port for port in host.free_ports(wanted + len(taken)) if port not in taken][:wanted]


def _host(address: str) -> str:
    return address.rpartition(":")[0]


def _port(address: str) -> int:
    return int(address.rpartition(":")[2])
