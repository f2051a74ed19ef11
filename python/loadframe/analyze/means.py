"""Means over runs with intervals that hold for further runs: of durations and rates, and of shares of requests.

Geometric means have Student's t interval (95 %) of the mean of logarithms. Shares of requests have that of the mean
share over runs, widened to what counting allows (Clopper and Pearson, "The use of confidence or fiducial limits
illustrated in the case of the binomial", Biometrika 26, 1934, of all requests together): without any failure in few
requests, little is excluded. Where runs are of several sessions, means of sessions are the units, since runs of one
session are alike.
"""

import math
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from scipy import special

from loadframe.analyze.estimate import Estimate, mean_interval


def geometric_mean(values: Sequence[float], sessions: Sequence[int | None]) -> Estimate:
    """Return the geometric mean with its 95 % interval; unbounded for one unit. Values are above 0."""
    mean = _mean(np.log(values).tolist(), sessions)
    return Estimate(math.exp(mean.value), math.exp(mean.low), math.exp(mean.high) if mean.is_finite else math.inf)


def mean_share(counts: Sequence[tuple[int, int]], sessions: Sequence[int | None]) -> Estimate:
    """Return the mean share over runs with its interval; a run is how many were counted, and of how many requests."""
    counted, due = (sum(column) for column in zip(*counts, strict=True))
    together = proportion(counted, due)
    mean = _mean([count / of if of else 0.0 for count, of in counts], sessions)
    if not mean.is_finite:
        return Estimate(mean.value, -math.inf, math.inf)
    return Estimate(mean.value, max(0.0, min(together.low, mean.low)), min(1.0, max(together.high, mean.high)))


def proportion(count: int, total: int) -> Estimate:
    """Return the share of `count` in `total` with its 95 % interval by Clopper and Pearson."""
    low = float(special.betaincinv(count, total - count + 1, 0.025)) if count else 0.0
    high = float(special.betaincinv(count + 1, total - count, 0.975)) if count < total else 1.0
    return Estimate(count / total if total else 0.0, low, high)


def _mean(values: Sequence[float], sessions: Sequence[int | None]) -> Estimate:
    """Return the mean of the runs, or where there are several sessions of their means, with Student's interval."""
    units = list(values)
    if len(set(sessions)) > 1:
        groups = defaultdict(list)
        for value, session in zip(values, sessions, strict=True):
            groups[session].append(value)
        units = [float(np.mean(group)) for group in groups.values()]
    return mean_interval(units)
