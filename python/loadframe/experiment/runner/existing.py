"""Existing clusters of an experiment: attach to them, apply settings, fill collections, and restore their state."""

import contextlib
import hashlib
import json
import secrets
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self

from loadframe.analyze.telemetry import UPTIME
from loadframe.base import interrupts
from loadframe.base.errors import BadInput, LoadframeError, StoreFailed, before_start
from loadframe.base.units import counted, format_nodes
from loadframe.cluster import Cluster, access_to, require_reachable, share_a_node
from loadframe.experiment.design import Design, PlannedRun
from loadframe.experiment.experiment import Experiment
from loadframe.experiment.file.elastic import ElasticFile
from loadframe.experiment.file.existing import below, not_observed, scale_command
from loadframe.experiment.file.factors import COLLECTIONS, SETTINGS, WITH, Level
from loadframe.experiment.file.reader import with_keys
from loadframe.experiment.kinds.base import Stage
from loadframe.experiment.runner.existing_cluster import ExistingCluster, RuntimeSettings, count_documents, difference
from loadframe.experiment.runner.ledger import (
    Changes,
    Ledger,
    announce,
    attempt,
    claim,
    drop_collections,
    has_leftovers,
    remove,
    restore_settings,
)
from loadframe.experiment.runner.listener import Listener
from loadframe.experiment.runner.preflight import check_load
from loadframe.experiment.runner.session import Session
from loadframe.workload.collection_use import changes_data, warms

#: Value of `store.prefix` for names as in the workload.
NO_PREFIX = "none"
#: Attempts to reach a cluster again after a failed run, and the pause between them, s.
_ATTEMPTS, _PAUSE = 3, 2.0


class ClusterLost(StoreFailed):
    """The existing cluster no longer answers, so that no further run is possible."""


class NotRestored(LoadframeError):
    """All runs are recorded, but an existing cluster still has collections, settings or nodes of the experiment."""


def _settings(experiment: Experiment, treatment: Mapping[str, Level]) -> dict[str, Any]:
    """Return the settings of a treatment by name; a null one is None, for the value before the experiment."""
    settings = dict(experiment.cluster_spec(treatment)["settings"])
    names = [*(SETTINGS + name for name in experiment.file.store.settings), *treatment]
    nulls = {name.removeprefix(SETTINGS) for name in names if name.startswith(SETTINGS)} - set(settings)
    return {**settings, **dict.fromkeys(nulls)}


def _settings_of_steps(experiment: Experiment, transition: str | None = None) -> list[str]:
    """Return the names of the settings that steps set in a transition, by default in any; empty for other kinds."""
    if not isinstance(experiment.file, ElasticFile):
        return []
    transitions = experiment.file.transitions
    chosen = transitions.values() if transition is None else [transitions[transition]]
    return list(dict.fromkeys(name for one in chosen for step in one.timeline or () for name in step.set or ()))


class ExistingClusters:
    """The existing clusters of an experiment. On exit, removes its collections and restores settings and nodes.

    NotRestored if that fails; only a remark if another error ended the experiment. The `key` of a cluster is the kind
    of its store and its addresses or its name.
    """

    def __init__(self, experiment: Experiment, path: Path, listener: Listener) -> None:
        """Attach to no cluster yet. `path` is the experiment's folder, which identifies its ledgers."""
        self._experiment = experiment
        self._path = path
        self._listener = listener
        #: By kind and addresses; a named cluster has its name instead of addresses.
        self._targets: dict[tuple[str, str], ExistingCluster] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Restore every cluster; NotRestored if that fails, but only a remark if the block raised.

        Adds the remaining changes to a ClusterLost that the block raised, instead of a remark.
        """
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            # Otherwise the first wait of the restoration would raise it again.
            interrupts.answer()
        with interrupts.deferred():
            unrestored = [(target, text) for target in self._targets.values() if (text := self._restore(target))]
        command = shlex.join(["loadframe", "run", str(self._experiment.document.path), "--output", str(self._path)])
        left = []
        for target, text in unrestored:
            if isinstance(value, ClusterLost) and value.where == target.text:
                value.what += target.remaining
                value.remedy = (
                    f"repair it, then run `{command}`, which cleans it up, keeps the recorded runs and makes the"
                    " others; --retry-failed repeats failed runs"
                )
            else:
                left.append(text)
        if not left:
            return
        error = NotRestored("; ".join(left), remedy=f"repair the cluster, then run `{command}`, which cleans it up")
        if kind is None:
            raise error
        with_keys(error)
        self._listener.remark(str(error))

    def restore_leftovers(self, design: Design) -> None:
        """Undo the changes that an earlier command of this experiment could not undo, if a ledger lists any.

        Attaches to every cluster of the design for this. LoadframeError on failure.
        """
        if has_leftovers(self._path):
            for first, *_ in design.groups():
                if self._key(first.treatment) not in self._targets:
                    self._open(first.treatment, adopts=False)

    def identities(self, design: Design) -> dict[str, str]:
        """Return version and nodes of each cluster of the design, by its name; changes no cluster.

        Empty if runs may change the number of nodes: the file sets it, and the cluster has a name or a
        `scale_command`. LoadframeError if a cluster does not answer.
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
        """Return the name of a cluster in the sessions of the folder, from store kind and its own name or addresses."""
        return f"{key[0]} at {key[1]} (existing cluster)"

    def survey(self, design: Design) -> dict[str, str]:
        """Attach to every cluster of the design and check it; return version and nodes of each, by `_name`.

        Removes leftovers of earlier commands. Tests each level of a setting, then restores it. BadInput, before the
        first run, if a cluster does not answer or is not as expected, or if a level cannot be set.
        """
        with before_start():
            return self._survey(design)

    def _survey(self, design: Design) -> dict[str, str]:
        """Do the work of `survey`; a cluster that does not answer is a LoadframeError, not BadInput."""
        identities: dict[str, str] = {}
        for first, *_ in design.groups():
            key = self._key(first.treatment)
            if key not in self._targets:
                target = self._open(first.treatment)
                assert target.cluster
                self._require_state(target, first)
                for words in not_observed(self._experiment) if not identities else ():
                    self._listener.remark(words)
                if unnamed := target.cluster.unnamed_nodes():
                    self._listener.remark(unnamed)
                self._remark_on_statistics(target)
                version = str(target.cluster.describe()["version"])
                identities[self._name(key)] = self._identity(version, target.cluster.size)
                self._remark_on_ages(target)
                self._test_settings(target, design)
        return identities

    def _remark_on_statistics(self, target: ExistingCluster) -> None:
        """Warn if the cluster shows no statistics of its nodes, and which figures it refuses to show."""
        assert target.cluster
        why = "the store reports none"
        try:
            figures = target.cluster.statistics()
        except LoadframeError as error:
            figures, why = {}, error.what
        if hidden := target.cluster.store.hidden:
            self._listener.remark(f"not observed: {' and '.join(hidden)}: {target.text} does not show them")
        elif not figures:
            self._listener.remark(f"not observed: statistics of the nodes of {target.text}: {why}")

    def _remark_on_ages(self, target: ExistingCluster) -> None:
        """Warn if `scale_command` starts nodes, the store speeds up after a start, and no node reports its uptime."""
        cluster = target.cluster
        assert cluster
        if not self._experiment.file.store.scale_command or not cluster.store.ages:
            return
        with contextlib.suppress(LoadframeError):
            if any(UPTIME in figures for figures in cluster.statistics().values()):
                return
        self._listener.remark(
            f"a node of {cluster.store.kind} gets faster for minutes after its start, and the start times of its nodes"
            " cannot be observed: load nodes that scale_command starts before their runs, in a phase of prepare"
        )

    def check_load(self, design: Design) -> None:
        """Raise BadInput if the load is invalid in every cluster state; if only in some, their runs fail later."""
        refusals = []
        for first, *_ in design.groups():
            cluster, experiment = self._live(self._key(first.treatment)), self.adapted(self._experiment, first)
            try:
                workload = experiment.resolve(first.treatment, cluster.store.family, self._listener.step)
                phases = workload.preparing(experiment.prepared)
                if experiment.file.store.data == "reuse":
                    phases = [phase for phase in phases if warms(phase)]
                phases += experiment.kind.phases(experiment, workload, first.treatment)
                generator = experiment.generator(first.treatment)
                return check_load(phases, cluster.store.driver, cluster.target(), generator, cluster.size, cluster.spec)
            except BadInput as refusal:
                refusals.append(refusal)
        raise refusals[0]

    def provide(self, experiment: Experiment, run: PlannedRun) -> Cluster:
        """Return the cluster of a run, after changing it to the run's number of nodes and settings; requires `survey`.

        Records the settings in `observed`, and notes changes that the run's events can make, for the next run to undo.
        ClusterLost if it no longer answers; StoreFailed if a setting has another effect than in the test;
        LoadframeError if another change fails.
        """
        key = self._key(run.treatment)
        cluster = self._live(key)
        target = self._targets[key]
        target.used = True
        cluster = target.resize(cluster, self._wanted_nodes(run.treatment), self._listener.step)
        if run.treatment.get("event") and self._can_resize():
            # Its timeline may change the number.
            target.note_nodes(cluster)
        target.settings.apply(cluster, _settings(experiment, run.treatment), target.text)
        started_with = dict(cluster.spec.settings) if cluster.spec else {}
        applied = {name: level for name, level in target.settings.applied.items() if level is not None}
        # None stands for the value before the experiment, which is known of the settings that it was started with.
        cluster.observed["settings"] = {**dict.fromkeys(target.settings.applied), **started_with, **applied}
        if run.treatment.get("event"):
            # The next run restores them.
            target.settings.may_change(_settings_of_steps(experiment, str(run.treatment["transition"])))
        return cluster

    def adapted(self, experiment: Experiment, run: PlannedRun) -> Experiment:
        """Return a copy of the experiment with node count and collection prefix of the run's attached cluster."""
        target = self._targets[self._key(run.treatment)]
        assert target.cluster
        return replace(experiment, found_nodes=target.cluster.size, prefix=target.changes.prefix)

    def fill(self, stage: Stage, run: PlannedRun, session: Session) -> None:
        """Drop the collections of earlier runs, then create and fill the collections of a run; write the ledger.

        With `prepare: once` or `data: keep`, collections that hold the run's data stay. With `data: reuse`, only checks
        that they exist. Then only the warming phases run, unless they ran last in the same state: another state may
        have emptied caches. LoadframeError if it fails.
        """
        target = self._targets[self._key(run.treatment)]
        phases = session.workload.preparing(self._experiment.prepared)
        warming = [phase for phase in phases if warms(phase)]
        described = [_settings(self._experiment, run.treatment), [phase.describe() for phase in warming]]
        state = json.dumps(described, sort_keys=True, default=str)
        cold = [] if state == target.warmed else warming
        target.warmed = None
        wanted = None
        if self._experiment.file.store.data == "reuse":
            target.require_collections(session)
            phases = cold
        else:
            wanted = self._fingerprint(stage.experiment, run.treatment, stage.cluster)
            if target.changes.data == wanted and self._experiment.file.fills_once and target.intact(session):
                self._listener.step(f"using the data in {', '.join(target.changes.collections)} again")
                phases, wanted = cold, None
            else:
                target.drop(self._listener)
                target.create(session)
        with TemporaryDirectory(prefix="loadframe-prepare-") as scratch:
            session.prepare(phases, Path(scratch))
        # Transitions may restart nodes.
        if not isinstance(self._experiment.file, ElasticFile):
            target.warmed = state
        if wanted is not None:
            target.changes.documents = count_documents(session)
            target.changes.data = wanted
            target.ledger.write()

    def count(self, run: PlannedRun, session: Session) -> None:
        """Count the documents before a run, and store the counts in the cluster's `observed`, for the run's manifest.

        First sets settings again that a node has lost. StoreFailed if the counts differ from those after filling, or
        before the previous run: another client changed the data. With `data: reuse`, that is only a remark. If the
        run's load changes data, its counts are stored but not compared. Then, and after StoreFailed, the data no longer
        counts as loaded, so the next `fill` loads it again, except with `data: reuse`.
        """
        target = self._targets[self._key(run.treatment)]
        if lost := target.settings.renew(session.cluster, target.text):
            self._listener.remark(f"set {', '.join(lost)} again before {run.id}: a node had lost the value")
        counts, before = count_documents(session), target.changes.documents
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
        changed = difference(counts, before)
        if self._experiment.file.store.data == "reuse":
            self._listener.remark(f"another client changed the data before {run.id}: {changed}")
            return
        target.changes.data = None
        raise StoreFailed(
            f"another client changed the data of the experiment: {changed}",
            where=target.text,
            remedy="stop the other client; if the store evicts documents, give it more memory",
        )

    def lost(self, run: PlannedRun) -> bool:
        """Return whether the cluster of a run no longer answers a health check."""
        target = self._targets[self._key(run.treatment)]
        try:
            assert target.cluster
            target.cluster.health()
        except LoadframeError:
            return True
        return False

    def discard(self) -> None:
        """Make the next run fill its cluster and apply its settings again; attach to it again, unless it has a name."""
        for target in self._targets.values():
            if target.name is None and target.cluster:
                target.uncertain, target.cluster = target.cluster.uncertain, None
            target.changes.data = None
            target.forget()

    def _key(self, treatment: Mapping[str, Level]) -> tuple[str, str]:
        """Return the kind of a treatment's store, and the cluster's name or else its addresses."""
        store = self._experiment.file.store
        kind = self._experiment.cluster_spec(treatment)["store"]
        return kind, store.cluster or self._experiment.hosts(treatment)

    def _open(self, treatment: Mapping[str, Level], *, adopts: bool = True) -> ExistingCluster:
        """Attach to a treatment's cluster for the first time, create its ledger, and undo earlier leftovers.

        `adopts` allows the use of data that an earlier experiment kept. BadInput if another command uses the cluster.
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
        target = ExistingCluster(hosts, store.cluster, cluster, ledger, RuntimeSettings(ledger))
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
        """Return the cluster at the addresses of `key`, or the named one, which is started if it does not run.

        Stores in `_started` whether it was started. LoadframeError if it does not answer or start.
        """
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
        """Return the cluster, attached again after a failure; ClusterLost if three attempts, 2 s apart, fail."""
        target = self._targets[key]
        if target.cluster is not None and target.name is not None and not Cluster.runs(target.name):
            target.cluster = None
        attempts = 1
        while target.cluster is None:
            interrupts.check()
            try:
                target.cluster = self._attach(key)
                target.cluster.uncertain = target.uncertain
                if self._started:
                    target.forget()
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
        """Return the text that must be equal in all sessions of a folder: version, and a fixed number of nodes."""
        scaled = any(factor.name == "nodes" for factor in self._experiment.factors)
        return version if scaled or self._experiment.file.kind == "elastic" else f"{version}, {format_nodes(nodes)}"

    def _require_state(self, target: ExistingCluster, run: PlannedRun) -> None:
        """Raise BadInput if version, nodes, health or collections of the cluster are not as the run expects.

        Nodes: the wanted number, unless it can be changed. Health: ready, unless `allow_bad`. Collections: those of the
        run must exist with `data: reuse`; otherwise none may exist that the experiment did not create.
        """
        cluster, file = target.cluster, self._experiment.file
        assert cluster
        if file.store.version is not None:
            target.require_version(cluster, file.store.version)
        expected = self._wanted_nodes(run.treatment)
        if expected is not None and expected != cluster.size and not self._can_resize():
            raise BadInput(
                f"the cluster has {format_nodes(cluster.size)}, not {expected}",
                where=target.text,
                remedy="repair it, or correct the number of nodes in the experiment",
            )
        _, unready = cluster.differences()
        if unready and not file.allow_bad:
            accept = "" if file.kind == "elastic" else ", or accept its state with allow_bad: true"
            raise BadInput(
                f"the cluster is not ready: {'; '.join(unready)}",
                where=target.text,
                remedy=f"repair it{accept}{cluster.access.status_hint}",
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
            raise target.exists_already(present)

    def _can_resize(self) -> bool:
        """Return whether the number of nodes can be changed: the cluster has a name, or the file a `scale_command`."""
        return bool(self._experiment.file.store.cluster or self._experiment.file.store.scale_command)

    def _wanted_nodes(self, treatment: Mapping[str, Level]) -> int | None:
        """Return the number of nodes that the treatment or the file sets; None if neither does."""
        nodes = treatment.get("nodes") or self._experiment.file.store.expected_nodes
        return None if nodes is None else int(nodes)

    def _test_settings(self, target: ExistingCluster, design: Design) -> None:
        """Set and read each level of each setting once, then restore it; BadInput for levels with the same effect.

        Settings of steps are only read, because a level may move data. Only runs of `design` on this cluster count.
        """
        assert target.cluster
        if names := _settings_of_steps(self._experiment):
            target.settings.note(target.cluster, names)
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
        """Return a hash of everything that determines a run's data: collections, filling phases, corpora and seed.

        The prefix of the collections does not count.
        """
        experiment = replace(experiment, prefix="")
        workload = experiment.resolve(treatment, cluster.store.family, self._listener.step)
        phases = workload.preparing(experiment.prepared)
        described = {
            "collections": dict(workload.collections),
            "phases": [phase.describe() for phase in phases if not warms(phase)],
            "corpora": workload.describe()["corpora"],
            "seed": experiment.seed,
        }
        text = json.dumps(described, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()

    # The end, and leftovers

    def _restore(self, target: ExistingCluster) -> str | None:
        """Remove the experiment's collections, and restore settings, nodes and state; return None.

        With `data: keep`, loaded collections stay. On failure or an interrupt, keeps the ledger, and returns the cause
        with a list of the remaining changes.
        """
        changes = target.changes
        keep = self._experiment.file.store.data == "keep" and changes.data is not None
        try:
            self._live(self._key_of(target))
            # Settings come last, because a restart or a new node can lose them.
            attempt(
                *([] if keep else [lambda: target.drop(self._listener)]),
                lambda: target.restore_nodes(self._listener.step),
                lambda: target.restore_settings(self._listener),
                target.leave,
            )
            if keep and changes.collections:
                changes.kept = True
                target.ledger.write()
        except (LoadframeError, KeyboardInterrupt) as error:
            with contextlib.suppress(LoadframeError):
                target.ledger.write()
            target.ledger.release()
            return target.unrestored(error.what if isinstance(error, LoadframeError) else "interrupted")
        if not changes.kept:
            target.ledger.delete()
            return None
        target.ledger.release()
        self._listener.remark(
            f"kept {', '.join(changes.collections)} on {target.text}; an experiment with the same data and"
            " data: new uses and then removes it"
        )
        return None

    def _key_of(self, target: ExistingCluster) -> tuple[str, str]:
        """Return the key (kind of store, and name or addresses) of a target in `_targets`."""
        return next(key for key, other in self._targets.items() if other is target)

    def _adoptable(self, treatment: Mapping[str, Level], cluster: Cluster) -> str | None:
        """Return the fingerprint of the data that the experiment may adopt from an earlier one, or None.

        None without `prepare: once` or `data: keep`, if the file sets a prefix, and if factors or the load change the
        data.
        """
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

    def _take_over(self, leftover: Ledger, target: ExistingCluster, wanted: str | None) -> None:
        """Undo the changes of an earlier command and delete its ledger, or adopt the collections that it kept.

        Collections kept on purpose are adopted if their fingerprint is `wanted` and none were adopted before; else they
        stay, and so does the ledger.
        """
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
            settings = dict(earlier.settings)
            # First, so that the end of this command repeats a failed restoration.
            if earlier.nodes is not None:
                changes.nodes = earlier.nodes
            if earlier.running is not None:
                changes.running = earlier.running
            # Its runs may have damaged the nodes.
            target.used = True
            attempt(
                lambda: drop_collections(cluster, earlier, self._listener),
                lambda: self._restore_nodes(cluster, earlier),
                lambda: restore_settings(cluster, earlier, self._listener),
            )
            target.settings.adopt(settings)
        # A command that is killed between these steps leaves no collection without a ledger.
        target.ledger.write()
        leftover.delete()

    def _restore_nodes(self, cluster: Cluster, earlier: Changes) -> None:
        """Give the cluster the number of nodes from before an earlier command, with `scale_command`.

        Does nothing without `scale_command`, or if that command noted no number. LoadframeError if the command fails.
        """
        if earlier.nodes is not None and scale_command(self._experiment):
            # The command of the ledger may have failed, or been killed.
            cluster.uncertain = True
            cluster.resize(earlier.nodes, self._listener.step)
