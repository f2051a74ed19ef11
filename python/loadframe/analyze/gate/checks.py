"""One check of a gate, and how it stands: against earlier runs, or against a bound that was given."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal

from loadframe.analyze.comparison import Contrast, Measure
from loadframe.units import format_change, format_count, format_duration, format_share

#: Regression is worse than undecided, which is worse than passed.
Standing = Literal["passed", "regression", "undecided"]


@dataclass(frozen=True)
class Bound:
    """A value that a measure must not exceed, or for throughput not fall below: 1/s, s, or a share of requests."""

    kind: str
    limit: float

    def holds(self, value: float) -> bool:
        """Return whether a value is within the bound."""
        return value >= self.limit if self.kind == "throughput" else value <= self.limit


@dataclass(frozen=True)
class Check:
    """One figure that was checked: `why` says what decided, in words with the figures in them."""

    measure: Measure
    treatment: Mapping[str, Any]
    standing: Standing
    why: str
    contrast: Contrast | None = None
    bound: Bound | None = None

    @property
    def name(self) -> str:
        """The check's name in files for pipelines."""
        return f"{self.measure.name} {'bound' if self.bound else 'against baseline'}"

    def as_dict(self) -> dict[str, Any]:
        """Return the check for JSON."""
        return {
            **self.measure.as_dict(),
            "treatment": dict(self.treatment),
            "standing": self.standing,
            "why": self.why,
            "contrast": self.contrast and self.contrast.as_dict(),
            "bound": self.bound and self.bound.limit,
        }


def worse_by(contrast: Contrast, pace: float = 1.0) -> tuple[float, float, float]:
    """Return by what share of the baseline a group is worse, with the ends of its interval; negative is better.

    `pace`: what would be left of it on a machine that had not become that many times as fast.
    """
    ratio = contrast.ratio
    if contrast.measure.better == "higher":
        return 1 - ratio.value / pace, 1 - ratio.high / pace, 1 - ratio.low / pace
    return ratio.value * pace - 1, ratio.low * pace - 1, ratio.high * pace - 1


def against_baseline(
    contrast: Contrast, *, least: float, catch: float, reachable: bool, level: float, pace: float = 1.0
) -> Check:
    """Judge a contrast.

    It is a regression if it is significantly worse by at least `least`. It passes if its interval excludes that it is
    worse by `catch` or more. `reachable`: whether so few runs could be significant at all. `pace`: how many times as
    fast the machine was for the new runs; what that can explain, or can hide, is undecided.
    """
    value, low, high = worse_by(contrast)
    span = f"{_worse(value)} [{_signed(low)}, {_signed(high)}], p = {contrast.p:.2g}"
    # Throughput and response times follow the machine's pace at most in full, or not at all.
    paced_value, _, paced_high = worse_by(contrast, pace)
    standing: Standing = "passed"
    why = span
    if contrast.p < level and value >= least:
        standing, why = "regression", f"{span}: beyond {format_share(least)}"
        if paced_value < least:
            standing, why = "undecided", f"{span}: the machine had become slower by as much"
    elif not reachable:
        sizes = f"{len(contrast.first)} run{'s' * (len(contrast.first) != 1)} against {len(contrast.second)}"
        standing, why = "undecided", f"{_worse(value)}: {sizes} do not tell how much runs scatter"
    elif high >= catch:
        standing, why = "undecided", f"{span}: the interval does not exclude {format_share(catch)}"
    elif paced_high >= catch:
        standing, why = "undecided", f"{span}: the machine had become faster, which may hide {format_share(catch)}"
    return Check(contrast.measure, contrast.treatment, standing, why, contrast=contrast)


def against_bound(measure: Measure, treatment: Mapping[str, Any], values: Sequence[float], bound: Bound) -> Check:
    """Judge a bound by the median of the runs; the slowest response by that of all runs."""
    if not values:
        return Check(measure, treatment, "undecided", "no valid run has measured it", bound=bound)
    value, how = (max(values), "slowest") if measure.kind == "max" else (median(values), "median")
    standing: Standing = "passed" if bound.holds(value) else "regression"
    limit = f"{'at least' if bound.kind == 'throughput' else 'at most'} {_quantity(bound.limit, measure)}"
    runs = f"{len(values)} run{'s' * (len(values) != 1)}"
    return Check(measure, treatment, standing, f"{how} of {runs} {_quantity(value, measure)}, {limit}", bound=bound)


def _quantity(value: float, measure: Measure) -> str:
    if measure.kind == "errors":
        return format_share(value, 2)
    return f"{format_count(value)}/s" if measure.kind == "throughput" else format_duration(value)


def _worse(value: float) -> str:
    return f"{format_share(abs(value), 1)} {'worse' if value > 0 else 'better'}"


def _signed(value: float) -> str:
    return format_change(value)
