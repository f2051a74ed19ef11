"""What all trials of some searches say of the rate at which half of the trials pass: the capacity, on a log scale.

A trial at rate r of a search whose capacity is C passes with the probability l + (1 - 2 l) / (1 + exp(-ln(C / r) / s)):
a psychometric function (Wichmann and Hill, "The psychometric function: I", Perception and Psychophysics 63, 2001) with
a scale s that all searches share, and a lapse rate l for trials that some accident decides. Each search has a capacity
of its own. Its estimate is the posterior mean over a grid of capacities and scales with flat priors on their logarithms
(Kontsevich and Tyler, "Bayesian adaptive estimation of psychometric slope and threshold", Vision Research 39, 1999):
the scale is averaged over and not fitted beside as many capacities, which would make it too small. That the search
chose its rates by the outcomes does not bias this, since the choice depends on recorded outcomes only.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from loadframe.analyze.capacity.search import Outcome, Trial

Array = npt.NDArray[np.float64]

#: The share of trials that pass or fail by accident, whatever the rate.
_LAPSES = 0.01
#: The greatest scale that is considered: trials that scatter by 70 %. And how many there are, evenly on a log scale.
_WIDEST, _SCALES = 0.4, 16
#: How far the grid of log capacities reaches beyond what the searches found, and its points: in all, and at each end.
_REACH, _COARSE, _FINE = 1.0, 400, 48
#: Ends of searches that lie nearer to each other than this are one, on the log scale.
_LEAST_WIDTH = 1e-3


@dataclass(frozen=True, eq=False)
class Thresholds:
    """The capacities of one treatment's searches, as logarithms of 1/s.

    `searches` are estimates, one for each search in order. `low` and `high` are the ends of the 95 % interval that all
    trials together give if the searches did not differ. Where no trial contradicts another, it holds all from the rate
    that passed to the one that failed. `error` is its standard deviation.
    """

    searches: Array
    low: float
    high: float
    error: float


def thresholds(treatments: Sequence[Sequence[Sequence[Trial]]]) -> list[Thresholds]:
    """Return the capacities of each treatment's searches, given the trials of each search.

    Each search needs at least one trial that passed or failed; invalid trials say nothing. Scatter is taken to be the
    same, relative to the rate, in all searches and treatments.
    """
    counted = [[_counted(trials) for trials in searches] for searches in treatments]
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
class _Counted:
    """A search's trials by rate: log rates, and how many passed and failed at each."""

    rates: Array
    passes: Array
    failures: Array

    @property
    def held(self) -> float:
        """The highest log rate that passed; the lowest that was tried where none did."""
        passed = self.rates[self.passes > 0]
        return float(passed.max() if len(passed) else self.rates.min())

    @property
    def failed(self) -> float:
        """The lowest log rate that failed and never passed; the highest that was tried where there is none."""
        failed = self.rates[(self.failures > 0) & (self.passes == 0)]
        return float(failed.min() if len(failed) else self.rates.max())

    @property
    def width(self) -> float:
        return abs(self.failed - self.held)

    def log_likelihood(self, capacities: Array, scales: Array) -> Array:
        """Return the log likelihood (scales, capacities)."""
        margin = (capacities[None, :, None] - self.rates[None, None, :]) / scales[:, None, None]
        passing = _LAPSES + (1 - 2 * _LAPSES) * special.expit(margin)
        likelihood: Array = np.log(passing) @ self.passes + np.log1p(-passing) @ self.failures
        return likelihood


class _Grid:
    """Log capacities to integrate over, close together where the searches ended."""

    def __init__(self, searches: Sequence[_Counted]) -> None:
        ends = np.array([end for search in searches for end in (search.held, search.failed)])
        parts = [np.linspace(ends.min() - _REACH, ends.max() + _REACH, _COARSE)]
        for low, high in {tuple(sorted((search.held, search.failed))) for search in searches}:
            width = max(high - low, _LEAST_WIDTH)
            parts.append(np.linspace(low - width, high + width, _FINE))
        self.points: Array = np.unique(np.concatenate(parts))
        self.log_weights: Array = np.log(np.gradient(self.points))


def _counted(trials: Sequence[Trial]) -> _Counted:
    decided = [trial for trial in trials if trial.outcome is not Outcome.INVALID]
    rates = sorted({trial.rate for trial in decided})
    counts = [
        [sum(trial.rate == rate and trial.outcome is outcome for trial in decided) for rate in rates]
        for outcome in (Outcome.PASSED, Outcome.FAILED)
    ]
    return _Counted(np.log(rates), *np.array(counts, dtype=float))


def _thresholds(searches: Sequence[_Counted], grid: _Grid, likelihoods: Array, weights: Array) -> Thresholds:
    apart = special.softmax(likelihoods + grid.log_weights, axis=2)
    means = np.einsum("s,isg,g->i", weights, apart, grid.points)
    with np.errstate(divide="ignore"):
        together = likelihoods.sum(axis=0) + np.log(weights)[:, None] + grid.log_weights
    posterior = np.exp(together - together.max()).sum(axis=0)
    posterior /= posterior.sum()
    low, high = np.interp([0.025, 0.975], posterior.cumsum(), grid.points).tolist()
    middle = float(posterior @ grid.points)
    error = float(np.sqrt(posterior @ (grid.points - middle) ** 2))
    held = float(np.concatenate([search.rates[search.passes > 0] for search in searches]).max(initial=-np.inf))
    failed = float(np.concatenate([search.rates[search.failures > 0] for search in searches]).min(initial=np.inf))
    if -np.inf < held < failed < np.inf:
        low, high, error = min(low, held), max(high, failed), max(error, (failed - held) / np.sqrt(12))
    return Thresholds(means, low, high, error)
