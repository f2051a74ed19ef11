"""Current nodes of a cluster. Changes of a named cluster are recorded at once."""

import contextlib
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from loadframe.base.errors import BadInput
from loadframe.cluster import named
from loadframe.cluster.node import Node, State
from loadframe.cluster.spec import ClusterSpec


class NodeTable:
    """Nodes by name, in order of creation. Readers in other threads see each change as a whole.

    For a named cluster, it also follows the changes that other commands make. Each change locks the record and applies
    to its current content. While `changing`, this object is newer than the record, except for the fields of
    `named.OutsideChange`.
    """

    def __init__(
        self,
        spec: ClusterSpec | None,
        facts: Mapping[str, Any],
        nodes: Sequence[Node] = (),
        *,
        formed: bool = False,
        copies: Sequence[named.Copy] = (),
    ) -> None:
        """Hold these nodes. `facts` are recorded values, such as the version. Without `spec`, nothing is recorded.

        `formed`: the cluster was ready once. `copies` are obsolete copies of nodes' data.
        """
        self.spec = spec
        self.facts = dict(facts)
        #: Whether the cluster was ready once.
        self.formed = formed
        #: Obsolete copies of nodes' data; see named.Copy.
        self.copies = tuple(copies)
        #: Record to keep while the data is being transferred, until the cluster is ready on its new machines.
        self.before: named.SavedCluster | None = None
        #: Whether this command holds the cluster's lock; see named.locked.
        self.changing = False
        self._nodes = tuple(nodes)
        self._read: tuple[int, int] | None = None
        self._writing = threading.RLock()
        self._holding = False

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All processes, including companions, in order of creation."""
        return self._nodes

    @property
    def asked(self) -> list[Node]:
        """Running members that serve clients; all such members if none runs, so that errors name them.

        In order of creation. Nodes that join, or have left, are not members.
        """
        serving = [node for node in self._nodes if node.serves and node.state not in (State.JOINING, State.LEFT)]
        return [node for node in serving if node.alive] or serving

    def of(self, number: int | None) -> list[Node]:
        """Return the processes of a data node, the first of which represents it; for None, the companions."""
        return [node for node in self._nodes if node.number == number]

    @property
    def numbers(self) -> list[int]:
        """Sorted numbers of the data nodes."""
        return sorted({node.number for node in self._nodes if node.number is not None})

    def update(self, put: Collection[Node] = (), drop: Collection[str] = (), size: int | None = None) -> None:
        """Put nodes in place of those with the same name, or append them; drop nodes by name; set the size, if given.

        `size` is the target number of data nodes. Stores the result in the record of a named cluster.
        """
        with self.held():
            new = {node.name: node for node in put}
            kept = [new.pop(node.name, node) for node in self._nodes if node.name not in drop]
            self._nodes = (*kept, *new.values())
            if size is not None and self.spec:
                self.spec = replace(self.spec, nodes=size)
            self._save()

    def edit(self, nodes: Collection[Node], change: Callable[[Node], Node], size: int | None = None) -> None:
        """Apply `change` to the current entries of the nodes with these names, and set the target size, if given.

        Ignores nodes that are no longer in the table. BadInput, outside `change`, if another command has deleted the
        cluster.
        """
        with self.held() as present:
            self._require(present or self.changing)
            names = {node.name for node in nodes}
            self.update(put=[change(node) for node in self._nodes if node.name in names], size=size)

    def advance(self, nodes: Collection[Node], state: State, size: int | None = None) -> None:
        """Set the state of nodes, except killed ones, and the target size, if given, also in the record; see `edit`."""
        self.edit(nodes, lambda node: node if node.state == State.KILLED else replace(node, state=state), size)

    def note(self, put: Collection[named.Copy] = (), drop: Collection[named.Copy] = ()) -> None:
        """Add (`put`) and drop obsolete copies of nodes' data, also in the record."""
        with self.held():
            self.copies = (*(copy for copy in self.copies if copy not in drop), *put)
            self._save()

    def restore(self, saved: named.SavedCluster) -> None:
        """Restore spec, facts and nodes of an earlier state, also in the record; copies stay. `before` becomes None."""
        with self.held():
            self.before = None
            self.spec, self.facts, self._nodes = saved.spec, dict(saved.facts), tuple(saved.nodes)
            self._save()

    def write(self) -> None:
        """Write the record of a named cluster, unless another command has deleted it. Does nothing without a name."""
        with self.held() as present:
            if present or self.changing:
                self._save()

    @contextlib.contextmanager
    def change(self) -> Iterator[None]:
        """Read the record and start a change of the cluster. The caller holds the cluster's lock.

        BadInput if another command has deleted the cluster.
        """
        with self.held() as present:
            self._require(present)
            self.changing = True
        try:
            yield
        finally:
            self.changing = False

    def _require(self, present: bool) -> None:
        """Raise BadInput unless `present`: another command has deleted the cluster."""
        if not present:
            raise BadInput(
                f"cluster {self.spec.name if self.spec else ''} was deleted by another command",
                remedy="list the clusters with `loadframe cluster status`",
            )

    @contextlib.contextmanager
    def held(self) -> Iterator[bool]:
        """Lock the record for one change, apply the changes of other commands, and yield whether a record exists.

        Reentrant in the same thread. Yields True for a cluster without a name, and inside another `held`.
        """
        with self._writing:
            if self._holding or self.spec is None or self.spec.name is None:
                yield True
                return
            with named.record_locked(self.spec.name):
                self._holding = True
                try:
                    yield self._merge_record()
                finally:
                    self._holding = False

    def _save(self) -> None:
        """Write the record of a named cluster: `before`, if set, else the current state.

        Both get the current copies.
        """
        if self.spec and self.spec.name:
            saved = self.before or named.SavedCluster(self.spec, self.facts, self._nodes, self.formed)
            named.save(replace(saved, copies=self.copies))
            self._read = self._changed()

    def follow(self) -> None:
        """Read the record of a named cluster again if another command has changed it.

        BadInput if the record is damaged, or the cluster runs on another machine.
        """
        if self.spec and self.spec.name and self._changed() != self._read:
            with self._writing:
                self._merge_record()

    def _merge_record(self) -> bool:
        """Apply the changes that other commands made to the record, to this object; return whether a record exists.

        While `changing`, only the fields of `named.OutsideChange` are read, and none if `before` is set. Otherwise all
        are read, and BadInput is raised if the record is damaged, or the cluster runs on another machine.
        """
        assert self.spec and self.spec.name
        self._read = self._changed()
        if self.changing:
            if self.before is None:
                amended = named.amendments(self.spec.name)
                self._nodes = tuple(_amended(node, amended.get(node.name)) for node in self._nodes)
            return self._read is not None
        saved = named.load(self.spec.name, self._nodes)
        if saved is None:
            return False
        self.spec, self.facts, self.formed = saved.spec, dict(saved.facts), saved.formed
        self.copies, self._nodes = tuple(saved.copies), tuple(saved.nodes)
        return True

    def _changed(self) -> tuple[int, int] | None:
        """Return modification time (ns since the epoch) and inode of the record, or None without a record.

        Each write changes the inode.
        """
        if self.spec is None or self.spec.name is None:
            return None
        try:
            status = named.record_of(self.spec.name).stat()
        except FileNotFoundError:
            return None
        return status.st_mtime_ns, status.st_ino


def _amended(node: Node, amendment: named.OutsideChange | None) -> Node:
    """Return a node with the fields that other commands changed in the record of the same process.

    Of the states, only KILLED is taken over. Returns the node itself if `amendment` is None or of another process.
    """
    if amendment is None or amendment.process != (node.process.record() if node.process else None):
        return node
    state = State.KILLED if amendment.state == State.KILLED else node.state
    return replace(node, state=state, cut=amendment.cut, shape=amendment.shape)
