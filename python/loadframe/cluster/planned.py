"""Processes of a cluster that will be started, and their plans."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import loadframe.store as stores
from loadframe.cluster.node import Node
from loadframe.cluster.spec import ClusterSpec
from loadframe.host.base import Machine
from loadframe.store import Installation, NodePlan, NodeSpec, ProcessSpec, Store


@dataclass(frozen=True)
class Planned:
    """Process that will be started. It continues with the data in its folder, if any."""

    spec: ProcessSpec
    number: int | None  #: number of its data node, or None for a companion


def again(node: Node) -> Planned:
    """Return the process of a node that will be restarted."""
    return Planned(ProcessSpec(node.name, node.role, node.serves, node.shares), node.number)


def layout_of(store: Store, number: int, settings: Mapping[str, Any]) -> list[Planned]:
    """Return the processes of a data node."""
    return [Planned(process, number) for process in store.node_processes(number, settings)]


def layout(store: Store, spec: ClusterSpec) -> list[Planned]:
    """Return the processes of a new cluster."""
    nodes = [process for number in range(spec.nodes) for process in layout_of(store, number, spec.settings)]
    return nodes + [Planned(process, None) for process in store.companions(spec.settings)]


def electors(store: Store, size: int, known: Sequence[Node], planned: Sequence[Planned]) -> tuple[str, ...] | None:
    """Return the names of the nodes that can be elected once `planned` runs, in a cluster of `size` nodes.

    None if all can. Nodes that can be elected already keep their vote, because it cannot be taken from stopped nodes.
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
    return stores.find(kind).plan(node, installation)
