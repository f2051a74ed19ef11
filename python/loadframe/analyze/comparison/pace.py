"""Whether the machine itself was faster in one group's minutes than in the other's, by the runs' yardsticks."""

from collections.abc import Sequence
from statistics import median

from loadframe.analyze.experiment import RecordedRun

#: A smaller change of the machine is not told from how the yardstick scatters.
_LEAST = 0.05


def pace(first: Sequence[RecordedRun], second: Sequence[RecordedRun]) -> float:
    """Return how many times as fast the machine was when the second group was measured; 1 where no change is seen.

    By the medians of `hardware.yardstick`, of which a run has two; runs of earlier versions have none.
    """
    one, other = ([time for run in runs for time in run.manifest.get("hardware", {}).get("yardstick") or ()]
                  for runs in (first, second))  # fmt: skip
    if not one or not other:
        return 1.0
    factor = median(one) / median(other)
    return factor if abs(factor - 1) >= _LEAST else 1.0
