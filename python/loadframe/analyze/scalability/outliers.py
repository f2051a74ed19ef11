"""Single runs that decide: which of them lie so far off the curve of all others that a fit should be seen without them.

Each run in turn is left out, a model is chosen for the rest, and the run is tested against it: the externally
studentised residual (Cook and Weisberg, "Residuals and Influence in Regression", 1982, section 2.2.2), from the sums of
squares with and without the run, so that the leverage of the largest sizes is accounted for. The greatest of n such
residuals has Bonferroni's level. The worst run is set aside and the search begins anew, at most for a fifth of the
runs. That is a hard-rejecting robust fit: many wild runs can hide each other from it, one or two cannot.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from loadframe.analyze.scalability.fitting import PointFit, fit_rows
from loadframe.analyze.scalability.models import Array
from loadframe.analyze.scalability.observations import Observations
from loadframe.analyze.scalability.selection import choose

#: The chance that a run of sound data is set aside.
_LEVEL = 0.01
_MOST_SHARE = 0.2
#: Of more runs than this a single one decides nothing, and the search would take long.
_MOST_RUNS = 500


@dataclass(frozen=True)
class Outlier:
    """A run far off the curve of the others: its place among the given pairs, its deviation relative to that curve."""

    place: int
    deviation: float


@dataclass(frozen=True, eq=False)
class _Suspect:
    outlier: Outlier
    p: float
    fits: Sequence[PointFit]
    rest: Observations


def outliers(fits: Sequence[PointFit], observations: Observations) -> tuple[Outlier, ...]:
    """Return the runs that are to be set aside, the worst first; `fits` are all models, fitted to all runs."""
    outliers: list[Outlier] = []
    most = int(_MOST_SHARE * observations.total) if observations.total <= _MOST_RUNS else 0
    while len(outliers) < most:
        worst = min(_suspects(fits, observations), key=lambda suspect: suspect.p, default=None)
        if worst is None or worst.p * observations.total >= _LEVEL:
            break
        outliers.append(worst.outlier)
        fits, observations = worst.fits, worst.rest
    return tuple(outliers)


def _suspects(fits: Sequence[PointFit], observations: Observations) -> Iterator[_Suspect]:
    """Yield each run with the p of its belonging to the curve that is chosen for the others."""
    places = [(size, run) for size, runs in enumerate(observations.runs) for run in range(runs.size)]
    rests = [observations.without_run(*place) for place in places]
    means, weights = _left(observations, places)
    solutions = [fit_rows(fitted, observations.sizes, means, weights) for fitted in fits]
    for row, ((size, run), rest) in enumerate(zip(places, rests, strict=True)):
        if len(rest.sizes) < 3:
            continue
        again = [
            PointFit(fitted.model, theta[row], fitted.bounds, float(cost[row]) + rest.pure_error)
            for fitted, (theta, cost) in zip(fits, solutions, strict=True)
        ]
        chosen = choose(again, rest)
        freedom = rest.freedom - chosen.model.size
        if freedom < 1:
            continue
        with_it = next(fitted for fitted in fits if fitted.model is chosen.model)
        left = max(chosen.sum_of_squares, rest.least_sum)
        statistic = max(with_it.sum_of_squares - chosen.sum_of_squares, 0.0) / (left / freedom)
        predicted = float(chosen.model.curve(chosen.theta, observations.sizes[[size]])[0])
        yield _Suspect(
            Outlier(observations.places[size][run], float(observations.runs[size][run]) / predicted - 1),
            float(special.fdtrc(1, freedom, statistic)),
            again,
            rest,
        )


def _left(observations: Observations, places: Sequence[tuple[int, int]]) -> tuple[Array, Array]:
    """Return the means of all sizes without each run in turn, and their weights: (runs, sizes) each."""
    means = np.tile(observations.means, (len(places), 1))
    counts = np.tile(observations.counts, (len(places), 1))
    for row, (size, run) in enumerate(places):
        counts[row, size] -= 1
        if counts[row, size]:
            means[row, size] = np.delete(observations.runs[size], run).mean()
    scale = means if observations.residuals == "relative" else np.ones_like(means)
    return means, np.sqrt(counts) / scale
