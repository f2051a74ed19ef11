"""summary.json: what came of a run, per phase and operation, and whether it can be relied on."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from loadframe.record.schema.model import as_document, told
from loadframe.record.schema.source import SourceFigures, StoredEvents

#: A level that stays, or stages through which it goes.
Level = float | Mapping[str, Any]


#: Ends of phases are sums of floats, s.
_ROUNDING = 1e-6


def whole_seconds(warmup: float, measured: float) -> range:
    """Return the whole seconds of a measured window (s): one that an end cuts short would look like a dip."""
    return range(math.ceil(warmup - _ROUNDING), math.floor(warmup + measured + _ROUNDING))


@dataclass(frozen=True, slots=True)
class Latency:
    """Response or service times of some requests, s; None where there were no requests."""

    count: int = field(default=0, metadata=told("in the histogram", "requests"))
    mean: float | None = field(
        default=None, metadata=told("mean; null when the histogram is empty, as are the others", "s", null=True)
    )
    p50: float | None = field(default=None, metadata=told("median", "s", null=True))
    p90: float | None = field(default=None, metadata=told("90th percentile", "s", null=True))
    p99: float | None = field(default=None, metadata=told("99th percentile", "s", null=True))
    p999: float | None = field(default=None, metadata=told("99.9th percentile", "s", null=True))
    max: float | None = field(default=None, metadata=told("greatest", "s", null=True))

    def at(self, name: str) -> float | None:
        """Return the figure of this name: `mean`, `p50`, `p90`, `p99`, `p999` or `max`."""
        value: float | None = getattr(self, name)
        return value


@dataclass(frozen=True, slots=True)
class Figures:
    """What an operation and a part of one have in common. Older runs lack `failure` and `all`."""

    requests: int = field(metadata=told("scheduled in the measured window and done", "requests"))
    successes: int = field(metadata=told("of these, judged good", "requests"))
    documents: int = field(metadata=told("that the store took or returned", "documents"))
    errors: Mapping[str, int] = field(metadata=told("failed, by error class", "requests", of="CLASS"))
    throughput: float = field(
        metadata=told(
            "successes that were answered in the measured window, per second for which their stream ran in it", "1/s"
        )
    )
    documents_per_second: float = field(
        metadata=told("documents that were answered in the measured window, by the same seconds", "1/s")
    )
    response: Latency = field(metadata=told("done - scheduled, successes: "))
    service: Latency = field(metadata=told("done - sent, successes: "))
    failure: Latency | None = field(default=None, metadata=told("done - scheduled, failures: "))
    all: Latency | None = field(default=None, metadata=told("done - scheduled, with failures: "))


@dataclass(frozen=True, slots=True)
class PartFigures(Figures):
    """The figures of a part of an operation, such as a page of a scroll."""

    response: Latency = field(metadata=told("done - sent: "))
    service: Latency = field(metadata=told("done - sent: "))
    failure: Latency | None = field(default=None, metadata=told("done - sent: "))
    all: Latency | None = field(default=None, metadata=told("done - sent: "))


@dataclass(frozen=True, slots=True)
class GrowthFigures:
    """How an operation's mean response time grew with the documents, with the 95 % interval."""

    slope: float = field(metadata=told("what 1,000 documents more added to the mean response time", "s"))
    low: float = field(metadata=told("lower end of its 95 % interval", "s"))
    high: float = field(metadata=told("upper end of the same", "s"))
    begin: float = field(metadata=told("documents when the window began", "documents"))
    end: float = field(metadata=told("documents when it was over", "documents"))
    held: bool = field(
        metadata=told(
            "whether these are documents that the collections held; if not, those that were written, of which only the"
            " store can tell how many were new"
        )
    )
    all: bool = field(
        metadata=told("whether documents from before the run are counted; if not, it is not known how many there were")
    )
    apart: bool = field(
        metadata=told(
            "whether documents could be distinguished from time; if not, whatever else changed with time is in the"
            " slope, too"
        )
    )

    @property
    def grows(self) -> bool:
        """Whether response times grew with the documents, beyond noise."""
        return self.low > 0


@dataclass(frozen=True, slots=True)
class FailureMessage:
    """Failures of one operation with the same message, apart from numbers in it."""

    error: str = field(metadata=told("the class of the failures"))
    message: str = field(metadata=told("the message of the first of them"))
    count: int = field(metadata=told("failed requests of the measured window with that message", "requests"))
    status: int | None = field(
        default=None, metadata=told("the status of the answers; null where the protocol has none", null=True)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationFigures(Figures):
    """The figures of an operation in a phase's measured window."""

    dropped: int = field(metadata=told("never sent, since too many were in flight", "requests"))
    in_flight_at_end: int = field(metadata=told("sent and not answered when the phase was over", "requests"))
    inherited: int = field(
        default=0, metadata=told("due in the warm-up and answered well in the measured window", "requests")
    )
    reconnects: int = field(
        default=0,
        metadata=told("connections that were lost and opened again for requests of the window", "connections"),
    )
    retries: int = field(
        default=0,
        metadata=told("attempts beyond the first of requests of the window, where `retries` allows them", "requests"),
    )
    messages: tuple[FailureMessage, ...] = field(default=(), metadata=told("", absent=True))
    of_several: bool = field(
        default=False,
        metadata=told("whether it stands for several requests, which are recorded for themselves; no sum counts it"),
    )
    recall: float | None = field(
        default=None,
        metadata=told(
            "share (0 to 1) of the documents that should have been found that were; only where it is asserted",
            absent=True,
        ),
    )
    resolution: float | None = field(
        default=None,
        metadata=told(
            "pause between two looks for what was written, so that its visibility is known no finer; only of operations"
            " that look for it",
            "s",
            absent=True,
        ),
    )
    growth: GrowthFigures | None = field(default=None, metadata=told("", absent=True))
    parts: Mapping[str, PartFigures] = field(
        default_factory=dict, metadata=told("of this part of the operation: ", of="PART")
    )

    @property
    def due(self) -> int:
        """The requests that were due in the window: done, dropped, or without an answer at its end."""
        return self.requests + self.dropped + self.in_flight_at_end


@dataclass(frozen=True, slots=True)
class StreamSummary:
    """A stream: its pacing as plans have it, and for how long it ran. Older runs do not say the latter."""

    name: str = field(metadata=told("the stream's name"))
    pacing: Mapping[str, Any] = field(
        metadata=told(
            "closed (clients, think time), open (rate, arrivals), users (users, clients) or source (source, workers)",
            below=True,
        )
    )
    measured: float | None = field(
        default=None, metadata=told("of the window in which the stream ran; rates are per second of it", "s")
    )
    ran_out: bool = field(default=False, metadata=told("whether it ended before its time, having nothing left to send"))

    def __post_init__(self) -> None:
        """Refuse a pacing of no known kind, with ValueError."""
        if not any(isinstance(self.pacing.get(kind), Mapping) for kind in ("open", "closed", "users", "source")):
            raise ValueError("a pacing is `open`, `closed`, `users` or `source`")

    @property
    def is_open(self) -> bool:
        """Whether requests are due at instants that do not depend on the answers before them."""
        return "open" in self.pacing or self.source is not None

    @property
    def source(self) -> str | None:
        """The source whose events make its requests; None of other streams."""
        return str(self.pacing["source"]["source"]) if "source" in self.pacing else None

    @property
    def workers(self) -> int:
        """The connections that take the events of its source in; 0 of other streams."""
        return int(self.pacing["source"]["workers"]) if "source" in self.pacing else 0

    @property
    def rate(self) -> Level | None:
        """The rate of open pacing, 1/s, or the stages through which it goes; None for clients, and for events."""
        return self.pacing["open"]["rate"] if "open" in self.pacing else None

    @property
    def arrivals(self) -> str | None:
        """How requests of open pacing are spaced, `constant` or `poisson`; None for clients and events."""
        return str(self.pacing["open"].get("arrivals", "constant")) if "open" in self.pacing else None

    @property
    def clients(self) -> int | Mapping[str, Any] | None:
        """The number of clients, or the stages through which it goes; None for open pacing."""
        return None if self.is_open else self._closed["clients"]

    @property
    def users(self) -> int | None:
        """The number of users who share the clients; None where each client is one."""
        return int(self.pacing["users"]["users"]) if "users" in self.pacing else None

    @property
    def _closed(self) -> Mapping[str, Any]:
        closed: Mapping[str, Any] = self.pacing["users" if "users" in self.pacing else "closed"]
        return closed

    @property
    def think_time(self) -> Level:
        """What clients wait between an answer and the next request, s; 0 for open pacing."""
        return 0.0 if self.is_open else self._closed.get("think_time", 0.0)

    @property
    def has_stages(self) -> bool:
        """Whether the load itself changes: a rate or a number of clients in stages."""
        return isinstance(self.rate if self.is_open else self.clients, Mapping)


@dataclass(frozen=True, slots=True)
class Clock:
    """The wall clock beside the monotonic one."""

    started: float = field(metadata=told("the same instant, by the wall clock", "s since 1970, UTC"))
    uncertainty: float = field(metadata=told("by how much that may be off: the clocks cannot be read at once", "s"))
    drift: float = field(metadata=told("what the wall clock gained on the monotonic one during the phase", "s"))


@dataclass(frozen=True, slots=True)
class SetAside:
    """Lines of a corpus that are not documents."""

    corpus: str = field(metadata=told("a corpus with lines that are not documents and were not sent"))
    lines: int = field(metadata=told("how many; a corpus that only a part is read of may have more", "lines"))
    kept: tuple[str, ...] = field(default=(), metadata=told("a file with these lines, their numbers and what is wrong"))


@dataclass(frozen=True, slots=True, kw_only=True)
class RankFigures:
    """What one of several ranks did in a phase, and saw of itself in the measured window."""

    rank: int = field(metadata=told("a rank that took part"))
    machine: str | None = field(default=None, metadata=told("its machine"))
    requests: int = field(default=0, metadata=told("of the measured window that it made", "requests"))
    successes: int = field(default=0, metadata=told("of these, judged good", "requests"))
    began_late: float = field(default=0.0, metadata=told("after the instant at which all were to begin", "s"))
    last_done: float = field(default=0.0, metadata=told("its last answer, since the load began", "s"))
    cpu_share: float = field(default=0.0, metadata=told("greatest mean CPU share of one of its workers", "share"))
    cpu_share_peak: float = field(default=0.0, metadata=told("greatest CPU share of one in one second", "share"))
    waited_share: float = field(
        default=0.0, metadata=told("greatest mean share of time that one of its workers waited for a core", "share")
    )
    lateness_p99: float | None = field(
        default=None, metadata=told("99th percentile of how late it handled due requests", "s", null=True)
    )
    lag_p99: float | None = field(
        default=None, metadata=told("99th percentile of its event loops' lag", "s", null=True)
    )
    longest_stall: float | None = field(default=None, metadata=told("greatest lag of its event loops", "s", null=True))
    away_share: float = field(
        default=0.0,
        metadata=told("greatest mean share of time that an event loop spent in stalls of 50 ms or more", "share"),
    )
    clock_offset: float = field(
        default=0.0, metadata=told("its monotonic clock minus that of rank 0, before the load", "s")
    )
    clock_uncertainty: float = field(
        default=0.0, metadata=told("by how much that may be off; 0 on the machine of rank 0, whose clock it reads", "s")
    )
    clock_change: float = field(default=0.0, metadata=told("by how much that offset was greater after the load", "s"))


@dataclass(frozen=True, slots=True)
class MachineFigures:
    """What ranks saw of a machine that they ran on."""

    machine: str = field(metadata=told("a machine of the ranks"))
    stolen_share: float | None = field(
        default=None,
        metadata=told("of all its processors, taken by the hypervisor during the phase", "share", null=True),
    )
    yardstick: tuple[float, ...] = field(
        default=(), metadata=told("CPU time of a fixed computation there before and after the load", "s")
    )
    throttled_share: float | None = field(
        default=None,
        metadata=told("of the phase's time, for which its first rank was throttled by a CPU quota", "share", null=True),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseSummary:
    """A phase: when its load ran, how it was paced, the figures of its operations in the measured window."""

    name: str = field(metadata=told("the phase's name"))
    prepares: bool = field(
        default=False, metadata=told("whether the phase only prepares the measured ones, as loading data does")
    )
    start: float = field(metadata=told("when its load began, since the run began: the zero of its seconds", "s"))
    clock: Clock | None = field(default=None, metadata=told(""))
    warmup: float = field(metadata=told("load before the measured window", "s"))
    duration: float = field(metadata=told("the measured window", "s"))
    first_failure: float | None = field(
        default=None,
        metadata=told(
            "start of the second in which a request failed first, since its load began; null if none did",
            "s",
            null=True,
        ),
    )
    #: None in older runs.
    setup: Latency | None = field(
        default=None,
        metadata=told(
            "setup of the target's connections (TCP, TLS, authentication), warm-up included; part of the response time"
            " of requests that wait for it, never of the service time: "
        ),
    )
    streams: tuple[StreamSummary, ...] = field(metadata=told(""))
    set_aside: tuple[SetAside, ...] = field(default=(), metadata=told(""))
    operations: Mapping[str, OperationFigures] = field(metadata=told("", of="OPERATION"))
    sources: Mapping[str, SourceFigures] = field(
        default_factory=dict, metadata=told("of this source of events: ", of="SOURCE", absent=True)
    )
    ranks: tuple[RankFigures, ...] = field(default=(), metadata=told("", absent=True))
    machines: tuple[MachineFigures, ...] = field(default=(), metadata=told("", absent=True))

    @property
    def begin(self) -> float:
        """When the measured window began, s since the run began."""
        return self.start + self.warmup

    @property
    def single(self) -> Mapping[str, OperationFigures]:
        """The operations whose figures may be added up: those that do not stand for several others."""
        return {name: operation for name, operation in self.operations.items() if not operation.of_several}

    @property
    def throughput(self) -> float:
        """Successes per second, all operations together."""
        return sum(operation.throughput for operation in self.single.values())

    @property
    def documents_per_second(self) -> float:
        """Documents that the store took or returned per second, all operations together."""
        return sum(operation.documents_per_second for operation in self.single.values())

    @property
    def whole_seconds(self) -> range:
        """The whole seconds of the measured window, since the phase began."""
        return whole_seconds(self.warmup, self.duration)

    @property
    def has_open_load(self) -> bool:
        """Whether any of its streams has open pacing."""
        return any(stream.is_open for stream in self.streams)


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratorFigures:
    """What the generator saw of itself: shares of time of its busiest worker (0..1), lateness and lag (s).

    What was not recorded, or does not apply, is None.
    """

    threads: int = field(metadata=told("workers", "threads"))
    cpu_share: float = field(metadata=told("greatest mean CPU share of a worker in the measured window; 0..1", "share"))
    cpu_share_peak: float = field(metadata=told("greatest CPU share of a worker in one second", "share"))
    waited_share: float = field(metadata=told("greatest mean share of time that a worker waited for a core", "share"))
    throttled_share: float | None = field(
        default=None,
        metadata=told(
            "time for which the control group of the generator was throttled by its CPU quota; null without control"
            " groups",
            "share",
            null=True,
        ),
    )
    stolen_share: float | None = field(
        default=None,
        metadata=told(
            "of all processors, taken by the hypervisor in the measured window; null where it was not counted",
            "share",
            null=True,
        ),
    )
    network_share: float | None = field(
        default=None,
        metadata=told(
            "of the speed of this machine's busiest interface; null where no speed is known", "share", null=True
        ),
    )
    ceiling_share: float | None = field(
        default=None,
        metadata=told(
            "requests per second and worker over `generator.ceiling` of the manifest; null without calibration",
            "share",
            null=True,
        ),
    )
    lateness_p99: float | None = field(
        default=None, metadata=told("99th percentile of how late clients handled due requests", "s", null=True)
    )
    lag_p99: float | None = field(
        default=None, metadata=told("99th percentile of the event loop's lag", "s", null=True)
    )
    longest_stall: float | None = field(
        default=None, metadata=told("greatest lag: the longest stall of an event loop", "s", null=True)
    )
    away_share: float | None = field(
        default=None,
        metadata=told(
            "greatest mean share of time that a worker's event loop spent in stalls of 50 ms or more",
            "share",
            null=True,
        ),
    )
    achieved: float | None = field(
        default=None,
        metadata=told("achieved over offered rate; null for closed pacing and short windows", "share", null=True),
    )


@dataclass(frozen=True, slots=True)
class RecordedReason:
    """A reason for which a run is invalid, as it was recorded; a later version may know other codes."""

    code: str = field(metadata=told("which reason it is"))
    cause: str = field(metadata=told("what was seen, with its figures"))
    remedy: str = field(metadata=told("what to do about it"))
    phase: str | None = field(
        default=None, metadata=told("the phase that it is about; absent where it is about the whole run", absent=True)
    )


@dataclass(frozen=True, slots=True)
class RecordedFigure:
    """How well a figure of a phase, or the times of one of its operations, were measured."""

    phase: str = field(metadata=told("a phase that was measured"))
    figure: str = field(
        metadata=told(
            "`throughput`, `documents` and `errors` of the phase; `response`, `service` and `all` (response times with"
            " failures) of an operation"
        )
    )
    state: str = field(metadata=told("`good`, `bounded` (by `low` and `high`) or `unknown`"))
    operation: str | None = field(
        default=None, metadata=told("the operation, or `OPERATION.PART`, whose times these are", absent=True)
    )
    reasons: tuple[str, ...] = field(
        default=(), metadata=told("codes of the reasons that affect the figure", absent=True)
    )
    low: Mapping[str, float] = field(
        default_factory=dict,
        metadata=told(
            "lower bound, by statistic (`value`, 1/s, or `mean`, `p50`, ... as in the operation's entry, s)",
            "1/s or s",
            of="STATISTIC",
            absent=True,
        ),
    )
    high: Mapping[str, float] = field(
        default_factory=dict,
        metadata=told("upper bound; absent where there is none", "1/s or s", of="STATISTIC", absent=True),
    )


@dataclass(frozen=True, slots=True)
class RecordedVerdict:
    """Whether a run is valid, and why not."""

    valid: bool = field(metadata=told("whether the run is valid"))
    reasons: tuple[RecordedReason, ...] = field(default=(), metadata=told(""))
    not_judged: tuple[str, ...] = field(default=(), metadata=told("what could not be judged, and why"))
    explained: tuple[str, ...] = field(
        default=(), metadata=told("what moved without being a reason against the run, since it is explained")
    )
    #: Empty in older runs; `analyze.figures` derives them from the reasons.
    figures: tuple[RecordedFigure, ...] = field(default=(), metadata=told("", absent=True))


@dataclass(frozen=True, slots=True)
class Summary:
    """A run's summary. One that failed before its load has no phases, no generator and no verdict."""

    status: str = field(metadata=told("`done`, `failed` or `interrupted`"))
    failure: str | None = field(default=None, metadata=told("what failed, when the status is `failed`", absent=True))
    fault: str | None = field(
        default=None, metadata=told("whose failure that was: `store`, `generator` or `unknown`", absent=True)
    )
    phases: tuple[PhaseSummary, ...] = field(default=(), metadata=told(""))
    stored: tuple[StoredEvents, ...] = field(default=(), metadata=told("", absent=True))
    generator: GeneratorFigures | None = field(default=None, metadata=told("", absent=True))
    verdict: RecordedVerdict | None = field(default=None, metadata=told("", absent=True))

    @property
    def measured(self) -> tuple[PhaseSummary, ...]:
        """The phases that were measured, without those that only prepare."""
        return tuple(phase for phase in self.phases if not phase.prepares)

    def as_dict(self) -> dict[str, Any]:
        """Return the summary as it is handed to `RunWriter.finish`."""
        document: dict[str, Any] = as_document(self)
        return document
