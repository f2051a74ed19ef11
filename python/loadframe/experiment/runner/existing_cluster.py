"""One existing cluster of an experiment: its settings, its collections, and its state from before the experiment."""

import contextlib
import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loadframe.base.errors import BadInput, LoadframeError, StoreFailed
from loadframe.base.units import counted
from loadframe.cluster import Cluster
from loadframe.experiment.runner.ledger import Changes, Ledger, drop_collections, restore_settings
from loadframe.experiment.runner.listener import Listener
from loadframe.experiment.runner.session import Session

#: Time limit of a setting to take effect, and the interval between two reads, s.
_EFFECT_WITHIN, _POLL = 3.0, 0.05
#: Level of a setting after a failure.
_UNKNOWN = object()


class RuntimeSettings:
    """The settings of one cluster: their levels, their effects, and which ones differ from before the experiment.

    A level of None is the value before the experiment.
    """

    def __init__(self, ledger: Ledger) -> None:
        """Assume that all settings are as before the experiment; `note` writes their values to `ledger`."""
        self._ledger = ledger
        #: Values in effect, by setting and level as JSON, measured before the first run.
        self._effects: dict[tuple[str, str], str] = {}
        #: Levels that the cluster has now, by setting; missing ones are as before the experiment.
        self.applied: dict[str, Any] = {}

    def note(self, cluster: Cluster, names: Sequence[str]) -> None:
        """Write the present values of settings to the ledger, over earlier ones; BadInput if one cannot be read."""
        before = cluster.store.running_settings(cluster.addresses, names)
        self._ledger.changes.settings |= {name: setting.explicit for name, setting in before.items()}
        self._ledger.write()
        self.applied = {**dict.fromkeys(names), **self.applied}

    def test(self, cluster: Cluster, levels: Mapping[str, Sequence[Any]]) -> None:
        """Set and read each level of each setting once, then restore it; BadInput or LoadframeError if that fails.

        First writes the present values to the ledger; see `note`. Stores the value in effect of each level.
        """
        self.note(cluster, list(levels))
        for name, values in levels.items():
            for level in values:
                self._effects[name, json.dumps(level)] = self._set(cluster, name, level)
            restored = self._set(cluster, name, None)
            # A default, which needs no explicit value, can depend on the node that answers.
            if self._ledger.changes.settings[name] is not None:
                self._effects.setdefault((name, json.dumps(None)), restored)

    def require_distinct(self, levels: Mapping[str, Sequence[Any]], where: str) -> None:
        """Raise BadInput, at `where`, if two levels of a setting have the same effect. Call `test` before."""
        for name, values in levels.items():
            seen: dict[str, Any] = {}
            for level in values:
                value = self._effects[name, json.dumps(level)]
                if value in seen:
                    raise BadInput(
                        f"{name} has the value {value} with the levels {seen[value]} and {level}",
                        where=where,
                        remedy="remove one of the levels; null stands for the value before the experiment",
                    )
                seen[value] = level

    def apply(self, cluster: Cluster, settings: Mapping[str, Any], where: str) -> None:
        """Set the levels that the cluster does not have, and restore changed settings that are not in `settings`.

        Reads settings that should hold their level already: a node that restarts may lose them. StoreFailed, at
        `where`, if a level has another effect than in the test; LoadframeError if setting fails.
        """
        # A variant of a comparison does not name the settings of other variants.
        for name, level in {**dict.fromkeys(self.applied), **settings}.items():
            if name in self.applied and self.applied[name] == level and self._holds(cluster, name):
                continue
            self._set_exactly(cluster, name, level, where)

    def renew(self, cluster: Cluster, where: str) -> list[str]:
        """Set settings again that lost the effect of their level; return their names. Skips unknown levels.

        StoreFailed, at `where`, or LoadframeError if that fails.
        """
        lost = [
            name for name, level in self.applied.items() if level is not _UNKNOWN and not self._holds(cluster, name)
        ]
        for name in lost:
            self._set_exactly(cluster, name, self.applied[name], where)
        return lost

    def _set_exactly(self, cluster: Cluster, name: str, level: Any, where: str) -> None:
        """Set a setting; StoreFailed, at `where`, if the level has another effect than in the test."""
        value = self._set(cluster, name, level)
        expected = self._effects.get((name, json.dumps(level)))
        if expected is not None and value != expected:
            raise StoreFailed(
                f"{name} has the value {value}, not {expected}, after it was set to {level}",
                where=where,
                remedy="check whether another client changes this setting",
            )

    def _holds(self, cluster: Cluster, name: str) -> bool:
        """Return whether an applied setting has the effect that its level had in the test; True if that is unknown.

        False if the nodes have different values.
        """
        expected = self._effects.get((name, json.dumps(self.applied[name])))
        try:
            return expected is None or self._value(cluster, name) == expected
        except BadInput:
            # The nodes have different values.
            return False

    def forget(self) -> None:
        """Mark all levels as unknown, so that the next run applies them again.

        A restart also loses values from before the experiment that were set at run time.
        """
        self.applied = dict.fromkeys(self.applied, _UNKNOWN)

    def adopt(self, before: Mapping[str, Any]) -> None:
        """Add settings, by name, that were just restored from the ledger of an earlier command to the values `before`.

        They become changes of this command, but its ledger is not written.
        """
        self._ledger.changes.settings |= before
        self.applied |= dict.fromkeys(before)

    def may_change(self, names: Sequence[str]) -> None:
        """Mark the levels of these settings as unknown, because a run may change them. Call `note` before."""
        self.applied |= dict.fromkeys(names, _UNKNOWN)

    def changed(self) -> list[str]:
        """Return the settings that may differ from before the experiment."""
        return [name for name, level in self.applied.items() if level is not None]

    def _set(self, cluster: Cluster, name: str, level: Any) -> str:
        """Set a setting, or restore it if `level` is None; return the value in effect.

        Waits up to 3 s for the value of the test, or without a test for a change. LoadframeError if setting fails.
        """
        earlier = self.applied.get(name)
        try:
            before = self._value(cluster, name)
        except BadInput:
            # A node that was just added or restarted has another value than the others.
            before = ""
        self.applied[name] = _UNKNOWN
        try:
            cluster.configure({name: self._ledger.changes.settings[name] if level is None else level})
        except LoadframeError:
            # The server may have applied the setting although its answer was lost.
            with contextlib.suppress(LoadframeError):
                if self._value(cluster, name) == before:
                    self.applied[name] = earlier
            raise
        self.applied[name] = level
        # Some stores apply a setting only after they have answered.
        end = time.monotonic() + _EFFECT_WITHIN
        wanted = self._effects.get((name, json.dumps(level)))
        while True:
            late = time.monotonic() > end
            try:
                value = self._value(cluster, name)
            except BadInput:
                # Some servers may not have applied it yet.
                if late:
                    raise
            else:
                if value == wanted or (wanted is None and value != before) or late:
                    return value
            time.sleep(_POLL)

    @staticmethod
    def _value(cluster: Cluster, name: str) -> str:
        """Return the value in effect of a setting, as text; BadInput if the nodes have different values."""
        value: str = cluster.store.running_settings(cluster.addresses, [name])[name].value
        return value


@dataclass
class ExistingCluster:
    """An existing cluster, and the changes of the experiment to it."""

    hosts: list[str]
    name: str | None
    #: The open cluster. None until the first use, and after a failure.
    cluster: Cluster | None
    ledger: Ledger
    settings: RuntimeSettings
    #: Whether a run has used it: damage from before is the user's.
    used: bool = False
    #: Whether the number of nodes may still change after the attachment that ended last; see `Cluster.uncertain`.
    uncertain: bool = False
    #: Settings and warming phases, as JSON, that ran last on the present nodes and data; None if they are cold.
    warmed: str | None = None

    @property
    def changes(self) -> Changes:
        """The experiment's changes to the cluster, as the ledger lists them."""
        return self.ledger.changes

    @property
    def text(self) -> str:
        """Name or addresses of the cluster, for messages."""
        return self.name or ", ".join(self.hosts)

    def require_version(self, cluster: Cluster, expected: str) -> None:
        """Raise BadInput unless the cluster's version begins with the numbers of `expected`: `8.1` accepts `8.1.3`."""
        version = str(cluster.describe()["version"])
        if not _is_version(version, expected):
            raise BadInput(
                f"the cluster runs {cluster.store.kind} {version}, not {expected}",
                where=self.text,
                remedy="correct store.version, or name another cluster",
            )

    def resize(self, cluster: Cluster, nodes: int | None, report: Callable[[str], None]) -> Cluster:
        """Return the cluster with this number of nodes (None: unchanged): by the user's command, or restarted.

        A named cluster with a dead, paused or disconnected node is restarted in any case. A change marks all settings
        as unknown. LoadframeError if nodes do not start or the command fails.
        """
        if self.name is not None and any(not node.alive or node.paused or node.cut for node in cluster.nodes):
            # An earlier run has left it damaged.
            self.cluster = None
            self.cluster = cluster = Cluster.respawn(self.name, nodes or cluster.size, report)
            # Some stores forget run-time settings when they restart.
            self.forget()
        if nodes is None or (nodes == cluster.size and not cluster.uncertain):
            return cluster
        self.note_nodes(cluster)
        if self.name is None:
            # Added nodes lack the settings.
            self.forget()
            cluster.resize(nodes, report)
            return cluster
        self.cluster = None
        self.cluster = Cluster.respawn(self.name, nodes, report)
        self.forget()
        return self.cluster

    def forget(self) -> None:
        """Mark all settings as unknown and the nodes as not warmed, because nodes may have started."""
        self.settings.forget()
        self.warmed = None

    def note_nodes(self, cluster: Cluster) -> None:
        """Write the number of nodes to the ledger, which restores it, unless the ledger has one already."""
        if self.changes.nodes is None:
            self.changes.nodes = cluster.size
            self.ledger.write()

    def intact(self, session: Session) -> bool:
        """Return whether the session's collections are those in the ledger, with as many documents as after loading.

        False if the store does not answer.
        """
        with contextlib.suppress(LoadframeError):
            return set(session.workload.collections) == set(self.changes.collections) and (
                count_documents(session) == self.changes.documents
            )
        return False

    def create(self, session: Session) -> None:
        """Create the collections of a run, and list them in the ledger before; BadInput if one exists."""
        names = list(session.workload.collections)
        present = [name for name in names if session.cluster.has_collection(name)]
        if present:
            raise self.exists_already(present)
        # Before the collections exist, so that a killed command leaves none that is not listed.
        self.changes.collections, self.changes.creating = names, True
        self.ledger.write()
        session.create_collections()
        self.changes.creating = False
        self.ledger.write()

    def require_collections(self, session: Session) -> None:
        """Raise StoreFailed if a collection of a run is missing."""
        missing = [name for name in session.workload.collections if not session.cluster.has_collection(name)]
        if missing:
            raise StoreFailed(f"the cluster no longer has {', '.join(missing)}", where=self.text)

    def drop(self, listener: Listener) -> None:
        """Drop the collections that the experiment created, also from the ledger; LoadframeError on failure."""
        assert self.cluster
        drop_collections(self.cluster, self.changes, listener)
        self.ledger.write()

    def restore_nodes(self, report: Callable[[str], None]) -> None:
        """Give the cluster the number of nodes that it had before, and remove it from the changes.

        Also restarts a named cluster that a run damaged. LoadframeError on failure; `cluster` is then None if it had to
        be restarted.
        """
        assert self.cluster
        if self.used or self.changes.nodes not in (None, self.cluster.size):
            self.cluster = self.resize(self.cluster, self.changes.nodes, report)
        self.changes.nodes = None

    def restore_settings(self, listener: Listener) -> None:
        """Restore the settings that may differ from before the experiment; LoadframeError on failure.

        After a failed restart, they remain in the changes.
        """
        if self.cluster:
            changed = self.settings.changed()
            self.changes.settings = {name: self.changes.settings[name] for name in changed}
            restore_settings(self.cluster, self.changes, listener)

    def leave(self) -> None:
        """Stop a named cluster that was stopped before; one that was running runs on after this command."""
        if self.name is None or self.cluster is None:
            return
        if self.changes.running:
            self.cluster.keep()
        else:
            self.cluster.stop()
        self.cluster = None

    def unrestored(self, why: str) -> str:
        """Return the message that the cluster could not be restored, with the cause `why` and the remaining changes."""
        return f"could not restore {self.text}: {why}{self.remaining}"

    @property
    def remaining(self) -> str:
        """The remaining changes of the experiment, as a sentence to append; empty without any."""
        changes = self.changes
        left = []
        if changes.collections and not changes.kept:
            left.append(f"the collections {', '.join(changes.collections)}")
        if changes.settings:
            left.append(f"the changed settings {', '.join(changes.settings)}")
        known = self.cluster if self.cluster and not self.cluster.uncertain else None
        if changes.nodes is not None and not (known and known.size == changes.nodes):
            left.append(f"{'' if known else 'possibly '}another number of nodes than {changes.nodes}")
        return f". It still has {', and '.join(left)}" if left else ""

    def exists_already(self, names: Sequence[str]) -> BadInput:
        """Return the error for collections that another client created."""
        return BadInput(
            f"the cluster already has {', '.join(names)}, which this experiment did not create",
            where=self.text,
            remedy="leave store.prefix out, so that the experiment uses other names; or set data: reuse to use the"
            " data",
        )


def count_documents(session: Session) -> dict[str, int]:
    """Return the number of documents in each collection of a run."""
    return {name: session.cluster.count(name) for name in session.workload.collections}


def difference(counts: Mapping[str, int], before: Mapping[str, int]) -> str:
    """Return, in words, the collections whose number of documents differs from `before`; empty if none does."""
    return "; ".join(
        f"{name} has {counted(counts[name], 'document')}, not {before.get(name, 0):,}"
        for name in counts
        if counts[name] != before.get(name)
    )


def _is_version(version: str, expected: str) -> bool:
    """Return whether the numbers in `version`, after a product's name, begin with those in `expected`."""
    numbers, wanted = (re.findall(r"\d+", text.rpartition(" ")[2]) for text in (version, expected))
    return numbers[: len(wanted)] == wanted
