"""The best of several treatments, and what it gives: not what its runs gave, since it was chosen for these.

The chosen one is that with the highest lower confidence bound. Its throughput is drawn towards that of the treatments
from which its lead cannot be distinguished, by empirical Bayes; of a plateau, that is nearly the mean of the plateau.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from loadframe.analyze.comparison.estimate_ratio import Observation, estimate_ratio
from loadframe.analyze.estimate import Estimate
from loadframe.analyze.shrinkage import shrink
from loadframe.analyze.sweep.treatments import Noise, Treatment

#: With fewer degrees of freedom of their own, speed-ups take the spread of all treatments.
_FREEDOM = 4
#: A treatment that is less by more standard errors of the difference than this has nothing in common with the best.
_RIVALS = 2.5


def highest_lower_bound(treatments: Iterable[Treatment]) -> Treatment:
    """Return the treatment with the highest lower end of its throughput's interval; of equals the highest mean.

    Of treatments with unlike numbers of runs, the greatest mean would too often be that of a single lucky run.
    """
    return max(treatments, key=lambda treatment: (treatment.throughput.low, treatment.throughput.value))


def choose(treatments: Sequence[Treatment], noise: Noise) -> Treatment:
    """Return the treatment with the highest lower bound, its throughput without what it owes to being chosen.

    The interval reaches from the lower end of what is left to the upper end of what was measured. Where nothing was
    repeated, noise cannot be separated from differences, and the throughput is what was measured.
    """
    chosen = highest_lower_bound(treatments)
    if not noise.freedom or not noise.variation:
        return chosen
    error = noise.relative_error(len(chosen.points))
    rivals = [
        treatment
        for treatment in treatments
        if _gap(chosen, treatment) <= _RIVALS * math.hypot(error, _error(treatment, noise))
    ]
    logs = np.log([rival.throughput.value for rival in rivals])
    variances = np.array([_error(rival, noise) ** 2 for rival in rivals])
    place = next(index for index, rival in enumerate(rivals) if rival is chosen)
    luck = min(math.exp(float(shrink(logs, variances).values[place] - logs[place])), 1.0)
    measured = chosen.throughput
    return replace(
        chosen, throughput=Estimate(measured.value * luck, measured.low * luck, measured.high), without_luck=luck
    )


def ratio_of(above: Treatment, below: Treatment, noise: Noise) -> Estimate:
    """Return the ratio of two chosen treatments' throughputs.

    Its interval holds also that neither was lucky, and the bounds of both.
    """
    ratio = noise.ratio(above.expected, below.expected)
    lucky = Estimate(ratio.value, ratio.low * below.without_luck, ratio.high / above.without_luck)
    return above.stretch.ratio(below.stretch).widened(lucky)


def speedup_of(above: Treatment, below: Treatment, chosen: Sequence[Treatment], noise: Noise) -> Estimate:
    """Return the ratio of two of the chosen treatments, each run beside those of its block.

    What a block does falls on all of its runs, and no ratio within it contains that. Blocks and noise are estimated
    from all chosen treatments; where these are too few, the spread that all treatments have in common decides, which
    contains the blocks' and errs on the safe side.
    """
    runs = [
        Observation(point.throughput, at, point.block)
        for at, candidate in enumerate(chosen)
        for point in candidate.points
    ]
    places = [next(at for at, candidate in enumerate(chosen) if candidate is one) for one in (below, above)]
    ratio = estimate_ratio(runs, *places)
    if ratio.freedom < _FREEDOM:
        return ratio_of(above, below, noise)
    value = ratio.ratio.value * above.without_luck / below.without_luck
    # As in `ratio_of`: it holds also that neither was lucky.
    low = ratio.ratio.low * above.without_luck
    lucky = Estimate(value, min(low, value), max(ratio.ratio.high / below.without_luck, value))
    return above.stretch.ratio(below.stretch).widened(lucky)


def _gap(chosen: Treatment, other: Treatment) -> float:
    return math.log(chosen.throughput.value / other.throughput.value)


def _error(treatment: Treatment, noise: Noise) -> float:
    return noise.relative_error(len(treatment.points))
