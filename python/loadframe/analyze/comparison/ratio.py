"""The ratio of two medians with its interval, by bootstrap over runs; pure, and the same for the same seed.

Percentiles of the bootstrap are too narrow for few runs. They are widened here from the normal to Student's t
distribution with n + m - 2 degrees of freedom, after the expanded percentile interval of Hesterberg, "What Teachers
Should Know About the Bootstrap" (The American Statistician 69(4), 2015). Simulated with normal, log-normal, skewed and
heavy-tailed noise, the interval covers the true ratio in 94 to 99 of 100 cases from four runs a side on. Three against
three cannot do that: the widest interval that they allow covers nine in ten.
"""

import math

import numpy as np
from scipy import special

from loadframe.analyze.comparison.ranks import Array, Values
from loadframe.analyze.estimate import Estimate

_DRAWS = 4000
#: Numbers that are held at once.
_CHUNK = 4_000_000


def ratio_of_medians(first: Values, second: Values, *, seed: int = 0) -> Estimate:
    """Return the second's median over the first's, with its 95 % interval; unbounded with one run on a side.

    Values are above 0.
    """
    one, other = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    value = float(np.median(other) / np.median(one))
    if min(len(one), len(other)) < 2:
        return Estimate(value, 0.0, math.inf)
    random = np.random.default_rng(seed)
    ratios = _medians(other, random) / _medians(one, random)
    tail = float(special.ndtr(special.stdtrit(len(one) + len(other) - 2, 0.025)))
    low, high = np.quantile(ratios, [tail, 1 - tail])
    return Estimate(value, min(float(low), value), max(float(high), value))


def _medians(values: Array, random: np.random.Generator) -> Array:
    """Return medians of samples that are drawn from the values with replacement."""
    rows = max(1, _CHUNK // len(values))
    parts = []
    for start in range(0, _DRAWS, rows):
        shape = (min(rows, _DRAWS - start), len(values))
        parts.append(np.median(values[random.integers(len(values), size=shape)], axis=1))
    return np.concatenate(parts)
