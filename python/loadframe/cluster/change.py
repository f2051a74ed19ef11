"""Context of one change of a running cluster, and the watch on each of its steps."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from loadframe.base.errors import BadInput, StoreFailed
from loadframe.base.units import format_duration
from loadframe.cluster.events import ClusterEvent, Listener
from loadframe.cluster.node import Node, State
from loadframe.cluster.node_table import NodeTable
from loadframe.cluster.spec import ClusterSpec
from loadframe.host.base import Host
from loadframe.store import Balancing, Store

#: Default timeout of one step of a change, in seconds.
WITHIN = 3600.0

Tell = Callable[[str, Balancing], None]


class ChangeWatch:
    """Watch on one step, passed to the store as `watch`.

    `what` names the step in messages, `nodes` must not end meanwhile, and `within` is the timeout in s.
    """

    def __init__(self, what: str, nodes: Sequence[Node], within: float, tell: Tell | None = None) -> None:
        """Start the timeout of `within` s. `what` names the step in messages; `nodes` must not end meanwhile.

        `tell` receives the step and its progress at each call.
        """
        self._what = what
        self._nodes = list(nodes)
        self._within = within
        self._tell = tell
        self._began = time.monotonic()
        self._last: Balancing | None = None

    def __call__(self, balancing: Balancing) -> None:
        """Store and report the state; StoreFailed on a timeout or if one of the nodes has ended."""
        self._last = balancing
        for node in self._nodes:
            if not node.alive:
                raise node_ended(node, f"while {self._what}")
        if time.monotonic() - self._began > self._within:
            raise StoreFailed(
                f"{self._what} took longer than {format_duration(self._within)}; {describe(balancing)}",
                remedy="check the cluster with `loadframe cluster status`, or increase --within",
            )
        if self._tell:
            self._tell(self._what, balancing)

    @property
    def last(self) -> str:
        """Description of the last state, or `its state is unknown` before the first."""
        return describe(self._last) if self._last else "its state is unknown"

    @property
    def warning(self) -> str:
        """Last warning of the store; empty if none."""
        return self._last.warning if self._last else ""


def describe(balancing: Balancing) -> str:
    """Return a description of the progress, such as `3 shards left (relocating)`."""
    left = f"{balancing.left:,.0f} {balancing.unit} left"
    return f"{left} ({balancing.state})" if balancing.state else left


def node_ended(node: Node, doing: str) -> StoreFailed:
    """Return the error for a node that has ended, with the end of its log; `doing` completes the message."""
    status = node.process.exit_status() if node.process else None
    return not_up(node, f"ended{'' if status is None else f' with status {status}'} {doing}")


def not_up(node: Node, how: str) -> StoreFailed:
    """Return the error for a node that failed, with the end of its log; `how` completes `NAME ...` in the message."""
    indented = "\n".join(f"    {line}" for line in node.log_end().splitlines())
    return StoreFailed(
        f"{node.name} {how}; the end of its log:\n{indented}",
        remedy="correct the setting that the log names, or give the node more memory; `loadframe doctor` checks "
        "this machine",
    )


Report = Callable[[str], None]


@dataclass(frozen=True)
class ClusterChange:
    """Context of one change of one cluster."""

    store: Store
    host: Host
    node_table: NodeTable
    folder: Path
    report: Report  #: receives progress messages, and the state in which an interrupted change leaves the cluster
    emit: Listener
    within: float  #: timeout of each step in s
    tell: Tell | None  #: receives the progress of data movement at each poll, several times a second
    throttled: bool  #: whether new nodes get their CPU quota
    kept: bool  #: whether the cluster, including new nodes, outlives this process
    configured: Callable[[], Mapping[str, Any]]  #: returns the settings that were changed at run time so far
    lacking: set[str]  #: names of those that a node may lack
    password: str = field(repr=False)  #: password of the store's administrator; empty if the store has none

    @property
    def spec(self) -> ClusterSpec:
        """Current specification of the cluster."""
        assert self.node_table.spec
        return self.node_table.spec

    @property
    def starting(self) -> ClusterSpec:
        """Specification for processes that start now, with the settings changed at run time that they would lose."""
        if not self.store.loses_settings:
            return self.spec
        return replace(self.spec, settings={**self.spec.settings, **self.configured()})

    def configure(self, nodes: Sequence[Node] = ()) -> None:
        """Apply the settings that were changed at run time to all members and `nodes`; raise errors of the store."""
        if settings := self.configured():
            others = [node.address for node in nodes if node.serves and node.address not in self.addresses]
            self.store.configure([*self.addresses, *others], settings)
        self.lacking.difference_update(settings)

    def note_started(self) -> None:
        """Note that a started node may lack the settings changed at run time, until `configure` succeeds.

        Does nothing if nodes of the store keep them.
        """
        if self.store.forgets_settings:
            self.lacking.update(self.configured())

    @property
    def addresses(self) -> list[str]:
        """`host:port` of the running members that serve clients; see `NodeTable.asked`."""
        return [node.address for node in self.node_table.asked]

    def patience(self, what: str, concerned: Sequence[Node]) -> ChangeWatch:
        """Return a watch for the step `what`. It fails if one of the concerned nodes, or another running node, ends.

        It also fails after `self.within` s.
        """
        others = [node for node in self.node_table.nodes if node.alive and node not in concerned]
        return ChangeWatch(what, [*concerned, *others], self.within, self.tell)

    def happened(self, kind: str, numbers: Sequence[int]) -> None:
        """Emit an event of this kind for data nodes, by the names of their first processes.

        Its detail `machines` names their machines, if remote.
        """
        nodes = [self.node_table.of(number)[0] for number in numbers]
        machines = dict.fromkeys(node.machine.hostname for node in nodes if node.machine and not node.machine.here)
        detail = {"machines": ", ".join(machines)} if machines else {}
        self.emit(ClusterEvent(kind, tuple(node.name for node in nodes), detail))

    def require_awake(self, node: Node, consequence: str) -> None:
        """Raise BadInput if a node has ended, is paused or cut off; `consequence` completes the message."""
        name = self.spec.name or "NAME"
        if not node.alive:
            how, remedy = "not running", f"restart it with `loadframe cluster up {name}`"
        elif node.paused:
            how, remedy = "paused", f"resume it with `loadframe cluster resume {name} {node.name}`"
        elif node.cut:
            how, remedy = "cut off", f"restore its link with `loadframe cluster link {name} {node.name} --restore`"
        else:
            return
        raise BadInput(f"{node.name} is {how}, {consequence}", remedy=f"{remedy}, and try again")

    def equip(self, name: str) -> None:
        """Apply the CPU quota to a new node if the cluster is throttled, and keep it if the cluster is kept.

        The node must be in the node table with a process.
        """
        process = next(node.process for node in self.node_table.nodes if node.name == name)
        assert process
        if self.throttled:
            process.throttle(True)
        if self.kept:
            process.keep()

    def mark(self, number: int, state: State) -> None:
        """Set the state of all processes of data node `number`, and store it in the record."""
        self.node_table.advance(self.node_table.of(number), state)
