"""Start a cluster's first nodes, and add nodes to a running cluster."""

import contextlib
from collections.abc import Sequence
from dataclasses import replace

from loadframe.base import folders
from loadframe.base.errors import LoadframeError
from loadframe.cluster import launch
from loadframe.cluster.change import ClusterChange
from loadframe.cluster.events import BALANCED, JOINED, REQUESTED, ClusterEvent
from loadframe.cluster.node import Node, State
from loadframe.cluster.planned import layout, layout_of
from loadframe.cluster.software import Software, prepare
from loadframe.host import files


def grow(change: ClusterChange, count: int) -> list[str]:
    """Add that many data-bearing nodes, and return their names when the data is balanced.

    BadInput, with nothing started, when a node does not run or the store cannot take one in.
    Whatever breaks it off, each node is then either a member, or stopped and no part of the cluster. The folder of one
    that never became a member stays until the cluster is deleted: its log tells why.
    """
    for node in change.roster.nodes:
        if node.alive or not change.store.joins_without_all:
            change.require_awake(node, "and a node that joins has to meet every other one")
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
                _settle(change, number)
            raise
    balance(change)
    return names


def join(change: ClusterChange, number: int) -> None:
    """Take a node that runs into the cluster."""
    nodes = change.roster.of(number)
    change.store.join(
        change.addresses, nodes[0].member(nodes[1:]), change.patience(f"taking {nodes[0].name} in", nodes)
    )
    _admit(change, number)


def balance(change: ClusterChange) -> None:
    """Have the data spread over all members; return when it is."""
    moving = [node for node in change.roster.nodes if node.state == State.BALANCING]
    patience = change.patience("balancing the data", moving)
    change.report("balancing the data")
    try:
        change.store.balance(change.addresses, patience)
    except BaseException:
        change.report(
            f"broken off while balancing the data: {', '.join(node.name for node in moving) or 'all nodes'} "
            f"stay members; {patience.last}"
        )
        raise
    if patience.warning:
        change.report(f"warning: {patience.warning}")
    change.roster.advance(moving, State.SETTLED)
    change.happened(BALANCED, sorted({node.number for node in moving if node.number is not None}))


def _admit(change: ClusterChange, number: int) -> None:
    """Count a node as a member: under its quota, for as long as the cluster, and written down."""
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


def _settle(change: ClusterChange, number: int) -> None:
    """After joining was broken off: let a node that is a member by now be one, and end any other."""
    nodes = change.roster.of(number)
    if not nodes:
        return
    if all(node.alive for node in nodes) and _is_member(change):
        _admit(change, number)
        change.report(f"broken off when {nodes[0].name} had joined: it stays a member, its data is not balanced")
        return
    _stop(nodes)
    with contextlib.suppress(LoadframeError):
        change.store.forget(change.addresses, nodes[0].member(nodes[1:]))
    change.roster.update(drop=[node.name for node in nodes])
    change.report(f"{nodes[0].name} is not a member of the cluster, which goes on with {change.spec.nodes}")


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
    """Return the first number behind all that are or were in use, as far as their folders tell."""
    number = max(change.roster.numbers, default=-1) + 1
    while any(
        machine.call(files.exists, machine.folder(change.folder) / process.spec.name)
        for process in layout_of(change.store, number, change.spec.settings)
        for machine in change.host.machines
    ):
        number += 1
    return number


def establish(change: ClusterChange, software: Software) -> None:
    """Start all its processes and have them form a cluster; return when it is ready.

    It is written down before anything runs, so that what a start that is cut off leaves is known to hold no data.
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
