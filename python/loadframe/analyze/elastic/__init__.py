"""Analysis of an elastic experiment: measures of each change under each load, with intervals.

Invalid, failed and missing runs are excluded and listed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loadframe.analyze.elastic.course import Course
from loadframe.analyze.elastic.groups import Group, read_groups
from loadframe.analyze.elastic.measures import Value
from loadframe.analyze.elastic.repeated import MEASURES, MeasureLabel, Repeated, StepMeasures
from loadframe.analyze.elastic.warnings import by_chance, drifted
from loadframe.analyze.estimate import proportion
from loadframe.analyze.exclusion import excluded_document
from loadframe.analyze.experiment import RecordedExperiment, read_experiment

__all__ = [
    "MEASURES",
    "Course",
    "Elasticity",
    "Event",
    "Group",
    "MeasureLabel",
    "Repeated",
    "StepMeasures",
    "Value",
    "by_chance",
    "drifted",
    "read_elasticity",
]


@dataclass(frozen=True, eq=False)
class Elasticity:
    """Analysis of an elastic experiment: its folder, and each transition under each load."""

    folder: RecordedExperiment
    groups: tuple[Group, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the experiment, its transitions with their measures, its runs and the excluded runs for JSON."""
        return {
            "experiment": self.folder.description["experiment"],
            "question": self.folder.description.get("question"),
            "transitions": [_group(group) for group in self.groups],
            "runs": [run.as_dict() for run in self.folder.runs],
            **excluded_document(self.folder),
        }


def read_elasticity(path: Path) -> Elasticity:
    """Return the analysis of an experiment's folder; BadInput if it is not one or is broken.

    An experiment of another kind has no groups.
    """
    folder = read_experiment(path)
    return Elasticity(folder, read_groups(folder))


def _group(group: Group) -> Mapping[str, Any]:
    """Return one transition under one load for JSON, with its steps, measures and warnings."""
    return {
        "transition": group.transition,
        "load": group.load,
        "open": group.open,
        "unit": group.rate.unit,
        "runs": [run.id for run in group.runs],
        "invalid": [run.id for run in group.invalid],
        "steps": [
            {
                "step": step.number,
                "change": step.change,
                "nodes_before": step.before,
                "nodes_after": step.after,
                "joins": _joins(step),
                "failed": list(step.failed),
                "horizon": step.horizon,
                "measures": {name: measure.as_dict() for name, measure in step.measures.items()},
            }
            for step in group.steps
        ],
        "provisioning": {run: score.as_dict() for run, score in group.provisioning.items()},
        "warnings": [warning.as_dict() for warning in group.warnings],
    }


def _joins(step: StepMeasures) -> Mapping[str, Any] | None:
    """Return the number of runs in which the node joined, and their share; None if no node was to join."""
    if step.joins is None:
        return None
    joined, total = step.joins
    return {"joined": joined, "runs": total, "share": proportion(joined, total).as_dict()}
