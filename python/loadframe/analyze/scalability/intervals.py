"""Intervals of a scalability fit, and of its peak.

With repeated runs the draws are a bootstrap: deviations of runs from their size's mean are resampled and added to each
size's mean. Three corrections make it valid for few repetitions:

- Deviations are scaled by sqrt(r / (r - 1)), since r runs vary less about their own mean than about the true mean.
- If a size has fewer than five runs, deviations are pooled over the sizes (relative to the mean for relative
  residuals), since two or three runs do not estimate their spread. Otherwise each size resamples its own.
- Percentiles are widened from the normal to the t distribution (the expanded percentile interval of Hesterberg, "What
  Teachers Should Know About the Bootstrap", The American Statistician 69(4), 2015).

For runs in blocks, deviations are those within blocks. Each draw scales them by sqrt(f / chi2(f)) with their degrees of
freedom f, which widens the percentiles like the t distribution. The level of the curve (L, and C of the hard knee) also
varies by the uncertainty of the blocks' means (`observations.BlockEffects`).

With one run per size, parameters have intervals value +- t(0.975, n - p) standard errors from the covariance
s^2 (J'J)^-1. Functions of several parameters (peak, band) use draws with that covariance.

A hard knee excludes a peak if its ceiling holds: if throughput does not fall along the sizes on it. The knee fits data
that rise and then stay constant. Data that rise and then fall slowly are often closer to the knee than to the USL with
its rounder bend. So a better fit of the knee alone does not exclude a fall.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

import numpy as np

from loadframe.analyze.estimate import Estimate, half_width
from loadframe.analyze.scalability.fitting import PointFit, refit
from loadframe.analyze.scalability.models import (
    GUSTAFSON,
    KNEE,
    USL,
    Array,
    ModelName,
    gustafson_jacobian,
    jacobian,
    peak_size,
)
from loadframe.analyze.scalability.observations import Observations
from loadframe.base import special

_DRAWS = 2000
_RUNS_OF_THEIR_OWN = 5


@dataclass(frozen=True, eq=False)
class Spread:
    """Parameter draws (rows, parameters), and the ends of the interval of each free parameter.

    Without degrees of freedom, or if the store failed at a size, there are no rows and all intervals are unbounded.
    `levels` are the errors of the level's logarithm that the blocks add to the draws; None without blocks.
    """

    theta: Array
    tail: float
    low: Array
    high: Array
    levels: Array | None = None

    def interval(self, values: Array) -> tuple[Array, Array]:
        """Return the low and high ends of the 95 % interval of a quantity, given its value in each draw (first axis).

        NaN counts as infinite. Without draws, the interval is 0 to infinity.
        """
        if not len(values):
            return np.zeros(values.shape[1:]), np.full(values.shape[1:], np.inf)
        return _ends(values, self.tail)

    def estimate(self, value: float, values: Array) -> Estimate:
        """Return the value with its 95 % interval, widened to contain the value, given one value per draw."""
        low, high = self.interval(values)
        return Estimate(value, min(float(low), value), max(float(high), value))


def spread(fitted: PointFit, observations: Observations, seed: int) -> Spread:
    """Return draws and intervals of the parameters: by bootstrap if all sizes are repeated, else by covariance.

    If the store failed at a size, intervals are unbounded: the runs that survive are too fast and too much alike.
    """
    if observations.failed:
        return _unbounded(fitted)
    if observations.is_replicated:
        return _bootstrap(fitted, observations, np.random.default_rng(seed))
    return _from_covariance(fitted, observations, np.random.default_rng(seed))


def parameters(fitted: PointFit, around: Spread, observations: Observations) -> dict[str, Estimate]:
    """Return the value and interval of each free parameter by name.

    If a hard knee lies outside the measured sizes, its slope or ceiling is unbounded; the value is then the smallest
    one that agrees with the data.
    """
    values = fitted.free()
    if fitted.bounds is None:
        lam, ceiling = fitted.theta
        values = np.array([min(lam, ceiling / observations.sizes[0]), min(ceiling, lam * observations.sizes[-1])])
    ends = zip(fitted.model.parameters, values.tolist(), around.low.tolist(), around.high.tolist(), strict=True)
    return {name: Estimate(value, min(low, value), max(high, value)) for name, value, low, high in ends}


def _ends(values: Array, tail: float) -> tuple[Array, Array]:
    """Return the quantiles `tail` and 1 - `tail` along the first axis; NaN counts as infinite."""
    # Order statistics, since interpolation between a number and infinity is undefined.
    ordered = np.sort(np.where(np.isnan(values), np.inf, values), axis=0)
    index = round(tail * (len(ordered) - 1))
    return ordered[index], ordered[-1 - index]


def _bootstrap(fitted: PointFit, observations: Observations, random: np.random.Generator) -> Spread:
    """Return the spread from resampled deviations of runs; each size needs at least two runs."""
    at_size = [
        (run - run.mean()) / scale * np.sqrt(run.size / (run.size - 1))
        for run, scale in zip(observations.runs, observations.scale, strict=True)
    ]
    if min(observations.counts) < _RUNS_OF_THEIR_OWN:
        at_size = [np.concatenate(at_size)] * len(at_size)
    freedom = observations.freedom - len(observations.sizes)
    blocks, scales = observations.blocks, np.ones(_DRAWS)
    tail = float(special.ndtr(special.stdtrit(freedom, 0.025)))
    if blocks:
        scales, tail = freedom / random.chisquare(freedom, size=_DRAWS), 0.025
        within = np.sqrt((observations.total - len(observations.sizes)) / freedom)
        at_size = [deviations * within for deviations in at_size]
    means = np.column_stack(
        [
            run.mean() + scale * np.sqrt(scales) * random.choice(deviations, size=(_DRAWS, run.size)).mean(axis=1)
            for run, scale, deviations in zip(observations.runs, observations.scale, at_size, strict=True)
        ]
    )
    # Deviations do not show an error common to a size, which sizes may share or not: add both kinds.
    shared = random.standard_normal(means.shape) + random.standard_normal((_DRAWS, 1))
    means += observations.scale * observations.resolution * shared
    # Keep the throughput positive under extreme noise.
    theta = refit(fitted, observations, np.maximum(means, observations.means / 1000))
    levels = blocks.level_errors(observations.pure_error / freedom, scales, random) if blocks else None
    if levels is not None:
        theta = _moved(fitted, theta, levels)
    low, high = _ends(theta[:, : fitted.model.size], tail)
    return Spread(theta, tail, low, high, levels)


def _unbounded(fitted: PointFit) -> Spread:
    """Return a spread without draws."""
    p = fitted.model.size
    return Spread(np.empty((0, len(fitted.theta))), 0.025, np.zeros(p), np.full(p, np.inf))


def _from_covariance(fitted: PointFit, observations: Observations, random: np.random.Generator) -> Spread:
    """Return the spread from the standard errors; unbounded and without draws if no degree of freedom is left."""
    p = fitted.model.size
    freedom = observations.freedom - p
    if freedom < 1:
        return _unbounded(fitted)
    variance = max(fitted.sum_of_squares, observations.least_sum) / freedom
    root = _knee_root(fitted, observations) if fitted.bounds is None else _usl_root(fitted, observations)
    root *= np.sqrt(variance)
    scales = freedom / random.chisquare(freedom, size=(_DRAWS, 1))
    normal = random.standard_normal((_DRAWS, p)) * np.sqrt(scales)
    half_width = special.stdtrit(freedom, 0.975) * np.sqrt((root**2).sum(axis=1))
    theta = np.repeat(fitted.theta[None, :], _DRAWS, axis=0)
    theta[:, :p] += normal @ root.T
    # An error that all sizes share moves the level of the curve: L, and a knee's C.
    level = slice(0, 2 if fitted.bounds is None else 1)
    theta[:, level] *= 1 + observations.resolution * random.standard_normal((_DRAWS, 1))
    shared = special.ndtri(0.975) * observations.resolution * np.nan_to_num(fitted.theta[level], posinf=0.0)
    half_width[level] = np.hypot(half_width[level], shared)
    least, greatest = _limits(fitted)
    theta = np.clip(theta, least, greatest)
    low = np.maximum(fitted.free() - half_width, np.minimum(least[:p], 0))
    high = np.minimum(fitted.free() + half_width, greatest[:p])
    if observations.blocks is None:
        return Spread(theta, 0.025, low, high)
    levels = observations.blocks.level_errors(variance, scales[:, 0], random)
    theta = _moved(fitted, theta, levels)
    throughputs = _throughputs(fitted)
    low[:throughputs], high[:throughputs] = _ends(theta[:, :throughputs], 0.025)
    return Spread(theta, 0.025, low, high, levels)


def _moved(fitted: PointFit, theta: Array, levels: Array) -> Array:
    """Return `theta` (rows, parameters) with its throughputs multiplied by exp(levels), one level per row."""
    factors = np.ones_like(theta)
    factors[:, : _throughputs(fitted)] = np.exp(levels)[:, None]
    return theta * factors


def _throughputs(fitted: PointFit) -> int:
    """Return the number of parameters in units of throughput: L, and for the knee also the ceiling."""
    return 2 if fitted.bounds is None else 1


def _limits(fitted: PointFit) -> tuple[Array, Array]:
    """Return the smallest and largest parameters: L and C stay above 0, s and k within their bounds."""
    if fitted.bounds is None:
        return np.nan_to_num(fitted.theta, posinf=0.0) / 1000, np.full(2, np.inf)
    least, greatest = [fitted.theta[0] / 1000, *fitted.bounds.lower], [np.inf, *fitted.bounds.upper]
    return np.array(least[: len(fitted.theta)]), np.array(greatest[: len(fitted.theta)])


def _usl_root(fitted: PointFit, observations: Observations) -> Array:
    """Return a square root of (J'J)^-1 over the free parameters (L, s, k), or (L, s) for Gustafson's law."""
    n, weights = observations.sizes, observations.weights(observations.means)
    if fitted.model is GUSTAFSON:
        derivatives = gustafson_jacobian(fitted.theta, n, weights)
    else:
        derivatives = jacobian(fitted.theta[None, :], n, weights)[0][:, : fitted.model.size]
        derivatives[:, 0] /= fitted.theta[0]
    # Normalise the columns, because k's may be a million times larger.
    lengths = np.sqrt((derivatives**2).sum(axis=0))
    _, singular, directions = np.linalg.svd(derivatives / lengths, full_matrices=False)
    root: Array = directions.T / np.maximum(singular, 1e-12) / lengths[:, None]
    return root


def _knee_root(fitted: PointFit, observations: Observations) -> Array:
    """Return a square root of (J'J)^-1 over (L, C) of the hard knee, which is diagonal.

    Sizes up to the break determine L, those above it C. A parameter without sizes is infinite and needs no spread.
    """
    n, squares = observations.sizes, observations.weights(observations.means) ** 2
    lam, ceiling = fitted.theta
    below = lam * n <= ceiling * (1 + 1e-12)
    information: Array = np.array([(squares * n**2)[below].sum(), squares[~below].sum()])
    root = np.zeros((2, 2))
    np.fill_diagonal(root, np.where(information > 0, 1 / np.sqrt(np.maximum(information, 1e-300)), 0.0))
    return root


#: A ceiling holds if its interval excludes a larger relative fall from its first to its last size.
_NOTHING = -0.05


@dataclass(frozen=True)
class CeilingChange:
    """Relative change of throughput on the ceiling, from its first to its last size."""

    first: float
    last: float
    change: Estimate

    @property
    def holds(self) -> bool:
        """Whether the interval excludes a fall of more than 5 %."""
        return self.change.low >= _NOTHING


def ceiling_change(knee: PointFit, observations: Observations) -> CeilingChange | None:
    """Return the change of throughput along the hard knee's ceiling, as a share of it, with its interval.

    It is the change, from the smallest to the largest size beyond the knee, of a straight line through the residuals
    over log N. None with fewer than two sizes on the ceiling, or without degrees of freedom.
    """
    lam, ceiling = knee.theta
    on = lam * observations.sizes > ceiling * (1 + 1e-12)
    freedom = observations.freedom - knee.model.size - 1
    if on.sum() < 2 or freedom < 1:
        return None
    x, y = np.log(observations.sizes[on]), observations.means[on] / ceiling - 1
    # Weights in units of the ceiling.
    weights = (observations.weights(observations.means)[on] * ceiling) ** 2
    x0, y0 = np.average(x, weights=weights), np.average(y, weights=weights)
    square = float((weights * (x - x0) ** 2).sum())
    slope = float((weights * (x - x0) * (y - y0)).sum()) / square
    left = max(knee.sum_of_squares - slope**2 * square, observations.least_sum)
    error = half_width(float(np.sqrt(left / freedom / square)), freedom)
    span = float(x[-1] - x[0])
    change = Estimate(slope * span, float((slope - error) * span), float((slope + error) * span))
    sizes = observations.sizes[on]
    return CeilingChange(float(sizes[0]), float(sizes[-1]), change)


#: A peak is claimed only if the measured sizes reach this share of it.
PEAK_REACH = 0.7

#: `shown`: the data show a peak. `beyond`: they show one too far beyond the largest size to locate it.
#: `none`: throughput does not peak up to the largest size. `open`: models that fit equally well disagree.
PeakStanding = Literal["shown", "beyond", "none", "open"]


@dataclass(frozen=True)
class Peak:
    """Size of the largest throughput, and the throughput there."""

    n: Estimate
    throughput: Estimate


def peak_of(point: PointFit, around: Spread, smallest: float) -> Peak:
    """Return the USL's peak with its intervals; infinite if kappa is 0.

    It is at least 1, or the `smallest` measured size if that is below 1.
    """
    least = min(smallest, 1.0)
    return Peak(
        around.estimate(float(peak_size(point.theta, least)), peak_size(around.theta, least)),
        around.estimate(
            float(_throughput_at_peak(point.theta[None, :], least)[0]), _throughput_at_peak(around.theta, least)
        ),
    )


def standing_of(
    peak: Peak,
    kappa: Estimate,
    ceiling: CeilingChange | None,
    *,
    best: ModelName,
    possible: Collection[ModelName],
    largest: float,
) -> PeakStanding:
    """Return the conclusion about a peak, given the selected model and the models that the noise leaves possible.

    `shown` requires that every model without a peak is rejected and kappa's interval is above 0. It is `beyond` instead
    if the `largest` measured size is below 0.7 of the peak. `none` requires one of two findings: the interval of the
    USL's peak is beyond the largest measured size, or the USL is rejected for Gustafson's law or for a hard knee whose
    ceiling holds.
    """
    if USL.name not in possible:
        holds = best == GUSTAFSON.name or (best == KNEE.name and ceiling is not None and ceiling.holds)
        return "none" if holds else "open"
    if best == USL.name and set(possible) == {USL.name} and kappa.low > 0 and peak.n.is_finite:
        return "shown" if largest >= PEAK_REACH * peak.n.value else "beyond"
    return "open" if peak.n.low < largest else "none"


def _throughput_at_peak(theta: Array, least: float) -> Array:
    """Return the throughput at the peak for each row of `theta`; the ceiling L / s if kappa is 0.

    `least` is the smallest size of a peak.
    """
    lam, sigma, kappa = theta.T
    n = peak_size(theta, least)
    finite = np.isfinite(n)
    m = np.where(finite, n, 1.0)
    with np.errstate(divide="ignore"):
        # Without kappa throughput approaches Amdahl's ceiling L / s.
        peak: Array = np.where(
            finite, lam * m / (1 + sigma * (m - 1) + kappa * m * (m - 1)), lam / np.maximum(sigma, 0)
        )
    return peak
