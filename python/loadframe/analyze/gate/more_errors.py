"""Whether more requests failed than before: by the shares of runs, and by counting; pure.

A share that was 0 has no ratio that means anything, so its rise is judged, in percentage points.

Two ways in which a rise can be chance have to be excluded. Runs differ in their shares: the difference of the mean
shares is tested like any other difference between runs, with their blocks and sessions. And failures are counted: given
how many there were in all, those of the new runs are binomial if nothing changed (the conditional test of Przyborowski
and Wilenski, "Homogeneity of results in testing samples from Poisson series", Biometrika 31, 1940). The larger of the
two p values counts. Neither needs a share that is above 0.

The upper limit of the rise follows from the one-sided 95 % limits of both mean shares (Zou and Donner, "Construction of
confidence limits about effect measures", Statistics in Medicine 27, 2008).
"""

import math
from statistics import fmean

from scipy import special

from loadframe.analyze.comparison import Contrast, Group, Measure
from loadframe.analyze.comparison.estimate_ratio import Observation, estimate_ratio
from loadframe.analyze.gate.bounds import errors_needed
from loadframe.analyze.gate.checks import Check, Question, Standing, one_sided_p
from loadframe.analyze.means import ONE_SIDED, mean_share
from loadframe.analyze.sessions import block_of, sessions_of
from loadframe.units import format_share


def errors_against_baseline(contrast: Contrast, question: Question, baseline: Group, new: Group) -> Check:
    """Judge the rise of a share of requests.

    It is a regression if it is significant and at least the least effect. It passes if it is below that and its upper
    limit below the rise that must be caught.
    """
    rise = fmean(contrast.second) - fmean(contrast.first)
    shares = " and now ".join(format_share(fmean(values), 2) for values in (contrast.first, contrast.second))
    why = f"{shares} of the requests failed, p = {question.p:.2g}"
    high = _greatest_rise(question.measure, baseline, new)
    if rise >= question.least:
        standing: Standing = "regression" if question.is_significant else "undecided"
        beyond = f"beyond {format_share(question.least, 2)}" if question.is_significant else "which may be chance"
        why += f": {format_share(rise, 2)} more, {beyond}"
    elif math.isinf(high):
        standing, why = "undecided", f"{why}: a single run does not show how much runs scatter"
    elif high >= question.catch:
        need = errors_needed([question.measure.failures(run) for run in new.usable], question.catch)
        caught = format_share(question.catch, 2)
        standing, why = "undecided", f"{why}: up to {format_share(high, 2)} more are possible, beyond {caught}{need}"
    else:
        standing = "passed"
    return Check(contrast.measure, contrast.treatment, standing, why, contrast=contrast, p=question.p)


def _greatest_rise(measure: Measure, baseline: Group, new: Group) -> float:
    """Return the upper one-sided 95 % limit of the rise; infinite for a single new run."""
    before, now = (
        mean_share([measure.failures(run) for run in group.usable], sessions_of(group.usable), ONE_SIDED)
        for group in (baseline, new)
    )
    # A single earlier run has no limit, but no share is below 0.
    fall = before.value - max(before.low, 0.0)
    return now.value - before.value + math.hypot(now.high - now.value, fall)


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
