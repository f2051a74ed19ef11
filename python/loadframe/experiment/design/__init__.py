"""Designs: which runs are planned, with which treatments, in which order, and how often."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from loadframe.experiment.file.factors import Level


@dataclass(frozen=True)
class PlannedRun:
    """A run of a design."""

    #: Unique and readable; also the folder name. Stays equal if levels or blocks are added to the experiment.
    id: str
    #: From 1. Each block is one repetition.
    block: int
    treatment: Mapping[str, Level]
    #: Levels of the hard-to-change factors. Consecutive runs with equal state share a cluster.
    state: str
    #: Number of the run within its treatment and block, from 1.
    trial: int = 1

    @property
    def repetition(self) -> int:
        """Number of the repetition of its treatment, from 1."""
        return self.block

    def describe(self) -> dict[str, Any]:
        """Return the run as JSON values, with the keys `run` (the identifier), `block` and `treatment`."""
        return {"run": self.id, "block": self.block, "treatment": dict(self.treatment)}


@dataclass(frozen=True)
class Design:
    """The runs of an experiment, in order."""

    seed: int
    runs: tuple[PlannedRun, ...]

    def groups(self) -> Iterator[tuple[PlannedRun, ...]]:
        """Yield consecutive runs that share block and state."""
        for _, group in itertools.groupby(self.runs, key=lambda run: (run.block, run.state)):
            yield tuple(group)

    def describe(self) -> list[dict[str, Any]]:
        """Return the runs in order as JSON values; see `PlannedRun.describe`."""
        return [run.describe() for run in self.runs]
