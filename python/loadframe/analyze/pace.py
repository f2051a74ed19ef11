"""Speed of the machine during runs, from the CPU reference before and after their loads."""

from collections import defaultdict
from collections.abc import Hashable, Sequence
from statistics import fmean, median

import numpy as np

from loadframe.analyze.experiment import RecordedRun

#: Smallest change between groups of runs; smaller ones are within the reference's variance.
_LEAST = 0.05
#: Smallest number of degrees of freedom for a share of the variance.
_FREEDOM = 10


def yardsticks(runs: Sequence[RecordedRun]) -> list[float]:
    """Return all times of the CPU reference, s; empty for runs of versions that did not measure it."""
    return [time for run in runs for time in run.manifest.hardware.yardstick]


def pace(first: Sequence[RecordedRun], second: Sequence[RecordedRun]) -> float:
    """Return the machine's speed for the second group relative to the first; 1 if no change is detected."""
    one, other = yardsticks(first), yardsticks(second)
    if not one or not other:
        return 1.0
    factor = median(one) / median(other)
    return factor if abs(factor - 1) >= _LEAST else 1.0


def slowest(runs: Sequence[RecordedRun]) -> float:
    """Return the largest ratio between two runs' times of the CPU reference."""
    times = [fmean(times_of_run) for run in runs if (times_of_run := yardsticks([run]))]
    return max(times) / min(times) if times else 1.0


def share(points: Sequence[tuple[Hashable, RecordedRun, float]]) -> float | None:
    """Return the share of the variance between repetitions that the machine's pace explains, or None with too few runs.

    Each point is a treatment, a run and its value. The share is the squared correlation of the logarithms, each minus
    the mean of its treatment; 0 if faster results coincide with a slower machine.
    """
    rows = defaultdict(list)
    for treatment, run, value in points:
        if value > 0 and (times_of_run := yardsticks([run])):
            rows[treatment].append((np.log(value), -np.log(fmean(times_of_run))))
    centred = [np.array(row) - np.mean(row, axis=0) for row in rows.values()]
    if sum(len(group) - 1 for group in centred) < _FREEDOM:
        return None
    values, paces = np.concatenate(centred).T
    scale = float((values**2).sum() * (paces**2).sum())
    together = float((values * paces).sum())
    return together**2 / scale if scale and together > 0 else 0.0
