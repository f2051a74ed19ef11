"""Stopping rule for the repetitions of an experiment with `until`.

The measure is the throughput of the report for closed loads. Open loads have a given throughput, so the measure is the
median response time of the phase's main operation. All treatments share the relative variance of the repeated runs.

The decision depends only on recorded runs, so an experiment can resume.

Stopping at the first narrow interval favours moments when the noise looks small. With one or two treatments, the
interval would then cover 89 to 92 % instead of 95 %. These experiments need at least 4 degrees of freedom, and get 2
more blocks after the first narrow interval.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from loadframe.experiment.design import Design, PlannedRun
from loadframe.experiment.experiment import Experiment

#: Largest number of treatments with extra blocks, the number of these blocks, and the minimum degrees of freedom.
_FEW, _AFTERWARDS, _LEAST_FREEDOM = 2, 2, 4


class StoppingRule:
    """Sequential stopping rule; call `ends` after each block in order."""

    def __init__(self, target: float, treatments: int) -> None:
        """Take the relative half-width to reach, and the number of treatments in a block."""
        self._target = target
        self._treatments = treatments
        self._narrow_since: int | None = None

    def ends(self, blocks: int, width: float) -> bool:
        """Return whether to stop after `blocks` blocks with this widest half-width; remembers the first narrow one."""
        few = self._treatments <= _FEW
        known = not few or (blocks - 1) * self._treatments >= _LEAST_FREEDOM
        if self._narrow_since is None and known and width <= self._target:
            self._narrow_since = blocks
        return self._narrow_since is not None and blocks >= self._narrow_since + (_AFTERWARDS if few else 0)


def next_block(experiment: Experiment, design: Callable[[Experiment], Design], runs_path: Path) -> Sequence[PlannedRun]:
    """Return the runs of the next block; empty without `until`, or when the intervals are narrow."""
    until = experiment.file.until
    if until is None:
        return ()
    # Imported here because the statistics take a second to import.
    from loadframe.analyze.experiment import RecordedRun
    from loadframe.analyze.rates import RATES, THROUGHPUT
    from loadframe.analyze.scale.treatments import widest_interval
    from loadframe.record import Run

    rate = RATES.get(getattr(experiment.file, "objective", ""), THROUGHPUT)
    recorded: dict[str, RecordedRun] = {}
    planned = design(with_repetitions(experiment, until.most)).runs
    stopping = StoppingRule(until.relative_interval, sum(run.block == 1 for run in planned))
    for blocks in range(experiment.repetitions, until.most):
        so_far = [run for run in planned if run.block <= blocks]
        for run in so_far:
            if run.id not in recorded:
                folder = runs_path / run.id
                there = Run(folder) if folder.exists() else None
                recorded[run.id] = RecordedRun(run.id, run.block, run.treatment, there)
        runs = [recorded[run.id] for run in so_far]
        if stopping.ends(blocks, widest_interval(runs, experiment.measured, rate)):
            return ()
        following = [run for run in planned if run.block == blocks + 1]
        if any(not (runs_path / run.id).exists() for run in following):
            return following
    return ()


def with_repetitions(experiment: Experiment, repetitions: int) -> Experiment:
    """Return the experiment with another number of repetitions; existing blocks do not change."""
    return replace(experiment, file=experiment.file.model_copy(update={"repetitions": repetitions}))
