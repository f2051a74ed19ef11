"""First nodes of a cluster, addition and removal of nodes, and recovery of ended nodes and interrupted changes.

Voting rights can be granted when a node starts (placement.electors). To remove them, other nodes must hold the vote
before the node stops, so it is done one node at a time, right after a restart of the cluster.

`number` identifies a data node, which has one or several processes.
"""

import contextlib
import time
from collections.abc import Collection, Sequence
from dataclasses import replace

from loadframe.base import folders
from loadframe.base.errors import BadInput, LoadframeError
from loadframe.base.event_kinds import BALANCED, JOINED, LEAVING, LEFT, REQUESTED, RESTARTED
from loadframe.base.units import format_nodes
from loadframe.cluster import launch, moving
from loadframe.cluster.change import ClusterChange
from loadframe.cluster.events import ClusterEvent
from loadframe.cluster.node import Node, State
from loadframe.cluster.placement import again, layout, layout_of
from loadframe.cluster.software import Software, prepare
from loadframe.host import files
from loadframe.store import Store


def grow(change: ClusterChange, count: int) -> list[str]:
    """Add `count` data nodes, one after the other, and return their names once the data is balanced.

    BadInput, with nothing started, if a node is paused or cut off, or has ended and the store needs it for this, or the
    store cannot add one. After an interruption, each new node is either a member, or stopped and not part of the
    cluster. The folder of a failed node stays, for its log, until the cluster is deleted. Emits events.
    """
    for node in change.node_table.nodes:
        if node.alive or not change.store.joins_without_all:
            change.require_awake(node, "but a joining node must reach all nodes")
    change.store.require_growing(change.addresses)
    software = prepare(change.store, replace(change.spec, nodes=change.spec.nodes + count), change.host, change.report)
    first = _next_number(change)
    numbers = list(range(first, first + count))
    planned = {number: layout_of(change.store, number, change.spec.settings) for number in numbers}
    names = [planned[number][0].spec.name for number in numbers]
    size = len(change.node_table.numbers) + count
    change.emit(ClusterEvent(REQUESTED, tuple(names)))
    for number in numbers:
        change.report(f"starting {planned[number][0].spec.name}")
        members = change.spec.nodes
        try:
            launch.start(
                change.starting,
                software,
                change.host,
                change.folder,
                planned[number],
                change.node_table,
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
    """Make a running node a member of the cluster, record it as such, and emit an event; raise errors of the store.

    Applies the settings that were changed at run time, before clients learn of the node.
    """
    nodes = change.node_table.of(number)
    change.store.join(change.addresses, nodes[0].member(nodes[1:]), change.patience(f"adding {nodes[0].name}", nodes))
    change.note_started()
    change.configure(nodes)
    _admit(change, number)


def balance(change: ClusterChange) -> None:
    """Distribute the data over all members, wait until that is complete, and mark new members as settled.

    Emits an event with the new members. An error, or an interrupt, is reported and raised; the new members remain.
    """
    moving = [node for node in change.node_table.nodes if node.state == State.BALANCING]
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
    change.node_table.advance(moving, State.SETTLED)
    change.happened(BALANCED, sorted({node.number for node in moving if node.number is not None}))


def _admit(change: ClusterChange, number: int) -> None:
    """Record a node as a member, apply CPU quota and lifetime of the cluster to it, and emit the event.

    The target size grows by one.
    """
    nodes = change.node_table.of(number)
    for node in nodes:
        assert node.process
        if change.throttled:
            node.process.throttle(True)
        if change.kept:
            node.process.keep()
    size = change.spec.nodes + 1
    change.node_table.advance(nodes, State.BALANCING, size)
    change.happened(JOINED, [number])


def _resolve_join(change: ClusterChange, number: int) -> None:
    """After an interrupted join: record the node if it runs and is a member, else stop and drop it; report that."""
    nodes = change.node_table.of(number)
    if not nodes:
        return
    if all(node.alive for node in nodes) and _is_member(change):
        change.note_started()
        _admit(change, number)
        change.report(f"interrupted after {nodes[0].name} joined: it remains a member, but the data is not balanced")
        return
    _stop(nodes)
    with contextlib.suppress(LoadframeError):
        change.store.forget(change.addresses, nodes[0].member(nodes[1:]))
    change.node_table.update(drop=[node.name for node in nodes])
    change.report(f"{nodes[0].name} did not join; the cluster continues with {format_nodes(change.spec.nodes)}")


def _is_member(change: ClusterChange) -> bool:
    """Whether the store counts more nodes than the recorded size; False if it does not answer."""
    try:
        return change.store.health(change.addresses).nodes > change.spec.nodes
    except LoadframeError:
        return False


def _stop(nodes: Sequence[Node]) -> None:
    """Stop the processes of nodes, and wait for their end."""
    for node in nodes:
        if node.process:
            node.process.stop()


def _next_number(change: ClusterChange) -> int:
    """Return the first unused number above all current ones; numbers with a folder on a machine count as used."""
    number = max(change.node_table.numbers, default=-1) + 1
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
    change.node_table.write()
    planned = layout(change.store, change.spec)
    launch.start(
        change.spec,
        software,
        change.host,
        change.folder,
        planned,
        change.node_table,
        founding=True,
        password=change.password,
    )
    nodes = change.node_table.nodes
    change.store.form(
        [node.member() for node in nodes], change.spec.settings, change.patience("forming the cluster", nodes)
    )
    launch.wait_until_ready(change.store, nodes, change.spec.nodes)
    change.node_table.formed = True
    change.node_table.write()


#: Seconds between telling clients that a node has left and stopping it. The load generator polls the members five times
#: a second; the rest is for outstanding responses on a busy machine.
_FAREWELL = 5.0


def shrink(change: ClusterChange, numbers: Sequence[int]) -> list[str]:
    """Remove data nodes one after the other, wait until the data is balanced, and return their names.

    BadInput, with nothing changed, if none would remain, one to remove has ended, or a running node is paused or cut
    off. BadInput also if the store needs one of them; those before it are removed then. If a removal is interrupted
    before its data is moved, the node stays a member. Emits events.
    """
    if len(numbers) >= len(change.node_table.numbers):
        raise BadInput(
            f"cannot remove {len(numbers)} of {format_nodes(change.spec.nodes)}: one must remain",
            remedy="to stop the cluster, use `loadframe cluster down`",
        )
    for node in (node for number in numbers for node in change.node_table.of(number)):
        change.require_awake(node, "so its data cannot be moved")
    for node in change.node_table.nodes:
        if node.alive:
            change.require_awake(node, "so it cannot take its share of the data")
    names = [change.node_table.of(number)[0].name for number in numbers]
    for number in numbers:
        _drain(change, number)
        depart(change, number)
    balance(change)
    return names


def _drain(change: ClusterChange, number: int) -> None:
    """Emit an event, move a node's data to the others, and mark it as LEFT; its process still runs.

    If the store refuses, restore the node's state. After any other error, including an interrupt, ask the store to keep
    the node, and mark it as SETTLED. The error is raised.
    """
    nodes = change.node_table.of(number)
    member, before = nodes[0].member(nodes[1:]), nodes[0].state
    others = [node.address for node in change.node_table.asked if node.number != number]
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
    """Give clients 5 s to leave a node without data, stop it, and remove it from the store, the record and the disk.

    Lifts its quota first, so that it stops quickly, and emits an event. The target size decreases by one.
    """
    nodes = change.node_table.of(number)
    time.sleep(_FAREWELL)
    for node in nodes:
        if node.process:
            # Processes that share its limits continue under them.
            if not node.shares:
                node.process.throttle(False)
            node.process.stop()
    change.store.forget(change.addresses, nodes[0].member(nodes[1:]))
    change.node_table.update(drop=[node.name for node in nodes], size=change.spec.nodes - 1)
    for node in nodes:
        if node.folder and node.machine:
            node.machine.call(files.remove, node.folder)
    change.emit(ClusterEvent(LEFT, tuple(node.name for node in nodes[:1])))


def settle(change: ClusterChange, software: Software) -> None:
    """Restart surplus voting nodes without a vote, one after the other; wait until each is ready. Their data stays."""
    for node in _surplus(change.store, change.node_table.nodes, change.spec.nodes):
        change.report(f"restarting {node.name} without its vote")
        change.store.resign(change.addresses, node.member())
        assert node.process
        node.process.throttle(False)
        node.process.stop()
        change.node_table.edit([node], lambda node: replace(node, elects=False))
        launch.start(
            change.starting,
            software,
            change.host,
            change.folder,
            [again(node)],
            change.node_table,
            founding=False,
            password=change.password,
        )
        running = [other for other in change.node_table.nodes if other.alive]
        patience = change.patience(f"restarting {node.name}", running)
        change.store.reunite([other.member() for other in running], patience)
        launch.wait_until_ready(change.store, running, change.spec.nodes)
        change.store.stay(change.addresses, node.member())
        change.equip(node.name)


def _surplus(store: Store, nodes: Collection[Node], size: int) -> list[Node]:
    """Return the data nodes with a vote beyond the number that a cluster of `size` nodes needs, newest first.

    Empty for a store in which all nodes vote.
    """
    wanted = store.electors(size)
    elected = [(node.number, node) for node in nodes if node.elects and node.number is not None]
    ordered = [node for _, node in sorted(elected, key=lambda pair: (pair[0], pair[1].name))]
    return [] if wanted is None else ordered[wanted:][::-1]


def needed(change: ClusterChange) -> bool:
    """Whether a node has ended, killed or not, is in a transition, or may lack settings."""
    return bool(change.lacking) or any(
        not node.alive or node.state not in (State.SETTLED, State.KILLED) for node in change.node_table.nodes
    )


def mend(change: ClusterChange, software: Software, size: int | None = None) -> None:
    """Restart all ended nodes with their data, finish interrupted changes, and wait until the data is balanced.

    `size` is the number of nodes that the cluster will have, for the choice of voting nodes; by default the spec's.
    Restarts only; does not grow or shrink to it. BadInput if a node's folder is missing.
    """
    gone = [node for node in change.node_table.nodes if not node.alive and node.state != State.LEFT]
    for node in gone:
        moving.require_there(node)
    if gone:
        change.note_started()
    for state in sorted({node.state for node in gone}):
        planned = [again(node) for node in gone if node.state == state]
        launch.start(
            change.starting,
            software,
            change.host,
            change.folder,
            planned,
            change.node_table,
            founding=False,
            password=change.password,
            state=State.SETTLED if state == State.KILLED else state,
            size=size,
        )
    unsure = [number for number in change.node_table.numbers if _state(change, number) in (State.JOINING, State.LEFT)]
    members_known = [node for node in change.node_table.nodes if node.number not in unsure]
    members = len(change.node_table.numbers) - len(unsure)
    if gone:
        running = [node for node in change.node_table.nodes if node.alive]
        change.store.reunite([node.member() for node in running], change.patience("rejoining the nodes", running))
    launch.wait_until_ready(change.store, members_known, members, more=len(unsure))
    for node in gone:
        change.equip(node.name)
    if gone or change.lacking:
        change.configure()
    if gone:
        change.emit(ClusterEvent(RESTARTED, tuple(node.name for node in gone)))
    for number in change.node_table.numbers:
        _finish(change, number)
    if any(node.state == State.BALANCING for node in change.node_table.nodes):
        balance(change)


def _state(change: ClusterChange, number: int) -> State:
    """Return the recorded state of data node `number`."""
    return change.node_table.of(number)[0].state


def _finish(change: ClusterChange, number: int) -> None:
    """Complete an interrupted change of a node: finish its join or its departure, or cancel a move of its data.

    Does nothing in other states.
    """
    nodes = change.node_table.of(number)
    match nodes[0].state:
        case State.JOINING:
            join(change, number)
        case State.LEFT:
            depart(change, number)
        case State.LEAVING:
            change.store.stay(change.addresses, nodes[0].member(nodes[1:]))
            change.node_table.advance(nodes, State.SETTLED)
