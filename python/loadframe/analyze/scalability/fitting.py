"""One model fitted to one data set, and refitted to many resamples of it. Which model is best is decided elsewhere."""

from dataclasses import dataclass

import numpy as np

from loadframe.analyze.scalability.knee import solve_knee
from loadframe.analyze.scalability.models import AMDAHL, KNEE, LINEAR, Array, Model
from loadframe.analyze.scalability.observations import Observations
from loadframe.analyze.scalability.solver import Bounds, Problems, solve, starts


@dataclass(frozen=True, eq=False)
class PointFit:
    """The least-squares solution: full parameters (L, s, k) or (L, C), and the weighted sum of squares of all runs."""

    model: Model
    theta: Array
    bounds: Bounds | None
    sum_of_squares: float

    def free(self) -> Array:
        """Return the free parameters only, in the order of `model.parameters`."""
        return self.theta[: self.model.size]


def bounds_for(model: Model, observations: Observations, *, superlinear: bool) -> Bounds:
    """Return the limits of (s, k): from 0 to (1, infinity), fixed at 0 where the model lacks the parameter.

    A superlinear fit lets s go negative, as far as the throughput of the largest measured size stays finite.
    """
    least = -0.999 / (observations.sizes[-1] - 1) if superlinear else 0.0
    if model is LINEAR:
        return Bounds((0.0, 0.0), (0.0, 0.0))
    if model is AMDAHL:
        return Bounds((least, 0.0), (1.0, 0.0))
    return Bounds((least, 0.0), (1.0, np.inf))


def fit_model(model: Model, observations: Observations, *, superlinear: bool = False) -> PointFit:
    """Fit one model to the observations, from several starting points."""
    n, means = observations.sizes, observations.means[None, :]
    weights = observations.weights(means)
    if model is KNEE:
        theta, cost = solve_knee(n, means, weights)
        return PointFit(model, theta[0], None, float(cost[0]) + observations.pure_error)
    bounds = bounds_for(model, observations, superlinear=superlinear)
    start = starts(n, means[0], weights[0])
    shape = (len(start), len(n))
    problems = Problems(n, np.broadcast_to(means, shape), np.broadcast_to(weights, shape))
    theta, cost = solve(problems, start, bounds)
    best = int(cost.argmin())
    return PointFit(model, theta[best], bounds, float(cost[best]) + observations.pure_error)


def refit(fitted: PointFit, observations: Observations, means: Array) -> Array:
    """Fit the same model to other means at the same sizes (rows, sizes); return full parameters (rows, parameters)."""
    weights = observations.weights(means)
    if fitted.bounds is None:
        return solve_knee(observations.sizes, means, weights)[0]
    start = np.broadcast_to(fitted.theta, (len(means), 3))
    return solve(Problems(observations.sizes, means, weights), start, fitted.bounds)[0]
