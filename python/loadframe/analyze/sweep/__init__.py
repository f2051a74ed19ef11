"""From an experiment's folder to its curves: throughput and response times per treatment, fits, speed-ups, pitfalls.

Invalid, failed and missing runs are left out of everything that is computed, and listed.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loadframe.analyze.exclusion import excluded_document
from loadframe.analyze.experiment import RecordedExperiment, read_experiment
from loadframe.analyze.levels import SIZES
from loadframe.analyze.rates import Rate, rate_of
from loadframe.analyze.scalability import Scaling
from loadframe.analyze.sweep.curves import Curve, PhaseCurves, SpeedUp, phase_curves
from loadframe.analyze.sweep.document import curves_document
from loadframe.analyze.sweep.equal import Shape, equal_resources
from loadframe.analyze.sweep.tiers import Tiers, tiers
from loadframe.analyze.sweep.treatments import Point, Treatment

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
    """A scale experiment, analysed: its folder, what its throughputs count, and the curves of each measured phase."""

    folder: RecordedExperiment
    rate: Rate
    curves: tuple[PhaseCurves, ...]
    #: Shapes of clusters that have the same CPUs in all, where nodes and their CPU limit are factors.
    equal: tuple[Shape, ...]
    #: Of each of the curves, where an application was measured.
    tiers: tuple[Tiers, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the analysis for JSON."""
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
                    "ratio": shape.ratio.as_dict(),
                }
                for shape in self.equal
            ],
            **({"tiers": [part.as_dict() for part in self.tiers]} if any(part.waiting for part in self.tiers) else {}),
            "runs": [run.as_dict() for run in self.folder.runs],
            **excluded_document(self.folder),
        }


def read_sweep(path: Path) -> Sweep:
    """Read and analyse an experiment's folder; BadInput if it is not one, or is broken."""
    folder = read_experiment(path)
    seed = int(folder.description.get("seed") or 0)
    scaling: Scaling = "weak" if folder.description.get("scaling") == "weak" else "strong"
    rate = rate_of(folder.description)
    curves, told = [], []
    for phase in folder.description["measure"]:
        for others in _other_levels(folder):
            runs = [run for run in folder.runs if others.items() <= run.treatment.items()]
            earlier = [run for run in folder.attempts if run.store_failed and others.items() <= run.treatment.items()]
            curves.append(phase_curves(runs, phase, others, seed=seed, scaling=scaling, rate=rate, attempts=earlier))
            told.append(tiers(runs, phase))
    return Sweep(folder, rate, tuple(curves), equal_resources(curves), tuple(told))


def _other_levels(folder: RecordedExperiment) -> list[Mapping[str, Any]]:
    """Return each combination of the factors that are not a size: it has curves of its own."""
    factors = {name: levels for name, levels in folder.description["factors"].items() if name not in SIZES}
    return [dict(zip(factors, levels, strict=True)) for levels in itertools.product(*factors.values())]
