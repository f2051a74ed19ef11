"""Block effects on logarithms, by the two-way additive model of treatments and blocks."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]


class Additive(NamedTuple):
    """Effects of the blocks, which sum to 0, and the rank of the model; it is estimable if the rank is `columns`."""

    effects: Array
    rank: int
    columns: int


def additive_effects(treatments: Codes, blocks: Codes, logs: Array) -> Additive:
    """Fit log = treatment + block + noise by least squares; both are numbered from 0, with one entry per run.

    The solution of the smallest norm is returned for blocks that the treatments do not connect.
    """
    # The last block's effect is minus the sum of the others'.
    indicator = np.eye(int(blocks.max()) + 1)[blocks]
    of_treatments = np.eye(int(treatments.max()) + 1)[treatments]
    design = np.column_stack([of_treatments, indicator[:, :-1] - indicator[:, -1:]])
    solution, _, rank, _ = np.linalg.lstsq(design, logs, rcond=None)
    of_blocks = solution[of_treatments.shape[1] :]
    return Additive(np.append(of_blocks, -of_blocks.sum()), int(rank), design.shape[1])
