"""Curves over any numeric factor: throughput and response time, with one line per treatment of the other factors.

The curves are not fitted, because no general law describes throughput over, for example, a result size or a pause. Each
point is a mean over runs; its interval uses the relative spread that all repeated treatments of the phase share.
"""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from loadframe.analyze.compare.measures import Measure
from loadframe.analyze.estimate import Estimate, on_log_scale
from loadframe.analyze.experiment import RecordedExperiment, RecordedRun
from loadframe.analyze.levels import SIZES, NumericLevels, numeric_levels
from loadframe.analyze.rates import Rate, rate_of
from loadframe.analyze.scale.treatments import Noise, main_operation, pooled_noise
from loadframe.analyze.settings import CONFIRM


@dataclass(frozen=True)
class PointOver:
    """One level: its position on the axis and the means over its runs; None for unknown figures."""

    level: Any
    at: float
    runs: int
    rate: Estimate | None  #: 1/s
    response: Estimate | None  #: s, the median response time of the main operation
    failed: int = 0  #: runs in which the store failed; the figures exclude them


@dataclass(frozen=True)
class LineOver:
    """All points that share the levels of the other factors."""

    others: Mapping[str, Any]
    points: tuple[PointOver, ...]


@dataclass(frozen=True)
class CurveOver:
    """One phase over one factor. If the load is `opened`, its throughput is the offered rate."""

    phase: str
    factor: str
    levels: NumericLevels
    rate: Rate
    operation: str | None
    opened: bool
    lines: tuple[LineOver, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the curve for JSON: rates in 1/s, response times in s."""
        return {
            "phase": self.phase,
            "factor": self.factor,
            "unit": self.rate.unit,
            "levels_unit": self.levels.unit,
            "axis": self.levels.spacing,
            "operation": self.operation,
            "lines": [
                {
                    "levels": dict(line.others),
                    "points": [
                        {
                            "level": point.level,
                            "runs": point.runs,
                            "failed_runs": point.failed,
                            "rate": point.rate and point.rate.as_dict(),
                            "response_p50": point.response and point.response.as_dict(),
                        }
                        for point in line.points
                    ],
                }
                for line in self.lines
            ],
        }


def curves_over(folder: RecordedExperiment) -> tuple[CurveOver, ...]:
    """Return the curves of each measured phase over each numeric factor, except sizes of the cluster or load.

    The levels determine whether an axis is linear or logarithmic, unless the experiment sets it under `axes`.
    """
    axes = folder.description.get("axes") or {}
    curves = []
    for factor, written in folder.description["factors"].items():
        levels = None if factor in SIZES else numeric_levels(written, axes.get(factor))
        if levels:
            curves += [_curve(folder, phase, factor, levels) for phase in folder.description["measure"]]
    return tuple(curve for curve in curves if curve.lines)


def _curve(folder: RecordedExperiment, phase: str, factor: str, levels: NumericLevels) -> CurveOver:
    # Confirmation runs repeat the winner because it won, so they are a biased sample of its treatment.
    runs = [run for run in folder.used if run.phase(phase) and not run.id.startswith(CONFIRM)]
    operation, rate = main_operation(runs, phase), rate_of(folder.description)
    groups: dict[str, dict[Any, list[RecordedRun]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        if run.treatment.get(factor) in levels.numbers:
            groups[json.dumps(_others(run, factor), sort_keys=True)][run.treatment[factor]].append(run)
    failed: dict[tuple[str, Any], int] = defaultdict(int)
    for run in folder.counted:
        level = run.treatment.get(factor)
        if run.store_failed and level in levels.numbers and not run.id.startswith(CONFIRM):
            others = json.dumps(_others(run, factor), sort_keys=True)
            failed[others, level] += 1
            # A level at which every run failed stays on the line, without a figure.
            groups[others].setdefault(level, [])
    every = [members for line in groups.values() for members in line.values()]
    measures = (Measure(phase, rate.name), Measure(phase, "p50", operation))
    noises = [pooled_noise(_values(members, measure) for members in every) for measure in measures]
    lines = []
    for written, by_level in groups.items():
        points = tuple(
            PointOver(
                level,
                at,
                len(by_level[level]),
                _mean(by_level[level], measures[0], noises[0]),
                _mean(by_level[level], measures[1], noises[1]),
                failed.get((written, level), 0),
            )
            for level, at in levels.numbers.items()
            if level in by_level
        )
        if len(points) > 1 and any(point.rate or point.response for point in points):
            lines.append(LineOver(json.loads(written), points))
    opened = any(stream.is_open for run in runs for stream in run.streams(phase))
    ordered = sorted(lines, key=lambda line: _place(line.others, folder.description["factors"]))
    return CurveOver(phase, factor, levels, rate, operation, opened, tuple(ordered))


def _others(run: RecordedRun, factor: str) -> dict[str, Any]:
    """Return the levels of all other factors."""
    return {name: level for name, level in run.treatment.items() if name != factor}


def _values(runs: Sequence[RecordedRun], measure: Measure) -> list[float]:
    return [value for run in runs if (value := measure.of(run))]


def _mean(runs: Sequence[RecordedRun], measure: Measure, noise: Noise) -> Estimate | None:
    """Return the mean with an interval that is symmetric on a log scale, as levels may be decades apart.

    The bounds of the runs' values widen it.
    """
    values = _values(runs, measure)
    if not values:
        return None
    return measure.stretch(runs).widened(on_log_scale(fmean(values), noise.half_width(len(values))))


def _place(others: Mapping[str, Any], factors: Mapping[str, Sequence[Any]]) -> list[int]:
    """Return a line's sort key: the index of each of its levels in the experiment's list."""
    return [list(factors[name]).index(level) if level in factors.get(name, ()) else 0 for name, level in others.items()]
