"""Optimisers that plan one trial after another from the results so far: TPE and SPSA, over factors with levels.

Own code: for levels that are listed, each is a page, and a library of optimisers would bring a database along. Both
are pure: the same results and seed give the same next trial, so a stopped search goes on where it was. Losses are
logarithms, to be made small. A trial in which the store failed has an infinite one, and one that tells nothing has
None.
"""

import math
from collections.abc import Sequence

import numpy as np

Trial = tuple[tuple[int, ...], float | None]

#: Of TPE: trials at random before the first that is reasoned, the share of trials that count as good, and the
#: candidates that are drawn for each.
_STARTUP = 8
_GOOD = 0.25
_CANDIDATES = 32

#: Of SPSA, in units of a factor's whole range: the first perturbation, the first step, and the share of iterations
#: over which steps stay about as long.
_PERTURBATION = 0.3
_STEP = 0.25
_STABILITY = 0.1
#: By how much a failed trial is worse, at least, than any that gave a figure (a logarithm).
_WORSE = 0.1


def tpe(levels: Sequence[int], trials: Sequence[Trial], seed: int) -> tuple[int, ...]:
    """Return the next trial by tree-structured Parzen estimators.

    Bergstra, Bardenet, Bengio and Kegl, "Algorithms for hyper-parameter optimization" (NIPS 2011), for independent
    factors with unordered levels: how often a level is among the good trials, over how often among the others, each
    with one count in advance. Combinations that were not tried come first.
    """
    random = np.random.default_rng([seed, len(trials)])
    tried = {row for row, _ in trials}
    known = sorted(((loss, row) for row, loss in trials if loss is not None), key=lambda pair: pair[0])
    if len(known) < _STARTUP:
        drawn = [tuple(int(random.integers(number)) for number in levels) for _ in range(_CANDIDATES)]
        return next((row for row in drawn if row not in tried), drawn[0])
    split = math.ceil(_GOOD * len(known))
    good, bad = (_shares(levels, [row for _, row in part]) for part in (known[:split], known[split:]))
    drawn = [tuple(int(random.choice(len(row), p=row)) for row in good) for _ in range(_CANDIDATES)]

    def promise(row: tuple[int, ...]) -> tuple[bool, float]:
        gain = sum(math.log(good[i][level] / bad[i][level]) for i, level in enumerate(row))
        return row not in tried, gain

    return max(drawn, key=promise)


def spsa(levels: Sequence[int], trials: Sequence[Trial], seed: int, most: int) -> tuple[int, ...]:
    """Return the next trial by simultaneous perturbation.

    `trials` are those after the default, `most` is how many of them there will be.
    Spall, "Implementation of the simultaneous perturbation algorithm for stochastic optimization" (IEEE Transactions
    on Aerospace and Electronic Systems 34, 1998), with gains a_k = a/(k+1+A)^0.602 and c_k = c/(k+1)^0.101, on levels
    that are taken as evenly spaced in their order. Two trials are one iteration; one that tells nothing moves nothing.
    An infinite loss counts as worse than the worst finite one by as much as these differ.
    """
    iterations = max(most // 2, 1)
    stability = _STABILITY * iterations
    # The default is level 0, which may be an end of the range: the search begins in the middle.
    point = np.full(len(levels), 0.5)
    gain: float | None = None
    for k in range(len(trials) // 2 + 1):
        signs = np.random.default_rng([seed, k]).choice([-1.0, 1.0], size=len(levels))
        size = _PERTURBATION / (k + 1) ** 0.101
        sides = [_nearest(levels, np.clip(point + sign * size * signs, 0, 1)) for sign in (1, -1)]
        if k == len(trials) // 2:
            return sides[len(trials) % 2]
        plus, minus = (loss for _, loss in trials[2 * k : 2 * k + 2])
        if plus is None or minus is None or (math.isinf(plus) and math.isinf(minus)):
            continue
        # By the trials until then, so that each iteration goes where it went at that time.
        finite = [loss for _, loss in trials[: 2 * k + 2] if loss is not None and math.isfinite(loss)]
        worst = 2 * max(finite) - min(finite) + _WORSE
        plus, minus = min(plus, worst), min(minus, worst)
        gradient = (plus - minus) / (2 * size) * signs
        slope = float(np.abs(gradient).mean())
        if gain is None and slope:
            gain = _STEP * (1 + stability) ** 0.602 / slope
        point = np.clip(point - (gain or 0.0) / (k + 1 + stability) ** 0.602 * gradient, 0, 1)
    raise AssertionError("the loop returns at the iteration that is under way")


def _shares(levels: Sequence[int], rows: Sequence[tuple[int, ...]]) -> list[np.ndarray]:
    """Return, for each factor, how often each of its levels comes up, with one count in advance."""
    shares = []
    for index, number in enumerate(levels):
        counts = np.bincount([row[index] for row in rows], minlength=number) + 1.0
        shares.append(counts / counts.sum())
    return shares


def _nearest(levels: Sequence[int], point: np.ndarray) -> tuple[int, ...]:
    return tuple(round(float(place) * (number - 1)) for place, number in zip(point, levels, strict=True))
