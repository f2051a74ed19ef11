"""Rules about the load generator, its ranks and its sources of events."""

from abc import abstractmethod
from dataclasses import dataclass

from loadframe.analyze.verdict.reason import Reason, StoreResult
from loadframe.base.units import format_count, format_duration, format_share

#: A worker that is busier than this is late at its next burst, and its own speed is measured instead of the store's.
CPU_LIMIT = 0.8
#: A worker that waits for a core for a larger share of the time has less of a core than `CPU_LIMIT`. The effect of
#: shorter waits on response times shows in lateness and lag.
WAITED_LIMIT = 0.2
#: Where the hypervisor takes the processors for more than 1 % of the time, the 99th percentile shows it.
STOLEN_SHARE = 0.01
#: Where the generator is throttled for more than 1 % of the time, the 99th percentile shows it.
THROTTLED_LIMIT = 0.01
#: Above this, queues build up in front of an interface at every burst.
NETWORK_LIMIT = 0.8
#: A share of the requests per second that one core managed in calibration.
CEILING_LIMIT = 0.8
#: Lateness adds to response times as if it were the store's. The limit is the larger of these two: a time in s, and a
#: share of the 99th percentile of response times. Below the first lies what an idle machine shows.
LATENESS_LIMIT = 1e-3
LATENESS_SHARE = 0.05
#: A stall of this length (s) takes half of a one-second interval: what that interval shows is the generator's doing.
STALL_LIMIT = 0.5
#: A closed load that stalls for a share of the time falls short by that share, whatever its response times are.
AWAY_LIMIT = 0.02


def lateness_limit(response: float | None) -> float:
    """Return how late (s) requests may be sent or answers be read, by the p99 of response times (s; None: unknown)."""
    return max(LATENESS_LIMIT, LATENESS_SHARE * (response or 0.0))


def _limit_words(response: float | None) -> str:
    return (
        f"limit {format_duration(lateness_limit(response))}: the larger of {format_duration(LATENESS_LIMIT)} and"
        f" {format_share(LATENESS_SHARE)} of the response time's"
    )


@dataclass(frozen=True)
class Broke(Reason):
    """A part of the generator died or was killed, so the load ended early and was not what was asked for."""

    code = "generator_failed"
    what: str

    def _cause(self) -> str:
        return self.what

    def _remedy(self) -> str:
        return "run it again; what was recorded until then is shown"


@dataclass(frozen=True)
class GeneratorBusy(Reason):
    """A worker used most of its core."""

    code = "generator_cpu"
    effect = "saturated"
    phase: str
    share: float
    threads: int
    #: Which rank, where several load: ` on rank 3 (m2)`.
    place: str = ""

    def _cause(self) -> str:
        return (
            f"in phase {self.phase}{self.place} a generator thread used {format_share(self.share)} of its core"
            f" (limit {format_share(CPU_LIMIT)})"
        )

    def _remedy(self) -> str:
        return f"give the generator more threads (it had {self.threads}) or a separate machine, or ask for less load"


@dataclass(frozen=True)
class Starved(Reason):
    """A worker was ready to run and had no core."""

    code = "starved"
    effect = "delayed"
    phase: str
    share: float
    #: Which rank, where several load: ` on rank 3 (m2)`.
    place: str = ""

    def _cause(self) -> str:
        return (
            f"in phase {self.phase}{self.place} a generator thread waited for a core for"
            f" {format_share(self.share)} of the time (limit {format_share(WAITED_LIMIT)})"
            " because other processes used it"
        )

    def _remedy(self) -> str:
        return "stop other programs on this machine, or reserve cores for the generator"


@dataclass(frozen=True)
class Throttled(Reason):
    """The control group of the generator had exhausted its CPU quota."""

    code = "throttled"
    effect = "delayed"
    phase: str
    share: float
    #: Which rank, where several load: ` on rank 3 (m2)`.
    place: str = ""

    def _cause(self) -> str:
        return (
            f"in phase {self.phase}{self.place} the generator was throttled for {format_share(self.share)} of the time:"
            f" its control group had exhausted its CPU quota (limit {format_share(THROTTLED_LIMIT)})"
        )

    def _remedy(self) -> str:
        return "raise the CPU quota of the container or job that loadframe runs in, or run it outside"


@dataclass(frozen=True)
class NetworkBusy(Reason):
    """A network interface was near its limit."""

    code = "network"
    effect = "saturated"
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
    """The rate was near the highest that the generator itself can reach."""

    code = "generator_ceiling"
    effect = "saturated"
    phase: str
    share: float
    threads: int

    def _cause(self) -> str:
        return (
            f"in phase {self.phase} each generator thread sent {format_share(self.share)} of the highest rate"
            f" that calibration measured on this machine (limit {format_share(CEILING_LIMIT)})"
        )

    def _remedy(self) -> str:
        return f"give the generator more threads (it had {self.threads}) or more machines, or ask for less load"


@dataclass(frozen=True)
class Delayed(Reason):
    """The generator was late; `stolen` is the share of processor time that the hypervisor took."""

    phase: str
    stolen: float

    def _cause(self) -> str:
        taken = (
            f"; the hypervisor took {format_share(self.stolen)} of this machine's processor time"
            if self._shared()
            else ""
        )
        return self._delay() + taken

    def _remedy(self) -> str:
        if self._shared():
            return "measure when other guests of this host are idle, or on a machine with dedicated processors"
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
    effect = "late"
    lateness: float
    response: float | None
    #: Which rank, where several load: ` on rank 3 (m2)`.
    place: str = ""

    def _delay(self) -> str:
        share = f", {format_share(self.lateness / self.response)} of the response time's" if self.response else ""
        return (
            f"in phase {self.phase}{self.place} requests were sent late: 99th percentile"
            f" {format_duration(self.lateness)}{share} ({_limit_words(self.response)})"
        )

    def _cores(self) -> str:
        return "reserve cores for the generator (--cores), give it more threads, or ask for a lower rate"


@dataclass(frozen=True)
class LoopLag(Delayed):
    """The generator's event loops read answers late."""

    code = "loop_lag"
    effect = "delayed"
    lag: float
    response: float
    #: Which rank, where several load: ` on rank 3 (m2)`.
    place: str = ""

    def _delay(self) -> str:
        return (
            f"in phase {self.phase}{self.place} the generator's event loops lagged: 99th percentile"
            f" {format_duration(self.lag)}, {format_share(self.lag / self.response)} of the response time's"
            f" ({_limit_words(self.response)})"
        )

    def _cores(self) -> str:
        return (
            "other processes used the generator's cores: confine the nodes to other cores (--cores), or stop other"
            " programs"
        )


@dataclass(frozen=True)
class Stalled(Delayed):
    """The generator stalled: once for long, or for much of the time in all."""

    code = "stalled"
    effect = "delayed"
    longest: float
    away: float
    #: Which rank, where several load: ` on rank 3 (m2)`.
    place: str = ""

    def _delay(self) -> str:
        return (
            f"in phase {self.phase}{self.place} the generator stalled for up to {format_duration(self.longest)} at a"
            f" time, and for {format_share(self.away, 1)} of the time in all"
            f" (limits {format_duration(STALL_LIMIT)} and {format_share(AWAY_LIMIT)})"
        )

    def _cores(self) -> str:
        return (
            "reserve cores for the generator (--cores), and look for what stops it: a suspended process or machine,"
            " swapping, a debugger"
        )


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
