"""Removal of an experiment's changes to an existing cluster, at its end or by a later command."""

from collections.abc import Callable, Collection

from loadframe.base.errors import LoadframeError
from loadframe.cluster import Cluster
from loadframe.experiment.runner.ledger import Changes, Ledger, of_cluster
from loadframe.experiment.runner.listener import Listener


def remove_leftovers(cluster: Cluster, name: str | None, listener: Listener) -> None:
    """Remove the collections of killed experiments from a cluster, and restore its settings.

    `name` names a cluster of Loadframe. BadInput if an experiment is using the cluster.
    """
    hosts = [] if name else cluster.addresses
    for leftover in list(of_cluster(hosts, name or Cluster.name_at(hosts))):
        if leftover.changes.kept:
            leftover.release()
        else:
            remove(leftover, cluster, listener)


def remove(leftover: Ledger, cluster: Cluster, listener: Listener) -> None:
    """Remove the collections of a killed experiment, and restore the settings; another number of nodes stays listed."""
    announce(leftover, listener)
    undo(cluster, leftover.changes, listener)
    if leftover.changes.nodes in (None, cluster.size):
        leftover.delete()
        return
    leftover.write()
    leftover.release()


def announce(leftover: Ledger, listener: Listener) -> None:
    """Announce the removal, with the experiment that left something."""
    listener.remark(f"removing leftovers of an interrupted experiment ({leftover.changes.experiment})")


def attempt(*steps: Callable[[], object]) -> None:
    """Carry out all steps, even after one has failed; then raise the first LoadframeError."""
    errors = []
    for step in steps:
        try:
            step()
        except LoadframeError as error:
            errors.append(error)
    if errors:
        raise errors[0]


def undo(
    cluster: Cluster,
    changes: Changes,
    listener: Listener,
    *,
    keep: bool = False,
    only: Collection[str] | None = None,
) -> None:
    """Restore settings, and drop collections unless `keep`; `only` limits the settings to restore.

    After an error, `changes` lists the rest.
    """
    changes.settings = {name: value for name, value in changes.settings.items() if only is None or name in only}

    def restore() -> None:
        if changes.settings:
            listener.step(f"restoring {', '.join(changes.settings)}")
            cluster.configure(changes.settings)
            changes.settings = {}

    attempt(restore, *([] if keep else [lambda: drop_collections(cluster, changes, listener)]))


def drop_collections(cluster: Cluster, changes: Changes, listener: Listener) -> None:
    """Drop the collections that the experiment created; after an error, `changes` lists the others."""

    def drop(name: str) -> None:
        # The experiment loads no document before it has created all collections.
        if cluster.has_collection(name):
            if changes.creating and cluster.count(name):
                listener.remark(f"keeping {name}: it has documents of another client")
            else:
                listener.step(f"dropping {name}")
                cluster.drop_collection(name)
        changes.collections = [other for other in changes.collections if other != name]

    changes.documents, changes.data = {}, None
    attempt(*(lambda name=name: drop(name) for name in changes.collections))
    changes.creating = False
