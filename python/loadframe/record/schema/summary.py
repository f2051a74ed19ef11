"""summary.json: a run's phases with their streams, ranks and window, the generator's figures, and the verdict."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from loadframe.record.schema.figures import (
    Latency,
    OperationFigures,
    SourceFigures,
    StoredEvents,
)
from loadframe.record.schema.model import as_document, doc_metadata

#: A constant level, or stages.
Level = float | Mapping[str, Any]


#: Tolerance for ends of phases, which are sums of floats, s.
_ROUNDING = 1e-6


def whole_seconds(warmup: float, measured: float) -> range:
    """Return the seconds that lie wholly in a measured window, numbered from 0 at the start of the load.

    The window begins after `warmup` s and lasts `measured` s. Seconds that its ends cut short would look like dips.
    """
    return range(math.ceil(warmup - _ROUNDING), math.floor(warmup + measured + _ROUNDING))


@dataclass(frozen=True, slots=True)
class StreamSummary:
    """A stream: its load model as in the plan, and its running time (None in older runs)."""

    name: str = field(metadata=doc_metadata("the stream's name"))
    pacing: Mapping[str, Any] = field(
        metadata=doc_metadata(
            "closed (clients, think time, pacing), open (rate, arrivals), users (users, clients, pacing) or source"
            " (source, workers)",
            below=True,
        )
    )
    measured: float | None = field(
        default=None,
        metadata=doc_metadata("time in the window in which the stream ran; rates are per second of it", "s"),
    )
    ran_out: bool = field(default=False, metadata=doc_metadata("whether it ended early, with nothing left to send"))
    iterations: int = field(
        default=0, metadata=doc_metadata("iterations with a pacing that the measured window covers", "iterations")
    )
    overruns: int = field(
        default=0, metadata=doc_metadata("of these, iterations that took longer than the pacing", "iterations")
    )
    group: int = field(
        default=1, metadata=doc_metadata("requests that each arrival of an open loop sends together", "requests")
    )

    def __post_init__(self) -> None:
        """Raise ValueError for an unknown load model."""
        if not any(isinstance(self.pacing.get(kind), Mapping) for kind in ("open", "closed", "users", "source")):
            raise ValueError("a pacing is `open`, `closed`, `users` or `source`")

    @property
    def is_open(self) -> bool:
        """Whether the due times of requests are independent of answers: an open loop or a source."""
        return "open" in self.pacing or self.source is not None

    @property
    def source(self) -> str | None:
        """The source of events that the stream ingests, or None for other streams."""
        return str(self.pacing["source"]["source"]) if "source" in self.pacing else None

    @property
    def workers(self) -> int:
        """Number of connections that ingest the events of its source; 0 for other streams."""
        return int(self.pacing["source"]["workers"]) if "source" in self.pacing else 0

    @property
    def rate(self) -> Level | None:
        """Arrivals of an open loop per second, or a mapping with their stages, or None for other streams."""
        return self.pacing["open"]["rate"] if "open" in self.pacing else None

    @property
    def arrivals(self) -> str | None:
        """Arrival process of an open loop, `constant` or `poisson`, or None for other streams."""
        return str(self.pacing["open"].get("arrivals", "constant")) if "open" in self.pacing else None

    @property
    def clients(self) -> int | Mapping[str, Any] | None:
        """The number of clients, or a mapping with its stages; None for an open loop or a source."""
        return None if self.is_open else self._closed["clients"]

    @property
    def users(self) -> int | None:
        """Number of users that share the clients; None for other streams."""
        return int(self.pacing["users"]["users"]) if "users" in self.pacing else None

    @property
    def _closed(self) -> Mapping[str, Any]:
        """The load model of a closed loop or of users; KeyError for other streams."""
        closed: Mapping[str, Any] = self.pacing["users" if "users" in self.pacing else "closed"]
        return closed

    @property
    def think_time(self) -> Level:
        """Time from an answer to the client's next request, s, or a mapping for random times; 0 for open loads."""
        return 0.0 if self.is_open else self._closed.get("think_time", 0.0)

    @property
    def pacing_time(self) -> float:
        """Time between the starts of a client's or user's iterations, s; 0 without pacing or for an open loop."""
        return 0.0 if self.is_open else float(self._closed.get("pacing", 0.0))

    @property
    def has_stages(self) -> bool:
        """Whether the rate or the number of clients changes in stages."""
        return isinstance(self.rate if self.is_open else self.clients, Mapping)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenWindow:
    """Choice of the measured window during the load. Keys of lengths that were fixed are null."""

    warmup_limit: float | None = field(
        default=None, metadata=doc_metadata("longest automatic warm-up; null if it was fixed", "s", null=True)
    )
    steady_from: float | None = field(
        default=None,
        metadata=doc_metadata(
            "start of steady state, since the load began; null if it was not reached", "s", null=True
        ),
    )
    queue_limit: float | None = field(
        default=None, metadata=doc_metadata("longest wait for an empty queue; null without one", "s", null=True)
    )
    queue_empty_at: float | None = field(
        default=None,
        metadata=doc_metadata(
            "when no request was in flight, since the load began; null if this was not reached", "s", null=True
        ),
    )
    precision: float | None = field(
        default=None,
        metadata=doc_metadata(
            "required half-width of intervals as a share of the figure; null if the length was fixed",
            "share",
            null=True,
        ),
    )
    reached: bool | None = field(
        default=None, metadata=doc_metadata("whether the precision was reached before the longest window", null=True)
    )
    widest: float | None = field(
        default=None, metadata=doc_metadata("largest half-width at the last look; null if unknown", "share", null=True)
    )
    outside: float | None = field(
        default=None,
        metadata=doc_metadata("probability beyond each end of the phase's intervals, corrected for looks", null=True),
    )
    throughput_low: float | None = field(
        default=None,
        metadata=doc_metadata("lower end of the interval of the phase's throughput at the last look", "1/s", null=True),
    )
    throughput_high: float | None = field(
        default=None,
        metadata=doc_metadata("upper end of the interval of the phase's throughput at the last look", "1/s", null=True),
    )


@dataclass(frozen=True, slots=True)
class StoppedBy:
    """Condition of `stop_when` that ended a phase early."""

    metric: str = field(metadata=doc_metadata("the metric of the condition that ended the phase early"))
    above: float = field(metadata=doc_metadata("its bound"))
    seconds: int = field(metadata=doc_metadata("for how long the metric was above it", "s"))


@dataclass(frozen=True, slots=True)
class Clock:
    """Wall clock of a phase, relative to the monotonic clock."""

    started: float = field(metadata=doc_metadata("start of the load by the wall clock", "s since 1970, UTC"))
    uncertainty: float = field(metadata=doc_metadata("maximum error, from reading two clocks one after the other", "s"))
    drift: float = field(metadata=doc_metadata("gain of the wall clock on the monotonic clock during the phase", "s"))


@dataclass(frozen=True, slots=True)
class SetAside:
    """Lines of a corpus that are not documents."""

    corpus: str = field(metadata=doc_metadata("a corpus with skipped lines (not documents)"))
    lines: int = field(metadata=doc_metadata("skipped lines in the part of the corpus that was read", "lines"))
    kept: tuple[str, ...] = field(
        default=(), metadata=doc_metadata("a file with these lines, their numbers and errors")
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RankFigures:
    """Figures of one of several ranks in a phase; shares and delays are for the measured window."""

    rank: int = field(metadata=doc_metadata("number of a rank"))
    machine: str | None = field(default=None, metadata=doc_metadata("its machine"))
    requests: int = field(default=0, metadata=doc_metadata("its requests in the measured window", "requests"))
    successes: int = field(
        default=0, metadata=doc_metadata("its successful requests in the measured window", "requests")
    )
    began_late: float = field(default=0.0, metadata=doc_metadata("delay of its start after the common start time", "s"))
    last_done: float = field(default=0.0, metadata=doc_metadata("its last answer, since the load began", "s"))
    cpu_share: float = field(default=0.0, metadata=doc_metadata("mean CPU share of its busiest worker", "share"))
    cpu_share_peak: float = field(
        default=0.0, metadata=doc_metadata("maximum CPU share of a worker in one second", "share")
    )
    waited_share: float = field(
        default=0.0,
        metadata=doc_metadata("mean share of time that a worker waited for a core, maximum of workers", "share"),
    )
    lateness_p99: float | None = field(
        default=None, metadata=doc_metadata("99th percentile of lateness of due requests", "s", null=True)
    )
    lag_p99: float | None = field(
        default=None, metadata=doc_metadata("99th percentile of event-loop lag", "s", null=True)
    )
    longest_stall: float | None = field(
        default=None, metadata=doc_metadata("maximum of event-loop lag", "s", null=True)
    )
    away_share: float = field(
        default=0.0,
        metadata=doc_metadata("mean share of time in event-loop stalls of 50 ms or more, maximum of workers", "share"),
    )
    clock_offset: float = field(
        default=0.0, metadata=doc_metadata("its monotonic clock minus the clock of rank 0, before the load", "s")
    )
    clock_uncertainty: float = field(
        default=0.0, metadata=doc_metadata("maximum error of the offset; 0 on the machine of rank 0", "s")
    )
    clock_change: float = field(default=0.0, metadata=doc_metadata("increase of the offset during the load", "s"))


@dataclass(frozen=True, slots=True)
class MachineFigures:
    """Figures of a machine that ranks ran on."""

    machine: str = field(metadata=doc_metadata("name of a machine with ranks"))
    stolen_share: float | None = field(
        default=None,
        metadata=doc_metadata("share of its CPU time stolen by the hypervisor during the phase", "share", null=True),
    )
    yardstick: tuple[float, ...] = field(
        default=(), metadata=doc_metadata("CPU time of a reference benchmark before and after the load", "s")
    )
    throttled_share: float | None = field(
        default=None,
        metadata=doc_metadata("share of the phase in which a CPU quota throttled its first rank", "share", null=True),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseSummary:
    """A phase: the time of its load, its load model, and its figures in the measured window."""

    name: str = field(metadata=doc_metadata("the phase's name"))
    prepares: bool = field(
        default=False,
        metadata=doc_metadata("whether the phase only prepares or checks measured phases; reports exclude its figures"),
    )
    start: float = field(
        metadata=doc_metadata("start of its load, since the run began; the origin of its seconds", "s")
    )
    clock: Clock | None = field(default=None, metadata=doc_metadata(""))
    warmup: float = field(metadata=doc_metadata("load before the measured window", "s"))
    duration: float = field(metadata=doc_metadata("the measured window", "s"))
    stopped_by: StoppedBy | None = field(default=None, metadata=doc_metadata("", absent=True))
    window: ChosenWindow | None = field(default=None, metadata=doc_metadata("", absent=True))
    backlog: int = field(
        default=0,
        metadata=doc_metadata(
            "requests of the warm-up in flight or queued at the start of the measured window", "requests"
        ),
    )
    backlog_age: float | None = field(
        default=None, metadata=doc_metadata("time since the oldest of them was due; null without one", "s", null=True)
    )
    first_failure: float | None = field(
        default=None,
        metadata=doc_metadata(
            "start of the second of the first failure, since its load began; null without failures",
            "s",
            null=True,
        ),
    )
    #: None in older runs.
    setup: Latency | None = field(
        default=None,
        metadata=doc_metadata(
            "setup of connections (TCP, TLS, authentication), including warm-up; part of response times, not of service"
            " times: "
        ),
    )
    streams: tuple[StreamSummary, ...] = field(metadata=doc_metadata(""))
    set_aside: tuple[SetAside, ...] = field(default=(), metadata=doc_metadata(""))
    operations: Mapping[str, OperationFigures] = field(metadata=doc_metadata("", of="OPERATION"))
    sources: Mapping[str, SourceFigures] = field(
        default_factory=dict, metadata=doc_metadata("this source of events: ", of="SOURCE", absent=True)
    )
    ranks: tuple[RankFigures, ...] = field(default=(), metadata=doc_metadata("", absent=True))
    machines: tuple[MachineFigures, ...] = field(default=(), metadata=doc_metadata("", absent=True))

    @property
    def begin(self) -> float:
        """Start of the measured window, s since the run began."""
        return self.start + self.warmup

    @property
    def outside(self) -> float:
        """Probability beyond each end of an interval: 0.025, or less if the window was judged several times."""
        return self.window.outside if self.window and self.window.outside else 0.025

    @property
    def single(self) -> Mapping[str, OperationFigures]:
        """The operations whose figures may be summed: those that do not aggregate others."""
        return {name: operation for name, operation in self.operations.items() if not operation.of_several}

    @property
    def throughput(self) -> float:
        """Successes per second, the sum over the operations in `single`."""
        return sum(operation.throughput for operation in self.single.values())

    @property
    def documents_per_second(self) -> float:
        """Documents that the store wrote or returned per second, the sum over the operations in `single`."""
        return sum(operation.documents_per_second for operation in self.single.values())

    @property
    def whole_seconds(self) -> range:
        """The seconds that lie wholly in the measured window, numbered from 0 at the start of the load."""
        return whole_seconds(self.warmup, self.duration)

    @property
    def has_open_load(self) -> bool:
        """Whether any stream is an open loop or a source."""
        return any(stream.is_open for stream in self.streams)

    @property
    def has_due_times(self) -> bool:
        """Whether requests can be late: some stream is an open loop or a source, or has a think time or pacing."""
        return any(stream.is_open or stream.think_time != 0 or stream.pacing_time for stream in self.streams)


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratorFigures:
    """Self-monitoring of the load generator: shares of time of its busiest worker (0..1), lateness and lag (s).

    A figure that was not recorded, or does not apply, is None.
    """

    threads: int = field(metadata=doc_metadata("worker threads", "threads"))
    cpu_share: float = field(
        metadata=doc_metadata("mean CPU share of the busiest worker in the measured window", "share")
    )
    cpu_share_peak: float = field(metadata=doc_metadata("maximum CPU share of a worker in one second", "share"))
    waited_share: float = field(
        metadata=doc_metadata("mean share of time that a worker waited for a core, maximum of workers", "share")
    )
    throttled_share: float | None = field(
        default=None,
        metadata=doc_metadata(
            "share of time in which a CPU quota throttled the generator's control group; null without control groups",
            "share",
            null=True,
        ),
    )
    stolen_share: float | None = field(
        default=None,
        metadata=doc_metadata(
            "share of CPU time stolen by the hypervisor in the measured window; null if not counted",
            "share",
            null=True,
        ),
    )
    network_share: float | None = field(
        default=None,
        metadata=doc_metadata(
            "utilisation of the machine's busiest network interface; null if no speed is known", "share", null=True
        ),
    )
    ceiling_share: float | None = field(
        default=None,
        metadata=doc_metadata(
            "requests per second and worker over `generator.ceiling` of the manifest; null without calibration",
            "share",
            null=True,
        ),
    )
    lateness_p99: float | None = field(
        default=None, metadata=doc_metadata("99th percentile of lateness of due requests", "s", null=True)
    )
    lag_p99: float | None = field(
        default=None, metadata=doc_metadata("99th percentile of event-loop lag", "s", null=True)
    )
    longest_stall: float | None = field(
        default=None, metadata=doc_metadata("maximum of event-loop lag: the longest stall", "s", null=True)
    )
    away_share: float | None = field(
        default=None,
        metadata=doc_metadata(
            "mean share of time in event-loop stalls of 50 ms or more, maximum of workers",
            "share",
            null=True,
        ),
    )
    achieved: float | None = field(
        default=None,
        metadata=doc_metadata("achieved / offered rate; null for closed loops and short windows", "share", null=True),
    )


@dataclass(frozen=True, slots=True)
class RecordedReason:
    """A recorded reason of a verdict. Later versions may have other codes."""

    code: str = field(metadata=doc_metadata("identifier of the rule"))
    cause: str = field(metadata=doc_metadata("the observation, with its figures"))
    remedy: str = field(metadata=doc_metadata("how to fix it"))
    phase: str | None = field(
        default=None, metadata=doc_metadata("the phase concerned; absent if it is the whole run", absent=True)
    )
    severity: float | None = field(
        default=None, metadata=doc_metadata("compares reasons of one code: larger is worse", absent=True)
    )


@dataclass(frozen=True, slots=True)
class RecordedFigure:
    """Quality of a figure of a phase, or of the times of one of its operations."""

    phase: str = field(metadata=doc_metadata("a measured phase"))
    figure: str = field(
        metadata=doc_metadata(
            "`throughput`, `documents` and `errors` of the phase; `response`, `service` and `all` (response times with"
            " failures) of an operation"
        )
    )
    state: str = field(metadata=doc_metadata("`good`, `bounded` (by `low` and `high`) or `unknown`"))
    operation: str | None = field(
        default=None,
        metadata=doc_metadata("the operation, or `OPERATION.PART`, of response and service times", absent=True),
    )
    reasons: tuple[str, ...] = field(
        default=(), metadata=doc_metadata("codes of the reasons that affect the figure", absent=True)
    )
    low: Mapping[str, float] = field(
        default_factory=dict,
        metadata=doc_metadata(
            "lower bound, by statistic (`value`, 1/s, or `mean`, `p50`, ... as in the operation's entry, s)",
            "1/s or s",
            of="STATISTIC",
            absent=True,
        ),
    )
    high: Mapping[str, float] = field(
        default_factory=dict,
        metadata=doc_metadata("upper bound; absent if unbounded", "1/s or s", of="STATISTIC", absent=True),
    )


@dataclass(frozen=True, slots=True)
class RecordedVerdict:
    """Verdict on a run: validity, reasons, and quality of figures."""

    valid: bool = field(metadata=doc_metadata("whether any figure is good or bounded"))
    reasons: tuple[RecordedReason, ...] = field(default=(), metadata=doc_metadata(""))
    not_judged: tuple[str, ...] = field(default=(), metadata=doc_metadata("rules that could not be checked, and why"))
    explained: tuple[str, ...] = field(
        default=(), metadata=doc_metadata("changes that do not count against the run, and their explanation")
    )
    #: Empty in older runs; `analyze.figures` derives them from the reasons.
    figures: tuple[RecordedFigure, ...] = field(default=(), metadata=doc_metadata("", absent=True))


@dataclass(frozen=True, slots=True)
class Summary:
    """Summary of a run. A run that failed before its load has only status, failure and fault."""

    status: str = field(metadata=doc_metadata("`done`, `failed` or `interrupted`"))
    failure: str | None = field(default=None, metadata=doc_metadata("the failure of a failed run", absent=True))
    fault: str | None = field(
        default=None, metadata=doc_metadata("the component to blame: `store`, `generator` or `unknown`", absent=True)
    )
    phases: tuple[PhaseSummary, ...] = field(default=(), metadata=doc_metadata(""))
    stored: tuple[StoredEvents, ...] = field(default=(), metadata=doc_metadata("", absent=True))
    generator: GeneratorFigures | None = field(default=None, metadata=doc_metadata("", absent=True))
    verdict: RecordedVerdict | None = field(default=None, metadata=doc_metadata("", absent=True))

    @property
    def measured(self) -> tuple[PhaseSummary, ...]:
        """The measured phases, without preparing phases; all phases of a complete run that only prepares.

        Empty if a failed or interrupted run has only preparing phases.
        """
        measured = tuple(phase for phase in self.phases if not phase.prepares)
        # A failed run can end before its measured phase.
        return measured or (self.phases if self.status == "done" else ())

    def as_dict(self) -> dict[str, Any]:
        """Return the summary as a mapping for `RunWriter.finish`."""
        document: dict[str, Any] = as_document(self)
        return document
