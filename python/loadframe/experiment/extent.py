"""How much of a machine room an experiment takes: machines, time, and their product."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from loadframe.experiment.design_estimate import UNKNOWN, estimate, length_is_known
from loadframe.experiment.file_store import OTHER_MACHINES

if TYPE_CHECKING:
    from loadframe.experiment.design import Design
    from loadframe.experiment.experiment import Experiment


@dataclass(frozen=True)
class Extent:
    """What is held for how long, while an experiment runs in one go."""

    runs: int  #: at most, where that depends on what they say
    seconds: float  #: expected, of all of them; at least these where the length is not known
    nodes: int  #: of the largest cluster
    machines: int  #: that keep its nodes
    generators: int  #: machines besides, for the ranks that load it
    missing: tuple[str, ...] = ()  #: of what the time depends on and nobody knows yet: in words
    known: bool = True  #: whether it can be told how long it takes

    @property
    def machine_hours(self) -> float:
        """Machines times hours: what a batch system charges as node-hours."""
        return (self.machines + self.generators) * self.seconds / 3600

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {
            "runs": self.runs,
            "seconds": round(self.seconds),
            "length_known": self.known,
            "nodes": self.nodes,
            "machines": self.machines,
            "generators": self.generators,
            "machine_hours": round(self.machine_hours, 2),
            "missing": list(self.missing),
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
    known = length_is_known(experiment)
    missing = (*_missing(experiment, most), *(() if known else (UNKNOWN,)))
    return Extent(len(most.runs), estimate(most, experiment), nodes, machines, generators or 0, missing, known)


def _missing(experiment: "Experiment", most: "Design") -> Iterator[str]:
    """Yield a sentence for what is to be read by the first run, as by the others, and is not here."""
    workload = experiment.workload_at(most.runs[0].treatment)
    for corpus in workload.file.corpora:
        if names := workload.missing(corpus):
            count = f"{workload.documents(corpus):,}"
            yield (
                f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} not here: corpus {corpus} is taken to have"
                f" {count} {'document' if count == '1' else 'documents'}, and ingestion to take as long as that"
            )
