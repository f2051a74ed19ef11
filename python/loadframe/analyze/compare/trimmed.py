"""Robust contrasts: trimmed means of blocks or runs, for noise with outliers; pure.

A fifth of the values is trimmed at each end. The error follows from the winsorised variance (Tukey and McLaughlin,
"Less vulnerable confidence and significance procedures for location based on a single sample", Sankhya A 25, 1963; for
two samples Yuen, "The two-sample trimmed t for unequal population variances", Biometrika 61, 1974). With fewer than
five values nothing is trimmed.
"""

import math
from collections.abc import Hashable, Sequence

import numpy as np

from loadframe.analyze.compare.block_model import Array, ContrastFit, Observation

_TRIMMED = 0.2


def paired_contrast(observations: Sequence[Observation], first: Hashable, second: Hashable) -> ContrastFit | None:
    """Return the trimmed mean of the blocks' log differences, or None with fewer than two blocks that have both groups.

    Several runs of a group in a block count as their median.
    """
    blocks: dict[Hashable, dict[Hashable, list[float]]] = {}
    for observation in observations:
        # Runs of a session without blocks are one block.
        sides = blocks.setdefault((observation.session, observation.block), {})
        sides.setdefault(observation.group, []).append(math.log(observation.value))
    whole = [sides for sides in blocks.values() if first in sides and second in sides]
    if len(whole) < 2:
        return None
    differences = np.array([np.median(sides[second]) - np.median(sides[first]) for sides in whole])
    mean, variance, freedom = _trimmed(differences)
    return ContrastFit(mean, math.sqrt(variance), freedom, block_spread=0.0, caution=1.0)


def unpaired_contrast(
    observations: Sequence[Observation], first: Hashable, second: Hashable, *, by_session: bool
) -> ContrastFit | None:
    """Return the difference of trimmed means of logarithms, or None with fewer than two values on a side.

    The values are runs, or the medians of sessions if `by_session` is set.
    """
    sides = []
    for label in (first, second):
        units: dict[Hashable, list[float]] = {}
        for number, observation in enumerate(observations):
            if observation.group == label:
                unit = observation.session if by_session else number
                units.setdefault(unit, []).append(math.log(observation.value))
        if len(units) < 2:
            return None
        sides.append(_trimmed(np.array([float(np.median(logs)) for logs in units.values()])))
    (mean, variance, freedom), (other, others_variance, others_freedom) = sides
    total = variance + others_variance
    parts = variance**2 / freedom + others_variance**2 / others_freedom
    return ContrastFit(
        other - mean, math.sqrt(total), total**2 / parts if parts else freedom + others_freedom, 0.0, 1.0
    )


def _trimmed(values: Array) -> tuple[float, float, float]:
    """Return the trimmed mean, the square of its standard error and its degrees of freedom."""
    ordered, count = np.sort(values), len(values)
    cut = int(_TRIMMED * count)
    kept = count - 2 * cut
    winsorised = np.clip(ordered, ordered[cut], ordered[count - cut - 1])
    variance = float(winsorised.var(ddof=1)) * (count - 1) / (kept * (kept - 1))
    return float(ordered[cut : count - cut].mean()), variance, float(kept - 1)
