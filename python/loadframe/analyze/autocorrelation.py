"""Autocorrelation of a series by second, and its effect on means.

Seconds of one run are correlated: caches, garbage collections and queues outlast them. The mean of n values of a
first-order autoregressive series with lag-one correlation rho varies like a mean of n (1 - rho)/(1 + rho) independent
values (Bartlett, "On the theoretical specification and sampling properties of autocorrelated time-series", 1946). This
misses longer and periodic correlation; methods that use it document their remedy.
"""

import math

import numpy as np
import numpy.typing as npt

Series = npt.NDArray[np.float64]

#: Smallest number of values for a correlation.
_LEAST = 5
#: Largest correlation that a short window can show.
_GREATEST = 0.95
#: Ratio of standard deviation to median absolute deviation for a normal distribution.
NORMAL = 1.4826
_CUT = 3.0
#: Standard errors of a correlation of independent values beyond which it is significant.
_SIGNIFICANT = 2.0


def lag_one(residuals: Series) -> float:
    """Return the lag-one correlation of residuals about a straight line, from 0 to 0.95; 0 for fewer than five.

    The plain estimate is too low by (2 + 4 rho)/n on average and is corrected (Shaman and Stine, "The bias of
    autoregressive coefficient estimators", 1988). Negative correlations count as 0, which is conservative. The
    residuals must have mean 0; no line is removed here. 0 also if all are 0.
    """
    n = len(residuals)
    power = float((residuals**2).sum())
    if n < _LEAST or power <= 0:
        return 0.0
    plain = float((residuals[1:] * residuals[:-1]).sum()) / power
    return min(max((n * plain + 2) / (n - 4), 0.0), _GREATEST)


def effective_size(n: int, rho: float) -> float:
    """Return the effective number of independent values among n with lag-one correlation rho: n (1 - rho)/(1 + rho)."""
    return n * (1 - rho) / (1 + rho)


def independent_values(series: Series) -> float:
    """Return the effective number of independent values of a series; infinite without significant correlation.

    The mean is removed, a trend is not. The number follows from `effective_size` with rho, the larger of two estimates:
    the lag-one correlation, and the decay of the correlation from lag 1 to lags 2 and 3. Independent noise on a slowly
    changing level lowers the first but not the second. The correlation is significant above 2 / sqrt(n). Infinite also
    for constant values and for fewer than five.
    """
    n = len(series)
    residuals = series - series.mean()
    power = float((residuals**2).sum())
    if n < _LEAST or power <= 0:
        return math.inf
    first, second, third = (float((residuals[lag:] * residuals[:-lag]).sum()) / power for lag in (1, 2, 3))
    if first <= _SIGNIFICANT / math.sqrt(n):
        return math.inf
    decay = (max(second, 0.0) + max(third, 0.0)) / (first + max(second, 0.0))
    return effective_size(n, max(lag_one(residuals), min(decay, _GREATEST)))


def detrended(series: Series) -> Series:
    """Return the residuals of at least two values about their least-squares line."""
    times = np.arange(len(series)) - (len(series) - 1) / 2
    slope = float((times * series).sum()) / float((times**2).sum())
    residuals: Series = series - series.mean() - times * slope
    return residuals


def noise_scale(series: Series) -> float:
    """Return a robust standard deviation of the finite values: 1.4826 median absolute deviations; 0 without any."""
    values = series[np.isfinite(series)]
    return NORMAL * float(np.median(np.abs(values - np.median(values)))) if len(values) else 0.0


def long_run_deviation(series: Series, *, clipped: bool = True) -> float:
    """Return s such that the mean of n successive values has the standard error s / sqrt(n), for n above a few.

    s is the standard deviation about a straight line times sqrt((1 + rho) / (1 - rho)), with the lag-one correlation
    rho. Values beyond three standard deviations are clipped before and after the line is removed, so that one bad
    second does not count as noise; `clipped=False` omits both. Values that are not finite are dropped. 0 for fewer than
    five values, or for constant ones.
    """
    values = series[np.isfinite(series)]
    if len(values) < _LEAST:
        return 0.0
    residuals = _clipped(detrended(_clipped(values))) if clipped else detrended(values)
    rho = lag_one(residuals)
    deviation = math.sqrt(float((residuals**2).sum()) / (len(values) - 2))
    return deviation * math.sqrt((1 + rho) / (1 - rho))


def _clipped(values: Series) -> Series:
    """Return all values, with those beyond three standard deviations from the median moved to that distance.

    `noise_scale` gives the standard deviation; if it is 0, the values stay unchanged.
    """
    scale, middle = noise_scale(values), np.median(values)
    return np.clip(values, middle - _CUT * scale, middle + _CUT * scale) if scale > 0 else values


def stepwise_noise(series: Series) -> tuple[float, float]:
    """Return the relative standard deviation and the lag-one correlation of the noise of a series with level steps.

    The deviation is a share of the level; the correlation is from 0 to 0.95. Both are 0 for fewer than seven values and
    for constant ones. The series must be above 0. The estimate uses differences of values that are one and two apart,
    in which the level cancels except at steps. Their mean squares V1 and V2 are 2 s^2 (1 - rho) and 2 s^2 (1 - rho^2),
    so rho = V2/V1 - 1 (Tecuapetla-Gomez and Munk, "Autocovariance estimation in regression with a discontinuous signal
    and m-dependent errors: a difference-based approach", Scandinavian Journal of Statistics, 2017). Differences beyond
    three deviations are clipped.
    """
    if len(series) < _LEAST + 2:
        return 0.0, 0.0
    first, second = (_mean_square(series[apart:], series[:-apart]) for apart in (1, 2))
    if first <= 0:
        return 0.0, 0.0
    rho = min(max(second / first - 1, 0.0), _GREATEST)
    return math.sqrt(first / (2 * (1 - rho))), rho


def variance_of_mean(n: int, rho: float) -> float:
    """Return the variance of the mean of n successive AR(1) values with variance 1 and correlation rho, below 1."""
    return ((1 + rho) / (1 - rho) - 2 * rho * (1 - rho**n) / (n * (1 - rho) ** 2)) / n


def _mean_square(later: Series, earlier: Series) -> float:
    """Return the mean square of the differences relative to each pair's mean, clipped to three standard deviations.

    A difference is `later` minus `earlier`. The standard deviation is 1.4826 times the median absolute difference; if
    it is 0, nothing is clipped. The difference of a pair with a mean of 0 or less counts as 0.
    """
    levels = (later + earlier) / 2
    changes = np.divide(later - earlier, levels, out=np.zeros_like(levels), where=levels > 0)
    scale = NORMAL * float(np.median(np.abs(changes)))
    return float(((np.clip(changes, -_CUT * scale, _CUT * scale) if scale > 0 else changes) ** 2).mean())
