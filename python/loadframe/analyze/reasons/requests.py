"""Reasons that lie in the requests: not enough were answered well, or throughput moved."""

from dataclasses import dataclass

from loadframe.analyze.reasons.reason import StoreResult
from loadframe.units import format_change, format_count, format_share

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
