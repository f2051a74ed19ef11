"""Reasons that lie in the cluster: it was not the one that was asked for, or did not survive."""

import re
from dataclasses import dataclass

from loadframe.analyze.reasons.reason import Reason, StoreResult
from loadframe.units import format_duration

#: How runs record that a collection and the acknowledgements differ.
_DIFFERENCE = re.compile(
    r"(?P<collection>.+) holds (?P<held>[\d,]+) documents, but (?P<acknowledged>[\d,]+) were acknowledged"
)


@dataclass(frozen=True)
class ClusterState(Reason):
    """The cluster was not as the treatment names it."""

    code = "cluster_state"
    fault = "cluster"
    deviation: str

    def _cause(self) -> str:
        return self.deviation

    def _remedy(self) -> str:
        return "repair the cluster, or change the treatment to the state that it is in, then run again"


@dataclass(frozen=True)
class NodeLost(StoreResult):
    """A node exited, or the cluster stopped answering, under load."""

    code = "node_lost"
    loss: str

    def _cause(self) -> str:
        return f"the store did not survive the load: {self.loss}"

    def _remedy(self) -> str:
        return "look at the node's log; give it more memory, or less load"


@dataclass(frozen=True)
class CopiesLost(StoreResult):
    """The cluster was complete when the load began, and copies of data were out of service when it ended."""

    code = "copies_lost"
    loss: str

    def _cause(self) -> str:
        return f"the store lost copies of data under the load: {self.loss}"

    def _remedy(self) -> str:
        return "see the nodes' logs; give the store more memory, or less load"


@dataclass(frozen=True)
class DocumentsLost(StoreResult):
    """Documents were acknowledged, and the collection does not have them."""

    code = "documents_lost"
    collection: str
    held: int
    acknowledged: int

    @classmethod
    def read(cls, difference: str) -> "DocumentsLost | None":
        """Return the loss that a sentence of `experiment.counts` tells; None where no document is missing."""
        told = _DIFFERENCE.fullmatch(difference)
        if told is None:
            return None
        held, acknowledged = (int(told[key].replace(",", "")) for key in ("held", "acknowledged"))
        return cls(told["collection"], held, acknowledged) if held < acknowledged else None

    def _cause(self) -> str:
        return (
            f"{self.acknowledged - self.held:,} of {self.acknowledged:,} acknowledged documents are missing in"
            f" {self.collection}"
        )

    def _remedy(self) -> str:
        return "see the store's log and its durability settings; another program may have deleted documents"


@dataclass(frozen=True)
class ChangeFailed(StoreResult):
    """The store failed to make a change that the experiment asked for, such as taking in a node."""

    code = "change_failed"
    what: str

    @classmethod
    def sentence(cls, step: int, change: str, cause: str) -> str:
        """Return the words for a change that failed."""
        return f"step {step}, {change}, failed: {cause}"

    def _cause(self) -> str:
        return self.what

    def _remedy(self) -> str:
        return "see the node's log; give the change more time or resources"


@dataclass(frozen=True)
class MachineSilent(Reason):
    """A machine of the cluster did not answer for a while, so that its nodes may have been out of reach."""

    code = "machine_silent"
    fault = "cluster"
    phase: str
    machine: str
    seconds: float

    def _cause(self) -> str:
        return f"in phase {self.phase} the machine {self.machine} did not answer for {format_duration(self.seconds)}"

    def _remedy(self) -> str:
        return "look at that machine and the network to it, then run again"
