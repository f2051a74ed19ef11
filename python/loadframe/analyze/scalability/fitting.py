"""One model fitted to one data set, and refitted to many resamples of it. Which model is best is decided elsewhere."""

from dataclasses import dataclass

import numpy as np

from loadframe.analyze.scalability.models import AMDAHL, GUSTAFSON, KNEE, LINEAR, Array, ScalabilityModel
from loadframe.analyze.scalability.observations import Observations
from loadframe.analyze.scalability.solvers import (
    LEAST_SHARE,
    Bounds,
    Problems,
    solve,
    solve_gustafson,
    solve_knee,
    starts,
)

#: (s, k N_max^2) of further starts where a fit is repeated for data that may be far from the first.
_RESTARTS = ((0.0, 0.1), (0.2, 1.0), (0.0, 10.0))


@dataclass(frozen=True, eq=False)
class PointFit:
    """The least-squares solution: full parameters, and the weighted sum of squares of all runs.

    Parameters are (L, s, k), of the hard knee (L, C), of Gustafson's law (L, s). `bounds` is None for the hard knee.
    """

    model: ScalabilityModel
    theta: Array
    bounds: Bounds | None
    sum_of_squares: float

    def free(self) -> Array:
        """Return the free parameters only, in the order of `model.parameters`."""
        return self.theta[: self.model.size]


def bounds_for(model: ScalabilityModel, observations: Observations, *, superlinear: bool) -> Bounds:
    """Return the limits of (s, k): from 0 to (1, infinity), fixed at 0 where the model lacks the parameter.

    A superlinear fit lets s go negative, as far as the throughput of the largest measured size stays finite.
    """
    if model is GUSTAFSON:
        return Bounds((LEAST_SHARE if superlinear else 0.0, 0.0), (1.0, 0.0))
    least = -0.999 / (observations.sizes[-1] - 1) if superlinear else 0.0
    if model is LINEAR:
        return Bounds((0.0, 0.0), (0.0, 0.0))
    if model is AMDAHL:
        return Bounds((least, 0.0), (1.0, 0.0))
    return Bounds((least, 0.0), (1.0, np.inf))


def fit_model(model: ScalabilityModel, observations: Observations, *, superlinear: bool = False) -> PointFit:
    """Fit one model to the observations, from several starting points."""
    n, means = observations.sizes, observations.means[None, :]
    weights = observations.weights(means)
    if model is KNEE:
        theta, cost = solve_knee(n, means, weights)
        return PointFit(model, theta[0], None, float(cost[0]) + observations.pure_error)
    bounds = bounds_for(model, observations, superlinear=superlinear)
    if model is GUSTAFSON:
        theta, cost = solve_gustafson(n, means, weights, bounds.lower[0])
        return PointFit(model, theta[0], bounds, float(cost[0]) + observations.pure_error)
    start = starts(n, means[0], weights[0])
    shape = (len(start), len(n))
    problems = Problems(n, np.broadcast_to(means, shape), np.broadcast_to(weights, shape))
    theta, cost = solve(problems, start, bounds)
    best = int(cost.argmin())
    return PointFit(model, theta[best], bounds, float(cost[best]) + observations.pure_error)


def fit_rows(fitted: PointFit, sizes: Array, means: Array, weights: Array) -> tuple[Array, Array]:
    """Fit the same model to many data sets from a few starts; means and weights are (rows, sizes), a weight may be 0.

    Returns full parameters (rows, parameters) and weighted sums of squares of the means (rows,).
    """
    if fitted.bounds is None:
        return solve_knee(sizes, means, weights)
    if fitted.model is GUSTAFSON:
        return solve_gustafson(sizes, means, weights, fitted.bounds.lower[0])
    first = np.vstack([fitted.theta, [[fitted.theta[0], s, k / sizes[-1] ** 2] for s, k in _RESTARTS]])
    rows = len(means)
    index = np.repeat(np.arange(rows), len(first))
    problems = Problems(sizes, means[index], weights[index])
    theta, cost = solve(problems, np.tile(first, (rows, 1)), fitted.bounds)
    best = cost.reshape(rows, len(first)).argmin(axis=1) + np.arange(rows) * len(first)
    return theta[best], cost[best]


def refit(fitted: PointFit, observations: Observations, means: Array) -> Array:
    """Fit the same model to other means at the same sizes (rows, sizes); return full parameters (rows, parameters)."""
    weights = observations.weights(means)
    if fitted.bounds is None:
        return solve_knee(observations.sizes, means, weights)[0]
    if fitted.model is GUSTAFSON:
        return solve_gustafson(observations.sizes, means, weights, fitted.bounds.lower[0])[0]
    start = np.broadcast_to(fitted.theta, (len(means), 3))
    return solve(Problems(observations.sizes, means, weights), start, fitted.bounds)[0]
