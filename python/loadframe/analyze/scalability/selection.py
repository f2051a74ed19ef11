"""Which model the data support: AICc where there are enough runs for it, F tests where there are not.

AICc after Burnham and Anderson, "Model Selection and Multimodel Inference" (2nd ed., 2002), section 2.4: for least
squares n ln(RSS / n) + 2 K + 2 K (K + 1) / (n - K - 1), where K counts the free parameters and the variance, for every
model alike. It does not exist for n <= K + 1. With fewer than six runs that would drop the USL, with fewer than five
everything but the straight line, so there a model is taken over a simpler one only where the extra sum of squares is
significant at 5 %, which is a sober choice and exists as soon as one degree of freedom is left.
"""

import math
from collections.abc import Sequence

from scipy import special

from loadframe.analyze.scalability.fitting import PointFit
from loadframe.analyze.scalability.models import KNEE, USL
from loadframe.analyze.scalability.observations import Observations

#: The fewest runs for which AICc exists for each model of the ladder.
RUNS_FOR_AICC = USL.size + 3


def aicc(fitted: PointFit, observations: Observations) -> float | None:
    """Return AICc, or None where there are too few runs for the model's parameters."""
    n, k = observations.total, fitted.model.size + 1
    if n - k - 1 < 1:
        return None
    return n * math.log(_sum(fitted, observations) / n) + 2 * k + 2 * k * (k + 1) / (n - k - 1)


def choose(fits: Sequence[PointFit], observations: Observations) -> PointFit:
    """Return the best of the fits, given simplest first; of equals the first.

    A hard knee is a candidate only where at least two sizes lie on its ceiling: one alone fits any ceiling.
    """
    fits = [fitted for fitted in fits if fitted.model is not KNEE or _on_ceiling(fitted, observations) > 1]
    scores = [aicc(fitted, observations) for fitted in fits]
    known = [score for score in scores if score is not None]
    if len(known) == len(fits):
        return fits[known.index(min(known))]
    return _by_tests(fits, observations)


def _by_tests(fits: Sequence[PointFit], observations: Observations) -> PointFit:
    best = fits[0]
    for size in sorted({fitted.model.size for fitted in fits[1:]}):
        rivals = [fitted for fitted in fits if fitted.model.size == size]
        rival = min(rivals, key=lambda fitted: _sum(fitted, observations))
        freedom = observations.total - size
        if freedom < 1:
            continue
        gained = _sum(best, observations) - _sum(rival, observations)
        added = size - best.model.size
        statistic = (gained / added) / (_sum(rival, observations) / freedom)
        if statistic > 0 and special.fdtrc(added, freedom, statistic) < 0.05:
            best = rival
    return best


def _sum(fitted: PointFit, observations: Observations) -> float:
    return max(fitted.sum_of_squares, observations.least_sum)


def _on_ceiling(fitted: PointFit, observations: Observations) -> int:
    lam, ceiling = fitted.theta
    return int((lam * observations.sizes > ceiling * (1 + 1e-12)).sum())
