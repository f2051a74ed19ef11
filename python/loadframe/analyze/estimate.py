"""Estimates with intervals: means over runs, shares, shrunken effects, block effects, rank tests, adjusted p-values.

The interval of a geometric mean is Student's t interval (95 %) of the mean of logarithms. Shares of requests have the
binomial interval (Clopper and Pearson, "The use of confidence or fiducial limits illustrated in the case of the
binomial", Biometrika 26, 1934) at an effective number of requests, which reproduces the variance between runs (Korn and
Graubard, "Confidence intervals for proportions with small expected number of positive counts estimated from survey
data", Survey Methodology 24, 1998). Shares are skewed, so Student's interval of their mean is too narrow. With several
sessions the units are session means, since runs of one session are correlated.

The maximum of several noisy values overestimates the true maximum on average; the bias grows with their number and
noise. An empirical-Bayes estimate avoids the bias. It treats the values as draws from a normal distribution about a
common mean, or about a regression on known columns, and estimates the distribution's spread from the values (Efron and
Morris, "Stein's paradox in statistics", Scientific American 236, 1977; Morris, "Parametric empirical Bayes inference",
Journal of the American Statistical Association 78, 1983). Here the spread is averaged over a prior: half of the weight
is on zero, and the rest is uniform in the share by which a value of typical noise is shrunk.

Cliff, "Dominance statistics" (Psychological Bulletin 114, 1993); Holm, "A simple sequentially rejective multiple test
procedure" (Scandinavian Journal of Statistics 6, 1979).
"""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev, variance
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from loadframe.base import special

#: Numbers with a larger logarithm count as infinite.
_GREATEST_LOG = 700


@dataclass(frozen=True)
class Estimate:
    """A value with its 95 % interval; an end is infinite if the data do not bound it."""

    value: float
    low: float
    high: float

    @property
    def is_finite(self) -> bool:
        """Whether the data bound the value on both sides."""
        return math.isfinite(self.low) and math.isfinite(self.high)

    def as_dict(self, *, is_open: bool = False) -> dict[str, float | None]:
        """Return `value`, `low` and `high` for JSON; a number that is not finite is null.

        `is_open`: failures of the store leave an end of this ratio open. Then the value, which is the survivors', and a
        low end of 0 are null.
        """
        document = {key: number if math.isfinite(number) else None for key, number in vars(self).items()}
        return document | {"value": None, "low": document["low"] or None} if is_open else document


def half_width(error: float, freedom: float) -> float:
    """Return the half-width of a 95 % interval: the standard `error` times Student's t.

    `freedom`: degrees of freedom; below 1 the result is infinite.
    """
    return float(special.stdtrit(freedom, 0.975)) * error if freedom >= 1 else math.inf


def mean_interval(values: Sequence[float]) -> Estimate:
    """Return the mean of independent values with its 95 % interval by Student's t; unbounded for a single value.

    StatisticsError without values.
    """
    mean = fmean(values)
    if len(values) < 2:
        return Estimate(mean, -math.inf, math.inf)
    half = half_width(stdev(values) / math.sqrt(len(values)), len(values) - 1)
    return Estimate(mean, mean - half, mean + half)


def within(estimate: Estimate, least: float = 0.0, most: float = math.inf) -> Estimate:
    """Return an estimate with its interval cut to `least` and `most`; an interval with an infinite end stays.

    The value itself stays as it is.
    """
    if not estimate.is_finite:
        return estimate
    return Estimate(estimate.value, max(estimate.low, least), min(estimate.high, most))


def on_log_scale(value: float, half: float) -> Estimate:
    """Return a positive value with the interval from value / exp(half) to value * exp(half).

    The upper end is infinite from a `half` of 700 on; an infinite `half` gives 0 to infinity.
    """
    return Estimate(value, value * math.exp(-half), value * math.exp(half) if half < _GREATEST_LOG else math.inf)


#: Probability beyond each end for one-sided 95 % limits.
ONE_SIDED = 0.05
#: Factor between tried numbers of requests.
_STEP = 1.02


def geometric_mean(values: Sequence[float], sessions: Sequence[int | None]) -> Estimate:
    """Return the geometric mean of values above 0 with its 95 % interval; the interval is 0 to infinity for one unit.

    The units are runs if `sessions`, the session of each run, are all the same, otherwise session means of logarithms.
    """
    mean = mean_interval(session_units(np.log(values).tolist(), sessions))
    return Estimate(math.exp(mean.value), math.exp(mean.low), math.exp(mean.high) if mean.is_finite else math.inf)


def mean_share(counts: Sequence[tuple[int, int]], sessions: Sequence[int | None], outside: float = 0.025) -> Estimate:
    """Return the mean share over runs with its interval; `counts` has a pair of each: counted and all requests.

    `sessions` has the session of each run. The units have equal weights: runs if all are of one session, otherwise
    session means. The interval is Clopper and Pearson's for the number of requests that would give a single share the
    variance of this mean. It is unbounded for one unit. Runs without requests are left out; without any other, the
    share is 0. `outside` is the probability beyond each end; `ONE_SIDED` makes each end a one-sided 95 % limit.
    """
    known = [(count / of, of, session) for (count, of), session in zip(counts, sessions, strict=True) if of]
    in_sessions = [session for _, _, session in known]
    units = session_units([share for share, _, _ in known], in_sessions)
    share = fmean(units) if units else 0.0
    if len(units) < 2:
        return Estimate(share, -math.inf, math.inf)
    # Units weigh the same, so those with few requests limit what the mean is worth: as many requests as would give a
    # single share the same variance by counting.
    runs = Counter(in_sessions) if len(set(in_sessions)) > 1 else dict.fromkeys(in_sessions, 1)
    effective = len(units) ** 2 / sum(1 / (of * runs[session] ** 2) for _, of, session in known)
    if error := variance(units) / len(units):
        caution = float(special.ndtri(outside) / special.stdtrit(len(units) - 1, outside)) ** 2
        effective = min(effective, share * (1 - share) / error * caution)
    return proportion(share * effective, effective, outside)


def proportion(count: float, total: float, outside: float = 0.025) -> Estimate:
    """Return `count` / `total` with its Clopper-Pearson interval, with the probability `outside` beyond each end.

    The numbers need not be whole. A `total` of 0 gives 0 with the interval 0 to 1.
    """
    low = float(special.betaincinv(count, total - count + 1, outside)) if count else 0.0
    high = float(special.betaincinv(count + 1, total - count, 1 - outside)) if count < total else 1.0
    return Estimate(count / total if total else 0.0, low, high)


def requests_needed(share: float, limit: float) -> int | None:
    """Return how many requests show that fewer than `limit` fail if a `share` fails; None if `share` reaches `limit`.

    Both are shares, 0 to 1. The criterion is a one-sided 95 % limit by Clopper and Pearson of at most `limit`. The
    number may exceed the smallest one by about 2 %.
    """
    if not share < limit:
        return None
    needed = math.ceil(math.log(ONE_SIDED) / math.log1p(-limit)) if limit < 1 else 1
    while special.betaincinv(share * needed + 1, (1 - share) * needed, 1 - ONE_SIDED) > limit:
        needed = math.ceil(needed * _STEP)
    return needed


def session_units(values: Sequence[float], sessions: Sequence[int | None]) -> list[float]:
    """Return the values of the runs if they are of one session, otherwise the mean of each session.

    Sessions are in order of first appearance; runs with the session None form one session together.
    """
    if len(set(sessions)) < 2:
        return list(values)
    groups = defaultdict(list)
    for value, session in zip(values, sessions, strict=True):
        groups[session].append(value)
    return [fmean(group) for group in groups.values()]


Array = npt.NDArray[np.float64]

#: Shrinkage shares, denser near 0, where values differ by much more than their noise. The last is full shrinkage, for
#: equal true values.
_EDGES = np.concatenate([[0.0], np.geomspace(1e-9, 0.025, 16), np.linspace(0.05, 1.0, 39)])
_SHARES = np.append((_EDGES[1:] + _EDGES[:-1]) / 2, 1.0)
_PRIOR = np.append(np.diff(_EDGES) / 2, 0.5)


@dataclass(frozen=True, eq=False)
class Shrunken:
    """Values after shrinkage, and their remaining standard deviations."""

    values: Array
    errors: Array


def shrink(values: Array, variances: Array, design: Array | None = None) -> Shrunken:
    """Return the values shrunk towards their common mean; `variances` are the values' noise variances, above 0.

    With `design` (values, columns; columns independent) they shrink towards the regression on it. With at least as many
    columns as values (one column without `design`) they stay unchanged. The result's `errors` are standard deviations.
    """
    columns = np.ones((len(values), 1)) if design is None else design
    if len(values) <= columns.shape[1]:
        return Shrunken(values, np.sqrt(variances))
    typical = 1 / float(np.mean(1 / variances))
    likelihoods, means, spreads = [], [], []
    for share in _SHARES:
        between = typical * (1 - share) / share
        weights = 1 / (variances + between)
        information = columns.T @ (weights[:, None] * columns)
        inverse = np.linalg.inv(information)
        common = columns @ (inverse @ (columns.T @ (weights * values)))
        drawn = variances * weights
        rest = values - common
        likelihoods.append((np.log(weights).sum() - np.linalg.slogdet(information)[1] - weights @ rest**2) / 2)
        means.append(values - drawn * rest)
        spreads.append(variances * (1 - drawn) + drawn**2 * np.einsum("ij,jk,ik->i", columns, inverse, columns))
    posterior = special.softmax(np.array(likelihoods) + np.log(_PRIOR))
    centres = np.array(means)
    middle: Array = posterior @ centres
    spread: Array = np.sqrt(posterior @ (np.array(spreads) + (centres - middle) ** 2))
    return Shrunken(middle, spread)


Values = Sequence[float] | Array


def cliffs_delta(first: Values, second: Values) -> float:
    """Return P(second > first) - P(second < first) over all pairs of runs: from -1 to 1; 0 if a side is empty."""
    n, m = len(first), len(second)
    if not n or not m:
        return 0.0
    return 2 * _wins(first, second) / (n * m) - 1


def holm(ps: Sequence[float]) -> list[float]:
    """Return the p values, in the same order, adjusted by Holm's method, which bounds the chance of any false claim.

    An adjusted p value is at most 1.
    """
    adjusted = [0.0] * len(ps)
    largest = 0.0
    for rank, index in enumerate(sorted(range(len(ps)), key=lambda place: ps[place])):
        largest = max(largest, min(1.0, (len(ps) - rank) * ps[index]))
        adjusted[index] = largest
    return adjusted


def _wins(first: Values, second: Values) -> float:
    """Return the number of pairs in which the second run is above the first; a tie counts one half."""
    ordered = np.sort(np.asarray(first, dtype=float))
    below = np.searchsorted(ordered, second, side="left").sum()
    upto = np.searchsorted(ordered, second, side="right").sum()
    return float(below + upto) / 2


Codes = npt.NDArray[np.int64]


class Additive(NamedTuple):
    """Effects of the blocks, which sum to 0, and the rank of the model; it is estimable if the rank is `columns`."""

    effects: Array
    rank: int
    columns: int


def additive_effects(treatments: Codes, blocks: Codes, logs: Array) -> Additive:
    """Return the block effects of the least-squares fit log = treatment + block + noise, and its rank.

    `treatments` and `blocks` are numbered from 0, with one entry per run, as `logs`, the logarithms of the runs'
    values, or has several columns of them. The effects are by number of block. If treatments do not connect the blocks,
    the effects are those of the solution with the smallest norm.
    """
    # The last block's effect is minus the sum of the others'.
    indicator = np.eye(int(blocks.max()) + 1)[blocks]
    of_treatments = np.eye(int(treatments.max()) + 1)[treatments]
    design = np.column_stack([of_treatments, indicator[:, :-1] - indicator[:, -1:]])
    solution, _, rank, _ = np.linalg.lstsq(design, logs, rcond=None)
    of_blocks = solution[of_treatments.shape[1] :]
    return Additive(np.concatenate([of_blocks, -of_blocks.sum(axis=0, keepdims=True)]), int(rank), design.shape[1])
