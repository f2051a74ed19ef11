"""Which samplers look at a cluster: while load is on it, and while somebody watches it."""

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
    Sample,
    Sampler,
    StoreSampler,
    remote,
)


def samplers(cluster: Cluster) -> list[Sampler]:
    """Return those of its nodes, of this machine and those that nodes are on, and of what the store itself tells."""

    def here() -> Iterable[Node]:
        # Asked at each look: nodes come and go.
        return (node for node in cluster.nodes if node.machine is None or node.machine.here)

    return [
        ProcessSampler(
            lambda: {node.name: node.pid for node in here() if node.pid}, families=cluster.store.many_processes
        ),
        JvmSampler(lambda: {node.name: node.pid for node in here() if node.pid}),
        CgroupSampler(lambda: _groups(here())),
        HostSampler(),
        StoreSampler(cluster.statistics),
        *_remote_samplers(cluster),
    ]


def source_machine_lookup(cluster: Cluster) -> Callable[[str], str | None]:
    """Return what says which machine a source of telemetry is on; None of what is on no one machine."""
    known: dict[str, str] = {}

    def machine_of(source: str) -> str | None:
        kind, _, name = source.partition(":")
        if kind in ("cluster", "target", "source"):
            return None
        if kind == "machine":
            return name
        if kind != "node":
            return platform.node()
        if name not in known:
            # Nodes come and go; the last words of one may be about a node that has gone.
            known.update(
                {node.name: node.on or platform.node() for node in cluster.nodes if node.folder or node.machine}
            )
        return known.get(name)

    return machine_of


def _groups(nodes: Iterable[Node]) -> dict[str, Mapping[str, Path]]:
    """Return the control groups of each node; one that companions share is that of the node that keeps data."""
    return {
        node.name: node.control_groups for node in nodes if node.control_groups and not (node.companion and node.shares)
    }


def _remote_samplers(cluster: Cluster) -> list[Sampler]:
    """Return a sampler for each other machine that the cluster may have nodes on."""
    watch = token_hex(4)

    def wanted(hostname: str) -> remote.Wanted:
        nodes = [node for node in cluster.nodes if node.on == hostname and node.alive]
        return remote.Wanted(
            {node.name: node.pid for node in nodes if node.pid},
            _groups(nodes),
            cluster.store.many_processes,
        )

    def ask(machine: Machine, wanted: remote.Wanted) -> Iterable[Sample | Gap]:
        seen: Iterable[Sample | Gap] = machine.call_within(remote.PATIENCE, remote.look, watch, wanted)
        return seen

    return [
        remote.MachineSampler(machine.hostname, partial(wanted, machine.hostname), partial(ask, machine))
        for machine in cluster.machines
        if not machine.here
    ]
