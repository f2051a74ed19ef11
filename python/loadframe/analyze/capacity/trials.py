"""Statistics over the trials of capacity searches: the threshold rate, and effects of the order of trials.

A trial at rate r of a search with capacity C passes with the probability l + (1 - 2 l) / (1 + exp(-ln(C / r) / s)), a
psychometric function (Wichmann and Hill, "The psychometric function: I", Perception and Psychophysics 63, 2001). All
searches share the scale s. The lapse rate l covers accidental outcomes. Each search has its own capacity. The estimate
is the posterior mean over a grid of capacities and scales with flat priors on their logarithms (Kontsevich and Tyler,
"Bayesian adaptive estimation of psychometric slope and threshold", Vision Research 39, 1999). Averaging over the scale
avoids the bias of fitting it together with as many capacities, which would underestimate it. That the search chose its
rates by earlier outcomes causes no bias, since the choice depends on recorded outcomes only. The rate r of a trial
is the rate that it offered: n Poisson arrivals have a standard error of 1/sqrt(n) about the nominal rate.

Order effects: trials at one rate in one search differ only in their order. So the logarithm of the response time is
regressed on the number of the trial, with a separate level for each rate of each search.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from loadframe.analyze.capacity.search import Outcome, Trial
from loadframe.analyze.estimate import Estimate, half_width
from loadframe.base import special

Array = npt.NDArray[np.float64]

#: Share of trials with an accidental outcome.
_LAPSES = 0.01
#: The largest scale (a trial variation of 70 %), and the number of scales, evenly spaced on a log scale.
_WIDEST, _SCALES = 0.4, 16
#: Reach of the grid of log capacities beyond the searches' ends, its points over all, and its points per search.
_REACH, _COARSE, _FINE = 1.0, 400, 48
#: Searches' ends closer than this on the log scale count as equal.
_LEAST_WIDTH = 1e-3


@dataclass(frozen=True, eq=False)
class Thresholds:
    """The capacities of one treatment's searches, as logarithms of 1/s.

    `searches` has one estimate per search, in order. `low` and `high` bound the 95 % interval from all trials together,
    assuming that searches do not differ. If no trials contradict each other, the interval covers the range from the
    passed to the failed rate. `error` is its standard deviation.
    """

    searches: Array
    low: float
    high: float
    error: float


def thresholds(treatments: Sequence[Sequence[Sequence[Trial]]]) -> list[Thresholds]:
    """Return the capacities of each treatment's searches, given the trials of each search.

    Each search needs at least one trial that passed or failed; invalid trials are ignored. All searches and treatments
    share one variation, relative to the rate.
    """
    counted = [[_count_trials(trials) for trials in searches] for searches in treatments]
    narrowest = min((width for searches in counted for search in searches if (width := search.width)), default=0.0)
    scales = np.geomspace(max(narrowest, _LEAST_WIDTH) / 8, _WIDEST, _SCALES)
    grids = [_Grid(searches) for searches in counted]
    likelihoods = [
        np.array([search.log_likelihood(grid.points, scales) for search in searches])
        for grid, searches in zip(grids, counted, strict=True)
    ]
    evidence = sum(
        (special.logsumexp(likelihood + grid.log_weights, axis=2).sum(axis=0))
        for grid, likelihood in zip(grids, likelihoods, strict=True)
    )
    weights = special.softmax(evidence)
    return [
        _thresholds(searches, grid, likelihood, weights)
        for searches, grid, likelihood in zip(counted, grids, likelihoods, strict=True)
    ]


@dataclass(frozen=True, eq=False)
class _TrialCounts:
    """A search's trials by offered log rate: counts of passes and failures."""

    rates: Array
    passes: Array
    failures: Array
    held: float  #: the highest nominal log rate that passed; if none passed, the lowest tried
    failed: float  #: the lowest nominal log rate that failed and never passed; if none, the highest tried

    @property
    def width(self) -> float:
        """The distance between `held` and `failed` on the log scale, 0 or more, whichever is higher."""
        return abs(self.failed - self.held)

    def log_likelihood(self, capacities: Array, scales: Array) -> Array:
        """Return the log likelihood of the trials, shape (scales, capacities).

        `capacities` are logarithms of rates; `scales` are their scales of the psychometric function.
        """
        margin = (capacities[None, :, None] - self.rates[None, None, :]) / scales[:, None, None]
        passing = _LAPSES + (1 - 2 * _LAPSES) * special.expit(margin)
        likelihood: Array = np.log(passing) @ self.passes + np.log1p(-passing) @ self.failures
        return likelihood


class _Grid:
    """Integration grid of log capacities, denser where the searches ended."""

    def __init__(self, searches: Sequence[_TrialCounts]) -> None:
        """Build the grid from the ends of all searches of a treatment."""
        ends = np.array([end for search in searches for end in (search.held, search.failed)])
        parts = [np.linspace(ends.min() - _REACH, ends.max() + _REACH, _COARSE)]
        for low, high in {tuple(sorted((search.held, search.failed))) for search in searches}:
            width = max(high - low, _LEAST_WIDTH)
            parts.append(np.linspace(low - width, high + width, _FINE))
        self.points: Array = np.unique(np.concatenate(parts))
        self.log_weights: Array = np.log(np.gradient(self.points))


def _count_trials(trials: Sequence[Trial]) -> _TrialCounts:
    """Return passes and failures by the logarithm of the offered rate, ascending; invalid trials are ignored.

    `held` is the logarithm of the highest nominal rate that passed, `failed` that of the lowest that never passed;
    without one, they are the lowest and the highest tried rate. At least one trial must have passed or failed.
    """
    decided = [trial for trial in trials if trial.outcome is not Outcome.INVALID]
    tried = {trial.rate for trial in decided}
    passed, failed = (
        {trial.rate for trial in decided if trial.outcome is outcome} for outcome in (Outcome.PASSED, Outcome.FAILED)
    )
    offered = [(trial.offered or trial.rate, trial.outcome) for trial in decided]
    rates = sorted({rate for rate, _ in offered})
    passes, failures = (
        np.array([offered.count((rate, outcome)) for rate in rates], dtype=float)
        for outcome in (Outcome.PASSED, Outcome.FAILED)
    )
    return _TrialCounts(
        np.log(rates),
        passes,
        failures,
        held=math.log(max(passed or {min(tried)})),
        failed=math.log(min(failed - passed or {max(tried)})),
    )


def _thresholds(searches: Sequence[_TrialCounts], grid: _Grid, likelihoods: Array, weights: Array) -> Thresholds:
    """Return the capacities of one treatment's searches, averaged over the scales with these weights.

    `likelihoods` are log likelihoods of the shape (searches, scales, points of the grid); `weights` sum to 1. The
    interval covers at least the highest passed and the lowest failed rate, if the second is higher.
    """
    per_search = special.softmax(likelihoods + grid.log_weights, axis=2)
    means = np.einsum("s,isg,g->i", weights, per_search, grid.points)
    with np.errstate(divide="ignore"):
        joint = likelihoods.sum(axis=0) + np.log(weights)[:, None] + grid.log_weights
    posterior = np.exp(joint - joint.max()).sum(axis=0)
    posterior /= posterior.sum()
    low, high = np.interp([0.025, 0.975], posterior.cumsum(), grid.points).tolist()
    middle = float(posterior @ grid.points)
    error = float(np.sqrt(posterior @ (grid.points - middle) ** 2))
    held = float(np.concatenate([search.rates[search.passes > 0] for search in searches]).max(initial=-np.inf))
    failed = float(np.concatenate([search.rates[search.failures > 0] for search in searches]).min(initial=np.inf))
    if -np.inf < held < failed < np.inf:
        low, high, error = min(low, held), max(high, failed), max(error, (failed - held) / np.sqrt(12))
    return Thresholds(means, low, high, error)


#: The one-sided level at which an order effect is reported, and its minimum degrees of freedom.
_LEVEL, _FREEDOM = 0.025, 2


@dataclass(frozen=True)
class OrderEffect:
    """The factor by which response times grow from one trial to the next, with its 95 % interval and one-sided p."""

    factor: Estimate
    p: float

    @property
    def is_slower(self) -> bool:
        """Whether response times grow by more than chance: p is below 0.025."""
        return self.p < _LEVEL


def order_effect(rates: Sequence[Sequence[tuple[int, float]]]) -> OrderEffect | None:
    """Return the growth of response times from one trial to the next, as a ratio, with its one-sided p.

    `rates` holds the trials of each rate of each search: their number in the search, and the response time (s, above
    0). Only rates with several trials count. None if too few trials repeat a rate.
    """
    repeated = [trials for trials in rates if len(trials) > 1]
    freedom = sum(len(trials) - 1 for trials in repeated) - 1
    if freedom < _FREEDOM:
        return None
    rows = [np.array([(number, math.log(response)) for number, response in trials]) for trials in repeated]
    within = np.concatenate([row - row.mean(axis=0) for row in rows])
    number, log = within.T
    square = float(number @ number)
    slope = float(number @ log) / square
    left = log - slope * number
    error = math.sqrt(float(left @ left) / freedom / square)
    p = float(special.stdtr(freedom, -slope / error)) if error else float(slope <= 0)
    half = half_width(error, freedom)
    return OrderEffect(Estimate(math.exp(slope), math.exp(slope - half), math.exp(slope + half)), p)
