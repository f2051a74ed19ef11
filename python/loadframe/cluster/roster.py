"""The nodes of a cluster as they are now. Of a cluster with a name each change is written down at once."""

import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from loadframe.cluster import named
from loadframe.cluster.node import Node, State
from loadframe.cluster.spec import ClusterSpec


class Roster:
    """Nodes by name, in the order in which they came. Another thread that reads sees a change whole or not yet.

    Of a named cluster that an earlier command kept, it also follows what other commands change.
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
        self.spec = spec
        self.facts = dict(facts)
        #: Whether the cluster was ready once.
        self.formed = formed
        #: Of nodes' data, to be removed; see named.Copy.
        self.copies = tuple(copies)
        #: What is written down instead of it until the cluster is ready at another place.
        self.before: named.Saved | None = None
        self._nodes = tuple(nodes)
        self._read = self._changed()
        self._writing = threading.RLock()

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All processes, companions too."""
        return self._nodes

    @property
    def asked(self) -> list[Node]:
        """The members that clients can ask, those that run; all if none does, so that the cause shows."""
        serving = [node for node in self._nodes if node.serves and node.state not in (State.JOINING, State.LEFT)]
        return [node for node in serving if node.alive] or serving

    def of(self, number: int | None) -> list[Node]:
        """Return the processes of the data-bearing node of that number; its first process stands for it."""
        return [node for node in self._nodes if node.number == number]

    @property
    def numbers(self) -> list[int]:
        """The data-bearing nodes."""
        return sorted({node.number for node in self._nodes if node.number is not None})

    def update(self, put: Collection[Node] = (), drop: Collection[str] = (), size: int | None = None) -> None:
        """Replace nodes by those of the same name or append them, drop some, set the asked size."""
        with self._writing:
            new = {node.name: node for node in put}
            kept = [new.pop(node.name, node) for node in self._nodes if node.name not in drop]
            self._nodes = (*kept, *new.values())
            if size is not None and self.spec:
                self.spec = replace(self.spec, nodes=size)
            self.write()

    def note(self, put: Collection[named.Copy] = (), drop: Collection[named.Copy] = ()) -> None:
        """Add copies of nodes' data that are to be removed, and drop some."""
        with self._writing:
            self.copies = (*(copy for copy in self.copies if copy not in drop), *put)
            self.write()

    def restore(self, saved: named.Saved) -> None:
        """Have it as it was written down, but for the copies."""
        with self._writing:
            self.before = None
            self.spec, self.facts, self._nodes = saved.spec, dict(saved.facts), tuple(saved.nodes)
            self.write()

    def write(self) -> None:
        """Write it down, if it has a name."""
        if self.spec and self.spec.name:
            saved = self.before or named.Saved(self.spec, self.facts, self._nodes, self.formed)
            named.save(replace(saved, copies=self.copies))
            self._read = self._changed()

    def follow(self) -> None:
        """Read it again if another command has written it since."""
        if self.spec and self.spec.name and self._changed() != self._read:
            with self._writing:
                self._read = self._changed()
                saved = named.load(self.spec.name)
                if not saved:
                    return
                self.spec, self.facts, self.formed = saved.spec, dict(saved.facts), saved.formed
                self.copies = tuple(saved.copies)
                processes = {(node.on, node.pid): node.process for node in self._nodes if node.process}
                self._nodes = tuple(
                    replace(node, process=processes.get((node.on, node.pid), node.process)) for node in saved.nodes
                )

    def _changed(self) -> int | None:
        """When it was written last, in ns since the epoch."""
        if self.spec is None or self.spec.name is None:
            return None
        try:
            return named.record_of(self.spec.name).stat().st_mtime_ns
        except FileNotFoundError:
            return None
