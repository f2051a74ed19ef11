"""Assignment of addresses and ports to the processes of a cluster."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count, islice

from loadframe.base.errors import BadInput
from loadframe.cluster.node import Node
from loadframe.cluster.spec import ClusterSpec
from loadframe.host.base import Machine
from loadframe.store import Store


@dataclass(frozen=True)
class Endpoint:
    """Address and ports of a process."""

    address: str
    port: int
    peer_port: int
    extra_ports: tuple[int, ...]


def assign_endpoints(
    store: Store,
    spec: ClusterSpec,
    machines: Sequence[Machine],
    numbers: Sequence[int | None],
    present: Sequence[Node],
    before: Sequence[Node] = (),
) -> list[Endpoint]:
    """Return an endpoint for each process on its machine; BadInput if too few ports are free.

    If the nodes of a machine share one address, their ports differ, counting up from the spec's port if it has one. If
    each has its own address, all use the same ports, those of the nodes in `present`.

    `before` are the same processes at their last start. When they return to a running cluster, they keep their ports if
    these are free: the other nodes look for them there, and may need them for an election.
    """
    if store.own_address and not all(machine.here for machine in machines):
        return _apart(store, spec, machines, present)
    seated: dict[int, Endpoint] = {}
    for machine in {machine.hostname: machine for machine in machines}.values():
        positions = [at for at, place in enumerate(machines) if place.hostname == machine.hostname]
        there = [node for node in present if node.on in (None, machine.hostname)]
        were = [node for node in before if node.on in (None, machine.hostname)]
        kept = _kept(machine, were) if present and len(were) == len(positions) else None
        taken = _seats_on(machine, store, spec, [numbers[at] for at in positions], there, kept)
        seated.update(zip(positions, taken, strict=True))
    return [seated[at] for at in range(len(machines))]


def _seats_on(
    machine: Machine,
    store: Store,
    spec: ClusterSpec,
    numbers: Sequence[int | None],
    present: Sequence[Node],
    kept: tuple[list[int], list[int]] | None,
) -> list[Endpoint]:
    wanted = len(numbers)
    if store.own_address or machine.own_addresses:
        addresses = _addresses(machine, numbers, {_host(node.address) for node in present})
        if present:
            port, peer_port = _port(present[0].address), _port(str(present[0].peer_address))
            machine.free_ports(1, port, addresses)
            machine.free_ports(1, peer_port, addresses)
        else:
            [port] = machine.free_ports(1, spec.port, addresses)
            peer_port = next(free for free in machine.free_ports(2, None, addresses) if free != port)
        ports, peer_ports = [port] * wanted, [peer_port] * wanted
    else:
        addresses = [machine.address] * wanted
        if kept:
            ports, peer_ports = kept
        else:
            first = spec.port
            if first is not None and present:
                first = 1 + max(_port(node.address) for node in present)
            ports = machine.free_ports(wanted, first)
            peer_ports = _distinct(machine, wanted, set(ports))
    extra = iter(_distinct(machine, wanted * store.extra_ports, {*ports, *peer_ports}))
    return [
        Endpoint(address, port, peer_port, tuple(islice(extra, store.extra_ports)))
        for address, port, peer_port in zip(addresses, ports, peer_ports, strict=True)
    ]


def _apart(store: Store, spec: ClusterSpec, machines: Sequence[Machine], present: Sequence[Node]) -> list[Endpoint]:
    """Return endpoints with the same ports, on machines with one address each."""
    if present:
        port, peer_port = _port(present[0].address), _port(str(present[0].peer_address))
    else:
        port = machines[0].free_ports(1, spec.port)[0]
        peer_port = next(free for free in machines[0].free_ports(2) if free != port)
    for machine in machines:
        machine.free_ports(1, port)
        machine.free_ports(1, peer_port)
    return [
        Endpoint(machine.address, port, peer_port, tuple(_distinct(machine, store.extra_ports, {port, peer_port})))
        for machine in machines
    ]


def previous_endpoints(
    kind: str, reason: str, machines: Sequence[Machine], nodes: Sequence[Node], first: int | None
) -> list[Endpoint]:
    """Return the endpoints that nodes had before, for stores whose nodes keep them; BadInput if one is in use.

    `reason` says why nodes keep them, and `first` is the requested port. Other ports are stored in the nodes' folders.
    """
    kept = f"nodes of {kind} keep their addresses ({reason})"
    if first is not None and first != _port(nodes[0].address):
        raise BadInput(f"{kept}, and {nodes[0].name} has {nodes[0].address}", remedy="omit --port, or give this port")
    for machine, node in zip(machines, nodes, strict=True):
        if machine.own_addresses == (_host(node.address) == machine.address):
            raise BadInput(
                f"{kept}, and {node.name} has {node.address}",
                remedy="start the cluster with the --host that it was created with",
            )
        try:
            machine.free_ports(1, _port(node.address), [_host(node.address)])
        except BadInput as error:
            raise BadInput(
                f"{kept}, and that of {node.name} is in use",
                where=node.address,
                remedy=f"stop the program that listens there (`ss -ltnp sport = :{_port(node.address)}` names it)",
            ) from error
    return [Endpoint(_host(node.address), _port(node.address), _port(str(node.peer_address)), ()) for node in nodes]


def _kept(machine: Machine, nodes: Sequence[Node]) -> tuple[list[int], list[int]] | None:
    """Return the previous ports of processes at the machine's address, or None if one is in use."""
    if any(node.peer_address is None or _host(node.address) != machine.address for node in nodes):
        return None
    ports = [_port(node.address) for node in nodes]
    peer_ports = [_port(str(node.peer_address)) for node in nodes]
    try:
        for port in (*ports, *peer_ports):
            machine.free_ports(1, port)
    except BadInput:
        return None
    return ports, peer_ports


def _addresses(machine: Machine, numbers: Sequence[int | None], taken: set[str]) -> list[str]:
    """Return an address for each process: the address of its number, or the next free one."""
    addresses = []
    for number in numbers:
        address = next(
            candidate
            for candidate in (machine.address_of(at, taken) for at in count(number or 0))
            if candidate not in taken
        )
        taken.add(address)
        addresses.append(address)
    return addresses


def _distinct(machine: Machine, wanted: int, taken: set[int]) -> list[int]:
    """Return free ports that are not in `taken`."""
    return [port for port in machine.free_ports(wanted + len(taken)) if port not in taken][:wanted]


def _host(address: str) -> str:
    return address.rpartition(":")[0]


def _port(address: str) -> int:
    return int(address.rpartition(":")[2])
