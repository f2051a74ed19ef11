"""Ledgers: lists of an experiment's changes to an existing cluster, and the removal of these changes.

A ledger is a file in the state folder. The command that owns it holds a lock, which the kernel releases when the
command ends for any reason. A ledger without a lock is a leftover.
"""

import fcntl
import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from loadframe.base import folders
from loadframe.base.errors import BadInput, LoadframeError
from loadframe.cluster import Cluster, share_a_node
from loadframe.experiment.runner.listener import Listener

#: What a ledger contains, in messages.
_CONTENT = "the list of changes to the cluster"


@dataclass
class Changes:
    """The changes of one experiment on one cluster."""

    kind: str
    #: Addresses; empty if the experiment names a cluster of Loadframe.
    hosts: list[str]
    #: Name of the cluster of Loadframe, even if the experiment has its addresses, or None for other clusters.
    cluster: str | None
    experiment: str  #: path of the experiment's folder
    prefix: str = ""
    #: Names of collections that the experiment created.
    collections: list[str] = field(default_factory=list)
    #: Whether their creation has begun and not ended, so that another client may have created them.
    creating: bool = False
    #: Settings before the experiment, with the values that restore them.
    settings: dict[str, Any] = field(default_factory=dict)
    #: Number of nodes before the experiment, and whether a cluster of Loadframe was running.
    nodes: int | None = None
    running: bool | None = None
    #: Fingerprint of the data in the collections, and the number of documents of each; None if not filled.
    data: str | None = None
    documents: dict[str, int] = field(default_factory=dict)
    #: Whether the collections are left for later experiments on purpose.
    kept: bool = False


class Ledger:
    """The file with the changes of one experiment on one cluster, and its lock."""

    def __init__(self, path: Path, changes: Changes) -> None:
        """Lock the ledger at `path`, but read and write nothing; BlockingIOError if another command holds the lock."""
        self.path = path
        self.changes = changes
        self._lock = open(_lock_of(path), "a", opener=folders.ours_alone)  # noqa: SIM115 - holds the lock
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock.close()
            raise

    @classmethod
    def new(cls, name: str, changes: Changes) -> "Ledger":
        """Create, lock and write the ledger NAME.json; BadInput, without a file left, if it cannot be written."""
        ledger = cls(folders.make(_folder()) / f"{name}.json", changes)
        try:
            ledger.write()
        except BadInput:
            ledger.delete()
            raise
        return ledger

    def write(self) -> None:
        """Write the changes atomically, to be called before each change to the cluster. BadInput if writing fails."""
        with folders.writing(_CONTENT, self.path):
            with open(self._draft, "w", encoding="utf-8", opener=folders.ours_alone) as file:
                json.dump(asdict(self.changes), file, indent=2)
                file.flush()
                os.fsync(file.fileno())
            self._draft.replace(self.path)

    def delete(self) -> None:
        """Delete the files of the ledger and release the lock."""
        self.path.unlink(missing_ok=True)
        self._draft.unlink(missing_ok=True)
        _lock_of(self.path).unlink(missing_ok=True)
        self.release()

    def release(self) -> None:
        """Release the lock and keep the file."""
        self._lock.close()

    @property
    def _draft(self) -> Path:
        """Path of the file that `write` writes and then renames."""
        return self.path.with_suffix(".part")


def claim(name: str, changes: Changes) -> tuple[Ledger, list[Ledger]]:
    """Create and lock the ledger NAME.json; return it, and the locked ledgers of earlier commands for its cluster.

    The earlier ones keep their changes; the caller must undo them, or release the locks. BadInput if another command is
    using the cluster, or if writing fails.
    """
    with (
        folders.writing(_CONTENT, _folder()),
        # Otherwise two commands that start at once would not see each other.
        folders.locked(folders.make(_folder()) / "claims.lock", lambda: None),
    ):
        earlier = list(of_cluster(changes.hosts, changes.cluster))
        return Ledger.new(name, changes), earlier


def of_cluster(hosts: Collection[str], cluster: str | None) -> Iterator[Ledger]:
    """Yield the ledgers of earlier commands for a cluster, locked; BadInput if another command is using the cluster.

    A ledger belongs to the cluster if it has its name or, if neither has a name, one of its nodes (`hosts`). Damaged
    ledgers are skipped.
    """
    for path in sorted(_folder().glob("*.json")):
        changes = _read(path)
        if changes is None or not _same(changes, hosts, cluster):
            continue
        try:
            ledger = Ledger(path, changes)
        except BlockingIOError:
            raise BadInput(
                f"another experiment is using this cluster ({changes.experiment})",
                where=changes.cluster or ", ".join(changes.hosts),
                remedy="wait for it to end: two loads on one cluster would disturb each other",
            ) from None
        # The other command may have written or deleted it before it was locked.
        if (latest := _read(path)) is None:
            ledger.release()
            continue
        ledger.changes = latest
        yield ledger


def has_leftovers(experiment: Path) -> bool:
    """Return whether a ledger lists changes of the experiment in the folder `experiment`, not kept on purpose."""
    ledgers = map(_read, _folder().glob("*.json"))
    return any(changes and changes.experiment == str(experiment.absolute()) and not changes.kept for changes in ledgers)


def remove_leftovers(cluster: Cluster, name: str | None, listener: Listener) -> None:
    """Remove the collections of killed experiments from a cluster, and restore its settings.

    `name` names a cluster of Loadframe, None for others. Collections that are kept on purpose stay. The number of nodes
    is not restored. BadInput if an experiment is using the cluster, LoadframeError if a removal fails.
    """
    hosts = [] if name else cluster.addresses
    for leftover in list(of_cluster(hosts, name or Cluster.name_at(hosts))):
        if leftover.changes.kept:
            leftover.release()
        else:
            remove(leftover, cluster, listener)


def remove(leftover: Ledger, cluster: Cluster, listener: Listener) -> None:
    """Remove the collections of a killed experiment, restore its settings, and delete its locked ledger.

    The ledger stays, unlocked, if the cluster has another number of nodes than before. LoadframeError on failure.
    """
    announce(leftover, listener)
    attempt(
        lambda: restore_settings(cluster, leftover.changes, listener),
        lambda: drop_collections(cluster, leftover.changes, listener),
    )
    if leftover.changes.nodes in (None, cluster.size):
        leftover.delete()
        return
    leftover.write()
    leftover.release()


def announce(leftover: Ledger, listener: Listener) -> None:
    """Report to the listener that leftovers of an experiment are being removed."""
    listener.remark(f"removing leftovers of an interrupted experiment ({leftover.changes.experiment})")


def attempt(*steps: Callable[[], object]) -> None:
    """Call all steps in order, even after a LoadframeError; then raise the first one. Other errors end it at once."""
    errors = []
    for step in steps:
        try:
            step()
        except LoadframeError as error:
            errors.append(error)
    if errors:
        raise errors[0]


def restore_settings(cluster: Cluster, changes: Changes, listener: Listener) -> None:
    """Restore the settings in `changes`, if any, and remove them there; LoadframeError if that fails."""
    if changes.settings:
        listener.step(f"restoring {', '.join(changes.settings)}")
        cluster.configure(changes.settings)
        changes.settings = {}


def drop_collections(cluster: Cluster, changes: Changes, listener: Listener) -> None:
    """Drop the collections that the experiment created; after a LoadframeError, `changes` lists the remaining ones.

    Missing collections, and collections with documents of another client, are only removed from `changes`.
    """

    def drop(name: str) -> None:
        """Drop a collection unless it is missing or has another client's documents; remove it from `changes`."""
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


def _same(changes: Changes, hosts: Collection[str], cluster: str | None) -> bool:
    """Return whether changes belong to a cluster: it has their name or, if neither has a name, one of their nodes."""
    if cluster is not None or changes.cluster is not None:
        return cluster == changes.cluster
    return share_a_node(hosts, changes.hosts)


def _read(path: Path) -> Changes | None:
    """Return the content of a ledger; None if it does not exist or is damaged."""
    try:
        content: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return Changes(**content)
    except (OSError, ValueError, TypeError):
        return None


def _lock_of(path: Path) -> Path:
    """Return the path of a ledger's lock file."""
    return path.with_suffix(".lock")


def _folder() -> Path:
    """Return the folder of ledgers, `existing` in the user's state folder; it need not exist."""
    return folders.state() / "existing"
