"""An application's tiers: how much of a response was spent waiting for what is behind it.

A run counts once: figures are means over runs, with intervals where there are several.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from loadframe.analyze.estimate import Estimate, mean_interval, within
from loadframe.analyze.experiment import RecordedRun

#: Stores that are services, whose parts are times that they tell of themselves.
_SERVICES = "http"


@dataclass(frozen=True)
class Waiting:
    """One operation at one number of instances: mean response, s, and the part of it that was spent elsewhere."""

    nodes: int | None
    operation: str
    part: str
    response: Estimate
    waited: Estimate  #: s, of the service's own clock
    share: Estimate  #: of the mean response, 0 to 1


@dataclass(frozen=True)
class Tiers:
    """What is known of them in one measured phase."""

    waiting: tuple[Waiting, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON, times in s."""
        return {
            "waiting": [
                {
                    "nodes": row.nodes,
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
    """Return what the sound runs of a phase tell of tiers; nothing where no answer told a time of its own."""
    by_nodes: dict[int | None, list[RecordedRun]] = defaultdict(list)
    for run in runs:
        if run.sound and run.run and run.manifest.store.family == _SERVICES:
            by_nodes[run.nodes].append(run)
    ordered = sorted(by_nodes.items(), key=lambda item: item[0] or 0)
    return Tiers(tuple(row for nodes, those in ordered for row in _waiting(nodes, those, phase)))


def _waiting(nodes: int | None, runs: Sequence[RecordedRun], phase: str) -> Iterable[Waiting]:
    seen: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for run in runs:
        for name, operation in run.operations(phase).items():
            for part, told in operation.parts.items():
                if operation.response.mean and told.response.mean is not None:
                    seen[name, part].append((operation.response.mean, told.response.mean))
    for (name, part), pairs in seen.items():
        responses, waited = zip(*pairs, strict=True)
        share = within(mean_interval([took / response for response, took in pairs]), most=1.0)
        yield Waiting(nodes, name, part, within(mean_interval(responses)), within(mean_interval(waited)), share)
