"""Base class of the kinds of experiments.

By default a kind combines the levels of its factors in randomised blocks, and each run measures some phases of the
workload on an unchanged cluster.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from loadframe.base.errors import LoadframeError
from loadframe.cluster import Cluster
from loadframe.experiment.design import Design, PlannedRun
from loadframe.experiment.design.estimate import phase_length
from loadframe.experiment.design.plans import factorial, next_block, with_repetitions
from loadframe.experiment.experiment import PACES, Experiment
from loadframe.experiment.file.factors import Level
from loadframe.experiment.file.model import ExperimentFile, Levels, SloEntry
from loadframe.experiment.runner.listener import Labels, Listener, RunHook
from loadframe.workload import ResolvedPhase, ResolvedWorkload, Workload
from loadframe.workload.pacing import Arrivals
from loadframe.workload.resolved import with_arrivals, with_levels
from loadframe.yamlfile import Place, did_you_mean

if TYPE_CHECKING:
    from loadframe.experiment.runner.session import Session

#: Difference between the seeds of two trials; exceeds the number of blocks.
_TRIAL_STRIDE = 1_000_003


@dataclass(frozen=True)
class Stage:
    """A cluster for the runs that share its state, and the folder for their records."""

    experiment: Experiment
    cluster: Cluster
    #: Parent of the run folders.
    runs_path: Path
    listener: Listener

    def session(self, run: PlannedRun) -> "Session":
        """Return a session on the cluster for a run: its workload, generator and seed; download missing corpora."""
        # Imported here because reading an experiment file does not need the analyses, which take long to import.
        from loadframe.experiment.runner.session import Session

        return Session(
            self.cluster,
            self.experiment.resolve(run.treatment, self.cluster.store.family, self.listener.step),
            seed=seed_of(self.experiment, run),
            generator=self.experiment.generator(run.treatment),
            listener=self.listener,
            allow_bad=None if self.experiment.file.kind == "elastic" else self.experiment.file.allow_bad,
        )

    def labels(self, run: PlannedRun) -> Labels:
        """Return treatment, block and repetition of a run for its manifest."""
        return labels_of(run)


def seed_of(experiment: Experiment, run: PlannedRun) -> int:
    """Return the seed of a run: the experiment's, plus an offset that differs for each block and trial.

    With equal seeds, runs would send equal requests, and the run-to-run variance would look too small.
    """
    return experiment.seed + run.block - 1 + _TRIAL_STRIDE * (run.trial - 1)


def labels_of(run: PlannedRun) -> Labels:
    """Return treatment, block and repetition of a run."""
    return Labels(run.treatment, run.block, run.repetition)


class Crash(RunHook):
    """Kills a node (SIGKILL) after the last phase and restarts it with its data.

    Writes in the page cache of the operating system survive, so a power failure can lose more.
    """

    def __init__(self, cluster: Cluster, name: str, report: Callable[[str], None]) -> None:
        """Take the cluster, the name of the node to kill, and the function that receives a progress line."""
        self._cluster, self._name, self._report = cluster, name, report

    def after(self) -> None:
        """Kill the node, restart it, and wait until the data is balanced; LoadframeError on failure."""
        self._report(f"killing and restarting {self._name}")
        self._cluster.kill(self._name)
        if not self._cluster.mend(self._report):
            raise LoadframeError(f"{self._name} was killed, but the cluster found no node to restart")


def spacing(experiment: Experiment, *, clients: bool = False, rate: bool = False) -> Iterator[Arrivals]:
    """Yield the arrival process of each open stream of the measured phases, with repeats; nothing for closed streams.

    `clients` and `rate`: as if the experiment set a number of clients or a rate, which makes streams closed or open.
    """
    for phase in experiment.workload.file.phases:
        if phase.name in experiment.measured:
            streams = with_levels(phase.named_streams, 1 if clients else None, 1.0 if rate else None, phase.name)
            yield from filter(None, (stream.spacing for stream in with_arrivals(streams, experiment.file.arrivals)))


def check_slo(experiment: Experiment, slo: SloEntry, place: Place, measured: Sequence[str]) -> None:
    """Raise BadInput if `slo` limits an operation that the phases named in `measured` do not record.

    `place` is the position of the SLO in the file.
    """
    phases = [phase for phase in experiment.workload.file.phases if phase.name in measured]
    recorded = {name for phase in phases for name in phase.recorded}
    for name in slo.operations or ():
        if name not in recorded:
            what = f"unknown operation {name!r} in the measured phases"
            raise experiment.document.error((*place, "operations", name), what, did_you_mean(name, recorded), key=True)


class Kind:
    """A kind of experiment, with defaults for all methods."""

    #: Model of its experiment files.
    model: type[ExperimentFile]
    #: Whether `until` may add repetitions until intervals are narrow.
    open_ended = True
    #: Whether levels may be expressions, so that treatments are not all combinations of levels.
    uneven = False
    #: Whether a cluster may reach the next state of a block by adding a node; see `runner.loop`.
    grown = False
    #: One and several entries of the design, in words.
    entries = ("run", "runs")
    #: Whether each entry of the design is the first trial of a search.
    searches = False

    def factors(self, file: ExperimentFile) -> Mapping[str, Levels]:
        """Return the factors and their levels as written in the file; by default none."""
        return {}

    def place(self, file: ExperimentFile, name: str, index: int | None) -> Place:
        """Return the position in the file of a factor, or of its level `index` (from 0)."""
        return ("factors", name) if index is None else ("factors", name, index)

    def check(self, experiment: Experiment) -> None:
        """Raise BadInput, with a position, for values that contradict each other; by default nothing."""

    def parameters(self, experiment: Experiment, treatment: Mapping[str, Level]) -> Mapping[str, Level]:
        """Return the workload parameters, by name, that the kind computes from a treatment; by default none."""
        return {}

    def design(self, experiment: Experiment) -> Design:
        """Return the runs in order, by default all combinations of levels in blocks; BadInput for too many runs."""
        return factorial(experiment, experiment.factors)

    def largest_design(self, experiment: Experiment) -> Design:
        """Return the design with the most runs that may be added, for estimates; by default `until.most` blocks."""
        until = experiment.file.until
        return self.design(with_repetitions(experiment, until.most) if until else experiment)

    def most_nodes(self, experiment: Experiment) -> int:
        """Return the largest number of nodes of a run in the largest design."""
        return max(experiment.nodes(run.treatment) for run in self.largest_design(experiment).runs)

    def code(self, experiment: Experiment) -> dict[str, str]:
        """Return digests of user code that runs execute, by description; by default none."""
        return {}

    def next_runs(self, experiment: Experiment, runs_path: Path) -> Sequence[PlannedRun]:
        """Return the runs to add, given the runs recorded in `runs_path`: another trial, a confirmation.

        Called after the runs of the design and again after each batch, until every returned run is recorded. Equal
        records must give equal runs. By default, adds blocks until the intervals are as narrow as `until` asks.
        """
        return next_block(experiment, self.design, runs_path)

    def first_trial(self, experiment: Experiment, run: PlannedRun) -> str:
        """Return the identifier of the first trial of the run's search; of the run itself without searches."""
        return run.id

    def phases(
        self, experiment: Experiment, workload: ResolvedWorkload, treatment: Mapping[str, Level]
    ) -> list[ResolvedPhase]:
        """Return the phases that a run measures, with the levels of its treatment, then the phases that finish it.

        `ranks_per_node` sets the clients of measured phases, except of those with a fixed number of requests. BadInput
        for a level that a phase does not accept, as in `ResolvedPhase.override`.
        """
        levels = experiment.overrides(treatment)
        clients = experiment.ranks_by_node(treatment)
        # A phase with a fixed number of requests, such as one refresh, keeps its number of clients.
        shared = levels if clients is None else {**levels, "clients": clients}
        phases = [workload.phase(name) for name in experiment.measured]
        measured = [phase.override(**(levels if "requests" in phase.stop else shared)) for phase in phases]
        return [*measured, *(replace(workload.phase(name), finishes=True) for name in experiment.finished)]

    def arrivals(self, experiment: Experiment) -> Iterable[Arrivals]:
        """Return the arrival process of each open stream, with repeats, under the clients or rates of the file."""
        names = {factor.name for factor in experiment.factors}
        names |= {key for key in PACES if getattr(experiment.file, key, None) is not None}
        return spacing(experiment, clients="clients" in names and "rate" not in names, rate="rate" in names)

    def seconds(self, experiment: Experiment, workload: Workload, treatment: Mapping[str, Level]) -> float:
        """Return the estimated duration of one run's load, s, with warm-up and finishing phases; see `phase_length`."""
        times = experiment.overrides(treatment)
        phases = {phase.name: phase for phase in workload.file.phases}
        known = experiment.measured_rates
        measured = [phase_length(workload, phases[name], known.get(name), **times) for name in experiment.measured]
        after = [phase_length(workload, phases[name], known.get(name)) for name in experiment.finished]
        return sum(length.seconds for length in (*measured, *after))

    def share_left(self, experiment: Experiment, first: PlannedRun, runs_path: Path) -> float:
        """Return the least time that the search with first trial `first` still needs, as a share of `seconds`.

        1 without searches. `runs_path` is the folder with the recorded runs.
        """
        return 1.0

    def record(self, stage: Stage, run: PlannedRun) -> None:
        """Execute one run on a cluster that is filled and in the run's state, and record it as `run.id`.

        LoadframeError if the run fails; the loop then records the failure. The folder of the run must be written last,
        because its existence marks the run as done.
        """
        session = stage.session(run)
        phases = self.phases(stage.experiment, session.workload, run.treatment)
        crash = getattr(stage.experiment.file, "crash", None)
        hook = Crash(stage.cluster, crash, stage.listener.step) if crash else None
        session.record(stage.runs_path, run.id, phases, stage.labels(run), hook=hook)
