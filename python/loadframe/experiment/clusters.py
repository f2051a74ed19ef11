"""The clusters that an experiment's runs want, one at a time: a new one for each state, or the one before, grown.

A cluster is grown where that is equal to a new one: in the same block, to more nodes and nothing else, of a store whose
nodes are the same at any age. Its data are dropped before, so that they are loaded as they would be into a new one.
Nodes join one after the other, while those of a new cluster start at once: one node is added, and for more a new
cluster is started.
"""

from collections.abc import Iterable
from dataclasses import replace
from types import TracebackType
from typing import Self

from loadframe.cluster import Cluster, ClusterSpec
from loadframe.errors import LoadframeError
from loadframe.experiment.listener import Listener

#: More nodes than this are ready sooner in a new cluster (MongoDB, on two cores: 6 s for each that joins).
_MOST_ADDED = 1


class Clusters:
    """At most one cluster at a time, which ends with this; `grown` says whether one may be grown at all."""

    def __init__(self, listener: Listener, *, grown: bool) -> None:
        self._listener = listener
        self._grown = grown
        self._cluster: Cluster | None = None
        self._asked: ClusterSpec | None = None
        self._block: int | None = None
        self._collections: tuple[str, ...] = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.discard()

    def bring(self, spec: ClusterSpec, block: int) -> Cluster:
        """Return a cluster as asked for, empty and without its CPU quota: filling through one takes long."""
        if not self._grow(spec, block):
            self.discard()
            self._cluster = Cluster.start(spec, self._listener.step)
            self._cluster.throttle(False)
        self._asked, self._block = spec, block
        assert self._cluster
        return self._cluster

    def filled(self, collections: Iterable[str]) -> None:
        """Take note of what the cluster holds by now."""
        self._collections = tuple(collections)

    def discard(self) -> None:
        """Stop the cluster, if there is one: the next gets a new one."""
        cluster, self._cluster, self._collections = self._cluster, None, ()
        if cluster:
            cluster.stop()

    def _grow(self, spec: ClusterSpec, block: int) -> bool:
        """Grow the cluster to what is asked for; False if that is not equal, or not possible."""
        cluster, before = self._cluster, self._asked
        if cluster is None or before is None or not self._grown or block != self._block:
            return False
        more = spec.nodes - before.nodes
        if not 1 <= more <= _MOST_ADDED or replace(spec, nodes=before.nodes) != before or cluster.store.ages:
            return False
        if cluster.size != before.nodes or not all(node.alive for node in cluster.nodes):
            return False
        try:
            cluster.throttle(False)
            for name in self._collections:
                cluster.drop_collection(name)
            self._collections = ()
            cluster.grow(more, self._listener.step)
        except LoadframeError as error:
            self._listener.step(f"a new cluster, since this one was not grown: {error.what}")
            return False
        return True
