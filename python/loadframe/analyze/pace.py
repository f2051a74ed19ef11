"""How fast the machine itself was while runs were made, by the yardsticks before and after their loads."""

from collections import defaultdict
from collections.abc import Hashable, Sequence
from statistics import fmean, median

import numpy as np

from loadframe.analyze.experiment import RecordedRun

#: A smaller change from one group of runs to another cannot be separated from the yardstick's own scatter.
_LEAST = 0.05
#: With fewer runs beyond the first of each treatment, a share of their scatter says nothing.
_FREEDOM = 10


def yardsticks(runs: Sequence[RecordedRun]) -> list[float]:
    """Return all that was measured, s; runs of versions that took no yardstick have none."""
    return [time for run in runs for time in run.manifest.hardware.yardstick]


def pace(first: Sequence[RecordedRun], second: Sequence[RecordedRun]) -> float:
    """Return how many times as fast the machine was when the second group was measured; 1 where no change is seen."""
    one, other = yardsticks(first), yardsticks(second)
    if not one or not other:
        return 1.0
    factor = median(one) / median(other)
    return factor if abs(factor - 1) >= _LEAST else 1.0


def slowest(runs: Sequence[RecordedRun]) -> float:
    """Return how many times as long the fixed computation took beside one run than beside another, at most."""
    times = [fmean(taken) for run in runs if (taken := yardsticks([run]))]
    return max(times) / min(times) if times else 1.0


def share(points: Sequence[tuple[Hashable, RecordedRun, float]]) -> float | None:
    """Return how much of the scatter between repetitions goes with the machine's pace; None where too few runs say it.

    Each point is a treatment, a run and its value. It is the squared correlation of the logarithms, each less the mean
    of its treatment; 0 where what is faster comes with a slower machine.
    """
    rows = defaultdict(list)
    for treatment, run, value in points:
        if value > 0 and (taken := yardsticks([run])):
            rows[treatment].append((np.log(value), -np.log(fmean(taken))))
    centred = [np.array(row) - np.mean(row, axis=0) for row in rows.values()]
    if sum(len(group) - 1 for group in centred) < _FREEDOM:
        return None
    values, paces = np.concatenate(centred).T
    scale = float((values**2).sum() * (paces**2).sum())
    together = float((values * paces).sum())
    return together**2 / scale if scale and together > 0 else 0.0
