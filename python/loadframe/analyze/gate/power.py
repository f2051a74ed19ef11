"""Which worsening a check finds, and how often: before runs are made, and by the noise that was seen; pure.

A check stops a gate where a one-sided t test of the logarithm of a ratio rejects, and the estimate is at least the
least effect. With a true log ratio d, a standard error s and f degrees of freedom, the estimate is normal about d, and
the estimated error is s sqrt(chi2(f) / f), independently. Power is the mean, over the latter, of the chance that the
estimate is beyond both bars. Without a least effect this is the power of the t test by the noncentral t distribution
(see Cohen, "Statistical Power Analysis for the Behavioral Sciences", 1988).
"""

import math

import numpy as np
import numpy.typing as npt
from scipy import optimize, special

Array = npt.NDArray[np.float64]

#: What "finds it" means where one number is given.
USUAL = 0.8
#: Quantiles of the estimated error at which the mean is taken.
_MIDDLES = (np.arange(200) + 0.5) / 200
#: No worsening beyond this is asked for: a hundred times as slow.
_MOST = 100.0


def logarithm(worsening: float, *, higher_is_better: bool) -> float:
    """Return the logarithm of the ratio that a worsening is, as a share of the baseline; towards worse is positive."""
    if not higher_is_better:
        return math.log1p(worsening)
    return math.inf if worsening >= 1 else -math.log1p(-worsening)


def power(
    worsening: float, error: float, freedom: float, level: float, least: float = 0.0, *, higher_is_better: bool = False
) -> float:
    """Return the chance that a worsening (a share of the baseline) is found by a test at a one-sided level.

    `error` is the standard error of the log ratio, `freedom` its degrees of freedom, `least` the least effect that
    counts.
    """
    if freedom <= 0 or not math.isfinite(error):
        return 0.0
    shift = logarithm(worsening, higher_is_better=higher_is_better)
    return _share_beyond(
        shift, error, _bars(error, freedom, level, logarithm(least, higher_is_better=higher_is_better))
    )


def detectable(
    error: float, freedom: float, level: float, least: float = 0.0, *, higher_is_better: bool = False,
    wanted: float = USUAL,
) -> float:  # fmt: skip
    """Return the smallest worsening that is detected with the wanted power; infinite if no worsening is."""
    if freedom <= 0 or not math.isfinite(error):
        return math.inf
    most = logarithm(1 - 1e-9 if higher_is_better else _MOST, higher_is_better=higher_is_better)
    bars = _bars(error, freedom, level, logarithm(least, higher_is_better=higher_is_better))

    def lacking(shift: float) -> float:
        return _share_beyond(shift, error, bars) - wanted

    if lacking(most) < 0:
        return math.inf
    if lacking(0.0) >= 0:
        return 0.0
    shift = float(optimize.brentq(lacking, 0.0, most, xtol=1e-5))
    return -math.expm1(-shift) if higher_is_better else math.expm1(shift)


def _bars(error: float, freedom: float, level: float, least: float) -> Array:
    """Return what an estimate has to exceed, at each quantile of the error that is estimated beside it."""
    estimated = error * np.sqrt(special.chdtri(freedom, 1 - _MIDDLES) / freedom)
    bars: Array = np.maximum(special.stdtrit(freedom, 1 - level) * estimated, least)
    return bars


def _share_beyond(shift: float, error: float, bars: Array) -> float:
    if error == 0 or shift == math.inf:
        return float((shift >= np.maximum(bars, 1e-12)).mean())
    return float(special.ndtr((shift - bars) / error).mean())
