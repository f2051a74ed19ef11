"""Starting nodes: software, folders, ports, processes, and the wait until the cluster is complete. Stops nothing."""

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Any

import psutil

from loadframe import folders
from loadframe.cluster import artefacts, java
from loadframe.cluster.node import Node, log_of
from loadframe.cluster.spec import ClusterSpec
from loadframe.errors import BadInput, LoadframeError
from loadframe.host.base import Command, Host
from loadframe.host.limits import Limits
from loadframe.store import Installation, NodePlan, NodeSpec, Store
from loadframe.units import format_size

#: Seconds. Three nodes on two slow cores that others use as well need a minute; more than this is a failure.
_READY_WITHIN = 240.0
_POLL = 0.2
#: Bytes that a node's files take before it holds any data, with room for a first bit.
_ROOM_PER_NODE = 256 * 2**20

Report = Callable[[str], None]


@dataclass(frozen=True)
class Software:
    """What the nodes run."""

    store: Store
    version: str
    installation: Installation
    java_version: str
    user: int | None


def prepare(store: Store, spec: ClusterSpec, host: Host, report: Report) -> Software:
    """Return the software that the spec asks for, installed and within reach of the user that will run it."""
    _require_memory(spec)
    store.check_settings(spec.settings)
    distribution = store.distribution(spec.version or next(iter(store.versions), ""))
    user = host.server_user() if store.refuses_root else None
    runtime = java.find(distribution.java, user)
    home = artefacts.install(distribution, report)
    folders.require_reachable(home, user)
    return Software(store, distribution.version, Installation(home, runtime.home), runtime.version, user)


def start(spec: ClusterSpec, software: Software, host: Host, folder: Path, started: list[Node]) -> dict[str, Any]:
    """Start all nodes at once, below `folder`, and return the plan's facts for the manifest.

    Each goes into `started` at once, so that whoever catches an error here can stop those that run.
    """
    folders.make(folder)
    folders.require_reachable(folder, software.user)
    nodes = "1 node" if spec.nodes == 1 else f"{spec.nodes} nodes"
    folders.require_room(folder, spec.nodes * _ROOM_PER_NODE, f"starting {nodes}")
    ports = host.free_ports(spec.nodes, spec.port)
    peer_ports = [port for port in host.free_ports(2 * spec.nodes) if port not in ports][: spec.nodes]
    names = tuple(f"node-{index}" for index in range(spec.nodes))
    token = token_hex(4)
    facts: dict[str, Any] = {}
    for name, port, peer_port in zip(names, ports, peer_ports, strict=True):
        node = NodeSpec(
            cluster=f"loadframe-{spec.name or token}",
            name=name,
            address=host.address,
            port=port,
            peer_port=peer_port,
            folder=folder / name,
            peers=tuple(f"{host.address}:{each}" for each in peer_ports),
            founders=names,
            memory=spec.limits.memory,
            cpus=spec.limits.cpus,
            settings=spec.settings,
        )
        plan = software.store.plan(node, software.installation)
        facts = dict(plan.facts)
        _write(plan, node.folder, software.user)
        command = Command(
            name=f"loadframe-{token}-{name}",
            argv=plan.argv,
            environment=plan.environment,
            folder=node.folder,
            log=log_of(node.folder),
            user=software.user,
            scratch=() if spec.name else (node.folder,),
        )
        process = host.start(command, spec.limits)
        started.append(Node(name, f"{node.address}:{port}", f"{node.address}:{peer_port}", node.folder, process))
    return facts


def wait_until_ready(store: Store, nodes: Sequence[Node]) -> None:
    """Return when every node sees the whole cluster ready; LoadframeError with the log's end when one never does."""
    deadline = time.monotonic() + _READY_WITHIN
    waiting = list(nodes)
    while waiting:
        for node in nodes:
            if node.process and not node.process.alive():
                raise _not_up(node, f"ended with status {node.process.exit_status()} while it started")
        with contextlib.suppress(LoadframeError):
            health = store.health([waiting[0].address])
            if health.ready and health.nodes == len(nodes):
                del waiting[0]
                continue
        if time.monotonic() > deadline:
            raise _not_up(waiting[0], f"was not ready within {_READY_WITHIN:.0f} s")
        time.sleep(_POLL)


def limits_in_force(host: Host, limits: Limits, report: Report) -> tuple[str, str | None]:
    """Return how the limits are enforced and why they are not, having warned in that case."""
    how, reason = host.limited_by(limits)
    if reason:
        report(f"warning: nodes run without the limits asked for, which cannot be enforced here ({reason})")
    return how, reason


def _require_memory(spec: ClusterSpec) -> None:
    """BadInput for nodes that may use more memory than there is: the kernel would end one of them, or others."""
    asked, there = spec.nodes * (spec.limits.memory or 0), psutil.virtual_memory().total
    if asked > there:
        raise BadInput(
            f"{spec.nodes} nodes of {format_size(spec.limits.memory or 0)} are {format_size(asked)} of memory,"
            f" and this machine has {format_size(there)}",
            remedy="give the nodes less memory, or take fewer",
        )


def _not_up(node: Node, how: str) -> LoadframeError:
    indented = "\n".join(f"    {line}" for line in node.log_end().splitlines())
    return LoadframeError(
        f"{node.name} {how}; the end of its log:\n{indented}",
        remedy="correct the setting that it names, or give the node more memory; `loadframe doctor` tells what the "
        "machine lacks",
    )


def _write(plan: NodePlan, folder: Path, user: int | None) -> None:
    made = [folders.make(folder), *(folders.make(folder / name) for name in plan.folders)]
    for name, content in plan.files.items():
        target = folder / name
        made += [folders.make(target.parent), target]
        target.write_text(content)
        target.chmod(0o644)
    if user is not None:
        for path in made:
            os.chown(path, user, user)
