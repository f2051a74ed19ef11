"""Order effects of capacity searches: whether responses slow down from trial to trial; pure functions.

Trials at one rate in one search differ only in their order. So the logarithm of the response time is regressed on the
number of the trial, with a separate level for each rate of each search.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from loadframe.analyze.estimate import Estimate, half_width

#: The one-sided level at which an order effect is reported, and its minimum degrees of freedom.
_LEVEL, _FREEDOM = 0.025, 2


@dataclass(frozen=True)
class OrderEffect:
    """The factor by which response times grow from one trial to the next, with its 95 % interval and one-sided p."""

    factor: Estimate
    p: float

    @property
    def is_slower(self) -> bool:
        """Whether response times grow by more than chance."""
        return self.p < _LEVEL


def order_effect(rates: Sequence[Sequence[tuple[int, float]]]) -> OrderEffect | None:
    """Return the order effect; None if too few trials repeat a rate.

    `rates` holds the trials of each rate of each search: their number in the search, and the response time (s, above
    0).
    """
    repeated = [trials for trials in rates if len(trials) > 1]
    freedom = sum(len(trials) - 1 for trials in repeated) - 1
    if freedom < _FREEDOM:
        return None
    rows = [np.array([(number, math.log(response)) for number, response in trials]) for trials in repeated]
    within = np.concatenate([row - row.mean(axis=0) for row in rows])
    number, log = within.T
    square = float(number @ number)
    slope = float(number @ log) / square
    left = log - slope * number
    error = math.sqrt(float(left @ left) / freedom / square)
    p = float(special.stdtr(freedom, -slope / error)) if error else float(slope <= 0)
    half = half_width(error, freedom)
    return OrderEffect(Estimate(math.exp(slope), math.exp(slope - half), math.exp(slope + half)), p)
