"""How much of a machine room an experiment takes: machines, time, and their product."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from loadframe.experiment.design_estimate import estimate
from loadframe.experiment.file_model import OTHER_MACHINES

if TYPE_CHECKING:
    from loadframe.experiment.experiment import Experiment


@dataclass(frozen=True)
class Extent:
    """What is held for how long, while an experiment runs in one go."""

    runs: int  #: at most, where that depends on what they say
    seconds: float  #: expected, of all of them
    nodes: int  #: of the largest cluster
    machines: int  #: that keep its nodes
    generators: int  #: machines besides, for the ranks that load it

    @property
    def machine_hours(self) -> float:
        """Machines times hours: what a batch system charges as node-hours."""
        return (self.machines + self.generators) * self.seconds / 3600

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {
            "runs": self.runs,
            "seconds": round(self.seconds),
            "nodes": self.nodes,
            "machines": self.machines,
            "generators": self.generators,
            "machine_hours": round(self.machine_hours, 2),
        }


def extent(experiment: "Experiment", generators: int | None = None) -> Extent:
    """Return the extent of an experiment, with as many runs as there can be.

    Machines for the generator are as given; if not, there is one unless it may share those of the nodes.
    """
    most = experiment.kind.most(experiment)
    nodes = experiment.kind.most_nodes(experiment)
    store = experiment.file.store
    machines = 1
    if store.host in OTHER_MACHINES:
        machines = math.ceil(nodes / (store.placement.per_machine or 1))
        if generators is None:
            generators = 0 if store.placement.share else 1
    return Extent(len(most.runs), estimate(most, experiment), nodes, machines, generators or 0)
