"""Test of a fall in throughput against smooth saturation: curves that approach a limit, against the USL; pure.

A curve that rises to a limit and stays lacks a peak, but the USL, with its softer ceiling, fits one. So a peak needs
data that such curves miss. Two families are fitted, each with a level C, a bend at size c and a sharpness p, from
very soft to a hard knee, for u = N / c:

    C u / (1 + u^p)^(1/p)    and    C (1 - exp(-u^p))^(1/p)

The second approaches its limit faster; for p = 1 it is the exponential.
"""

from collections.abc import Callable

import numpy as np
from scipy import special
from scipy.optimize import least_squares

from loadframe.analyze.scalability.fitting import PointFit
from loadframe.analyze.scalability.models import Array
from loadframe.analyze.scalability.observations import Observations

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
    """Return the smallest weighted sum of squares of a family's curves about the means."""
    sizes, means = observations.sizes, observations.means
    weights = observations.weights(means[None, :])[0]
    bends = np.geomspace(sizes[0] / 2, sizes[-1] * 4, _BENDS)
    shapes = shape(sizes / bends[:, None], _SHARPNESSES[:, None, None])
    levels = (weights**2 * shapes * means).sum(-1) / (weights**2 * shapes**2).sum(-1)
    costs = ((weights * (levels[..., None] * shapes - means)) ** 2).sum(-1)
    sharpness, bend = np.unravel_index(costs.argmin(), costs.shape)
    start = np.log([levels[sharpness, bend], bends[bend], _SHARPNESSES[sharpness]])

    def residuals(logs: Array) -> Array:
        level, at, p = np.exp(logs)
        left: Array = weights * (level * shape(sizes / at, p) - means)
        return left

    limits = ([-np.inf, -np.inf, _SHARPEST[0]], [np.inf, np.inf, _SHARPEST[1]])
    return min(2 * float(least_squares(residuals, start, bounds=limits).cost), float(costs.min()))
