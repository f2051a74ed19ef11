"""Automatic warm-up and run length: when a load has reached steady state, and when its figures are precise enough.

Warm-up: MSER-5 cuts the series of throughput and of response times (see `verdict.trends`). Steady state has begun
at the later cut if neither cut lies at half of its series or later, and if neither remainder of at least 20 s has a
trend or changes by more than 5 %. The warm-up ends after the look that finds this, so the measured window starts with
new data.

Run length: a sequential procedure with a fixed relative precision (Law and Kelton, "Confidence intervals for
steady-state simulations II: a survey of sequential procedures", Management Science 28, 1982). It looks at times that
grow by half, from the shortest window to the longest, and stops at the first look at which every interval is narrow
enough. Without a correction, repeated looks favour moments at which the variance is underestimated. Each of K looks
therefore uses intervals of the level 1 - 0.05/K (Bonferroni). The probability that any look's interval misses the true
value is at most 5 %, whatever the stopping rule and the dependence between looks; so it is for the last one.

The intervals account for the correlation of seconds. Throughput uses batch means (Schmeiser, "Batch size effects in the
analysis of simulation output", Operations Research 30, 1982) and the lag-one correlation, and the wider interval
counts. Percentiles are those of `percentiles`. benchmarks/simulate_run_length.py simulates the coverage.
"""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from loadframe.analyze.autocorrelation import effective_size, independent_values, lag_one
from loadframe.analyze.estimate import Estimate
from loadframe.analyze.percentiles import OUTSIDE, batches_of
from loadframe.analyze.verdict.trends import steadiness, truncation
from loadframe.base import special

Array = npt.NDArray[np.float64]

#: Interval between looks for steady state, s.
LOOK = 5
#: Shortest remainder that can be judged steady, s.
LEAST_STEADY = 20
#: Largest relative change over the remainder. Noise alone rarely hides a larger one at every look.
_CHANGE = 0.05
#: Factor between the times of looks at the precision.
_GROWTH = 1.5
#: Smallest number of seconds and of independent seconds for an interval.
_LEAST_SECONDS, _LEAST_INDEPENDENT = 5, 10


def steady_from(throughput: Array, response: Array) -> int | None:
    """Return the second in which steady state began, counted from 0; None if it has not, or cannot be judged yet.

    It begins where MSER cuts the later of both series, if the rest of each is steady, is longer than the cut part,
    lasts 20 s, and changes by at most 5 %. Both series have one value per second since the load began; `response` are
    times, NaN in seconds without answers. None also if no second has an answer.
    """
    series = [throughput, _filled(response)]
    if len(throughput) < LEAST_STEADY or not np.isfinite(series[1]).all():
        return None
    cut = max(map(truncation, series))
    if 2 * cut >= len(throughput):
        return None
    remainders = [steadiness(values[cut:]) for values in series]
    return cut if all(it is not None and it.steady and abs(it.change) <= _CHANGE for it in remainders) else None


def _filled(values: Array) -> Array:
    """Return the values with NaN replaced by the last number before it, or else by the first number.

    Unchanged if all are NaN.
    """
    known = np.flatnonzero(np.isfinite(values))
    if not len(known):
        return values
    last = np.searchsorted(known, np.arange(len(values)), side="right") - 1
    filled: Array = values[known[np.maximum(last, 0)]]
    return filled


def looks(shortest: float, longest: float) -> tuple[int, ...]:
    """Return the window lengths, in whole s, at which the precision is judged; the last one is the longest window.

    Each is about 1.5 times the one before. A `longest` of at most `shortest` gives `shortest` alone, rounded up.
    """
    times = [math.ceil(shortest)]
    while times[-1] * _GROWTH < longest:
        times.append(math.ceil(times[-1] * _GROWTH))
    return (*times, math.floor(longest)) if times[-1] < math.floor(longest) else tuple(times)


def outside_of(count: int) -> float:
    """Return the probability beyond each end of the interval of one of `count` looks: 0.025 / count."""
    return OUTSIDE / count


def mean_interval_of_series(values: Array, outside: float = OUTSIDE) -> Estimate:
    """Return the mean of successive seconds with its interval.

    The interval is unbounded for fewer than 5 seconds or fewer than 10 effectively independent ones; it has no width if
    all values are equal. `outside` is the probability beyond each of its ends.
    """
    seconds, mean = len(values), float(values.mean())
    rest = values - mean
    if not rest.any():
        return Estimate(mean, mean, mean)
    if seconds < _LEAST_SECONDS or independent_values(values) < _LEAST_INDEPENDENT:
        return Estimate(mean, -math.inf, math.inf)
    independent = max(effective_size(seconds, lag_one(rest)), 2.0)
    deviation = math.sqrt(float((rest**2).sum()) / (seconds - 1))
    halves = [_t(independent - 1, outside) * deviation / math.sqrt(independent)]
    batches = batches_of(seconds, outside)
    if seconds >= 2 * batches:
        size = seconds // batches
        means = values[seconds - size * batches :].reshape(batches, size).mean(axis=1)
        halves.append(_t(batches - 1, outside) * float(means.std(ddof=1)) / math.sqrt(batches))
    return Estimate(mean, mean - max(halves), mean + max(halves))


def _t(freedom: float, outside: float) -> float:
    """Return the Student's t, above 0, that is exceeded with probability `outside`; `freedom`: degrees of freedom."""
    return -float(special.stdtrit(freedom, outside))


def relative_half_width(value: float, low: float, high: float) -> float:
    """Return half of an interval's width divided by the value; infinite unless value and `low` exceed 0."""
    width = (high - low) / 2
    return width / value if value > 0 and math.isfinite(width) and low > 0 else math.inf


def widest(intervals: Sequence[tuple[float, float, float]]) -> float:
    """Return the largest relative half-width of intervals (value, low, high); infinite without intervals."""
    return max((relative_half_width(*interval) for interval in intervals), default=math.inf)
