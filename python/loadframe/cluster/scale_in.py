"""Remove nodes from a running cluster, and choose which nodes may vote.

A node's vote has to be with others before it is stopped, so this is done to nodes that run, one after the other, when a
cluster has just been started again. That a node may be elected it can be told whenever it starts; see planned.electors.
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

#: Seconds between telling clients that a node has left and stopping it. The load looks for changes five times a second;
#: the rest is for the answers to what it has sent by then, on a machine that is as busy as such machines are.
_FAREWELL = 5.0


def shrink(change: ClusterChange, numbers: Sequence[int]) -> list[str]:
    """Take these data-bearing nodes out, one after the other, and return their names.

    BadInput, with nothing changed, when the store cannot do without one of them, when one does not run, or when one of
    the others is paused or cut off: it could not take its share of the data. Broken off, a
    node whose data is not with the others yet goes on as a member.
    """
    if len(numbers) >= len(change.roster.numbers):
        raise BadInput(
            f"a cluster of {format_nodes(change.spec.nodes)} cannot lose {len(numbers)}",
            remedy="to stop it, use `loadframe cluster down`",
        )
    for node in (node for number in numbers for node in change.roster.of(number)):
        change.require_awake(node, "and nobody can have its data from it")
    for node in change.roster.nodes:
        if node.alive:
            change.require_awake(node, "and cannot take its share of the data")
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
    change.report(f"moving the data of {member.name} to the others")
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
        change.report(f"broken off: {member.name} stays a member; {patience.last}")
        raise
    change.mark(number, State.LEFT)


def depart(change: ClusterChange, number: int) -> None:
    """Stop a node that holds no data any more, and remove its folder, which is loadframe's own and empty of data."""
    nodes = change.roster.of(number)
    time.sleep(_FAREWELL)
    for node in nodes:
        if node.process:
            # What it shares its limits with goes on under them.
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
    """Restart those that are too many as nodes that nobody elects: their data stays where it is."""
    for node in _surplus(change.store, change.roster.nodes, change.spec.nodes):
        change.report(f"restarting {node.name}, which is not to be elected any more")
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
