"""Repeated runs grouped by size: the data of the fits.

A weighted least-squares fit to repeated runs equals the fit to their means plus a constant (the pure error), since runs
of one size share prediction and weight. So solvers see one row per distinct size. Block effects are removed first.

An experiment runs each size once per block, and a common factor affects all runs of a block (the state of the machine).
This factor does not affect the curve's shape, so it is removed before the fit (a two-way additive model of log
throughput; Montgomery, "Design and Analysis of Experiments", 8th ed. 2013, section 4.1). It limits the precision of the
level (lambda, a ceiling, throughput at the peak) by the number of blocks instead of the number of runs.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from loadframe.analyze.block_effects import additive_effects
from loadframe.analyze.scalability.models import Array
from loadframe.base.errors import BadInput
from loadframe.base.units import counted

#: Largest error of a level's logarithm.
_MOST = 200.0


@dataclass(frozen=True, eq=False)
class BlockEffects:
    """Effects of the blocks on log throughput, which sum to 0, and the number of runs per block."""

    effects: Array
    runs: Array

    @property
    def count(self) -> int:
        """Number of blocks."""
        return len(self.effects)

    @property
    def freedom(self) -> int:
        """Degrees of freedom that the effects take from the noise."""
        return self.count - 1

    def level_errors(self, variance: float, scales: Array, random: np.random.Generator) -> Array:
        """Draw errors of the level's logarithm beyond the noise within blocks, one for each of `scales`.

        `variance` is the noise variance within blocks; `scales` are its factors in the draws. The variance of block
        means is drawn from its sampling distribution, less the part that the noise explains. This is a generalised
        pivotal quantity (Weerahandi, "Generalized Confidence Intervals", Journal of the American Statistical
        Association 88, 1993), as usual for variance components.
        """
        between = float((self.effects**2).sum()) / random.chisquare(self.freedom, size=len(scales))
        explained = variance * scales * float((1 / self.runs).mean())
        errors: Array = np.sqrt(np.maximum(between - explained, 0.0) / self.count)
        # With two blocks the drawn variance may be huge, so the errors are limited to the range of a float.
        return np.clip(errors * random.standard_normal(len(scales)), -_MOST, _MOST)


def block_effects(sizes: Array, throughputs: Array, blocks: Sequence[object]) -> tuple[BlockEffects, Array] | None:
    """Return the effects, and the factor of each run's block; None if they cannot be estimated.

    `sizes`, `throughputs` and `blocks` have one entry per run. Not estimable: a run without a block, a single block,
    blocks that share too few sizes, or no degree of freedom left.
    """
    if any(block is None for block in blocks):
        return None
    _, size = np.unique(sizes, return_inverse=True)
    names = list(dict.fromkeys(blocks))
    block = np.array([names.index(label) for label in blocks])
    if len(names) < 2:
        return None
    fitted = additive_effects(size, block, np.log(throughputs))
    if fitted.rank < fitted.columns or len(block) <= fitted.rank:
        return None
    return BlockEffects(fitted.effects, np.bincount(block).astype(float)), np.exp(fitted.effects)[block]


Residuals = Literal["relative", "absolute"]

#: Default relative resolution of throughputs: keeps the variance of exact data above 0.
RESOLUTION = 1e-6

#: Smallest number, and inverse of the largest, with an exact square in a float.
_LEAST = 1e-100
_MOST_SIZES = 500


@dataclass(frozen=True, eq=False)
class Observations:
    """Runs by size: `sizes` ascending and distinct, `runs[i]` the throughputs at `sizes[i]`.

    `places[i]` are their indices among the input pairs. With `blocks`, throughputs are without block effects.
    `resolution` is the relative standard deviation of an error that all runs of a size share, such as that of a search
    on a grid of rates; repeated runs do not show it.
    """

    sizes: Array
    runs: tuple[Array, ...]
    places: tuple[tuple[int, ...], ...]
    residuals: Residuals
    blocks: BlockEffects | None = None
    resolution: float = RESOLUTION

    @property
    def means(self) -> Array:
        """Mean throughput at each size."""
        return np.array([run.mean() for run in self.runs])

    @property
    def counts(self) -> Array:
        """Number of runs at each size."""
        return np.array([float(run.size) for run in self.runs])

    @property
    def total(self) -> int:
        """Number of runs."""
        return sum(run.size for run in self.runs)

    @property
    def freedom(self) -> int:
        """Number of runs minus the degrees of freedom of the block effects."""
        return self.total - (self.blocks.freedom if self.blocks else 0)

    @property
    def is_replicated(self) -> bool:
        """Whether each size has at least two runs, so that noise can be separated from misfit."""
        return all(run.size > 1 for run in self.runs)

    def weights(self, means: Array) -> Array:
        """Return the weight of each size's mean: sqrt(runs), divided by the mean for relative residuals."""
        roots = np.sqrt(self.counts)
        return roots / means if self.residuals == "relative" else np.broadcast_to(roots, means.shape)

    @property
    def scale(self) -> Array:
        """Divisor of a run's deviation: the mean at its size (relative), or 1 (absolute)."""
        return self.means if self.residuals == "relative" else np.ones_like(self.means)

    @property
    def pure_error(self) -> float:
        """Sum of squared deviations of runs from their size's mean, in units of `scale`."""
        return float(sum(np.sum(((run - run.mean()) / s) ** 2) for run, s in zip(self.runs, self.scale, strict=True)))

    @property
    def least_sum(self) -> float:
        """The sum of squares below which differences are within the data's resolution."""
        typical = 1.0 if self.residuals == "relative" else float(self.means.mean())
        return self.total * (self.resolution * typical) ** 2

    def without_largest(self) -> "Observations":
        """Return the same observations without the largest size."""
        return replace(self, sizes=self.sizes[:-1], runs=self.runs[:-1], places=self.places[:-1])

    def without_run(self, size: int, run: int) -> "Observations":
        """Return the observations without one run, and without its size if it was the only run there."""
        runs, places = list(self.runs), list(self.places)
        runs[size] = np.delete(runs[size], run)
        places[size] = places[size][:run] + places[size][run + 1 :]
        kept = [index for index, left in enumerate(runs) if left.size]
        return replace(
            self,
            sizes=self.sizes[kept],
            runs=tuple(runs[index] for index in kept),
            places=tuple(places[index] for index in kept),
        )


def gather(
    pairs: Sequence[tuple[float, float]],
    residuals: Residuals,
    resolution: float = RESOLUTION,
    blocks: Sequence[object] | None = None,
    without: Collection[int] = (),
) -> Observations:
    """Group (n, throughput) pairs by n; BadInput for numbers that are not positive and finite, or under 3 sizes.

    `blocks` names the block of each pair; `without` holds the indices of pairs to omit.
    """
    for position, (n, throughput) in enumerate(pairs, start=1):
        _check(n, throughput, f"observation {position}")
    kept = [position for position in range(len(pairs)) if position not in without]
    count = len({float(pairs[position][0]) for position in kept})
    if count < 3:
        sizes_text = "no size" if not count else f"only {counted(count, 'distinct size')}"
        raise BadInput(
            f"{sizes_text}: a scalability model needs at least 3", remedy="measure at more sizes; 6 is better"
        )
    _check_range([pairs[position][0] for position in kept], count)
    n, throughputs = np.array([pairs[position] for position in kept], dtype=float).T
    blocked = block_effects(n, throughputs, [blocks[position] for position in kept]) if blocks else None
    effects, factors = blocked or (None, np.ones_like(n))
    sizes = np.unique(n)
    return Observations(
        sizes,
        tuple((throughputs / factors)[n == size] for size in sizes),
        tuple(tuple(kept[index] for index in np.flatnonzero(n == size)) for size in sizes),
        residuals,
        effects,
        resolution,
    )


def _check(n: float, throughput: float, where: str) -> None:
    for what, number in (("size", n), ("throughput", throughput)):
        if not _LEAST < number < 1 / _LEAST:
            raise BadInput(
                f"the {what} {number:g} is not positive and finite",
                where=where,
                remedy="a fit needs sizes and throughputs above 0; remove failed runs",
            )


def _check_range(sizes: Sequence[float], count: int) -> None:
    """Refuse, in one message, sizes that are all at most 1 and more distinct sizes than a fit takes.

    Some sizes may be below 1, such as average numbers of active sessions: the models hold for real N.
    """
    what, remedies = [], []
    if (largest := max(sizes)) <= 1:
        factor = 10 ** math.ceil(math.log10(10 / largest))
        what.append(f"the largest size, {largest:g}, is not above 1, but the models refer to the throughput at 1")
        remedies.append(f"multiply all sizes by {factor:,}, so that n counts a smaller unit")
    if count > _MOST_SIZES:
        what.append(f"{count} distinct sizes exceed the limit of {_MOST_SIZES} for a fit")
        remedies.append("round sizes to two significant digits, so that equal ones count as repetitions")
    if what:
        raise BadInput("; ".join(what), remedy="; then ".join(remedies))
