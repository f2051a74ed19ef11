"""Removal of what an experiment changed on an existing cluster, at its end or by a later command."""

from collections.abc import Collection

from loadframe.cluster import Cluster
from loadframe.experiment.runner.ledger import Changes, Ledger, of_cluster
from loadframe.experiment.runner.listener import Listener


def remove_leftovers(cluster: Cluster, name: str | None, listener: Listener) -> None:
    """Remove the collections of killed experiments from a cluster, and restore its settings.

    `name` is that of a cluster of Loadframe. BadInput if an experiment is using the cluster.
    """
    for leftover in list(of_cluster([] if name else cluster.addresses, name)):
        if not leftover.changes.kept:
            announce(leftover, listener)
            undo(cluster, leftover.changes, listener)
            leftover.changes.settings = {}
            # Only an experiment can restore the number of nodes.
            if leftover.changes.nodes in (None, cluster.size):
                leftover.delete()
                continue
            leftover.write()
        leftover.release()


def announce(leftover: Ledger, listener: Listener) -> None:
    """Tell the user whose leftovers are removed."""
    listener.remark(f"removing leftovers of an interrupted experiment ({leftover.changes.experiment})")


def undo(
    cluster: Cluster,
    changes: Changes,
    listener: Listener,
    *,
    keep: bool = False,
    only: Collection[str] | None = None,
) -> None:
    """Restore settings, and drop collections unless `keep`; `only` limits the settings to restore."""
    restored = {name: value for name, value in changes.settings.items() if only is None or name in only}
    if restored:
        listener.step(f"restoring {', '.join(restored)}")
        cluster.configure(restored)
    if not keep:
        drop_collections(cluster, changes, listener)


def drop_collections(cluster: Cluster, changes: Changes, listener: Listener) -> None:
    """Drop the collections that the experiment created."""
    for name in changes.collections:
        if not cluster.has_collection(name):
            continue
        # The experiment loads no document before it has created all collections.
        if changes.creating and cluster.count(name):
            listener.remark(f"keeping {name}: it has documents of another client")
            continue
        listener.step(f"dropping {name}")
        cluster.drop_collection(name)
    changes.collections, changes.creating, changes.documents, changes.data = [], False, {}, None
