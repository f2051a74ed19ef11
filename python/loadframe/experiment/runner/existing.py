"""Existing clusters of an experiment: attach to them, apply settings, fill collections, and restore their state."""

import contextlib
import hashlib
import json
import re
import secrets
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self

from loadframe.base import interrupts
from loadframe.base.errors import BadInput, LoadframeError, StoreFailed
from loadframe.base.units import counted, format_nodes
from loadframe.cluster import Cluster, access_to, require_reachable, share_a_node
from loadframe.experiment.design import Design, PlannedRun
from loadframe.experiment.experiment import Experiment
from loadframe.experiment.file.existing import below, scale_command
from loadframe.experiment.file.factors import COLLECTIONS, SETTINGS, WITH, Level
from loadframe.experiment.file.reader import with_keys
from loadframe.experiment.kinds.base import Stage
from loadframe.experiment.runner.ledger import (
    Changes,
    Ledger,
    announce,
    attempt,
    claim,
    drop_collections,
    has_leftovers,
    remove,
    undo,
)
from loadframe.experiment.runner.listener import Listener
from loadframe.experiment.runner.preflight import check_load
from loadframe.experiment.runner.session import Session
from loadframe.workload.collection_use import changes_data

#: Value of `store.prefix` for names as in the workload.
NO_PREFIX = "none"
#: Attempts to reach a cluster again after a failed run, and the pause between them, s.
_ATTEMPTS, _PAUSE = 3, 2.0


#: Time limit of a setting to take effect, and the interval between two reads, s.
_EFFECT_WITHIN, _POLL = 3.0, 0.05
#: Level of a setting after a failure.
_UNKNOWN = object()


class RuntimeSettings:
    """The settings of one cluster: their levels, their effects, and which ones differ from before the experiment.

    A level of None is the value before the experiment.
    """

    def __init__(self, ledger: Ledger) -> None:
        """`ledger` receives the values before the experiment."""
        self._ledger = ledger
        #: Values in effect, by setting and level as JSON, measured before the first run.
        self._effects: dict[tuple[str, str], str] = {}
        #: Levels that the cluster has now, by setting; missing ones are as before the experiment.
        self.applied: dict[str, Any] = {}

    def test(self, cluster: Cluster, levels: Mapping[str, Sequence[Any]]) -> None:
        """Set and read each level of each setting once, then restore it; BadInput if a level cannot be set."""
        before = cluster.store.running_settings(cluster.addresses, list(levels))
        self._ledger.changes.settings = {name: setting.explicit for name, setting in before.items()}
        self._ledger.write()
        for name, values in levels.items():
            for level in values:
                self._effects[name, json.dumps(level)] = self._set(cluster, name, level)
            self._set(cluster, name, None)

    def require_distinct(self, levels: Mapping[str, Sequence[Any]], where: str) -> None:
        """Raise BadInput if two tested levels of a setting have the same effect."""
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
        """Set the levels that the cluster does not have yet; StoreFailed if one has another effect than in the test."""
        for name, level in settings.items():
            if name in self.applied and self.applied[name] == level:
                continue
            value = self._set(cluster, name, level)
            expected = self._effects.get((name, json.dumps(level)))
            if expected is not None and value != expected:
                raise StoreFailed(
                    f"{name} has the value {value}, not {expected}, after it was set to {level}",
                    where=where,
                    remedy="check whether another client changes this setting",
                )

    def forget(self) -> None:
        """Apply all settings again before the next run."""
        self.applied = {name: None if level is None else _UNKNOWN for name, level in self.applied.items()}

    def changed(self) -> list[str]:
        """Return the settings that may differ from before the experiment."""
        return [name for name, level in self.applied.items() if level is not None]

    def _set(self, cluster: Cluster, name: str, level: Any) -> str:
        """Set a setting, or restore it if `level` is None; return the value in effect."""
        before, earlier = self._value(cluster, name), self.applied.get(name)
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
            value = self._value(cluster, name)
            if value == wanted or (wanted is None and value != before) or time.monotonic() > end:
                return value
            time.sleep(_POLL)

    @staticmethod
    def _value(cluster: Cluster, name: str) -> str:
        """Return the value in effect."""
        value: str = cluster.store.running_settings(cluster.addresses, [name])[name].value
        return value


class ClusterLost(StoreFailed):
    """The existing cluster no longer answers, so that no further run is possible."""


class NotRestored(LoadframeError):
    """All runs are recorded, but an existing cluster still has collections, settings or nodes of the experiment."""


def _settings(experiment: Experiment, treatment: Mapping[str, Level]) -> dict[str, Any]:
    """Return the settings of a treatment, or None for the value before the experiment."""
    settings = dict(experiment.cluster_spec(treatment)["settings"])
    names = [*(SETTINGS + name for name in experiment.file.store.settings), *treatment]
    nulls = {name.removeprefix(SETTINGS) for name in names if name.startswith(SETTINGS)} - set(settings)
    return {**settings, **dict.fromkeys(nulls)}


@dataclass
class _Target:
    """An existing cluster, and what the experiment has done with it."""

    hosts: list[str]
    name: str | None
    #: None before the first use, and after a failure.
    cluster: Cluster | None
    ledger: Ledger
    settings: RuntimeSettings

    @property
    def changes(self) -> Changes:
        """What the ledger lists."""
        return self.ledger.changes

    @property
    def text(self) -> str:
        """The cluster in messages."""
        return self.name or ", ".join(self.hosts)


class ExistingClusters:
    """The existing clusters of an experiment. On exit, removes its collections and restores settings and nodes.

    NotRestored if that fails; only a remark if another error ended the experiment.
    """

    def __init__(self, experiment: Experiment, path: Path, listener: Listener) -> None:
        """`path` is the experiment's folder, for messages of other commands."""
        self._experiment = experiment
        self._path = path
        self._listener = listener
        #: By kind and addresses; a named cluster has its name instead of addresses.
        self._targets: dict[tuple[str, str], _Target] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            # Otherwise the first wait of the restoration would raise it again.
            interrupts.answer()
        with interrupts.deferred():
            left = [text for target in self._targets.values() if (text := self._restore(target))]
        if not left:
            return
        command = ["loadframe", "run", str(self._experiment.document.path), "--output", str(self._path)]
        error = NotRestored(
            "; ".join(left), remedy=f"repair the cluster, then run `{shlex.join(command)}`, which cleans it up"
        )
        if kind is None:
            raise error
        with_keys(error)
        self._listener.remark(str(error))

    def restore_leftovers(self, design: Design) -> None:
        """Undo the changes that an earlier command of this experiment could not undo, if there are any."""
        if has_leftovers(self._path):
            for first, *_ in design.groups():
                if self._key(first.treatment) not in self._targets:
                    self._open(first.treatment, adopts=False)

    def identities(self, design: Design) -> dict[str, str]:
        """Return version and nodes of each cluster of the design, without a change to any of them.

        Omits clusters whose number of nodes the experiment sets. LoadframeError if one does not answer.
        """
        measured: dict[str, str] = {}
        store = self._experiment.file.store
        if store.expected_nodes is not None and self._can_resize():
            return measured
        for first, *_ in design.groups():
            key = self._key(first.treatment)
            if self._name(key) in measured:
                continue
            if store.cluster:
                # A stopped cluster is not started.
                version, nodes = Cluster.recorded_version(store.cluster), Cluster.recorded(store.cluster).nodes
            else:
                target = self._targets.get(key)
                cluster = (target and target.cluster) or self._attach(key)
                version, nodes = str(cluster.describe()["version"]), cluster.size
            measured[self._name(key)] = self._identity(version, nodes)
        return measured

    @staticmethod
    def _name(key: tuple[str, str]) -> str:
        """Return the name of a cluster in the sessions of the folder."""
        return f"{key[0]} at {key[1]} (existing cluster)"

    def survey(self, design: Design) -> dict[str, str]:
        """Attach to every cluster of the design and check it; return version and nodes of each.

        Removes leftovers of earlier commands. Tests each level of a setting, then restores it. BadInput, before the
        first run, if a cluster does not answer or is not as expected, or if a level cannot be set.
        """
        try:
            return self._survey(design)
        except BadInput:
            raise
        except LoadframeError as error:
            raise BadInput(error.what, where=error.where, remedy=error.remedy) from error

    def _survey(self, design: Design) -> dict[str, str]:
        identities: dict[str, str] = {}
        for first, *_ in design.groups():
            key = self._key(first.treatment)
            if key not in self._targets:
                target = self._open(first.treatment)
                assert target.cluster
                self._require_state(target, first)
                version = str(target.cluster.describe()["version"])
                identities[self._name(key)] = self._identity(version, target.cluster.size)
                self._test_settings(target, design)
        return identities

    def check_load(self, design: Design) -> None:
        """Raise BadInput if the load is invalid in every state; if only in some, their runs fail later."""
        refusals = []
        for first, *_ in design.groups():
            cluster, experiment = self._live(self._key(first.treatment)), self.adapted(self._experiment, first)
            try:
                workload = experiment.resolve(first.treatment, cluster.store.family, self._listener.step)
                phases = workload.preparing(experiment.prepared) if experiment.file.store.data != "reuse" else []
                phases += experiment.kind.phases(experiment, workload, first.treatment)
                generator = experiment.generator(first.treatment)
                return check_load(phases, cluster.store.driver, cluster.target(), generator, cluster.size)
            except BadInput as refusal:
                refusals.append(refusal)
        raise refusals[0]

    def provide(self, experiment: Experiment, run: PlannedRun) -> Cluster:
        """Return the cluster of a run with its number of nodes and settings.

        ClusterLost if it no longer answers; StoreFailed if it cannot be brought into that state.
        """
        key = self._key(run.treatment)
        cluster = self._live(key)
        target = self._targets[key]
        cluster = self._resize(target, cluster, self._wanted_nodes(run.treatment))
        target.settings.apply(cluster, _settings(experiment, run.treatment), target.text)
        started_with = dict(cluster.spec.settings) if cluster.spec else {}
        cluster.observed["settings"] = {**started_with, **target.settings.applied}
        return cluster

    def adapted(self, experiment: Experiment, run: PlannedRun) -> Experiment:
        """Return the experiment with the cluster's number of nodes, and the prefix of its collections."""
        target = self._targets[self._key(run.treatment)]
        assert target.cluster
        return replace(experiment, found_nodes=target.cluster.size, prefix=target.changes.prefix)

    def fill(self, stage: Stage, run: PlannedRun, session: Session) -> None:
        """Create and fill the collections of a run, unless they already have its data."""
        target = self._targets[self._key(run.treatment)]
        if self._experiment.file.store.data == "reuse":
            self._require_collections(target, session)
            return
        wanted = self._fingerprint(stage.experiment, run.treatment, stage.cluster)
        if target.changes.data == wanted and self._experiment.file.fills_once and self._intact(target, session):
            self._listener.step(f"using the data in {', '.join(target.changes.collections)} again")
            return
        self._drop(target)
        self._create(target, session)
        with TemporaryDirectory(prefix="loadframe-prepare-") as scratch:
            session.prepare(session.workload.preparing(self._experiment.prepared), Path(scratch))
        target.changes.documents = self._count(session)
        target.changes.data = wanted
        target.ledger.write()

    def count(self, run: PlannedRun, session: Session) -> None:
        """Count the documents before a run, for its manifest; StoreFailed if they changed without a reason."""
        target = self._targets[self._key(run.treatment)]
        counts, before = self._count(session), target.changes.documents
        prefix = target.changes.prefix
        documents = {name.removeprefix(prefix): count for name, count in counts.items()}
        session.cluster.observed |= {"documents": documents, "existing": True, "prefix": prefix}
        if changes_data(self._experiment.kind.phases(self._experiment, session.workload, run.treatment)):
            # Later runs in another state need the data as it was loaded.
            target.changes.data, target.changes.documents = None, {}
            target.ledger.write()
            return
        target.changes.documents = counts
        if not before or counts == before:
            return
        changed = "; ".join(
            f"{name} has {counted(counts[name], 'document')}, not {before.get(name, 0):,}"
            for name in counts
            if counts[name] != before.get(name)
        )
        if self._experiment.file.store.data == "reuse":
            self._listener.remark(f"another client changed the data before {run.id}: {changed}")
            return
        target.changes.data = None
        raise StoreFailed(
            f"another client changed the data of the experiment: {changed}",
            where=target.text,
            remedy="stop the other client",
        )

    def lost(self, run: PlannedRun) -> bool:
        """Return whether the cluster of a run no longer answers."""
        target = self._targets[self._key(run.treatment)]
        try:
            assert target.cluster
            target.cluster.health()
        except LoadframeError:
            return True
        return False

    def discard(self) -> None:
        """Attach to the clusters again before the next run, and fill them again."""
        for target in self._targets.values():
            if target.name is None:
                target.cluster = None
            target.changes.data = None
            target.settings.forget()

    def _key(self, treatment: Mapping[str, Level]) -> tuple[str, str]:
        store = self._experiment.file.store
        kind = self._experiment.cluster_spec(treatment)["store"]
        return kind, store.cluster or self._experiment.hosts(treatment)

    def _open(self, treatment: Mapping[str, Level], *, adopts: bool = True) -> _Target:
        """Attach to the cluster of a treatment for the first time, and undo leftovers of earlier commands.

        `adopts` allows the use of data that an earlier experiment kept.
        """
        key = self._key(treatment)
        store = self._experiment.file.store
        cluster = self._attach(key)
        hosts = [] if store.cluster else cluster.addresses
        prefix = store.prefix
        if prefix is None:
            prefix = NO_PREFIX if store.data == "reuse" else f"lf_{secrets.token_hex(3)}_"
        name = store.cluster or Cluster.name_at(hosts)
        changes = Changes(
            cluster.store.kind, hosts, name, str(self._path.absolute()), "" if prefix == NO_PREFIX else prefix
        )
        self._require_separate(hosts, name)
        wanted = self._adoptable(treatment, cluster) if adopts else None
        if store.cluster:
            # `_attach` has started a stopped cluster.
            changes.running, changes.nodes = not self._started, cluster.size
        ledger, earlier = claim(f"{changes.prefix or 'names-'}{secrets.token_hex(4)}", changes)
        target = _Target(hosts, store.cluster, cluster, ledger, RuntimeSettings(ledger))
        self._targets[key] = target
        for leftover in earlier:
            self._take_over(leftover, target, wanted)
        return target

    def _require_separate(self, hosts: Sequence[str], name: str | None) -> None:
        """Raise BadInput if another cluster of the experiment has one of these addresses, or this name."""
        for other in self._targets.values():
            if share_a_node(hosts, other.hosts) or (name and name == other.changes.cluster):
                raise BadInput(
                    f"{other.text} and {', '.join(hosts)} name the same {'cluster' if name else 'node'}",
                    where="store.hosts",
                    remedy="write the same addresses for the same cluster, and other addresses for another",
                )

    #: Whether the last `_attach` started a cluster of Loadframe that was stopped.
    _started = False

    def _attach(self, key: tuple[str, str]) -> Cluster:
        kind, where = key
        store = self._experiment.file.store
        if store.cluster:
            self._started = not Cluster.runs(where)
            if self._started:
                return Cluster.respawn(where, Cluster.recorded(where).nodes, self._listener.step)
            return Cluster.load(where)
        self._started = False
        paths = ("password_file", "api_key_file", "token_file", "ca", "cert", "key")
        given = {name: below(self._experiment, getattr(store, name)) for name in paths}
        plain = ("user", "aws_service", "aws_region", "aws_profile", "insecure", "compress")
        others = {name: getattr(store, name) for name in plain}
        addresses, access = access_to(kind, where, {**given, **others}, self._listener.remark)
        require_reachable(addresses, access)
        return Cluster.attach(addresses, kind, access, scale_command(self._experiment))

    def _live(self, key: tuple[str, str]) -> Cluster:
        """Return the cluster, attached again after a failure; ClusterLost if it does not answer."""
        target = self._targets[key]
        if target.cluster is not None and target.name is not None and not Cluster.runs(target.name):
            target.cluster = None
        attempts = 1
        while target.cluster is None:
            interrupts.check()
            try:
                target.cluster = self._attach(key)
            except LoadframeError as error:
                if attempts == _ATTEMPTS:
                    raise ClusterLost(
                        f"the cluster is lost: {error.what}",
                        where=target.text,
                        remedy="repair it, then repeat the command to resume; --retry-failed repeats failed runs",
                    ) from error
                attempts += 1
                time.sleep(_PAUSE)
        return target.cluster

    def _identity(self, version: str, nodes: int) -> str:
        """Return what must be equal in all sessions of the experiment: version, and the number of nodes if fixed."""
        scaled = any(factor.name == "nodes" for factor in self._experiment.factors)
        return version if scaled or self._experiment.file.kind == "elastic" else f"{version}, {format_nodes(nodes)}"

    def _require_state(self, target: _Target, run: PlannedRun) -> None:
        """Raise BadInput if version, nodes, health or collections are not as the experiment expects."""
        cluster, file = target.cluster, self._experiment.file
        assert cluster
        version = str(cluster.describe()["version"])
        if file.store.version is not None and not _is_version(version, file.store.version):
            raise BadInput(
                f"the cluster runs {cluster.store.kind} {version}, not {file.store.version}",
                where=target.text,
                remedy="correct store.version, or name another cluster",
            )
        expected = self._wanted_nodes(run.treatment)
        if expected is not None and expected != cluster.size and not self._can_resize():
            raise BadInput(
                f"the cluster has {format_nodes(cluster.size)}, not {expected}",
                where=target.text,
                remedy="repair it, or correct the number of nodes in the experiment",
            )
        _, unready = cluster.differences()
        if unready and not file.allow_bad:
            raise BadInput(
                f"the cluster is not ready: {'; '.join(unready)}",
                where=target.text,
                remedy="repair it, or accept its state with allow_bad: true",
            )
        adapted = self.adapted(self._experiment, run)
        collections = adapted.resolve(run.treatment, cluster.store.family, self._listener.step).collections
        present = [
            name for name in collections if cluster.has_collection(name) and name not in target.changes.collections
        ]
        if file.store.data == "reuse":
            missing = [name for name in collections if name not in present]
            if missing:
                raise BadInput(
                    f"the cluster does not have {', '.join(missing)}",
                    where=target.text,
                    remedy="create and fill it, or set data: new",
                )
        elif present:
            raise _exists_already(present, target)

    def _can_resize(self) -> bool:
        return bool(self._experiment.file.store.cluster or self._experiment.file.store.scale_command)

    def _wanted_nodes(self, treatment: Mapping[str, Level]) -> int | None:
        nodes = treatment.get("nodes") or self._experiment.file.store.expected_nodes
        return None if nodes is None else int(nodes)

    def _resize(self, target: _Target, cluster: Cluster, nodes: int | None) -> Cluster:
        """Return the cluster with another number of nodes: by the user's command, or stopped and started again."""
        if target.name is not None and any(not node.alive or node.paused or node.cut for node in cluster.nodes):
            # An earlier run has left it damaged.
            target.cluster = None
            target.cluster = cluster = Cluster.respawn(target.name, nodes or cluster.size, self._listener.step)
        if nodes is None or nodes == cluster.size:
            return cluster
        if target.changes.nodes is None:
            target.changes.nodes = cluster.size
            target.ledger.write()
        if target.name is None:
            cluster.resize(nodes, self._listener.step)
            return cluster
        target.cluster = None
        target.cluster = Cluster.respawn(target.name, nodes, self._listener.step)
        return target.cluster

    def _test_settings(self, target: _Target, design: Design) -> None:
        """Set and read each level of each setting once, then restore it; BadInput for levels with the same effect."""
        assert target.cluster
        levels: dict[str, list[Any]] = {}
        for run in design.runs:
            if self._targets.get(self._key(run.treatment)) is target:
                for name, level in _settings(self._experiment, run.treatment).items():
                    if level not in levels.setdefault(name, []):
                        levels[name].append(level)
        if not levels:
            return
        self._listener.step(f"testing {counted(len(levels), 'setting')}")
        try:
            target.settings.test(target.cluster, levels)
        except BadInput as error:
            raise BadInput(
                error.what, where=f"{self._experiment.document.path}: store.settings", remedy=error.remedy
            ) from error
        target.settings.require_distinct(levels, target.text)

    # Collections

    def _fingerprint(self, experiment: Experiment, treatment: Mapping[str, Level], cluster: Cluster) -> str:
        """Return a hash of everything that determines the data of a run."""
        experiment = replace(experiment, prefix="")
        workload = experiment.resolve(treatment, cluster.store.family, self._listener.step)
        phases = workload.preparing(experiment.prepared)
        described = {
            "collections": dict(workload.collections),
            "phases": [phase.describe() for phase in phases],
            "corpora": workload.describe()["corpora"],
            "seed": experiment.seed,
        }
        text = json.dumps(described, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()

    def _intact(self, target: _Target, session: Session) -> bool:
        """Return whether the collections exist and have the documents that were loaded."""
        with contextlib.suppress(LoadframeError):
            return set(session.workload.collections) == set(target.changes.collections) and (
                self._count(session) == target.changes.documents
            )
        return False

    def _count(self, session: Session) -> dict[str, int]:
        return {name: session.cluster.count(name) for name in session.workload.collections}

    def _create(self, target: _Target, session: Session) -> None:
        names = list(session.workload.collections)
        present = [name for name in names if session.cluster.has_collection(name)]
        if present:
            raise _exists_already(present, target)
        # Before the collections exist, so that a killed command leaves none that is not listed.
        target.changes.collections, target.changes.creating = names, True
        target.ledger.write()
        session.create_collections()
        target.changes.creating = False
        target.ledger.write()

    def _require_collections(self, target: _Target, session: Session) -> None:
        missing = [name for name in session.workload.collections if not session.cluster.has_collection(name)]
        if missing:
            raise StoreFailed(f"the cluster no longer has {', '.join(missing)}", where=target.text)

    def _drop(self, target: _Target) -> None:
        """Drop the collections that the experiment created."""
        assert target.cluster
        drop_collections(target.cluster, target.changes, self._listener)
        target.ledger.write()

    # The end, and leftovers

    def _restore(self, target: _Target) -> str | None:
        """Remove the experiment's collections, and restore settings, nodes and state.

        On failure, keeps the ledger, and returns the cause with a list of the remaining changes.
        """
        changes = target.changes
        keep = self._experiment.file.store.data == "keep" and changes.data is not None
        try:
            cluster = self._live(self._key_of(target))
            attempt(
                lambda: undo(cluster, changes, self._listener, keep=keep, only=target.settings.changed()),
                lambda: self._leave_as_found(target),
            )
            if keep and changes.collections:
                changes.kept, changes.nodes = True, None
                target.ledger.write()
        except (LoadframeError, KeyboardInterrupt) as error:
            with contextlib.suppress(LoadframeError):
                target.ledger.write()
            target.ledger.release()
            return _unrestored_text(target, error.what if isinstance(error, LoadframeError) else "interrupted")
        if not changes.kept:
            target.ledger.delete()
            return None
        target.ledger.release()
        self._listener.remark(
            f"kept {', '.join(changes.collections)} on {target.text}; an experiment with the same data and"
            " data: new uses and then removes it"
        )
        return None

    def _key_of(self, target: _Target) -> tuple[str, str]:
        return next(key for key, other in self._targets.items() if other is target)

    def _leave_as_found(self, target: _Target) -> None:
        """Give the cluster its number of nodes from before the experiment; stop a named one that was stopped."""
        cluster, changes = target.cluster, target.changes
        assert cluster
        if target.name is None:
            if changes.nodes not in (None, cluster.size):
                cluster.resize(changes.nodes, self._listener.step)
            return
        if changes.nodes is not None and cluster.size != changes.nodes:
            cluster = Cluster.respawn(target.name, changes.nodes, self._listener.step)
        if changes.running:
            cluster.keep()
        else:
            cluster.stop()
        target.cluster = None

    def _adoptable(self, treatment: Mapping[str, Level], cluster: Cluster) -> str | None:
        """Return the fingerprint of data that the experiment may adopt; None if its runs need or make other data."""
        experiment = replace(self._experiment, found_nodes=cluster.size)
        if not experiment.file.fills_once or experiment.file.store.prefix is not None:
            return None
        shaping = experiment.workload.shaping(experiment.prepared)
        for factor in experiment.factors:
            if factor.name.startswith(COLLECTIONS) or factor.name.removeprefix(WITH) in shaping:
                return None
        workload = experiment.resolve(treatment, cluster.store.family, self._listener.step)
        if changes_data(experiment.kind.phases(experiment, workload, treatment)):
            return None
        return self._fingerprint(experiment, treatment, cluster)

    def _take_over(self, leftover: Ledger, target: _Target, wanted: str | None) -> None:
        """Undo the changes of an earlier command, or adopt the collections that it kept if they are as wanted."""
        earlier, changes, cluster = leftover.changes, target.changes, target.cluster
        assert cluster
        if earlier.kept and (wanted is None or earlier.data != wanted or changes.collections):
            leftover.release()
            return
        if earlier.kept:
            changes.prefix, changes.collections = earlier.prefix, earlier.collections
            changes.data, changes.documents = earlier.data, earlier.documents
        elif not self._can_resize():
            remove(leftover, cluster, self._listener)
            return
        else:
            announce(leftover, self._listener)
            undo(cluster, earlier, self._listener)
            if earlier.nodes is not None and scale_command(self._experiment):
                cluster.resize(earlier.nodes, self._listener.step)
            if earlier.nodes is not None:
                changes.nodes = earlier.nodes
            if earlier.running is not None:
                changes.running = earlier.running
        # A command that is killed between these steps leaves no collection without a ledger.
        target.ledger.write()
        leftover.delete()


def _unrestored_text(target: _Target, why: str) -> str:
    """Return the remaining changes of the experiment in words, with the cause."""
    changes = target.changes
    left = []
    if changes.collections and not changes.kept:
        left.append(f"the collections {', '.join(changes.collections)}")
    if changes.settings:
        left.append(f"the changed settings {', '.join(changes.settings)}")
    if changes.nodes is not None:
        left.append(f"another number of nodes than {changes.nodes}")
    text = f"could not restore {target.text}: {why}"
    return f"{text}. It still has {', and '.join(left)}" if left else text


def _exists_already(names: Sequence[str], target: _Target) -> BadInput:
    return BadInput(
        f"the cluster already has {', '.join(names)}, which this experiment did not create",
        where=target.text,
        remedy="leave store.prefix out, so that the experiment uses other names; or set data: reuse to use the data",
    )


def _is_version(version: str, expected: str) -> bool:
    """Return whether a version, without a product's name, begins with the numbers of another."""
    numbers, wanted = (re.findall(r"\d+", text.rpartition(" ")[2]) for text in (version, expected))
    return numbers[: len(wanted)] == wanted
