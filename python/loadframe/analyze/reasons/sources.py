"""Reasons that lie in sources of events: not all that came is in the store."""

from dataclasses import dataclass

from loadframe.analyze.reasons.reason import Reason
from loadframe.units import format_count


@dataclass(frozen=True)
class LeftOver(Reason):
    """Events were accepted, and the store does not have them."""

    code = "left_over"
    fault = "store"
    spoils = False
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
class MissingEvents(Reason):
    """Events were acknowledged, and the store does not have them."""

    code = "missing_events"
    fault = "store"
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
