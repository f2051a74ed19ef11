"""Curves of an experiment: throughput over clients, over nodes at the best clients, and over any numeric factor.

The curves are not fitted, because no general law describes throughput over, for example, a result size or a pause. Each
point is a mean over runs; its interval uses the relative spread that all repeated treatments of the phase share, except
those at which the store failed.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from statistics import fmean
from typing import Any

from loadframe.analyze.compare.measures import Measure
from loadframe.analyze.compare.warnings import runs_by_reason
from loadframe.analyze.estimate import Estimate, on_log_scale
from loadframe.analyze.experiment import RecordedExperiment, RecordedRun
from loadframe.analyze.figures import EXACT, Stretch
from loadframe.analyze.finding import Finding, Rule
from loadframe.analyze.levels import SIZES, NumericLevels, numeric_levels
from loadframe.analyze.rates import RATES, THROUGHPUT, Rate, rate_of
from loadframe.analyze.scalability import ScalabilityFit, Scaling, fit
from loadframe.analyze.scale import warnings as rules
from loadframe.analyze.scale.saturation import Calibration, bend, calibrate, clients_tried, is_saturated
from loadframe.analyze.scale.treatments import (
    Noise,
    Point,
    Treatment,
    choose,
    gather,
    main_operation,
    p99_ratio,
    points,
    pooled_noise,
    speedup_of,
)
from loadframe.analyze.settings import CONFIRM
from loadframe.base.errors import BadInput
from loadframe.base.units import counted, format_nodes


def _level(nodes: int | None, clients: int | None) -> str:
    """Return a level in words: `2 nodes, 8 clients`; `the only level` if both numbers are unknown."""
    parts = [format_nodes(nodes) if nodes else "", counted(clients, "client") if clients else ""]
    return ", ".join(filter(None, parts)) or "the only level"


def _failed_level(
    nodes: int | None, clients: int | None, failed: int, total: int, listed: str, shown: bool, included: int
) -> str:
    """Return the cause: the store failed at a level in `failed` of `total` runs.

    The level is the number of nodes and of clients, each None if unknown. `listed` names the failed runs; `included` of
    them are on the curves. `shown`: whether other runs of the level are on the curves.
    """
    rest = "the curves include only the other runs" if shown else "the curves lack this level"
    if included:
        rest = f"the curves include {included} of these runs"
    return f"at {_level(nodes, clients)} the store failed in {failed} of {counted(total, 'run')} ({listed}): {rest}"


FAILED_LEVEL = Rule(
    "failed_level",
    _failed_level,
    lambda included: (
        "find the cause of the failures, and measure again"
        if included
        else "the curves describe a store that did not fail; find the cause of the failures"
    ),
)


def failed_levels(runs: Sequence[RecordedRun], phase: str, treatments: Sequence[Treatment]) -> tuple[Finding, ...]:
    """Return a finding for each level at which the store failed in a run, by nodes and clients in ascending order.

    The level is a treatment of the `runs`, which include earlier attempts. `treatments` are those on the curves.
    """
    by_level: dict[str, list[RecordedRun]] = defaultdict(list)
    for run in runs:
        by_level[run.treatment_key].append(run)
    on_curves = {point.run for treatment in treatments for point in treatment.points}
    levels = []
    for members in by_level.values():
        failed = [run for run in members if run.store_failed]
        if failed:
            names = {run.id for run in failed}
            others = {run.id for run in members} - names
            levels.append(
                FAILED_LEVEL(
                    # A run that failed before the phase does not show its clients.
                    nodes=next((run.nodes for run in members if run.nodes), None),
                    clients=next((clients for run in members if (clients := run.clients(phase))), None),
                    failed=len(failed),
                    total=len(failed) + sum(run.sound and not run.store_failed for run in members),
                    listed=runs_by_reason(failed),
                    shown=bool(on_curves & others),
                    included=len(on_curves & names),
                )
            )
    return tuple(sorted(levels, key=lambda level: [level.figures[key] or 0 for key in ("nodes", "clients")]))


@dataclass(frozen=True, eq=False)
class Curve:
    """Throughput over one size with its fit; without a fit, `refusal` gives the reason."""

    over: str
    nodes: int | None
    treatments: tuple[Treatment, ...]
    fit: ScalabilityFit | None
    refusal: str | None


@dataclass(frozen=True)
class SpeedUp:
    """Throughput at the best clients relative to that on the fewest nodes, and divided by the ratio of nodes."""

    treatment: Treatment
    speedup: Estimate
    efficiency: Estimate
    #: Bounds of the speed-up by the load generator.
    bounds: Stretch = EXACT
    #: Numbers of nodes, of its own and the fewest, at which the store failed; they leave an end of the interval open.
    failed: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class PhaseCurves:
    """Analysis of one measured phase of a scale experiment, at one level of all factors except nodes and clients.

    - `rate`: the unit of its throughputs, requests or documents.
    - `best`: the treatment chosen for each number of nodes; all statements and plots over nodes use these.
    - `at_edge`: numbers of nodes whose best clients were the most measured, without a saturated resource, so their
      capacity may be higher.
    - `bends`: what ended the growth over clients.
    - `calibrations`: suitable numbers of clients by number of nodes, if nodes have a CPU limit.
    """

    phase: str
    others: Mapping[str, Any]
    rate: Rate
    operation: str | None
    points: tuple[Point, ...]
    treatments: tuple[Treatment, ...]
    best: tuple[Treatment, ...]
    over_clients: tuple[Curve, ...]
    over_nodes: Curve | None
    speedups: tuple[SpeedUp, ...]
    at_edge: tuple[int, ...]
    bends: tuple[Finding, ...]
    calibrations: tuple[Calibration, ...]
    warnings: tuple[Finding, ...]
    #: The levels at which the store failed, with or without a point on the curves.
    failed: tuple[Finding, ...] = ()
    #: Whether the phase has other operations than `operation`, the one of the response times.
    other_operations: bool = False

    @property
    def any_offered(self) -> bool:
        """Whether the throughput of at least one run is the rate of an open load, which was achieved.

        Nothing is then claimed about throughput.
        """
        return is_any_offered(self.treatments)

    @property
    def p99_ratio(self) -> Estimate | None:
        """The p99 of an open load at the most nodes divided by that at the fewest.

        None for a closed load, for one size, if a p99 is unknown, and if the store failed at one of the two.
        """
        sized = self.sized
        return p99_ratio(sized[-1], sized[0]) if self.any_offered and len(sized) > 1 else None

    @property
    def sized(self) -> tuple[Treatment, ...]:
        """The best treatments at known numbers of nodes."""
        return sized(self.best)


def sized(treatments: Iterable[Treatment]) -> tuple[Treatment, ...]:
    """Return the treatments with a known number of nodes: the store may not have told it in each run."""
    return tuple(treatment for treatment in treatments if treatment.nodes)


def is_any_offered(treatments: Sequence[Treatment]) -> bool:
    """Return whether in at least one run of the treatments throughput is the achieved rate of an open load."""
    return any(point.offered for treatment in treatments for point in treatment.points)


def phase_curves(
    runs: Sequence[RecordedRun],
    phase: str,
    others: Mapping[str, Any],
    *,
    seed: int,
    scaling: Scaling,
    rate: Rate = THROUGHPUT,
    attempts: Sequence[RecordedRun] = (),
    operation: str | None,
) -> PhaseCurves:
    """Return the analysis of one phase over runs that differ in nodes and clients only.

    `others` are the levels of the other factors, and `seed` seeds the resampling. `scaling` is `weak` if data grow
    with the nodes. `attempts` are earlier attempts in which the store failed. `operation` is the operation of the
    response times.
    """
    measured = points(runs, phase, operation, rate)
    failing = {run.treatment_key for run in (*runs, *attempts) if run.store_failed}
    treatments, noise = gather(measured, {run.id for run in runs if run.treatment_key in failing})
    by_nodes: dict[int | None, list[Treatment]] = defaultdict(list)
    for treatment in treatments:
        by_nodes[treatment.nodes].append(treatment)
    best = [choose(group, noise) for group in by_nodes.values()]
    at_edge = [
        chosen.nodes
        for chosen, group in zip(best, by_nodes.values(), strict=True)
        if chosen.nodes is not None and len(group) > 1 and chosen.clients == max(other.clients or 0 for other in group)
        if not is_saturated(runs, phase, chosen)
    ]
    failed = failed_levels([*runs, *attempts], phase, treatments)
    over_clients = tuple(
        _curve("clients", nodes, group, lambda point: point.clients, seed, failed)
        for nodes, group in by_nodes.items()
        if len({at.clients for at in group}) > 1 and not any(at.offered for at in group)
    )
    # The rate of an open load says nothing about the growth of throughput with nodes.
    several = len(sized(best)) > 1 and not is_any_offered(treatments)
    return PhaseCurves(
        phase=phase,
        others=others,
        rate=rate,
        operation=operation,
        points=measured,
        treatments=treatments,
        best=tuple(best),
        over_clients=over_clients,
        over_nodes=_curve("nodes", None, sized(best), lambda point: point.nodes, seed, failed, scaling)
        if several
        else None,
        speedups=_speedups(sized(best), noise) if several else (),
        at_edge=tuple(at_edge),
        bends=tuple(
            filter(
                None, (bend(runs, phase, group, chosen) for chosen, group in zip(best, by_nodes.values(), strict=True))
            )
        ),
        calibrations=tuple(filter(None, (_calibration(runs, phase, nodes, rate) for nodes in by_nodes))),
        warnings=(*failed, *rules.warnings(runs, phase, best)),
        failed=failed,
        other_operations=len({name for run in runs for name in run.operations(phase)}) > 1,
    )


def _calibration(runs: Sequence[RecordedRun], phase: str, nodes: int | None, rate: Rate) -> Calibration | None:
    """Return the calibrated number of clients on `nodes` nodes; None if only one was tried, or without CPU limits."""
    at_nodes = [run for run in runs if run.nodes == nodes]
    several = len({run.clients(phase) for run in at_nodes}) > 1
    return calibrate(nodes, [clients_tried(run, phase, rate) for run in at_nodes]) if several else None


def _curve(
    over: str,
    nodes: int | None,
    treatments: Sequence[Treatment],
    size: Any,
    seed: int,
    failed: Sequence[Finding],
    scaling: Scaling = "strong",
) -> Curve:
    """Return the curve over nodes or clients (`over`) with its fit, or with the reason if a fit is refused.

    `size` returns the size of a point: its nodes or clients. `nodes` is the number of nodes of a curve over clients.
    `seed` seeds the resampling; `scaling` is `weak` if data grow with the size. `failed` are the levels at which the
    store failed: the intervals of a fit to one of them are unknown. Runs without an upper bound of throughput are left
    out.
    """
    pairs = [pair for treatment in treatments for pair in zip(treatment.points, treatment.expected, strict=True)]
    # A throughput without an upper bound is the generator's limit, so the curve omits it.
    pairs = [(point, throughput) for point, throughput in pairs if isfinite(point.stretch.high)]
    used, throughputs = [point for point, _ in pairs], [throughput for _, throughput in pairs]
    options: dict[str, Any] = {
        "over": over, "seed": seed, "scaling": scaling, "blocks": [point.block for point in used],
        "names": [point.run for point in used],
        "failed": {size(point) for treatment in treatments if treatment.failed for point in treatment.points} & {
            size(point) for point in used
        },
    }  # fmt: skip
    try:
        fitted = _fit_within_bounds([size(point) for point in used], throughputs, used, options)
    except BadInput as error:
        return Curve(over, nodes, tuple(treatments), None, error.what)
    if options["failed"]:
        hit = [at for at in treatments if at.failed and size(at) in options["failed"]]
        fitted = replace(fitted, unknown=f"the store failed {_failures(hit, failed, over)}: the intervals are unknown")
    return Curve(over, nodes, tuple(treatments), fitted, None)


def _failures(treatments: Sequence[Treatment], failed: Sequence[Finding], over: str) -> str:
    """Write in how many runs of these treatments the store failed: `in 2 of 3 runs with 4 nodes`, joined by `and`.

    `failed` are the levels at which it failed, which include the treatments. `over` is `nodes` or `clients`.
    """
    counts = {(level.figures["nodes"], level.figures["clients"]): level.figures for level in failed}
    words = []
    for at in treatments:
        figures = counts.get((at.nodes, at.clients))
        runs = f"in {figures['failed']} of {counted(figures['total'], 'run')}" if figures else "in a run"
        words.append(f"{runs} with {_level(at.nodes, None) if over == 'nodes' else _level(None, at.clients)}")
    return " and ".join(words)


def _fit_within_bounds(
    sizes: Sequence[float], throughputs: Sequence[float], used: Sequence[Point], options: Mapping[str, Any]
) -> ScalabilityFit:
    """Return the fit of the throughputs, with intervals that also cover fits with throughputs at their upper bounds.

    `used` are the points of the throughputs. Three further fits of all sizes raise all throughputs to their bounds,
    those of the larger sizes, and those of the smaller sizes. `options` go to `fit`. BadInput if the fits select other
    models, if only some have a peak, or if a fit is impossible.
    """
    fitted = fit(list(zip(sizes, throughputs, strict=True)), **options)
    if all(point.stretch.is_exact for point in used):
        return fitted
    middle = (min(sizes) + max(sizes)) / 2
    larger = [size > middle for size in sizes]
    others = [
        fit(
            [
                (size, value * (point.stretch.high if is_raised else 1.0))
                for size, value, point, is_raised in zip(sizes, throughputs, used, raised, strict=True)
            ],
            **options,
        )
        for raised in ([True] * len(sizes), larger, [not is_larger for is_larger in larger])
    ]
    if len({(one.best, one.standing) for one in (fitted, *others)}) > 1:
        allowed = " or ".join(dict.fromkeys(one.best for one in (fitted, *others)))
        raise BadInput(f"the load generator bounds the throughputs, and within these bounds the curve may be {allowed}")
    models = {
        name: replace(
            model,
            parameters={
                key: _all_of(estimate, [one.models[name].parameters[key] for one in others])
                for key, estimate in model.parameters.items()
            },
            others=tuple(one.models[name] for one in others),
        )
        for name, model in fitted.models.items()
    }
    peak = replace(
        fitted.candidate,
        n=_all_of(fitted.candidate.n, [one.candidate.n for one in others]),
        throughput=_all_of(fitted.candidate.throughput, [one.candidate.throughput for one in others]),
    )
    return replace(fitted, models=models, candidate=peak)


def _all_of(estimate: Estimate, others: Sequence[Estimate]) -> Estimate:
    """Return an estimate with an interval that covers the others' intervals."""
    return Estimate(
        estimate.value,
        min(estimate.low, *(other.low for other in others)),
        max(estimate.high, *(other.high for other in others)),
    )


def _speedups(best: Sequence[Treatment], noise: Noise) -> tuple[SpeedUp, ...]:
    """Return speed-up and efficiency of the best treatments relative to the first, the one with the fewest nodes.

    All have a known number of nodes. `noise` is that of all treatments.
    """
    first = best[0]
    rows = []
    for treatment in best:
        ratio = Estimate(1.0, 1.0, 1.0) if treatment is first else speedup_of(treatment, first, best, noise)
        more = (treatment.nodes or 1) / (first.nodes or 1)
        efficiency = Estimate(ratio.value / more, ratio.low / more, ratio.high / more)
        bounds = EXACT if treatment is first else treatment.stretch.ratio(first.stretch)
        ends = () if treatment is first else (first, treatment)
        rows.append(SpeedUp(treatment, ratio, efficiency, bounds, tuple(at.nodes or 0 for at in ends if at.failed)))
    return tuple(rows)


@dataclass(frozen=True)
class PointOver:
    """One level: its position on the axis and the means over its runs. Unknown figures are None."""

    level: Any
    at: float
    runs: int
    rate: Estimate | None  #: 1/s
    response: Estimate | None  #: s, the median response time of the main operation
    failed: int = 0  #: runs in which the store failed
    included: int = 0  #: failed runs in the figures: valid ones, such as after the loss of a node


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
                            "failed_included": point.included,
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
            curves += [_factor_curve(folder, phase, factor, levels) for phase in folder.description["measure"]]
    return tuple(curve for curve in curves if curve.lines)


def _factor_curve(folder: RecordedExperiment, phase: str, factor: str, levels: NumericLevels) -> CurveOver:
    """Return the curve of one phase over one factor: a line for each combination of the other factors' levels.

    Lines with one level or without any figure are left out, and so are confirmation runs.
    """
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
    every = [
        members for others, line in groups.items() for level, members in line.items() if (others, level) not in failed
    ]
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
                sum(run.store_failed for run in by_level[level]),
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
    """Return the levels of a run's treatment, except that of `factor`."""
    return {name: level for name, level in run.treatment.items() if name != factor}


def _values(runs: Sequence[RecordedRun], measure: Measure) -> list[float]:
    """Return the values of a measure in these runs, without unknown ones and zeros."""
    return [value for run in runs if (value := measure.of(run))]


def _mean(runs: Sequence[RecordedRun], measure: Measure, noise: Noise) -> Estimate | None:
    """Return the mean of a measure with an interval that is symmetric on a log scale, or None without values.

    A response time that varies more than `noise`, the pooled one, has its own. The bounds of the runs' values widen the
    interval.
    """
    values = _values(runs, measure)
    if not values:
        return None
    if measure.kind not in RATES:
        noise = noise.or_own(values)
    return measure.stretch(runs).widened(on_log_scale(fmean(values), noise.half_width(len(values))))


def _place(others: Mapping[str, Any], factors: Mapping[str, Sequence[Any]]) -> list[int]:
    """Return a line's sort key: the index of each of its levels in the experiment's list, or 0 if it is not listed."""
    return [list(factors[name]).index(level) if level in factors.get(name, ()) else 0 for name, level in others.items()]
