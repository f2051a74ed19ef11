"""The processes that a cluster consists of, before they run, and their plans."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import loadframe.store as stores
from loadframe.cluster.spec import ClusterSpec
from loadframe.host.base import Machine
from loadframe.store import Installation, NodePlan, NodeSpec, ProcessSpec, Store


@dataclass(frozen=True)
class Planned:
    """A process to start. Where the folder of its name holds data, it goes on with that."""

    spec: ProcessSpec
    number: int | None  #: of the data-bearing node that it belongs to


def layout_of(store: Store, number: int, settings: Mapping[str, Any]) -> list[Planned]:
    """Return the processes of the data-bearing node of that number."""
    return [Planned(process, number) for process in store.node_processes(number, settings)]


def layout(store: Store, spec: ClusterSpec) -> list[Planned]:
    """Return the processes of a new cluster."""
    nodes = [process for number in range(spec.nodes) for process in layout_of(store, number, spec.settings)]
    return nodes + [Planned(process, None) for process in store.companions(spec.settings)]


def plan(machine: Machine, store: Store, node: NodeSpec, installation: Installation) -> NodePlan:
    """Return a node's plan, made on its machine, since stores look at what that allows and at the node's folder."""
    if machine.here:
        return store.plan(node, installation)
    return machine.call(_plan, store.kind, node, installation)


def _plan(kind: str, node: NodeSpec, installation: Installation) -> NodePlan:
    return stores.find(kind).plan(node, installation)
