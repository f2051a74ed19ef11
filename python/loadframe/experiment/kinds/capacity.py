"""Capacity experiments: the highest rate within an SLO, searched for at each treatment, trial by trial.

Each trial is a run. Which one comes next follows from those that are recorded, so a search goes on where it stopped.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, Strict, model_validator

from loadframe.analyze.capacity import RATE, Bounds, Next, Slo, Trial, judged, search
from loadframe.errors import BadInput
from loadframe.experiment.design import Design, PlannedRun, factorial, run_id
from loadframe.experiment.experiment import Experiment
from loadframe.experiment.file_factors import Level
from loadframe.experiment.file_model import ExperimentFile, Factors, Levels, Share
from loadframe.experiment.kinds.base import Kind, spacing
from loadframe.workload import Workload
from loadframe.workload.pacing import Arrivals
from loadframe.workload.resolved import paced
from loadframe.yamlfile import Duration, Model, Rate, wrong

#: What a search takes, as a rule: four up, a failure twice, four halvings with a failure or two, the answer again.
_TRIALS = 14


class SloEntry(Model):
    """What the store must keep: a percentile of response times, and fewer errors than a share of requests.

    `of` says of which requests the percentile is; a request that failed late was waited for, too.
    """

    response: Annotated[Duration, Field(gt=0)]
    percentile: Literal["p50", "p90", "p99", "p999"] = "p99"
    errors: Share = 0.01
    of: Literal["successes", "all", "failures"] = "successes"


class SearchEntry(Model):
    """Where the rate is searched for: from `start` up or down by `factor`, then halved to `precision`."""

    start: Rate = 100.0
    least: Rate = 1.0
    most: Rate = 1e6
    factor: Annotated[float, Field(ge=1.1, le=10), Strict(False)] = 2.0
    precision: Annotated[Share, Field(ge=0.005, le=0.5)] = 0.05

    @model_validator(mode="after")
    def _ordered(self) -> "SearchEntry":
        if not self.least <= self.start <= self.most:
            raise wrong("start is to lie between least and most", "change one of them", key="start")
        return self


class DemandEntry(Model):
    """A load whose need of nodes is asked for: a rate, or users of which each makes requests at a rate."""

    users: Annotated[int, Field(ge=1)]
    rate_per_user: Annotated[Rate, Field(alias="each")]

    @property
    def rate(self) -> float:
        """Requests per second in all."""
        return self.users * self.rate_per_user


class CapacityFile(ExperimentFile):
    """A capacity experiment as it is written."""

    factors: Factors = Field(default_factory=dict)
    slo: SloEntry
    search: SearchEntry = SearchEntry()
    demands: Annotated[tuple[Rate | DemandEntry, ...], Strict(False)] = ()


class Capacity(Kind):
    """A search at every combination of the factors' levels, in randomised blocks."""

    model = CapacityFile
    grown = True
    open_ended = False

    def factors(self, file: ExperimentFile) -> Mapping[str, Levels]:
        """Return the factors as they are written."""
        return _own(file).factors

    def check(self, experiment: Experiment) -> None:
        """Refuse a rate or clients as a factor, and phases that take no rate."""
        document = experiment.document
        for factor in experiment.factors:
            if factor.name in (RATE, "clients"):
                what = f"{factor.name} cannot be varied here: the rate is what is searched for"
                raise document.error(("factors", factor.name), what, "remove it", key=True)
        others = [factor.name for factor in experiment.factors if factor.name != "nodes"]
        if _own(experiment.file).demands and others:
            what = f"nodes for a load are told where nothing else varies, and here {others[0]} does"
            raise document.error(("demands",), what, "remove it, or make an experiment for each level", key=True)
        for phase in experiment.workload.file.phases:
            if phase.name in experiment.measured:
                try:
                    paced(phase.named_streams, clients=None, rate=1.0, phase=phase.name)
                except BadInput as error:
                    raise document.error((), error.what, error.remedy) from None

    def arrivals(self, experiment: Experiment) -> Iterable[Arrivals]:
        """Return how the trials space their requests: each has a rate."""
        return spacing(experiment, rate=True)

    def design(self, experiment: Experiment) -> Design:
        """Return the first trial of each search."""
        planned = factorial(experiment, experiment.factors)
        first = search(_bounds(experiment), ())
        assert isinstance(first, Next)
        return Design(planned.seed, tuple(_trial(run, first) for run in planned.runs))

    def further(self, experiment: Experiment, runs_path: Path) -> Sequence[PlannedRun]:
        """Return the next trial of each search that has no answer yet."""
        planned = factorial(experiment, experiment.factors)
        return tuple(run for treatment in planned.runs for run in self._next(experiment, treatment, runs_path))

    def seconds(self, experiment: Experiment, workload: Workload, treatment: Mapping[str, Level]) -> float:
        """Return about how long the trials of one search last, s."""
        return _TRIALS * super().seconds(experiment, workload, treatment)

    def _next(self, experiment: Experiment, planned: PlannedRun, runs_path: Path) -> Iterator[PlannedRun]:
        bounds, slo = _bounds(experiment), Slo(**_own(experiment.file).slo.model_dump())
        trials: list[Trial] = []
        while isinstance(step := search(bounds, trials), Next):
            run = _trial(planned, step)
            if not (runs_path / run.id).exists():
                yield run
                return
            judgement = judged(runs_path / run.id, slo, experiment.measured, step.rate)
            trials.append(Trial(step.rate, judgement.outcome))


def _trial(planned: PlannedRun, step: Next) -> PlannedRun:
    treatment: dict[str, Level] = {**planned.treatment, RATE: step.rate}
    name = f"{run_id(planned.block, treatment)}-t{step.number}"
    return PlannedRun(name, planned.block, treatment, planned.state, trial=step.number)


def _bounds(experiment: Experiment) -> Bounds:
    return Bounds(**_own(experiment.file).search.model_dump())


def _own(file: ExperimentFile) -> CapacityFile:
    assert isinstance(file, CapacityFile)
    return file


KIND = Capacity()
