"""What a cluster was asked to be, for manifests, and in which ways it is not that."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from loadframe.cluster.node import Node, State
from loadframe.cluster.roster import Roster
from loadframe.host.limits import PERIOD, Limits
from loadframe.store import Health
from loadframe.units import counted, format_nodes


def describe(roster: Roster) -> dict[str, Any]:
    """Return what is known of the way in which it was started. Sizes in bytes, the period in seconds."""
    spec, facts = roster.spec, roster.facts
    limits = spec.limits if spec else Limits()
    return {
        "version": facts.get("version"),
        "origin": facts.get("origin", "embedded") if spec else "attached",
        "name": spec.name if spec else None,
        "image": spec.image if spec else None,
        "home": spec.home if spec else None,
        "host": spec.host if spec else None,
        "cores": {node.name: node.cores for node in roster.nodes if node.cores},
        **({"companions": beside} if (beside := companions(roster)) else {}),
        **({"shared": shared} if (shared := sharing(roster.nodes)) else {}),
        "links": {node.name: node.shape for node in roster.nodes if node.shape},
        "limits": {
            "cpus": limits.cpus,
            "memory": limits.memory,
            "cores": limits.cores,
            "cores_each": limits.cores_each,
            "disk": dataclasses.asdict(limits.disk) if limits.disk else None,
            "enforced_by": facts.get("limited_by", "none"),
            "obstacle": facts.get("limits_missing"),
            "period": PERIOD if limits.cpus is not None else None,
        },
        "java": facts.get("java"),
        "heap": facts.get("heap"),
        "jvm_options": facts.get("jvm_options"),
        "settings": dict(spec.settings) if spec else {},
        "encryption": spec.encryption.value if spec else None,
        **({"racks": list(spec.racks)} if spec and spec.racks else {}),
        "adapted": dict(facts.get("adapted", {})),
        **_placed(roster),
    }


def companions(roster: Roster) -> dict[str, str]:
    """Return the processes that keep no data, and what each is for."""
    return {node.name: node.role for node in roster.nodes if node.companion}


def sharing(nodes: Sequence[Node]) -> dict[str, str]:
    """Return the companions that share the limits of a node that keeps data, with the name of that node."""
    keepers = {node.shares: node.name for node in nodes if node.shares and node.number is not None}
    return {node.name: keepers[node.shares] for node in nodes if node.companion and node.shares in keepers}


def _placed(roster: Roster) -> dict[str, Any]:
    """Return which other machines have which nodes, and what these machines are; nothing where all are on this one."""
    if roster.spec is None:
        return {}
    machines = [machine for machine in roster.spec.place().machines if not machine.here]
    if not machines:
        return {}
    told = [
        {
            "name": machine.hostname,
            "nodes": [node.name for node in roster.nodes if node.on == machine.hostname],
            "address": machine.address,
            "cpu": machine.facts.cpu,
            "threads": len(machine.facts.cores),
            "memory": machine.facts.memory,
            "kernel": machine.facts.kernel,
        }
        for machine in machines
    ]
    return {
        "machines": told,
        "placement": dataclasses.asdict(roster.spec.placement),
        "scratch": roster.spec.scratch,
    }


def deviations(roster: Roster, throttled: bool) -> list[str]:
    """Return how the processes differ from what was asked for, one sentence each."""
    sentences = []
    for node in roster.nodes:
        if unknown := node.unknown:
            sentences.append(unknown)
        elif not node.alive:
            sentences.append(_gone(node))
        elif node.paused:
            sentences.append(f"{node.name} is paused")
        elif node.cut:
            sentences.append(f"{node.name} is cut off from the others")
        elif node.state not in (State.SETTLED, State.KILLED):
            sentences.append(f"{node.name} is {node.state}")
    if roster.facts.get("limits_missing"):
        sentences.append(f"the limits asked for are not in force ({roster.facts['limits_missing']})")
    elif roster.spec and not throttled:
        limits = roster.spec.limits
        sentences += ["the CPU quota is lifted"] if limits.cpus is not None else []
        sentences += ["the limits of the disk are lifted"] if limits.disk else []
    return sentences


def losses(roster: Roster) -> list[str]:
    """Return which nodes ended although nobody ended them, one sentence each, as in `deviations`."""
    known = [node for node in roster.nodes if not node.unknown]
    return [_gone(node) for node in known if not node.alive and node.state != State.KILLED]


def miscounted(health: Health, size: int) -> list[str]:
    """Return how the store's own number of nodes differs from that size, if it does."""
    return [] if health.nodes == size else [f"the cluster has {format_nodes(health.nodes)}, not {size}"]


def incomplete(health: Health, size: int) -> list[str]:
    """Return how the data differ from every copy in service, as far as so many nodes can hold them."""
    # What was declared and cannot be is as it was declared: a replica beside its primary on the only node.
    as_declared = health.declared and health.missing <= health.unheld(size)
    if not health.ready and not as_declared:
        missing = f", with {counted(health.missing, *health.piece)} not in service" if health.missing else ""
        return [f"the cluster is {health.status}{missing}"]
    return []


def unready(health: Health, size: int) -> list[str]:
    """Return how the data differ from every copy in service, as far as so many nodes can hold them, and at rest."""
    sentences = incomplete(health, size)
    if health.moving:
        sentences.append(f"{health.moving} pieces of data are on the move between nodes")
    return sentences


def _gone(node: Node) -> str:
    return f"{node.name} is gone{_cause(node)}"


def _cause(node: Node) -> str:
    """Return what is known of a node's end, to follow `is gone`."""
    if node.state == State.KILLED:
        return ", killed on purpose"
    status = node.process.exit_status() if node.process else None
    # 137 is 128 + SIGKILL, which is what the kernel sends to a process over its memory limit.
    return {None: "", 137: ", killed, as for too little memory"}.get(status, f", with status {status}")
