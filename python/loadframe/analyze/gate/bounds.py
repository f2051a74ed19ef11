"""Absolute bounds on new runs: held, broken, or not to be told, by an interval of the mean over runs; pure.

Response times and throughput are judged by the interval of their geometric mean, shares of requests by that of the mean
share, whose ends are one-sided 95 % limits. The whole interval has to be within the bound to hold it, and beyond it to
break it. A bound of 0 is about the very requests that were made, and so is one on the slowest response: these are
counted, and have no interval.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from loadframe.analyze.comparison import Measure
from loadframe.analyze.experiment import RecordedRun
from loadframe.analyze.gate.checks import BLIND, Check, Standing, quantity, runs_text
from loadframe.analyze.gate.thresholds import Bound
from loadframe.analyze.means import ONE_SIDED, geometric_mean, mean_share, proportion, requests_needed
from loadframe.analyze.rates import RATES
from loadframe.analyze.sessions import sessions_of

#: Why the slowest request decides nothing.
DELAYED = "a part of it may be the load generator's"


def against_bound(measure: Measure, treatment: Mapping[str, Any], runs: Sequence[RecordedRun], bound: Bound) -> Check:
    """Judge a bound by the runs that have measured it."""
    pairs = [(run, value) for run in runs if (value := measure.of(run)) is not None]
    if pairs:
        counted = measure.kind in ("max", "all-max") or (bound.kind == "errors" and bound.limit == 0)
        judge = _counted if counted else _estimated
        standing, why = judge(measure, [run for run, _ in pairs], [value for _, value in pairs], bound)
    else:
        standing, why = "undecided", "no run has measured it"
    limit = f"{'at least' if bound.kind in RATES else 'at most'} {quantity(bound.limit, measure)}"
    return Check(measure, treatment, standing, f"{why}, {limit}", bound=bound)


def _counted(
    measure: Measure, runs: Sequence[RecordedRun], values: Sequence[float], bound: Bound
) -> tuple[Standing, str]:
    """Judge what is about the very requests of these runs."""
    worst = "largest share" if measure.kind == "errors" else "slowest"
    why = f"{worst} of {runs_text(values)} {quantity(max(values), measure)}"
    if not bound.holds(max(values)):
        least = max(figure.low for run in runs if (figure := measure.figure(run)).counts)
        return ("undecided", f"{why}: {DELAYED}") if bound.holds(least) else ("regression", why)
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
        share = mean_share([measure.failures(run) for run in runs], sessions, ONE_SIDED)
    else:
        share = measure.stretch(runs).widened(geometric_mean(values, sessions))
    why = f"mean of {runs_text(values)} {quantity(share.value, measure)}"
    if not share.is_finite and not share.low > 0:
        return "undecided", f"{why}: a single run does not show how much runs scatter"
    why += f" [{quantity(share.low, measure)}, {quantity(share.high, measure)}]"
    ends = {bound.holds(share.low), bound.holds(share.high)}
    if ends == {False}:
        return "regression", why
    if ends == {True, False}:
        need = errors_needed([measure.failures(run) for run in runs], bound.limit) if measure.kind == "errors" else ""
        return "undecided", f"{why}: the interval contains the bound{need}"
    return ("undecided", f"{why}: {BLIND}") if measure.is_blind(runs) else ("passed", why)


def errors_needed(counts: Sequence[tuple[int, int]], limit: float) -> str:
    """Write how to decide whether fewer than `limit` of the requests fail; empty if more than that failed.

    `counts` has for each run how many requests failed, and of how many.
    """
    failed, due = (sum(column) for column in zip(*counts, strict=True))
    needed = requests_needed(failed / due, limit) if due else None
    if needed is None:
        return ""
    if proportion(failed, due, ONE_SIDED).high > limit:
        return f"; {due:,} requests were counted, and about {needed:,} are needed if as few fail"
    return "; the share differs between runs: make more runs"
