"""Which model the data support, and which others the noise leaves possible: F tests of the extra sum of squares.

A model is taken over a simpler one only where it leaves significantly less at 5 % (Draper and Smith, "Applied
Regression Analysis", 3rd ed. 1998, chapter 6; for nonlinear models Bates and Watts, "Nonlinear Regression Analysis",
1988, section 3.10). The threshold falls with every run, so that more runs never say less. AICc, which is printed beside
it, does not have that property: its penalty grows beyond bounds as the runs become few, and at six runs no curve can
earn the USL's three parameters. Models that are not nested (a hard knee and the others) are compared by the same
statistic with at least one degree of freedom, which takes the noise of the better one as known.
"""

import math
from collections.abc import Sequence

from scipy import special

from loadframe.analyze.scalability.fitting import PointFit
from loadframe.analyze.scalability.models import KNEE, ModelName
from loadframe.analyze.scalability.observations import Observations

_SIGNIFICANT = 0.05


def aicc(fitted: PointFit, observations: Observations) -> float | None:
    """Return AICc, or None where there are too few runs for the model's parameters.

    Burnham and Anderson, "Model Selection and Multimodel Inference" (2nd ed., 2002), section 2.4: for least squares
    n ln(RSS / n) + 2 K + 2 K (K + 1) / (n - K - 1), where K counts the free parameters and the variance.
    """
    n, k = observations.total, fitted.model.size + 1
    if n - k - 1 < 1:
        return None
    return n * math.log(_sum(fitted, observations) / n) + 2 * k + 2 * k * (k + 1) / (n - k - 1)


def choose(fits: Sequence[PointFit], observations: Observations) -> PointFit:
    """Return the simplest of the fits, given simplest first, that no richer one improves on significantly.

    A hard knee is a candidate only where at least two sizes lie on its ceiling: one alone fits any ceiling.
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
    """Return the names of the models that leave no significantly greater sum of squares than the best of all does."""
    least = min(fits, key=lambda fitted: _sum(fitted, observations))
    return tuple(fitted.model.name for fitted in fits if not _is_worse(fitted, least, observations))


def _is_worse(fitted: PointFit, rival: PointFit, observations: Observations) -> bool:
    """Whether a model leaves significantly more than its rival; never where the rival leaves no freedom to judge by."""
    freedom = observations.freedom - rival.model.size
    if fitted is rival or freedom < 1:
        return False
    left = _sum(rival, observations)
    added = max(rival.model.size - fitted.model.size, 1)
    statistic = (_sum(fitted, observations) - left) / added / (left / freedom)
    return statistic > 0 and float(special.fdtrc(added, freedom, statistic)) < _SIGNIFICANT


def _sum(fitted: PointFit, observations: Observations) -> float:
    return max(fitted.sum_of_squares, observations.least_sum)


def _on_ceiling(fitted: PointFit, observations: Observations) -> int:
    lam, ceiling = fitted.theta
    return int((lam * observations.sizes > ceiling * (1 + 1e-12)).sum())
