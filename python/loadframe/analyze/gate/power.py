"""Power of a gate's checks, and how checks share one false-alarm rate.

A check stops a gate if a one-sided t test of a log ratio rejects, and the estimate is at least the least effect. With a
true log ratio d, a standard error s and f degrees of freedom, the estimate is normal about d. Independently, the
estimated error is s sqrt(chi2(f) / f). Power is the mean, over the estimated error, of the chance that the estimate
exceeds both limits. Without a least effect this is the power of the t test by the noncentral t distribution (see Cohen,
"Statistical Power Analysis for the Behavioral Sciences", 1988).

The procedure is the graphical one of Bretz, Maurer, Brannath and Posch, "A graphical approach to sequentially rejective
multiple test procedures" (Statistics in Medicine 28, 2009). Each hypothesis has a share of the level. A rejected
hypothesis passes its share along its arrows. The chance of any false rejection is at most the level under any
dependence of the tests (by Bonferroni's inequality).

A family is all checks of one kind, such as p99 of every operation, and each family has an equal share of the level.
Half of it belongs to the joint check of the kind as a whole, which detects a common change far better than a single
check; when it rejects, its half passes to the members. The other half belongs to the members from the start, so that
one worse operation among many is not lost in their mean. A rejected member passes its share to all others, as in Holm's
procedure.

Watched members, named before the runs, have `WATCHED` of their family's share; the joint check and the other members
divide the rest.
"""

import math
from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt

from loadframe.base import special

Array = npt.NDArray[np.float64]

#: Usual power: the chance of finding a worsening.
USUAL = 0.8
#: Quantiles of the estimated error over which the mean is taken.
_MIDDLES = (np.arange(200) + 0.5) / 200
#: Largest worsening considered: a hundred times as slow.
_MOST = 100.0


def logarithm(worsening: float, *, higher_is_better: bool) -> float:
    """Return the log ratio of a worsening (a share of the baseline); positive means worse.

    `higher_is_better`: a worsening is a fall of the measure, else a rise. Infinite for a fall to 0.
    """
    if not higher_is_better:
        return math.log1p(worsening)
    return math.inf if worsening >= 1 else -math.log1p(-worsening)


def power(
    worsening: float, error: float, freedom: float, level: float, least: float = 0.0, *, higher_is_better: bool = False
) -> float:
    """Return the chance that a one-sided test at `level` finds a worsening (a share of the baseline).

    `error` is the standard error of the log ratio, `freedom` its degrees of freedom, `least` the least effect that
    counts (a share of the baseline). `higher_is_better`: a worsening is a fall of the measure. 0 without degrees of
    freedom or with an infinite error.
    """
    if freedom <= 0 or not math.isfinite(error):
        return 0.0
    shift = logarithm(worsening, higher_is_better=higher_is_better)
    return _share_beyond(
        shift, error, _bars(error, freedom, level, logarithm(least, higher_is_better=higher_is_better))
    )


def detectable(
    error: float, freedom: float, level: float, least: float = 0.0, *, higher_is_better: bool = False
) -> float:  # fmt: skip
    """Return the smallest worsening that is found with a probability of 0.8; infinite if there is none.

    It is a share of the baseline, as is `least`, the least effect that counts. `error` is the standard error of the log
    ratio, `freedom` its degrees of freedom, `level` the level of the one-sided test. `higher_is_better`: a worsening is
    a fall of the measure.
    """
    if freedom <= 0 or not math.isfinite(error):
        return math.inf
    most = logarithm(1 - 1e-9 if higher_is_better else _MOST, higher_is_better=higher_is_better)
    bars = _bars(error, freedom, level, logarithm(least, higher_is_better=higher_is_better))

    def lacking(shift: float) -> float:
        """Return the power at a shift of the log ratio, minus 0.8."""
        # Negative: such a worsening is found with less than the usual power.
        return _share_beyond(shift, error, bars) - USUAL

    if lacking(most) < 0:
        return math.inf
    if lacking(0.0) >= 0:
        return 0.0
    from scipy import optimize  # slow to import, and few commands need it

    shift = float(optimize.brentq(lacking, 0.0, most, xtol=1e-5))
    return -math.expm1(-shift) if higher_is_better else math.expm1(shift)


def runs_needed(
    worsening: float,
    error: float,
    freedom: float,
    level: float,
    least: float,
    runs: tuple[int, int],
    *,
    most: int,
    higher_is_better: bool = False,
) -> int | None:
    """Return the fewest runs per side, from 2, that find a worsening with a probability of 0.8, or None above `most`.

    `error` (of the log ratio) and `freedom` are those of `runs`, the runs of both sides; None also if they leave no
    degrees of freedom. The variance falls with the number of runs, and the degrees of freedom grow with it. `worsening`
    and `least`, the least effect that counts, are shares of the baseline. `higher_is_better`: a worsening is a fall of
    the measure.
    """
    if freedom <= 0 or sum(runs) <= 2:
        return None
    variance = error**2 / sum(1 / count for count in runs)
    per_run = freedom / (sum(runs) - 2)
    for count in range(2, most + 1):
        wide, degrees = math.sqrt(2 * variance / count), 2 * per_run * (count - 1)
        if power(worsening, wide, degrees, level, least, higher_is_better=higher_is_better) >= USUAL:
            return count
    return None


def _bars(error: float, freedom: float, level: float, least: float) -> Array:
    """Return the limits that an estimate on the log scale must exceed, one for each quantile of its estimated error.

    `error` is the true standard error, `freedom` the degrees of freedom of the estimated one, `level` that of the
    one-sided test. No limit is below `least`, a logarithm.
    """
    estimated = error * np.sqrt(special.chdtri(freedom, 1 - _MIDDLES) / freedom)
    bars: Array = np.maximum(special.stdtrit(freedom, 1 - level) * estimated, least)
    return bars


def _share_beyond(shift: float, error: float, bars: Array) -> float:
    """Return the chance that an estimate about `shift` with a standard `error` exceeds its limit, over all `bars`.

    All are on the scale of log ratios.
    """
    if error == 0 or shift == math.inf:
        return float((shift >= np.maximum(bars, 1e-12)).mean())
    return float(special.ndtr((shift - bars) / error).mean())


#: Share of a family's level for its watched members.
WATCHED = 0.9


class Graph:
    """Hypotheses with their shares of the level, and the arrows along which rejected ones pass these on.

    Hypotheses are numbered by family: the joint hypothesis first, if there is one, then the members.
    """

    def __init__(self, members: Sequence[int], watched: Sequence[Collection[int]] = ()) -> None:
        """Build the graph from the number of members per family, and the indices of their watched members.

        Hypotheses are numbered by family: first the joint one, then the members; a family with one member has no joint
        one. Families have equal levels. Watched members share 90 % of their family's level. Of the rest (all without
        watched members), the joint hypothesis gets half and the other members share half.
        """
        total = sum(count + (count > 1) for count in members)
        self.weights: Array = np.zeros(total)
        arrows = np.ones((total, total)) - np.eye(total)
        arrows /= max(total - 1, 1)
        start = 0
        for family, count in enumerate(members):
            share = 1 / len(members)
            chosen = sorted(watched[family]) if watched else []
            if count == 1:
                self.weights[start] = share
            else:
                columns = slice(start + 1, start + 1 + count)
                rest = share * (1 - WATCHED) if chosen else share
                self.weights[start] = rest / 2
                self.weights[columns] = rest / 2 / max(count - len(chosen), 1)
                if chosen:
                    self.weights[[start + 1 + place for place in chosen]] = share * WATCHED / len(chosen)
                if len(chosen) == count:
                    self.weights[start] = rest
                arrows[start] = 0.0
                arrows[start, columns] = 1 / count
            start += count + (count > 1)
        self._arrows: Array = arrows

    def adjust(self, ps: Sequence[float]) -> list[float]:
        """Return the adjusted p values, in order: below a level if the procedure rejects at that level."""
        p, weights, arrows = np.asarray(ps, dtype=float), self.weights.copy(), self._arrows.copy()
        left = np.ones(len(p), dtype=bool)
        adjusted = np.ones(len(p))
        largest = 0.0
        while left.any():
            with np.errstate(divide="ignore", invalid="ignore"):
                ratios = np.where(left & (weights > 0), p / weights, np.inf)
            first = int(np.argmin(ratios))
            if not np.isfinite(ratios[first]):
                break
            largest = max(largest, min(1.0, float(ratios[first])))
            adjusted[first] = largest
            left[first] = False
            weights += weights[first] * arrows[first]
            weights[first] = 0.0
            arrows = _without(arrows, first)
        return [float(value) for value in adjusted]


def _without(arrows: Array, gone: int) -> Array:
    """Return the arrows (hypotheses x hypotheses) without the hypothesis number `gone`.

    Arrows through it lead on to its targets.
    """
    through = arrows[:, [gone]] * arrows[[gone], :]
    back = arrows[:, gone] * arrows[gone, :]
    with np.errstate(divide="ignore", invalid="ignore"):
        passed = np.where(back[:, None] < 1, (arrows + through) / (1 - back[:, None]), 0.0)
    np.fill_diagonal(passed, 0.0)
    passed[gone, :] = 0.0
    passed[:, gone] = 0.0
    return passed
