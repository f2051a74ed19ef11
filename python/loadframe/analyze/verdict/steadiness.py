"""Steadiness of throughput in the measured window: warm-up by MSER-5, then drift.

MSER-5: White, Cobb and Spratt, "A comparison of five steady-state truncation heuristics for simulation" (Winter
Simulation Conference, 2000). It divides the series into batches of five. The cut d* minimises the marginal standard
error of the remainder, sum over i > d of (z_i - mean)^2 / (n - d)^2, for d up to n / 2. The part before the cut is
still warm-up. It matters if it moves the mean of the window by more than 5 %, and by more than noise does.

Drift: the Theil-Sen slope, and the Mann-Kendall test with the variance by Hamed and Rao for dependent values ("A
modified Mann-Kendall trend test for autocorrelated data", Journal of Hydrology, 1998). Successive seconds are
dependent, so both tests use the lag-one correlation of the series. With first-order autoregressive seconds and
correlations up to 0.8, the tests call 0 to 2 % of steady windows of 20 s and more unsteady. Strong dependence reduces
power in short windows. benchmarks/simulate_steadiness.py simulates both.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from loadframe.analyze.autocorrelation import detrended, effective_size, lag_one, long_run_deviation

#: Batches that a judgement needs. Runs too short for batches of five use single seconds.
_LEAST_BATCHES = 20
_BATCH = 5
#: Longest window, s, whose drift test uses single seconds; longer windows use batches.
_SINGLE = 300
_CHANGE = 0.05
#: Level of each test. MSER chooses its cut among many, which counts as ten independent ones.
_SIGNIFICANT = 0.01
_CUTS = 10
#: Standard deviation of the rounding of a second's requests to a whole number.
_ROUNDED = 1 / math.sqrt(12)


@dataclass(frozen=True)
class Steadiness:
    """Steadiness of a window: the `warmup` seconds that MSER would cut, and the relative change over the window.

    `settled` is False if that warm-up moves the mean; `drifts` is True if the change is a significant trend.
    """

    seconds: int
    warmup: int
    change: float
    settled: bool
    drifts: bool

    @property
    def steady(self) -> bool:
        """Whether the window may be averaged."""
        return self.settled and not self.drifts


def steadiness(throughput: npt.NDArray[np.float64]) -> Steadiness | None:
    """Judge one-second throughputs of a measured window; None if it is shorter than 20 s."""
    seconds = len(throughput)
    if seconds < _LEAST_BATCHES:
        return None
    mean = float(throughput.mean())
    if mean <= 0:
        return Steadiness(seconds, 0, 0.0, settled=True, drifts=False)
    size = _BATCH if seconds >= _LEAST_BATCHES * _BATCH else 1
    cut = _mser(_batches(throughput, size), size)
    kept = throughput[cut:]
    moved = abs(mean - float(kept.mean()))
    settled = moved <= _CHANGE * float(kept.mean()) or not _stands_out(moved, cut, kept)
    batches = _batches(throughput, 1 if seconds <= _SINGLE else _BATCH)
    slope, p = _trend(batches)
    change = slope * (len(batches) - 1) / mean
    return Steadiness(seconds, cut, change, settled, p < _SIGNIFICANT and abs(change) > _CHANGE)


def _batches(throughput: npt.NDArray[np.float64], size: int) -> npt.NDArray[np.float64]:
    means: npt.NDArray[np.float64] = throughput[: len(throughput) // size * size].reshape(-1, size).mean(axis=1)
    return means


def _mser(batches: npt.NDArray[np.float64], size: int) -> int:
    """Return the cut d*, in seconds."""
    n = len(batches)
    statistic = [float(((batches[d:] - batches[d:].mean()) ** 2).sum()) / (n - d) ** 2 for d in range(n // 2 + 1)]
    return int(np.argmin(statistic)) * size


def _stands_out(moved: float, cut: int, kept: npt.NDArray[np.float64]) -> bool:
    """Return whether a cut moves the mean by more than the noise of the remainder."""
    deviation = max(long_run_deviation(kept), _ROUNDED)
    error = deviation * math.sqrt(cut / ((cut + len(kept)) * len(kept)))
    freedom = max(effective_size(len(kept), lag_one(detrended(kept))) - 2, 1.0)
    return _p(moved / error, freedom) < _SIGNIFICANT / _CUTS


def _trend(values: npt.NDArray[np.float64]) -> tuple[float, float]:
    """Return the slope per value and the p of no trend.

    Both count pairs, so a single bad second moves neither. The sum of signs is compared with Student's t with the
    degrees of freedom that as many dependent values have.
    """
    n = len(values)
    before, after = np.triu_indices(n, k=1)
    rises = values[after] - values[before]
    slope = float(np.median(rises / (after - before)))
    residuals = values - slope * np.arange(n)
    rho = lag_one(residuals - residuals.mean())
    score = max(abs(float(np.sign(rises).sum())) - 1, 0)
    t = score / math.sqrt(n * (n - 1) * (2 * n + 5) / 18 * _inflation(n, rho))
    return slope, _p(t, max(effective_size(n, rho) - 2, 1.0))


def _p(t: float, freedom: float) -> float:
    """Return the two-sided p of Student's t."""
    # The import is slow, and runs that are too short for a judgement do not need it.
    from scipy import special

    return 2 * float(special.stdtr(freedom, -t))


def _inflation(n: int, rho: float) -> float:
    """Return the factor by which dependence inflates the variance of the Mann-Kendall sum.

    If the correlation of the values is r, that of the ranks is 6/pi asin(r/2).
    """
    lag = np.arange(1, n - 2)
    ranks = 6 / np.pi * np.arcsin(rho**lag / 2)
    return 1 + 2 / (n * (n - 1) * (n - 2)) * float(((n - lag) * (n - lag - 1) * (n - lag - 2) * ranks).sum())
