"""Whether a run may be believed: each doubt carries its figures, its cause and its remedy.

A run is invalid when the generator was the limit, when an open load was not achieved, when the run was not steady, when
requests failed, or when the cluster was not as the treatment names it. Judging needs figures only, and no run folder.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from loadframe.analyze.finding import Finding
from loadframe.analyze.generator import GeneratorFigures
from loadframe.analyze.steadiness import steadiness
from loadframe.units import format_count, format_duration

#: A worker that is busier than this is late at its next burst, and its own speed becomes the store's.
CPU_LIMIT = 0.8
#: A worker that stands ready without a core for longer has less than the share of one at which it counts as busy; what
#: shorter waits do to response times shows in lateness and lag.
WAITED_LIMIT = 0.2
#: A generator that stands still for more than 1 % of the time does so in the 99th percentile.
THROTTLED_LIMIT = 0.01
#: Above this, queues build up in front of an interface at every burst.
NETWORK_LIMIT = 0.8
#: Of the requests per second that calibration found one core to be good for.
CEILING_LIMIT = 0.8
#: Lateness that response times show as if it were the store's: absolute, s, and as a share of their 99th percentile.
LATENESS_LIMIT = 1e-3
LATENESS_SHARE = 0.05
#: Below this an open load was another load than the one asked for.
ACHIEVED_LIMIT = 0.99
#: Percentiles are those of the requests that were sent; p99.9 says nothing where one in a thousand is missing.
DROPPED_LIMIT = 1e-3
#: Throughput and percentiles count successes; p99 says nothing where one request in a hundred is missing.
ERROR_LIMIT = 0.01


class Reason(Finding):
    """Why a run must not be believed."""

    code: str

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
        return f"in phase {self.phase} a generator thread used {self.share:.0%} of its core (limit {CPU_LIMIT:.0%})"

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
            f"in phase {self.phase} a generator thread stood ready for {self.share:.0%} of the time without a core"
            f" (limit {WAITED_LIMIT:.0%}): other processes had it"
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
            f"in phase {self.phase} the generator stood still for {self.share:.0%} of the time, since its control"
            f" group had used up its CPU quota (limit {THROTTLED_LIMIT:.0%})"
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
            f"in phase {self.phase} this machine's busiest network interface carried {self.share:.0%} of its speed"
            f" (limit {NETWORK_LIMIT:.0%})"
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
            f"in phase {self.phase} each generator thread sent {self.share:.0%} of the requests that calibration found"
            f" it to be good for on this machine (limit {CEILING_LIMIT:.0%})"
        )

    def _remedy(self) -> str:
        return f"give the generator more threads (it had {self.threads}) or more machines, or ask for less load"


@dataclass(frozen=True)
class Late(Reason):
    """Requests were sent late."""

    code = "lateness"
    phase: str
    lateness: float
    response: float | None

    def _cause(self) -> str:
        share = f", {self.lateness / self.response:.0%} of the response time's" if self.response else ""
        return (
            f"in phase {self.phase} requests were sent late: 99th percentile {format_duration(self.lateness)}{share}"
            f" (limits {format_duration(LATENESS_LIMIT)} and {LATENESS_SHARE:.0%})"
        )

    def _remedy(self) -> str:
        return "leave the generator cores of its own (--cores), give it more threads, or ask for a lower rate"


@dataclass(frozen=True)
class LoopLag(Reason):
    """The generator's event loops turned to answers late."""

    code = "loop_lag"
    phase: str
    lag: float
    response: float

    def _cause(self) -> str:
        return (
            f"in phase {self.phase} the generator's event loops lagged: 99th percentile {format_duration(self.lag)},"
            f" {self.lag / self.response:.0%} of the response time's (limit {LATENESS_SHARE:.0%})"
        )

    def _remedy(self) -> str:
        return (
            "something else had the generator's cores: give the nodes cores of their own (--cores), or stop what else"
            " runs there"
        )


@dataclass(frozen=True)
class NotAchieved(Reason):
    """An open load was not achieved."""

    code = "not_achieved"
    phase: str
    achieved: float

    def _cause(self) -> str:
        return f"in phase {self.phase} only {self.achieved:.1%} of the offered rate was achieved in time"

    def _remedy(self) -> str:
        return "the rate is above the capacity: lower it, or read this run as one of overload"


@dataclass(frozen=True)
class Dropped(Reason):
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
class Errors(Reason):
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
            f" {self.operation} failed ({self.classes}; limit {ERROR_LIMIT:.0%})"
        )

    def _remedy(self) -> str:
        return "see what the store answers with `loadframe check`, and its log; throughput counts successes only"


@dataclass(frozen=True)
class NothingMeasured(Reason):
    """No answer fell into the measured window."""

    code = "nothing_measured"
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
    phase: str
    change: float
    seconds: int
    settled: bool

    def _cause(self) -> str:
        how = "drifted" if self.settled else "had not settled when the window began"
        return f"in phase {self.phase} throughput {how}: {self.change:+.0%} over {self.seconds} s"

    def _remedy(self) -> str:
        return "lengthen the warm-up; if it still moves, look at merges, compactions and caches of the store"


@dataclass(frozen=True)
class ClusterState(Reason):
    """The cluster was not as the treatment names it."""

    code = "cluster_state"
    deviation: str

    def _cause(self) -> str:
        return self.deviation

    def _remedy(self) -> str:
        return "mend the cluster or change the treatment to what it is, then run again"


@dataclass(frozen=True)
class Verdict:
    """Valid, or the reasons why not; and what was left unjudged."""

    reasons: tuple[Reason, ...]
    not_judged: tuple[str, ...] = ()

    @property
    def valid(self) -> bool:
        """Whether the run may be believed."""
        return not self.reasons

    def as_dict(self) -> dict[str, Any]:
        """Return the summary's `verdict`."""
        reasons = [reason.as_dict() for reason in self.reasons]
        return {"valid": self.valid, "reasons": reasons, "not_judged": list(self.not_judged)}


@dataclass(frozen=True, eq=False)
class JudgedPhase:
    """What a phase is judged by: its entry in the summary, its generator, its one-second throughputs."""

    summary: Mapping[str, Any]
    generator: GeneratorFigures
    throughput: npt.NDArray[np.float64]


def judge(phases: Sequence[JudgedPhase], deviations: Sequence[str], *, disturbed: bool = False) -> Verdict:
    """Return the verdict on a run's measured phases; `deviations` says how the cluster differed from its treatment.

    Where the cluster was changed on purpose (`disturbed`), the generator is judged, and nothing that the change may
    have done: failures, requests that were late or dropped, throughput that moved.
    """
    reasons: list[Reason] = [ClusterState(deviation) for deviation in deviations]
    not_judged = []
    for phase in phases:
        name = phase.summary["name"]
        if disturbed:
            reasons += [reason for reason in _generator(phase) if not isinstance(reason, NotAchieved)]
            reasons += [reason for reason in _requests(phase.summary) if isinstance(reason, NothingMeasured)]
            not_judged.append(f"failures, drops and steadiness of phase {name}: the cluster was changed on purpose")
            continue
        reasons += [*_generator(phase), *_requests(phase.summary)]
        steady = steadiness(phase.throughput)
        if any(_changes(stream["pacing"]) for stream in phase.summary["streams"]):
            not_judged.append(f"steadiness of phase {name}: its load changes in stages")
        elif steady is None:
            not_judged.append(f"steadiness of phase {name}: {len(phase.throughput)} s are too short (20 s are needed)")
        elif not steady.steady:
            reasons.append(Unsteady(name, steady.change, steady.seconds, steady.settled))
    return Verdict(tuple(reasons), tuple(not_judged))


def _generator(phase: JudgedPhase) -> Iterator[Reason]:
    name, figures = phase.summary["name"], phase.generator
    if figures.cpu_share > CPU_LIMIT:
        yield GeneratorBusy(name, figures.cpu_share, figures.threads)
    # A quota makes threads wait, too; what is left of the wait is what others had the cores for.
    throttled = figures.throttled_share or 0.0
    if figures.waited_share - throttled > WAITED_LIMIT:
        yield Starved(name, figures.waited_share)
    if throttled > THROTTLED_LIMIT:
        yield Throttled(name, throttled)
    if figures.network_share is not None and figures.network_share > NETWORK_LIMIT:
        yield NetworkBusy(name, figures.network_share)
    if figures.ceiling_share is not None and figures.ceiling_share > CEILING_LIMIT:
        yield NearCeiling(name, figures.ceiling_share, figures.threads)
    percentiles = [operation["response"]["p99"] for operation in phase.summary["operations"].values()]
    # The fastest operation suffers most from the same lateness.
    response = min((p99 for p99 in percentiles if p99), default=None)
    late = figures.lateness_p99
    if (
        late is not None
        and any(_waits(stream["pacing"]) for stream in phase.summary["streams"])
        and (late > LATENESS_LIMIT or (response is not None and late > LATENESS_SHARE * response))
    ):
        yield Late(name, late, response)
    lag = figures.lag_p99
    if lag is not None and response is not None and lag > max(LATENESS_LIMIT, LATENESS_SHARE * response):
        yield LoopLag(name, lag, response)
    if figures.achieved is not None and figures.achieved < ACHIEVED_LIMIT:
        yield NotAchieved(name, figures.achieved)


def _requests(summary: Mapping[str, Any]) -> Iterator[Reason]:
    for name, operation in summary["operations"].items():
        unanswered = operation["in_flight_at_end"]
        requests = operation["requests"] + unanswered
        failed = requests - operation["successes"]
        if not requests:
            yield NothingMeasured(summary["name"], name)
        if failed > ERROR_LIMIT * requests:
            classes = dict(operation["errors"]) | ({"unanswered": unanswered} if unanswered else {})
            words = ", ".join(f"{count} {kind}" for kind, count in classes.items())
            yield Errors(summary["name"], name, failed, requests, words)
        due = requests + operation["dropped"]
        if operation["dropped"] > DROPPED_LIMIT * due:
            yield Dropped(summary["name"], name, operation["dropped"], due)


def _waits(pacing: Mapping[str, Any]) -> bool:
    """Whether requests are due at instants that were fixed before: open pacing, or think time."""
    return "open" in pacing or pacing["closed"]["think_time"] != 0


def _changes(pacing: Mapping[str, Any]) -> bool:
    """Whether the load itself moves: a rate or a number of clients in stages."""
    level = pacing["open"]["rate"] if "open" in pacing else pacing["closed"]["clients"]
    return isinstance(level, Mapping)
