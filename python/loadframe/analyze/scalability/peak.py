"""The peak of the USL, and what the data allow to be said of it: shown, excluded, left open, or too far away.

A hard knee has no peak where its ceiling holds: where throughput does not fall along the sizes that lie on it. The knee
fits data that rise and then stay. Data that rise and then fall slowly are often nearer to it than to the USL, whose
bend is rounder, so that the knee being the better model does not say that nothing falls.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

import numpy as np

from loadframe.analyze.estimate import Estimate, half_width
from loadframe.analyze.scalability.fitting import PointFit
from loadframe.analyze.scalability.intervals import Spread
from loadframe.analyze.scalability.models import GUSTAFSON, KNEE, USL, Array, ModelName, peak_size
from loadframe.analyze.scalability.observations import Observations

#: A ceiling holds where its interval allows no greater fall than this from its first size to its last.
_NOTHING = -0.05


@dataclass(frozen=True)
class CeilingChange:
    """By how much throughput changes on the ceiling, relative to it, from its first size to its last."""

    first: float
    last: float
    change: Estimate

    @property
    def holds(self) -> bool:
        """Whether a fall that is worth a word is excluded."""
        return self.change.low >= _NOTHING


def ceiling_change(knee: PointFit, observations: Observations) -> CeilingChange | None:
    """Return the change by a straight line through the residuals over log N, with its t interval.

    None where fewer than two sizes lie on the ceiling, or where no degree of freedom is left.
    """
    lam, ceiling = knee.theta
    on = lam * observations.sizes > ceiling * (1 + 1e-12)
    freedom = observations.freedom - knee.model.size - 1
    if on.sum() < 2 or freedom < 1:
        return None
    x, y = np.log(observations.sizes[on]), observations.means[on] / ceiling - 1
    # What runs on the ceiling weigh, in units of the ceiling.
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


#: A peak is claimed only where the measured sizes reach this share of it.
PEAK_REACH = 0.7

#: `shown`: the data show it. `beyond`: they show it, but too far beyond the largest size to be located.
#: `none`: there is none up to the largest size. `open`: models that fit equally well within the noise disagree.
PeakStanding = Literal["shown", "beyond", "none", "open"]


@dataclass(frozen=True)
class Peak:
    """Where throughput is greatest, and how great it is there."""

    n: Estimate
    throughput: Estimate


def peak_of(point: PointFit, around: Spread, smallest: float) -> Peak:
    """Return the USL's peak with its intervals, not below 1 or the `smallest` size; infinite where kappa is 0."""
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
    """Return what may be said of the USL's peak, given the chosen model and those that the noise leaves possible.

    A peak is shown only where every model without one is rejected and kappa's interval lies above 0. There is none only
    where the interval of the USL's peak lies beyond the largest measured size, or where the USL is rejected for a
    straight line that rises (Gustafson's law) or for a hard knee whose ceiling holds.
    """
    if USL.name not in possible:
        holds = best == GUSTAFSON.name or (best == KNEE.name and ceiling is not None and ceiling.holds)
        return "none" if holds else "open"
    if best == USL.name and set(possible) == {USL.name} and kappa.low > 0 and peak.n.is_finite:
        return "shown" if largest >= PEAK_REACH * peak.n.value else "beyond"
    return "open" if peak.n.low < largest else "none"


def _throughput_at_peak(theta: Array, least: float) -> Array:
    lam, sigma, kappa = theta.T
    n = peak_size(theta, least)
    finite = np.isfinite(n)
    m = np.where(finite, n, 1.0)
    with np.errstate(divide="ignore"):
        # Without kappa throughput grows towards Amdahl's ceiling L / s for ever.
        peak: Array = np.where(
            finite, lam * m / (1 + sigma * (m - 1) + kappa * m * (m - 1)), lam / np.maximum(sigma, 0)
        )
    return peak
