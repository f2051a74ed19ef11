"""Reasons that lie in the ranks together: one began late, or lagged behind the others."""

from dataclasses import dataclass

from loadframe.analyze.reasons.reason import Reason
from loadframe.units import format_duration, format_share

#: A rank that begins later than this (s) misses a share of its first second that shows.
BEGAN_LATE_LIMIT = 0.05


@dataclass(frozen=True)
class BeganLate(Reason):
    """A rank began after the instant at which all were to begin."""

    code = "began_late"
    effect = "partial"
    phase: str
    rank: str
    late: float
    others: int

    def _cause(self) -> str:
        more = f", and {self.others} more ranks too late" if self.others else ""
        return (
            f"in phase {self.phase} {self.rank} began {format_duration(self.late)} after the others{more}"
            f" (limit {format_duration(BEGAN_LATE_LIMIT)})"
        )

    def _remedy(self) -> str:
        return "leave that machine to its rank, or give it fewer ranks"


@dataclass(frozen=True)
class Straggler(Reason):
    """A rank did much less than the others, or took much longer."""

    code = "straggler"
    effect = "saturated"
    phase: str
    rank: str
    share: float
    limit: float
    others: int

    def _cause(self) -> str:
        more = f", and {self.others} more ranks lagged too" if self.others else ""
        return (
            f"in phase {self.phase} {self.rank} did {format_share(self.share)} of what the ranks did at the median"
            f"{more} (limit {format_share(self.limit)})"
        )

    def _remedy(self) -> str:
        return "look at that machine and its way to the nodes, or leave it out"
