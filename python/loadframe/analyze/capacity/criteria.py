"""What it means that a store sustains a rate: an SLO on response times and errors, all load achieved, no backlog.

A trial passes when the achieved load is at least 99 % of the offered, the percentile is within the limit, errors are
below their share, and requests in flight do not become more and more. Requests that were dropped, or had no answer when
the phase was over, are errors; a closed load fails where so large a share of its users still waited. A store that
failed has not sustained the load. Response times count from the schedule, so that a
generator that is late or slow can only make them worse: what passes all the same has passed. What fails then says
nothing, unless it fails by more than the generator was late. Nor does any run whose cluster was not what was asked for.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.compute as pc
from scipy import special

from loadframe.analyze.capacity.search import Outcome
from loadframe.analyze.failures import failures, recorded_reasons
from loadframe.analyze.reasons import fault_of
from loadframe.record import Run
from loadframe.record.schema.summary import Latency, OperationFigures, PhaseSummary
from loadframe.units import format_duration, format_share

ACHIEVED = 0.99
#: The verdict's reasons that say by how much the generator can have spoiled response times.
_LATE = {"lateness", "loop_lag"}
#: A backlog that grows by less than this share of the rate would not show in a longer run.
_GROWTH = 0.005
_QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}
PERCENTILES = tuple(_QUANTILES)
#: Requests that a percentile may be of, and how they are named behind the percentile.
_SUBJECTS = {"successes": "", "all": " of all requests", "failures": " of failed requests"}


@dataclass(frozen=True)
class Slo:
    """What is asked of every operation that is measured: a percentile of response times (s), a share of errors.

    `of` says of which requests the percentile is: `successes`, `failures`, or `all`. Some `operations` may have bounds
    of their own, by their names; without a `response` nothing is asked of the others.
    """

    response: float | None = None
    percentile: str = "p99"
    errors: float = 0.01
    of: str = "successes"
    operations: tuple[tuple[str, "Slo"], ...] = ()

    @classmethod
    def read(cls, written: Mapping[str, Any]) -> "Slo":
        """Return what a file says; what the bounds of an operation leave out is as in the general ones."""
        general = {key: value for key, value in written.items() if key != "operations"}
        apart = {
            name: general | {key: value for key, value in entry.items() if value is not None}
            for name, entry in (written.get("operations") or {}).items()
        }
        return cls(**general, operations=tuple((name, cls(**bounds)) for name, bounds in apart.items()))

    def __str__(self) -> str:
        general = (
            [f"{self.subject} within {format_duration(self.response)}, errors below {self.errors:.3g}"]
            if self.response is not None
            else []
        )
        return "; ".join([*general, *(f"{name}: {bounds}" for name, bounds in self.operations)])

    @property
    def subject(self) -> str:
        """What the limit is on: `p99`, `p99 of all requests`."""
        return self.percentile + _SUBJECTS[self.of]


@dataclass(frozen=True)
class ErrorCount:
    """Failed and due requests of a trial under one limit; `operation` is None for all that share the general one."""

    operation: str | None
    failed: int
    due: int
    limit: float


@dataclass(frozen=True)
class Judgement:
    """What one run says about its rate, with its figures; None where there are none."""

    outcome: Outcome
    reasons: tuple[str, ...]
    response: float | None
    errors: float | None
    achieved: float | None
    growth: float | None  #: of the requests in flight, 1/s
    #: The limit of `response`, s, and the operation whose it is, where operations have bounds of their own.
    limit: float | None = None
    operation: str | None = None
    counts: tuple[ErrorCount, ...] = ()


@dataclass(frozen=True)
class _Bounded:
    """What some operations' requests came to, and what is asked of them; `name` is that of one with its own bounds."""

    name: str | None
    slo: Slo
    response: float | None
    failed: int
    due: int
    #: Requests without an answer at the end, and in a closed load the users that can wait for one.
    waiting: int = 0
    users: int | None = None

    @property
    def errors(self) -> float | None:
        """The share of the requests that failed; None without requests."""
        return self.failed / self.due if self.due else None

    @property
    def pressure(self) -> float:
        """How much of the limit the response is."""
        return (self.response or 0.0) / (self.slo.response or math.inf)

    def broken(self, late: float = 0.0) -> Iterator[str]:
        """Yield a sentence for each bound that is not met when responses were really shorter by `late` (s)."""
        response = None if self.response is None else max(self.response - late, 0.0)
        of = "" if self.name is None else f"{self.name}: "
        yield from (of + words for words in broken(self.slo, None, response, self.errors, None, 0.0))
        if self.users and self.waiting and self.waiting >= self.slo.errors * self.users:
            yield f"{of}{self.waiting:,} of {self.users:,} users still waited for an answer at the end"


def judge(run: Run, slo: Slo, phases: Sequence[str], rate: float | None) -> Judgement:
    """Judge a run by its folder, at a rate (1/s), or None of a number of users; `phases` are those measured."""
    summary = run.summary
    if summary.status == "failed" and summary.fault == "store":
        return Judgement(Outcome.FAILED, tuple(failure.words for failure in failures(run)), None, None, None, None)
    if summary.status != "done" or summary.generator is None or summary.verdict is None:
        return Judgement(Outcome.INVALID, (summary.failure or summary.status,), None, None, None, None)
    measured = [phase for phase in summary.phases if phase.name in phases]
    try:
        judged = list(_bounded(slo, measured, _users(measured) if rate is None else None))
    except LookupError as missing:
        return Judgement(Outcome.INVALID, (str(missing.args[0]),), None, None, None, None)
    achieved = summary.generator.achieved
    # Users wait for their answers, so that there are never more requests than users.
    growth = max((_growth(run, phase) for phase in measured), default=0.0) if rate is not None else 0.0
    worst = max(judged, key=lambda bounded: bounded.pressure)
    response, errors = worst.response, max((b.errors for b in judged if b.errors is not None), default=None)
    told = recorded_reasons(run)
    # A store that did not survive its load has not sustained it, whatever its last figures were.
    lost = [failure.words for failure in failures(run) if failure.of_run]
    together = tuple(broken(slo, rate, None, None, achieved, growth, load=True))
    reasons = (*lost, *(words for bounded in judged for words in bounded.broken()), *together)
    late = (summary.generator.lateness_p99 or 0.0) + (summary.generator.lag_p99 or 0.0)
    excusable = not lost and not together and not any(any(bounded.broken(late)) for bounded in judged)
    decisive = []
    for reason in told:
        # The store's faults are what is asked here, and no ground to disbelieve the run.
        fault = fault_of(reason.code)
        excuses = fault == "generator" and reasons and not lost and (excusable or reason.code not in _LATE)
        if fault == "cluster" or excuses:
            decisive.append(reason.cause)
    outcome = Outcome.INVALID if decisive else Outcome.FAILED if reasons else Outcome.PASSED
    told_reasons = tuple(decisive) or reasons
    response = response if response is not None and math.isfinite(response) else None
    counts = tuple(ErrorCount(it.name, it.failed, it.due, it.slo.errors) for it in judged if it.due)
    figures = (response, errors, achieved, growth, worst.slo.response, worst.name, counts)
    return Judgement(outcome, told_reasons, *figures)


def _users(phases: Sequence[PhaseSummary]) -> int | None:
    """Return the most users or clients that a phase has at a time; None where its load is open or has stages."""
    counts = [
        sum(stream.users or int(stream.clients) for stream in phase.streams if isinstance(stream.clients, int | float))
        for phase in phases
    ]
    return max(counts, default=0) or None


def _bounded(slo: Slo, phases: Sequence[PhaseSummary], users: int | None) -> Iterator[_Bounded]:
    """Yield what is judged; LookupError, with the reason, where the run does not tell it."""
    named = dict(slo.operations)
    grouped: dict[str, list[OperationFigures]] = {name: [] for name in named}
    others: list[OperationFigures] = []
    for phase in phases:
        for name, figures in phase.operations.items():
            # What stands for several requests is judged where it has bounds of its own.
            if name in grouped or not figures.of_several:
                grouped.get(name, others).append(figures)
    for name, bounds in named.items():
        if not grouped[name]:
            raise LookupError(f"nobody asked for {name}, which has bounds of its own")
        yield _figures(name, bounds, grouped[name], users)
    if slo.response is not None and (others or not named):
        yield _figures(None, slo, others, users)


def _figures(name: str | None, slo: Slo, operations: Sequence[OperationFigures], users: int | None) -> _Bounded:
    latencies = [latency for entry in operations if (latency := _latency(entry, slo)) is not None]
    if len(latencies) < len(operations):
        what = f"the run was recorded without the response times of {_SUBJECTS[slo.of].removeprefix(' of ')}"
        raise LookupError(what)
    known = [value for latency in latencies if (value := latency.at(slo.percentile)) is not None]
    due = sum(entry.due for entry in operations)
    waiting = sum(entry.in_flight_at_end for entry in operations)
    failed = waiting + sum(sum(entry.errors.values()) + entry.dropped for entry in operations)
    response = max(known, default=None)
    unknown = sum(entry.dropped for entry in operations) + waiting
    if slo.of == "all" and unknown > (1 - _QUANTILES[slo.percentile]) * due:
        # Of requests that were never answered the response time is longer than any limit.
        response = math.inf
    return _Bounded(name, slo, response, failed, due, waiting, users)


def broken(
    slo: Slo,
    rate: float | None,
    response: float | None,
    errors: float | None,
    achieved: float | None,
    growth: float,
    *,
    load: bool = False,
) -> Iterator[str]:
    """Yield a sentence for each criterion that these figures do not meet; with `load` those of the load alone."""
    if load or slo.response is None:
        pass
    elif response is None:
        # Where nothing failed, nothing that failed was slow.
        if slo.of != "failures":
            yield "no request succeeded" if slo.of == "successes" else "no request was answered"
    elif math.isinf(response):
        yield f"too many requests had no answer for {slo.subject} to be within {format_duration(slo.response)}"
    elif response > slo.response:
        yield f"{slo.subject} was {format_duration(response)}, more than {format_duration(slo.response)}"
    if errors is not None and errors >= slo.errors:
        yield f"{format_share(errors, 2)} of the requests failed, at least {format_share(slo.errors, 2)}"
    if achieved is not None and achieved < ACHIEVED:
        yield f"{format_share(achieved, 1)} of the load was achieved, less than {format_share(ACHIEVED)}"
    if rate is not None and growth > _GROWTH * rate:
        yield f"requests in flight became more by {growth:.3g} per second"


def growth(backlog: Sequence[float]) -> float:
    """Return by how much requests in flight grow per second; 0 where that is not more than chance.

    The slope of the line of least squares, against its standard error at 95 %; seconds are not independent, so their
    number is reduced by the correlation of neighbours (n (1 - r)/(1 + r)).
    """
    levels = np.asarray(backlog, dtype=float)
    if len(levels) < 5 or not np.ptp(levels):
        return 0.0
    seconds = np.arange(len(levels)) - (len(levels) - 1) / 2
    slope = float(seconds @ levels / (seconds @ seconds))
    rest = levels - levels.mean() - slope * seconds
    power = float(rest @ rest)
    if not power:
        return max(slope, 0.0)
    correlation = min(max(float(rest[1:] @ rest[:-1]) / power, 0.0), 0.99)
    freedom = max(len(levels) * (1 - correlation) / (1 + correlation) - 2, 1.0)
    error = np.sqrt(power / freedom / float(seconds @ seconds) * len(levels) / (freedom + 2))
    return slope if slope > special.stdtrit(freedom, 0.95) * error else 0.0


def _latency(operation: OperationFigures, slo: Slo) -> Latency | None:
    """Return the response times that an SLO is about; None in runs of versions that did not record them."""
    return {"successes": operation.response, "all": operation.all, "failures": operation.failure}[slo.of]


def _growth(run: Run, phase: PhaseSummary) -> float:
    """Return the growth of the requests in flight over a phase's measured window, of all workers together."""
    rows = run.telemetry
    in_flight = rows.filter(pc.equal(rows["metric"], "in_flight"))
    # Of several ranks' workers only some have rows of their own, and there is a sum.
    together = in_flight.filter(pc.equal(in_flight["source"], "workers"))
    rows = together or in_flight.filter(pc.starts_with(in_flight["source"], "generator:"))
    within = pc.and_(
        pc.greater_equal(rows["time"], phase.begin - 5e-4), pc.less(rows["time"], phase.begin + phase.duration - 0.5)
    )
    sums = rows.filter(within).group_by("time").aggregate([("value", "sum")]).sort_by("time")
    return growth(sums["value_sum"].to_pylist())
