"""A cluster as it is looked at and asked: its nodes, its collections, its health. Nothing here changes a node."""

import difflib
import os
from collections.abc import Mapping, Sequence
from typing import Any

from loadframe.cluster import state
from loadframe.cluster.node import Node
from loadframe.cluster.roster import Roster
from loadframe.cluster.spec import ClusterSpec
from loadframe.errors import BadInput, LoadframeError
from loadframe.host import cores
from loadframe.host.base import Machine
from loadframe.store import OPEN, Health, Store


class ClusterView:
    """What can be known of a cluster, started here or elsewhere, and asked of its store."""

    def __init__(self, store: Store, roster: Roster, *, attached: int | None = None) -> None:
        """`attached` is the number of nodes of a cluster that loadframe did not start, when it was attached to."""
        self.store = store
        self._roster = roster
        self._attached = attached
        self._throttled = True
        #: How its nodes are reached, and as whom.
        self.access = OPEN

    @property
    def spec(self) -> ClusterSpec | None:
        """What it is to be like by now; None for a cluster that Loadframe did not start."""
        return self._roster.spec

    @property
    def nodes(self) -> list[Node]:
        """Its processes, in the order in which they came."""
        self._roster.follow()
        return list(self._roster.nodes)

    @property
    def machines(self) -> Sequence[Machine]:
        """The machines that its nodes are, or may come to be, on; none of a cluster that Loadframe did not start."""
        return self.spec.place().machines if self.spec else ()

    @property
    def size(self) -> int:
        """How many data-bearing nodes the cluster is to have; of one that was attached to, how many it had."""
        return self._attached if self._attached is not None else self._of_ours().nodes

    @property
    def addresses(self) -> list[str]:
        """The `host:port` of each member that clients can ask and that runs; it changes as nodes come and go."""
        self._roster.follow()
        return [node.address for node in self._roster.asked]

    @property
    def _answering(self) -> list[str]:
        """The same, with those last that stand still or are cut off, and would let us wait."""
        return [node.address for node in sorted(self._roster.asked, key=lambda node: node.paused or node.cut)]

    @property
    def cores_left(self) -> set[int] | None:
        """The cores that the nodes leave to whoever asks them; None where they share them all."""
        if self.spec is None or (self.spec.limits.cores is None and self.spec.limits.cores_each is None):
            return None
        if not all(machine.here for machine in self.machines):
            return None
        return os.sched_getaffinity(0) - set(cores.pool(self.spec.limits, self.spec.nodes)) or None

    def _named(self, name: str) -> Node:
        names = [node.name for node in self.nodes]
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            raise BadInput(
                f"the cluster has no node {name!r}",
                remedy=f"did you mean {near[0]}?" if near else f"its nodes are {', '.join(names)}",
            )
        return next(node for node in self.nodes if node.name == name)

    def _of_ours(self) -> ClusterSpec:
        if self.spec is None:
            raise BadInput("loadframe did not start this cluster, and does not change it", remedy="change it yourself")
        return self.spec

    def create_collection(self, name: str, definition: Mapping[str, Any]) -> None:
        """Create a collection from the definition that the workload has for this store's family."""
        self.store.create_collection(self._answering, name, definition, nodes=self.size)

    def has_collection(self, name: str) -> bool:
        """Return whether a collection is there."""
        return self.store.has_collection(self._answering, name)

    def drop_collection(self, name: str) -> None:
        """Drop a collection, if it is there."""
        self.store.drop_collection(self._answering, name)

    def count(self, name: str) -> int:
        """Return the number of documents in a collection."""
        return self.store.count(self._answering, name)

    def count_having(self, name: str, fields: Sequence[str]) -> dict[str, int]:
        """Return, for each field, how many documents of a collection have it."""
        return self.store.count_having(self._answering, name, fields)

    def health(self) -> Health:
        """Return the cluster's state."""
        return self.store.health(self._answering)

    def statistics(self) -> dict[str, dict[str, float]]:
        """Return each node's figures, by node name."""
        names = {node.address: node.name for node in self.nodes}
        return {names.get(node, node): figures for node, figures in self.store.statistics(self._answering).items()}

    def target(self) -> dict[str, Any]:
        """Return what a plan must know of the cluster besides its addresses; it may hold secrets."""
        target = {"store": self.store.software(str(self._roster.facts.get("version"))), **self.access.plan()}
        read_from = self.store.read_from(self.spec.settings) if self.spec else None
        return target if read_from is None else {**target, "read_from": read_from}

    def describe(self) -> dict[str, Any]:
        """Return what a manifest must know to bring up such a cluster again. Sizes in bytes, the period in seconds."""
        self._roster.follow()
        return {
            "kind": self.store.kind,
            "family": self.store.family,
            **state.describe(self._roster),
            "nodes": self.size,
            "addresses": self.addresses,
            "access": self.access.describe(),
        }

    def deviations(self) -> list[str]:
        """Return how the live cluster differs from what was asked for, one sentence each; empty when it does not."""
        differs, unready = self.differences()
        return differs + unready

    def differences(self) -> tuple[list[str], list[str]]:
        """Return the same in two: how the cluster is not what was asked for, and what of its data is not in service or
        on the move."""
        self._roster.follow()
        differs = state.deviations(self._roster, self._throttled)
        if self._attached is not None:
            differs += self.store.silent(self.addresses)
        try:
            health = self.health()
        except LoadframeError as error:
            return [*differs, _silence(error)], []
        return differs + state.miscounted(health, self.size), state.unready(health, self.size)

    def losses(self) -> list[str]:
        """Return those of the deviations that are the store's failures: nodes that ended by themselves, no answer."""
        self._roster.follow()
        losses = state.losses(self._roster)
        try:
            self.health()
        except LoadframeError as error:
            losses.append(_silence(error))
        return losses

    def lost_copies(self) -> list[str]:
        """Return which copies of data and which nodes the store itself misses, one sentence each."""
        try:
            health = self.health()
        except LoadframeError as error:
            return [_silence(error)]
        fewer = state.miscounted(health, self.size) if health.nodes < self.size else []
        return fewer + state.incomplete(health, self.size)


def _silence(error: LoadframeError) -> str:
    return f"the cluster does not answer ({error.what})"
