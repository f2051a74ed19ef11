"""Which machine each node goes to, and which cores it uses there."""

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from loadframe.base.errors import BadInput
from loadframe.base.units import format_size
from loadframe.cluster.node import Node
from loadframe.cluster.planned import Planned
from loadframe.cluster.spec import ClusterSpec
from loadframe.host import cores
from loadframe.host.base import Host, Machine
from loadframe.host.limits import Limits


def counts(host: Host, nodes: int) -> Counter[str]:
    """Return how many of that many nodes each machine takes, by its name; BadInput when they are too many."""
    taken: list[str] = []
    for _ in range(nodes):
        taken.append(host.place(taken).hostname)
    return Counter(taken)


def places(host: Host, planned: Sequence[Planned], known: Sequence[Node]) -> list[Machine]:
    """Return the machine of each process: the one that it was on, or that of its node, or the next one with room.

    Companions, which hold no data and take no slot, go beside the node that they share a machine with, or beside the
    first nodes.
    """
    # What was written down may be of another host than the one that it is started on now.
    before = {node.name: host.machine(node.on) for node in known if node.on}
    of_node = {node.number: before[node.name] for node in known if node.on and node.number is not None}
    for process in planned:
        if process.number is not None and process.number not in of_node:
            of_node[process.number] = host.place([machine.hostname for machine in of_node.values()])
    beside = list(of_node.values()) or list(host.machines)
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
        chosen.append(place or beside[position % len(beside)])
    return chosen


def require_apart(host: Host, kind: str, nodes: int) -> None:
    """BadInput when another machine, which has one address, would take two of the nodes, which all have one port."""
    for hostname, count in counts(host, nodes).items():
        if count > 1 and not host.machine(hostname).here:
            raise BadInput(
                f"nodes of {kind} are all at the same port, so a machine takes one, and {hostname} would have {count}",
                remedy="give each node a machine of its own (--per-machine 1)",
            )


def require(host: Host, limits: Limits, nodes: int, report: Callable[[str], None]) -> None:
    """BadInput when a machine has not the memory or the cores for its share of that many nodes."""
    for hostname, count in counts(host, nodes).items():
        machine = host.machine(hostname)
        _require_memory(machine, limits, count)
        if not machine.here:
            if problem := machine.call(cores.shortage, limits, count):
                raise BadInput(problem, where=hostname, remedy="take fewer nodes a machine, or other cores")
            continue
        cores.require(limits, count)
        if limits.cores_each is not None and cores.generator_shares(limits, count):
            report("warning: the nodes need every core that can be used here, and the generator shares them")


def _require_memory(machine: Machine, limits: Limits, nodes: int) -> None:
    """BadInput for nodes that may use more memory than there is: the kernel would end one of them, or others."""
    if limits.memory is None:
        return
    asked, there = nodes * limits.memory, machine.call(_memory)
    if asked > there:
        raise BadInput(
            f"{nodes} nodes of {format_size(limits.memory)} are {format_size(asked)} of memory,"
            f" and {'this machine' if machine.here else machine.hostname} has {format_size(there)}",
            remedy="give the nodes less memory, or take fewer",
        )


def _memory() -> int:
    """Return the bytes of memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


#: The cores of data-bearing nodes by their numbers, and those of companions under None.
Dealt = dict[int | None, tuple[int, ...]]


def deal(
    spec: ClusterSpec, planned: Sequence[Planned], machines: Sequence[Machine], known: Sequence[Node]
) -> list[tuple[int, ...]]:
    """Return the cores of each process that is about to start; none where it may use them all.

    All processes of one node share its cores, and with companions that share its limits. One that is known keeps those
    that it had. Each machine deals its own.
    """
    if spec.limits.cores_each is None:
        return [spec.limits.cores or () for _ in planned]
    dealt: dict[str, Dealt] = {}
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
        dealt[name] = machine.call(_deal, spec.limits, size, list(dict.fromkeys(numbers)), had)
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
    """Return the cores of each of so many nodes that are about to start on this machine; BadInput for too few cores."""
    cores.require(limits, nodes)
    dealt = _deal(limits, nodes, range(nodes), {})
    return [dealt[number] for number in range(nodes)]


def _deal(limits: Limits, size: int, numbers: Sequence[int | None], had: Mapping[int | None, tuple[int, ...]]) -> Dealt:
    """Deal this machine's cores, of which `size` nodes want their share."""
    dealt: Dealt = {}
    for number in sorted(number for number in numbers if number is not None):
        others = [core for other, cores_of_node in had.items() if other != number for core in cores_of_node]
        taken = [core for numbers_dealt in dealt.values() for core in numbers_dealt]
        dealt[number] = cores.deal(limits, size, (*others, *taken), had.get(number, ()))
    if None in numbers:
        used = {core for cores_of_node in (*had.values(), *dealt.values()) for core in cores_of_node}
        dealt[None] = cores.of_companions(limits, size, used)
    return dealt
