"""Capacity experiments: the highest rate, or the most users, within an SLO, searched for trial by trial.

Each trial is a run. Which one comes next follows from those that are recorded, so a search goes on where it stopped.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, Strict, model_serializer, model_validator

from loadframe.analyze.capacity import RATE, USERS, Bounds, Next, Slo, Trial, judged, search
from loadframe.base.errors import BadInput
from loadframe.experiment.design.blocks import factorial, run_id
from loadframe.experiment.design.runs import Design, PlannedRun
from loadframe.experiment.experiment import Experiment
from loadframe.experiment.file.factors import Level
from loadframe.experiment.file.model import ExperimentFile, Factors, Levels, Share
from loadframe.experiment.kinds.base import Kind, spacing
from loadframe.workload import Workload
from loadframe.workload.forms import Text
from loadframe.workload.pacing import Arrivals
from loadframe.workload.resolved import paced
from loadframe.yamlfile import NOT_EMPTY, Duration, Model, Rate, did_you_mean, wrong

#: What a search takes, as a rule: four up, a failure twice, four halvings with a failure or two, the answer again.
_TRIALS = 14


Percentile = Literal["p50", "p90", "p99", "p999"]
Subject = Literal["successes", "all", "failures"]


class OwnSlo(Model):
    """What one operation must keep; what it leaves out is as in the general SLO."""

    response: Annotated[Duration, Field(gt=0)] | None = None
    percentile: Percentile | None = None
    errors: Share | None = None
    of: Subject | None = None


class SloEntry(Model):
    """What the store must keep: a percentile of response times, and fewer errors than a share of requests.

    `of` says of which requests the percentile is; a request that failed late was waited for, too. `operations` have
    bounds of their own; without a general `response` nothing is asked of the others.
    """

    response: Annotated[Duration, Field(gt=0)] | None = None
    percentile: Percentile = "p99"
    errors: Share = 0.01
    of: Subject = "successes"
    operations: Annotated[dict[Text, OwnSlo], NOT_EMPTY] | None = None

    @model_validator(mode="after")
    def _asks(self) -> "SloEntry":
        if self.response is None:
            if self.operations is None:
                raise wrong("'response' is missing", "say response: 100ms, or operations with their own")
            for name, bounds in self.operations.items():
                if bounds.response is None:
                    raise wrong(
                        f"the operation {name!r} has no response, and there is no general one", key="operations"
                    )
        return self

    @model_serializer(mode="wrap")
    def _as_before(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Folders of before operations had bounds of their own go on."""
        return {key: value for key, value in dump(self).items() if key != "operations" or value is not None}


class SearchEntry(Model):
    """Where the rate, or the number of users, is searched for: from `start` up or down by `factor`, then halved to
    `precision`."""

    over: Literal["rate", "users"] = RATE
    start: Rate = 100.0
    least: Rate = 1.0
    most: Rate = 1e6
    factor: Annotated[float, Field(ge=1.1, le=10), Strict(False)] = 2.0
    precision: Annotated[Share, Field(ge=0.005, le=0.5)] = 0.05

    @model_validator(mode="after")
    def _ordered(self) -> "SearchEntry":
        if not self.least <= self.start <= self.most:
            raise wrong("start is to lie between least and most", "change one of them", key="start")
        for key in ("start", "least", "most"):
            if self.over == USERS and getattr(self, key) != int(getattr(self, key)):
                raise wrong("users are whole", "write a whole number", key=key)
        return self

    @model_serializer(mode="wrap")
    def _as_before(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Folders of before users were searched for go on."""
        return {key: value for key, value in dump(self).items() if key != "over" or value != RATE}


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
        return _capacity_file(file).factors

    def check(self, experiment: Experiment) -> None:
        """Refuse what is searched for as a factor, phases that do not take it, and bounds of what nobody asks for."""
        document, over = experiment.document, _capacity_file(experiment.file).search.over
        for factor in experiment.factors:
            if factor.name in (RATE, "clients", USERS):
                what = f"{factor.name} cannot be varied here: the {'rate' if over == RATE else 'number of users'} is"
                what += " what is searched for"
                raise document.error(("factors", factor.name), what, "remove it", key=True)
        others = [factor.name for factor in experiment.factors if factor.name != "nodes"]
        if _capacity_file(experiment.file).demands and others:
            what = f"nodes for a load are told where nothing else varies, and here {others[0]} does"
            raise document.error(("demands",), what, "remove it, or make an experiment for each level", key=True)
        measured = [phase for phase in experiment.workload.file.phases if phase.name in experiment.measured]
        rate, users = (1.0, None) if over == RATE else (None, 1)
        for phase in measured:
            try:
                paced(phase.named_streams, clients=None, rate=rate, users=users, phase=phase.name)
            except BadInput as error:
                raise document.error((), error.what, error.remedy) from None
        recorded = {name for phase in measured for name in phase.recorded}
        for name in _capacity_file(experiment.file).slo.operations or ():
            if name not in recorded:
                what = f"the phases that are measured do not ask for {name!r}"
                raise document.error(("slo", "operations", name), what, did_you_mean(name, recorded), key=True)

    def arrivals(self, experiment: Experiment) -> Iterable[Arrivals]:
        """Return how the trials space their requests: each has a rate, if that is searched for."""
        return spacing(experiment, rate=_capacity_file(experiment.file).search.over == RATE)

    def design(self, experiment: Experiment) -> Design:
        """Return the first trial of each search."""
        planned = factorial(experiment, experiment.factors)
        first = search(_bounds(experiment), ())
        assert isinstance(first, Next)
        over = _capacity_file(experiment.file).search.over
        return Design(planned.seed, tuple(_trial(run, first, over) for run in planned.runs))

    def next_runs(self, experiment: Experiment, runs_path: Path) -> Sequence[PlannedRun]:
        """Return the next trial of each search that has no answer yet."""
        planned = factorial(experiment, experiment.factors)
        return tuple(run for treatment in planned.runs for run in self._next(experiment, treatment, runs_path))

    def seconds(self, experiment: Experiment, workload: Workload, treatment: Mapping[str, Level]) -> float:
        """Return about how long the trials of one search last, s."""
        return _TRIALS * super().seconds(experiment, workload, treatment)

    def _next(self, experiment: Experiment, planned: PlannedRun, runs_path: Path) -> Iterator[PlannedRun]:
        bounds, slo = _bounds(experiment), Slo.read(_capacity_file(experiment.file).slo.model_dump())
        trials: list[Trial] = []
        while isinstance(step := search(bounds, trials), Next):
            run = _trial(planned, step, bounds.over)
            if not (runs_path / run.id).exists():
                yield run
                return
            rate = step.rate if bounds.over == RATE else None
            judgement = judged(runs_path / run.id, slo, experiment.measured, rate)
            trials.append(Trial(step.rate, judgement.outcome))


def _trial(planned: PlannedRun, step: Next, over: str) -> PlannedRun:
    treatment: dict[str, Level] = {**planned.treatment, over: step.rate if over == RATE else int(step.rate)}
    name = f"{run_id(planned.block, treatment)}-t{step.number}"
    return PlannedRun(name, planned.block, treatment, planned.state, trial=step.number)


def _bounds(experiment: Experiment) -> Bounds:
    return Bounds(**_capacity_file(experiment.file).search.model_dump())


def _capacity_file(file: ExperimentFile) -> CapacityFile:
    assert isinstance(file, CapacityFile)
    return file


KIND = Capacity()
