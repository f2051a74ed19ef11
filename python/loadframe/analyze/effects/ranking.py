"""Combinations of settings against the default: by how much they differ, and how probably they are better.

The run is the unit, on a logarithmic scale. Repetitions share one spread, pooled over all combinations after blocks are
taken out, so that few of each still say something.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from loadframe.analyze.effects.coding import Array, numbered
from loadframe.analyze.estimate import Estimate

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Standing:
    """A combination (its number), its runs, its ratio to the default, and the probability that it is the better one.

    The probability is that of Student's t for the difference, as of a flat prior; None where nothing was repeated.
    """

    combination: int
    runs: int
    ratio: Estimate
    better: float | None


def rank(combinations: Sequence[int], blocks: Sequence[object], logs: Array, *, higher: bool) -> list[Standing]:
    """Return how each combination stands against combination 0, best first; empty where that was not run.

    `logs` are logarithms of the response, `higher` says whether more is better.
    """
    numbers = np.asarray(combinations)
    if not (numbers == 0).any():
        return []
    labels = numbered(blocks)
    adjusted = np.subtract(logs, _block_effects(numbers, labels, logs))
    found = sorted(set(numbers.tolist()))
    groups = {number: adjusted[numbers == number] for number in found}
    squares = sum(float(((group - group.mean()) ** 2).sum()) for group in groups.values())
    freedom = len(logs) - len(found) - int(labels.max())
    variance = squares / freedom if freedom > 0 else math.inf
    base = groups[0]
    standings = []
    for number, group in groups.items():
        difference = float(group.mean() - base.mean())
        error = math.sqrt(variance * (1 / len(group) + 1 / len(base)))
        standings.append(Standing(number, len(group), *_against(difference, error, freedom, number == 0, higher)))
    return sorted(standings, key=lambda each: -each.ratio.value if higher else each.ratio.value)


def _against(
    difference: float, error: float, freedom: int, default: bool, higher: bool
) -> tuple[Estimate, float | None]:
    value = math.exp(difference)
    if default:
        return Estimate(1.0, 1.0, 1.0), None
    if not math.isfinite(error):
        return Estimate(value, 0.0, math.inf), None
    half = float(special.stdtrit(freedom, 0.975)) * error
    wanted = difference if higher else -difference
    better = float(special.stdtr(freedom, wanted / error)) if error else float(wanted > 0)
    return Estimate(value, value * math.exp(-half), value * math.exp(half) if half < 700 else math.inf), better


def _block_effects(numbers: Numbers, labels: Numbers, logs: Array) -> Array:
    """Return each run's block effect, estimated beside the combinations' means; 0 where there is one block."""
    if not labels.max():
        return np.zeros(len(logs))
    effects = np.zeros(int(labels.max()) + 1)
    kinds = numbered(numbers.tolist())
    # The two sets of means are fitted in turn until they agree (backfitting); balanced blocks agree at once.
    for _ in range(50):
        own = logs - effects[labels]
        means = np.bincount(kinds, weights=own) / np.bincount(kinds)
        following = np.bincount(labels, weights=logs - means[kinds]) / np.bincount(labels)
        following -= following.mean()
        if np.abs(following - effects).max() < 1e-12:
            break
        effects = following
    settled: Array = effects[labels]
    return settled
