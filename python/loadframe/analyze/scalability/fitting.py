"""Fit scalability models, select one, check its residuals, and test a fall in throughput.

A richer model replaces a simpler one only if its residual sum of squares is significantly smaller at 5 % (Draper and
Smith, "Applied Regression Analysis", 3rd ed. 1998, chapter 6; for nonlinear models Bates and Watts, "Nonlinear
Regression Analysis", 1988, section 3.10). The threshold falls with every run, so more runs never weaken a conclusion.
AICc, which is also reported, lacks this property: its penalty grows without limit for few runs, and with six runs no
curve can justify the USL's three parameters. Models that are not nested (a hard knee and the others) are compared by
the same statistic with at least one degree of freedom, which treats the noise of the better one as known.

A curve that rises to a limit and stays lacks a peak, but the USL, with its softer ceiling, fits one. So a peak needs
data that such curves miss. Two families are fitted, each with a level C, a bend at size c and a sharpness p, from
very soft to a hard knee, for u = N / c:

    C u / (1 + u^p)^(1/p)    and    C (1 - exp(-u^p))^(1/p)

The second approaches its limit faster; for p = 1 it is the exponential.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from loadframe.analyze.scalability.models import (
    AMDAHL,
    GUSTAFSON,
    KNEE,
    LEAST_SHARE,
    LINEAR,
    Array,
    Bounds,
    ModelName,
    Problems,
    ScalabilityModel,
    solve,
    solve_gustafson,
    solve_knee,
    starts,
)
from loadframe.analyze.scalability.observations import Observations
from loadframe.base import special

#: Additional starts (s, k N_max^2) for refits to data that may differ much from the first.
_RESTARTS = ((0.0, 0.1), (0.2, 1.0), (0.0, 10.0))


@dataclass(frozen=True, eq=False)
class PointFit:
    """Least-squares solution: full parameters, and the weighted sum of squares of all runs.

    Parameters are (L, s, k), (L, C) for the hard knee, or (L, s) for Gustafson's law. `bounds` is None for the knee.
    """

    model: ScalabilityModel
    theta: Array
    bounds: Bounds | None
    sum_of_squares: float

    def free(self) -> Array:
        """Return the free parameters only, in the order of `model.parameters`."""
        return self.theta[: self.model.size]


def bounds_for(model: ScalabilityModel, observations: Observations, *, superlinear: bool) -> Bounds:
    """Return the limits of (s, k): 0 to (1, infinity), and 0 to 0 for parameters that the model lacks.

    A superlinear fit allows s from -0.999 / (largest size - 1) on, at which the throughput of the largest measured size
    is finite; for Gustafson's law, s from -100 on.
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
    """Return the least-squares fit of one model, from several starting points; `superlinear` allows negative s."""
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
    """Fit the same model to many data sets from a few starts; means and weights are (rows, sizes), weights may be 0.

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
    """Fit the same model to other means at the same sizes (rows, sizes); return full parameters (rows, parameters).

    Weights follow from the number of runs at each size and the new means. Only the fit itself is the starting point.
    """
    weights = observations.weights(means)
    if fitted.bounds is None:
        return solve_knee(observations.sizes, means, weights)[0]
    if fitted.model is GUSTAFSON:
        return solve_gustafson(observations.sizes, means, weights, fitted.bounds.lower[0])[0]
    start = np.broadcast_to(fitted.theta, (len(means), 3))
    return solve(Problems(observations.sizes, means, weights), start, fitted.bounds)[0]


_SIGNIFICANT = 0.05


def aicc(fitted: PointFit, observations: Observations) -> float | None:
    """Return AICc, or None with too few runs for the model's parameters.

    Burnham and Anderson, "Model Selection and Multimodel Inference" (2nd ed., 2002), section 2.4: for least squares
    n ln(RSS / n) + 2 K + 2 K (K + 1) / (n - K - 1), where K counts the free parameters and the variance.
    """
    n, k = observations.total, fitted.model.size + 1
    if n - k - 1 < 1:
        return None
    return n * math.log(_sum(fitted, observations) / n) + 2 * k + 2 * k * (k + 1) / (n - k - 1)


def choose(fits: Sequence[PointFit], observations: Observations) -> PointFit:
    """Return the simplest fit that no richer one improves on significantly; `fits` are ordered from simple to rich.

    A hard knee is a candidate only with at least two sizes on its ceiling, since one size fits any ceiling.
    """
    fits = [fitted for fitted in fits if fitted.model is not KNEE or _on_ceiling(fitted, observations) > 1]
    best = fits[0]
    for size in sorted({fitted.model.size for fitted in fits[1:]}):
        rivals = [fitted for fitted in fits if fitted.model.size == size]
        rival = min(rivals, key=lambda fitted: _sum(fitted, observations))
        if _is_worse(best, rival, observations):
            best = rival
    return best


def possible(fits: Sequence[PointFit], observations: Observations) -> tuple[ModelName, ...]:
    """Return the names of the models without a significantly larger sum of squares than the best one."""
    least = min(fits, key=lambda fitted: _sum(fitted, observations))
    return tuple(fitted.model.name for fitted in fits if not _is_worse(fitted, least, observations))


def _is_worse(fitted: PointFit, rival: PointFit, observations: Observations) -> bool:
    """Return whether a model fits significantly worse than its rival; False without degrees of freedom."""
    freedom = observations.freedom - rival.model.size
    if fitted is rival or freedom < 1:
        return False
    left = _sum(rival, observations)
    added = max(rival.model.size - fitted.model.size, 1)
    statistic = (_sum(fitted, observations) - left) / added / (left / freedom)
    return statistic > 0 and float(special.fdtrc(added, freedom, statistic)) < _SIGNIFICANT


def _sum(fitted: PointFit, observations: Observations) -> float:
    """Return the weighted sum of squares of a fit, at least the sum that the resolution of the data explains."""
    return max(fitted.sum_of_squares, observations.least_sum)


def _on_ceiling(fitted: PointFit, observations: Observations) -> int:
    """Return the number of sizes beyond the break of the hard knee `fitted`."""
    lam, ceiling = fitted.theta
    return int((lam * observations.sizes > ceiling * (1 + 1e-12)).sum())


@dataclass(frozen=True)
class LackOfFit:
    """F test of misfit against pure error between repeated runs; a small `p` means that the curve misses the data."""

    f: float
    p: float


def lack_of_fit(fitted: PointFit, observations: Observations) -> LackOfFit | None:
    """Return the F test for lack of fit (Draper and Smith, "Applied Regression Analysis", 3rd ed., section 2.1).

    None without repeated runs, or if the model has as many parameters as there are sizes. Sizes at which the store
    failed do not count: the test is of a fit to the others, None with fewer than two.
    """
    if observations.failed:
        observations = observations.without_failed()
        if len(observations.sizes) < 2:
            return None
        superlinear = bool(fitted.bounds and fitted.bounds.lower[0] < 0)
        fitted = fit_model(fitted.model, observations, superlinear=superlinear)
    sizes = len(observations.sizes)
    between, within = sizes - fitted.model.size, observations.freedom - sizes
    if between < 1 or within < 1:
        return None
    noise = max(observations.pure_error, observations.least_sum)
    f = max(fitted.sum_of_squares - observations.pure_error, 0.0) / between / (noise / within)
    return LackOfFit(f, float(special.fdtrc(between, within, f)))


def extrapolation_error(fitted: PointFit, observations: Observations) -> float | None:
    """Return the error of the fit without the largest size there, relative to the mean measured there.

    0.1 means that the prediction was 10 % too high. None if the other sizes are too few for the model.
    """
    rest = observations.without_largest()
    if len(rest.sizes) < max(fitted.model.size, 2):
        return None
    superlinear = bool(fitted.bounds and fitted.bounds.lower[0] < 0)
    again = fit_model(fitted.model, rest, superlinear=superlinear)
    predicted = float(again.model.curve(again.theta, observations.sizes[-1:])[0])
    return predicted / float(observations.means[-1]) - 1


def r_squared(fitted: PointFit, observations: Observations) -> float | None:
    """Return the coefficient of determination R^2 (unweighted), or None for constant data."""
    values = np.concatenate(observations.runs)
    predicted = np.repeat(fitted.model.curve(fitted.theta, observations.sizes), observations.counts.astype(int))
    total = float(((values - values.mean()) ** 2).sum())
    return 1 - float(((values - predicted) ** 2).sum()) / total if total > 0 else None


#: Level of the test of the better family; `python -m benchmarks.simulate_curves 60 saturating` checks it.
_LEVEL = 0.05
#: Grid of starting points: number of bends, and sharpnesses.
_BENDS, _SHARPNESSES = 60, np.geomspace(0.5, 16, 40)
#: Logarithms of the smallest and the largest sharpness.
_SHARPEST = (float(np.log(0.3)), float(np.log(30)))

_Shape = Callable[[Array, Array], Array]
_SHAPES: tuple[_Shape, ...] = (
    lambda u, p: u * (1 + u**p) ** (-1 / p),
    lambda u, p: (-np.expm1(-(u**p))) ** (1 / p),
)


def saturates(usl: PointFit, observations: Observations) -> bool:
    """Return whether a saturating curve is possible besides the USL, by an F test; True without degrees of freedom."""
    freedom = observations.freedom - usl.model.size
    if freedom < 1:
        return True
    left = max(usl.sum_of_squares, observations.least_sum)
    added = min(_least_squares(shape, observations) for shape in _SHAPES) + observations.pure_error - left
    return added <= 0 or float(special.fdtrc(1, freedom, added / (left / freedom))) >= _LEVEL


def _least_squares(shape: _Shape, observations: Observations) -> float:
    """Return the smallest weighted sum of squares of a family's curves about the means.

    `shape` is the curve of level 1 by size relative to the bend, and by sharpness.
    """
    from scipy.optimize import least_squares  # slow to import, and few commands need it

    sizes, means = observations.sizes, observations.means
    weights = observations.weights(means[None, :])[0]
    bends = np.geomspace(sizes[0] / 2, sizes[-1] * 4, _BENDS)
    shapes = shape(sizes / bends[:, None], _SHARPNESSES[:, None, None])
    levels = (weights**2 * shapes * means).sum(-1) / (weights**2 * shapes**2).sum(-1)
    costs = ((weights * (levels[..., None] * shapes - means)) ** 2).sum(-1)
    sharpness, bend = np.unravel_index(costs.argmin(), costs.shape)
    start = np.log([levels[sharpness, bend], bends[bend], _SHARPNESSES[sharpness]])

    def residuals(logs: Array) -> Array:
        """Return the weighted residuals at the sizes, for the logarithms of level, bend and sharpness."""
        level, at, p = np.exp(logs)
        left: Array = weights * (level * shape(sizes / at, p) - means)
        return left

    limits = ([-np.inf, -np.inf, _SHARPEST[0]], [np.inf, np.inf, _SHARPEST[1]])
    return min(2 * float(least_squares(residuals, start, bounds=limits).cost), float(costs.min()))
