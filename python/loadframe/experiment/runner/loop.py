"""Loop over the runs of an experiment: prepare the cluster, record the run, resume.

A cluster is grown where that is equal to a new one: in the same block, to more nodes and nothing else, of a store whose
nodes are the same at any age. Its data are dropped before, so that they are loaded as they would be into a new one.
Nodes join one after the other, while those of a new cluster start at once: one node is added, and for more a new
cluster is started.

What is done is what is in the folder: a run counts as done when its folder is there, so a loop that was killed at
any instant goes on with the run that was in flight.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self

from loadframe.base import interrupts
from loadframe.base.errors import BadInput, LoadframeError
from loadframe.cluster import Cluster, ClusterSpec, DiskLimits, Encryption, Limits, Placement, Shape
from loadframe.experiment.design.estimate import length_is_known, run_seconds
from loadframe.experiment.design.runs import Design, PlannedRun
from loadframe.experiment.experiment import Experiment
from loadframe.experiment.file.factors import Level
from loadframe.experiment.file.model import REMOTE_HOSTS
from loadframe.experiment.runner.deadline import NEVER, Deadline, OutOfTime
from loadframe.experiment.runner.folder import ExperimentFolder
from loadframe.experiment.runner.listener import Listener
from loadframe.experiment.runner.preflight import check_load
from loadframe.experiment.runner.stage import Stage, labels_of, seed_of
from loadframe.load import present
from loadframe.record.fingerprint import instrument

#: More nodes than this are ready sooner in a new cluster (MongoDB, on two cores: 6 s for each that joins).
_MAX_ADDED = 1


class ClusterHolder:
    """At most one cluster at a time, which ends with this; `grown` says whether one may be grown at all."""

    def __init__(self, listener: Listener, *, grown: bool) -> None:
        self._listener = listener
        self._grown = grown
        self._cluster: Cluster | None = None
        self._spec: ClusterSpec | None = None
        self._block: int | None = None
        self._collections: tuple[str, ...] = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.discard()

    def provide(self, spec: ClusterSpec, block: int) -> Cluster:
        """Return a cluster as asked for, empty and without its CPU quota: filling through one takes long."""
        if not self._grow(spec, block):
            self.discard()
            self._cluster = Cluster.start(spec, self._listener.step)
            self._cluster.throttle(False)
        self._spec, self._block = spec, block
        assert self._cluster
        return self._cluster

    def set_collections(self, collections: Iterable[str]) -> None:
        """Take note of what the cluster holds by now."""
        self._collections = tuple(collections)

    def discard(self) -> None:
        """Stop the cluster, if there is one: the next gets a new one."""
        cluster, self._cluster, self._collections = self._cluster, None, ()
        if cluster:
            cluster.stop()

    def _grow(self, spec: ClusterSpec, block: int) -> bool:
        """Grow the cluster to what is asked for; False if that is not equal, or not possible."""
        cluster, before = self._cluster, self._spec
        if cluster is None or before is None or not self._grown or block != self._block:
            return False
        more = spec.nodes - before.nodes
        if not 1 <= more <= _MAX_ADDED or replace(spec, nodes=before.nodes) != before or cluster.store.ages:
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


#: The factors that decide which software is needed.
_SOFTWARE_FACTORS = ("store.kind", "store.version", "store.encryption")
#: How many clusters in turn may fail before a run is recorded before the state that they should bring is given up.
_MAX_STARTS = 2


def run_experiment(
    experiment: Experiment, design: Design, folder: ExperimentFolder, listener: Listener, deadline: Deadline = NEVER
) -> None:
    """Record every run of the design that the folder does not hold yet.

    Then follow the runs that its kind draws from those. A run that fails, or whose cluster does not come up in two
    attempts, is recorded as failed, and the rest goes on. An interrupt leaves the folder without the run in flight, and
    goes on to the caller. BadInput if this machine lacks something that every run needs; then no run is made. OutOfTime
    when the deadline is too near for the next run.
    """
    done = sum(folder.has(run.id) for run in design.runs)
    if done == len(design.runs) and not _next_runs(experiment, folder):
        listener.remark(f"all {done} runs are recorded already")
        return
    for run in design.runs:
        # BadInput if fewer ranks were started than it wants.
        experiment.generator(run.treatment).members()
    _require_machines(experiment, design)
    stores, versions = _find_software(experiment, design, listener)
    _check_load(experiment, design, stores, listener)
    if changed := folder.begin_session(versions | experiment.kind.code(experiment), instrument()):
        listener.remark(f"changed since the last session of this folder: {'; '.join(changed)}")
    if done:
        listener.remark(f"{done} of {len(design.runs)} runs are recorded already; going on with the rest")
    _run_design(experiment, design, folder, listener, deadline)
    while further := _next_runs(experiment, folder):
        folder.extend(further)
        _run_design(experiment, Design(design.seed, further), folder, listener, deadline)


def _next_runs(experiment: Experiment, folder: ExperimentFolder) -> tuple[PlannedRun, ...]:
    return tuple(run for run in experiment.kind.next_runs(experiment, folder.runs_path) if not folder.has(run.id))


def _run_design(
    experiment: Experiment, design: Design, folder: ExperimentFolder, listener: Listener, deadline: Deadline
) -> None:
    expected = run_seconds(design, experiment)
    known = length_is_known(experiment)
    listener.expect({name: s if known else None for name, s in expected.items() if not folder.has(name)})
    with ClusterHolder(listener, grown=experiment.kind.grown) as clusters:
        for group in design.groups():
            failed = 0
            _require_ranks()
            while pending := [run for run in group if not folder.has(run.id)]:
                # The first run of a group stands for the start of its cluster, and its data.
                deadline.require(expected[group[0].id], f"{pending[0].id} with the start of its cluster")
                try:
                    _Group(experiment, design, folder, listener, clusters, deadline, expected).run(pending)
                    failed = 0
                except OutOfTime:
                    raise
                except LoadframeError as error:
                    # Bad input too: a level that this machine cannot do must not end the levels that it can.
                    clusters.discard()
                    _require_ranks()
                    failed += 1
                    if failed < _MAX_STARTS and not isinstance(error, BadInput):
                        # Another process may have taken a port between the look at it and the node's start.
                        listener.remark(f"{pending[0].id}: a new cluster is tried, since this one failed: {error}")
                        continue
                    first, *others = pending
                    listener.remark(f"{first.id}{f' and {len(others)} more' if others else ''} failed: {error}")
                    for run in (first, *others):
                        _record_failure(experiment, folder, run, error)


def _require_machines(experiment: Experiment, design: Design) -> None:
    """BadInput where the largest cluster does not fit on the machines: said before the first run, not hours later."""
    if experiment.file.store.host in REMOTE_HOSTS:
        host = spec_of(experiment, design.runs[0].treatment).place()
        taken: list[str] = []
        for _ in range(experiment.kind.most_nodes(experiment)):
            taken.append(host.place(taken).hostname)


def _require_ranks() -> None:
    """RankLost if one of several ranks is gone: no run that follows could be made, so they are left to a new start."""
    ranks = present()
    if ranks is not None:
        ranks.require_whole()


def _find_software(
    experiment: Experiment, design: Design, listener: Listener
) -> tuple[dict[Any, tuple[str, str]], dict[str, str]]:
    """Return family and driver of each kind and version of a store in the design, and the versions that are here.

    BadInput if one lacks something.
    """
    stores: dict[Any, tuple[str, str]] = {}
    versions: dict[str, str] = {}
    encrypted = set()
    for first, *_ in design.groups():
        Cluster.require_encryption(spec_of(experiment, first.treatment))
        kind = {name: level for name, level in first.treatment.items() if name in _SOFTWARE_FACTORS}
        spec = spec_of(experiment, kind)
        if (spec.store, spec.version) not in stores or (spec.store, spec.version, spec.encryption) not in encrypted:
            software = Cluster.software(spec, listener.step)
            stores[spec.store, spec.version] = software.store.family, software.store.driver
            versions[f"{Path(spec.store).name} {spec.version or ''}".strip()] = software.identity
            encrypted.add((spec.store, spec.version, spec.encryption))
    return stores, versions


def _check_load(
    experiment: Experiment, design: Design, stores: Mapping[Any, tuple[str, str]], listener: Listener
) -> None:
    """BadInput if no state of the cluster could be filled and measured; what some cannot is theirs to fail."""
    refusals = []
    for first, *_ in design.groups():
        spec = spec_of(experiment, first.treatment)
        family, driver = stores[spec.store, spec.version]
        try:
            workload = experiment.resolve(first.treatment, family, listener.step)
            phases = workload.preparing(experiment.prepared)
            phases += experiment.kind.phases(experiment, workload, first.treatment)
            generator = experiment.generator(first.treatment)
            return check_load(phases, driver, Cluster.prospect(spec), generator, spec.nodes)
        except BadInput as refusal:
            refusals.append(refusal)
    raise refusals[0]


class _Group:
    """Runs that share a state of the cluster, on one cluster."""

    def __init__(
        self,
        experiment: Experiment,
        design: Design,
        folder: ExperimentFolder,
        listener: Listener,
        clusters: ClusterHolder,
        deadline: Deadline,
        expected: Mapping[str, float],
    ) -> None:
        self._experiment = experiment
        self._design = design
        self._folder = folder
        self._listener = listener
        self._clusters = clusters
        self._deadline = deadline
        self._expected = expected

    def run(self, runs: Sequence[PlannedRun]) -> None:
        """Bring the cluster to the state and fill it, then record the runs one by one: all, or until a node is gone.

        Runs that follow from these and want the cluster in the same state are made on it, too.
        """
        self._listener.part(runs[0].id)
        cluster = self._clusters.provide(spec_of(self._experiment, runs[0].treatment), runs[0].block)
        stage = Stage(self._experiment, cluster, self._folder.runs_path, self._listener)
        session = stage.session(runs[0])
        session.create_collections()
        self._clusters.set_collections(session.workload.collections)
        with TemporaryDirectory(prefix="loadframe-prepare-") as scratch:
            prepared = session.workload.preparing(self._experiment.prepared)
            session.prepare(prepared, Path(scratch))
        cluster.throttle(True)
        made: list[PlannedRun] = []
        while run := self._following(runs, made):
            if made:
                self._deadline.require(self._expected.get(run.id, 0.0), run.id)
            self._listener.part(run.id)
            self._listener.run(self._number(run, made), len(self._design.runs), run.id)
            made.append(run)
            interrupts.check()
            try:
                self._experiment.kind.record(stage, run)
                self._deadline.run_recorded()
            except LoadframeError as error:
                self._listener.remark(f"{run.id} failed: {error}")
                _record_failure(self._experiment, self._folder, run, error)
                _require_ranks()
            gone = any(node.process and not node.process.alive() for node in cluster.nodes)
            if gone:
                self._clusters.discard()
            if gone and self._following(runs, made):
                # That run says so itself. The rest must not be measured on what is left of the cluster.
                self._listener.remark("a node is gone; the rest gets a new cluster")
                return

    def _following(self, runs: Sequence[PlannedRun], made: Sequence[PlannedRun]) -> PlannedRun | None:
        """Return the run that comes next on this cluster, if there is one."""
        if len(made) < len(runs):
            return runs[len(made)]
        first = runs[0]
        for run in _next_runs(self._experiment, self._folder):
            if (run.block, run.state) == (first.block, first.state):
                self._folder.extend([run])
                return run
        return None

    def _number(self, run: PlannedRun, made: Sequence[PlannedRun]) -> int:
        """Return the run's place in the design; one that was not designed has the place of the last that was."""
        designed = (
            run
            if run in self._design.runs
            else next(earlier for earlier in reversed(made) if earlier in self._design.runs)
        )
        return self._design.runs.index(designed)


def spec_of(experiment: Experiment, treatment: Mapping[str, Level]) -> ClusterSpec:
    """Return the cluster that a treatment wants."""
    asked = experiment.cluster_spec(treatment)
    limits = {**asked["limits"], "disk": DiskLimits(**asked["limits"]["disk"])}
    parts = {"limits": Limits(**limits), "link": Shape(**asked["link"])}
    parts["encryption"] = Encryption(asked["encryption"])
    return ClusterSpec(**{**asked, **parts, "placement": Placement(**asked["placement"])})


def _machine_names(machines: Sequence[str]) -> list[dict[str, str]]:
    """Return machines as manifests have them, by what is known of them before they are reached."""
    return [{"name": re.split(r"[:\s]", machine)[0]} for machine in machines]


def _record_failure(experiment: Experiment, folder: ExperimentFolder, run: PlannedRun, error: LoadframeError) -> None:
    # What an interrupt broke did not fail.
    interrupts.check()
    if folder.has(run.id):
        # What it had measured until then is kept, and says why.
        return
    cluster = experiment.cluster_spec(run.treatment)
    asked = {
        "workload": {"name": experiment.workload.name, "parameters": experiment.workload_parameters(run.treatment)},
        # By the keys of a cluster's own description.
        "store": {"kind": cluster.pop("store"), **cluster, "machines": _machine_names(cluster["machines"])},
        "seed": seed_of(experiment, run),
        "generator": experiment.generator(run.treatment).describe(),
    }
    folder.record_failure(run.id, labels_of(run), asked, error)
