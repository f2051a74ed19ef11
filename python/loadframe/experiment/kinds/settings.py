"""Settings experiments: effects of settings, the best combination, and its confirmation by new runs.

The first level of each factor is the default. The scheme selects the combinations, separately at every size. Then new
runs of the winner and the default alternate.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, model_validator

from loadframe.analyze.rates import RATES
from loadframe.analyze.settings import ADAPTIVE, CONFIRM
from loadframe.experiment.design import Design, PlannedRun
from loadframe.experiment.design.plans import (
    changes,
    cluster_state,
    describe,
    fraction,
    full,
    in_blocks,
    next_block,
    plackett_burman,
    refuse_too_many,
    run_id,
    tpe,
    with_repetitions,
)
from loadframe.experiment.experiment import Experiment
from loadframe.experiment.file.factors import Level
from loadframe.experiment.file.model import CurvesFile, ExperimentFile, Factors, Levels
from loadframe.experiment.kinds.base import Kind
from loadframe.yamlfile import Place, wrong

if TYPE_CHECKING:
    from loadframe.analyze.experiment import RecordedRun

_CHANGES = {"singles": 1, "pairs": 2, "triples": 3}


class SettingsFile(CurvesFile):
    """File of a settings experiment; docs/reference/experiment-file.md describes its schemes."""

    scheme: Literal["singles", "pairs", "triples", "full", "fraction", "screening", "tpe"] = "full"
    resolution: Annotated[int, Field(ge=3, le=5)] = 4
    at: Factors = Field(default_factory=dict)
    objective: Literal["throughput", "documents", "p50", "p90", "p99", "mean"] = "throughput"
    trials: Annotated[int, Field(ge=4, le=2000)] = 30
    confirm: Annotated[int, Field(ge=0, le=100)] = 5

    @model_validator(mode="after")
    def _check_factors(self) -> "SettingsFile":
        """Refuse a factor that is also in `at`, one without two levels in two-level schemes, and no varied factor."""
        for name in self.at:
            if name in self.factors:
                raise wrong(f"{name} is both in factors and in at", "remove one of them", key="at")
        if self.scheme in ("fraction", "screening"):
            for name, levels in self.factors.items():
                if len(levels) != 2:
                    what = f"the scheme {self.scheme} needs two levels of each factor; {name} has {len(levels)}"
                    raise wrong(what, "remove levels, or set scheme: full", key="factors")
        if all(len(levels) == 1 for levels in self.factors.values()):
            what = "every factor has only one level"
            raise wrong(what, "give a factor its default and another level", key="factors")
        return self


class Settings(Kind):
    """Runs combinations of settings by a scheme at each size, then confirms the winner."""

    model = SettingsFile

    def factors(self, file: ExperimentFile) -> Mapping[str, Levels]:
        """Return the sizes (`at`) and the varied settings (`factors`)."""
        written = _settings_file(file)
        return {**written.at, **written.factors}

    def place(self, file: ExperimentFile, name: str, index: int | None) -> Place:
        """Return the position of a factor, in `factors` or in `at`."""
        key = "at" if name in _settings_file(file).at else "factors"
        return (key, name) if index is None else (key, name, index)

    def check(self, experiment: Experiment) -> None:
        """Raise BadInput for a throughput objective with an open load, and for `until` with an optimiser (`tpe`).

        The objective `documents` is allowed if each measured phase ingests a source: the store decides what it accepts.
        """
        written, document = _settings_file(experiment.file), experiment.document
        phases = [phase for phase in experiment.workload.file.phases if phase.name in experiment.measured]
        ingests = all(any(stream.source is not None for stream in phase.named_streams) for phase in phases)
        if written.objective in RATES and experiment.arrivals and not (written.objective == "documents" and ingests):
            what = "the throughput of an open load equals its rate with any settings"
            raise document.error(("objective",), what, "set objective: p99, or another percentile")
        if written.scheme in ADAPTIVE and written.until:
            raise document.error(
                ("until",), f"the scheme {written.scheme} ends after its trials", "remove until", key=True
            )

    def design(self, experiment: Experiment) -> Design:
        """Return the scheme's combinations in blocks; for an optimiser, only the first trial (the default).

        At each size. BadInput for more than the maximum number of runs.
        """
        written = _settings_file(experiment.file)
        if written.scheme == "full":
            refuse_too_many(experiment, math.prod(len(factor.levels) for factor in experiment.factors))
        treatments = [
            self._treatment(experiment, at, row)
            for at in self._sizes(experiment)
            for row in _rows(written, [len(levels) for levels in written.factors.values()])
        ]
        if written.scheme in ADAPTIVE:
            experiment = with_repetitions(experiment, 1)
        return in_blocks(experiment, treatments, experiment.factors)

    def largest_design(self, experiment: Experiment) -> Design:
        """Return the largest possible design: blocks, trials, and the confirmation."""
        written = _settings_file(experiment.file)
        planned = super().largest_design(experiment)
        default = [self._treatment(experiment, at, (0,) * len(written.factors)) for at in self._sizes(experiment)]
        count = 2 * written.confirm + (written.trials - 1 if written.scheme in ADAPTIVE else 0)
        more = [self._run(experiment, 10_000 + n, treatment) for n in range(count) for treatment in default]
        return Design(planned.seed, (*planned.runs, *more))

    def next_runs(self, experiment: Experiment, runs_path: Path) -> Sequence[PlannedRun]:
        """Return the next block of `until`, else the next trial of each search, else the missing confirmation runs.

        Empty if the experiment is complete. BadInput if a recorded run is damaged.
        """
        written = _settings_file(experiment.file)
        if block := next_block(experiment, self.design, runs_path):
            return block
        if written.scheme in ADAPTIVE:
            trials = [self._trials(experiment, at, runs_path) for at in self._sizes(experiment)]
            following = [planned for planned, _ in trials if planned]
            if following:
                return following
            runs = [run for _, recorded in trials for run in recorded]
        else:
            planned = super().largest_design(experiment).runs if written.until else self.design(experiment).runs
            runs = [_read(run, runs_path) for run in planned if (runs_path / run.id).exists()]
        runs = [*runs, *_failed_attempts(runs_path)]
        return [run for run in self._confirming(experiment, runs) if not (runs_path / run.id).exists()]

    def _trials(
        self, experiment: Experiment, at: Mapping[str, Level], runs_path: Path
    ) -> "tuple[PlannedRun | None, list[RecordedRun]]":
        """Return the next trial of the search at a size (None after the last), and its recorded trials in order.

        BadInput if a recorded trial is damaged.
        """
        written = _settings_file(experiment.file)
        levels = [len(choices) for choices in written.factors.values()]
        made: list[RecordedRun] = []
        failed = _failed_attempts(runs_path)
        results: list[tuple[tuple[int, ...], float | None]] = []
        for number in range(1, written.trials + 1):
            row = (0,) * len(levels) if number == 1 else tpe(levels, results, experiment.seed)
            planned = self._run(experiment, number, self._treatment(experiment, at, row))
            if not (runs_path / planned.id).exists():
                return planned, made
            made.append(_read(planned, runs_path))
            # Only of this trial: failures of later runs must not change the trials that followed it.
            earlier = any(run.id.startswith(f"{planned.id},") for run in failed)
            value = math.inf if earlier else loss(written.objective, made[-1], experiment.measured[0])
            results.append((row, value))
        return None, made

    def _confirming(self, experiment: Experiment, runs: "Sequence[RecordedRun]") -> list[PlannedRun]:
        """Return all confirmation runs, also recorded ones: default and winner at each size, in the order ABBA.

        They are in new blocks. Winners follow from `runs`; sizes without one are omitted. Empty with `confirm: 0`.
        """
        written = _settings_file(experiment.file)
        planned = []
        if not written.confirm:
            return []
        # Imported here because the statistics take a second to import.
        from loadframe.analyze.settings.analysis import analyse

        description = describe(experiment, Design(experiment.seed, ()))
        results = [
            result for result in analyse(description, runs, costs=False) if result.phase == experiment.measured[0]
        ]
        # New blocks have new seeds, so these runs send requests that no earlier run sent.
        first = max([run.block or 0 for run in runs], default=0) + 1
        for number in range(written.confirm):
            for result in results:
                if result.winner is None:
                    continue
                default = self._treatment(experiment, result.at, (0,) * len(written.factors))
                pair = [default, {**default, **dict(zip(result.factors, result.winner, strict=True))}]
                for treatment in pair if number % 2 == 0 else pair[::-1]:
                    planned.append(self._run(experiment, first + number, treatment, CONFIRM))
        return planned

    def _sizes(self, experiment: Experiment) -> list[dict[str, Level]]:
        """Return every combination of the levels of `at`, by factor name; one empty combination without `at`."""
        levels = {factor.name: factor.levels for factor in experiment.factors}
        names = list(_settings_file(experiment.file).at)
        return [dict(zip(names, size, strict=True)) for size in itertools.product(*(levels[name] for name in names))]

    def _treatment(self, experiment: Experiment, at: Mapping[str, Level], row: Sequence[int]) -> dict[str, Level]:
        """Return the treatment at a size `at`; `row` has the index of the level of each setting."""
        levels = {factor.name: factor.levels for factor in experiment.factors}
        names = _settings_file(experiment.file).factors
        return {**at, **{name: levels[name][index] for name, index in zip(names, row, strict=True)}}

    def _run(self, experiment: Experiment, block: int, treatment: dict[str, Level], before: str = "") -> PlannedRun:
        """Return the run of a treatment in a block; `before` is put before its identifier."""
        return PlannedRun(
            before + run_id(block, treatment), block, treatment, cluster_state(treatment, experiment.factors)[0]
        )


def _settings_file(file: ExperimentFile) -> SettingsFile:
    """Return the file as the model of this kind; AssertionError for another kind."""
    assert isinstance(file, SettingsFile)
    return file


def _rows(written: SettingsFile, levels: Sequence[int]) -> list[tuple[int, ...]]:
    """Return the combinations of a scheme as level indices, given the number of levels of each setting, in order.

    For an optimiser, only the default (all 0).
    """
    if written.scheme in ADAPTIVE:
        return [(0,) * len(levels)]
    if written.scheme in _CHANGES:
        return changes(levels, _CHANGES[written.scheme])
    if written.scheme == "fraction":
        return fraction(len(levels), written.resolution)
    return plackett_burman(len(levels)) if written.scheme == "screening" else full(levels)


def _read(planned: PlannedRun, runs_path: Path) -> "RecordedRun":
    """Open the recorded run of a planned run; BadInput if it is missing or damaged."""
    from loadframe.analyze.experiment import RecordedRun
    from loadframe.record import Run

    return RecordedRun(planned.id, planned.block, planned.treatment, Run(runs_path / planned.id))


def _failed_attempts(runs_path: Path) -> "list[RecordedRun]":
    """Return earlier attempts of repeated runs in which the store failed; a repetition does not cancel that failure.

    `runs_path` is the folder of runs. Attempts of confirmation runs are omitted: neither trials nor winners depend on
    the confirmation. BadInput if an attempt is damaged.
    """
    from loadframe.analyze.experiment import read_attempts

    attempts = read_attempts(runs_path.parent)
    return [run for run in attempts if run.requests_failed and not run.id.startswith(CONFIRM)]


def loss(objective: str, run: "RecordedRun", phase: str) -> float | None:
    """Return the value that an optimiser minimises: the logarithm of a time (s), or of the inverse of throughput (1/s).

    `objective` is a rate, or a percentile or `mean` of the main operation's response times in `phase`. Infinite if
    requests of the run failed. None if the run is invalid, or its figure has no upper bound.
    """
    from loadframe.analyze.compare import Measure
    from loadframe.analyze.scale.treatments import main_operation

    if run.requests_failed:
        return math.inf
    measure = Measure(phase, objective, None if objective in RATES else main_operation([run], phase))
    known = measure.figure(run)
    if not (run.survived and known.counts and known.value and math.isfinite(known.high)):
        return None
    value = known.value
    return -math.log(value) if measure.better == "higher" else math.log(value)


KIND = Settings()
