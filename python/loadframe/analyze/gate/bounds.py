"""Absolute bounds on new runs: held, broken, or not to be told, by an interval of the mean over runs; pure.

Response times and throughput: Student's t interval (95 %) of the mean of logarithms over runs, so of their geometric
mean. Where the runs are of several sessions, means of sessions are the units, since runs of one session are alike. The
whole interval has to be within the bound to hold it, and beyond it to break it.

Shares of requests: the t interval of the mean share over runs, widened to what counting allows (Clopper and Pearson,
"The use of confidence or fiducial limits illustrated in the case of the binomial", Biometrika 26, 1934, of all requests
together): without any failure in few requests, little is excluded. A bound of 0 is about the very requests that were
made, and so is one on the slowest response: these are counted, and have no interval.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import special

from loadframe.analyze.comparison import Measure
from loadframe.analyze.estimate import Estimate, mean_interval
from loadframe.analyze.experiment import RecordedRun
from loadframe.analyze.gate.checks import BLIND, Check, Standing, quantity, runs_text
from loadframe.analyze.gate.thresholds import Bound
from loadframe.analyze.sessions import sessions_of


def against_bound(measure: Measure, treatment: Mapping[str, Any], runs: Sequence[RecordedRun], bound: Bound) -> Check:
    """Judge a bound by the runs that have measured it."""
    pairs = [(run, value) for run in runs if (value := measure.of(run)) is not None]
    if pairs:
        counted = measure.kind in ("max", "all-max") or (bound.kind == "errors" and bound.limit == 0)
        judge = _counted if counted else _estimated
        standing, why = judge(measure, [run for run, _ in pairs], [value for _, value in pairs], bound)
    else:
        standing, why = "undecided", "no run has measured it"
    limit = f"{'at least' if bound.kind == 'throughput' else 'at most'} {quantity(bound.limit, measure)}"
    return Check(measure, treatment, standing, f"{why}, {limit}", bound=bound)


def _counted(
    measure: Measure, runs: Sequence[RecordedRun], values: Sequence[float], bound: Bound
) -> tuple[Standing, str]:
    """Judge what is about the very requests of these runs."""
    worst = "largest share" if measure.kind == "errors" else "slowest"
    why = f"{worst} of {runs_text(values)} {quantity(max(values), measure)}"
    if not bound.holds(max(values)):
        return "regression", why
    return ("undecided", f"{why}: {BLIND}") if measure.is_blind(runs) else ("passed", why)


def _estimated(
    measure: Measure, runs: Sequence[RecordedRun], values: Sequence[float], bound: Bound
) -> tuple[Standing, str]:
    """Judge what is about all runs that could be made, of which these are some."""
    if measure.kind != "errors" and min(values) <= 0:
        # Only throughput can be 0, and no bound that is worth giving allows it.
        return "regression", f"nothing succeeded in {sum(value <= 0 for value in values)} of {runs_text(values)}"
    sessions = sessions_of(runs)
    if measure.kind == "errors":
        share = mean_share([measure.failures(run) for run in runs], sessions)
    else:
        share = geometric_mean(values, sessions)
    why = f"mean of {runs_text(values)} {quantity(share.value, measure)}"
    if not share.is_finite:
        return "undecided", f"{why}: a single run does not show how much runs scatter"
    why += f" [{quantity(share.low, measure)}, {quantity(share.high, measure)}]"
    ends = {bound.holds(share.low), bound.holds(share.high)}
    if ends == {False}:
        return "regression", why
    if ends == {True, False}:
        return "undecided", f"{why}: the interval contains the bound"
    return ("undecided", f"{why}: {BLIND}") if measure.is_blind(runs) else ("passed", why)


def geometric_mean(values: Sequence[float], sessions: Sequence[int | None]) -> Estimate:
    """Return the geometric mean with its 95 % interval; unbounded for one unit. Values are above 0."""
    mean = _mean(np.log(values).tolist(), sessions)
    return Estimate(math.exp(mean.value), math.exp(mean.low), math.exp(mean.high) if mean.is_finite else math.inf)


def mean_share(counts: Sequence[tuple[int, int]], sessions: Sequence[int | None]) -> Estimate:
    """Return the mean share of failures over runs with its interval; each run has its failures and its requests."""
    failed, due = (sum(column) for column in zip(*counts, strict=True))
    low = float(special.betaincinv(failed, due - failed + 1, 0.025)) if failed else 0.0
    high = float(special.betaincinv(failed + 1, due - failed, 0.975)) if failed < due else 1.0
    mean = _mean([count / of if of else 0.0 for count, of in counts], sessions)
    if not mean.is_finite:
        return Estimate(mean.value, -math.inf, math.inf)
    return Estimate(mean.value, max(0.0, min(low, mean.low)), min(1.0, max(high, mean.high)))


def _mean(values: Sequence[float], sessions: Sequence[int | None]) -> Estimate:
    """Return the mean of the runs, or where there are several sessions of their means, with Student's interval."""
    units = list(values)
    if len(set(sessions)) > 1:
        groups = defaultdict(list)
        for value, session in zip(values, sessions, strict=True):
            groups[session].append(value)
        units = [float(np.mean(group)) for group in groups.values()]
    return mean_interval(units)
