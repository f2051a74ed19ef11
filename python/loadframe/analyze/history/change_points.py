"""Change points in a series of runs, oldest first; pure and deterministic.

Candidates are found by E-divisive (Matteson and James, "A nonparametric approach for multiple change point analysis of
multivariate data", Journal of the American Statistical Association 109, 2014): the split whose two sides have the
largest energy distance, again and again. What counts is decided by Student's t-test between neighbouring segments
instead of by permutation, with a second pass that merges the weakest, and by the size of the change, as Hunter does it
(Fleming, Kolaczkowski, Kumar, Das, McCarthy, Pattabhiraman and Ingo, "Hunter: using change point detection to hunt for
performance regressions", ICPE 2023).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

Array = npt.NDArray[np.float64]

#: Of the t-test. The split is chosen for looking different, so a level of 0.05 would find changes in every history;
#: with this one about 1 in 100 histories of 30 runs without any change has one.
P = 0.001
#: Relative changes below this are of no interest.
LEAST = 0.05
#: The first pass takes what might be something; the second decides when all neighbours are known.
_WEAK = 10
#: Two runs that happen to be alike tell nothing of the noise.
_SHORTEST = 3


@dataclass(frozen=True)
class ChangePoint:
    """The first run of a new level: its index, the means before and after up to the next change, the p of the test."""

    index: int
    before: float
    after: float
    p: float

    @property
    def change(self) -> float:
        """The relative change, such as -0.2 for a fall by a fifth."""
        return self.after / self.before - 1 if self.before else math.inf


def change_points(values: Sequence[float] | Array, *, p: float = P, least: float = LEAST) -> tuple[ChangePoint, ...]:
    """Return where the level of a series changed by at least `least` of itself, with the t-test's p below `p`."""
    series = np.asarray(values, dtype=float)
    found = sorted(_split(series, 0, len(series), p * _WEAK))
    while found:
        points = _describe(series, found)
        # Neighbours of a false change look weaker than they are, so the weakest goes first and the rest is seen anew.
        small = [point for point in points if abs(point.change) < least]
        worst = min(small, key=lambda point: abs(point.change)) if small else max(points, key=lambda point: point.p)
        if not small and worst.p < p:
            return tuple(points)
        found.remove(worst.index)
    return ()


def _split(series: Array, start: int, end: int, p: float) -> list[int]:
    """Return the splits of a stretch, recursively, that a t-test at a lenient level does not refuse."""
    if end - start < 2 * _SHORTEST:
        return []
    at = start + _best_split(series[start:end])
    if _t_test(series[start:at], series[at:end]) >= p:
        return []
    return [*_split(series, start, at, p), at, *_split(series, at, end, p)]


def _best_split(values: Array) -> int:
    """Return where the energy distance of the two sides, scaled as by Matteson and James, is greatest."""
    n = len(values)
    before, after = np.empty(n), np.empty(n)
    for index, value in enumerate(values):
        distances = np.abs(values - value)
        before[index], after[index] = distances[:index].sum(), distances[index:].sum()
    left = np.arange(_SHORTEST, n - _SHORTEST + 1)
    right = n - left
    within_left = np.cumsum(before)[left - 1]
    within_right = np.cumsum(after[::-1])[::-1][left]
    between = before.sum() - within_left - within_right
    distance = (
        2 * between / (left * right) - within_left / (left * (left - 1) / 2) - within_right / (right * (right - 1) / 2)
    )
    return int(left[np.argmax(distance * left * right / n)])


def _describe(series: Array, indices: Sequence[int]) -> list[ChangePoint]:
    edges = [0, *indices, len(series)]
    points = []
    for start, at, end in zip(edges, edges[1:], edges[2:], strict=False):
        before, after = series[start:at], series[at:end]
        points.append(ChangePoint(at, float(before.mean()), float(after.mean()), _t_test(before, after)))
    return points


def _t_test(first: Array, second: Array) -> float:
    """Return the two-sided p of equal means, by Student's test with one variance."""
    n, m = len(first), len(second)
    freedom = n + m - 2
    squares = float(((first - first.mean()) ** 2).sum() + ((second - second.mean()) ** 2).sum())
    difference = abs(float(first.mean() - second.mean()))
    # Rounding leaves a little variance in equal values.
    if squares <= 1e-24 * float((first**2).sum() + (second**2).sum()):
        return 0.0 if difference > 1e-12 * abs(float(first.mean())) else 1.0
    t = difference / math.sqrt(squares / freedom * (1 / n + 1 / m))
    return 2 * float(special.stdtr(freedom, -t))
