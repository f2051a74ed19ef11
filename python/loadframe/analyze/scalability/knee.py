"""The exact least-squares fit of the hard knee min(L N, C), for many data sets at once.

Where the break lies between two sizes, the sizes below it fix L and those above it fix C, each by a weighted mean.
Where it lies on a size, C = L N_j leaves one parameter that is linear too. The least of these finitely many candidates
is the solution, so no search is needed.
"""

from collections.abc import Iterator

import numpy as np

from loadframe.analyze.scalability.models import Array, knee_throughput

#: Rounding in C = L N_j must not decide on which side of the break a size lies.
_EXACT = 1 - 1e-12


def solve_knee(n: Array, means: Array, weights: Array) -> tuple[Array, Array]:
    """Minimise sum((weights (min(L n, C) - means))^2) over (L, C) for each row; arguments as in `solver.solve`.

    C is infinite where no size lies on the ceiling, and L where all do: the data only bound it from below. Returns
    parameters (rows, 2) and sums of squares (rows,).
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
    for j in range(len(n)):
        yield _on_size(n, means, squares, j)
    for j in range(1, len(n)):
        yield _between(n, means, squares, j)


def _on_size(n: Array, means: Array, squares: Array, j: int) -> Array:
    shape = np.minimum(n, n[j])
    lam = (squares * shape * means).sum(1) / (squares * shape**2).sum(1)
    return np.column_stack([lam, lam * n[j]])


def _between(n: Array, means: Array, squares: Array, j: int) -> Array:
    low, high = slice(None, j), slice(j, None)
    # Where all sizes on one side weigh nothing, the quotient is nan, and no solution.
    with np.errstate(invalid="ignore"):
        lam = (squares[:, low] * n[low] * means[:, low]).sum(1) / (squares[:, low] * n[low] ** 2).sum(1)
        ceiling = (squares[:, high] * means[:, high]).sum(1) / squares[:, high].sum(1)
    return np.column_stack([lam, ceiling])
