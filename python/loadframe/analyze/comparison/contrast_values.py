"""The values of two groups of runs in one measure, and the ratio that follows from how the runs were laid out."""

from collections.abc import Iterable
from dataclasses import dataclass

from loadframe.analyze.comparison.estimate_ratio import Observation, RatioEstimate, estimate_ratio
from loadframe.analyze.comparison.groups import Group
from loadframe.analyze.comparison.measures import Measure
from loadframe.analyze.experiment import RecordedRun
from loadframe.analyze.sessions import block_of, sessions_of


@dataclass(frozen=True)
class ContrastValues:
    """The values of both groups that enter their ratio, and the ratio; None where a side has no such value.

    `without_logarithm` counts the runs, by the group's label, that have the value 0 and cannot enter a ratio.
    """

    first: tuple[float, ...]
    second: tuple[float, ...]
    estimate: RatioEstimate | None
    without_logarithm: tuple[tuple[str, int], ...]


def contrast_values(measure: Measure, first: Group, second: Group, session_spread: float) -> ContrastValues:
    """Return both groups' values in a measure, with their ratio.

    `session_spread` is by how much sessions are taken to differ where each group has one only.
    """
    runs = [(0, run) for run in first.usable] + [(1, run) for run in second.usable]
    sessions = sessions_of([run for _, run in runs], [side for side, _ in runs])
    values: tuple[list[float], list[float]] = ([], [])
    observations = []
    nothing = [0, 0]
    for (side, run), session in zip(runs, sessions, strict=True):
        value = measure.of(run)
        if value is None:
            continue
        positive = _share_above_0(measure, run) if measure.kind == "errors" else value
        if positive <= 0:
            nothing[side] += 1
            continue
        values[side].append(value)
        observations.append(Observation(positive, side, block_of(run), session))
    estimate = None
    if all(values):
        least = _counting_variance(measure, (first.usable, second.usable)) if measure.kind == "errors" else 0.0
        estimate = estimate_ratio(
            observations, 0, 1, session_spread=session_spread, least_variance=least, robust=first.robust
        )
        estimate = estimate.widened(measure.stretch(second.usable).ratio(measure.stretch(first.usable)))
    labels = (first.label, second.label)
    return ContrastValues(
        tuple(values[0]),
        tuple(values[1]),
        estimate,
        tuple((label, count) for label, count in zip(labels, nothing, strict=True) if count),
    )


def _share_above_0(measure: Measure, run: RecordedRun) -> float:
    """Return the share of failed requests with half a failure added, so that no failure at all has a logarithm."""
    failed, requests = measure.failures(run)
    return (failed + 0.5) / (requests + 1)


def _counting_variance(measure: Measure, sides: Iterable[Iterable[RecordedRun]]) -> float:
    """Return the variance that the ratio of two shares has for being counted: failures that came by chance."""
    return sum(1 / (sum(measure.failures(run)[0] for run in runs) + 0.5) for runs in sides)
