"""Ranking of combinations of settings: their ratios to the default, and the probability that they are better.

The unit is the run, on a log scale. All combinations share one spread, pooled after the blocks are removed, so that few
repetitions of each are enough. Errors include those of the blocks' effects.

The best of many noisy estimates is too good on average, so each combination is shrunk towards the common part: the mean
of all, or the values predicted by the significant settings. Ranking, ratios and probabilities use these estimates.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from loadframe.analyze.estimate import Estimate, Shrunken, additive_effects, half_width, on_log_scale, shrink
from loadframe.analyze.settings.model import RESOLUTION, Array, numbered
from loadframe.base import special

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class RankedCombination:
    """A combination's number, its runs, its ratio to the default, and the probability that it is better.

    `ratio` is the estimate after shrinkage, `measured` the ratio of the runs' means. The probability comes from
    Student's t for the difference. It is at most the one of the measured difference, adjusted for the number of
    combinations. It is None without repetitions, and the ratio is then the measured one.
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
    failed: Collection[int] = (),
) -> list[RankedCombination]:
    """Return the standing of each combination against combination 0, best first; empty if the default was not run.

    `combinations` (numbers), `blocks` and `logs` have one entry per run. `logs` are logarithms of the response;
    `higher` says whether more is better. `effects` are the columns of the significant terms, with a row for each
    combination by its number; values shrink towards their prediction. `results` is the number of such rankings in the
    report. The runs of the combinations `failed` are those that survived. They look too good and too much alike, so
    these combinations are neither shrunk nor part of the common mean. The variance comes from the others alone, and so
    do the effects of blocks, if they have runs in all blocks. Without their degrees of freedom, the differences between
    blocks are part of the variance. Without significant terms, the probabilities account for the choice among all of
    their combinations (Sidak 1967, conservative since all differences share the default's noise).
    """
    numbers = np.asarray(combinations)
    if not (numbers == 0).any():
        return []
    labels = numbered(blocks)
    sound = ~np.isin(numbers, list(failed))
    distinct = sorted(set(numbers.tolist()))
    weights, in_blocks = _weights(numbers, labels, sound)
    means = weights @ logs
    variance, freedom = _variance(numbers[sound], labels[sound], logs[sound])
    if not freedom and not sound.all():
        variance, freedom = _variance(numbers[sound], np.zeros_like(labels[sound]), logs[sound])
    factors = weights @ weights.T
    noise = variance * np.diag(factors)
    estimated = Shrunken(means.copy(), np.sqrt(noise))
    whole = np.array([number not in failed for number in distinct])
    if variance < math.inf and whole.any():
        columns = None if effects is None else _independent(effects[distinct][whole])
        shrunk = shrink(means[whole], noise[whole], columns)
        estimated.values[whole], estimated.errors[whole] = shrunk.values, shrunk.errors
    standings = []
    for index, number in enumerate(distinct):
        difference = float(estimated.values[index] - means[0])
        error = math.hypot(float(estimated.errors[index]), math.sqrt(noise[0]))
        if not np.allclose(in_blocks[index], in_blocks[0], atol=RESOLUTION):
            # Without common blocks, also through other combinations, the difference includes that of the blocks.
            error = math.inf
        ratio, better = _against(difference, error, freedom, number == 0, higher)
        measured = float(means[index] - means[0])
        if better is not None and effects is None:
            factor = float(factors[index, index] + factors[0, 0] - 2 * factors[index, 0])
            _, alone = _against(measured, math.sqrt(variance * factor), freedom, number == 0, higher)
            chance = (alone or 0.0) ** (results * (len(distinct) - 1))
            # At least a half: the number of tried combinations makes a lead uncertain, but is not a disadvantage.
            better = min(better, max(chance, 0.5))
        runs = int((numbers == number).sum())
        standings.append(RankedCombination(number, runs, ratio, math.exp(measured), better))
    return sorted(standings, key=lambda standing: -standing.ratio.value if higher else standing.ratio.value)


def _weights(numbers: Numbers, labels: Numbers, sound: npt.NDArray[np.bool_]) -> tuple[Array, Array]:
    """Return the weight of each run in each combination's mean without the effects of blocks, and their sum by block.

    Both have a row for each combination, in ascending order. `numbers` and `labels` are the combination and the block
    of each run. The effects of blocks come from the runs `sound`, or from all if those lack a block.
    """
    means = np.array([numbers == number for number in sorted(set(numbers.tolist()))], dtype=np.float64)
    means /= means.sum(axis=1, keepdims=True)
    of_blocks = np.eye(int(labels.max()) + 1)[labels]
    if not labels.max():
        return means, means @ of_blocks
    fitted = sound if set(labels[sound]) == set(labels) else np.ones(len(numbers), dtype=bool)
    unit = np.eye(len(numbers))[fitted]
    effects = additive_effects(numbered(numbers[fitted].tolist()), labels[fitted], unit).effects
    weights = means - means @ of_blocks @ effects
    return weights, weights @ of_blocks


def _variance(numbers: Numbers, labels: Numbers, logs: Array) -> tuple[float, int]:
    """Return the variance of runs within combinations and blocks, and its degrees of freedom; infinite and 0 without.

    `numbers` and `labels` are the combination and the block of each run.
    """
    if not len(numbers):
        return math.inf, 0
    treatments, blocks = numbered(numbers.tolist()), numbered(labels.tolist())
    freedom = len(numbers) - int(treatments.max() + 1) - int(blocks.max())
    if freedom <= 0:
        return math.inf, 0
    adjusted = logs - additive_effects(treatments, blocks, logs).effects[blocks]
    groups = (adjusted[treatments == number] for number in range(int(treatments.max()) + 1))
    squares = sum(float(((group - group.mean()) ** 2).sum()) for group in groups)
    return max(squares / freedom, RESOLUTION**2), freedom


def _independent(effects: Array) -> Array | None:
    """Return `effects` after a column of ones; None if columns are dependent or not fewer than rows."""
    columns = np.column_stack([np.ones(len(effects)), effects])
    whole = columns.shape[1] < len(columns) and np.linalg.matrix_rank(columns) == columns.shape[1]
    return columns if whole else None


def _against(
    difference: float, error: float, freedom: int, default: bool, higher: bool
) -> tuple[Estimate, float | None]:
    """Return the ratio to the default and the probability that it is better; 1 and None for the default itself.

    `difference` and its standard `error` are of logarithms. `higher`: whether more is better.
    """
    value = math.exp(difference)
    if default:
        return Estimate(1.0, 1.0, 1.0), None
    if not math.isfinite(error):
        return Estimate(value, 0.0, math.inf), None
    gain = difference if higher else -difference
    better = float(special.stdtr(freedom, gain / error))
    return on_log_scale(value, half_width(error, freedom)), better
