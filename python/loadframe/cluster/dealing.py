"""Which cores each node of a cluster keeps to, on the machine that it is on."""

from collections.abc import Mapping, Sequence

from loadframe.cluster.node import Node
from loadframe.cluster.planned import Planned
from loadframe.cluster.spec import ClusterSpec
from loadframe.host import cores
from loadframe.host.base import Machine
from loadframe.host.limits import Limits

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
