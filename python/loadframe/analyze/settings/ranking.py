"""Combinations of settings against the default: by how much they differ, and how probably they are better.

The run is the unit, on a logarithmic scale. Repetitions share one spread, pooled over all combinations after blocks are
taken out, so that few of each still say something.

The first of many combinations is the luckiest, so each is drawn towards what the combinations have in common: their
mean, or what the settings that matter make of it. The ranking, its ratios and its probabilities are of these estimates.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from loadframe.analyze.estimate import Estimate, Shrunken, half_width, on_log_scale, shrink
from loadframe.analyze.settings.model import Array, numbered

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Standing:
    """A combination (its number), its runs, its ratio to the default, and the probability that it is the better one.

    `ratio` is the estimate after shrinkage, `measured` the ratio of the runs' means. The probability is that of
    Student's t for the difference, and no more than the measured difference allows after adjustment for the number of
    combinations; None where nothing was repeated, which leaves the ratio as it was measured.
    """

    combination: int
    runs: int
    ratio: Estimate
    measured: float
    better: float | None


def rank(
    combinations: Sequence[int],
    blocks: Sequence[object],
    logs: Array,
    *,
    higher: bool,
    effects: Array | None = None,
    results: int = 1,
) -> list[Standing]:
    """Return how each combination stands against combination 0, best first; empty where that was not run.

    `logs` are logarithms of the response, `higher` says whether more is better. `effects` are the columns of the terms
    that matter, with a row for each combination by its number; what they explain is not drawn in. `results` is how
    many such rankings one report has: without an effect that matters, the probabilities allow for the choice from all
    of their combinations (Sidak 1967, conservative since all differences share the default's noise).
    """
    numbers = np.asarray(combinations)
    if not (numbers == 0).any():
        return []
    labels = numbered(blocks)
    adjusted = np.subtract(logs, _block_effects(numbers, labels, logs))
    distinct = sorted(set(numbers.tolist()))
    groups = [adjusted[numbers == number] for number in distinct]
    squares = sum(float(((group - group.mean()) ** 2).sum()) for group in groups)
    freedom = len(logs) - len(distinct) - int(labels.max())
    variance = squares / freedom if freedom > 0 else math.inf
    means = np.array([group.mean() for group in groups])
    noise = variance / np.array([float(len(group)) for group in groups])
    estimated = Shrunken(means, np.sqrt(noise))
    if 0 < variance < math.inf:
        estimated = shrink(means, noise, None if effects is None else _independent(effects[distinct]))
    standings = []
    for index, number in enumerate(distinct):
        difference = float(estimated.values[index] - means[0])
        error = math.hypot(float(estimated.errors[index]), math.sqrt(noise[0]))
        ratio, better = _against(difference, error, freedom, number == 0, higher)
        measured = float(means[index] - means[0])
        if better is not None and effects is None:
            _, alone = _against(measured, math.sqrt(noise[index] + noise[0]), freedom, number == 0, higher)
            chance = (alone or 0.0) ** (results * (len(distinct) - 1))
            # Not below a half: that others were tried makes a lead uncertain, and no disadvantage.
            better = min(better, max(chance, 0.5))
        standings.append(Standing(number, len(groups[index]), ratio, math.exp(measured), better))
    return sorted(standings, key=lambda standing: -standing.ratio.value if higher else standing.ratio.value)


def _independent(effects: Array) -> Array | None:
    """Return the columns with one for the mean, or None where they are not independent or leave nothing in common."""
    columns = np.column_stack([np.ones(len(effects)), effects])
    whole = columns.shape[1] < len(columns) and np.linalg.matrix_rank(columns) == columns.shape[1]
    return columns if whole else None


def _against(
    difference: float, error: float, freedom: int, default: bool, higher: bool
) -> tuple[Estimate, float | None]:
    value = math.exp(difference)
    if default:
        return Estimate(1.0, 1.0, 1.0), None
    if not math.isfinite(error):
        return Estimate(value, 0.0, math.inf), None
    wanted = difference if higher else -difference
    better = float(special.stdtr(freedom, wanted / error)) if error else float(wanted > 0)
    return on_log_scale(value, half_width(error, freedom)), better


def _block_effects(numbers: Numbers, labels: Numbers, logs: Array) -> Array:
    """Return each run's block effect, estimated beside the combinations' means; 0 where there is one block."""
    if not labels.max():
        return np.zeros(len(logs))
    effects = np.zeros(int(labels.max()) + 1)
    kinds = numbered(numbers.tolist())
    # The two sets of means are fitted in turn until they agree (backfitting); balanced blocks agree at once.
    for _ in range(50):
        rest = logs - effects[labels]
        means = np.bincount(kinds, weights=rest) / np.bincount(kinds)
        following = np.bincount(labels, weights=logs - means[kinds]) / np.bincount(labels)
        following -= following.mean()
        if np.abs(following - effects).max() < 1e-12:
            break
        effects = following
    settled: Array = effects[labels]
    return settled
