"""Planned runs, and designs: the runs of an experiment in their order."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from loadframe.experiment.file.factors import Level


@dataclass(frozen=True)
class PlannedRun:
    """One run to be made."""

    #: Names its folder, too: unique, readable, and the same when the experiment is extended by levels or blocks.
    id: str
    #: From 1. Blocks are repetitions here.
    block: int
    treatment: Mapping[str, Level]
    #: The levels of the factors that are hard to change. Neighbours with the same state share a cluster.
    state: str
    #: Which run of its treatment in its block this is, from 1, where one is not enough.
    trial: int = 1

    @property
    def repetition(self) -> int:
        """Which repetition of its treatment this is, from 1."""
        return self.block

    def describe(self) -> dict[str, Any]:
        """Return the run for people and programs, ready for JSON."""
        return {"run": self.id, "block": self.block, "treatment": dict(self.treatment)}


@dataclass(frozen=True)
class Design:
    """The runs of an experiment, in their order."""

    seed: int
    runs: tuple[PlannedRun, ...]

    def groups(self) -> Iterator[tuple[PlannedRun, ...]]:
        """Yield the runs that share a block and a state, in their order."""
        for _, group in itertools.groupby(self.runs, key=lambda run: (run.block, run.state)):
            yield tuple(group)

    def describe(self) -> list[dict[str, Any]]:
        """Return the runs for people and programs, ready for JSON."""
        return [run.describe() for run in self.runs]
