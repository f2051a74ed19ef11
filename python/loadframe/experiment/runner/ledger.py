"""Ledgers: lists of an experiment's changes to an existing cluster, so that a later command can undo them.

A ledger is a file in the state folder. The command that owns it holds a lock, which the kernel releases when the
command ends for any reason. A ledger without a lock is a leftover.
"""

import fcntl
import json
import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from loadframe.base import folders
from loadframe.base.errors import BadInput
from loadframe.cluster import share_a_node

#: What a ledger contains, in messages.
_CONTENT = "the list of changes to the cluster"


@dataclass
class Changes:
    """The changes of one experiment on one cluster."""

    kind: str
    #: Addresses; empty if the experiment names a cluster of Loadframe.
    hosts: list[str]
    #: Name of the cluster of Loadframe, even if the experiment has its addresses; None for other clusters.
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
        """Lock the ledger; BlockingIOError if another command holds the lock."""
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
        """Create and lock a ledger."""
        ledger = cls(folders.make(_folder()) / f"{name}.json", changes)
        try:
            ledger.write()
        except BadInput:
            ledger.delete()
            raise
        return ledger

    def write(self) -> None:
        """Write the changes atomically; call it before each change is made. BadInput if the disk is full."""
        with folders.writing(_CONTENT, self.path):
            with open(self._draft, "w", encoding="utf-8", opener=folders.ours_alone) as file:
                json.dump(asdict(self.changes), file, indent=2)
                file.flush()
                os.fsync(file.fileno())
            self._draft.replace(self.path)

    def delete(self) -> None:
        """Delete the ledger, because nothing is left to undo."""
        self.path.unlink(missing_ok=True)
        self._draft.unlink(missing_ok=True)
        _lock_of(self.path).unlink(missing_ok=True)
        self.release()

    def release(self) -> None:
        """Release the lock and keep the file."""
        self._lock.close()

    @property
    def _draft(self) -> Path:
        return self.path.with_suffix(".part")


def claim(name: str, changes: Changes) -> tuple[Ledger, list[Ledger]]:
    """Create and lock a ledger; return it, and the locked ledgers of earlier commands for its cluster.

    BadInput if another command is using the cluster, or if the disk is full.
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

    A ledger belongs to the cluster if it has its name or one of its nodes.
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
    """Return whether a ledger lists changes of the experiment with this folder that are not left on purpose."""
    ledgers = map(_read, _folder().glob("*.json"))
    return any(changes and changes.experiment == str(experiment.absolute()) and not changes.kept for changes in ledgers)


def _same(changes: Changes, hosts: Collection[str], cluster: str | None) -> bool:
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
    return path.with_suffix(".lock")


def _folder() -> Path:
    return folders.state() / "existing"
