"""Means over runs with intervals that hold for further runs: of durations and rates, and of shares of requests.

Geometric means have Student's t interval (95 %) of the mean of logarithms. Shares of requests have the interval of a
binomial share (Clopper and Pearson, "The use of confidence or fiducial limits illustrated in the case of the binomial",
Biometrika 26, 1934) at the effective number of requests, by which the variance between runs is that of a share (Korn
and Graubard, "Confidence intervals for proportions with small expected number of positive counts estimated from survey
data", Survey Methodology 24, 1998). Shares are skewed, and Student's interval of their mean is too narrow. Where runs
are of several sessions, means of sessions are the units, since runs of one session are alike.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean, variance

import numpy as np
from scipy import special

from loadframe.analyze.estimate import Estimate, mean_interval

#: The probability beyond each end of an interval whose ends are one-sided 95 % limits.
ONE_SIDED = 0.05
#: The step, as a factor, in which numbers of requests are tried.
_STEP = 1.02


def geometric_mean(values: Sequence[float], sessions: Sequence[int | None]) -> Estimate:
    """Return the geometric mean with its 95 % interval; unbounded for one unit. Values are above 0."""
    mean = mean_interval(_units(np.log(values).tolist(), sessions))
    return Estimate(math.exp(mean.value), math.exp(mean.low), math.exp(mean.high) if mean.is_finite else math.inf)


def mean_share(counts: Sequence[tuple[int, int]], sessions: Sequence[int | None], outside: float = 0.025) -> Estimate:
    """Return the mean share over runs with its interval; a run is how many were counted, and of how many requests.

    `outside` is the probability beyond each end; `ONE_SIDED` makes each end a one-sided 95 % limit.
    """
    units = _units([count / of if of else 0.0 for count, of in counts], sessions)
    share = fmean(units)
    if len(units) < 2:
        return Estimate(share, -math.inf, math.inf)
    effective = float(sum(of for _, of in counts))
    if error := variance(units) / len(units):
        caution = float(special.ndtri(outside) / special.stdtrit(len(units) - 1, outside)) ** 2
        effective = min(effective, share * (1 - share) / error * caution)
    return proportion(share * effective, effective, outside)


def proportion(count: float, total: float, outside: float = 0.025) -> Estimate:
    """Return the share of `count` in `total` with its interval by Clopper and Pearson, `outside` beyond each end."""
    low = float(special.betaincinv(count, total - count + 1, outside)) if count else 0.0
    high = float(special.betaincinv(count + 1, total - count, 1 - outside)) if count < total else 1.0
    return Estimate(count / total if total else 0.0, low, high)


def requests_needed(share: float, limit: float) -> int | None:
    """Return how many requests show that fewer than `limit` fail, if `share` of them do; None if too many do.

    They show it where the one-sided 95 % limit of Clopper and Pearson is at most `limit`.
    """
    if not share < limit:
        return None
    needed = math.ceil(math.log(ONE_SIDED) / math.log1p(-limit)) if limit < 1 else 1
    while special.betaincinv(share * needed + 1, (1 - share) * needed, 1 - ONE_SIDED) > limit:
        needed = math.ceil(needed * _STEP)
    return needed


def _units(values: Sequence[float], sessions: Sequence[int | None]) -> list[float]:
    """Return the runs' values, or where there are several sessions the sessions' means."""
    if len(set(sessions)) < 2:
        return list(values)
    groups = defaultdict(list)
    for value, session in zip(values, sessions, strict=True):
        groups[session].append(value)
    return [fmean(group) for group in groups.values()]
