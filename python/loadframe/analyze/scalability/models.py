"""Models of throughput over size: closed forms, and least-squares fits to many data sets at once.

Universal Scalability Law (USL): Gunther, "Guerrilla Capacity Planning" (Springer, 2007), chapters 4 to 6.

    X(N) = L N / D(N),   D(N) = 1 + s (N - 1) + k N (N - 1)

L is the throughput at N = 1 (lambda), s contention (sigma), k coherency (kappa). k = 0 is Amdahl's law, s = k = 0 is
linear scaling. The hard knee, min(L N, C), describes an unshared resource that is exhausted. For work that grows with N
(weak scaling) Gustafson's law applies, L (N - s (N - 1)), which is not a case of the USL.

The USL and its special cases: Levenberg-Marquardt with active bounds. A parameter at a bound that the gradient pushes
outwards is held there for the step. One call solves thousands of resamples, because every step is a batch of 3 x 3
systems. L is stepped as log L, so it stays positive. Marquardt's scaling by the diagonal makes the step independent of
the parameters' very different orders (k is often 1e-6). More, "The Levenberg-Marquardt algorithm" (1978).

The hard knee min(L N, C): if the break lies between two sizes, weighted means of the sizes below and above it give L
and C. If it lies on a size, C = L N_j leaves one linear parameter. The best of these finitely many candidates is the
solution, without a search.

Gustafson's scaled speed-up ("Reevaluating Amdahl's Law", Communications of the ACM 31, 1988): if the work grows with N,
a serial share s of the time gives a scaled speed-up of S(N) = N - s (N - 1), which is linear in N.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
ModelName = Literal["linear", "gustafson", "amdahl", "usl", "knee"]
#: Strong scaling: constant work while N grows; weak scaling: the work grows with N.
Scaling = Literal["strong", "weak"]


def usl_throughput(theta: Array, n: Array) -> Array:
    """Return X(N) for parameters (L, s, k) in the last axis of `theta`: shape `theta.shape[:-1] + n.shape`.

    The result is nan where a superlinear fit (s < 0) has no finite throughput.
    """
    lam, sigma, kappa = (theta[..., i, None] for i in range(3))
    demand = 1 + sigma * (n - 1) + kappa * n * (n - 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(demand > 0, lam * n / demand, np.nan)


def knee_throughput(theta: Array, n: Array) -> Array:
    """Return min(L N, C) for parameters (L, C) in the last axis of `theta`; C may be infinite."""
    return np.minimum(theta[..., 0, None] * n, theta[..., 1, None])


def gustafson_throughput(theta: Array, n: Array) -> Array:
    """Return L (N - s (N - 1)) for parameters (L, s) in the last axis of `theta`."""
    lam, share = theta[..., 0, None], theta[..., 1, None]
    grown: Array = lam * (n - share * (n - 1))
    return grown


def peak_size(theta: Array, least: float = 1.0) -> Array:
    """Return N* = sqrt((1 - s) / k), at least `least`; infinite if k = 0."""
    sigma, kappa = theta[..., 1], theta[..., 2]
    with np.errstate(divide="ignore", invalid="ignore"):
        peak = np.sqrt(np.maximum(1 - sigma, 0) / kappa)
    return np.where(kappa > 0, np.maximum(peak, least), np.inf)


@dataclass(frozen=True)
class ScalabilityModel:
    """One model: its name, the names of its free parameters, and its curve."""

    name: ModelName
    parameters: tuple[str, ...]
    curve: Callable[[Array, Array], Array]

    @property
    def size(self) -> int:
        """Number of free parameters."""
        return len(self.parameters)


LINEAR = ScalabilityModel("linear", ("lambda",), usl_throughput)
GUSTAFSON = ScalabilityModel("gustafson", ("lambda", "serial"), gustafson_throughput)
AMDAHL = ScalabilityModel("amdahl", ("lambda", "sigma"), usl_throughput)
KNEE = ScalabilityModel("knee", ("lambda", "ceiling"), knee_throughput)
USL = ScalabilityModel("usl", ("lambda", "sigma", "kappa"), usl_throughput)

#: From simple to rich; of two equally good models the earlier one is selected.
LADDER = (LINEAR, AMDAHL, KNEE, USL)
#: The models of each kind of scaling.
LADDERS: dict[Scaling, tuple[ScalabilityModel, ...]] = {
    "strong": LADDER,
    "weak": (LINEAR, GUSTAFSON, AMDAHL, KNEE, USL),
}

_STEPS = 300
_TOLERANCE = 1e-10
_GIVE_UP = 1e13


@dataclass(frozen=True)
class Bounds:
    """Smallest and largest (sigma, kappa); equal ends fix a parameter."""

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
        """Return the data sets of the rows with these indices."""
        return Problems(self.n, self.means[index], self.weights[index])

    def residual(self, theta: Array) -> Array:
        """Return weights * (curve - means), shape (rows, sizes), for lambda, sigma and kappa, shape (rows, 3).

        nan at sizes where a curve has no finite throughput.
        """
        return self.weights * (usl_throughput(theta, self.n) - self.means)

    def cost(self, theta: Array) -> Array:
        """Return the sums of squares (rows,); infinite for curves without a finite throughput."""
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
        # For N below 1 the throughput of a curve may be infinite, before or after the step.
        with np.errstate(invalid="ignore"):
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
    """Return starting points (rows, 3) for one data set: a coarse grid, then the linear form's solution.

    `n`, `means` and `weights` have one value per size. The non-negative linear form is N / X = a + b (N - 1) + c N (N -
    1) with L = 1/a, s = b/a, k = c/a; it has no row if a is 0. An error of X has a relative weight of X / N in it.
    """
    from scipy.optimize import nnls  # slow to import, and few commands need it

    design = np.stack([np.ones_like(n), n - 1, n * (n - 1)], axis=1)
    rows = weights * means**2 / n
    (a, b, c), _ = nnls(design * rows[:, None], rows * n / means)
    grid = [(s, k / n[-1] ** 2) for s in (0.0, 0.02, 0.2, 0.7) for k in (0.0, 0.1, 1.0, 10.0)]
    if a > 0:
        grid.append((b / a, c / a))
    sk = np.array(grid)
    shape = usl_throughput(np.column_stack([np.ones(len(sk)), sk]), n)
    # For given s and k the best L follows by linear least squares.
    lam = (weights**2 * shape * means).sum(1) / (weights**2 * shape**2).sum(1)
    return np.column_stack([lam, sk])


def jacobian(theta: Array, n: Array, weights: Array) -> Array:
    """Return the derivatives of X by (log L, s, k), multiplied by `weights`: shape (rows, sizes, 3)."""
    curve = weights * usl_throughput(theta, n)
    demand = 1 + theta[:, 1, None] * (n - 1) + theta[:, 2, None] * n * (n - 1)
    return np.stack([curve, -curve * (n - 1) / demand, -curve * n * (n - 1) / demand], axis=2)


def _step(problems: Problems, theta: Array, damping: Array, limits: Array) -> Array:
    """Return the parameters (rows, 3) after one damped Gauss-Newton step, inside the limits.

    `theta` and `damping` have a row for each of `problems`; `limits` are the lower and the upper ends, (2, 3).
    `damping` adds this share of the diagonal of the normal matrix. The logarithm of L changes by at most 2.
    """
    lower, upper = limits
    derivatives = jacobian(theta, problems.n, problems.weights)
    gradient = np.einsum("rni,rn->ri", derivatives, problems.residual(theta))
    held = ((theta <= lower) & (gradient >= 0)) | ((theta >= upper) & (gradient <= 0)) | (lower == upper)
    free = ~held
    normal = np.einsum("rni,rnj->rij", derivatives, derivatives) * free[:, :, None] * free[:, None, :]
    # The row of a fixed parameter is empty; a 1 on its diagonal keeps its value.
    diagonal = np.einsum("rii->ri", normal) * damping[:, None] + held
    damped = normal + np.eye(3) * diagonal[:, None, :]
    change = np.linalg.solve(damped, -(gradient * free)[..., None])[..., 0]
    result = theta + change
    result[:, 0] = theta[:, 0] * np.exp(np.clip(change[:, 0], -2, 2))
    return np.clip(result, lower, upper)


#: Tolerance that keeps rounding in C = L N_j from deciding the side of the break.
_EXACT = 1 - 1e-12


def solve_knee(n: Array, means: Array, weights: Array) -> tuple[Array, Array]:
    """Minimise sum((weights (min(L n, C) - means))^2) over (L, C) for each row.

    `n` are the sizes; `means` and `weights` are (rows, sizes). C is infinite if no size lies on the ceiling, L if all
    do: the data only bound it from below. Returns parameters (rows, 2) and sums of squares (rows,).
    """
    squares = np.broadcast_to(weights**2, means.shape)
    solution, least = np.empty((len(means), 2)), np.full(len(means), np.inf)
    for candidate in _candidates(n, means, squares):
        residual = weights * (knee_throughput(candidate, n) - means)
        cost = (residual**2).sum(1)
        better = cost < least
        solution[better], least[better] = candidate[better], cost[better]
    lam, ceiling = solution[:, 0].copy(), solution[:, 1].copy()
    solution[ceiling >= lam * n[-1] * _EXACT, 1] = np.inf
    solution[ceiling <= lam * n[0] / _EXACT, 0] = np.inf
    return solution, least


def _candidates(n: Array, means: Array, squares: Array) -> Iterator[Array]:
    """Yield the best (L, C) of each row, shape (rows, 2), for each place of the break: on a size, then between two."""
    for j in range(len(n)):
        yield _on_size(n, means, squares, j)
    for j in range(1, len(n)):
        yield _between(n, means, squares, j)


def _on_size(n: Array, means: Array, squares: Array, j: int) -> Array:
    """Return the best (L, C) of each row, shape (rows, 2), if the break is at the size `n[j]`.

    `means` and `squares`, the squared weights, are (rows, sizes).
    """
    shape = np.minimum(n, n[j])
    lam = (squares * shape * means).sum(1) / (squares * shape**2).sum(1)
    return np.column_stack([lam, lam * n[j]])


def _between(n: Array, means: Array, squares: Array, j: int) -> Array:
    """Return the best (L, C) of each row, shape (rows, 2), if the break is between `n[j - 1]` and `n[j]`.

    `means` and `squares`, the squared weights, are (rows, sizes). Values are nan if all weights on a side are 0.
    """
    low, high = slice(None, j), slice(j, None)
    # If all sizes on one side have weight 0, the quotient is nan and not a solution.
    with np.errstate(invalid="ignore"):
        lam = (squares[:, low] * n[low] * means[:, low]).sum(1) / (squares[:, low] * n[low] ** 2).sum(1)
        ceiling = (squares[:, high] * means[:, high]).sum(1) / squares[:, high].sum(1)
    return np.column_stack([lam, ceiling])


#: Smallest serial share; lower ones, of extreme superlinear growth, are meaningless.
LEAST_SHARE = -100.0


def solve_gustafson(n: Array, means: Array, weights: Array, least: float) -> tuple[Array, Array]:
    """Minimise sum((weights (L (n - s (n - 1)) - means))^2) over (L, s) for each row, s from `least` to 1.

    `n` are the sizes; `means` and `weights` are (rows, sizes). Returns parameters (rows, 2) and sums of squares
    (rows,).
    """
    squares = np.broadcast_to(weights**2, means.shape)
    # X = L n + M (1 - n) with M = L s: two normal equations.
    u, v = n, 1 - n
    uu, uv, vv = ((squares * a * b).sum(1) for a, b in ((u, u), (u, v), (v, v)))
    ux, vx = ((squares * a * means).sum(1) for a in (u, v))
    determinant = uu * vv - uv**2
    with np.errstate(divide="ignore", invalid="ignore"):
        lam, serial = (vv * ux - uv * vx) / determinant, (uu * vx - uv * ux) / determinant
        share = np.where(lam > 0, serial / lam, least)
    share = np.clip(np.nan_to_num(share, nan=0.0), least, 1.0)
    shape = n - share[:, None] * (n - 1)
    theta = np.column_stack([(squares * shape * means).sum(1) / (squares * shape**2).sum(1), share])
    residual = weights * (gustafson_throughput(theta, n) - means)
    return theta, (residual**2).sum(1)


def gustafson_jacobian(theta: Array, n: Array, weights: Array) -> Array:
    """Return the derivatives of X by (L, s) at one set of parameters, multiplied by `weights`: shape (sizes, 2)."""
    lam, share = theta
    derivatives: Array = weights[:, None] * np.column_stack([n - share * (n - 1), -lam * (n - 1)])
    return derivatives
