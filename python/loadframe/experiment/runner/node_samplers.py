"""Samplers for the nodes and machines of a cluster."""

import platform
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from secrets import token_hex

from loadframe.cluster import Cluster, Machine
from loadframe.cluster.node import Node
from loadframe.observe import (
    CgroupSampler,
    Gap,
    HostSampler,
    JvmSampler,
    ProcessSampler,
    ProgramSampler,
    Sample,
    Sampler,
    StoreSampler,
)
from loadframe.observe.machine import PATIENCE, MachineSampler, SampleTargets, look


def samplers(cluster: Cluster) -> list[Sampler]:
    """Return samplers for the present and later nodes, their machines, this machine, and store statistics."""
    pids = _pids_here(cluster)
    return [
        JvmSampler(pids),
        CgroupSampler(lambda: _groups(_here(cluster))),
        HostSampler(),
        ProgramSampler(pids),
        StoreSampler(cluster.statistics),
        *process_samplers(cluster),
    ]


def process_samplers(cluster: Cluster) -> list[Sampler]:
    """Return samplers for the processes of the present and later nodes; those of remote machines sample more."""
    return [ProcessSampler(_pids_here(cluster), families=cluster.store.many_processes), *_remote_samplers(cluster)]


def _here(cluster: Cluster) -> list[Node]:
    """Return the nodes on this machine now; nodes without a machine count as here."""
    return [node for node in cluster.nodes if node.machine is None or node.machine.here]


def _pids_here(cluster: Cluster) -> Callable[[], dict[str, int]]:
    """Return a function for the process ids, by node name, of the nodes on this machine; nodes join and leave."""
    return lambda: {node.name: node.pid for node in _here(cluster) if node.pid}


def source_machine_lookup(cluster: Cluster) -> Callable[[str], str | None]:
    """Return a function from a telemetry source to its machine's name.

    It returns None for `cluster:`, `target:` and `source:`, and for nodes whose machine is unknown. A source that is
    neither `node:NAME` nor `machine:NAME` is on this machine. Nodes that have left stay known.
    """
    known: dict[str, str] = {}

    def machine_of(source: str) -> str | None:
        """Return the machine's name for a source such as `node:node-0`, or None if unknown or several machines."""
        kind, _, name = source.partition(":")
        if kind in ("cluster", "target", "source"):
            return None
        if kind == "machine":
            return name
        if kind != "node":
            return platform.node()
        if name not in known:
            # Kept after a node has left, because its last samples may arrive later.
            known.update(
                {node.name: node.on or platform.node() for node in cluster.nodes if node.folder or node.machine}
            )
        return known.get(name)

    return machine_of


def _groups(nodes: Iterable[Node]) -> dict[str, Mapping[str, Path]]:
    """Return the folders of the nodes' control groups, by node name, then controller.

    A group that a companion shares belongs to the data node.
    """
    return {
        node.name: node.control_groups for node in nodes if node.control_groups and not (node.companion and node.shares)
    }


def _remote_samplers(cluster: Cluster) -> list[Sampler]:
    """Return a sampler for each remote machine of the cluster."""
    watch = token_hex(4)

    def wanted(hostname: str) -> SampleTargets:
        """Return the processes and control groups of live nodes to sample on a machine, now."""
        nodes = [node for node in cluster.nodes if node.on == hostname and node.alive]
        return SampleTargets(
            {node.name: node.pid for node in nodes if node.pid},
            _groups(nodes),
            cluster.store.many_processes,
        )

    def ask(machine: Machine, wanted: SampleTargets) -> Iterable[Sample | Gap]:
        """Return samples and gaps from a machine; MachineLost if it is silent."""
        seen: Iterable[Sample | Gap] = machine.call_within(PATIENCE, look, watch, wanted)
        return seen

    return [
        MachineSampler(machine.hostname, partial(wanted, machine.hostname), partial(ask, machine))
        for machine in cluster.machines
        if not machine.here
    ]
