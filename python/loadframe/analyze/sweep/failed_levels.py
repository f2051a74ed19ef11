"""Levels of a scale experiment at which the store failed: a curve through the runs that survived does not show them."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from loadframe.analyze.comparison.doubts import runs_by_reason
from loadframe.analyze.experiment import RecordedRun
from loadframe.analyze.finding import Finding
from loadframe.analyze.sweep.treatments import Treatment
from loadframe.units import format_count, format_nodes


@dataclass(frozen=True)
class FailedLevel(Finding):
    """The store failed in some runs at one number of nodes and clients; `listed` has them by their reasons."""

    nodes: int | None
    clients: int | None
    failed: int
    total: int
    listed: str
    #: Whether other runs of the level are on the curves.
    shown: bool

    @property
    def level(self) -> str:
        """The level in words."""
        nodes = [format_nodes(self.nodes)] if self.nodes else []
        clients = [f"{format_count(self.clients)} client{'s' * (self.clients != 1)}"] if self.clients else []
        return ", ".join([*nodes, *clients]) or "the only level"

    def _cause(self) -> str:
        rest = "the curves have the other runs alone" if self.shown else "the curves lack this level"
        return f"at {self.level} the store failed in {self.failed} of {self.total} runs ({self.listed}): {rest}"

    def _remedy(self) -> str:
        return "read the curves as those of a store that did not fail, and find out why it did"


def failed_levels(runs: Sequence[RecordedRun], phase: str, treatments: Sequence[Treatment]) -> tuple[FailedLevel, ...]:
    """Return the levels at which the store failed as a whole, or gave no success; `treatments` are on the curves."""
    by_level: dict[tuple[int | None, int | None], list[RecordedRun]] = defaultdict(list)
    for run in runs:
        by_level[run.nodes, run.clients(phase)].append(run)
    levels = []
    for (nodes, clients), members in sorted(by_level.items(), key=lambda item: [number or 0 for number in item[0]]):
        failed = [run for run in members if run.store_failed]
        if failed:
            total = len(failed) + sum(run.sound and not run.store_failed for run in members)
            on_curves = any(
                point.run not in {run.id for run in failed}
                for treatment in treatments
                if (treatment.nodes, treatment.clients) == (nodes, clients)
                for point in treatment.points
            )
            levels.append(FailedLevel(nodes, clients, len(failed), total, runs_by_reason(failed), on_curves))
    return tuple(levels)
