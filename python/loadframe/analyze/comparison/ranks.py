"""Whether two samples of runs differ, by ranks: Mann and Whitney's test, Cliff's delta, Holm's adjustment; pure.

Mann and Whitney, "On a test of whether one of two random variables is stochastically larger than the other" (Annals of
Mathematical Statistics 18, 1947); Cliff, "Dominance statistics" (Psychological Bulletin 114, 1993); Holm, "A simple
sequentially rejective multiple test procedure" (Scandinavian Journal of Statistics 6, 1979).
"""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Values = Sequence[float] | Array

#: Up to as many runs in all the distribution is counted out, ties or not; beyond, the normal one is as good.
_EXACT_RUNS = 50


def rank_test(first: Values, second: Values) -> float:
    """Return the two-sided p of no difference: exact for few runs, else by the normal approximation.

    Twice the smaller tail: ties make the tails unequal, and then one alone could be smaller than `least_p` says.
    The approximation has corrections for ties and for continuity. 1 where a sample is empty.
    """
    n, m = len(first), len(second)
    if not n or not m:
        return 1.0
    ranks = _doubled_ranks(first, second)
    if n + m <= _EXACT_RUNS:
        sums, ways = _rank_sums(ranks, n)
        seen = ranks[:n].sum()
        tail = min(float(ways[sums <= seen].sum()), float(ways[sums >= seen].sum()))
        return min(1.0, 2 * tail / math.comb(n + m, n))
    distance = abs(_wins(first, second) - n * m / 2)
    _, sizes = np.unique(ranks, return_counts=True)
    total = n + m
    tied = float((sizes.astype(float) ** 3 - sizes).sum()) / (total * (total - 1))
    variance = n * m / 12 * (total + 1 - tied)
    if variance <= 0:
        return 1.0
    z = max(distance - 0.5, 0.0) / math.sqrt(variance)
    return math.erfc(z / math.sqrt(2))


def cliffs_delta(first: Values, second: Values) -> float:
    """Return how often a run of the second is above one of the first, less how often below: from -1 to 1."""
    n, m = len(first), len(second)
    if not n or not m:
        return 0.0
    return 2 * _wins(first, second) / (n * m) - 1


def least_p(n: int, m: int) -> float:
    """Return the smallest p that n runs against m can ever reach: when each of one side is above all of the other."""
    return min(1.0, 2 / math.comb(n + m, n)) if n and m else 1.0


def runs_needed(level: float, tests: int = 1) -> int:
    """Return how many runs a side it takes so that a difference can reach p < level, adjusted for so many tests."""
    runs = 1
    while least_p(runs, runs) * tests >= level:
        runs += 1
    return runs


def holm(ps: Sequence[float]) -> list[float]:
    """Return the p values adjusted for their number: below a level only if the chance of any false claim is."""
    adjusted = [0.0] * len(ps)
    largest = 0.0
    for rank, index in enumerate(sorted(range(len(ps)), key=lambda each: ps[each])):
        largest = max(largest, min(1.0, (len(ps) - rank) * ps[index]))
        adjusted[index] = largest
    return adjusted


def _wins(first: Values, second: Values) -> float:
    """Return in how many pairs the second's run is above, ties counted as halves."""
    ordered = np.sort(np.asarray(first, dtype=float))
    below = np.searchsorted(ordered, second, side="left").sum()
    upto = np.searchsorted(ordered, second, side="right").sum()
    return float(below + upto) / 2


def _doubled_ranks(first: Values, second: Values) -> npt.NDArray[np.int64]:
    """Return twice the rank of each value; tied ones share the mean of theirs, which may be a half."""
    everything = np.concatenate([np.asarray(first, dtype=float), np.asarray(second, dtype=float)])
    ordered = np.sort(everything)
    below = np.searchsorted(ordered, everything, side="left")
    upto = np.searchsorted(ordered, everything, side="right")
    return (below + upto + 1).astype(np.int64)


def _rank_sums(ranks: npt.NDArray[np.int64], n: int) -> tuple[npt.NDArray[np.int64], Array]:
    """Return each sum that n of these ranks can have, and in how many ways."""
    most = int(np.sort(ranks)[-n:].sum())
    ways = np.zeros((n + 1, most + 1))
    ways[0, 0] = 1
    for rank in ranks.tolist():
        # From the largest number down, so that no rank is taken twice.
        for taken in range(n, 0, -1):
            ways[taken, rank:] += ways[taken - 1, : most + 1 - rank]
    return np.arange(most + 1), ways[n]
