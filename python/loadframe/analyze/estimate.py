"""A number never travels without its interval: the type in which results are given, and intervals by Student's t."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from scipy import special

#: Beyond this logarithm a number is taken as infinite.
_GREATEST_LOG = 700


@dataclass(frozen=True)
class Estimate:
    """A value with the ends of its 95 % interval; an end may be infinite where the data do not bound it."""

    value: float
    low: float
    high: float

    @property
    def is_finite(self) -> bool:
        """Whether the data bound the value on both sides."""
        return math.isfinite(self.low) and math.isfinite(self.high)

    def as_dict(self) -> dict[str, float | None]:
        """Return the three numbers for JSON, which has no infinity: an unbounded end is null."""
        return {key: number if math.isfinite(number) else None for key, number in vars(self).items()}


def half_width(error: float, freedom: float) -> float:
    """Return the half-width of a 95 % interval: `error`, the standard error, times Student's t; infinite below 1."""
    return float(special.stdtrit(freedom, 0.975)) * error if freedom >= 1 else math.inf


def mean_interval(values: Sequence[float]) -> Estimate:
    """Return the mean of independent values with its 95 % interval by Student's t; unbounded for a single value."""
    mean = fmean(values)
    if len(values) < 2:
        return Estimate(mean, -math.inf, math.inf)
    half = half_width(stdev(values) / math.sqrt(len(values)), len(values) - 1)
    return Estimate(mean, mean - half, mean + half)


def within(estimate: Estimate, least: float = 0.0, most: float = math.inf) -> Estimate:
    """Return an estimate of what lies between two bounds, its interval cut there; an unbounded interval stays open."""
    if not estimate.is_finite:
        return estimate
    return Estimate(estimate.value, max(estimate.low, least), min(estimate.high, most))


def on_log_scale(value: float, half: float) -> Estimate:
    """Return a positive value with an interval that is symmetric on a log scale, where `half` is its half-width."""
    return Estimate(value, value * math.exp(-half), value * math.exp(half) if half < _GREATEST_LOG else math.inf)
