"""Block effects: what runs of one block have in common, taken out of the noise and given back to the level.

An experiment runs each size once in every block, and all runs of a block are faster or slower by a common factor: the
machine had a good hour or a bad one. That factor says nothing of the curve's shape, so it is removed from the runs
before anything is fitted (a two-way additive model of log throughput; Montgomery, "Design and Analysis of Experiments",
8th ed. 2013, section 4.1). It does say how far the level (lambda, a ceiling, throughput at the peak) is known: as well
with the precision of that many blocks, not of that many runs.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from loadframe.analyze.scalability.models import Array

#: The greatest error of a level's logarithm.
_MOST = 200.0


@dataclass(frozen=True, eq=False)
class BlockEffects:
    """Effects of the blocks on log throughput, summing to 0, and how many runs each block has."""

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
        """Draw errors of the level's logarithm that the noise within blocks does not explain, one for each of `scales`.

        `variance` is that of the noise within blocks, and `scales` the factors by which it was multiplied in each draw.
        The variance of block means is drawn from its sampling distribution, and what the noise explains of it is taken
        off: a generalised pivotal quantity (Weerahandi, "Generalized Confidence Intervals", Journal of the American
        Statistical Association 88, 1993), as usual for variance components.
        """
        between = float((self.effects**2).sum()) / random.chisquare(self.freedom, size=len(scales))
        explained = variance * scales * float((1 / self.runs).mean())
        errors: Array = np.sqrt(np.maximum(between - explained, 0.0) / self.count)
        # Two blocks say so little of their variance that an error may be greater than a float has room for.
        return np.clip(errors * random.standard_normal(len(scales)), -_MOST, _MOST)


def block_effects(sizes: Array, throughputs: Array, blocks: Sequence[object]) -> tuple[BlockEffects, Array] | None:
    """Return the effects, and the factor of each run's block; None where there is nothing to tell them from.

    `sizes`, `throughputs` and `blocks` have an entry for each run. There is nothing to tell where some run has no
    block, where there is only one, where blocks share too few sizes, or where no degree of freedom is left.
    """
    if any(block is None for block in blocks):
        return None
    _, size = np.unique(sizes, return_inverse=True)
    names = list(dict.fromkeys(blocks))
    block = np.array([names.index(label) for label in blocks])
    if len(names) < 2:
        return None
    # The last block's effect is minus the sum of the others'.
    indicator = np.eye(len(names))[block]
    design = np.column_stack([np.eye(size.max() + 1)[size], indicator[:, :-1] - indicator[:, -1:]])
    rank = int(np.linalg.matrix_rank(design))
    if rank < design.shape[1] or len(block) <= rank:
        return None
    solution = np.linalg.lstsq(design, np.log(throughputs), rcond=None)[0][size.max() + 1 :]
    effects = np.append(solution, -solution.sum())
    return BlockEffects(effects, np.bincount(block).astype(float)), np.exp(effects)[block]
