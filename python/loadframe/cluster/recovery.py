"""Recovery: restart ended nodes and finish interrupted changes according to the record."""

from loadframe.cluster import launch, moving
from loadframe.cluster.change import ClusterChange
from loadframe.cluster.events import RESTARTED, ClusterEvent
from loadframe.cluster.node import State
from loadframe.cluster.planned import again
from loadframe.cluster.scale_in import depart
from loadframe.cluster.scale_out import balance, join
from loadframe.cluster.software import Software


def needed(change: ClusterChange) -> bool:
    """Whether a node has ended or is in a transition."""
    return any(not node.alive or node.state not in (State.SETTLED, State.KILLED) for node in change.roster.nodes)


def mend(change: ClusterChange, software: Software, size: int | None = None) -> None:
    """Restart all ended nodes with their data, and wait until the cluster is complete and balanced.

    `size` is its number of nodes after that, by default the current number.
    """
    gone = [node for node in change.roster.nodes if not node.alive and node.state != State.LEFT]
    for node in gone:
        moving.require_there(node)
    for state in sorted({node.state for node in gone}):
        planned = [again(node) for node in gone if node.state == state]
        launch.start(
            change.spec,
            software,
            change.host,
            change.folder,
            planned,
            change.roster,
            founding=False,
            password=change.password,
            state=State.SETTLED if state == State.KILLED else state,
            size=size,
        )
    unsure = [number for number in change.roster.numbers if _state(change, number) in (State.JOINING, State.LEFT)]
    members_known = [node for node in change.roster.nodes if node.number not in unsure]
    members = len(change.roster.numbers) - len(unsure)
    if gone:
        running = [node for node in change.roster.nodes if node.alive]
        change.store.reunite([node.member() for node in running], change.patience("rejoining the nodes", running))
    launch.wait_until_ready(change.store, members_known, members, more=len(unsure))
    for node in gone:
        change.equip(node.name)
    if gone:
        change.emit(ClusterEvent(RESTARTED, tuple(node.name for node in gone)))
    for number in change.roster.numbers:
        _finish(change, number)
    if any(node.state == State.BALANCING for node in change.roster.nodes):
        balance(change)


def _state(change: ClusterChange, number: int) -> State:
    return change.roster.of(number)[0].state


def _finish(change: ClusterChange, number: int) -> None:
    nodes = change.roster.of(number)
    match nodes[0].state:
        case State.JOINING:
            join(change, number)
        case State.LEFT:
            depart(change, number)
        case State.LEAVING:
            change.store.stay(change.addresses, nodes[0].member(nodes[1:]))
            change.roster.advance(nodes, State.SETTLED)
