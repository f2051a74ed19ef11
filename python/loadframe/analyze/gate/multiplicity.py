"""How many checks share one chance of a false stop: joint checks first, then what they consist of; pure.

The procedure is the graphical one of Bretz, Maurer, Brannath and Posch, "A graphical approach to sequentially rejective
multiple test procedures" (Statistics in Medicine 28, 2009). Each hypothesis has a share of the level. One that is
rejected hands its share on along its arrows. The chance of any false rejection is at most the level, however the tests
depend on each other (it rests on Bonferroni's inequality).

Here a family is all checks of one kind (p99 of every operation, say), and has an equal share of the level. Half of it
is for the joint check, which asks whether the kind as a whole got worse, and which sees a common change far better than
any single check; once that is rejected, its half goes to the members. The other half is the members' from the start, so
that one operation that got worse among many is not lost in their mean. A member that is rejected hands its share to
all others, as in Holm's procedure.

Watched members, which were named before the runs were seen, have `WATCHED` of their family's share instead, and the
joint check and the other members divide the remainder.
"""

from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

#: The part of a family's share of the level that its watched members have.
WATCHED = 0.9


class Graph:
    """Hypotheses with their shares of the level, and the arrows along which rejected ones hand these on.

    Hypotheses are numbered: those of the first family, its joint one first where it has any, then of the next.
    """

    def __init__(self, members: Sequence[int], watched: Sequence[Collection[int]] = ()) -> None:
        """Take the number of members of each family, and which of them are watched, counted from 0.

        A family of one member has no joint hypothesis.
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
        """Return p values adjusted for their number: below a level where the procedure rejects at that level."""
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
    """Return the arrows that are left when one hypothesis is gone: those through it lead on to where it led."""
    through = arrows[:, [gone]] * arrows[[gone], :]
    back = arrows[:, gone] * arrows[gone, :]
    with np.errstate(divide="ignore", invalid="ignore"):
        passed = np.where(back[:, None] < 1, (arrows + through) / (1 - back[:, None]), 0.0)
    np.fill_diagonal(passed, 0.0)
    passed[gone, :] = 0.0
    passed[:, gone] = 0.0
    return passed
