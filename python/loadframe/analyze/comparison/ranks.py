"""How far two samples of runs lie apart, by ranks, and the adjustment of many p values; pure.

Cliff, "Dominance statistics" (Psychological Bulletin 114, 1993); Holm, "A simple sequentially rejective multiple test
procedure" (Scandinavian Journal of Statistics 6, 1979).
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Values = Sequence[float] | Array


def cliffs_delta(first: Values, second: Values) -> float:
    """Return how often a run of the second is above one of the first, less how often below: from -1 to 1."""
    n, m = len(first), len(second)
    if not n or not m:
        return 0.0
    return 2 * _wins(first, second) / (n * m) - 1


def holm(ps: Sequence[float]) -> list[float]:
    """Return the p values adjusted for their number: below a level only if the chance of any false claim is."""
    adjusted = [0.0] * len(ps)
    largest = 0.0
    for rank, index in enumerate(sorted(range(len(ps)), key=lambda place: ps[place])):
        largest = max(largest, min(1.0, (len(ps) - rank) * ps[index]))
        adjusted[index] = largest
    return adjusted


def _wins(first: Values, second: Values) -> float:
    """Return in how many pairs the second's run is above, ties counted as halves."""
    ordered = np.sort(np.asarray(first, dtype=float))
    below = np.searchsorted(ordered, second, side="left").sum()
    upto = np.searchsorted(ordered, second, side="right").sum()
    return float(below + upto) / 2
