"""Triggers of steps (a time, overload, a broken objective, a balanced cluster), and the live metrics that they read.

Overload includes a drop in throughput: the mean of the last m seconds is below the best mean of m earlier seconds. All
m of 1, 2, 4 ... times the configured length are tested. The best of many windows exceeds its level by chance, and every
second is a new test, so a drop must exceed `_ERRORS` standard errors. With this bound, at most 5 % of 15-minute runs
with constant throughput trigger, by simulation with autoregressive noise (benchmarks/simulate_trigger.py). In longer
runs the bound grows with the logarithm of the length, so each doubling adds at most the same probability.

The scan follows Page ("Continuous inspection schemes", Biometrika, 1954), over windows, as a generalised likelihood
ratio with known noise. The noise is estimated from differences of neighbouring seconds, because the level rises in
steps while clients arrive.
"""

import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from loadframe.analyze.autocorrelation import Series, effective_size, stepwise_noise, variance_of_mean
from loadframe.analyze.rates import RateName
from loadframe.base import special
from loadframe.base.units import (
    counted,
    format_count,
    format_duration,
    format_limit,
    format_rare,
    format_share,
    share_beside,
)
from loadframe.experiment.file.elastic import Objective, Overload, Step
from loadframe.load import Progress, Requests


@dataclass(frozen=True)
class SecondMetrics:
    """Metrics of one second of the load."""

    successes: float  #: requests/s
    throughput: float  #: 1/s, in the unit of the objective
    errors: float  #: failed requests/s
    response_p99: float | None  #: s, or None without answers
    #: Share of failures of each operation with finished or dropped requests.
    error_shares: Mapping[str, float] = field(default_factory=dict)
    in_flight: int = 0  #: requests in flight at its end
    waited: float | None = None  #: time since the oldest of these was due, s; None without any


class LiveMetrics:
    """Thread-safe live metrics: the load thread adds figures, the watching thread adds CPU shares and reads."""

    def __init__(self, rate: RateName = "throughput") -> None:
        """Select the unit of throughput, `rate`: requests or documents; for a load with sources, their events."""
        self._rate = rate
        self._lock = threading.Lock()
        self._seconds: list[SecondMetrics] = []
        #: The last progress, and the acknowledged events of all sources in it.
        self._last = Progress(0, 0, 0, 0, 0, 0, None, None)
        self._indexed = 0
        #: CPU shares by node, relative to the limit, one entry for each call of `look`.
        self._cpu: list[Mapping[str, float]] = []

    def progress(self, progress: Progress) -> None:
        """Add the figures of the last second; calls without a new second are ignored.

        If seconds were missed since the last call, their totals are spread evenly over them. For p99, waiting time,
        requests in flight and share of failures, each missed second gets the lower value of the seconds before and
        after (None if one of them has none). Seconds with a share of failures do not outnumber the failures.
        """
        with self._lock:
            before, elapsed = self._last, progress.seconds - self._last.seconds
            if elapsed <= 0:
                return
            self._last = progress
            errors = (progress.errors - before.errors) / elapsed
            successes = progress.requests - progress.errors - (before.requests - before.errors)
            missed = _share(successes - progress.throughput, elapsed - 1)
            last, between_rate = self._counted(progress, before, missed, elapsed)
            due, waited = _new_requests(progress, before), progress.oldest_in_flight
            shares = {name: new.failed / new.due for name, new in due.items()}
            earlier = self._seconds[-1].error_shares if self._seconds else {}
            better = {name: min(share, earlier[name]) for name, share in shares.items() if name in earlier}
            for left in range(elapsed - 1, 0, -1):
                between = SecondMetrics(
                    missed,
                    between_rate,
                    errors,
                    _better(before.response_p99, progress.response_p99),
                    {name: share for name, share in better.items() if not share or left < due[name].failed},
                    min(before.in_flight, progress.in_flight),
                    _better(before.oldest_in_flight, waited),
                )
                self._seconds.append(between)
            p99, in_flight = progress.response_p99, progress.in_flight
            self._seconds.append(SecondMetrics(progress.throughput, last, errors, p99, shares, in_flight, waited))

    def _counted(self, progress: Progress, before: Progress, missed: float, elapsed: int) -> tuple[float, float]:
        """Return the throughput of the last second and that of each missed second, 1/s, in the unit of the analysis.

        The unit is acknowledged events of sources (their mean over these seconds), else requests or documents. `missed`
        is the throughput of missed seconds in requests, `elapsed` the seconds since the call before, which `before`
        describes.
        """
        if progress.sources:
            known, self._indexed = self._indexed, sum(source.indexed for source in progress.sources.values())
            mean = (self._indexed - known) / elapsed
            return mean, mean
        if self._rate == "documents":
            documents = progress.documents - before.documents - progress.documents_throughput
            return progress.documents_throughput, _share(documents, elapsed - 1)
        return progress.throughput, missed

    def look(self, cpu: Mapping[str, float]) -> None:
        """Add one CPU share (of its limit) for each node, by name; to be called once a second."""
        with self._lock:
            self._cpu.append(dict(cpu))

    def seconds(self) -> list[SecondMetrics]:
        """Return a copy of the metrics of all seconds of the load so far, in order."""
        with self._lock:
            return list(self._seconds)

    def busiest(self, seconds: int) -> float:
        """Return the largest mean CPU share of a node over the last `seconds` s; 0 if fewer are recorded.

        Only nodes with a share in each of these seconds count.
        """
        with self._lock:
            looks = self._cpu[-seconds:]
        if len(looks) < seconds:
            return 0.0
        throughout = [node for node in looks[-1] if all(node in look for look in looks)]
        return max((sum(look[node] for look in looks) / seconds for node in throughout), default=0.0)

    def cpu(self, seconds: int) -> float | None:
        """Return the mean CPU share over all nodes and the last `seconds` calls of `look`; None without any share."""
        with self._lock:
            shares = [share for look in self._cpu[-seconds:] for share in look.values()]
        return sum(shares) / len(shares) if shares else None


def _new_requests(progress: Progress, before: Progress) -> dict[str, Requests]:
    """Return the due and failed requests since `before`, by operation; only operations with new due requests."""
    new = {}
    for name, now in progress.operations.items():
        known = before.operations.get(name, Requests(0, 0))
        if due := now.due - known.due:
            new[name] = Requests(due, now.failed - known.failed)
    return new


def _better(one: float | None, other: float | None) -> float | None:
    """Return the smaller of two times; None if one is None."""
    return None if one is None or other is None else min(one, other)


def _share(total: float, seconds: int) -> float:
    """Return `total` divided by `seconds`; 0 for a negative total or without seconds."""
    return max(total, 0.0) / seconds if seconds else 0.0


#: Required drop in standard errors, and the run length for which it was calibrated, s.
_ERRORS = 4.6
_RUN = 900
#: Standard errors that are added to the estimated autocorrelation, and its maximum.
_UPPER = 3.0
_GREATEST = 0.9


@dataclass(frozen=True)
class ThroughputDrop:
    """A significant drop in throughput."""

    best: float  #: best earlier mean, 1/s
    last: float  #: mean of the last window, 1/s
    seconds: int  #: length of both windows


def throughput_drop(rates: Series, length: int, drop: float, since: int = 0) -> ThroughputDrop | None:
    """Return the current drop in throughput; None if it is at most the share `drop`, or not significant.

    `rates` holds the throughput of each second so far, 1/s. Compares the last window with the best earlier one; windows
    last `length` s, twice, four times ... as long, and the shortest with a drop is returned. With `drop` 0, any
    decrease of the mean of the last `length` seconds counts, without a test: throughput no longer grows. The last
    window has no second before index `since` of `rates`.
    """
    for best, last, span in _spans(rates, length):
        if len(rates) - span < since:
            return None
        if drop == 0:
            return ThroughputDrop(best, last, span) if last < best else None
        if best - last > drop * best and standard_errors(rates, best, last, span) >= required_errors(len(rates)):
            return ThroughputDrop(best, last, span)
    return None


def required_errors(seconds: int) -> float:
    """Return the number of standard errors that a drop must reach in a run with `seconds` s of load so far."""
    return math.sqrt(_ERRORS**2 + 2 * math.log(max(seconds / _RUN, 1.0)))


def standard_errors(rates: Series, best: float, last: float, span: int) -> float:
    """Return the drop from `best` to `last` (1/s), means of windows of `span` s, in standard errors.

    Positive for a drop; infinite if `rates`, the throughput of each second, has no noise. The noise is estimated from
    the effective number of independent seconds, so the statistic has Student's t distribution. It is converted to the
    quantile of the normal distribution with the same probability.
    """
    deviation, rho = stepwise_noise(rates)
    # Use an upper bound of the correlation, because an underestimate would make the noise too small.
    upper = max(min(rho + _UPPER * math.sqrt((1 - rho**2) / len(rates)), _GREATEST), rho)
    error = deviation * best * math.sqrt((1 - rho) / (1 - upper) * 2 * variance_of_mean(span, upper))
    if error == 0:
        return math.inf
    freedom = max(effective_size(len(rates), rho) - 2, 1.0)
    return -float(special.ndtri(special.stdtr(freedom, (last - best) / error)))


def _spans(rates: Series, length: int) -> Iterator[tuple[float, float, int]]:
    """Yield best earlier mean, last mean and length (s) of windows of `length` s, twice, four times ... as long.

    The earlier windows do not overlap the last one. Ends when two windows no longer fit.
    """
    total = np.concatenate([[0.0], np.cumsum(rates)])
    span = length
    while 2 * span <= len(rates):
        means = (total[span:] - total[:-span]) / span
        yield float(means[:-span].max()), float(means[-1]), span
        span *= 2


@dataclass(frozen=True)
class RunState:
    """Input of triggers. Times in s since the start of the measured window."""

    now: float
    metrics: LiveMetrics
    #: End of the previous change. None: it has not ended, or there was none.
    balanced: float | None
    #: Seconds of the load that an earlier trigger on the load has used.
    since: int = 0


class Trigger(ABC):
    """Condition that starts a step; evaluated several times a second."""

    @property
    @abstractmethod
    def description(self) -> str:
        """The condition, for display."""

    @abstractmethod
    def fires(self, moment: RunState) -> str | None:
        """Return the observed reason if the trigger fires now, otherwise None."""


@dataclass(frozen=True)
class AtTime(Trigger):
    """Fires at a time, s."""

    at: float

    @property
    def description(self) -> str:
        """The time, for display."""
        return f"at {format_duration(self.at)}"

    def fires(self, moment: RunState) -> str | None:
        """Return the time in words from `at` on, else None."""
        return self.description if moment.now >= self.at else None


@dataclass(frozen=True)
class Overloaded(Trigger):
    """Fires when the CPU share of a node exceeds a threshold *and* throughput drops; see `throughput_drop`."""

    overload: Overload

    @property
    def description(self) -> str:
        """The thresholds, for display."""
        drop = f"down by {format_share(self.overload.drop)}" if self.overload.drop else "no longer growing"
        return f"overloaded (a node above {format_limit(self.overload.cpu)} CPU, throughput {drop})"

    def fires(self, moment: RunState) -> str | None:
        """Return CPU share and throughput drop in words if both exceed their thresholds now, else None.

        The share is the busiest node's mean over `seconds`. The last window has no second that an earlier trigger used.
        """
        busiest = moment.metrics.busiest(self.overload.seconds)
        if busiest <= self.overload.cpu:
            return None
        rates = np.array([second.throughput for second in moment.metrics.seconds()], dtype=float)
        drop = throughput_drop(rates, self.overload.seconds, self.overload.drop, moment.since)
        if drop is None:
            return None
        change = f"fell from {format_count(round(drop.best))}/s to {format_count(round(drop.last))}/s"
        share = share_beside(busiest, self.overload.cpu)
        return f"a node at {share} CPU; throughput {change} over {format_duration(drop.seconds)}"


@dataclass(frozen=True)
class SloBroken(Trigger):
    """Fires when the objective has been broken for `lasting` consecutive seconds, by one operation or by any.

    Seconds that show nothing are skipped. For one operation, only its failures count.
    """

    slo: Objective
    lasting: float

    @property
    def description(self) -> str:
        """The duration, for display."""
        return f"objective broken for {format_duration(self.lasting)}"

    def fires(self, moment: RunState) -> str | None:
        """Return p99 and failures of the last second in words if the objective is broken now and throughout, else None.

        Throughout: in each of the last `lasting` seconds (rounded up) with a known result, by anything or by the
        failures of one operation. Seconds that an earlier trigger used do not count.
        """
        seconds, needed = moment.metrics.seconds()[moment.since :], math.ceil(self.lasting)
        if not seconds or not _breaks(seconds[-1], self.slo):
            return None
        broken = _throughout((_breaks(second, self.slo) for second in reversed(seconds)), needed)
        # An operation may have requests less often than the others.
        operations = [name for name in seconds[-1].error_shares if _fails(seconds[-1], self.slo, name)]
        if not broken and not any(
            _throughout((_fails(second, self.slo, name) for second in reversed(seconds)), needed) for name in operations
        ):
            return None
        return _state_text(seconds[-1])


def _throughout(verdicts: Iterable[bool | None], needed: int) -> bool:
    """Return whether the first `needed` verdicts other than None are all true; False if there are fewer."""
    known = list(islice((verdict for verdict in verdicts if verdict is not None), needed))
    return len(known) == needed and all(known)


def _state_text(second: SecondMetrics) -> str:
    """Return p99 and the failures of the worst operation in words; without answers, the requests in flight."""
    if second.response_p99 is not None:
        times = f"p99 {format_duration(second.response_p99)}"
    elif second.waited is not None:
        times = (
            f"no answers, {counted(second.in_flight, 'request')} in flight for up to {format_duration(second.waited)}"
        )
    else:
        times = "no answers"
    failing = max(second.error_shares, key=second.error_shares.__getitem__, default="")
    share = second.error_shares.get(failing, 0.0)
    return f"{times}, {format_rare(share)} of {failing} failed" if share else times


def _breaks(second: SecondMetrics, slo: Objective) -> bool | None:
    """Return whether a second breaks the objective: its p99, or an operation by its failures.

    True if one of these does, None if one is unknown and none does.
    """
    parts = [] if slo.p99 is None else [_is_late(second, slo.p99)]
    if slo.errors is not None:
        failing = [_fails(second, slo, name) for name in second.error_shares]
        parts.append(any(failing) if failing else None)
    return True if True in parts else None if None in parts else False


def _fails(second: SecondMetrics, slo: Objective, operation: str) -> bool | None:
    """Return whether an operation's share of failures exceeds the limit, or None without a request or a limit."""
    share = second.error_shares.get(operation)
    return None if share is None or slo.errors is None else share > slo.errors


def _is_late(second: SecondMetrics, limit: float) -> bool | None:
    """Return whether p99 exceeds `limit`, s, in a second.

    In a second without p99: True if it has failures and no success, or a request has waited for more than `limit`; else
    None, because a request that waits may still be late.
    """
    if second.response_p99 is not None:
        return second.response_p99 > limit
    failed = second.errors > 0 and second.successes == 0 and any(second.error_shares.values())
    return failed or (second.waited is not None and second.waited > limit) or None


@dataclass(frozen=True)
class Balanced(Trigger):
    """Fires `after` seconds after the end of the previous change."""

    after: float

    @property
    def description(self) -> str:
        """The delay, for display."""
        return f"{format_duration(self.after)} after the cluster is balanced" if self.after else "when balanced"

    def fires(self, moment: RunState) -> str | None:
        """Return the end of the previous change in words from `after` s later on, else None.

        None, too, while the change is in progress, or without one.
        """
        over = moment.balanced is not None and moment.now >= moment.balanced + self.after
        return f"balanced at {moment.balanced:.1f} s" if over else None


@dataclass(frozen=True)
class NotBefore(Trigger):
    """Delays another trigger until `since`, s, because the level before the change must be known first."""

    since: float
    trigger: Trigger

    @property
    def description(self) -> str:
        """The condition of the delayed trigger."""
        return self.trigger.description

    def fires(self, moment: RunState) -> str | None:
        """Return the reason of the delayed trigger if it fires, from `since` on, else None."""
        return self.trigger.fires(moment) if moment.now >= self.since else None


def trigger_of(step: Step, slo: Objective | None, window: float) -> Trigger:
    """Return the trigger of a step; those on the load cannot fire in the first `window` s of the measured window.

    These are `overloaded` and `slo_broken`, which requires the objective `slo`.
    """
    if step.at is not None:
        return AtTime(step.at)
    if step.overloaded is not None:
        return NotBefore(window, Overloaded(step.overloaded))
    if step.slo_broken is not None:
        assert slo
        return NotBefore(window, SloBroken(slo, step.slo_broken))
    return Balanced(step.balanced or 0.0)
