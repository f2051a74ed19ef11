"""Analysis of a scale experiment: its curves, tiers, and equal resources in different shapes.

The unit is the run: figures are means over runs, with intervals if there are several. Invalid, failed and missing runs
are excluded and listed.
"""

import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loadframe.analyze.estimate import Estimate, mean_interval, within
from loadframe.analyze.exclusion import excluded_document
from loadframe.analyze.executions import AGAIN, AGE, FIRST
from loadframe.analyze.experiment import RecordedExperiment, RecordedRun, read_experiment
from loadframe.analyze.levels import SIZES
from loadframe.analyze.rates import Rate, rate_of
from loadframe.analyze.scalability import Scaling
from loadframe.analyze.scale.curves import Curve, PhaseCurves, SpeedUp, phase_curves
from loadframe.analyze.scale.treatments import Point, Treatment, choose, main_operation, pooled_noise, ratio_of


def curves_document(curves: PhaseCurves) -> dict[str, Any]:
    """Return the figures of one phase for JSON: treatments, fits, speed-ups, warnings."""
    return {
        "phase": curves.phase,
        "operation": curves.operation,
        "other_operations": curves.other_operations,
        "levels": dict(curves.others),
        "treatments": [_treatment(treatment) for treatment in curves.treatments],
        "failed": [
            {
                **{key: level.figures[key] for key in ("nodes", "clients", "failed", "included")},
                "runs": level.figures["total"],
                **level.as_dict(),
            }
            for level in curves.failed
        ],
        "over_clients": [_curve(curve) for curve in curves.over_clients],
        "over_nodes": curves.over_nodes and _curve(curves.over_nodes),
        "p99_ratio": (ratio := curves.p99_ratio) and ratio.as_dict(),
        "speedups": [
            {
                "nodes": row.treatment.nodes,
                "clients": row.treatment.clients,
                "throughput": row.treatment.throughput.as_dict(),
                "without_luck": row.treatment.without_luck,
                "speedup": row.speedup.as_dict(is_open=bool(row.failed)),
                "efficiency": row.efficiency.as_dict(is_open=bool(row.failed)),
            }
            for row in curves.speedups
        ],
        "bends": [
            {key: bend.figures[key] for key in ("nodes", "clients", "effective")} | bend.as_dict()
            for bend in curves.bends
        ],
        "calibrations": [vars(calibration) for calibration in curves.calibrations],
        "warnings": [warning.as_dict() for warning in curves.warnings],
    }


def _treatment(treatment: Treatment) -> dict[str, Any]:
    """Return sizes, names of runs, throughput, failures and response times (s) of a treatment for JSON."""
    return {
        "nodes": treatment.nodes,
        "clients": treatment.clients,
        "runs": [point.run for point in treatment.points],
        "throughput": treatment.throughput.as_dict(),
        "offered": treatment.offered,
        "failed_share": max(point.failed_share for point in treatment.points),
        "timed": treatment.timed,
        "response_p50": treatment.response_p50,
        "response_p99": treatment.response_p99,
        "response_p50_low": treatment.response_p50_low,
        "response_p99_low": treatment.response_p99_low,
        "parallelism": treatment.parallelism,
    }


def _curve(curve: Curve) -> dict[str, Any]:
    """Return the number of nodes and the fit of a curve for JSON, or the reason why it has none.

    `unknown` is the reason why the fit's intervals are unknown, or null.
    """
    return {
        "nodes": curve.nodes,
        "fit": curve.fit and curve.fit.as_dict(),
        "unknown": curve.fit and curve.fit.unknown,
        "refusal": curve.refusal,
    }


#: Family of stores that are services and report the times of their parts.
_SERVICES = "http"


@dataclass(frozen=True)
class Waiting:
    """One operation at one size: mean response (s), and the part of it spent in another tier."""

    nodes: int | None  #: instances
    clients: int | None  #: None for an open load or a number that changes
    operation: str
    part: str
    response: Estimate
    waited: Estimate  #: s, by the service's clock
    share: Estimate  #: of the mean response, 0 to 1


@dataclass(frozen=True)
class Tiers:
    """Waiting times in other tiers in one measured phase."""

    waiting: tuple[Waiting, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the key `waiting` for JSON: a list with the fields of `Waiting`."""
        return {
            "waiting": [
                {
                    "nodes": row.nodes,
                    "clients": row.clients,
                    "operation": row.operation,
                    "part": row.part,
                    "response": row.response.as_dict(),
                    "waited": row.waited.as_dict(),
                    "share": row.share.as_dict(),
                }
                for row in self.waiting
            ]
        }


def tiers(runs: Iterable[RecordedRun], phase: str) -> Tiers:
    """Return the waiting times of a phase's sound runs of services (family `http`), by size.

    Empty if no response reported a part's time.
    """
    by_size: dict[tuple[int | None, int | None], list[RecordedRun]] = defaultdict(list)
    for run in runs:
        if run.sound and run.run and run.manifest.store.family == _SERVICES:
            by_size[run.nodes, run.clients(phase)].append(run)
    ordered = sorted(by_size.items(), key=lambda item: [number or 0 for number in item[0]])
    return Tiers(tuple(row for size, of_size in ordered for row in _waiting(*size, of_size, phase)))


def _waiting(nodes: int | None, clients: int | None, runs: Sequence[RecordedRun], phase: str) -> Iterable[Waiting]:
    """Yield the mean response time and the mean time in another tier, for each operation and tier.

    `nodes` and `clients` are the size at which the `runs` were made. Means are over runs, in s. Parts that the
    generator records itself are left out: first and repeated executions, and the age of data.
    """
    seen: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for run in runs:
        for name, operation in run.operations(phase).items():
            for part, figures in operation.parts.items():
                if part in (FIRST, AGAIN, AGE):
                    continue
                if operation.response.mean and figures.response.mean is not None:
                    seen[name, part].append((operation.response.mean, figures.response.mean))
    for (name, part), pairs in seen.items():
        responses, waited = zip(*pairs, strict=True)
        share = within(mean_interval([took / response for response, took in pairs]), most=1.0)
        yield Waiting(
            nodes, clients, name, part, within(mean_interval(responses)), within(mean_interval(waited)), share
        )


_CPUS = "store.limits.cpus"
_Levels = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Shape:
    """A number of nodes of one size at their best clients, with the throughput relative to the fewest nodes."""

    phase: str
    others: _Levels
    nodes: int
    cpus: float
    throughput: Estimate
    ratio: Estimate
    #: Whether failures at this shape or the first leave an end of the ratio open.
    is_open: bool = False

    @property
    def total(self) -> float:
        """The total number of CPUs."""
        return self.nodes * self.cpus


def equal_resources(curves: Sequence[PhaseCurves]) -> tuple[Shape, ...]:
    """Return the shapes that share their total of CPUs with another shape, grouped by total, few large nodes first.

    Empty unless nodes and the nodes' CPU limit are factors; open loads are left out.
    """
    by_phase: dict[str, list[Treatment]] = defaultdict(list)
    for curve in curves:
        by_phase[curve.phase] += curve.treatments
    noises = {
        phase: pooled_noise(_throughputs(treatment) for treatment in treatments if not treatment.failed)
        for phase, treatments in by_phase.items()
    }
    grouped: dict[tuple[str, _Levels, float], list[tuple[float, Treatment]]] = defaultdict(list)
    for curve in curves:
        cpus = curve.others.get(_CPUS)
        if not isinstance(cpus, int | float) or curve.any_offered:
            continue
        others = tuple((name, level) for name, level in curve.others.items() if name != _CPUS)
        for nodes in {treatment.nodes for treatment in curve.treatments if treatment.nodes}:
            at_nodes = [treatment for treatment in curve.treatments if treatment.nodes == nodes]
            best = choose(at_nodes, noises[curve.phase])
            grouped[curve.phase, others, round(nodes * cpus, 6)].append((float(cpus), best))
    shapes = []
    for (phase, others, _), sized in grouped.items():
        ordered = sorted(sized, key=lambda pair: pair[1].nodes or 0)
        base = ordered[0][1]
        for cpus, best in ordered if len(ordered) > 1 else ():
            ratio = Estimate(1.0, 1.0, 1.0) if best is base else ratio_of(best, base, noises[phase])
            is_open = best is not base and (best.failed or base.failed)
            shapes.append(Shape(phase, others, best.nodes or 0, cpus, best.throughput, ratio, is_open))
    return tuple(shapes)


def _throughputs(treatment: Treatment) -> list[float]:
    """Return the throughput of each run of a treatment, 1/s."""
    return [point.throughput for point in treatment.points]


__all__ = [
    "Curve",
    "PhaseCurves",
    "Point",
    "SpeedUp",
    "Sweep",
    "Tiers",
    "Treatment",
    "read_sweep",
]


@dataclass(frozen=True, eq=False)
class Sweep:
    """Analysis of a scale experiment: its folder, its unit of throughput, and the curves of each measured phase."""

    folder: RecordedExperiment
    rate: Rate
    curves: tuple[PhaseCurves, ...]
    #: Cluster shapes with equal total CPUs, if nodes and their CPU limit are factors.
    equal: tuple[Shape, ...]
    #: Tiers per curve, if the store is an application.
    tiers: tuple[Tiers, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return experiment, curves, shapes with equal CPUs, runs and excluded runs for JSON; tiers if any waited."""
        return {
            "experiment": self.folder.description["experiment"],
            "question": self.folder.description.get("question"),
            "unit": self.rate.unit,
            "curves": [curves_document(curves) for curves in self.curves],
            "equal_resources": [
                {
                    "phase": shape.phase,
                    "levels": dict(shape.others),
                    "nodes": shape.nodes,
                    "cpus": shape.cpus,
                    "throughput": shape.throughput.as_dict(),
                    "ratio": shape.ratio.as_dict(is_open=shape.is_open),
                }
                for shape in self.equal
            ],
            **({"tiers": [part.as_dict() for part in self.tiers]} if any(part.waiting for part in self.tiers) else {}),
            "runs": [run.as_dict() for run in self.folder.runs],
            **excluded_document(self.folder),
        }


def read_sweep(path: Path) -> Sweep:
    """Return the analysis of an experiment's folder; BadInput if it is not one or is broken.

    The kind of the experiment is not checked.
    """
    folder = read_experiment(path)
    seed = int(folder.description.get("seed") or 0)
    scaling: Scaling = "weak" if folder.description.get("scaling") == "weak" else "strong"
    rate = rate_of(folder.description)
    curves, tiers_of_curves = [], []
    for phase in folder.description["measure"]:
        # The same operation for all levels of other factors, such as two stores, so that times can be compared.
        operation = main_operation(folder.runs, phase)
        for others in _other_levels(folder):
            runs = [run for run in folder.runs if others.items() <= run.treatment.items()]
            earlier = [run for run in folder.attempts if run.store_failed and others.items() <= run.treatment.items()]
            known = any(operation in run.operations(phase) for run in runs)
            curves.append(
                phase_curves(
                    runs,
                    phase,
                    others,
                    seed=seed,
                    scaling=scaling,
                    rate=rate,
                    attempts=earlier,
                    operation=operation if known else main_operation(runs, phase),
                )
            )
            tiers_of_curves.append(tiers(runs, phase))
    return Sweep(folder, rate, tuple(curves), equal_resources(curves), tuple(tiers_of_curves))


def _other_levels(folder: RecordedExperiment) -> list[Mapping[str, Any]]:
    """Return each combination of the levels of all factors but nodes and clients, measured or not.

    Each has separate curves. Without other factors, it is one empty combination.
    """
    factors = {name: levels for name, levels in folder.description["factors"].items() if name not in SIZES}
    return [dict(zip(factors, levels, strict=True)) for levels in itertools.product(*factors.values())]
