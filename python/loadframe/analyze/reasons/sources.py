"""Reasons that lie in sources of events: not all that came is in the store, or whoever read it was too busy."""

from dataclasses import dataclass

from loadframe.analyze.reasons.generator import CPU_LIMIT
from loadframe.analyze.reasons.reason import Reason, StoreResult
from loadframe.units import format_count, format_share


@dataclass(frozen=True)
class LeftOver(StoreResult):
    """Events were accepted, and the store does not have them."""

    code = "left_over"
    phase: str
    source: str
    left_over: int
    accepted: int

    def _cause(self) -> str:
        return (
            f"in phase {self.phase} {format_count(self.left_over)} of {format_count(self.accepted)} events that were"
            f" accepted from {self.source} are left over: the store neither took nor refused them"
        )

    def _remedy(self) -> str:
        return "send slower than the store takes events in, or let the phase end with the source (until: exhausted)"


@dataclass(frozen=True)
class MissingEvents(StoreResult):
    """Events were acknowledged, and the store does not have them."""

    code = "missing_events"
    collection: str
    missing: int
    indexed: int

    def _cause(self) -> str:
        return (
            f"{format_count(self.missing)} of {format_count(self.indexed)} events that the store acknowledged are not"
            f" in {self.collection} when the load is over"
        )

    def _remedy(self) -> str:
        return "see the store's log for nodes that failed; with an asynchronous translog such a node loses events"


@dataclass(frozen=True)
class ReaderBusy(Reason):
    """A thread that read a source used most of its core: events came no faster than it could read them."""

    code = "reader_cpu"
    effect = "saturated"
    phase: str
    source: str
    share: float
    #: Whether the threads share connections, so that more of them help.
    shared: bool

    def _cause(self) -> str:
        return (
            f"in phase {self.phase} a thread that reads {self.source} used {format_share(self.share)} of its core"
            f" (limit {format_share(CPU_LIMIT)})"
        )

    def _remedy(self) -> str:
        if self.shared:
            return "give the generator more threads and send over as many connections, or send slower"
        return "ask for a lower rate, or have several ranks read it, each its part"
