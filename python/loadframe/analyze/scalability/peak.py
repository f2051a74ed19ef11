"""The peak of the USL, and what the data allow to be said of it: shown, excluded, left open, or too far away."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

import numpy as np

from loadframe.analyze.estimate import Estimate
from loadframe.analyze.scalability.ceiling import CeilingChange
from loadframe.analyze.scalability.fitting import PointFit
from loadframe.analyze.scalability.intervals import Spread
from loadframe.analyze.scalability.models import GUSTAFSON, KNEE, USL, Array, ModelName, peak_size

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


def peak_of(point: PointFit, around: Spread) -> Peak:
    """Return the USL's peak with its intervals; infinite where kappa is 0."""
    return Peak(
        around.estimate(float(peak_size(point.theta)), peak_size(around.theta)),
        around.estimate(float(_throughput_at_peak(point.theta[None, :])[0]), _throughput_at_peak(around.theta)),
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


def _throughput_at_peak(theta: Array) -> Array:
    lam, sigma, kappa = theta.T
    n = peak_size(theta)
    finite = np.isfinite(n)
    m = np.where(finite, n, 1.0)
    with np.errstate(divide="ignore"):
        # Without kappa throughput grows towards Amdahl's ceiling L / s for ever.
        peak: Array = np.where(
            finite, lam * m / (1 + sigma * (m - 1) + kappa * m * (m - 1)), lam / np.maximum(sigma, 0)
        )
    return peak
