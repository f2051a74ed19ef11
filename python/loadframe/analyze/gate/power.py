"""Which worsening a check finds, and how often: before runs are made, and by the noise that was seen; pure.

A check stops a gate where a one-sided t test of the logarithm of a ratio rejects, and the estimate is at least the
least effect. With a true log ratio d, a standard error s and f degrees of freedom, the estimate is normal about d, and
the estimated error is s sqrt(chi2(f) / f), independently. Power is the mean, over the latter, of the chance that the
estimate is beyond both bars. Without a least effect this is the power of the t test by the noncentral t distribution
(see Cohen, "Statistical Power Analysis for the Behavioral Sciences", 1988).
"""

import math

import numpy as np
from scipy import optimize, special

#: What "finds it" means where one number is given.
USUAL = 0.8
#: Quantiles of the estimated error at which the mean is taken.
_MIDDLES = (np.arange(400) + 0.5) / 400
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
    bar = logarithm(least, higher_is_better=higher_is_better)
    if shift == math.inf:
        return 1.0
    if error == 0:
        return float(shift >= max(bar, 1e-12))
    estimated = error * np.sqrt(special.chdtri(freedom, 1 - _MIDDLES) / freedom)
    beyond = np.maximum(special.stdtrit(freedom, 1 - level) * estimated, bar)
    return float(special.ndtr((shift - beyond) / error).mean())


def detectable(
    error: float, freedom: float, level: float, least: float = 0.0, *, higher_is_better: bool = False,
    wanted: float = USUAL,
) -> float:  # fmt: skip
    """Return the least worsening that is found with the power that is wanted; infinite where none is."""
    most = 1 - 1e-9 if higher_is_better else _MOST

    def lacking(worsening: float) -> float:
        return power(worsening, error, freedom, level, least, higher_is_better=higher_is_better) - wanted

    if lacking(most) < 0:
        return math.inf
    if lacking(0.0) >= 0:
        return 0.0
    return float(optimize.brentq(lacking, 0.0, most, xtol=1e-5))
