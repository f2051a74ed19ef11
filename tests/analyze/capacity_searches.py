"""Searches for a known capacity with random outcomes of trials: input for capacity analyses without runs."""

import numpy as np

from loadframe.analyze.capacity.answers import Attempt, Search
from loadframe.analyze.capacity.criteria import Judgement
from loadframe.analyze.capacity.search import Bounds, Next, Outcome, Trial, search

BOUNDS = Bounds(start=100, least=1, most=1e6)


def searched(truth, *, noise=0.0, cold=0, random=None, bounds=BOUNDS, block=1, treatment=None):
    """Search for `truth`, 1/s; each trial's own capacity scatters about it by `noise` on a log scale.

    The first `cold` trials sustain an eighth of it.
    """
    random = random or np.random.default_rng(0)
    attempts = []
    while isinstance(
        step := search(bounds, [Trial(attempt.rate, attempt.judgement.outcome) for attempt in attempts]), Next
    ):
        sustained = truth / 8 if len(attempts) < cold else truth
        held = step.rate <= sustained * np.exp(noise * random.standard_normal())
        outcome = Outcome.PASSED if held else Outcome.FAILED
        judgement = Judgement(outcome, () if held else (f"{step.rate:g}",), None, None, None, None)
        attempts.append(Attempt(f"t{len(attempts)}", step.rate, judgement))
    return Search(block, treatment or {}, tuple(attempts), step)
