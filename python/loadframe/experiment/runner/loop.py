"""Loop over the runs of an experiment: start the cluster, fill it, record the runs, resume.

Instead of starting a new cluster, the loop adds a node to the current one if the result is equivalent. The next run
must be in the same block and need one more node, without other changes. The nodes of the store must not change with
age. The data is dropped first and loaded again. For more than one node, a new cluster starts sooner.

A run is done when its folder exists, so a killed loop resumes with the run that was in progress.
"""

import contextlib
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self

from loadframe.base import interrupts
from loadframe.base.errors import BadInput, ExitCode, LoadframeError
from loadframe.base.units import format_duration
from loadframe.cluster import Cluster, ClusterSpec, DiskLimits, Encryption, Limits, Placement, Shape
from loadframe.experiment.design import Design, PlannedRun
from loadframe.experiment.design.estimate import length_is_known, run_seconds
from loadframe.experiment.experiment import Experiment, derived_values
from loadframe.experiment.file.factors import Level
from loadframe.experiment.file.model import REMOTE_HOSTS
from loadframe.experiment.file.reader import options_as_keys, with_keys
from loadframe.experiment.kinds.base import Stage, labels_of, seed_of
from loadframe.experiment.runner.existing import ClusterLost, ExistingClusters
from loadframe.experiment.runner.folder import ExperimentFolder, RunCount, next_runs
from loadframe.experiment.runner.listener import Listener
from loadframe.experiment.runner.preflight import check_load
from loadframe.experiment.runner.session import Session
from loadframe.load import present
from loadframe.record.machine import instrument

#: Time reserved for stopping nodes and writing records: a share of the time limit, and its bounds, s.
_SHARE, _LEAST, _MOST = 0.05, 15.0, 180.0


#: How long before its end a limit is read again, as Slurm may take a minute to answer; delay of a suspended thread, s.
_ASKED_BEFORE, _LATE = 60.0, 1.0


def margin(left: float) -> float:
    """Return the seconds to reserve at the end of a limit with `left` s left: 5 %, at least 15 and at most 180 s."""
    return min(max(_SHARE * left, _LEAST), _MOST)


class OutOfTime(LoadframeError):
    """The time limit was reached before the last run. Exit code TRY_AGAIN if some runs were recorded, else FAILED."""

    def __init__(self, what: str, *, some: bool) -> None:
        """Set the message; remedy and exit status depend on `some`: whether runs were recorded in this time."""
        again = "submit the same job again to resume; a job with --again does so itself"
        remedy = again if some else "request more time; no run was completed"
        super().__init__(what, remedy=remedy)
        self.exit_status = ExitCode.TRY_AGAIN if some else ExitCode.FAILED


class Deadline:
    """Time limit of this command, which its owner may extend."""

    def __init__(self, ends: float | None, owner: str = "", read: Callable[[], float | None] | None = None) -> None:
        """Start with no recorded run. `ends` is the wall-clock end, s since the epoch; None: no limit.

        Runs must end `margin` before it. `owner` names the limit in messages, such as `job 17 of Slurm`. `read` returns
        the end again, or raises LoadframeError; a job ends later after a suspension, or if its limit was raised.
        """
        self._owner = owner
        self._read = read
        self._ends = ends
        left = None if ends is None else ends - time.time()
        #: Latest end of the last run, on the monotonic clock.
        self._last = None if left is None else time.monotonic() + left - margin(left)
        self._made = 0
        self._interrupted = False
        #: Held while the end is read again, so that two threads do not add the same extension twice.
        self._extending = threading.Lock()

    def run_recorded(self) -> None:
        """Count a recorded run; from then on, `require` may raise."""
        self._made += 1

    def require(self, seconds: float, what: str) -> None:
        """Raise OutOfTime if `what`, which takes about `seconds`, would not finish in time; reads the end again before.

        Never raises before the first recorded run, because durations are only estimates.
        """
        left = self._left()
        if left is not None and self._made and seconds > left and self._extended():
            left = self._left()
        if left is not None and self._made and seconds > left:
            raise OutOfTime(
                f"{self._owner} has {format_duration(max(left, 0.0))} left, and {what} takes about"
                f" {format_duration(seconds)}",
                some=True,
            )

    @contextlib.contextmanager
    def watched(self, number: signal.Signals = signal.SIGTERM) -> Iterator[None]:
        """Interrupt this process with the signal `number` if the deadline, if any, passes during the block.

        OutOfTime for the KeyboardInterrupt of the signal's handler.
        """
        ended = threading.Event()
        try:
            if self._last is not None:
                threading.Thread(target=self._watch, args=(ended, number), name="deadline", daemon=True).start()
            yield
        except KeyboardInterrupt:
            if not self._interrupted:
                raise
            interrupts.answer()
            raise OutOfTime(f"{self._owner} ends soon; the unfinished run was stopped", some=self._made > 0) from None
        finally:
            ended.set()

    def _watch(self, ended: threading.Event, number: signal.Signals) -> None:
        """Send the signal to this process once the deadline has passed; return if `ended` is set before.

        Reads the end again a minute before, and after a suspension, which wakes this thread late.
        """
        asked = False
        while not ended.wait(self._left_but(0.0 if asked else _ASKED_BEFORE)):
            late = (self._left() or 0.0) < -_LATE
            if (late or not asked) and self._extended():
                asked = False
            elif asked or self._left_but(0.0) == 0.0:
                self._interrupted = True
                os.kill(os.getpid(), number)
                return
            else:
                asked = True

    def _left_but(self, seconds: float) -> float | None:
        """Return the time until `seconds` s before the latest end of the last run, at least 0; None without a limit."""
        left = self._left()
        return None if left is None else max(left - seconds, 0.0)

    def _left(self) -> float | None:
        """Return the seconds until the last run must have ended (with `margin`), or negative; None without a limit."""
        return None if self._last is None else self._last - time.monotonic()

    def _extended(self) -> bool:
        """Read the end again; return whether it is now later, or unlimited. False if it cannot be read."""
        with self._extending:
            if self._read is None or self._ends is None or self._last is None:
                return False
            try:
                ends = self._read()
            except LoadframeError:
                return False
            if ends is None:
                self._last = None
            elif ends > self._ends:
                self._last += ends - self._ends
            else:
                return False
            self._ends = ends
            return True


#: No time limit.
NEVER = Deadline(None)


#: For more additional nodes, a new cluster is faster, because nodes join one by one but start in parallel.
_MAX_ADDED = 1


class ClusterHolder:
    """Holds at most one running cluster and stops it at the end; `grown` allows adding nodes to it."""

    def __init__(self, listener: Listener, *, grown: bool) -> None:
        """Start no cluster yet; `grown` allows adding a node to the current cluster."""
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
        """Stop the cluster, if any."""
        self.discard()

    def provide(self, experiment: Experiment, run: PlannedRun) -> Cluster:
        """Return a cluster without collections for a run: the current one with a node added, or a new one.

        A new one replaces the current one, which is stopped. LoadframeError if it does not start. Its CPU quota and
        disk limits are off until `fill`, because filling the store under them takes long.
        """
        spec, block = spec_of(experiment, run.treatment), run.block
        if not self._grow(spec, block):
            self.discard()
            self._cluster = Cluster.start(spec, self._listener.step)
            self._cluster.throttle(False)
        self._spec, self._block = spec, block
        assert self._cluster
        return self._cluster

    def adapted(self, experiment: Experiment, _run: PlannedRun) -> Experiment:
        """Return the experiment unchanged: a new cluster has the nodes that the treatment asks for."""
        return experiment

    def fill(self, stage: Stage, _run: PlannedRun, session: Session) -> None:
        """Create and fill the collections, then apply the CPU quota and disk limits; LoadframeError if it fails."""
        assert self._cluster
        session.create_collections()
        self._collections = tuple(session.workload.collections)
        with TemporaryDirectory(prefix="loadframe-prepare-") as scratch:
            session.prepare(session.workload.preparing(stage.experiment.prepared), Path(scratch))
        self._cluster.throttle(True)

    def count(self, _run: PlannedRun, _session: Session) -> None:
        """Do nothing: only Loadframe changes the data of this cluster."""

    def lost(self, _run: PlannedRun) -> bool:
        """Return whether a node of the cluster has ended."""
        return (
            any(node.process and not node.process.alive() for node in self._cluster.nodes) if self._cluster else False
        )

    def discard(self) -> None:
        """Stop the cluster, if any."""
        cluster, self._cluster, self._collections = self._cluster, None, ()
        if cluster:
            cluster.stop()

    def _grow(self, spec: ClusterSpec, block: int) -> bool:
        """Drop the collections and add one node to reach `spec`; return whether that replaces a new cluster.

        False without `grown`, in another block, if the specs differ by more than one node, for stores that speed up
        after a start, if a node has died, and, with a remark, if it fails.
        """
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
            # A new cluster gives the same figures, so the run need not fail; but a user can repair the cause.
            self._listener.remark(f"starting a new cluster, because adding a node failed: {error}")
            return False
        return True


#: Factors that determine the required software.
_SOFTWARE_FACTORS = ("store.kind", "store.version", "store.encryption")
#: Attempts to bring a cluster into a state before its runs are recorded as failed.
_MAX_STARTS = 2


@options_as_keys()
def run_experiment(
    experiment: Experiment, design: Design, folder: ExperimentFolder, listener: Listener, deadline: Deadline = NEVER
) -> None:
    """Record every run of the design that the folder lacks, then the runs that its kind adds.

    A run that fails, or whose cluster fails to start twice, is recorded as failed, and the loop continues. An interrupt
    discards the run in progress and is raised. BadInput, before the first run, if this machine lacks a requirement of
    every run. OutOfTime if the next run would exceed the deadline; ClusterLost and RankLost end it, too. NotRestored,
    after the last run, if an existing cluster could not be restored. If no run is missing, only leftovers on existing
    clusters are removed, and BadInput is raised if these differ from the last session.
    """
    count = RunCount(experiment, design, folder)
    if not count.pending():
        if experiment.exists:
            with ExistingClusters(experiment, folder.path, listener) as existing:
                existing.restore_leftovers(design)
                _require_same_clusters(existing, design, folder, listener)
        listener.remark(count.recorded_text())
        return
    # BadInput if fewer ranks were started than the largest run needs.
    max((experiment.generator(run.treatment) for run in design.runs), key=lambda one: one.ranks or 1).members()
    _require_machines(experiment, design)
    with ExistingClusters(experiment, folder.path, listener) if experiment.exists else nullcontext() as existing:
        if existing:
            versions = existing.survey(design)
            existing.check_load(design)
        else:
            stores, versions = _find_software(experiment, design, listener)
            _check_load(experiment, design, stores, listener)
        if changed := folder.begin_session(versions | experiment.kind.code(experiment), instrument()):
            listener.remark(f"changed since the last session of this folder: {'; '.join(changed)}")
        # Only now: a refusal above must not follow a message that the runs are recorded.
        listener.step(f"recording in {folder.path}")
        if any(folder.has(run.id) for run in design.runs):
            listener.remark(f"resuming: {count.recorded_text()}")
        _run_design(experiment, design, folder, listener, deadline, existing, count)
        while further := next_runs(experiment, folder):
            folder.extend(further)
            _run_design(experiment, Design(design.seed, further), folder, listener, deadline, existing, count)


def _require_same_clusters(
    existing: ExistingClusters, design: Design, folder: ExperimentFolder, listener: Listener
) -> None:
    """Raise BadInput if version or nodes of an existing cluster differ from those of the last session.

    Only a remark if a cluster does not answer.
    """
    try:
        identities = existing.identities(design)
    except LoadframeError as error:
        # The recorded results stay readable when the cluster is gone.
        listener.remark(f"did not check whether the cluster has changed: {error.what}")
        return
    folder.require_measured(identities)


def _run_design(
    experiment: Experiment,
    design: Design,
    folder: ExperimentFolder,
    listener: Listener,
    deadline: Deadline,
    existing: ExistingClusters | None,
    count: RunCount,
) -> None:
    """Execute the runs that the folder lacks, each group of runs on one cluster.

    After a failure, a new cluster is tried, or the existing one again; an attempt whose cluster had started is kept.
    The rest of a group is recorded as failed after BadInput, or after _MAX_STARTS failures. OutOfTime, ClusterLost and
    the loss of a rank end the design.
    """
    expected = run_seconds(design, experiment)
    known = length_is_known(experiment)
    listener.expect({name: s if known else None for name, s in expected.items() if not folder.has(name)})
    started = ClusterHolder(listener, grown=experiment.kind.grown)
    with started if existing is None else nullcontext(existing) as clusters:
        for group in design.groups():
            failed = 0
            _require_ranks()
            while pending := [run for run in group if not folder.has(run.id)]:
                # The estimate of the first run of a group includes the start and the data of its cluster.
                deadline.require(expected[group[0].id], f"{pending[0].id} with the start of its cluster")
                tried = _Group(experiment, folder, listener, clusters, deadline, expected, count)
                try:
                    tried.run(pending)
                    failed = 0
                except (OutOfTime, ClusterLost):
                    raise
                except LoadframeError as error:
                    with_keys(error)
                    # BadInput too: an impossible level must not prevent the runs of other levels.
                    clusters.discard()
                    _require_ranks()
                    failed += 1
                    if failed < _MAX_STARTS and not isinstance(error, BadInput):
                        # For example, another process took a port between the check and the start of the node.
                        where = "a new cluster" if existing is None else "again on the same cluster"
                        listener.remark(f"{pending[0].id}: trying {where}, because this attempt failed: {error}")
                        if tried.started and (left := [run for run in pending if not folder.has(run.id)]):
                            # A store that lost documents while it was filled has failed, even if it succeeds later.
                            _record_failure(experiment, folder, left[0], error)
                            folder.set_aside(left[0].id)
                        continue
                    first, *others = pending
                    listener.remark(f"{first.id}{f' and {len(others)} more' if others else ''} failed: {error}")
                    for run in (first, *others):
                        _record_failure(experiment, folder, run, error)


def _require_machines(experiment: Experiment, design: Design) -> None:
    """Raise BadInput before the first run if the largest cluster does not fit on the machines of a remote host."""
    if experiment.file.store.host in REMOTE_HOSTS:
        host = spec_of(experiment, design.runs[0].treatment).place()
        used: list[str] = []
        for _ in range(experiment.kind.most_nodes(experiment)):
            used.append(host.place(used).hostname)


def _require_ranks() -> None:
    """Raise RankLost if a rank has died: later runs are impossible and stay for the next session."""
    ranks = present()
    if ranks is not None:
        ranks.require_whole()


def _find_software(
    experiment: Experiment, design: Design, listener: Listener
) -> tuple[dict[Any, tuple[str, str]], dict[str, str]]:
    """Return family and driver by (kind, version) of each store in the design, and versions by `KIND VERSION`.

    Downloads missing software. BadInput if a requirement is missing. A version of None is the store's default.
    """
    stores: dict[Any, tuple[str, str]] = {}
    versions: dict[str, str] = {}
    encrypted = set()
    # Expressions of the file need the levels that they name.
    needed = {*_SOFTWARE_FACTORS, *(name for derived in derived_values(experiment) for name in derived.written.names)}
    for first, *_ in design.groups():
        Cluster.require_encryption(spec_of(experiment, first.treatment))
        kind = {name: level for name, level in first.treatment.items() if name in needed}
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
    """Raise BadInput if the load is invalid for every cluster state; if only for some, their runs fail later.

    `stores` has family and driver of each store, by kind and version.
    """
    refusals = []
    for first, *_ in design.groups():
        spec = spec_of(experiment, first.treatment)
        family, driver = stores[spec.store, spec.version]
        try:
            workload = experiment.resolve(first.treatment, family, listener.step)
            phases = workload.preparing(experiment.prepared)
            phases += experiment.kind.phases(experiment, workload, first.treatment)
            generator = experiment.generator(first.treatment)
            return check_load(phases, driver, Cluster.prospect(spec), generator, spec.nodes, spec)
        except BadInput as refusal:
            refusals.append(refusal)
    raise refusals[0]


class _Group:
    """Executes runs that share a cluster state, on one cluster."""

    def __init__(
        self,
        experiment: Experiment,
        folder: ExperimentFolder,
        listener: Listener,
        clusters: "ClusterHolder | ExistingClusters",
        deadline: Deadline,
        expected: Mapping[str, float],
        count: RunCount,
    ) -> None:
        """Store the arguments; `expected` has the seconds of each run by id, `clusters` provides their cluster."""
        self._experiment = experiment
        self._folder = folder
        self._listener = listener
        self._clusters = clusters
        self._deadline = deadline
        self._expected = expected
        self._count = count
        #: Whether the cluster had started, so that a failure is one of the measured system.
        self.started = False

    def run(self, runs: Sequence[PlannedRun]) -> None:
        """Start and fill the cluster, then record the runs until all are done or a node has ended.

        Runs that the kind adds for the same block and state follow on the same cluster. A failed run is recorded as
        such. LoadframeError if the cluster cannot be started, filled or counted; OutOfTime if a further run would end
        too late.
        """
        self._begin(runs[0])
        cluster = self._clusters.provide(self._experiment, runs[0])
        self.started = True
        experiment = self._clusters.adapted(self._experiment, runs[0])
        stage = Stage(experiment, cluster, self._folder.runs_path, self._listener)
        session = stage.session(runs[0])
        self._clusters.fill(stage, runs[0], session)
        made: list[PlannedRun] = []
        while run := self._following(runs, made):
            if made:
                self._deadline.require(self._expected.get(run.id, 0.0), run.id)
            self._begin(run)
            self._listener.run(*self._count.position(run), run.id)
            self._clusters.count(run, session)
            made.append(run)
            interrupts.check()
            try:
                self._experiment.kind.record(stage, run)
                self._deadline.run_recorded()
            except LoadframeError as error:
                with_keys(error)
                self._listener.remark(f"{run.id} failed: {error}")
                _record_failure(self._experiment, self._folder, run, error)
                _require_ranks()
            if lost := self._clusters.lost(run):
                self._clusters.discard()
            if lost and self._following(runs, made):
                # The record of that run names the node. The remaining runs must not use the damaged cluster.
                self._listener.remark("a node has ended; the remaining runs get a new cluster")
                return

    def _begin(self, run: PlannedRun) -> None:
        """Report that a run, or the start of its cluster, begins.

        With searches of known length, first report the least time that each unfinished one still needs.
        """
        experiment, kind = self._experiment, self._experiment.kind
        if kind.searches and length_is_known(experiment):
            left, parts = self._count.remaining(), {}
            starts = run_seconds(left, experiment, 0.0)
            for first in left.runs:
                share = kind.share_left(experiment, first, self._folder.runs_path)
                seconds = share * kind.seconds(experiment, experiment.workload_at(first.treatment), first.treatment)
                if not self.started or (first.block, first.state) != (run.block, run.state):
                    seconds += starts[first.id]
                parts[run.id if first.id == kind.first_trial(experiment, run) else first.id] = seconds
            self._listener.expect(parts, least=True)
        self._listener.part(run.id)

    def _following(self, runs: Sequence[PlannedRun], made: Sequence[PlannedRun]) -> PlannedRun | None:
        """Return the run after `made` for this cluster: the next of `runs`, or one that the kind adds for its state.

        None if there is none. A run that the kind adds is also added to the folder.
        """
        if len(made) < len(runs):
            return runs[len(made)]
        first = runs[0]
        for run in next_runs(self._experiment, self._folder):
            if (run.block, run.state) == (first.block, first.state):
                self._folder.extend([run])
                return run
        return None


def spec_of(experiment: Experiment, treatment: Mapping[str, Level]) -> ClusterSpec:
    """Return the cluster specification of a treatment; BadInput for an expression without a valid value."""
    arguments = experiment.cluster_spec(treatment)
    limits = {**arguments["limits"], "disk": DiskLimits(**arguments["limits"]["disk"])}
    parts = {"limits": Limits(**limits), "link": Shape(**arguments["link"])}
    parts["encryption"] = Encryption(arguments["encryption"])
    return ClusterSpec(**{**arguments, **parts, "placement": Placement(**arguments["placement"])})


def _machine_names(machines: Sequence[str]) -> list[dict[str, str]]:
    """Return machines as in a manifest, `{"name": NAME}`, from texts such as `NAME` or `NAME:NODES`."""
    return [{"name": re.split(r"[:\s]", machine)[0]} for machine in machines]


def _record_failure(experiment: Experiment, folder: ExperimentFolder, run: PlannedRun, error: LoadframeError) -> None:
    """Record a failed run without data, unless a record of it exists; KeyboardInterrupt instead after an interrupt."""
    # Errors caused by an interrupt are not failures of the run.
    interrupts.check()
    if folder.has(run.id):
        # The session has already recorded the failure, with the data measured before it.
        return
    cluster = experiment.cluster_spec(run.treatment)
    if experiment.exists:
        attached = {"origin": "attached", "addresses": experiment.hosts(run.treatment).split(",")}
        name = experiment.file.store.cluster
        cluster |= {"existing": True, **({"name": name} if name else attached)}
    planned = {
        "workload": {"name": experiment.workload.name, "parameters": experiment.workload_parameters(run.treatment)},
        # With the keys of `Cluster.describe`.
        "store": {"kind": cluster.pop("store"), **cluster, "machines": _machine_names(cluster["machines"])},
        "seed": seed_of(experiment, run),
        "generator": experiment.generator(run.treatment).describe(),
    }
    folder.record_failure(run.id, labels_of(run), planned, error)
