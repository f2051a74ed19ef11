"""Whether a hard knee's ceiling holds: how throughput changes along the sizes that lie on it.

The knee fits data that rise and then stay. Data that rise and then fall slowly are often nearer to it than to the USL,
whose bend is rounder, so that the knee being the better model does not say that nothing falls.
"""

from dataclasses import dataclass

import numpy as np

from loadframe.analyze.estimate import Estimate, half_width
from loadframe.analyze.scalability.fitting import PointFit
from loadframe.analyze.scalability.observations import Observations

#: A ceiling holds where its interval allows no greater fall than this from its first size to its last.
_NOTHING = -0.05


@dataclass(frozen=True)
class CeilingChange:
    """By how much throughput changes on the ceiling, relative to it, from its first size to its last."""

    first: float
    last: float
    change: Estimate

    @property
    def holds(self) -> bool:
        """Whether a fall that is worth a word is excluded."""
        return self.change.low >= _NOTHING


def ceiling_change(knee: PointFit, observations: Observations) -> CeilingChange | None:
    """Return the change by a straight line through the residuals over log N, with its t interval.

    None where fewer than two sizes lie on the ceiling, or where no degree of freedom is left.
    """
    lam, ceiling = knee.theta
    on = lam * observations.sizes > ceiling * (1 + 1e-12)
    freedom = observations.freedom - knee.model.size - 1
    if on.sum() < 2 or freedom < 1:
        return None
    x, y = np.log(observations.sizes[on]), observations.means[on] / ceiling - 1
    # What runs on the ceiling weigh, in units of the ceiling.
    weights = (observations.weights(observations.means)[on] * ceiling) ** 2
    x0, y0 = np.average(x, weights=weights), np.average(y, weights=weights)
    square = float((weights * (x - x0) ** 2).sum())
    slope = float((weights * (x - x0) * (y - y0)).sum()) / square
    left = max(knee.sum_of_squares - slope**2 * square, observations.least_sum)
    error = half_width(float(np.sqrt(left / freedom / square)), freedom)
    span = float(x[-1] - x[0])
    change = Estimate(slope * span, float((slope - error) * span), float((slope + error) * span))
    sizes = observations.sizes[on]
    return CeilingChange(float(sizes[0]), float(sizes[-1]), change)
