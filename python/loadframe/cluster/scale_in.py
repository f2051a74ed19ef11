"""Removal of nodes from a running cluster, and removal of voting rights.

Voting rights can be granted when a node starts (planned.electors). To remove them, other nodes must hold the vote
before the node stops, so it is done one node at a time, right after a restart of the cluster.
"""

import contextlib
import time
from collections.abc import Collection, Sequence
from dataclasses import replace

from loadframe.base.errors import BadInput, LoadframeError
from loadframe.base.units import format_nodes
from loadframe.cluster import launch
from loadframe.cluster.change import ClusterChange
from loadframe.cluster.events import LEAVING, LEFT, ClusterEvent
from loadframe.cluster.node import Node, State
from loadframe.cluster.planned import again
from loadframe.cluster.scale_out import balance
from loadframe.cluster.software import Software
from loadframe.host import files
from loadframe.store import Store

#: Seconds between telling clients that a node has left and stopping it. The load generator polls the members five times
#: a second; the rest is for outstanding responses on a busy machine.
_FAREWELL = 5.0


def shrink(change: ClusterChange, numbers: Sequence[int]) -> list[str]:
    """Remove data nodes one after the other, and return their names.

    BadInput, with nothing changed, if the store needs one of them, one has ended, or another running node is paused or
    cut off, so that it cannot take data. If a removal is interrupted before its data is moved, the node stays a member.
    """
    if len(numbers) >= len(change.roster.numbers):
        raise BadInput(
            f"cannot remove {len(numbers)} of {format_nodes(change.spec.nodes)}: one must remain",
            remedy="to stop the cluster, use `loadframe cluster down`",
        )
    for node in (node for number in numbers for node in change.roster.of(number)):
        change.require_awake(node, "so its data cannot be moved")
    for node in change.roster.nodes:
        if node.alive:
            change.require_awake(node, "so it cannot take its share of the data")
    names = [change.roster.of(number)[0].name for number in numbers]
    for number in numbers:
        _drain(change, number)
        depart(change, number)
    balance(change)
    return names


def _drain(change: ClusterChange, number: int) -> None:
    nodes = change.roster.of(number)
    member, before = nodes[0].member(nodes[1:]), nodes[0].state
    others = [node.address for node in change.roster.asked if node.number != number]
    patience = change.patience(f"moving the data of {member.name}", nodes)
    change.happened(LEAVING, [number])
    change.report(f"moving the data of {member.name} to the other nodes")
    change.mark(number, State.LEAVING)
    try:
        change.store.leave(others, member, patience)
    except BadInput:
        change.mark(number, before)
        raise
    except BaseException:
        with contextlib.suppress(LoadframeError):
            change.store.stay(others, member)
        change.mark(number, State.SETTLED)
        change.report(f"interrupted: {member.name} remains a member; {patience.last}")
        raise
    change.mark(number, State.LEFT)


def depart(change: ClusterChange, number: int) -> None:
    """Stop a node after its data has moved, and remove its folder."""
    nodes = change.roster.of(number)
    time.sleep(_FAREWELL)
    for node in nodes:
        if node.process:
            # Processes that share its limits continue under them.
            if not node.shares:
                node.process.throttle(False)
            node.process.stop()
    change.store.forget(change.addresses, nodes[0].member(nodes[1:]))
    change.roster.update(drop=[node.name for node in nodes], size=change.spec.nodes - 1)
    for node in nodes:
        if node.folder and node.machine:
            node.machine.call(files.remove, node.folder)
    change.emit(ClusterEvent(LEFT, tuple(node.name for node in nodes[:1])))


def settle(change: ClusterChange, software: Software) -> None:
    """Restart surplus voting nodes without a vote. Their data stays in place."""
    for node in _surplus(change.store, change.roster.nodes, change.spec.nodes):
        change.report(f"restarting {node.name} without its vote")
        change.store.resign(change.addresses, node.member())
        assert node.process
        node.process.throttle(False)
        node.process.stop()
        change.roster.edit([node], lambda node: replace(node, elects=False))
        launch.start(
            change.spec,
            software,
            change.host,
            change.folder,
            [again(node)],
            change.roster,
            founding=False,
            password=change.password,
        )
        running = [other for other in change.roster.nodes if other.alive]
        patience = change.patience(f"restarting {node.name}", running)
        change.store.reunite([other.member() for other in running], patience)
        launch.wait_until_ready(change.store, running, change.spec.nodes)
        change.store.stay(change.addresses, node.member())
        change.equip(node.name)


def _surplus(store: Store, nodes: Collection[Node], size: int) -> list[Node]:
    wanted = store.electors(size)
    elected = sorted((node for node in nodes if node.elects and node.number is not None), key=lambda node: node.name)
    return [] if wanted is None else elected[wanted:][::-1]
