"""Trends within one run: warm-up and drift of throughput, growth of response times with the number of documents.

MSER-5: White, Cobb and Spratt, "A comparison of five steady-state truncation heuristics for simulation" (Winter
Simulation Conference, 2000). It divides the series into batches of five. The cut d* minimises the marginal standard
error of the remainder, sum over i > d of (z_i - mean)^2 / (n - d)^2, for d up to n / 2. The part before the cut is
still warm-up. It matters if it moves the mean of the window by more than 5 %, and by more than noise does.

Drift: the Theil-Sen slope, and the Mann-Kendall test with the variance by Hamed and Rao for dependent values ("A
modified Mann-Kendall trend test for autocorrelated data", Journal of Hydrology, 1998). Successive seconds are
dependent, so both tests use the lag-one correlation of the series. With first-order autoregressive seconds and
correlations up to 0.8, the tests call 0 to 2 % of steady windows of 20 s and more unsteady. Strong dependence reduces
power in short windows. benchmarks/simulate_steadiness.py simulates both.

Growth: weighted least squares regresses the mean response time of each second on the documents in that second. The
weight is the number of answers. The slope is the increase of the mean response time per thousand documents.

The interval uses squared scores of seconds, corrected for leverage (MacKinnon and White, "Some
heteroskedasticity-consistent covariance matrix estimators with improved finite sample properties", Journal of
Econometrics 29, 1985). Slow seconds cluster, so the variance is the larger of two estimates: one with the lag-one
correlation of the weighted residuals, one from eight stretches of the run. Student's t has the effective number of
seconds, less the coefficients.

If documents grew at an even rate, their effect cannot be separated from the effect of time: the slope then covers all
changes over time. If time explains at most nine tenths of the documents' variance, time is a second regressor. This
decision uses the documents only and not the response times, so the interval keeps its coverage.
benchmarks/simulate_growth.py simulates it.
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
        """Whether the window is settled and without drift, so that it may be averaged."""
        return self.settled and not self.drifts


def steadiness(throughput: npt.NDArray[np.float64]) -> Steadiness | None:
    """Return the steadiness of one-second throughputs of a measured window; None if it is shorter than 20 s.

    A window without successes is settled and without drift.
    """
    seconds = len(throughput)
    if seconds < _LEAST_BATCHES:
        return None
    mean = float(throughput.mean())
    if mean <= 0:
        return Steadiness(seconds, 0, 0.0, settled=True, drifts=False)
    cut = truncation(throughput)
    kept = throughput[cut:]
    moved = abs(mean - float(kept.mean()))
    settled = moved <= _CHANGE * float(kept.mean()) or not _stands_out(moved, cut, kept)
    batches = _batches(throughput, 1 if seconds <= _SINGLE else _BATCH)
    slope, p = _trend(batches)
    change = slope * (len(batches) - 1) / mean
    return Steadiness(seconds, cut, change, settled, p < _SIGNIFICANT and abs(change) > _CHANGE)


def truncation(series: npt.NDArray[np.float64]) -> int:
    """Return the seconds that MSER cuts from the start; if they are half of the series, it is not steady yet."""
    size = _BATCH if len(series) >= _LEAST_BATCHES * _BATCH else 1
    return _mser(_batches(series, size), size)


def _batches(throughput: npt.NDArray[np.float64], size: int) -> npt.NDArray[np.float64]:
    """Return the means of successive batches of `size` seconds; an incomplete last batch is dropped."""
    means: npt.NDArray[np.float64] = throughput[: len(throughput) // size * size].reshape(-1, size).mean(axis=1)
    return means


def _mser(batches: npt.NDArray[np.float64], size: int) -> int:
    """Return the cut of MSER in seconds; `batches` are means over `size` seconds."""
    n = len(batches)
    statistic = [float(((batches[d:] - batches[d:].mean()) ** 2).sum()) / (n - d) ** 2 for d in range(n // 2 + 1)]
    return int(np.argmin(statistic)) * size


def _stands_out(moved: float, cut: int, kept: npt.NDArray[np.float64]) -> bool:
    """Return whether a cut of `cut` seconds, which moved the mean by `moved`, is more than noise of the rest.

    `kept` are the values after the cut.
    """
    deviation = max(long_run_deviation(kept), _ROUNDED)
    error = deviation * math.sqrt(cut / ((cut + len(kept)) * len(kept)))
    freedom = max(effective_size(len(kept), lag_one(detrended(kept))) - 2, 1.0)
    return _p(moved / error, freedom) < _SIGNIFICANT / _CUTS


def _trend(values: npt.NDArray[np.float64]) -> tuple[float, float]:
    """Return the slope per value and the p of no trend (Theil-Sen, Mann-Kendall).

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
    """Return the two-sided p of Student's t with `freedom` degrees of freedom, for `t` of 0 or more."""
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


Array = npt.NDArray[np.float64]

#: Seconds with answers that a slope needs.
LEAST_SECONDS = 20
#: Documents are separable from time if time explains at most this share of their variance.
_ALIKE = 0.9
_STRETCHES = 8
#: Lower limit of 1 - leverage, so that a second with nearly all of the weight does not inflate the variance.
_LEAST_FREEDOM = 0.3
_THOUSAND = 1000.0
#: Lower limit of a fitted line, as a share of the mean.
_LEAST_WORK = 1e-3


@dataclass(frozen=True)
class Growth:
    """Increase of the mean response time, s, per thousand documents, with its 95 % interval.

    `begin` and `end`: the documents in the first and the last second with answers. `apart`: whether documents are
    separable from time; if not, the slope covers all changes over time.
    """

    slope: float
    low: float
    high: float
    begin: float
    end: float
    apart: bool

    @property
    def grows(self) -> bool:
        """Whether response times grow with the documents, beyond noise."""
        return self.low > 0

    @property
    def total(self) -> float:
        """Increase of the response time from the first to the last second, s."""
        return self.slope * (self.end - self.begin) / _THOUSAND


def growth(means: Array, counts: Array, documents: Array) -> Growth | None:
    """Return the growth of response times with documents, s per 1,000 documents, with its 95 % interval.

    By second: `means` of response times, s, `counts` of answers, and `documents`. None if fewer than 20 seconds have
    answers, if the number of documents did not change, or if the interval is unbounded.
    """
    answered = counts > 0
    if answered.sum() < LEAST_SECONDS or np.ptp(documents[answered]) <= 0:
        return None
    first, last = np.flatnonzero(answered)[[0, -1]]
    inside = slice(first, last + 1)
    means, counts, documents = np.where(answered, means, 0.0)[inside], counts[inside], documents[inside]
    apart = separable_from_time(documents, counts)
    slope, half = _slope(means, counts, documents, apart)
    if not math.isfinite(half):
        return None
    return Growth(
        slope * _THOUSAND,
        (slope - half) * _THOUSAND,
        (slope + half) * _THOUSAND,
        float(documents[0]),
        float(documents[-1]),
        apart,
    )


def separable_from_time(documents: Array, weights: Array) -> bool:
    """Return whether time explains at most nine tenths of the documents' variance, weighted by second."""
    times = np.arange(len(documents), dtype=float)
    x, t = (values - np.average(values, weights=weights) for values in (documents, times))
    power = float((weights * x * x).sum() * (weights * t * t).sum())
    return power > 0 and float((weights * x * t).sum()) ** 2 <= _ALIKE * power


def _slope(means: Array, counts: Array, documents: Array, apart: bool) -> tuple[float, float]:
    """Return the slope, s per document, and the half-width of its 95 % interval; seconds without answers have weight 0.

    `apart`: estimate a linear trend in time as well, so that the slope excludes it.
    """
    # The import is slow, and runs without writes do not need it.
    from scipy import special

    columns = [np.ones_like(documents), documents - documents.mean()]
    if apart:
        columns.append(np.arange(len(documents)) - (len(documents) - 1) / 2)
    design = np.stack(columns, axis=1)
    scale = np.abs(design).max(axis=0)
    design /= scale
    inverse = np.linalg.inv(design.T @ (design * counts[:, None]))
    coefficients = inverse @ (design.T @ (counts * means))
    rest = np.where(counts > 0, means - design @ coefficients, 0.0)
    leverage = np.einsum("ij,jk,ik->i", design, inverse, design) * counts
    scores = (design @ inverse[1]) * counts * rest / np.sqrt(np.clip(1 - leverage, _LEAST_FREEDOM, 1.0))
    answered, fitted = int((counts > 0).sum()), len(columns)
    independent = effective_size(answered, lag_one(counts * rest))
    variance = float((scores**2).sum()) * answered / independent
    sums = np.array([stretch.sum() for stretch in np.array_split(scores, _STRETCHES)])
    between = float((sums**2).sum()) * _STRETCHES / (_STRETCHES - fitted)
    half = max(
        float(special.stdtrit(freedom, 0.975)) * math.sqrt(spread)
        for freedom, spread in ((max(independent - fitted, 1.0), variance), (_STRETCHES - fitted, between))
    )
    return float(coefficients[1] / scale[1]), half / float(scale[1])


def without_growth(throughput: Array, documents: Array) -> Array:
    """Return throughputs by second, corrected to the mean number of documents.

    The model is 1 / (a + b documents), by least squares. If documents are separable from time and time has an effect,
    it is 1 / (a + b documents + c time), and the effect of time stays in the result. Unchanged if documents do not slow
    requests.
    """
    mean = float(throughput.mean())
    if mean <= 0 or np.ptp(documents) <= 0:
        return throughput
    x = (documents - documents.mean()) / np.ptp(documents)
    level, time = np.ones_like(x), np.linspace(-0.5, 0.5, len(x))
    fitted = _Work.fit(throughput / mean, np.stack([level, x], axis=1))
    if separable_from_time(documents, level):
        beside = _Work.fit(throughput / mean, np.stack([level, x, time], axis=1))
        fitted = beside if beside.last_stands_out else fitted
    growing = fitted.coefficients[1]
    # Documents did not slow the requests down.
    if growing <= 0:
        return throughput
    less: Array = throughput * fitted.work / np.maximum(fitted.work - growing * x, _LEAST_WORK)
    return less


@dataclass(frozen=True, eq=False)
class _Work:
    """Throughput, as a share of its mean, as the reciprocal of a line: the work of a request."""

    coefficients: Array
    work: Array
    last_stands_out: bool

    @classmethod
    def fit(cls, throughput: Array, design: Array) -> "_Work":
        """Return the least-squares fit of 1 / (design @ coefficients) to relative throughputs by second.

        `design` has a row for each second, and a first column of ones. `last_stands_out` is then whether the last
        coefficient differs significantly from 0.
        """
        from scipy import optimize, special

        def work(coefficients: Array) -> Array:
            """Return the work of a request in each second, by the line with these coefficients; at least 0.001."""
            line: Array = np.maximum(design @ coefficients, _LEAST_WORK)
            return line

        def rest(coefficients: Array) -> Array:
            """Return the residuals of the relative throughputs."""
            beside: Array = throughput - 1 / work(coefficients)
            return beside

        fit = optimize.least_squares(rest, np.eye(design.shape[1])[0])
        residuals = rest(fit.x)
        freedom = effective_size(len(throughput), lag_one(residuals)) - design.shape[1]
        slopes = np.asarray(fit.jac, dtype=float)
        variance = float((residuals**2).sum()) / max(freedom, 1.0) * np.linalg.pinv(slopes.T @ slopes)[-1, -1]
        least = float(special.stdtrit(max(freedom, 1.0), 1 - _SIGNIFICANT / 2)) * math.sqrt(variance)
        return cls(fit.x, work(fit.x), bool(abs(fit.x[-1]) > least))
