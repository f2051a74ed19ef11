"""Whether throughput has fallen, asked every second of a run: one test of many looks, with one false alarm rate.

The last m seconds are held against the best m seconds before them, for m of 1, 2, 4 ... times the length that is asked
for, as far as the run goes back. The best of many stretches lies above its level by chance, and each second is another
chance to see a fall, so a difference counts only when it is `_ERRORS` standard errors large: then it happens in at most
5 % of runs of 15 minutes that throughput which did not fall is said to have fallen, by simulation under autoregressive
seconds (benchmarks/simulate_trigger.py; docs/elasticity.md has the table). In longer runs the bound rises with the
logarithm of their length, which spends the same again on each doubling at most. The scan is that of Page ("Continuous
inspection schemes", Biometrika, 1954) over windows, as a generalised likelihood ratio with a known noise; the noise
is estimated from differences of neighbouring seconds, since levels rise in steps while clients arrive.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy import special

from loadframe.analyze.autocorrelation import Series, effective_size, stepwise_noise, variance_of_mean

#: The bound in standard errors, and the seconds of the run for which it holds.
_ERRORS = 4.6
_RUN = 900
#: Standard errors of a correlation's estimate that are added to it, and what it is at most.
_UPPER = 3.0
_GREATEST = 0.9


@dataclass(frozen=True)
class Fall:
    """From which level to which throughput has fallen, 1/s, and over how many seconds that was seen."""

    best: float
    last: float
    seconds: int


def fall(rates: Series, length: int, drop: float) -> Fall | None:
    """Return how throughput has fallen by now; None if by no more than the share `drop`, or than noise explains.

    `rates` are those of each second so far, 1/s. A drop of 0 asks whether throughput no longer grows: whether the last
    `length` seconds had less than as many before, which noise alone brings about.
    """
    for best, last, span in _spans(rates, length):
        if drop == 0:
            return Fall(best, last, span) if last < best else None
        if best - last > drop * best and errors(rates, best, last, span) >= bound(len(rates)):
            return Fall(best, last, span)
    return None


def bound(seconds: int) -> float:
    """Return how many standard errors a fall must have in a run of that age."""
    return math.sqrt(_ERRORS**2 + 2 * math.log(max(seconds / _RUN, 1.0)))


def errors(rates: Series, best: float, last: float, span: int) -> float:
    """Return how many standard errors of a normal distribution a fall between two stretches of `span` seconds has.

    The noise is an estimate itself, from as many independent seconds as these dependent ones stand for: so it is
    Student's t, and the result has the same probability under the normal distribution.
    """
    deviation, rho = stepwise_noise(rates)
    # The correlation is an estimate, too, and an unlucky one must not make noise small: its upper bound counts.
    upper = max(min(rho + _UPPER * math.sqrt((1 - rho**2) / len(rates)), _GREATEST), rho)
    error = deviation * best * math.sqrt((1 - rho) / (1 - upper) * 2 * variance_of_mean(span, upper))
    if error == 0:
        return math.inf
    freedom = max(effective_size(len(rates), rho) - 2, 1.0)
    return -float(special.ndtri(special.stdtr(freedom, (last - best) / error)))


def _spans(rates: Series, length: int) -> Iterator[tuple[float, float, int]]:
    """Yield the best and the last mean of each span of seconds, the shortest first."""
    total = np.concatenate([[0.0], np.cumsum(rates)])
    span = length
    while 2 * span <= len(rates):
        means = (total[span:] - total[:-span]) / span
        yield float(means[:-span].max()), float(means[-1]), span
        span *= 2
