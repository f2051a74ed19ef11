"""Start of a cluster's first nodes, and addition of nodes to a running cluster."""

import contextlib
from collections.abc import Sequence
from dataclasses import replace

from loadframe.base import folders
from loadframe.base.errors import LoadframeError
from loadframe.base.units import format_nodes
from loadframe.cluster import launch
from loadframe.cluster.change import ClusterChange
from loadframe.cluster.events import BALANCED, JOINED, REQUESTED, ClusterEvent
from loadframe.cluster.node import Node, State
from loadframe.cluster.planned import layout, layout_of
from loadframe.cluster.software import Software, prepare
from loadframe.host import files


def grow(change: ClusterChange, count: int) -> list[str]:
    """Add data nodes and return their names once the data is balanced.

    BadInput, with nothing started, if a node has ended or the store cannot add one. After an interruption, each new
    node is either a member, or stopped and not part of the cluster. The folder of a failed node stays, for its log,
    until the cluster is deleted.
    """
    for node in change.roster.nodes:
        if node.alive or not change.store.joins_without_all:
            change.require_awake(node, "but a joining node must reach all nodes")
    change.store.require_growing(change.addresses)
    software = prepare(change.store, replace(change.spec, nodes=change.spec.nodes + count), change.host, change.report)
    first = _next_number(change)
    numbers = list(range(first, first + count))
    planned = {number: layout_of(change.store, number, change.spec.settings) for number in numbers}
    names = [planned[number][0].spec.name for number in numbers]
    size = len(change.roster.numbers) + count
    change.emit(ClusterEvent(REQUESTED, tuple(names)))
    for number in numbers:
        change.report(f"starting {planned[number][0].spec.name}")
        members = change.spec.nodes
        try:
            launch.start(
                change.spec,
                software,
                change.host,
                change.folder,
                planned[number],
                change.roster,
                founding=False,
                password=change.password,
                state=State.JOINING,
                size=size,
            )
            join(change, number)
        except BaseException:
            if change.spec.nodes == members:
                _resolve_join(change, number)
            raise
    balance(change)
    return names


def join(change: ClusterChange, number: int) -> None:
    """Make a running node a member of the cluster."""
    nodes = change.roster.of(number)
    change.store.join(change.addresses, nodes[0].member(nodes[1:]), change.patience(f"adding {nodes[0].name}", nodes))
    _admit(change, number)


def balance(change: ClusterChange) -> None:
    """Distribute the data over all members, and wait until that is complete."""
    moving = [node for node in change.roster.nodes if node.state == State.BALANCING]
    patience = change.patience("balancing the data", moving)
    change.report("balancing the data")
    try:
        change.store.balance(change.addresses, patience)
    except BaseException:
        change.report(
            f"interrupted while balancing the data: {', '.join(node.name for node in moving) or 'all nodes'} "
            f"remain members; {patience.last}"
        )
        raise
    if patience.warning:
        change.report(f"warning: {patience.warning}")
    change.roster.advance(moving, State.SETTLED)
    change.happened(BALANCED, sorted({node.number for node in moving if node.number is not None}))


def _admit(change: ClusterChange, number: int) -> None:
    """Record a node as a member, with its quota and the cluster's lifetime."""
    nodes = change.roster.of(number)
    for node in nodes:
        assert node.process
        if change.throttled:
            node.process.throttle(True)
        if change.kept:
            node.process.keep()
    size = change.spec.nodes + 1
    change.roster.advance(nodes, State.BALANCING, size)
    change.happened(JOINED, [number])


def _resolve_join(change: ClusterChange, number: int) -> None:
    """After an interrupted join: keep the node if it is a member, else stop and drop it."""
    nodes = change.roster.of(number)
    if not nodes:
        return
    if all(node.alive for node in nodes) and _is_member(change):
        _admit(change, number)
        change.report(f"interrupted after {nodes[0].name} joined: it remains a member, but the data is not balanced")
        return
    _stop(nodes)
    with contextlib.suppress(LoadframeError):
        change.store.forget(change.addresses, nodes[0].member(nodes[1:]))
    change.roster.update(drop=[node.name for node in nodes])
    change.report(f"{nodes[0].name} did not join; the cluster continues with {format_nodes(change.spec.nodes)}")


def _is_member(change: ClusterChange) -> bool:
    try:
        return change.store.health(change.addresses).nodes > change.spec.nodes
    except LoadframeError:
        return False


def _stop(nodes: Sequence[Node]) -> None:
    for node in nodes:
        if node.process:
            node.process.stop()


def _next_number(change: ClusterChange) -> int:
    """Return the first unused number above all current ones; old folders on the machines count as used."""
    number = max(change.roster.numbers, default=-1) + 1
    while any(
        machine.call(files.exists, machine.folder(change.folder) / process.spec.name)
        for process in layout_of(change.store, number, change.spec.settings)
        for machine in change.host.machines
    ):
        number += 1
    return number


def establish(change: ClusterChange, software: Software) -> None:
    """Start the processes of a new cluster, form it, and wait until it is ready.

    The record is written first, marked as not formed, so that the remains of an interrupted start can be deleted
    safely.
    """
    folders.make(change.folder)
    change.roster.write()
    planned = layout(change.store, change.spec)
    launch.start(
        change.spec,
        software,
        change.host,
        change.folder,
        planned,
        change.roster,
        founding=True,
        password=change.password,
    )
    nodes = change.roster.nodes
    change.store.form(
        [node.member() for node in nodes], change.spec.settings, change.patience("forming the cluster", nodes)
    )
    launch.wait_until_ready(change.store, nodes, change.spec.nodes)
    change.roster.formed = True
    change.roster.write()
