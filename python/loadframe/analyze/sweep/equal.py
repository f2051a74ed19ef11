"""Horizontal beside vertical: what the same processors give as many small nodes and as few large ones."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from loadframe.analyze.estimate import Estimate
from loadframe.analyze.sweep.choice import choose, ratio_of
from loadframe.analyze.sweep.curves import PhaseCurves
from loadframe.analyze.sweep.treatments import Treatment, pooled_noise

_CPUS = "store.limits.cpus"
_Levels = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Shape:
    """A number of nodes of a size, at their best number of clients, and their throughput over that of the fewest."""

    phase: str
    others: _Levels
    nodes: int
    cpus: float
    throughput: Estimate
    ratio: Estimate

    @property
    def total(self) -> float:
        """CPUs in all."""
        return self.nodes * self.cpus


def equal_resources(curves: Sequence[PhaseCurves]) -> tuple[Shape, ...]:
    """Return the shapes that have the same CPUs in all as another one, few large nodes first.

    Empty unless nodes and the nodes' CPU limit are factors.
    """
    noise = pooled_noise(_throughputs(treatment) for curve in curves for treatment in curve.treatments)
    grouped: dict[tuple[str, _Levels, float], list[tuple[float, Treatment]]] = defaultdict(list)
    for curve in curves:
        cpus = curve.others.get(_CPUS)
        if not isinstance(cpus, int | float):
            continue
        others = tuple((name, level) for name, level in curve.others.items() if name != _CPUS)
        for nodes in {treatment.nodes for treatment in curve.treatments if treatment.nodes}:
            at_nodes = [treatment for treatment in curve.treatments if treatment.nodes == nodes]
            best = choose(at_nodes, noise)
            grouped[curve.phase, others, round(nodes * cpus, 6)].append((float(cpus), best))
    shapes = []
    for (phase, others, _), sized in grouped.items():
        ordered = sorted(sized, key=lambda pair: pair[1].nodes or 0)
        base = ordered[0][1]
        for cpus, best in ordered if len(ordered) > 1 else ():
            ratio = Estimate(1.0, 1.0, 1.0) if best is base else ratio_of(best, base, noise)
            shapes.append(Shape(phase, others, best.nodes or 0, cpus, best.throughput, ratio))
    return tuple(shapes)


def _throughputs(treatment: Treatment) -> list[float]:
    return [point.throughput for point in treatment.points]
