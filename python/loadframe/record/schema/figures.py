"""Figures in a run's summary: of operations, of sources of events, and of events in the store."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from loadframe.record.schema.model import doc_metadata


@dataclass(frozen=True, slots=True)
class Latency:
    """Response or service times of requests, s. All are None without requests."""

    count: int = field(default=0, metadata=doc_metadata("requests in the histogram", "requests"))
    mean: float | None = field(
        default=None, metadata=doc_metadata("mean; null, like the percentiles, without requests", "s", null=True)
    )
    p50: float | None = field(default=None, metadata=doc_metadata("median", "s", null=True))
    p90: float | None = field(default=None, metadata=doc_metadata("90th percentile", "s", null=True))
    p99: float | None = field(default=None, metadata=doc_metadata("99th percentile", "s", null=True))
    p999: float | None = field(default=None, metadata=doc_metadata("99.9th percentile", "s", null=True))
    max: float | None = field(default=None, metadata=doc_metadata("maximum", "s", null=True))

    def at(self, name: str) -> float | None:
        """Return the figure `name`, s: `mean`, `p50`, `p90`, `p99`, `p999` or `max`; None if it was not recorded."""
        value: float | None = getattr(self, name)
        return value


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures that operations and their parts have in common. Older runs lack `failure` and `all`."""

    requests: int = field(
        metadata=doc_metadata("requests that were scheduled in the measured window and done", "requests")
    )
    successes: int = field(metadata=doc_metadata("successful requests", "requests"))
    documents: int = field(metadata=doc_metadata("documents that the store wrote or returned", "documents"))
    errors: Mapping[str, int] = field(metadata=doc_metadata("failed requests, by error class", "requests", of="CLASS"))
    throughput: float = field(
        metadata=doc_metadata(
            "successes answered in the measured window, per second of the window in which their stream ran", "1/s"
        )
    )
    documents_per_second: float = field(
        metadata=doc_metadata("documents answered in the measured window, per second as for `throughput`", "1/s")
    )
    response: Latency = field(metadata=doc_metadata("done - scheduled, successes: "))
    service: Latency = field(metadata=doc_metadata("done - sent, successes: "))
    failure: Latency | None = field(default=None, metadata=doc_metadata("done - scheduled, failures: "))
    all: Latency | None = field(
        default=None, metadata=doc_metadata("done - scheduled, with failures and waits at the end: ")
    )


@dataclass(frozen=True, slots=True)
class PartFigures(Figures):
    """Figures of a part of an operation, such as a page of a scroll."""

    response: Latency = field(metadata=doc_metadata("done - sent: "))
    service: Latency = field(metadata=doc_metadata("done - sent: "))
    failure: Latency | None = field(default=None, metadata=doc_metadata("done - sent: "))
    all: Latency | None = field(default=None, metadata=doc_metadata("done - sent: "))


@dataclass(frozen=True, slots=True)
class GrowthFigures:
    """Growth of an operation's mean response time with the number of documents, with the 95 % interval."""

    slope: float = field(metadata=doc_metadata("increase of the mean response time per 1,000 documents", "s"))
    low: float = field(metadata=doc_metadata("lower end of the slope's 95 % interval", "s"))
    high: float = field(metadata=doc_metadata("upper end of the slope's 95 % interval", "s"))
    begin: float = field(metadata=doc_metadata("documents at the start of the window", "documents"))
    end: float = field(metadata=doc_metadata("documents at the end of the window", "documents"))
    held: bool = field(
        metadata=doc_metadata(
            "true: documents in the collections; false: documents written, which may have replaced existing ones"
        )
    )
    all: bool = field(metadata=doc_metadata("whether documents from before the run are counted; false if unknown"))
    apart: bool = field(
        metadata=doc_metadata(
            "whether the effect of documents was separable from time; if false, the slope includes other changes over"
            " time"
        )
    )

    @property
    def grows(self) -> bool:
        """Whether response times grew with the documents: the whole 95 % interval of the slope is above 0."""
        return self.low > 0


@dataclass(frozen=True, slots=True)
class KernelTimes:
    """The generator's overhead in the service times of an operation, by the kernel's timestamps.

    The kernel stamps the sending of a request and the arrival of the last byte of its answer. The corrected time is the
    time between both; the rest of the service time is overhead.
    """

    overhead: Latency = field(metadata=doc_metadata("the generator's part of the service time, successes: "))
    corrected: Latency = field(metadata=doc_metadata("service time without this part, successes: "))
    without: int = field(
        metadata=doc_metadata("successes without timestamps, which `overhead` and `corrected` omit", "requests")
    )
    receive_only: int = field(
        metadata=doc_metadata(
            "successes with the answer's timestamp only: their overhead omits the sending", "requests"
        )
    )


@dataclass(frozen=True, slots=True)
class FailureMessage:
    """Failures of one operation with the same message, ignoring numbers in it."""

    error: str = field(metadata=doc_metadata("error class of the failures"))
    message: str = field(metadata=doc_metadata("message of the first of these failures"))
    count: int = field(metadata=doc_metadata("failed requests of the measured window with that message", "requests"))
    status: int | None = field(
        default=None, metadata=doc_metadata("status of the answers; null for a protocol without status", null=True)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationFigures(Figures):
    """Figures of an operation in a phase's measured window."""

    dropped: int = field(
        metadata=doc_metadata("due requests that were not sent, because too many were in flight", "requests")
    )
    in_flight_at_end: int = field(
        metadata=doc_metadata("requests without an answer at the end of the phase", "requests")
    )
    inherited: int = field(
        default=0, metadata=doc_metadata("successes of the measured window that were due in the warm-up", "requests")
    )
    reconnects: int = field(
        default=0,
        metadata=doc_metadata("connections that were lost and reopened for requests of the window", "connections"),
    )
    retries: int = field(
        default=0,
        metadata=doc_metadata("attempts after the first for requests of the window", "requests"),
    )
    messages: tuple[FailureMessage, ...] = field(default=(), metadata=doc_metadata("", absent=True))
    of_several: bool = field(
        default=False,
        metadata=doc_metadata("whether it aggregates requests that have entries of their own; excluded from sums"),
    )
    recall: float | None = field(
        default=None,
        metadata=doc_metadata(
            "share (0 to 1) of the expected documents that were found; only if the workload asserts it",
            absent=True,
        ),
    )
    resolution: float | None = field(
        default=None,
        metadata=doc_metadata(
            "poll interval of visibility probes, the resolution of visibility latency; only for operations with probes",
            "s",
            absent=True,
        ),
    )
    growth: GrowthFigures | None = field(default=None, metadata=doc_metadata("", absent=True))
    kernel_times: KernelTimes | None = field(default=None, metadata=doc_metadata("", absent=True))
    parts: Mapping[str, PartFigures] = field(
        default_factory=dict, metadata=doc_metadata("this part of the operation: ", of="PART")
    )

    @property
    def due(self) -> int:
        """Number of requests due in the window: done, dropped or unanswered."""
        return self.requests + self.dropped + self.in_flight_at_end


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFigures:
    """Figures of a source of events in a phase, including its warm-up.

    A line is an accepted event, a dropped event or a dead letter. An accepted event is indexed, rejected (also a dead
    letter) or left over.
    """

    lines: int = field(metadata=doc_metadata("received lines", "lines"))
    dropped: int = field(
        default=0, metadata=doc_metadata("events that `drop_event` of the transformation dropped", "events")
    )
    accepted: int = field(metadata=doc_metadata("events accepted for indexing", "events"))
    indexed: int = field(metadata=doc_metadata("accepted events that the store acknowledged", "events"))
    left_over: int = field(
        default=0,
        metadata=doc_metadata("accepted events that the store neither acknowledged nor rejected by the end", "events"),
    )
    sampled: int | None = field(
        default=None,
        metadata=doc_metadata("events with a visibility probe; only if probes were configured", "events", absent=True),
    )
    seen: int | None = field(
        default=None, metadata=doc_metadata("probed events that a query returned in time", "events", absent=True)
    )
    unseen: int | None = field(
        default=None,
        metadata=doc_metadata(
            "probed events that no query returned in time; the end of the phase stopped the probes of the remaining"
            " events",
            "events",
            absent=True,
        ),
    )
    dead_letters: Mapping[str, int] = field(
        default_factory=dict,
        metadata=doc_metadata("invalid lines, and events that the store rejected, by reason", "lines", of="REASON"),
    )
    kept: str | None = field(
        default=None, metadata=doc_metadata("file of this folder with the dead letters", absent=True)
    )
    kinds: Mapping[str, int] = field(
        default_factory=dict,
        metadata=doc_metadata("events that the store acknowledged, by kind", "events", of="KIND"),
    )
    spilled_events: int = field(
        default=0, metadata=doc_metadata("events spilled to disk because memory was full", "events")
    )
    spilled_bytes: int = field(default=0, metadata=doc_metadata("bytes written for spilled events", "B"))
    most_spilled_bytes: int = field(default=0, metadata=doc_metadata("maximum of spilled bytes on disk at a time", "B"))
    held_back: bool | None = field(
        default=None,
        metadata=doc_metadata(
            "whether senders may have waited, because of `buffer_full` or an `unread_share` over 10 %; null if unknown",
            null=True,
        ),
    )
    buffer_full: bool | None = field(
        default=None,
        metadata=doc_metadata(
            "whether reading may have paused because buffer and spill were full; null if unknown", null=True
        ),
    )
    unread_share: float | None = field(
        default=None,
        metadata=doc_metadata(
            "share of the seconds with lines in which a connection or pipe held 32 KiB or more unread; null if unknown",
            "share",
            null=True,
        ),
    )
    reader_cpu_share: float | None = field(
        default=None,
        metadata=doc_metadata(
            "mean CPU share of the busiest thread that read the source, in the measured window; null if unknown",
            "share",
            null=True,
        ),
    )
    connections: int = field(default=0, metadata=doc_metadata("connections that sent lines", "connections"))
    bytes: int = field(default=0, metadata=doc_metadata("received bytes", "B"))
    address: str | None = field(
        default=None, metadata=doc_metadata("the address on which the source listened", absent=True)
    )
    trouble: tuple[str, ...] = field(
        default=(), metadata=doc_metadata("other problems, such as dead letters that could not be written", absent=True)
    )

    @property
    def dead(self) -> int:
        """Number of dead letters, all reasons together."""
        return sum(self.dead_letters.values())


#: Labels of missing events. Each allows for more causes than the label before it.
MISSING_LABELS = ("missing", "missing or duplicate", "missing or stored before")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEvents:
    """The events of the run's sources in a collection after the last phase.

    An event is in the store if a document has the field of its kind. Acknowledged events that are not in the store are
    missing: the store lost them, or they were duplicates, or the store had them before the run.
    """

    collection: str = field(metadata=doc_metadata("the collection; `NAME-*` are the daily collections of NAME"))
    documents: int = field(metadata=doc_metadata("all documents in it", "documents"))
    events: Mapping[str, int] = field(metadata=doc_metadata("increase of the events of this kind", "events", of="KIND"))
    indexed: int = field(metadata=doc_metadata("acknowledged by the store in all phases of the run", "events"))
    unique: bool = field(
        metadata=doc_metadata(
            "whether duplicates are impossible, because the generator made all events and the store had none before"
        )
    )
    before: int | None = field(
        default=None,
        metadata=doc_metadata("events of these kinds in it before the run; null in older runs", "events", null=True),
    )
    acknowledged_at_kill: int | None = field(
        default=None,
        metadata=doc_metadata(
            "events acknowledged before the first kill of a node, to 0.2 s; only if a node was killed",
            "events",
            absent=True,
        ),
    )

    @property
    def missing(self) -> int:
        """Number of acknowledged events of all kinds that were not added to the store, at least 0."""
        return max(self.indexed - sum(self.events.values()), 0)

    @property
    def missing_label(self) -> str:
        """Label of the missing events: `missing` if `unique`, since they are then lost.

        Otherwise `missing or stored before` if `before` is above 0, and `missing or duplicate` if it is 0 or None.
        """
        if self.unique:
            return MISSING_LABELS[0]
        return MISSING_LABELS[2] if self.before else MISSING_LABELS[1]
