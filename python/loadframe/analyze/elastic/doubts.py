"""What makes an elastic experiment say less than it seems to."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loadframe.analyze.compare.doubts import runs_by_reason
from loadframe.analyze.elastic.repeated import Repeated, StepMeasures
from loadframe.analyze.estimate import Estimate
from loadframe.analyze.experiment import RecordedRun
from loadframe.analyze.finding import Finding
from loadframe.base.units import format_change, format_duration

#: Equal clusters under the same load differ less as long as nothing is done to them.
_UNLIKE = 0.15


@dataclass(frozen=True)
class NoControl(Finding):
    """Nothing was run without the event."""

    def _cause(self) -> str:
        return "there is no control run, so noise and drift are attributed to the change"

    def _remedy(self) -> str:
        return "leave control: false out"


@dataclass(frozen=True)
class OneRun(Finding):
    """Nothing was repeated."""

    def _cause(self) -> str:
        return "there is one run with the event, so nothing says how much its figures scatter"

    def _remedy(self) -> str:
        return "say repetitions: 3"


@dataclass(frozen=True)
class UnlikeControl(Finding):
    """With the event and without, the cluster was another one before anything happened."""

    change: float

    def _cause(self) -> str:
        return (
            f"before the change throughput was {format_change(self.change)} against the control runs: something else"
            " changed it"
        )

    def _remedy(self) -> str:
        return "stop what else runs on this machine, warm the store for longer, and repeat: differences are of both"


@dataclass(frozen=True)
class DriftingControl(Finding):
    """Throughput changed where nothing was done to the cluster."""

    growth: Estimate

    def _cause(self) -> str:
        scatter = f" [{self.growth.low:.2f}, {self.growth.high:.2f}]" if self.growth.is_finite else ""
        return (
            f"in the control runs, without the change, throughput became {self.growth.value:.2f}{scatter} times what it"
            " was before:"
            " growth, realised gain and lost work are those of drift as well"
        )

    def _remedy(self) -> str:
        return "warm the store for longer (prepare, warmup), and have all clients there before the change"


@dataclass(frozen=True)
class ShortRun(Finding):
    """The run had too little time around the change."""

    window: float
    short: int
    runs: int

    def _cause(self) -> str:
        which = f"{self.short} of {self.runs} runs" if self.runs > 1 else "the run"
        return (
            f"levels before and after the change need a window of {format_duration(self.window)} before it and two"
            f" after it, and {which} had less: measures that rest on them are"
            f" {'missing' if self.short == self.runs else 'of the others alone'}"
        )

    def _remedy(self) -> str:
        return "lengthen the run, let the change begin later, or take a shorter window"


@dataclass(frozen=True)
class NotSettled(Finding):
    """The run ended before things had settled."""

    runs: int

    def _cause(self) -> str:
        return (
            f"in {self.runs} run{'s' * (self.runs != 1)} throughput and p99 had not held one level for two windows when"
            " the run was over, so x1 and what rests on it are of a cluster on its way"
        )

    def _remedy(self) -> str:
        return "lengthen the run"


@dataclass(frozen=True)
class UnknownLatency(Finding):
    """In some seconds no request was answered, and it was not recorded how long requests waited."""

    seconds: float
    runs: int

    def _cause(self) -> str:
        runs = f"{self.runs} run{'s' * (self.runs != 1)}"
        return (
            f"in {runs} up to {format_duration(self.seconds)} passed without an answer, of which the record does not"
            " say how long users waited: slowdown, latency debt and Dory's score are at least what they say"
        )

    def _remedy(self) -> str:
        return "repeat the runs with this version of loadframe, which records what is unanswered second by second"


@dataclass(frozen=True)
class NoCapacity(Finding):
    """A policy could not be scored."""

    def _cause(self) -> str:
        return "no capacity curve is given, or the load is closed, so nothing says how many nodes were needed"

    def _remedy(self) -> str:
        return "measure the capacity of each number of nodes, say capacity: [{nodes: 1, rate: 500/s}, ...], take a rate"


@dataclass(frozen=True)
class FailedChanges(Finding):
    """A change was not made in some runs, so that what it brings is known of the others alone."""

    change: str
    failed: tuple[str, ...]
    runs: int

    def _cause(self) -> str:
        return (
            f"in {len(self.failed)} of {self.runs} runs the change ({self.change or 'no words for it'}) was not made"
            f" ({', '.join(self.failed)}): its times are at least what they say, and growth and gain are those of the"
            " other runs"
        )

    def _remedy(self) -> str:
        return "see why it failed in the events of these runs and in the nodes' logs"


@dataclass(frozen=True)
class FailedRuns(Finding):
    """The store failed as a whole in some runs."""

    listed: str

    def _cause(self) -> str:
        return f"the store failed as a whole: {self.listed}"

    def _remedy(self) -> str:
        return "see the nodes' logs; figures of these runs, if any, are those of a store that had failed"


def failed_runs(broken: Sequence[RecordedRun], steps: Sequence[StepMeasures]) -> Iterator[Finding]:
    """Yield findings for runs in which the store failed, and for changes that were not made."""
    if broken:
        yield FailedRuns(runs_by_reason(broken))
    for step in steps:
        if step.failed:
            yield FailedChanges(step.change, step.failed, step.measures["errors"].runs)


def drifted(measures: Mapping[str, Repeated]) -> Estimate | None:
    """Return what throughput grew to by itself, without the change, where that is more than equal clusters differ.

    Where control runs were repeated it must also stand out from how they scatter; of a single one nothing is known of
    that, and its figure counts.
    """
    drift = measures["growth"].drift if "growth" in measures else None
    if drift is None or abs(drift.value - 1) <= _UNLIKE or drift.low <= 1 <= drift.high < math.inf:
        return None
    return drift


def by_chance(measures: Mapping[str, Repeated]) -> Estimate | None:
    """Return by how much more throughput grew with the change than without it, where that may be none at all."""
    more = measures["growth"].difference if "growth" in measures else None
    return more if more is not None and more.is_finite and more.low <= 0 <= more.high else None


def doubts(
    description: Mapping[str, Any],
    runs: int,
    controls: int,
    steps: Sequence[Mapping[str, Repeated]],
    *,
    policy: bool,
) -> tuple[Finding, ...]:
    """Return what is to be doubted about a transition under a load."""
    return tuple(_doubts(description, runs, controls, steps, policy=policy))


def _doubts(
    description: Mapping[str, Any],
    runs: int,
    controls: int,
    steps: Sequence[Mapping[str, Repeated]],
    *,
    policy: bool,
) -> Iterator[Finding]:
    if not runs:
        return
    if not controls:
        yield NoControl()
    if runs == 1:
        yield OneRun()
    if policy and not description.get("capacity"):
        yield NoCapacity()
    if policy:
        return
    for measures in steps:
        whole = len(measures["x1"].values) if "x1" in measures else 0
        if whole < measures["errors"].runs:
            yield ShortRun(float(description["window"]), measures["errors"].runs - whole, measures["errors"].runs)
    yield from _silences(steps)
    before = steps[0].get("x0") if steps else None
    if before and before.difference:
        change = before.difference.value / (before.mean.value - before.difference.value)
        if abs(change) > _UNLIKE:
            yield UnlikeControl(change)
    for step in steps:
        if drift := drifted(step):
            yield DriftingControl(drift)
    unsettled = max((step["stabilisation"].censored for step in steps if "stabilisation" in step), default=0)
    if unsettled:
        yield NotSettled(unsettled)


def _silences(steps: Sequence[Mapping[str, Repeated]]) -> Iterator[Finding]:
    unknown = [step["unknown_latency"].values.values() for step in steps if "unknown_latency" in step]
    if unknown:
        longest = max(value.value for values in unknown for value in values)
        yield UnknownLatency(longest, max(sum(value.value > 0 for value in values) for values in unknown))
