"""Searches for a known capacity with random outcomes of trials: input for capacity analyses without runs."""

import numpy as np

from loadframe.analyze.capacity.answers import Attempt, Search
from loadframe.analyze.capacity.criteria import ErrorCount, Judgement
from loadframe.analyze.capacity.search import Bounds, Next, Outcome, search

BOUNDS = Bounds(start=100, least=1, most=1e6)


def searched(truth, *, noise=0.0, cold=0, random=None, bounds=BOUNDS, block=1, treatment=None, seconds=None):
    """Search for `truth`, 1/s; each trial's own capacity scatters about it by `noise` on a log scale.

    The first `cold` trials sustain an eighth of it. With `seconds`, each trial offers a rate of Poisson arrivals during
    that time, and the store sees this rate.
    """
    random = random or np.random.default_rng(0)
    attempts = []
    while isinstance(step := search(bounds, [attempt.trial for attempt in attempts]), Next):
        sustained = truth / 8 if len(attempts) < cold else truth
        offered = random.poisson(step.rate * seconds) / seconds if seconds else None
        held = (offered or step.rate) <= sustained * np.exp(noise * random.standard_normal())
        outcome = Outcome.PASSED if held else Outcome.FAILED
        counts = (ErrorCount(None, 0, round(offered * seconds), 0.01),) if seconds else ()
        judgement = Judgement(outcome, () if held else (f"{step.rate:g}",), None, None, None, None, counts=counts)
        attempts.append(Attempt(f"t{len(attempts)}", step.rate, judgement, 0.0, offered, seconds or 0.0))
    return Search(block, treatment or {}, tuple(attempts), step)
