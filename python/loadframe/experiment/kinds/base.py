"""Base class of the kinds of experiments.

Each method has the form that suits most kinds: levels of factors, combined in randomised blocks, and runs that measure
some phases of the workload on a cluster that stays as it is.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from loadframe.base.errors import LoadframeError
from loadframe.cluster import Cluster
from loadframe.experiment.design.blocks import factorial
from loadframe.experiment.design.estimate import phase_seconds
from loadframe.experiment.design.repetition import next_block, with_repetitions
from loadframe.experiment.design.runs import Design, PlannedRun
from loadframe.experiment.experiment import PACES, Experiment
from loadframe.experiment.file.factors import Level
from loadframe.experiment.file.model import ExperimentFile, Levels
from loadframe.experiment.runner.session import RunHook
from loadframe.experiment.runner.stage import Stage
from loadframe.workload import ResolvedPhase, ResolvedWorkload, Workload
from loadframe.workload.pacing import Arrivals
from loadframe.workload.resolved import arriving, paced
from loadframe.yamlfile import Place


class Crash(RunHook):
    """Kills a node (SIGKILL) when the last phase is over, and starts it again with its data.

    The kill ends the process alone: what it had given to the operating system is there when it comes back. So the loss
    is at most that of a machine that loses its power.
    """

    def __init__(self, cluster: Cluster, name: str, report: Callable[[str], None]) -> None:
        self._cluster, self._name, self._report = cluster, name, report

    def after(self) -> None:
        """Kill the node and start it again; LoadframeError where that fails."""
        self._report(f"killing {self._name} and starting it again")
        self._cluster.kill(self._name)
        if not self._cluster.mend(self._report):
            raise LoadframeError(f"{self._name} was killed, and there was nothing to start again")


def spacing(experiment: Experiment, *, clients: bool = False, rate: bool = False) -> Iterator[Arrivals]:
    """Yield how the open streams of the measured phases space their requests, once levels of that kind are set."""
    for phase in experiment.workload.file.phases:
        if phase.name in experiment.measured:
            streams = paced(phase.named_streams, 1 if clients else None, 1.0 if rate else None, phase.name)
            yield from filter(None, (stream.spacing for stream in arriving(streams, experiment.file.arrivals)))


class Kind:
    """One kind of experiment."""

    #: The keys of its files.
    model: type[ExperimentFile]
    #: Whether its repetitions may go on `until` intervals are narrow.
    open_ended = True
    #: Whether its treatments need not be every combination of the factors' levels, but those that expressions give.
    uneven = False
    #: Whether a cluster may serve more than one state of a block, by growing; see `clusters`.
    grown = False

    def factors(self, file: ExperimentFile) -> Mapping[str, Levels]:
        """Return what the file varies, as it is written there under `factors`."""
        return {}

    def place(self, file: ExperimentFile, name: str, index: int | None) -> Place:
        """Return where the file has a factor's level of that number (from 0), or the factor itself."""
        return ("factors", name) if index is None else ("factors", name, index)

    def check(self, experiment: Experiment) -> None:
        """Raise BadInput, with its place, for what makes no sense in a file of which each part is sound."""

    def parameters(self, experiment: Experiment, treatment: Mapping[str, Level]) -> Mapping[str, Level]:
        """Return the workload's parameters that follow from a treatment, beside those that it names itself."""
        return {}

    def design(self, experiment: Experiment) -> Design:
        """Return the runs in their order; BadInput if they are more than anybody waits for."""
        return factorial(experiment, experiment.factors)

    def largest_design(self, experiment: Experiment) -> Design:
        """Return the design with as many further runs as there can be, for what `--dry-run` says of its length."""
        until = experiment.file.until
        return self.design(with_repetitions(experiment, until.most) if until else experiment)

    def most_nodes(self, experiment: Experiment) -> int:
        """Return the number of nodes of the largest cluster."""
        return max(experiment.nodes(run.treatment) for run in self.largest_design(experiment).runs)

    def code(self, experiment: Experiment) -> dict[str, str]:
        """Return digests of the user's code that takes part in runs, by what it is."""
        return {}

    def next_runs(self, experiment: Experiment, runs_path: Path) -> Sequence[PlannedRun]:
        """Return runs that follow from what is recorded in `runs_path` by now: another trial, a confirmation.

        It is asked when the design's runs are made, and again when those are made that it returned, until it returns
        no run that is not there. What it returns must be the same for the same records. Here they are further blocks,
        until the intervals are as narrow as the file asks for.
        """
        return next_block(experiment, self.design, runs_path)

    def phases(
        self, experiment: Experiment, workload: ResolvedWorkload, treatment: Mapping[str, Level]
    ) -> list[ResolvedPhase]:
        """Return the phases that a run measures, at the levels of its treatment."""
        levels = experiment.overrides(treatment)
        clients = experiment.ranks_by_node(treatment)
        # A single request, such as a refresh, is not for several to share.
        shared = levels if clients is None else {**levels, "clients": clients}
        phases = [workload.phase(name) for name in experiment.measured]
        return [phase.override(**(levels if "requests" in phase.stop else shared)) for phase in phases]

    def arrivals(self, experiment: Experiment) -> Iterable[Arrivals]:
        """Return how the open loads of its runs space their requests."""
        names = {factor.name for factor in experiment.factors}
        names |= {key for key in PACES if getattr(experiment.file, key, None) is not None}
        return spacing(experiment, clients="clients" in names and "rate" not in names, rate="rate" in names)

    def seconds(self, experiment: Experiment, workload: Workload, treatment: Mapping[str, Level]) -> float:
        """Return about how long the load of one run lasts, s."""
        times = experiment.overrides(treatment)
        phases = {phase.name: phase for phase in workload.file.phases}
        return sum(phase_seconds(workload, phases[name], **times) for name in experiment.measured)

    def record(self, stage: Stage, run: PlannedRun) -> None:
        """Carry out one run on a cluster that is in the run's state and filled, and record it as `run.id`.

        LoadframeError for a run that fails; the loop then records the failure. Other run folders may be written beside
        it, but its own last: a run whose folder is there is done.
        """
        session = stage.session(run)
        phases = self.phases(stage.experiment, session.workload, run.treatment)
        crash = getattr(stage.experiment.file, "crash", None)
        hook = Crash(stage.cluster, crash, stage.listener.step) if crash else None
        session.record(stage.runs_path, run.id, phases, stage.labels(run), hook=hook)
