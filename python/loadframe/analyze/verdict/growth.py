"""How the response time of an operation grows with the documents that are held, within one run.

The means of its seconds are regressed on the documents at these seconds by least squares, each second weighing as much
as it has answers: the slope is what a thousand documents more add to the mean response time. Its interval is that of a
ratio estimate, as of percentiles: squared scores of seconds, given back what their leverage takes (MacKinnon and
White, "Some heteroskedasticity-consistent covariance matrix estimators with improved finite sample properties",
Journal of Econometrics 29, 1985), with the lag-one correlation of neighbours, or of eight stretches of the run,
whichever is wider, since slow seconds come in stretches. Student's t has the effective number of seconds less the
coefficients.

Where documents came at an even pace, nothing tells them from time: the slope is then all that grew meanwhile, and that
is what is claimed. Where their pace varied so that at most nine tenths of their variance goes with time, time is a
regressor of its own, and the slope is that of documents beside it. Which of both is decided by the documents alone and
not by the response times, so that the interval keeps its promise. Simulations are in docs/generator.md
(benchmarks/simulate_growth.py).
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from loadframe.analyze.autocorrelation import effective_size, lag_one

Array = npt.NDArray[np.float64]

#: Fewer seconds with answers say nothing of a slope.
LEAST_SECONDS = 20
#: Documents and time are told apart where at most this share of the documents' variance goes with time.
_ALIKE = 0.9
_STRETCHES = 8
#: A second that makes up nearly all of a fit has a score that says little; it is not blown up beyond this.
_LEAST_FREEDOM = 0.3
_THOUSAND = 1000.0
#: As a share of the mean: a line that is fitted must not reach 0.
_LEAST_WORK = 1e-3
#: Level at which time is found to have a part of its own.
_SIGNIFICANT = 0.01


@dataclass(frozen=True)
class Growth:
    """What a thousand documents more add to the mean response time, s, with its 95 % interval.

    `begin` and `end`: the documents at the first and the last second that was looked at. `apart`: they can be
    distinguished from time; if not, the slope is that of all that changed with time, too.
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
        """What the documents from the first to the last second added, s."""
        return self.slope * (self.end - self.begin) / _THOUSAND


def growth(means: Array, counts: Array, documents: Array) -> Growth | None:
    """Return how response times grew with documents; all by second: mean response times (s), answers, documents held.

    None where fewer than 20 seconds have answers, or the documents did not become more or less meanwhile.
    """
    answered = counts > 0
    if answered.sum() < LEAST_SECONDS or np.ptp(documents[answered]) <= 0:
        return None
    first, last = np.flatnonzero(answered)[[0, -1]]
    inside = slice(first, last + 1)
    means, counts, documents = np.where(answered, means, 0.0)[inside], counts[inside], documents[inside]
    apart = told_apart(documents, counts)
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


def told_apart(documents: Array, weights: Array) -> bool:
    """Return whether documents by second can be distinguished from time."""
    times = np.arange(len(documents), dtype=float)
    x, t = (values - np.average(values, weights=weights) for values in (documents, times))
    power = float((weights * x * x).sum() * (weights * t * t).sum())
    return power > 0 and float((weights * x * t).sum()) ** 2 <= _ALIKE * power


def _slope(means: Array, counts: Array, documents: Array, apart: bool) -> tuple[float, float]:
    """Return the slope per document and the half-width of its 95 % interval; seconds without answers weigh nothing."""
    # It takes long to import, which runs that write nothing need not wait for.
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
    """Return throughputs by second without what the documents took from them: as if there had always been as many as
    on average.

    A request that takes longer the more documents there are makes throughput 1 / (a + b documents), by least squares.
    Where time is told apart and has a part of its own, 1 / (a + b documents + c time), that part stays in.
    """
    mean = float(throughput.mean())
    if mean <= 0 or np.ptp(documents) <= 0:
        return throughput
    x = (documents - documents.mean()) / np.ptp(documents)
    level, time = np.ones_like(x), np.linspace(-0.5, 0.5, len(x))
    fitted = _Work.fit(throughput / mean, np.stack([level, x], axis=1))
    if told_apart(documents, level):
        beside = _Work.fit(throughput / mean, np.stack([level, x, time], axis=1))
        fitted = beside if beside.last_stands_out else fitted
    growing = fitted.coefficients[1]
    # What became faster with more documents did not become slower by them.
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
        """Fit it to throughputs by second; `design` has the columns of the line."""
        from scipy import optimize, special

        def work(coefficients: Array) -> Array:
            line: Array = np.maximum(design @ coefficients, _LEAST_WORK)
            return line

        def rest(coefficients: Array) -> Array:
            beside: Array = throughput - 1 / work(coefficients)
            return beside

        fit = optimize.least_squares(rest, np.eye(design.shape[1])[0])
        residuals = rest(fit.x)
        freedom = effective_size(len(throughput), lag_one(residuals)) - design.shape[1]
        slopes = np.asarray(fit.jac, dtype=float)
        variance = float((residuals**2).sum()) / max(freedom, 1.0) * np.linalg.pinv(slopes.T @ slopes)[-1, -1]
        least = float(special.stdtrit(max(freedom, 1.0), 1 - _SIGNIFICANT / 2)) * math.sqrt(variance)
        return cls(fit.x, work(fit.x), bool(abs(fit.x[-1]) > least))
