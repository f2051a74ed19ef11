"""Names and units of elastic measures, and their means over repetitions."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from loadframe.analyze.elastic.measures import Value
from loadframe.analyze.estimate import Estimate, mean_interval


@dataclass(frozen=True)
class Repeated:
    """One measure's values by block, of runs with the event and of their control runs.

    `runs` is the number of runs with the event, `mean` their mean. If some values are censored, it is a lower bound
    with an interval open above. `difference` is the mean difference between event and control over the blocks that have
    both. The bounds of values widen all intervals.
    """

    name: str
    runs: int
    values: Mapping[int, Value]
    control: Mapping[int, Value]
    mean: Estimate
    difference: Estimate | None

    @property
    def conditional(self) -> Estimate | None:
        """The mean of the uncensored runs; None if no run is censored, or all are."""
        known = [value for value in self.values.values() if not value.censored]
        return _mean(known) if known and self.censored else None

    @property
    def censored(self) -> int:
        """The number of censored runs."""
        return sum(value.censored for value in self.values.values())

    @property
    def compared(self) -> int:
        """The number of runs with the event that have a value and a control run with one."""
        return len(self.values.keys() & self.control.keys())

    @property
    def drift(self) -> Estimate | None:
        """The mean in the control runs, the effect of time alone, or None without control runs."""
        return _mean(list(self.control.values())) if self.control else None

    def as_dict(self) -> dict[str, Any]:
        """Return the measure for JSON: mean, difference from control runs (null if unknown), and values by block."""
        return {
            "mean": self.mean.as_dict(),
            "runs": self.runs,
            "censored": self.censored,
            "conditional": self.conditional and self.conditional.as_dict(),
            "difference": self.difference and self.difference.as_dict(),
            "compared": self.compared,
            "values": {str(block): value.value for block, value in self.values.items()},
            "control": {str(block): value.value for block, value in self.control.items()},
        }


def repeated(name: str, runs: int, values: Mapping[int, Value], control: Mapping[int, Value]) -> Repeated:
    """Return a measure over repetitions from its values by block; at least one is needed in `values`.

    `runs` is the number of runs with the event, `control` has the values of control runs. With a censored value, the
    interval of the mean has no upper end. The difference is the mean of event minus control over blocks that have both.
    It is None if no block has both, or if a value of such a block is censored.
    """
    mean = _mean(list(values.values()))
    if any(value.censored for value in values.values()):
        mean = Estimate(mean.value, min(mean.low, mean.value) if math.isfinite(mean.low) else -math.inf, math.inf)
    both = [block for block in values if block in control]
    known = both and not any(values[block].censored or control[block].censored for block in both)
    differences = [_difference(values[block], control[block]) for block in both]
    return Repeated(name, runs, values, control, mean, _mean(differences) if known else None)


def _mean(values: Sequence[Value]) -> Estimate:
    """Return the mean of the runs' values; the means of their bounds widen the interval."""
    mean = mean_interval([value.value for value in values])
    below, above = (fmean(widths) for widths in zip(*((value.below, value.above) for value in values), strict=True))
    return Estimate(mean.value, mean.low - below, mean.high + above)


def _difference(event: Value, control: Value) -> Value:
    """Return the difference of event and control, with the bounds that follow from both."""
    value = event.value - control.value
    return Value(value, low=value - event.below - control.above, high=value + event.above + control.below)


@dataclass(frozen=True)
class MeasureLabel:
    """Title, unit and description of a measure.

    `unit` is s, seconds (of a response time), share, bytes, bytes/s, rate (in the unit of throughput), or another word.
    In `says`, `{counted}` stands for what throughput counts.
    """

    title: str
    unit: str
    says: str


MEASURES: dict[str, MeasureLabel] = {
    "join_delay": MeasureLabel("join delay", "s", "from the request for the node until it is a member"),
    "departure": MeasureLabel("departure", "s", "from the request to leave until the node has left"),
    "redistribution": MeasureLabel(
        "redistribution", "s", "from joining, or from the request to leave, until all data is in place"
    ),
    "pieces_moved": MeasureLabel("moved", "pieces", "shards, slots or other pieces that the change moved"),
    "pieces_rate": MeasureLabel("moved per second", "pieces/s", "pieces moved, divided by the time it took"),
    "bytes_moved": MeasureLabel("moved", "bytes", "bytes that the change moved"),
    "bytes_rate": MeasureLabel("moved per second", "bytes/s", "bytes moved, divided by the time it took"),
    "stabilisation": MeasureLabel("stabilisation", "s", "until throughput and p99 hold their last level for a window"),
    "disturbance": MeasureLabel(
        "disturbance", "share", "largest fall of the 10-s median of throughput below that before"
    ),
    "slowdown": MeasureLabel(
        "slowdown", "ratio", "largest p99 of a second, relative to p99 before; above 1 by noise alone"
    ),
    "lost_work": MeasureLabel(
        "throughput deficit", "s", "seconds of complete outage that would lose as many {counted}"
    ),
    "latency_debt": MeasureLabel(
        "excess latency", "s", "excess of p99 over its ideal during the disturbance, in units of p99 before"
    ),
    "unknown_latency": MeasureLabel("unknown p99", "s", "seconds without a response or a known waiting time"),
    "violation": MeasureLabel("violation", "s", "seconds outside the objective"),
    "errors": MeasureLabel("errors", "requests", "failed, or dropped because too many were in flight"),
    "longest_gap": MeasureLabel("longest gap", "s", "longest sequence of seconds without successful {counted}"),
    "break_even": MeasureLabel("break-even", "s", "until the total exceeds that without the change"),
    "growth": MeasureLabel("growth", "ratio", "throughput after, divided by throughput before"),
    "realised_gain": MeasureLabel("realised gain", "share", "growth of throughput, divided by growth of nodes"),
    "capacity_reached": MeasureLabel(
        "capacity reached", "share", "throughput after, relative to the measured capacity of that many nodes"
    ),
    "elastic_efficiency": MeasureLabel(
        "elastic efficiency", "share", "work done, relative to throughput after from the start"
    ),
    "exposure": MeasureLabel("under-replicated time", "s", "seconds in which some data had too few replicas"),
    "x0": MeasureLabel("throughput before", "rate", "median over the window before the change"),
    "x1": MeasureLabel("throughput after", "rate", "median over the last window"),
    "l0": MeasureLabel("p99 before", "seconds", "median p99 of a second over the window before the change"),
    "l1": MeasureLabel("p99 after", "seconds", "median p99 of a second over the last window"),
}

#: Measures that are shown only if they are not 0.
UNUSUAL = frozenset({"unknown_latency"})


@dataclass(frozen=True, eq=False)
class StepMeasures:
    """One change: its description, the median nodes before and after, and the median length of its horizon, s."""

    number: int
    change: str
    before: float
    after: float
    horizon: float
    measures: Mapping[str, Repeated]
    #: The names of runs in which the change failed or was unfinished at the end.
    failed: tuple[str, ...] = ()

    @property
    def joins(self) -> tuple[int, int] | None:
        """The number of runs in which the node joined, and of all runs; None if no node was to join."""
        delay = self.measures.get("join_delay")
        return (len(delay.values) - delay.censored, len(delay.values)) if delay else None
