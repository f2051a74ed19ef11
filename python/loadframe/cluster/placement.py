"""Processes that a cluster will start: their plans, machines and cores, and their addresses and ports."""

import itertools
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import loadframe.store as stores
from loadframe.base.errors import BadInput
from loadframe.base.units import format_size
from loadframe.cluster.node import Node
from loadframe.cluster.spec import ClusterSpec
from loadframe.host import placement
from loadframe.host.base import Host, Machine
from loadframe.host.limits import Limits
from loadframe.store import Installation, NodePlan, NodeSpec, ProcessSpec, Store


@dataclass(frozen=True)
class Planned:
    """Process that will be started. It continues with the data in its folder, if any."""

    spec: ProcessSpec
    number: int | None  #: number of its data node, or None for a companion


def again(node: Node) -> Planned:
    """Return a node's process, with the same name, role and number, as a process to start."""
    return Planned(ProcessSpec(node.name, node.role, node.serves, node.shares), node.number)


def layout_of(store: Store, number: int, settings: Mapping[str, Any]) -> list[Planned]:
    """Return the processes of data node `number`; the first represents the node."""
    return [Planned(process, number) for process in store.node_processes(number, settings)]


def layout(store: Store, spec: ClusterSpec) -> list[Planned]:
    """Return the processes of a new cluster: of all data nodes, then the companions."""
    nodes = [process for number in range(spec.nodes) for process in layout_of(store, number, spec.settings)]
    return nodes + [Planned(process, None) for process in store.companions(spec.settings)]


def electors(store: Store, size: int, known: Sequence[Node], planned: Sequence[Planned]) -> tuple[str, ...] | None:
    """Return the names of the nodes that can be elected once `planned` runs, in a cluster of `size` nodes.

    None if all can. Nodes in `known` that can be elected keep their vote, because it cannot be taken from stopped ones.
    Missing ones are chosen from `planned`, among the first `size` numbers, which stay. If these and future nodes are
    too few, none is added: with two electable nodes both would be needed, which is no better than one.
    """
    wanted = store.electors(size)
    if wanted is None:
        return None
    numbers = {node.name: node.number for node in known if node.number is not None}
    numbers |= {process.spec.name: process.number for process in planned if process.number is not None}
    ordered = sorted(set(numbers.values()))
    staying = set(ordered[:size])
    names = [node.name for node in known if node.elects and node.name in numbers]
    missing = wanted - sum(numbers[name] in staying for name in names)
    candidates = [process.spec.name for process in planned if process.number in staying]
    candidates = sorted((name for name in candidates if name not in names), key=lambda name: numbers[name])
    if len(candidates) + size - len(staying) >= missing:
        names += candidates[: max(missing, 0)]
    return tuple(names)


def plan(machine: Machine, store: Store, node: NodeSpec, installation: Installation) -> NodePlan:
    """Return a node's plan, made on the node's machine: it depends on that machine and the node's folder."""
    if machine.here:
        return store.plan(node, installation)
    return machine.call(_plan, store.kind, node, installation)


def _plan(kind: str, node: NodeSpec, installation: Installation) -> NodePlan:
    """Return a node's plan by the store of that kind; run on the node's machine."""
    return stores.find(kind).plan(node, installation)


def counts(host: Host, nodes: int) -> Counter[str]:
    """Return machine name -> number of nodes if the host places `nodes` nodes; BadInput without enough slots."""
    taken: list[str] = []
    for _ in range(nodes):
        taken.append(host.place(taken).hostname)
    return Counter(taken)


def places(host: Host, planned: Sequence[Planned], known: Sequence[Node]) -> list[Machine]:
    """Return the machine of each process: its previous one, the one of its data node, or the next with a free slot.

    Companions need no slot. They go to the node with which they share limits, or to the first nodes. `known` are the
    nodes in the node table. BadInput if there are not enough slots.
    """
    # The record can name a machine of another host than the current one.
    before = {node.name: host.machine(node.on) for node in known if node.on}
    of_node = {node.number: before[node.name] for node in known if node.on and node.number is not None}
    for process in planned:
        if process.number is not None and process.number not in of_node:
            of_node[process.number] = host.place([machine.hostname for machine in of_node.values()])
    node_machines = list(of_node.values()) or list(host.machines)
    shared = {process.spec.shares: of_node[process.number] for process in planned if process.number is not None}
    shared |= {
        node.shares: of_node[node.number] for node in known if node.number in of_node and node.number is not None
    }
    chosen = []
    for position, process in enumerate(planned):
        place = before.get(process.spec.name)
        if place is None and process.number is not None:
            place = of_node[process.number]
        elif place is None and process.spec.shares:
            place = shared.get(process.spec.shares)
        chosen.append(place or node_machines[position % len(node_machines)])
    return chosen


def require_apart(host: Host, kind: str, nodes: int) -> None:
    """Raise BadInput if a remote machine would run two nodes, which use the same port and share its address."""
    for hostname, count in counts(host, nodes).items():
        if count > 1 and not host.machine(hostname).here:
            raise BadInput(
                f"nodes of {kind} all use the same port, so a machine runs only one, but {hostname} would run {count}",
                remedy="use one machine per node (--per-machine 1)",
            )


def require(host: Host, limits: Limits, nodes: int, report: Callable[[str], None]) -> None:
    """Raise BadInput if a machine lacks memory or cores for its nodes; warn if the generator must share cores."""
    for hostname, count in counts(host, nodes).items():
        machine = host.machine(hostname)
        _require_memory(machine, limits, count)
        if not machine.here:
            if problem := machine.call(placement.shortage, limits, count):
                raise BadInput(problem, where=hostname, remedy="use fewer nodes per machine, or other cores")
            continue
        placement.require(limits, count)
        if limits.cores_each is not None and placement.generator_shares(limits, count):
            report("warning: the nodes use all usable cores, which the load generator shares")


def _require_memory(machine: Machine, limits: Limits, nodes: int) -> None:
    """Raise BadInput if the nodes' memory limits exceed the machine's memory: the kernel would kill processes."""
    if limits.memory is None:
        return
    needed, available = nodes * limits.memory, machine.call(_memory)
    if needed > available:
        raise BadInput(
            f"{nodes} nodes with {format_size(limits.memory)} each need {format_size(needed)} of memory;"
            f" {'this machine' if machine.here else machine.hostname} has {format_size(available)}",
            remedy="give the nodes less memory, or use fewer nodes",
        )


def _memory() -> int:
    """Return the memory of this machine in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


#: Number of a data node, or None for companions -> cores.
CoreAssignment = dict[int | None, tuple[int, ...]]


def deal(
    spec: ClusterSpec, planned: Sequence[Planned], machines: Sequence[Machine], known: Sequence[Node]
) -> list[tuple[int, ...]]:
    """Return the cores of each process in `planned`, which will start on the machine at the same place of `machines`.

    Empty cores mean all. The processes of a node, and companions that share its limits, get the same cores. Known nodes
    keep their cores. Cores are assigned per machine. BadInput if there are too few.
    """
    if spec.limits.cores_each is None:
        return [spec.limits.cores or () for _ in planned]
    dealt: dict[str, CoreAssignment] = {}
    for machine in {machine.hostname: machine for machine in machines}.values():
        name = machine.hostname
        numbers = [process.number for process, at in zip(planned, machines, strict=True) if at.hostname == name]
        had: dict[int | None, tuple[int, ...]] = {
            node.number: node.cores
            for node in known
            if node.number is not None and (node.machine is None or node.machine.hostname == name)
        }
        size = len({number for number in (*numbers, *had) if number is not None})
        size = max(spec.nodes, size) if machine.here else size
        dealt[name] = machine.call(_assign_cores, spec.limits, size, list(dict.fromkeys(numbers)), had)
    chosen = [dealt[machine.hostname][process.number] for process, machine in zip(planned, machines, strict=True)]
    of_shared = {node.shares: node.cores for node in known if node.number is not None}
    of_shared |= {
        process.spec.shares: kept for process, kept in zip(planned, chosen, strict=True) if process.number is not None
    }
    return [
        of_shared.get(process.spec.shares, kept) if process.spec.shares else kept
        for process, kept in zip(planned, chosen, strict=True)
    ]


def preview(limits: Limits, nodes: int) -> list[tuple[int, ...]]:
    """Return the cores of each of `nodes` new nodes on this machine; BadInput if there are too few."""
    placement.require(limits, nodes)
    dealt = _assign_cores(limits, nodes, range(nodes), {})
    return [dealt[number] for number in range(nodes)]


def _assign_cores(
    limits: Limits, size: int, numbers: Sequence[int | None], had: Mapping[int | None, tuple[int, ...]]
) -> CoreAssignment:
    """Return number -> cores of this machine for these data nodes (None: companions), of a pool for `size` nodes.

    `had` are the cores that nodes already have, by number; a node keeps its own. BadInput if there are too few.
    """
    dealt: CoreAssignment = {}
    for number in sorted(number for number in numbers if number is not None):
        others = [core for other, cores_of_node in had.items() if other != number for core in cores_of_node]
        taken = [core for numbers_dealt in dealt.values() for core in numbers_dealt]
        dealt[number] = placement.deal(limits, size, (*others, *taken), had.get(number, ()))
    if None in numbers:
        used = {core for cores_of_node in (*had.values(), *dealt.values()) for core in cores_of_node}
        dealt[None] = placement.of_companions(limits, size, used)
    return dealt


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

    `machines` and `numbers` (None: companion) describe the processes, in the order of the result. If the nodes of a
    machine share one address, their ports differ, counting up from the spec's port if it has one. If each has its own
    address, all use the same ports: the ports of the nodes in `present`, or new ones without any.

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
        kept = _previous_ports(machine, were) if present and len(were) == len(positions) else None
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
    """Return the endpoints of nodes on one machine, on free ports; nodes with their own addresses share the ports.

    `numbers` are the nodes' (None: companion), in the order of the result. `present` are the cluster's nodes there, and
    `kept` the ports and peer ports that the nodes had before. BadInput if too few ports are free.
    """
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
        Endpoint(address, port, peer_port, tuple(itertools.islice(extra, store.extra_ports)))
        for address, port, peer_port in zip(addresses, ports, peer_ports, strict=True)
    ]


def _apart(store: Store, spec: ClusterSpec, machines: Sequence[Machine], present: Sequence[Node]) -> list[Endpoint]:
    """Return endpoints with the same ports on `machines` with one address each, in their order.

    Nodes in `present` determine the ports; without any, they are new. BadInput if they are in use.
    """
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
    """Return the endpoints that nodes had before, for stores with nodes that keep them; BadInput if one is in use.

    `machines` and `nodes` correspond. `reason` says why nodes keep them. BadInput also if the requested port `first`,
    or the host, differs from before. Other ports are stored in the nodes' folders.
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


def _previous_ports(machine: Machine, nodes: Sequence[Node]) -> tuple[list[int], list[int]] | None:
    """Return the previous ports and the previous peer ports of processes, or None if one is in use.

    None also if a process had another address than the machine's.
    """
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
    """Return an address for each process: the address of its number, or the next that is free. Adds them to `taken`."""
    addresses = []
    for number in numbers:
        address = next(
            candidate
            for candidate in (machine.address_of(at, taken) for at in itertools.count(number or 0))
            if candidate not in taken
        )
        taken.add(address)
        addresses.append(address)
    return addresses


def _distinct(machine: Machine, wanted: int, taken: set[int]) -> list[int]:
    """Return `wanted` free ports of a machine that are not in `taken`; BadInput if too few are free."""
    return [port for port in machine.free_ports(wanted + len(taken)) if port not in taken][:wanted]


def _host(address: str) -> str:
    """Return the host of `host:port`."""
    return address.rpartition(":")[0]


def _port(address: str) -> int:
    """Return the port of `host:port`."""
    return int(address.rpartition(":")[2])
