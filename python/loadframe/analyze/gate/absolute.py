"""Absolute checks of a gate: bounds on new runs, and failures of the store.

Response times and throughput are judged by the interval of their geometric mean, shares of requests by the one-sided 95
% limits of the mean share. A bound holds if the whole interval is within it, and is broken if the whole interval is
beyond it. A bound of 0, and a bound on the slowest response, concern the actual requests of the runs; these are
counted, without an interval.

Runs that are missing because of the generator or an unknown cause do not count. Runs in which the store failed, and
runs without any success, are results.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from loadframe.analyze.compare import Group, Measure
from loadframe.analyze.compare.measures import measures_of
from loadframe.analyze.compare.warnings import runs_by_reason
from loadframe.analyze.estimate import ONE_SIDED, geometric_mean, mean_share, proportion, requests_needed
from loadframe.analyze.experiment import RecordedRun
from loadframe.analyze.failures import chance_of_more
from loadframe.analyze.gate.checks import BLIND, Bound, Check, Standing, quantity, runs_text
from loadframe.analyze.rates import RATES
from loadframe.analyze.sessions import sessions_of
from loadframe.base.units import counted

#: Why the slowest request is undecided.
DELAYED = "a part of it may be the load generator's"


def against_bound(measure: Measure, treatment: Mapping[str, Any], runs: Sequence[RecordedRun], bound: Bound) -> Check:
    """Judge a bound by the runs that measured it."""
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
    """Judge a bound by the actual requests of these runs."""
    worst = "largest share" if measure.kind == "errors" else "slowest"
    why = f"{worst} of {runs_text(values)} {quantity(max(values), measure)}"
    if not bound.holds(max(values)):
        least = max(figure.low for run in runs if (figure := measure.figure(run)).counts)
        return ("undecided", f"{why}: {DELAYED}") if bound.holds(least) else ("regression", why)
    return ("undecided", f"{why}: {BLIND}") if measure.is_blind(runs) else ("passed", why)


def _estimated(
    measure: Measure, runs: Sequence[RecordedRun], values: Sequence[float], bound: Bound
) -> tuple[Standing, str]:
    """Judge a bound by the interval of the mean, for which these runs are a sample."""
    if measure.kind != "errors" and min(values) <= 0:
        # Only throughput can be 0, which breaks any sensible bound.
        return "regression", f"nothing succeeded in {sum(value <= 0 for value in values)} of {runs_text(values)}"
    sessions = sessions_of(runs)
    if measure.kind == "errors":
        share = mean_share([measure.failures(run) for run in runs], sessions, ONE_SIDED)
    else:
        share = measure.stretch(runs).widened(geometric_mean(values, sessions))
    why = f"mean of {runs_text(values)} {quantity(share.value, measure)}"
    if not share.is_finite and not share.low > 0:
        return "undecided", f"{why}: a single run does not show the run-to-run variance"
    why += f" [{quantity(share.low, measure)}, {quantity(share.high, measure)}]"
    ends = {bound.holds(share.low), bound.holds(share.high)}
    if ends == {False}:
        return "regression", why
    if ends == {True, False}:
        need = errors_needed([measure.failures(run) for run in runs], bound.limit) if measure.kind == "errors" else ""
        return "undecided", f"{why}: the interval contains the bound{need}"
    return ("undecided", f"{why}: {BLIND}") if measure.is_blind(runs) else ("passed", why)


def errors_needed(counts: Sequence[tuple[int, int]], limit: float) -> str:
    """Return in words how many requests would show that fewer than `limit` fail; empty if more than that failed.

    `counts` has the failed and all requests of each run.
    """
    failed, due = (sum(column) for column in zip(*counts, strict=True))
    needed = requests_needed(failed / due, limit) if due else None
    if needed is None:
        return ""
    if proportion(failed, due, ONE_SIDED).high > limit:
        return f"; {due:,} requests were counted, and about {needed:,} are needed if as few fail"
    return "; the share differs between runs: make more runs"


#: Significance level for more failed runs than in the baseline.
_LEVEL = 0.05


def failed_runs(new: Group, baseline: Group | None, treatment: Mapping[str, Any]) -> list[Check]:
    """Return a check of lost documents and one of other store failures, or one of whether any run is usable.

    Empty if no check finds anything. Both groups must have the runs of one treatment.
    """
    checks = []
    if any(_lost_documents(run) for run in new.runs):
        title = "acknowledged documents"
        standing, why = _failed(new, baseline, _lost_documents, "acknowledged documents are missing in")
        # Stores guarantee acknowledged documents, so a single lost one is a regression.
        if baseline is None or not any(_lost_documents(run) for run in baseline.runs):
            standing = "regression"
        checks.append(Check(Measure("all phases", "lost documents"), treatment, standing, why, title=title))
    measure, title = Measure("all phases", "survived runs"), "runs that the store survived"
    if any(_otherwise_failed(run) for run in new.runs):
        standing, why = _failed(new, baseline, _otherwise_failed, "the store failed in")
        checks.append(Check(measure, treatment, standing, why, title=title))
    if checks:
        return checks
    if not new.usable:
        runs = counted(len(new.runs), "run")
        why = f"none of {runs} is valid, for reasons other than the store"
        return [Check(measure, treatment, "undecided", why, title=title)]
    return []


def _lost_documents(run: RecordedRun) -> bool:
    return any(failure.kind == "documents" for failure in run.failures)


def _otherwise_failed(run: RecordedRun) -> bool:
    return any(failure.of_run and failure.kind not in ("documents", "success") for failure in run.failures)


def _failed(
    new: Group, baseline: Group | None, fails: Callable[[RecordedRun], bool], what: str
) -> tuple[Standing, str]:
    """Return the standing of the failed runs, and the text that lists them with their reasons."""
    counts = [_failure_counts(side, fails) for side in (new, baseline) if side]
    (failed, total), (before, total_before) = [*counts, (0, 0)][:2]
    why = f"{what} {failed} of {total} runs" + (f", before in {before} of {total_before}" if baseline else "")
    listed = runs_by_reason(run for run in new.runs if fails(run))
    return _standing(failed, total, before, total_before), f"{why}; {listed}"


def _failure_counts(group: Group, fails: Callable[[RecordedRun], bool]) -> tuple[int, int]:
    """Return the number of failed runs, and of these plus the usable runs."""
    failed = [run for run in group.runs if fails(run)]
    return len(failed), len(failed) + sum(not fails(run) for run in group.usable)


def without_figure(new: Group, baseline: Group, treatment: Mapping[str, Any], kinds: Sequence[str]) -> list[Check]:
    """Return a check for each measure that the baseline's runs have and some of the usable new runs lack.

    The new runs are valid, so the store is to blame for the missing figures.
    """
    checks = []
    for measure in measures_of(baseline.usable, kinds):
        if measure.kind == "errors" or not new.usable:
            continue
        before = [bool(measure.of(run)) for run in baseline.usable]
        now = [bool(measure.of(run)) for run in new.usable]
        if all(now) or not any(before) or (measure.kind.startswith("all-") and not any(now)):
            continue
        missing = len(now) - sum(now)
        why = (
            f"nothing succeeded in {missing} of {len(now)} runs, before in {len(before) - sum(before)} of {len(before)}"
        )
        standing = _standing(missing, len(now), len(before) - sum(before), len(before))
        checks.append(Check(measure, treatment, standing, why, title=f"{measure.name}: whether there is any"))
    return checks


def _standing(failed: int, total: int, before: int, total_before: int) -> Standing:
    """Return the standing of failed runs, by Fisher's exact test; more than half is also a regression."""
    if 2 * failed > total and (not total_before or 2 * before <= total_before):
        return "regression"
    if total_before and chance_of_more(failed, total, before, total_before) < _LEVEL:
        return "regression"
    return "undecided"
