"""Criteria for a sustained load: an SLO on response times and errors, the whole load achieved, no growing backlog.

A trial passes if the achieved load is at least 99 % of the offered load, the percentile is within its limit, the share
of errors is below its limit, and the requests in flight do not grow. Dropped requests, and requests unanswered at the
end of the phase, count as errors. A closed load also fails if too large a share of its users still waits at the end. A
run in which the store failed, in the last or an earlier attempt, fails.

Figures count with their bounds (see `figures`). A trial passes if the whole range of each figure meets its limit, and
fails if the whole range of one misses it. Otherwise it is invalid, as is a run of another cluster.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow.compute as pc

from loadframe.analyze.capacity.search import Outcome
from loadframe.analyze.experiment import RecordedRun
from loadframe.analyze.failures import earlier_failures, failures, most_users, recorded_reasons
from loadframe.analyze.figures import Figure, stretch_of
from loadframe.analyze.verdict.rules import effect_of, fault_of
from loadframe.base import special
from loadframe.base.units import (
    counted,
    duration_beside,
    format_duration,
    format_limit,
    format_share,
    share_beside,
)
from loadframe.record import Run
from loadframe.record.schema.figures import Latency, OperationFigures
from loadframe.record.schema.summary import PhaseSummary

ACHIEVED = 0.99
#: Growth of the backlog below this share of the rate is ignored.
_GROWTH = 0.005
_QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}
PERCENTILES = tuple(_QUANTILES)
#: Requests that the percentile may cover, and their text after the percentile.
_SUBJECTS = {"successes": "", "all": " of all requests", "failures": " of failed requests"}


@dataclass(frozen=True)
class Slo:
    """Limits for each measured operation: a percentile of response times (s) and a share of errors.

    `of` selects the requests of the percentile: `successes`, `failures`, or `all`. `operations` holds separate limits
    by operation name. Without `response` the other operations have no limit.
    """

    response: float | None = None
    percentile: str = "p99"
    errors: float = 0.01
    of: str = "successes"
    operations: tuple[tuple[str, "Slo"], ...] = ()

    @classmethod
    def read(cls, written: Mapping[str, Any]) -> "Slo":
        """Return the SLO of an experiment file; limits that an operation lacks or has as None are the general ones."""
        general = {key: value for key, value in written.items() if key != "operations"}
        by_operation = {
            name: general | {key: value for key, value in entry.items() if value is not None}
            for name, entry in (written.get("operations") or {}).items()
        }
        return cls(**general, operations=tuple((name, cls(**bounds)) for name, bounds in by_operation.items()))

    def __str__(self) -> str:
        general = (
            [f"{self.subject} within {format_duration(self.response)}, errors below {self.errors:.3g}"]
            if self.response is not None
            else []
        )
        return "; ".join([*general, *(f"{name}: {bounds}" for name, bounds in self.operations)])

    @property
    def subject(self) -> str:
        """The limited figure in words: `p99`, `p99 of all requests`."""
        return self.percentile + _SUBJECTS[self.of]


@dataclass(frozen=True)
class ErrorCount:
    """Failed and due requests of an operation in a trial. `operation` is None if the general limit covers only one."""

    operation: str | None
    failed: int
    due: int
    limit: float


@dataclass(frozen=True)
class Judgement:
    """Outcome of a trial with its reasons and figures. Missing figures are None."""

    outcome: Outcome
    reasons: tuple[str, ...]
    response: float | None
    errors: float | None
    achieved: float | None
    growth: float | None  #: of the requests in flight, 1/s
    #: The limit of `response`, s, and its operation if that has separate limits.
    limit: float | None = None
    operation: str | None = None
    counts: tuple[ErrorCount, ...] = ()


@dataclass(frozen=True)
class Failures:
    """Due and failed requests of one operation in one phase."""

    operation: str
    due: int
    failed: int
    #: Failures that the load generator cannot have caused.
    low: int
    #: Requests unanswered at the end, and requests that were not sent, at the limit on requests in flight.
    waiting: int = 0
    dropped: int = 0


@dataclass(frozen=True)
class LimitedFigures:
    """Figures of some operations and their limits; `name` is set for an operation with separate limits."""

    name: str | None
    slo: Slo
    #: The worst response time of the operations with its bounds, s, or None without responses.
    response: Figure | None
    #: Failures of each operation in each phase with due requests.
    failures: tuple[Failures, ...]
    #: Number of users of a closed load.
    users: int | None = None

    @property
    def worst(self) -> Failures | None:
        """The operation with the largest share of failures, or None without requests.

        Operations that miss the limit even without the failures that the generator may have caused come first.
        """
        return max(
            self.failures,
            key=lambda it: (it.low >= self.slo.errors * it.due, it.failed / it.due),
            default=None,
        )

    @property
    def errors(self) -> float | None:
        """The largest share of failed requests of an operation, or None without requests."""
        return max((it.failed / it.due for it in self.failures), default=None)

    @property
    def counts(self) -> tuple[ErrorCount, ...]:
        """The failed and due requests of each operation in each phase.

        Each has the operation's name, unless the general limit covers only one operation.
        """
        several = len({it.operation for it in self.failures}) > 1
        return tuple(
            ErrorCount(self.name or (it.operation if several else None), it.failed, it.due, self.slo.errors)
            for it in self.failures
        )

    @property
    def pressure(self) -> float:
        """The response time divided by its limit: above 1 fails. 0 without a response or a limit; may be infinite."""
        return ((self.response and self.response.value) or 0.0) / (self.slo.response or math.inf)

    @property
    def codes(self) -> tuple[str, ...]:
        """The codes of the validity rules that bound its response time."""
        return self.response.reasons if self.response else ()

    def broken(self, end: Literal["low", "value", "high"] = "value") -> Iterator[str]:
        """Yield a clause for each limit that the figures (`value`), or the `end` of their bounds, miss.

        The error limit has a clause for the worst operation only. Users that still wait at the end have a clause if
        their share of all users reaches the limit for errors. `low` omits failures and waiting users that the generator
        may have caused; for `high`, failures are those of `value`.
        """
        response = None if self.response is None else getattr(self.response, end)
        of = "" if self.name is None else f"{self.name}: "
        yield from (of + words for words in broken(self.slo, None, response, None, None, 0.0))
        if worst := self.worst:
            errors = (worst.low if end == "low" else worst.failed) / worst.due
            fate = "failed" if end == "low" else _fate(worst)
            subject = of or (f"{worst.operation}: " if len({it.operation for it in self.failures}) > 1 else "")
            words = broken(self.slo, None, None, errors, None, 0.0, load=True, fate=fate)
            yield from (subject + it for it in words)
        waiting = sum(it.waiting for it in self.failures)
        waits = self.users and waiting and waiting >= self.slo.errors * self.users
        if waits and not (end == "low" and any(it.low != it.failed for it in self.failures)):
            yield f"{of}{waiting:,} of {counted(self.users or 0, 'user')} still waited for an answer at the end"


def _fate(failures: Failures) -> str:
    """Write the predicate of the requests that count as errors: `failed`, or `were dropped ...`.

    Several ways to fail are listed with their shares.
    """
    fates = {
        "failed": failures.failed - failures.dropped - failures.waiting,
        "were dropped at the limit on requests in flight": failures.dropped,
        "were unanswered at the end": failures.waiting,
    }
    ways = {words: count for words, count in fates.items() if count}
    if len(ways) < 2:
        return next(iter(ways), "failed")
    *first, last = (f"{words} ({format_share(count / failures.due, 2)})" for words, count in ways.items())
    return f"{', '.join(first)} or {last}"


def judge(run: Run, slo: Slo, phases: Sequence[str], rate: float | None) -> Judgement:
    """Return the judgement of a run at a rate (1/s, or None for a number of users) by the SLO.

    `phases` are the names of the measured phases. A run in which the store failed, in the last or an earlier attempt,
    is a failed trial. The outcome is invalid if the run was not completed for other reasons, lacks a figure, or has a
    reason that makes figures unknown (after a failure of the store, only if the cluster is to blame). It is also
    invalid if the bounds of the figures leave open whether a limit is met.
    """
    summary = run.summary
    earlier = earlier_failures(run)
    if summary.status == "failed" and summary.fault == "store":
        words = (*(failure.words for failure in failures(run)), *earlier)
        return Judgement(Outcome.FAILED, words, None, None, None, None)
    if summary.status != "done" or summary.generator is None or summary.verdict is None:
        outcome, why = (Outcome.FAILED, earlier) if earlier else (Outcome.INVALID, (summary.failure or summary.status,))
        return Judgement(outcome, why, None, None, None, None)
    measured = [phase for phase in summary.phases if phase.name in phases]
    recorded = RecordedRun(run.path.name, None, {}, run)
    try:
        judged = list(limited_figures(recorded, slo, measured, most_users(measured) if rate is None else None))
    except LookupError as missing:
        return Judgement(Outcome.INVALID, (str(missing.args[0]),), None, None, None, None)
    achieved = summary.generator.achieved
    # Users wait for their answers, so a closed load has a bounded number of requests in flight.
    growth = max((_growth(run, phase) for phase in measured), default=0.0) if rate is not None else 0.0
    worst = max(judged, key=lambda bounded: bounded.pressure)
    # A store that failed has not sustained the load, even if the figures are good.
    lost = (*(failure.words for failure in failures(run) if failure.of_run), *earlier)
    together = tuple(broken(slo, rate, None, None, achieved, growth, load=True))
    reasons = (*lost, *(words for bounded in judged for words in bounded.broken()), *together)
    verdict_reasons = recorded_reasons(run)
    spoilt = [
        it.cause
        for it in verdict_reasons
        if effect_of(it.code) == "unknown" and not (lost and fault_of(it.code) != "cluster")
    ]
    # A limit is missed or met for certain only if the figure's whole range misses or meets it.
    low = (*lost, *(words for bounded in judged for words in bounded.broken("low")))
    if achieved is not None:
        low += tuple(broken(slo, rate, None, None, achieved * _possible(recorded, measured), 0.0, load=True))
    if rate and growth:
        low += tuple(broken(slo, rate, None, None, None, growth - _delay_growth(judged, measured, rate), load=True))
    if spoilt:
        outcome = Outcome.INVALID
    elif reasons:
        outcome = Outcome.FAILED if low else Outcome.INVALID
    else:
        outcome = Outcome.INVALID if any(any(bounded.broken("high")) for bounded in judged) else Outcome.PASSED
    if outcome is Outcome.INVALID:
        codes = {code for bounded in judged for code in bounded.codes}
        codes |= {code for entry in recorded.qualities for code in entry.reasons}
        why = tuple(spoilt) or tuple(reason.cause for reason in verdict_reasons if reason.code in codes) or reasons
    else:
        why = reasons
    response = worst.response.value if worst.response else None
    response = response if response is not None and math.isfinite(response) else None
    errors = max((b.errors for b in judged if b.errors is not None), default=None)
    counts = tuple(count for it in judged for count in it.counts)
    return Judgement(outcome, why, response, errors, achieved, growth, worst.slo.response, worst.name, counts)


def _possible(run: RecordedRun, phases: Sequence[PhaseSummary]) -> float:
    """Return the largest factor from the measured to the true throughput of a phase: 1 or more, possibly infinite.

    Phases with an unknown throughput or one of 0 do not count.
    """
    return stretch_of(run.figure(phase.name, "throughput") for phase in phases).high


def _delay_growth(judged: Sequence[LimitedFigures], phases: Sequence[PhaseSummary], rate: float) -> float:
    """Return the growth of requests in flight per second that the generator's delays alone may explain.

    The delay d, s, is the largest distance of a response time in `judged` from its lower bound. By Little's law, it
    adds `rate` times d requests in flight by the end of the shortest phase.
    """
    delays = [it.response.value - it.response.low for it in judged if it.response and it.response.value is not None]
    shortest = min((phase.duration for phase in phases), default=0.0)
    return rate * max(delays, default=0.0) / shortest if shortest else 0.0


def limited_figures(
    run: RecordedRun, slo: Slo, phases: Sequence[PhaseSummary], users: int | None = None
) -> Iterator[LimitedFigures]:
    """Yield the largest figures over `phases`: of each operation with separate limits, then of all others together.

    The latter only if the general limit has a response time, and if other operations exist or none has separate limits.
    They omit aggregates of several operations. LookupError with a message if the run lacks some. `users`: users or
    clients of a closed load, else None.
    """
    named = dict(slo.operations)
    grouped: dict[str, list[tuple[str, str]]] = {name: [] for name in named}
    others: list[tuple[str, str]] = []
    for phase in phases:
        for name, figures in phase.operations.items():
            # Aggregates of several operations are judged only if they have separate limits.
            if name in grouped or not figures.of_several:
                grouped.get(name, others).append((phase.name, name))
    for name, bounds in named.items():
        if not grouped[name]:
            raise LookupError(f"the run lacks requests of {name}, which has separate limits")
        yield _figures(run, name, bounds, grouped[name], users)
    if slo.response is not None and (others or not named):
        yield _figures(run, None, slo, others, users)


def _figures(
    run: RecordedRun, name: str | None, slo: Slo, places: Sequence[tuple[str, str]], users: int | None
) -> LimitedFigures:
    """Return the largest response time and the failures of some operations, to compare with the limits of `slo`.

    `places` are pairs of phase and operation. `name` is the operation if it has separate limits, else None. `users` is
    the number of users of a closed load, else None. The response time is None if no request has one. With the SLO on
    all requests it is infinite if too many were dropped or unanswered. LookupError if the run did not record these
    response times. Dropped and unanswered requests count as failures; if the generator was saturated, only as possible
    ones.
    """
    operations = [run.operations(phase)[operation] for phase, operation in places]
    if any(_latency(entry, slo) is None for entry in operations):
        what = f"the run was recorded without the response times of {_SUBJECTS[slo.of].removeprefix(' of ')}"
        raise LookupError(what)
    known = [it for place, entry in zip(places, operations, strict=True) if (it := _response(run, place, entry, slo))]
    response = None
    if known:
        values, lows, highs = zip(*((it.value or 0.0, it.low, it.high) for it in known), strict=True)
        codes = tuple(dict.fromkeys(code for it in known for code in it.reasons))
        exact = all(it.state == "good" for it in known)
        response = Figure(max(values), max(lows), max(highs), "good" if exact else "bounded", codes)
    saturated = any(effect_of(code) == "saturated" for it in known for code in it.reasons)
    failures = tuple(_failures(of, entry, saturated) for (_, of), entry in zip(places, operations, strict=True))
    failures = tuple(it for it in failures if it.due)
    rest = 1 - _QUANTILES[slo.percentile]
    if slo.of == "all" and any(it.dropped + it.waiting > rest * it.due for it in failures):
        # The response time of unanswered requests exceeds any limit.
        response = Figure(math.inf, 0.0 if saturated else math.inf, math.inf, "bounded" if saturated else "good")
    return LimitedFigures(name, slo, response, failures, users)


def _failures(operation: str, entry: OperationFigures, saturated: bool) -> Failures:
    """Return the failures of an operation; drops, time-outs and unanswered requests count as failed.

    If the generator was `saturated`, it may have caused these, so `low` excludes them.
    """
    answered = sum(entry.errors.values()) - entry.errors.get("timeout", 0)
    waiting = entry.in_flight_at_end
    failed = sum(entry.errors.values()) + entry.dropped + waiting
    return Failures(operation, entry.due, failed, answered if saturated else failed, waiting, entry.dropped)


def _response(run: RecordedRun, place: tuple[str, str], entry: OperationFigures, slo: Slo) -> Figure | None:
    """Return an operation's percentile of response times with its bounds, or None without requests.

    `place` is its phase and name. If the verdict makes the percentile unknown, it is returned without bounds: `judge`
    calls such a run invalid.
    """
    latency = _latency(entry, slo)
    value = latency.at(slo.percentile) if latency else None
    if value is None:
        return None
    if slo.of != "failures":
        known = run.figure(place[0], "response" if slo.of == "successes" else "all", place[1], slo.percentile)
        return known if known.counts else Figure(value, value, value, "good")
    # Runs do not record bounds for failures alone, so use the bounds of all requests.
    whole = run.figure(place[0], "all", place[1], slo.percentile)
    bounded = whole.state == "bounded"
    return Figure(value, 0.0 if bounded else value, value, "bounded" if bounded else "good", whole.reasons)


def broken(
    slo: Slo,
    rate: float | None,
    response: float | None,
    errors: float | None,
    achieved: float | None,
    growth: float,
    *,
    load: bool = False,
    fate: str = "failed",
) -> Iterator[str]:
    """Yield a clause for each criterion that these figures miss, such as `p99 was 12 ms, more than 10 ms`.

    `response` is in s, `rate` and `growth` (of requests in flight) in 1/s; `errors` and `achieved` are shares. Misses
    are a response above its limit, `errors` of its limit or more, less than 99 % achieved, and a growth above 0.5 % of
    `rate`. A `response` of None (no answer) misses a limit on successes or on all requests, and meets one on failures.
    `errors`, `achieved` and `rate` of None are skipped. `load` skips the response time. `fate` is the predicate of
    errors.
    """
    if load or slo.response is None:
        pass
    elif response is None:
        # Without failures a limit on the response time of failures is met.
        if slo.of != "failures":
            yield "no request succeeded" if slo.of == "successes" else "no request was answered"
    elif math.isinf(response):
        yield f"too many requests had no answer for {slo.subject} to be within {format_duration(slo.response)}"
    elif response > slo.response:
        yield f"{slo.subject} was {duration_beside(response, slo.response)}, more than {format_duration(slo.response)}"
    if errors is not None and errors >= slo.errors:
        yield f"{share_beside(errors, slo.errors, 2)} of the requests {fate}, at least {format_limit(slo.errors)}"
    if achieved is not None and achieved < ACHIEVED:
        yield f"{share_beside(achieved, ACHIEVED, 1)} of the load was achieved, less than {format_share(ACHIEVED)}"
    if rate is not None and growth > _GROWTH * rate:
        yield f"requests in flight grew by {growth:.3g} per second"


def growth(backlog: Sequence[float]) -> float:
    """Return the growth per second of `backlog`, the requests in flight by second; 0 if it is not significant.

    The slope of the least-squares line is tested one-sided at 95 %. Neighbouring seconds are correlated, so the number
    of seconds n is reduced to n (1 - r)/(1 + r), at least 4: the residuals of curved growth are correlated, too.
    Residuals of n points about a line underestimate a correlation r by about (2 + 4 r)/n, which is corrected. 0 also
    for fewer than five seconds and for a fall.
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
    correlation = (len(levels) * float(rest[1:] @ rest[:-1]) / power + 2) / (len(levels) - 4)
    correlation = min(max(correlation, 0.0), 0.99)
    freedom = max(len(levels) * (1 - correlation) / (1 + correlation) - 2, 2.0)
    error = np.sqrt(power / freedom / float(seconds @ seconds))
    return slope if slope > special.stdtrit(freedom, 0.95) * error else 0.0


def _latency(operation: OperationFigures, slo: Slo) -> Latency | None:
    """Return the response times that the SLO limits, or None for runs of versions that did not record them."""
    return {"successes": operation.response, "all": operation.all, "failures": operation.failure}[slo.of]


def _growth(run: Run, phase: PhaseSummary) -> float:
    """Return the growth per second of the requests in flight in a phase's measured window, over all workers.

    0 if it is not significant (see `growth`) or was not recorded.
    """
    rows = run.telemetry
    in_flight = rows.filter(pc.equal(rows["metric"], "in_flight"))
    # With several ranks only some workers have rows, so use the sum if it is recorded.
    together = in_flight.filter(pc.equal(in_flight["source"], "workers"))
    rows = together or in_flight.filter(pc.starts_with(in_flight["source"], "generator:"))
    within = pc.and_(
        pc.greater_equal(rows["time"], phase.begin - 5e-4), pc.less(rows["time"], phase.begin + phase.duration - 0.5)
    )
    sums = rows.filter(within).group_by("time").aggregate([("value", "sum")]).sort_by("time")
    return growth(sums["value_sum"].to_pylist())
