"""What may be wrong with a run: each reason not to believe it has its figures, its cause and its remedy.

Each reason also says whose fault it is. Faults of the store are results: what the store did, it did. Faults of the
generator, and a cluster that is not the one that was asked for, are grounds to leave a run out of the figures.
"""

import functools
from abc import abstractmethod
from dataclasses import dataclass
from typing import Literal

from loadframe.analyze.finding import Finding
from loadframe.units import format_change, format_count, format_duration, format_share

#: A worker that is busier than this is late at its next burst, and its own speed becomes the store's.
CPU_LIMIT = 0.8
#: A worker that stands ready without a core for longer has less than the share of one at which it counts as busy; what
#: shorter waits do to response times shows in lateness and lag.
WAITED_LIMIT = 0.2
#: A machine whose processors others have for more than 1 % of the time stands still in the 99th percentile.
STOLEN_SHARE = 0.01
#: A generator that stands still for more than 1 % of the time does so in the 99th percentile.
THROTTLED_LIMIT = 0.01
#: Above this, queues build up in front of an interface at every burst.
NETWORK_LIMIT = 0.8
#: Of the requests per second that calibration found one core to be good for.
CEILING_LIMIT = 0.8
#: Lateness that response times show as if it were the store's. The limit is the larger of the two: so many s, and such
#: a share of the response times' 99th percentile. Less than the first is what a quiet machine does by itself.
LATENESS_LIMIT = 1e-3
LATENESS_SHARE = 0.05
#: A stall of this length, s, takes half of a second of the series: what that second shows is the generator's doing.
STALL_LIMIT = 0.5
#: A closed load that is away for a share of the time falls short by as much, whatever its response times are.
AWAY_LIMIT = 0.02
#: Below this an open load was another load than the one asked for.
ACHIEVED_LIMIT = 0.99
#: Percentiles are those of the requests that were sent; p99.9 says nothing where one in a thousand is missing.
DROPPED_LIMIT = 1e-3
#: Throughput and percentiles count successes; p99 says nothing where one request in a hundred is missing.
ERROR_LIMIT = 0.01


def lateness_limit(response: float | None) -> float:
    """Return how late (s) requests may be sent or answers be read, by the p99 of response times (s; None: unknown)."""
    return max(LATENESS_LIMIT, LATENESS_SHARE * (response or 0.0))


def _limit_words(response: float | None) -> str:
    return (
        f"limit {format_duration(lateness_limit(response))}: the larger of {format_duration(LATENESS_LIMIT)} and"
        f" {format_share(LATENESS_SHARE)} of the response time's"
    )


#: Who did it. What a reason's class does not say is the generator's: an unknown doubt must not become a result.
Fault = Literal["store", "generator", "cluster"]


class Reason(Finding):
    """Why a run must not be believed, and whose fault that is."""

    code: str
    fault: Fault = "generator"
    #: Whether the run's figures are not those of the store at its treatment.
    spoils: bool = True

    def as_dict(self) -> dict[str, str]:
        """Return code, cause and remedy for the summary."""
        return {"code": self.code, **super().as_dict()}

    @abstractmethod
    def _cause(self) -> str: ...


@dataclass(frozen=True)
class GeneratorBusy(Reason):
    """A worker used most of its core."""

    code = "generator_cpu"
    phase: str
    share: float
    threads: int

    def _cause(self) -> str:
        return (
            f"in phase {self.phase} a generator thread used {format_share(self.share)} of its core"
            f" (limit {format_share(CPU_LIMIT)})"
        )

    def _remedy(self) -> str:
        return f"give the generator more threads (it had {self.threads}) or a machine of its own, or ask for less load"


@dataclass(frozen=True)
class Starved(Reason):
    """A worker was ready to run and had no core."""

    code = "starved"
    phase: str
    share: float

    def _cause(self) -> str:
        return (
            f"in phase {self.phase} a generator thread stood ready for {format_share(self.share)} of the time without a"
            f" core (limit {format_share(WAITED_LIMIT)}): other processes had it"
        )

    def _remedy(self) -> str:
        return "stop what else runs on this machine, or leave the generator cores of its own"


@dataclass(frozen=True)
class Throttled(Reason):
    """The generator's own control group had used up its CPU quota."""

    code = "throttled"
    phase: str
    share: float

    def _cause(self) -> str:
        return (
            f"in phase {self.phase} the generator stood still for {format_share(self.share)} of the time, since its"
            f" control group had used up its CPU quota (limit {format_share(THROTTLED_LIMIT)})"
        )

    def _remedy(self) -> str:
        return "raise the CPU quota of the container or job that loadframe runs in, or run it outside"


@dataclass(frozen=True)
class NetworkBusy(Reason):
    """A network interface was near its limit."""

    code = "network"
    phase: str
    share: float

    def _cause(self) -> str:
        return (
            f"in phase {self.phase} this machine's busiest network interface carried {format_share(self.share)} of its"
            f" speed (limit {format_share(NETWORK_LIMIT)})"
        )

    def _remedy(self) -> str:
        return "measure over a faster network, from more machines, or ask for smaller answers"


@dataclass(frozen=True)
class NearCeiling(Reason):
    """The rate was near what the generator itself can do."""

    code = "generator_ceiling"
    phase: str
    share: float
    threads: int

    def _cause(self) -> str:
        return (
            f"in phase {self.phase} each generator thread sent {format_share(self.share)} of the requests that"
            f" calibration found it to be good for on this machine (limit {format_share(CEILING_LIMIT)})"
        )

    def _remedy(self) -> str:
        return f"give the generator more threads (it had {self.threads}) or more machines, or ask for less load"


@dataclass(frozen=True)
class Delayed(Reason):
    """The generator turned to something late; `stolen` is the share of time for which the hypervisor had processors."""

    phase: str
    stolen: float

    def _cause(self) -> str:
        taken = (
            f"; the hypervisor had {format_share(self.stolen)} of this machine's processors" if self._shared() else ""
        )
        return self._delay() + taken

    def _remedy(self) -> str:
        if self._shared():
            return (
                "measure when this machine's neighbours are quieter, or on one that shares its processors with nobody"
            )
        return self._cores()

    def _shared(self) -> bool:
        return self.stolen > STOLEN_SHARE

    @abstractmethod
    def _delay(self) -> str: ...

    @abstractmethod
    def _cores(self) -> str: ...


@dataclass(frozen=True)
class Late(Delayed):
    """Requests were sent late."""

    code = "lateness"
    lateness: float
    response: float | None

    def _delay(self) -> str:
        share = f", {format_share(self.lateness / self.response)} of the response time's" if self.response else ""
        return (
            f"in phase {self.phase} requests were sent late: 99th percentile {format_duration(self.lateness)}{share}"
            f" ({_limit_words(self.response)})"
        )

    def _cores(self) -> str:
        return "leave the generator cores of its own (--cores), give it more threads, or ask for a lower rate"


@dataclass(frozen=True)
class LoopLag(Delayed):
    """The generator's event loops turned to answers late."""

    code = "loop_lag"
    lag: float
    response: float

    def _delay(self) -> str:
        return (
            f"in phase {self.phase} the generator's event loops lagged: 99th percentile {format_duration(self.lag)},"
            f" {format_share(self.lag / self.response)} of the response time's ({_limit_words(self.response)})"
        )

    def _cores(self) -> str:
        return (
            "something else had the generator's cores: give the nodes cores of their own (--cores), or stop what else"
            " runs there"
        )


@dataclass(frozen=True)
class Stalled(Delayed):
    """The generator stood still: for long at a stretch, or for much of the time."""

    code = "stalled"
    longest: float
    away: float

    def _delay(self) -> str:
        return (
            f"in phase {self.phase} the generator stood still for {format_duration(self.longest)} at a stretch and"
            f" {format_share(self.away, 1)} of the time in all"
            f" (limits {format_duration(STALL_LIMIT)} and {format_share(AWAY_LIMIT)})"
        )

    def _cores(self) -> str:
        return (
            "leave the generator cores of its own (--cores), and see that nothing stops it: a suspended process or"
            " machine, swapping, a debugger"
        )


@dataclass(frozen=True)
class NotAchieved(Reason):
    """An open load was not achieved."""

    code = "not_achieved"
    fault = "store"
    spoils = False
    phase: str
    achieved: float

    def _cause(self) -> str:
        return f"in phase {self.phase} only {format_share(self.achieved, 1)} of the offered rate was achieved in time"

    def _remedy(self) -> str:
        return "the rate is above the capacity: lower it, or read this run as one of overload"


@dataclass(frozen=True)
class Dropped(Reason):
    """Requests were never sent."""

    code = "dropped"
    fault = "store"
    spoils = False
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
class Errors(Reason):
    """Too many requests failed."""

    code = "errors"
    fault = "store"
    spoils = False
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
        return "see what the store answers with `loadframe check`, and its log; throughput counts successes only"


@dataclass(frozen=True)
class NothingMeasured(Reason):
    """No answer fell into the measured window."""

    code = "nothing_measured"
    fault = "store"
    spoils = False
    phase: str
    operation: str

    def _cause(self) -> str:
        return f"no request of {self.operation} was answered in the measured window of phase {self.phase}"

    def _remedy(self) -> str:
        return "measure for longer, or see with `loadframe check` what the store answers"


@dataclass(frozen=True)
class Unsteady(Reason):
    """Throughput moved while it was measured."""

    code = "unsteady"
    fault = "store"
    spoils = False
    phase: str
    change: float
    seconds: int
    settled: bool

    def _cause(self) -> str:
        how = "drifted" if self.settled else "had not settled when the window began"
        return f"in phase {self.phase} throughput {how}: {format_change(self.change)} over {self.seconds} s"

    def _remedy(self) -> str:
        return "lengthen the warm-up; if it still moves, look at merges, compactions and caches of the store"


@dataclass(frozen=True)
class ClusterState(Reason):
    """The cluster was not as the treatment names it."""

    code = "cluster_state"
    fault = "cluster"
    deviation: str

    def _cause(self) -> str:
        return self.deviation

    def _remedy(self) -> str:
        return "mend the cluster or change the treatment to what it is, then run again"


@dataclass(frozen=True)
class NodeLost(Reason):
    """A node ended, or the cluster stopped answering, while the load was on it: the store failed, and has no figure."""

    code = "node_lost"
    fault = "store"
    loss: str

    def _cause(self) -> str:
        return f"the store did not survive the load: {self.loss}"

    def _remedy(self) -> str:
        return "see the node's log; give it more memory, or less load"


def fault_of(code: str) -> Fault:
    """Return whose fault a recorded reason is; the generator's where this version does not know the code."""
    known = _by_code().get(code)
    return known.fault if known else "generator"


def spoils(code: str) -> bool:
    """Return whether a recorded reason takes a run out of the figures; also where the code is not known."""
    known = _by_code().get(code)
    return known is None or known.spoils


@functools.cache
def _by_code() -> dict[str, type[Reason]]:
    found: dict[str, type[Reason]] = {}
    below = list(Reason.__subclasses__())
    while below:
        kind = below.pop()
        below += kind.__subclasses__()
        if "code" in vars(kind):
            found[kind.code] = kind
    return found
