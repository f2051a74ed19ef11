"""What a change cost, as a signed account: the stretches in which a series was worse than its level, and their sums.

A sum of positive parts adds noise up: over 240 s of 10 % noise it finds 10 s of lost work where nothing was lost. Here
noise cancels. The account runs from the instant of the change over (excess - allowance); its highest point ends the
first stretch, all of which counts, with its sign. After that, every further stretch counts whose account rises from 0
by more than noise makes it: Page's cumulative sum ("Continuous inspection schemes", Biometrika, 1954), whose excursions
beyond h have a probability of about exp(-2 k h / s^2) each, s^2 being the long-run variance and k the allowance.

The allowance is two standard errors of the level that the series is compared with. What lies closer to the level than
the level is known does not end a stretch late; losses that are smaller than that for the whole run are understated.
Bias and coverage by simulation are in docs/elasticity.md (benchmarks/simulate_elasticity.py).
"""

import numpy as np

from loadframe.analyze.elasticity.course import Flags, Series

#: Of the level's standard error, which as a median's is 25 % above that of a mean.
_ALLOWANCE = 2.0 * np.sqrt(np.pi / 2)
#: Of s^2 / 2k, by which excursions of noise are distributed: one in 150 is as high.
_HEIGHT = 5.0


def stretches(excess: Series, deviation: float, window: float) -> Flags:
    """Return in which seconds a series was worse than its level because of the change.

    `excess` is by how much it is worse (positive) or better in each second since the change, `deviation` the long-run
    standard deviation of its noise in the same unit, `window` the seconds that the level was taken from.
    """
    allowance = _ALLOWANCE * deviation / np.sqrt(window)
    height = _HEIGHT * deviation**2 / (2 * allowance) if allowance > 0 else 0.0
    steps = excess - allowance
    flags = np.zeros(len(excess), dtype=bool)
    first = int(np.argmax(np.concatenate([[0.0], np.cumsum(steps)])))
    flags[:first] = True
    begin, total, best, end = first, 0.0, height, first
    for second in range(first, len(steps)):
        total += steps[second]
        if total > best:
            best, end = total, second + 1
        if total <= 0 or second == len(steps) - 1:
            flags[begin:end] = True
            begin, total, best, end = second + 1, 0.0, height, second + 1
    return flags


def signed_sum(excess: Series, during: Flags) -> float:
    """Return the sum over those seconds that lie within the series."""
    length = min(len(excess), len(during))
    return float(excess[:length][during[:length]].sum())
