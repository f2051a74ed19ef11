"""Whether repetitions go on: in whole blocks, until each treatment's interval is narrow enough, or a maximum.

Which block follows from what is recorded alone, so a stopped experiment goes on where it was.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from loadframe.experiment.design import Design, PlannedRun

if TYPE_CHECKING:
    from loadframe.experiment.experiment import Experiment


def next_block(
    experiment: "Experiment", design: Callable[["Experiment"], Design], runs_path: Path
) -> Sequence[PlannedRun]:
    """Return the runs of the block that the intervals still ask for; nothing if no interval is asked for."""
    until = experiment.file.until
    if until is None:
        return ()
    # Few experiments ask for intervals, and the statistics take a second to import.
    from loadframe.analyze.experiment import RecordedRun
    from loadframe.analyze.precision import widest_interval
    from loadframe.analyze.rates import RATES, THROUGHPUT
    from loadframe.record import Run

    rate = RATES.get(getattr(experiment.file, "objective", ""), THROUGHPUT)
    recorded: dict[str, RecordedRun] = {}
    planned = design(with_repetitions(experiment, until.most)).runs
    for blocks in range(experiment.repetitions, until.most):
        so_far = [run for run in planned if run.block <= blocks]
        for run in so_far:
            if run.id not in recorded:
                folder = runs_path / run.id
                there = Run(folder) if folder.exists() else None
                recorded[run.id] = RecordedRun(run.id, run.block, run.treatment, there)
        runs = [recorded[run.id] for run in so_far]
        if widest_interval(runs, experiment.measured, rate) <= until.relative_interval:
            return ()
        following = [run for run in planned if run.block == blocks + 1]
        if any(not (runs_path / run.id).exists() for run in following):
            return following
    return ()


def with_repetitions(experiment: "Experiment", repetitions: int) -> "Experiment":
    """Return the same experiment with another number of repetitions; its blocks so far stay what they were."""
    return replace(experiment, file=experiment.file.model_copy(update={"repetitions": repetitions}))
