"""What every change of a running cluster needs: its parts, its patience, and how its end is told."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from loadframe.base.errors import BadInput
from loadframe.cluster.change_watch import Patience, Tell
from loadframe.cluster.events import ClusterEvent, Listener
from loadframe.cluster.node import Node, State
from loadframe.cluster.node_table import Roster
from loadframe.cluster.spec import ClusterSpec
from loadframe.host.base import Host
from loadframe.store import Store

Report = Callable[[str], None]


@dataclass(frozen=True)
class ClusterChange:
    """One change of one cluster, from its beginning to its end."""

    store: Store
    host: Host
    roster: Roster
    folder: Path
    report: Report  #: told in words what begins, and in which state an interrupted change leaves the cluster
    emit: Listener
    within: float  #: s that each step may take
    tell: Tell | None  #: told about once a second how far the data has come
    throttled: bool  #: whether the CPU quota is in force, for those that come
    kept: bool  #: whether the cluster outlives this process, and so those that come do
    password: str = field(repr=False)  #: of the store's administrator; empty if the store has none

    @property
    def spec(self) -> ClusterSpec:
        """What the cluster is to be like, by now."""
        assert self.roster.spec
        return self.roster.spec

    @property
    def addresses(self) -> list[str]:
        """Where to ask the members."""
        return [node.address for node in self.roster.asked]

    def patience(self, what: str, concerned: Sequence[Node]) -> Patience:
        """Wait for something: the nodes that it concerns must live, and so must each other one that does now."""
        others = [node for node in self.roster.nodes if node.alive and node not in concerned]
        return Patience(what, [*concerned, *others], self.within, self.tell)

    def happened(self, kind: str, numbers: Sequence[int]) -> None:
        """Tell of nodes by the names of their first processes, and of their machines where those are others."""
        nodes = [self.roster.of(number)[0] for number in numbers]
        machines = dict.fromkeys(node.machine.hostname for node in nodes if node.machine and not node.machine.here)
        detail = {"machines": ", ".join(machines)} if machines else {}
        self.emit(ClusterEvent(kind, tuple(node.name for node in nodes), detail))

    def require_awake(self, node: Node, consequence: str) -> None:
        """BadInput if a node is gone, paused or cut off; `consequence` says why it is needed."""
        name = self.spec.name or "NAME"
        if not node.alive:
            how, remedy = "gone", f"start it again with `loadframe cluster up {name}`"
        elif node.paused:
            how, remedy = "paused", f"let it go on with `loadframe cluster resume {name} {node.name}`"
        elif node.cut:
            how, remedy = "cut off", f"undo that with `loadframe cluster link {name} {node.name} --restore`"
        else:
            return
        raise BadInput(f"{node.name} is {how}, {consequence}", remedy=f"{remedy}, and try again")

    def equip(self, name: str) -> None:
        """Give a node that was started its quota, and the cluster's length of life."""
        process = next(node.process for node in self.roster.nodes if node.name == name)
        assert process
        if self.throttled:
            process.throttle(True)
        if self.kept:
            process.keep()

    def mark(self, number: int, state: State) -> None:
        """Write down what a node is in the middle of."""
        self.roster.advance(self.roster.of(number), state)
