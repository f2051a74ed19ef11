"""Whether more requests failed than before: by the shares of runs, and by counting; pure.

Two ways in which a rise can be chance have to be excluded. Runs differ in their shares: the difference of the mean
shares is tested like any other difference between runs, with their blocks and sessions. And failures are counted: given
how many there were in all, those of the new runs are binomial if nothing changed (the conditional test of Przyborowski
and Wilenski, "Homogeneity of results in testing samples from Poisson series", Biometrika 31, 1940). The larger of the
two p values counts. Neither needs a share that is above 0.
"""

import math

from scipy import special

from loadframe.analyze.comparison import Group, Measure
from loadframe.analyze.comparison.estimate_ratio import Observation, estimate_ratio
from loadframe.analyze.gate.checks import one_sided_p
from loadframe.analyze.sessions import block_of, sessions_of


def more_errors(measure: Measure, baseline: Group, new: Group) -> float:
    """Return the one-sided p of "no larger a share of the requests failed"; 1 where a side has no request."""
    runs = [(side, run) for side, group in enumerate((baseline, new)) for run in group.usable]
    sessions = sessions_of([run for _, run in runs], [side for side, _ in runs])
    observations = []
    failed, due = [0, 0], [0, 0]
    for (side, run), session in zip(runs, sessions, strict=True):
        failures, requests = measure.failures(run)
        if requests:
            failed[side] += failures
            due[side] += requests
            # The model is one of logarithms: with exp() the share itself is what it compares.
            observations.append(Observation(math.exp(failures / requests), side, block_of(run), session))
    if not all(due):
        return 1.0
    between_runs = one_sided_p(estimate_ratio(observations, 0, 1), measure)
    counted = float(special.betainc(failed[1], failed[0] + 1, due[1] / sum(due))) if failed[1] else 1.0
    return max(between_runs, counted)
