"""Capacity experiments: search for the highest rate, or the most users, that meets an SLO.

Each trial is a run. The next trial depends only on recorded ones, so a search can resume.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, Strict, Tag, model_serializer, model_validator
from pydantic.types import Discriminator

from loadframe.analyze.capacity import RATE, USERS, Answer, Bounds, Next, Outcome, Slo, Trial, fewest, judge_run, search
from loadframe.analyze.capacity.criteria import Judgement
from loadframe.base.errors import BadInput
from loadframe.base.units import counted, format_count, format_duration, reachable_rate
from loadframe.experiment.design import Design, PlannedRun
from loadframe.experiment.design.plans import factorial, run_id
from loadframe.experiment.experiment import Experiment
from loadframe.experiment.file.factors import Level
from loadframe.experiment.file.model import ExperimentFile, Factors, Levels, Share, SloEntry
from loadframe.experiment.kinds.base import Kind, Stage, check_slo, spacing
from loadframe.workload import Workload
from loadframe.workload.pacing import Arrivals, shape
from loadframe.workload.resolved import with_levels
from loadframe.yamlfile import Model, Rate, wrong

#: Typical number of trials: four steps up, a failure twice, four bisections with one or two failures, a confirmation.
_TRIALS = 14


def _load_text(level: float, over: str) -> str:
    """Write a level of the search with its unit: `512/s` for a rate, else `12 users`."""
    return f"{format_count(level)}/s" if over == RATE else counted(int(level), "user")


class SearchEntry(Model):
    """Search over the rate or the number of users.

    Moves from `start` up or down by `factor`, then bisects to `precision`.
    """

    over: Literal["rate", "users"] = RATE
    start: Rate = 100.0
    least: Rate = 1.0
    most: Rate = 1e6
    factor: Annotated[float, Field(ge=1.1, le=10), Strict(False)] = 2.0
    precision: Annotated[Share, Field(ge=0.005, le=0.5)] = 0.05

    @model_validator(mode="after")
    def _check_bounds(self) -> "SearchEntry":
        """Refuse `start` outside `least` and `most`, and numbers of users that are not whole."""
        if not self.least <= self.start <= self.most:
            start, least, most = (_load_text(level, self.over) for level in (self.start, self.least, self.most))
            what = f"start must lie between least and most; got {start}, which is not between {least} and {most}"
            raise wrong(what, "change one of them", key="start")
        for key in ("start", "least", "most"):
            if self.over == USERS and getattr(self, key) != int(getattr(self, key)):
                raise wrong("a number of users must be whole", "write a whole number", key=key)
        return self

    @model_serializer(mode="wrap")
    def _as_before(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Return the fields without `over: rate`, so that folders of older versions can be resumed."""
        return {key: value for key, value in dump(self).items() if key != "over" or value != RATE}


class DemandEntry(Model):
    """A load for which the report computes the required nodes: users, and the request rate of each."""

    users: Annotated[int, Field(ge=1, le=10**12)]
    rate_per_user: Annotated[Rate, Field(alias="each")]

    @model_validator(mode="after")
    def _check_rate(self) -> "DemandEntry":
        """Refuse a total rate that `reachable_rate` refuses."""
        try:
            reachable_rate(self.rate, f"a demand of {self.users} users with {self.rate_per_user:g}/s each")
        except BadInput as error:
            raise wrong(error.what, error.remedy, key="users") from None
        return self

    @property
    def rate(self) -> float:
        """Total requests per second of all users."""
        return self.users * self.rate_per_user


#: A rate to sustain, or users with the rate of each.
Demand = Annotated[Annotated[Rate, Tag("level")] | Annotated[DemandEntry, Tag("levels")], Discriminator(shape)]


class CapacityFile(ExperimentFile):
    """File of a capacity experiment."""

    factors: Factors = Field(default_factory=dict)
    slo: SloEntry
    search: SearchEntry = SearchEntry()
    demands: Annotated[tuple[Demand, ...], Strict(False)] = ()

    @model_validator(mode="after")
    def _check_prices_of_rate(self) -> "CapacityFile":
        """Refuse prices in a search over users, because costs are per request."""
        if self.prices and self.search.over == USERS:
            what = "prices require a search over the rate, because costs are per request; search has over: users"
            raise wrong(what, "remove prices, or search over the rate", key="prices")
        return self


class Capacity(Kind):
    """Searches at every combination of the factors' levels, in randomised blocks."""

    model = CapacityFile
    grown = True
    open_ended = False
    entries = ("search", "searches")
    searches = True

    def factors(self, file: ExperimentFile) -> Mapping[str, Levels]:
        """Return the factors and their levels as written in the file."""
        return _capacity_file(file).factors

    def check(self, experiment: Experiment) -> None:
        """Raise BadInput for clients, rate or users as factors, and for phases, an SLO or demands that do not fit.

        A search over the rate refuses phases with groups of requests or journeys of several requests. The SLO may only
        bound operations of measured phases. `demands` require `nodes` as the only factor.
        """
        document, over = experiment.document, _capacity_file(experiment.file).search.over
        for factor in experiment.factors:
            if factor.name in (RATE, "clients", USERS):
                what = f"{factor.name} cannot be a factor, because the search varies the"
                what += " rate" if over == RATE else " number of users"
                raise document.error(("factors", factor.name), what, "remove it", key=True)
        others = [factor.name for factor in experiment.factors if factor.name != "nodes"]
        if _capacity_file(experiment.file).demands and others:
            what = f"demands require nodes as the only factor; found {others[0]}"
            raise document.error(("demands",), what, "remove demands, or write an experiment for each level", key=True)
        self._check_demands(experiment)
        measured = [phase for phase in experiment.workload.file.phases if phase.name in experiment.measured]
        rate, users = (1.0, None) if over == RATE else (None, 1)
        for phase in measured:
            try:
                streams = with_levels(phase.named_streams, clients=None, rate=rate, users=users, phase=phase.name)
            except BadInput as error:
                raise document.error((), error.what, error.remedy) from None
            if over == RATE and any(stream.group > 1 for stream in phase.named_streams):
                what = f"the phase {phase.name!r} sends groups of requests, and the search varies the rate of requests"
                raise document.error((), what, "measure a phase without order: together")
            if over == RATE and any(stream.is_open and stream.per_arrival > 1 for stream in streams):
                what = f"the phase {phase.name!r} sends journeys of several requests, and the search varies the rate of"
                raise document.error((), f"{what} requests", "give the journey users, and search over: users")
        check_slo(experiment, _capacity_file(experiment.file).slo, ("slo",), experiment.measured)

    @staticmethod
    def _check_demands(experiment: Experiment) -> None:
        """Raise BadInput for a demand in another unit than the search, or below its least level."""
        file, document = _capacity_file(experiment.file), experiment.document
        over, least = file.search.over, file.search.least
        for index, entry in enumerate(file.demands):
            place = ("demands", index)
            load = entry.rate if isinstance(entry, DemandEntry) else entry
            is_rate = isinstance(entry, DemandEntry) or "/" in str(document.data["demands"][index])
            if over == USERS and (is_rate or load != int(load)):
                what = f"a search over users compares numbers of users; got a demand of {format_count(load)} requests/s"
                raise document.error(place, what, "write the number of users alone, such as demands: [500]")
            if load < least:
                what = f"the demand of {_load_text(load, over)} is below search: least, {_load_text(least, over)}"
                raise document.error(place, what, "lower search: least, because the search tries no lower load")

    def arrivals(self, experiment: Experiment) -> Iterable[Arrivals]:
        """Return the arrival process of each open stream of a trial; streams get a rate if the rate is searched."""
        return spacing(experiment, rate=_capacity_file(experiment.file).search.over == RATE)

    def design(self, experiment: Experiment) -> Design:
        """Return the first trial of each search; BadInput for more than the maximum number of runs."""
        planned = factorial(experiment, experiment.factors)
        first = search(_bounds(experiment), ())
        assert isinstance(first, Next)
        over = _capacity_file(experiment.file).search.over
        return Design(planned.seed, tuple(_trial(run, first, over, 1) for run in planned.runs))

    def next_runs(self, experiment: Experiment, runs_path: Path) -> Sequence[PlannedRun]:
        """Return the next trial of each unfinished search, given the recorded trials; empty if all have ended."""
        planned = factorial(experiment, experiment.factors)
        return tuple(run for treatment in planned.runs for run in self._next(experiment, treatment, runs_path))

    def first_trial(self, experiment: Experiment, run: PlannedRun) -> str:
        """Return the identifier of the first trial of the run's search."""
        bounds = _bounds(experiment)
        first = search(bounds, ())
        assert isinstance(first, Next)
        return _trial(run, first, bounds.over, 1).id

    def seconds(self, experiment: Experiment, workload: Workload, treatment: Mapping[str, Level]) -> float:
        """Return the estimated duration of all trials of one search, s, for 14 trials, a typical number."""
        return _TRIALS * super().seconds(experiment, workload, treatment)

    def share_left(self, experiment: Experiment, first: PlannedRun, runs_path: Path) -> float:
        """Return the fewest trials that the search of `first` still needs, divided by the 14 of `seconds`."""
        trials, _ = self._recorded(experiment, first, runs_path)
        return fewest(_bounds(experiment), trials) / _TRIALS

    def record(self, stage: Stage, run: PlannedRun) -> None:
        """Execute and record a trial, judge it by the SLO, and report load, SLO and outcome to the listener.

        LoadframeError if the run fails.
        """
        file = _capacity_file(stage.experiment.file)
        slo, over = Slo.read(file.slo.model_dump()), file.search.over
        level = float(str(run.treatment[over]))
        load = _load_text(level, over)
        # Not `run.trial`, which counts the trials of one search.
        number = 1 + sum(not path.name.startswith(".") for path in stage.runs_path.iterdir())
        stage.listener.trial(number, load, slo.percentile, slo.response)
        super().record(stage, run)
        judgement = judge_run(stage.runs_path / run.id, slo, stage.experiment.measured, level if over == RATE else None)
        parts = [f"trial {number}: {load}"]
        if judgement.response is not None and judgement.limit is not None:
            limit = format_duration(judgement.limit)
            parts.append(f"{slo.percentile} {format_duration(judgement.response)} (SLO {limit})")
        outcome = str(judgement.outcome)
        stage.listener.judged(run.id, f"{', '.join(parts)}: {outcome}{_why(judgement)}", outcome)

    def _next(self, experiment: Experiment, planned: PlannedRun, runs_path: Path) -> Iterator[PlannedRun]:
        """Yield the next trial of the search at a planned treatment, or nothing if the search has ended."""
        trials, step = self._recorded(experiment, planned, runs_path)
        if isinstance(step, Next):
            yield _trial(planned, step, _bounds(experiment).over, len(trials) + 1)

    def _recorded(
        self, experiment: Experiment, planned: PlannedRun, runs_path: Path
    ) -> tuple[list[Trial], Next | Answer]:
        """Return the recorded trials of the search at a planned treatment, judged by the SLO, and its next step.

        The step is the next trial, or the answer of a finished search. The searched factor of `planned` does not
        matter.
        """
        bounds, slo = _bounds(experiment), Slo.read(_capacity_file(experiment.file).slo.model_dump())
        trials: list[Trial] = []
        while isinstance(step := search(bounds, trials), Next):
            run = _trial(planned, step, bounds.over, len(trials) + 1)
            if not (runs_path / run.id).exists():
                break
            rate = step.rate if bounds.over == RATE else None
            judgement = judge_run(runs_path / run.id, slo, experiment.measured, rate)
            trials.append(Trial(step.rate, judgement.outcome))
        return trials, step


def _why(judgement: Judgement) -> str:
    """Write all reasons of a trial that did not pass, in parentheses; empty if it passed or has none."""
    passed = judgement.outcome == Outcome.PASSED
    return "" if passed or not judgement.reasons else f" ({'; '.join(judgement.reasons)})"


def _trial(planned: PlannedRun, step: Next, over: str, number: int) -> PlannedRun:
    """Return the run of a search's trial `number` (from 1) at the rate or users of `step`, as level of `over`.

    The number gives each trial other arrivals.
    """
    treatment: dict[str, Level] = {**planned.treatment, over: step.rate if over == RATE else int(step.rate)}
    name = f"{run_id(planned.block, treatment)}-t{step.number}"
    return PlannedRun(name, planned.block, treatment, planned.state, trial=number)


def _bounds(experiment: Experiment) -> Bounds:
    """Return the bounds of the search from the experiment's file."""
    return Bounds(**_capacity_file(experiment.file).search.model_dump())


def _capacity_file(file: ExperimentFile) -> CapacityFile:
    """Return the file as the model of this kind; AssertionError for another kind."""
    assert isinstance(file, CapacityFile)
    return file


KIND = Capacity()
