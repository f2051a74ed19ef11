"""Failures of the store in the new runs: one that fails more often than before, or loses documents, fails the gate.

Runs that are missing because the generator failed, or for an unknown reason, do not count. Runs that the store
did not survive, and runs in which nothing succeeded, are results.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from loadframe.analyze.comparison import Group, Measure
from loadframe.analyze.comparison.doubts import runs_by_reason
from loadframe.analyze.comparison.measures import measures_of
from loadframe.analyze.experiment import RecordedRun
from loadframe.analyze.failures import chance_of_more
from loadframe.analyze.gate.checks import Check, Standing

#: More failed runs than the baseline has, by chance alone with this probability at most.
_LEVEL = 0.05


def failed_runs(new: Group, baseline: Group | None, treatment: Mapping[str, Any]) -> list[Check]:
    """Return a check of lost documents and one of other failures of the store, or of whether any run is left.

    None where all is well. The groups have the runs of one treatment.
    """
    checks = []
    if any(_lost_documents(run) for run in new.runs):
        title = "acknowledged documents"
        standing, why = _failed(new, baseline, _lost_documents, "acknowledged documents are missing in")
        # A store promises to keep what it acknowledged: one broken promise is too many.
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
        runs = f"{len(new.runs)} run{'s' * (len(new.runs) != 1)}"
        why = f"none of {runs} can be used, for reasons that are not the store's"
        return [Check(measure, treatment, "undecided", why, title=title)]
    return []


def _lost_documents(run: RecordedRun) -> bool:
    return any(failure.kind == "documents" for failure in run.failures)


def _otherwise_failed(run: RecordedRun) -> bool:
    return any(failure.of_run and failure.kind not in ("documents", "success") for failure in run.failures)


def _failed(
    new: Group, baseline: Group | None, fails: Callable[[RecordedRun], bool], what: str
) -> tuple[Standing, str]:
    """Return the standing of the runs that fail, and the words with each of them and its reason."""
    counts = [_counted(side, fails) for side in (new, baseline) if side]
    (failed, total), (before, total_before) = [*counts, (0, 0)][:2]
    why = f"{what} {failed} of {total} runs" + (f", before in {before} of {total_before}" if baseline else "")
    listed = runs_by_reason(run for run in new.runs if fails(run))
    return _standing(failed, total, before, total_before), f"{why}; {listed}"


def _counted(group: Group, fails: Callable[[RecordedRun], bool]) -> tuple[int, int]:
    """Return how many runs fail, and how many could have: what the generator or the treatment spoilt says nothing."""
    failed = [run for run in group.runs if fails(run)]
    return len(failed), len(failed) + sum(not fails(run) for run in group.usable)


def without_figure(new: Group, baseline: Group, treatment: Mapping[str, Any], kinds: Sequence[str]) -> list[Check]:
    """Return a check for each measure that the baseline's runs have, and some of the new ones lack.

    The new ones that are meant here are sound: what they lack, the store did not give.
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
    """Return the standing of failed runs: by Fisher's exact test, or where more than half of the runs failed."""
    if 2 * failed > total and (not total_before or 2 * before <= total_before):
        return "regression"
    if total_before and chance_of_more(failed, total, before, total_before) < _LEVEL:
        return "regression"
    return "undecided"
