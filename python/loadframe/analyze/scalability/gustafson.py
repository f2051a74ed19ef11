"""The exact least-squares fit of Gustafson's scaled speed-up, for many data sets at once.

Gustafson, "Reevaluating Amdahl's Law" (Communications of the ACM 31, 1988): where the work grows with N, a serial share
s of the time leaves a scaled speed-up of S(N) = N - s (N - 1). It is linear in N, so no search is needed.
"""

import numpy as np

from loadframe.analyze.scalability.models import Array, gustafson_throughput

#: A serial share below this, of growth far beyond size, has no meaning.
LEAST_SHARE = -100.0


def solve_gustafson(n: Array, means: Array, weights: Array, least: float) -> tuple[Array, Array]:
    """Minimise sum((weights (L (n - s (n - 1)) - means))^2) over (L, s) for each row, s from `least` to 1.

    Arguments as in `solver.solve`. Returns parameters (rows, 2) and sums of squares (rows,).
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
    """Return the weighted derivatives of X by (L, s) at one set of parameters: shape (sizes, 2)."""
    lam, share = theta
    derivatives: Array = weights[:, None] * np.column_stack([n - share * (n - 1), -lam * (n - 1)])
    return derivatives
