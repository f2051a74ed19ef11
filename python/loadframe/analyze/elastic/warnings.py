"""Rules for weak conclusions of an elastic experiment. `description` is the content of experiment.json."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from loadframe.analyze.compare.warnings import runs_by_reason
from loadframe.analyze.elastic.repeated import Repeated, StepMeasures
from loadframe.analyze.estimate import Estimate
from loadframe.analyze.experiment import RecordedRun
from loadframe.analyze.finding import Finding, Rule
from loadframe.base.units import format_duration

#: Relative difference that equal clusters under the same load stay below.
_UNLIKE = 0.15


def _drifting_control(growth: Estimate) -> str:
    """Return the cause: without the change, throughput became `growth` times its earlier level."""
    interval = f" [{growth.low:.2f}, {growth.high:.2f}]" if growth.is_finite else ""
    return (
        f"in the control runs, without the change, throughput became {growth.value:.2f}{interval} times its earlier"
        " level: growth, realised gain and throughput deficit include this drift"
    )


def _short_run(window: float, short: int, runs: int) -> str:
    """Return the cause: in `short` of `runs` runs the windows for the levels are too short; `window` in s."""
    which = f"{short} of {runs} runs" if runs > 1 else "the run"
    return (
        f"levels before and after the change need a window of {format_duration(window)} before it and two after it, and"
        f" {which} had less: measures that rely on these levels"
        f" {'are missing' if short == runs else 'come from the other runs only'}"
    )


NO_CONTROL = Rule(
    "no_control",
    "with no control run, noise and drift count as effects of the change",
    "remove control: false from the file",
)
ONE_RUN = Rule(
    "one_run",
    "there is one run with the change, so its run-to-run variance is unknown",
    "set repetitions: 3",
)
UNLIKE_CONTROL = Rule(
    "unlike_control",
    "before the change throughput differed by {change:change} from the control runs: something else changed it",
    "stop other programs on this machine, warm the store up for longer, and repeat: differences include both effects",
)
DRIFTING_CONTROL = Rule(
    "drifting_control",
    _drifting_control,
    "warm the store up for longer (prepare, warmup), and start all clients before the change",
)
SHORT_RUN = Rule("short_run", _short_run, "lengthen the run, start the change later, or choose a shorter window")
NOT_SETTLED = Rule(
    "not_settled",
    "in {runs:counted run} throughput and p99 were not steady for the last two windows: throughput and p99 after, and"
    " measures that rely on them, describe a cluster that is still changing",
    "lengthen the run",
)
UNKNOWN_LATENCY = Rule(
    "unknown_latency",
    "in {runs:counted run} up to {seconds:duration} passed without an answer, and the record does not show how long"
    " requests waited: slowdown and excess latency are lower bounds",
    "repeat the runs with this version of loadframe, which records unanswered requests for each second",
)
NO_CAPACITY = Rule(
    "no_capacity",
    "the policy cannot be scored: without a capacity curve and an open load, the required number of nodes is unknown",
    "measure the capacity of each number of nodes, set capacity: [{{nodes: 1, rate: 500/s}}, ...], and use a rate",
)
FAILED_CHANGES = Rule(
    "failed_changes",
    "in {failed} of {runs:counted run} the change ({change}) failed ({listed}): its times are lower bounds, and growth"
    " and gain come from the other runs",
    "look for the cause in the events of these runs and in the nodes' logs",
)
STORE_FAILED = Rule(
    "store_failed",
    "the store failed: {listed}",
    "see the nodes' logs; figures of these runs, if any, describe a store that had failed",
)


def failed_runs(broken: Sequence[RecordedRun], steps: Sequence[StepMeasures]) -> Iterator[Finding]:
    """Yield a finding for the runs in which the store failed (`broken`), and one for each step with failed changes."""
    if broken:
        yield STORE_FAILED(listed=runs_by_reason(broken))
    for step in steps:
        if step.failed:
            yield FAILED_CHANGES(
                change=step.change or "not described",
                failed=len(step.failed),
                listed=", ".join(step.failed),
                runs=step.measures["errors"].runs,
            )


def drifted(measures: Mapping[str, Repeated]) -> Estimate | None:
    """Return the growth of throughput in the control runs, as a ratio; None if it changed by at most 15 %.

    None also if its interval is finite and contains 1. A single control run has no finite interval, and its figure
    counts. None without control runs.
    """
    drift = measures["growth"].drift if "growth" in measures else None
    if drift is None or abs(drift.value - 1) <= _UNLIKE or drift.low <= 1 <= drift.high < math.inf:
        return None
    return drift


def by_chance(measures: Mapping[str, Repeated]) -> Estimate | None:
    """Return the difference in growth between event and control if it may be chance: its interval contains 0.

    None if the interval excludes 0 or is unbounded, or without a control run.
    """
    more = measures["growth"].difference if "growth" in measures else None
    return more if more is not None and more.is_finite and more.low <= 0 <= more.high else None


def warnings(
    description: Mapping[str, Any],
    runs: int,
    controls: int,
    steps: Sequence[Mapping[str, Repeated]],
    *,
    policy: bool,
) -> Iterator[Finding]:
    """Yield findings about a transition under a load; `runs` and `controls` are numbers of usable runs.

    They concern missing control runs and a single run. `steps` have the measures of each step. `policy`: whether a
    policy decided about the changes; then a missing capacity has a finding, and measures have none. Nothing without
    `runs`.
    """
    if not runs:
        return
    if not controls:
        yield NO_CONTROL()
    if runs == 1:
        yield ONE_RUN()
    if policy:
        if not description.get("capacity"):
            yield NO_CAPACITY()
        return
    yield from _about_measures(float(description["window"]), steps)


def _about_measures(window: float, steps: Sequence[Mapping[str, Repeated]]) -> Iterator[Finding]:
    """Yield findings about short runs, unknown latency, unlike or drifting control runs, and unsettled runs."""
    for measures in steps:
        whole, total = len(measures["x1"].values) if "x1" in measures else 0, measures["errors"].runs
        if whole < total:
            yield SHORT_RUN(window=window, short=total - whole, runs=total)
    if unknown := [step["unknown_latency"].values.values() for step in steps if "unknown_latency" in step]:
        yield UNKNOWN_LATENCY(
            seconds=max(value.value for values in unknown for value in values),
            runs=max(sum(value.value > 0 for value in values) for values in unknown),
        )
    before = steps[0].get("x0") if steps else None
    if before and before.difference:
        change = before.difference.value / (before.mean.value - before.difference.value)
        if abs(change) > _UNLIKE:
            yield UNLIKE_CONTROL(change=change)
    for step in steps:
        if drift := drifted(step):
            yield DRIFTING_CONTROL(growth=drift)
    if unsettled := max((step["stabilisation"].censored for step in steps if "stabilisation" in step), default=0):
        yield NOT_SETTLED(runs=unsettled)
