"""What is missing of the new runs, and what that means: a store that failed has failed the gate.

Runs that are missing because the generator failed, or for an unknown reason, do not count. Runs that the store
did not survive, and runs in which nothing succeeded, are results.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from loadframe.analyze.comparison import Group, Measure
from loadframe.analyze.comparison.measures import measures_of
from loadframe.analyze.gate.checks import Check, Standing

#: More failed runs than the baseline has, by chance alone with this probability at most.
_LEVEL = 0.05


def failed_runs(new: Group, baseline: Group | None, treatment: Mapping[str, Any]) -> list[Check]:
    """Return a check of whether the store survived its runs, or whether any run is left; none where all is well.

    The groups have the runs of one treatment.
    """
    measure = Measure("all phases", "survived runs")
    failed = [run for run in new.runs if run.fault == "store"]
    title = "runs that the store survived"
    if failed:
        total = len(failed) + len(new.usable)
        before = sum(run.fault == "store" for run in baseline.runs) if baseline else 0
        total_before = before + len(baseline.usable) if baseline else 0
        why = f"the store failed in {len(failed)} of {total} runs"
        if baseline:
            why += f", before in {before} of {total_before}"
        cause = str(failed[0].failure or "; ".join(reason.cause for reason in failed[0].reasons)).splitlines()[0]
        standing = _standing(len(failed), total, before, total_before)
        why += f"; {failed[0].id}: {cause}"
        return [Check(measure, treatment, standing, why, title=title)]
    if not new.usable:
        runs = f"{len(new.runs)} run{'s' * (len(new.runs) != 1)}"
        why = f"none of {runs} can be used, for reasons that are not the store's"
        return [Check(measure, treatment, "undecided", why, title=title)]
    return []


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
    if total_before:
        runs, failures = total + total_before, failed + before
        ways = [math.comb(failures, k) * math.comb(runs - failures, total - k) for k in range(failed, total + 1)]
        if sum(ways) / math.comb(runs, total) < _LEVEL:
            return "regression"
    return "undecided"
