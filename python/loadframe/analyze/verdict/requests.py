"""Rules about requests and the cluster."""

import re
from dataclasses import dataclass

from loadframe.analyze.verdict.reason import Reason, StoreResult
from loadframe.base.units import format_change, format_count, format_duration, format_share

#: Below this share of its rate, an open load was not the load that was asked for.
ACHIEVED_LIMIT = 0.99
#: Percentiles cover the requests that were sent. Where one in a thousand was dropped, p99.9 means nothing.
DROPPED_LIMIT = 1e-3
#: Throughput and percentiles cover successes. Where one request in a hundred failed, p99 means nothing.
ERROR_LIMIT = 0.01


@dataclass(frozen=True)
class NotAchieved(StoreResult):
    """An open load was not achieved."""

    code = "not_achieved"
    phase: str
    achieved: float

    def _cause(self) -> str:
        return f"in phase {self.phase} only {format_share(self.achieved, 1)} of the offered rate was achieved in time"

    def _remedy(self) -> str:
        return "the rate is above the capacity: lower it, or treat this run as an overload test"


@dataclass(frozen=True)
class Backlog(StoreResult):
    """Requests of the warm-up were answered in the measured window."""

    code = "backlog"
    phase: str
    inherited: int
    achieved: float

    def _cause(self) -> str:
        return (
            f"in phase {self.phase} {format_count(self.inherited)} requests that were due in the warm-up were answered"
            f" in the measured window, which had {format_share(self.achieved, 1)} of the offered rate: response times"
            " include the backlog"
        )

    def _remedy(self) -> str:
        return "lengthen the warm-up until the backlog is gone, or lower the rate"


@dataclass(frozen=True)
class Dropped(StoreResult):
    """Requests were never sent."""

    code = "dropped"
    phase: str
    operation: str
    dropped: int
    due: int

    def _cause(self) -> str:
        return (
            f"in phase {self.phase} {format_count(self.dropped)} of {format_count(self.due)} requests of"
            f" {self.operation} were dropped, because too many were in flight"
        )

    def _remedy(self) -> str:
        return "lower the rate, or raise the stream's max_in_flight"


@dataclass(frozen=True)
class Errors(StoreResult):
    """Too many requests failed."""

    code = "errors"
    phase: str
    operation: str
    failed: int
    requests: int
    classes: str

    def _cause(self) -> str:
        return (
            f"in phase {self.phase} {format_count(self.failed)} of {format_count(self.requests)} requests of"
            f" {self.operation} failed ({self.classes}; limit {format_share(ERROR_LIMIT)})"
        )

    def _remedy(self) -> str:
        return "look at the answers with `loadframe check` and at the store's log; throughput counts successes only"


@dataclass(frozen=True)
class NothingMeasured(StoreResult):
    """No answer fell into the measured window."""

    code = "nothing_measured"
    phase: str
    operation: str

    def _cause(self) -> str:
        return f"no request of {self.operation} was answered in the measured window of phase {self.phase}"

    def _remedy(self) -> str:
        return "measure for longer, or look at the answers with `loadframe check`"


@dataclass(frozen=True)
class Unsteady(StoreResult):
    """Throughput drifted while it was measured."""

    code = "unsteady"
    phase: str
    change: float
    seconds: int
    settled: bool
    #: Whether this is what is left when what the documents explain is taken out.
    beside_documents: bool = False

    def _cause(self) -> str:
        how = "drifted" if self.settled else "had not settled when the window began"
        rest = ", beside what the documents explain" if self.beside_documents else ""
        return f"in phase {self.phase} throughput {how}: {format_change(self.change)} over {self.seconds} s{rest}"

    def _remedy(self) -> str:
        return "lengthen the warm-up; if it still drifts, look at merges, compactions and caches of the store"


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
