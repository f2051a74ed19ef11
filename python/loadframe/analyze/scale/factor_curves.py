"""Curves over any factor whose levels are numbers: throughput and response time, with a line for each other treatment.

Nothing is fitted to them, since no law says how throughput depends on the size of a result or with a pause. Each point
is a mean over runs; its interval is that of the relative spread that all repeated treatments of the phase share.
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
from loadframe.analyze.settings.schemes import CONFIRM


@dataclass(frozen=True)
class PointOver:
    """One level: its number on the axis, and what its runs gave; None where that is not known."""

    level: Any
    at: float
    runs: int
    rate: Estimate | None  #: 1/s
    response: Estimate | None  #: s, the median response time of the main operation
    failed: int = 0  #: runs in which the store failed: the figures are those of the others


@dataclass(frozen=True)
class LineOver:
    """All levels at which the other factors have the same ones."""

    others: Mapping[str, Any]
    points: tuple[PointOver, ...]


@dataclass(frozen=True)
class CurveOver:
    """What one phase gave over one factor. An `opened` load has no throughput of its own: it is what was offered."""

    phase: str
    factor: str
    levels: NumericLevels
    rate: Rate
    operation: str | None
    opened: bool
    lines: tuple[LineOver, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON: rates in 1/s, response times in s."""
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
    """Return the curves of each measured phase over each factor of numbers that is not a size of the cluster or load.

    Whether an axis is linear or logarithmic follows from the levels, unless the experiment says it under `axes`.
    """
    asked = folder.description.get("axes") or {}
    curves = []
    for factor, written in folder.description["factors"].items():
        levels = None if factor in SIZES else numeric_levels(written, asked.get(factor))
        if levels:
            curves += [_curve(folder, phase, factor, levels) for phase in folder.description["measure"]]
    return tuple(curve for curve in curves if curve.lines)


def _curve(folder: RecordedExperiment, phase: str, factor: str, levels: NumericLevels) -> CurveOver:
    # The winner is measured again because it won, so those runs do not stand for its treatment alone.
    runs = [run for run in folder.used if run.phase(phase) and not run.id.startswith(CONFIRM)]
    operation, rate = main_operation(runs, phase), rate_of(folder.description)
    groups: dict[str, dict[Any, list[RecordedRun]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        if run.treatment.get(factor) in levels.numbers:
            groups[json.dumps(_others(run, factor), sort_keys=True)][run.treatment[factor]].append(run)
    died: dict[tuple[str, Any], int] = defaultdict(int)
    for run in folder.counted:
        level = run.treatment.get(factor)
        if run.store_failed and level in levels.numbers and not run.id.startswith(CONFIRM):
            others = json.dumps(_others(run, factor), sort_keys=True)
            died[others, level] += 1
            # A level at which every run failed is on the line, without a figure.
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
                died.get((written, level), 0),
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

    It is wider by the bounds of the runs.
    """
    values = _values(runs, measure)
    if not values:
        return None
    return measure.stretch(runs).widened(on_log_scale(fmean(values), noise.half_width(len(values))))


def _place(others: Mapping[str, Any], factors: Mapping[str, Sequence[Any]]) -> list[int]:
    """Return where a line stands among others: by its levels as the experiment lists them."""
    return [list(factors[name]).index(level) if level in factors.get(name, ()) else 0 for name, level in others.items()]
