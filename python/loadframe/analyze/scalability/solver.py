"""Bounded nonlinear least squares for the USL and its special cases, for many data sets at once.

Levenberg-Marquardt with active bounds: a parameter at a bound that the gradient pushes outwards is held there for the
step. One call solves thousands of resamples, because every step is a batch of 3 x 3 systems. L is stepped as log L, so
it stays positive. Marquardt's scaling by the diagonal makes the step independent of the parameters' very different
orders (k is often 1e-6). More, "The Levenberg-Marquardt algorithm" (1978). The hard knee has its own, exact solution.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls

from loadframe.analyze.scalability.models import Array, usl_throughput

_STEPS = 300
_TOLERANCE = 1e-10
_GIVE_UP = 1e13


@dataclass(frozen=True)
class Bounds:
    """Least and greatest (sigma, kappa); equal ends hold a parameter fixed."""

    lower: tuple[float, float]
    upper: tuple[float, float]


@dataclass(frozen=True, eq=False)
class Problems:
    """Data sets of equal sizes: minimise sum((weights (X(n) - means))^2) in each row.

    `n`: (sizes,); `means` and `weights`: (rows, sizes).
    """

    n: Array
    means: Array
    weights: Array

    def rows(self, index: npt.NDArray[np.int64]) -> "Problems":
        """Return some of the data sets."""
        return Problems(self.n, self.means[index], self.weights[index])

    def residual(self, theta: Array) -> Array:
        """Return the weighted residuals (rows, sizes) of parameters (rows, 3)."""
        return self.weights * (usl_throughput(theta, self.n) - self.means)

    def cost(self, theta: Array) -> Array:
        """Return the sums of squares (rows,); infinite where the curve has no finite throughput."""
        residual = self.residual(theta)
        return np.where(np.isnan(residual).any(axis=1), np.inf, (residual**2).sum(axis=1))


def solve(problems: Problems, start: Array, bounds: Bounds) -> tuple[Array, Array]:
    """Solve each problem from its row of `start` (rows, 3); return (L, s, k) (rows, 3) and sums of squares (rows,)."""
    limits = np.array([[-np.inf, *bounds.lower], [np.inf, *bounds.upper]])
    theta = np.clip(start, *limits)
    cost = problems.cost(theta)
    damping = np.full(len(theta), 1e-3)
    active = np.arange(len(theta))
    for _ in range(_STEPS):
        remaining = problems.rows(active)
        trial = _step(remaining, theta[active], damping[active], limits)
        trial_cost = remaining.cost(trial)
        gain = cost[active] - trial_cost
        better = gain > 0
        taken = active[better]
        theta[taken], cost[taken] = trial[better], trial_cost[better]
        damping[active] = np.where(better, damping[active] / 10, damping[active] * 10).clip(1e-12, None)
        finished = np.where(better, gain <= _TOLERANCE * trial_cost, damping[active] > _GIVE_UP)
        active = active[~finished]
        if not active.size:
            break
    return theta, cost


def starts(n: Array, means: Array, weights: Array) -> Array:
    """Return starting points (rows, 3): the non-negative linear form's solution and a coarse grid.

    The linear form is N / X = a + b (N - 1) + c N (N - 1) with L = 1/a, s = b/a, k = c/a; an error of X weighs X / N
    times as much in it, relatively.
    """
    design = np.stack([np.ones_like(n), n - 1, n * (n - 1)], axis=1)
    rows = weights * means**2 / n
    (a, b, c), _ = nnls(design * rows[:, None], rows * n / means)
    grid = [(s, k / n[-1] ** 2) for s in (0.0, 0.02, 0.2, 0.7) for k in (0.0, 0.1, 1.0, 10.0)]
    if a > 0:
        grid.append((b / a, c / a))
    sk = np.array(grid)
    shape = usl_throughput(np.column_stack([np.ones(len(sk)), sk]), n)
    # Given s and k the best L is linear least squares.
    lam = (weights**2 * shape * means).sum(1) / (weights**2 * shape**2).sum(1)
    return np.column_stack([lam, sk])


def jacobian(theta: Array, n: Array, weights: Array) -> Array:
    """Return the weighted derivatives of X by (log L, s, k): shape (rows, sizes, 3)."""
    curve = weights * usl_throughput(theta, n)
    demand = 1 + theta[:, 1, None] * (n - 1) + theta[:, 2, None] * n * (n - 1)
    return np.stack([curve, -curve * (n - 1) / demand, -curve * n * (n - 1) / demand], axis=2)


def _step(problems: Problems, theta: Array, damping: Array, limits: Array) -> Array:
    lower, upper = limits
    derivatives = jacobian(theta, problems.n, problems.weights)
    gradient = np.einsum("rni,rn->ri", derivatives, problems.residual(theta))
    held = ((theta <= lower) & (gradient >= 0)) | ((theta >= upper) & (gradient <= 0)) | (lower == upper)
    free = ~held
    normal = np.einsum("rni,rnj->rij", derivatives, derivatives) * free[:, :, None] * free[:, None, :]
    # A held parameter's row is empty; a 1 on its diagonal keeps it where it is.
    diagonal = np.einsum("rii->ri", normal) * damping[:, None] + held
    damped = normal + np.eye(3) * diagonal[:, None, :]
    change = np.linalg.solve(damped, -(gradient * free)[..., None])[..., 0]
    result = theta + change
    result[:, 0] = theta[:, 0] * np.exp(np.clip(change[:, 0], -2, 2))
    return np.clip(result, lower, upper)
