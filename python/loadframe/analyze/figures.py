"""Quality of each figure of a run: good, bounded or unknown. This module decides which runs count for which figure.

- good: the load generator changed the figure by at most 5 %; bounds may still widen intervals;
- bounded: the figure lies between two known values;
- unknown: the run lacks the figure, or measured another cluster than its treatment names.

A measured response time R is the store's time T plus the lateness L of the request plus the lag G of the event loop.
L and G are at least 0, so T is at most R. For every share a of requests, Q_T(q) is at least
Q_R(q - 2a) - Q_L(1 - a) - Q_G(1 - a). The lower bound is the largest of these values over a few a. A stall affects the
requests of its seconds only, which are such a share. Lag is sampled evenly in time, so its percentiles hold for an
answer at any instant. A delay that n samples do not show affects at most a share of 3/n (the rule of three). A service
time holds no lateness, so T is also at least the service time less the lag.

Lag does not show how late each answer was read. If the kernel's timestamps were recorded, they replace it: T is at
least the corrected service time, and the overhead of each request is one more delay. Requests without both timestamps
may have any overhead.

Lateness is known of every request, so it bounds each statistic, whether or not the verdict reports it. A statistic
that lateness can have changed by at most 1 % counts as exact.

If a worker waited for a core for a share w of the time, its closed loops would complete at most 1/(1 - w) times as many
requests without the wait. N clients with X requests/s, failed ones included, and mean delay D would complete at most
N / (N/X - D). An open load that achieved its rate has the offered throughput, with or without delays.
"""

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from loadframe.analyze.estimate import Estimate
from loadframe.analyze.verdict.rules import ACHIEVED_LIMIT, GENERATOR_OVERHEAD, LATENESS, effect_of
from loadframe.record.schema.figures import Figures, KernelTimes, Latency, OperationFigures
from loadframe.record.schema.summary import GeneratorFigures, PhaseSummary, RecordedFigure, RecordedReason

if TYPE_CHECKING:
    from loadframe.record import Histogram, HistogramLog

State = Literal["good", "bounded", "unknown"]
FigureName = Literal["throughput", "documents", "errors", "response", "service", "all"]

#: From the best to the worst.
STATES: tuple[State, ...] = ("good", "bounded", "unknown")
#: Largest relative error of a good throughput. The seconds of a run with more do not show the store's behaviour.
TOLERANCE = 0.05
#: Largest share of a response time that lateness may have added to it without bounds.
_IGNORED = 0.01
#: The key of bounds of figures that are one number.
VALUE = "value"
_QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999, "max": 1.0}
_LATENCIES: tuple[FigureName, ...] = ("response", "service", "all")
#: Rule of three: an event that n samples do not show has at most a share of 3/n, with 95 % confidence.
_UNSEEN = 3
#: Shares of requests that a lower bound gives up.
_TAILS = (0.0, 1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3)
_NOTHING = "nothing_measured"
_WAITED = "starved"


@dataclass(frozen=True)
class Figure:
    """One figure of a run with its bounds; `reasons` are the codes of the verdict's reasons that affect it."""

    value: float | None
    low: float
    high: float
    state: State
    reasons: tuple[str, ...] = ()

    @property
    def counts(self) -> bool:
        """Whether analyses use it: it is known, and good or bounded."""
        return self.state != "unknown" and self.value is not None


@dataclass(frozen=True)
class Stretch:
    """Smallest and largest factor from a measured value to the true value, over several figures."""

    low: float = 1.0
    high: float = 1.0

    @property
    def is_exact(self) -> bool:
        """Whether the true values are the measured ones."""
        return self.low == self.high == 1.0

    def ratio(self, below: "Stretch") -> "Stretch":
        """Return the factors for the ratio of this group's values to another group's (`below`).

        The upper factor is infinite if the lower one of `below` is 0.
        """
        return Stretch(self.low / below.high, self.high / below.low if below.low else math.inf)

    def widened(self, estimate: Estimate) -> Estimate:
        """Return a positive estimate with its low end times the lower factor, and its high end times the upper one.

        The value stays as it is, and so does an end that is not above 0.
        """
        if self.is_exact:
            return estimate
        low = estimate.low * (self.low if estimate.low > 0 else 1.0)
        return Estimate(estimate.value, low, estimate.high * self.high if estimate.high > 0 else estimate.high)


EXACT = Stretch()


def stretch_of(figures: Iterable[Figure]) -> Stretch:
    """Return the smallest and largest factor from a measured value to the true value, over several figures.

    Unknown figures and zeros are left out; both factors are 1 without any other.
    """
    counted = [it for it in figures if it.counts and it.value]
    low = min((it.low / it.value for it in counted if it.value), default=1.0)
    return Stretch(low, max((it.high / it.value for it in counted if it.value), default=1.0))


UNKNOWN = Figure(None, -math.inf, math.inf, "unknown")


def figure(recorded: RecordedFigure | None, value: float | None, key: str = VALUE) -> Figure:
    """Return a value with the bounds recorded for it; `key` names the statistic of a distribution, such as `p99`.

    Its state is `unknown`, without bounds, if `recorded` or `value` is None or the recorded state is unknown. If bounds
    are recorded, but not for `key`, they are 0 and infinity.
    """
    if recorded is None or recorded.state == "unknown" or value is None:
        return Figure(value, -math.inf, math.inf, "unknown", recorded.reasons if recorded else ())
    if not recorded.low and not recorded.high:
        return Figure(value, value, value, "good", recorded.reasons)
    # A statistic without a recorded bound has none.
    low, high = min(recorded.low.get(key, 0.0), value), max(recorded.high.get(key, math.inf), value)
    state = STATES[recorded.state == "bounded" and not low == value == high]
    return Figure(value, low, high, state, recorded.reasons)


class Distribution(Protocol):
    """Interface of a histogram: quantiles and the mean."""

    def quantile(self, q: float) -> float | None:
        """Return the quantile `q` (0 to 1), s, or an upper bound of it; None if a histogram is empty."""

    @property
    def mean(self) -> float | None:
        """The mean; None if the histogram is empty."""


@dataclass(frozen=True)
class _FromSummary:
    """Distribution known only by the quantiles in a summary: gives bounds of the quantiles in between."""

    points: Sequence[tuple[float, float]]
    mean: float | None

    def quantile(self, q: float) -> float | None:
        """Return an upper bound of a quantile, s: the next larger recorded one; infinite without one, never None."""
        return next((value for at, value in self.points if q <= at), math.inf)

    def least(self, q: float) -> float:
        """Return a lower bound of a quantile, s: the next smaller recorded one; 0 without one."""
        return max((value for at, value in self.points if at <= q), default=0.0)


@dataclass(frozen=True)
class _Delay:
    """Distribution of a delay, and the share of requests that a longer unsampled delay may affect."""

    distribution: Distribution
    unseen: float = 0.0


#: A delay without data.
_UNBOUNDED = _Delay(_FromSummary((), math.inf))


@dataclass(frozen=True, eq=False)
class Evidence:
    """Input for the quality of a phase's figures.

    `codes` are the codes of the verdict's reasons about the phase. Without `histograms` the bounds rest on the
    percentiles of the summary.
    """

    phase: PhaseSummary
    generator: GeneratorFigures | None
    codes: tuple[str, ...]
    histograms: Callable[[], "HistogramLog | None"] = field(default=lambda: None)


@dataclass(frozen=True)
class _Stamps:
    """Kernel timestamps of the requests of one latency, which bound the store's times from below."""

    times: KernelTimes
    corrected: Distribution
    overhead: _Delay
    requests: int  #: all requests of the latency, with and without timestamps

    @classmethod
    def of(cls, evidence: Evidence, operation: str, figures: Figures, latency: Latency) -> "_Stamps | None":
        """Return the timestamps of an operation for its `latency`, or None without any, and for parts of operations."""
        times = figures.kernel_times if isinstance(figures, OperationFigures) else None
        if times is None or not times.corrected.count:
            return None
        known = times.corrected.count
        requests = max(latency.count, known)
        corrected, overhead = (
            _distribution(evidence, operation, name, of)
            for name, of in (("corrected", times.corrected), ("overhead", times.overhead))
        )
        unseen = (requests - known + times.receive_only) / requests
        return cls(times, corrected, _Delay(overhead, unseen), requests)

    def least(self, key: str) -> float:
        """Return a lower bound of a statistic of the store's times, s; `key` is `mean`, `max` or such as `p99`.

        Requests without timestamps may have taken no time, and so may requests without a timestamp of their sending.
        """
        known, doubtful = self.times.corrected.count, self.times.receive_only
        if key == "mean":
            total = known * (self.times.corrected.mean or 0.0) - doubtful * (self.times.corrected.max or 0.0)
            return max(total, 0.0) / self.requests
        q = (_QUANTILES[key] * self.requests - (self.requests - known) - doubtful) / known
        if q <= 0:
            return 0.0
        corrected = self.corrected
        return (corrected.least(q) if isinstance(corrected, _FromSummary) else corrected.quantile(q)) or 0.0


def measured_figures(evidence: Evidence) -> tuple[RecordedFigure, ...]:
    """Return the quality of a phase's figures: its rates and errors, and its operations' times."""
    return tuple(_figures(evidence))


def is_valid(figures: Collection[RecordedFigure], codes: Iterable[str]) -> bool:
    """Return whether a complete run is valid: at least one of its figures is good or bounded.

    `codes` are the codes of its reasons. They decide about a run without figures.
    """
    if not figures:
        return not any(effect_of(code) == "unknown" for code in codes)
    return any(entry.state != "unknown" for entry in figures)


def codes_about(reasons: Sequence[RecordedReason], phase: str, phases: Sequence[str]) -> tuple[str, ...]:
    """Return the distinct codes of the reasons about a phase, or about the whole run.

    `phases` are the names of all phases: older runs name the phase only in the text of the reason's cause.
    """
    codes = []
    for reason in reasons:
        named = [reason.phase] if reason.phase else [name for name in phases if _names(reason.cause, name)]
        if not named or phase in named:
            codes.append(reason.code)
    return tuple(dict.fromkeys(codes))


def _names(cause: str, phase: str) -> bool:
    """Return whether a reason's cause has the words `phase NAME`, not followed by more of a longer name."""
    return re.search(rf"\bphase {re.escape(phase)}(?![\w-]|\.\w)", cause) is not None


def _figures(evidence: Evidence) -> Iterator[RecordedFigure]:
    """Yield the quality of a phase's rates and errors, then of the times of each operation and its parts."""
    phase = evidence.phase
    by_effect = _by_effect(evidence.codes)
    yield from _counts(evidence, by_effect)
    for name, operation in phase.operations.items():
        for full, figures in {
            name: operation,
            **{f"{name}.{part}": it for part, it in operation.parts.items()},
        }.items():
            yield from _times(evidence, by_effect, full, figures)


def _by_effect(codes: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the codes of validity rules by their effect on figures, such as `late`."""
    effects: dict[str, tuple[str, ...]] = {}
    for code in codes:
        effect = effect_of(code)
        effects[effect] = (*effects.get(effect, ()), code)
    return effects


def _counts(evidence: Evidence, by_effect: Mapping[str, tuple[str, ...]]) -> Iterator[RecordedFigure]:
    """Yield the states of throughput, documents and errors.

    All three are unknown if a rule says so, or if nothing was due. Else errors are good, and a rate gets an upper bound
    if the generator may have limited it; up to 5 % above the rate it stays good. `by_effect` has the codes of the rules
    that apply, by their effect.
    """
    phase = evidence.phase
    spoilt = by_effect.get("unknown", ())
    if not spoilt and not any(operation.due for operation in phase.operations.values()):
        spoilt = (_NOTHING,)
    if spoilt:
        for name in ("throughput", "documents", "errors"):
            yield RecordedFigure(phase.name, name, "unknown", reasons=spoilt)
        return
    factor = _shortfall(evidence, by_effect)
    effects = ("late", "delayed", "saturated", "partial", "overhead")
    codes = tuple(code for effect in effects for code in by_effect.get(effect, ()))
    state: State = "good" if factor <= 1 + TOLERANCE else "bounded"
    for name, value in (("throughput", phase.throughput), ("documents", phase.documents_per_second)):
        if factor == 1:
            yield RecordedFigure(phase.name, name, "good")
        else:
            high = {} if math.isinf(factor) else {VALUE: value * factor}
            yield RecordedFigure(phase.name, name, state, None, codes or (_WAITED,), {VALUE: value}, high)
    yield RecordedFigure(phase.name, "errors", "good")


def _shortfall(evidence: Evidence, by_effect: Mapping[str, tuple[str, ...]]) -> float:
    """Return the factor (1 or more) from the throughput to its upper bound; infinite if the run shows no bound.

    For closed loops it follows from delays and overhead, and is infinite for a saturated generator. With an open load
    and delays, it is at least 1 / the achieved share, if that is below 99 %; infinite if that is unknown. Time without
    all ranks multiplies it. `by_effect` has the codes of the rules that apply, by their effect.
    """
    phase, generator = evidence.phase, evidence.generator
    factor = 1.0
    delayed = "saturated" in by_effect or "delayed" in by_effect or "late" in by_effect
    if any(not stream.is_open for stream in phase.streams):
        # Waits below the verdict's limit cost throughput, too.
        factor = math.inf if "saturated" in by_effect else _closed_shortfall(evidence, delayed="delayed" in by_effect)
        if "overhead" in by_effect:
            factor *= _overhead_factor(phase)
    if delayed and phase.has_open_load:
        achieved = generator.achieved if generator else None
        if not achieved:
            factor = math.inf
        elif achieved < ACHIEVED_LIMIT:
            factor = max(factor, 1 / achieved)
    if "partial" in by_effect:
        missing = _missing_share(phase)
        factor = factor / (1 - missing) if missing < 1 else math.inf
    return factor


def _closed_shortfall(evidence: Evidence, *, delayed: bool) -> float:
    """Return the largest factor by which the generator's delays reduced the throughput of closed loops: 1 to infinity.

    It is the smaller of two bounds: by the share of time that the generator waited for a core, was stolen or stalled,
    and by the mean delays in the cycle of a client. The second needs a single stream with a fixed number of clients.
    Without a lost share it is 1, or if `delayed` the second bound, infinite if that is unknown. `delayed`: the verdict
    reports delays; without the generator's figures, these are unbounded.
    """
    phase, generator = evidence.phase, evidence.generator
    if generator is None:
        return math.inf if delayed else 1.0
    lost = generator.waited_share + (generator.stolen_share or 0.0) + (generator.away_share or 0.0)
    by_share = 1 / (1 - lost) if lost < 1 else math.inf
    if lost <= 0 and not delayed:
        return by_share
    # With several streams the share of each in the throughput is not known here.
    (stream, *others) = phase.streams
    means = [delay.distribution.mean or 0.0 for delay in _delays(evidence, lag=True, late=True)]
    if others or not isinstance(stream.clients, int) or stream.has_stages or not phase.throughput or not means:
        return by_share if lost > 0 else math.inf
    # Clients wait for failures, too: each request has a cycle, whether or not it succeeded.
    operations = phase.single.values()
    successes = sum(operation.successes for operation in operations)
    tries = sum(operation.requests for operation in operations) / successes if successes else 1.0
    cycle = stream.clients / (phase.throughput * tries)
    by_delay = cycle / (cycle - sum(means)) if sum(means) < cycle else math.inf
    # Event loops that lagged without a wait for a core were busy with other answers, which no share shows.
    return min(by_share, by_delay) if lost > 0 else by_delay


def _overhead_factor(phase: PhaseSummary) -> float:
    """Return the largest factor by which the overhead in service times reduced the throughput of closed loops.

    A client without the overhead o of its cycle c would complete c / (c - o) times as many requests. The service time
    is at most c, so its mean divided by that of the corrected one is an upper bound for each operation. The result is
    the largest bound over the operations: 1 without kernel timestamps, infinite if requests lack them.
    """
    factors = [1.0]
    for operation in phase.operations.values():
        times = operation.kernel_times
        if times and (times.without or times.receive_only):
            # Their overhead is unknown.
            factors.append(math.inf)
        elif times and times.overhead.mean is not None and times.corrected.mean is not None:
            factors.append(1 + times.overhead.mean / times.corrected.mean if times.corrected.mean else math.inf)
    return max(factors)


def _missing_share(phase: PhaseSummary) -> float:
    """Return the share of the measured window before the last rank began, 0 to 1; 1 if unknown or without a window."""
    late = max((rank.began_late for rank in phase.ranks), default=math.inf)
    return min(max(late - phase.warmup, 0.0) / phase.duration, 1.0) if phase.duration else 1.0


def _times(
    evidence: Evidence, by_effect: Mapping[str, tuple[str, ...]], operation: str, figures: Figures
) -> Iterator[RecordedFigure]:
    """Yield the states of each latency of an operation or a part of one, with bounds where a rule affects them.

    `operation` is `OPERATION` or `OPERATION.PART`. Latencies that were not recorded are left out.
    """
    phase = evidence.phase.name
    for name in _LATENCIES:
        latency: Latency | None = getattr(figures, name)
        if latency is None:
            continue
        if spoilt := _spoilt(evidence, by_effect, latency):
            yield RecordedFigure(phase, name, "unknown", operation, spoilt)
            continue
        due = name != "service" and evidence.phase.has_due_times
        late = () if name == "service" else by_effect.get("late", ())
        delayed, saturated, partial = (by_effect.get(effect, ()) for effect in ("delayed", "saturated", "partial"))
        stamps = _Stamps.of(evidence, operation, figures, latency)
        missing = _missing_share(evidence.phase) if partial else 0.0
        others = (*delayed, *saturated, *(partial if missing else ()))
        codes = (*late, *others, *(by_effect.get("overhead", ()) if stamps else ()))
        if not codes and not due and not stamps:
            yield RecordedFigure(phase, name, "good", operation)
            continue
        measured = _distribution(evidence, operation, name, latency)
        # The overhead includes the lag after the request was sent.
        lagging = bool(delayed) and not (stamps and name == "service")
        delays = [] if saturated else _delays(evidence, lag=lagging, late=name != "service")
        delays += [stamps.overhead] if stamps else []
        served = figures.service if name == "response" and not saturated and not stamps else None
        bare = _distribution(evidence, operation, "service", served) if served else None
        lag = _delays(evidence, lag=bool(delayed), late=False)
        low, high = dict[str, float](), dict[str, float]()
        least = stamps.least if stamps and not saturated and not missing else lambda _: 0.0
        for key in ("mean", *_QUANTILES):
            value = latency.at(key)
            if value is None:
                continue
            # The mean overhead of requests without timestamps is unknown.
            unknown = saturated or (key == "mean" and stamps and stamps.overhead.unseen)
            low[key] = 0.0 if unknown else _lowest(key, measured, delays, missing, value)
            if bare and served and (service := served.at(key)) is not None:
                low[key] = max(low[key], _lowest(key, bare, lag, missing, service))
            low[key] = min(max(low[key], least(key)), value)
            if not others and low[key] >= (1 - _IGNORED) * value:
                low[key] = value
            highest = _highest(key, measured, missing, value)
            if not math.isinf(highest):
                high[key] = highest
        if all(low[key] == latency.at(key) == high.get(key) for key in low):
            yield RecordedFigure(phase, name, "good", operation, codes)
            continue
        narrow = not others and all(low[key] >= (1 - TOLERANCE) * (latency.at(key) or 0.0) for key in low)
        state: State = "good" if narrow else "bounded"
        short = (LATENESS.code,) * due + (GENERATOR_OVERHEAD.code,) * bool(stamps)
        yield RecordedFigure(phase, name, state, operation, codes or short, low, high)


def _spoilt(evidence: Evidence, by_effect: Mapping[str, tuple[str, ...]], latency: Latency) -> tuple[str, ...]:
    """Return the codes of the reasons why a latency is unknown; empty if no rule makes it so and it has figures.

    `by_effect` has the codes of the rules that apply, by their effect.
    """
    spoilt = by_effect.get("unknown", ())
    if spoilt or latency.count or latency.p50 is not None or latency.p99 is not None:
        return spoilt
    return tuple(code for code in evidence.codes if code in (_NOTHING, "errors")) or (_NOTHING,)


def every_request(log: "HistogramLog", tag: str) -> "Histogram":
    """Return the response times of all requests of the measured window: clients wait for failures, too.

    Requests without an answer count with their wait until the end of the phase. `tag` is `PHASE/OPERATION`.
    """
    return log.total(f"{tag}/response") + log.total(f"{tag}/failure") + log.total(f"{tag}/abandoned")


def _distribution(evidence: Evidence, operation: str, name: str, latency: Latency) -> Distribution:
    """Return the distribution of the latency `name` from the histograms, or from the quantiles of `latency`.

    `operation` may be `OPERATION.PART`. `name` is a `FigureName`, or `overhead` or `corrected` for the kernel's
    timestamps.
    """
    log = evidence.histograms()
    if log is not None:
        tag = f"{evidence.phase.name}/{operation}"
        if name == "all":
            return every_request(log, tag)
        return log.total(f"{tag}/{name}")
    points = [(q, value) for key, q in _QUANTILES.items() if (value := latency.at(key)) is not None]
    return _FromSummary(points, latency.mean)


def _delays(evidence: Evidence, *, lag: bool, late: bool) -> list[_Delay]:
    """Return the distributions of the generator's delays: event-loop lag if `lag`, lateness of requests if `late`.

    Such a delay without data is unbounded, except lateness if the run has histograms, which hold it of every request.
    """
    log, begin = evidence.histograms(), evidence.phase.begin
    delays = list[_Delay]()
    if log is not None:
        end = begin + evidence.phase.duration
        # Lateness is recorded of every request.
        for tag, needed, sampled in (("generator/lag", lag, True), ("generator/lateness", late, False)):
            recorded = log.total(tag, begin, end)
            if needed and recorded.count:
                delays.append(_Delay(recorded, _UNSEEN / recorded.count if sampled else 0.0))
            elif needed and sampled:
                # An event loop that stood still for the whole window took no sample.
                delays.append(_UNBOUNDED)
        return delays
    generator = evidence.generator
    if generator is None:
        return [_UNBOUNDED] if lag or late else []
    # Older runs did not record the maximum of lateness.
    known = [(generator.lag_p99, generator.longest_stall, lag), (generator.lateness_p99, None, late)]
    for p99, most, needed in known:
        if needed and p99 is None:
            delays.append(_UNBOUNDED)
        elif needed and p99 is not None:
            points = [(0.99, p99), *([(1.0, max(most, p99))] if most is not None else [])]
            delays.append(_Delay(_FromSummary(points, math.inf if most is None else p99 + 0.01 * most)))
    return delays


def _lowest(key: str, measured: Distribution, delays: Sequence[_Delay], missing: float, value: float) -> float:
    """Return the lower bound, s, of the statistic `key`, such as `p99`, given its measured `value`; at least 0.

    `measured` is the distribution that includes the `delays`; a share `missing` of the window lacked a rank.
    """
    if key == "mean":
        return 0.0 if missing else max(value - sum(delay.distribution.mean or 0.0 for delay in delays), 0.0)
    best = 0.0
    for tail in _TAILS:
        tails = [max(tail, delay.unseen) for delay in delays]
        q = _QUANTILES[key] - missing - sum(tails)
        at_least = measured.least if isinstance(measured, _FromSummary) else measured.quantile
        least = at_least(q) if q > 0 else None
        if least is not None:
            longest = (delay.distribution.quantile(1 - a) or 0.0 for delay, a in zip(delays, tails, strict=True))
            best = max(best, least - sum(longest))
    return best


def _highest(key: str, measured: Distribution, missing: float, value: float) -> float:
    """Return the upper bound, s, of the statistic `key`, given its measured `value`; infinite if it has none.

    A share `missing` of the window lacked a rank: the bound is the quantile higher by `missing`, and a mean has none.
    If `missing` is 0, `value` is the bound.
    """
    if not missing:
        return value
    if key == "mean" or _QUANTILES[key] + missing >= 1:
        return math.inf
    most = measured.quantile(_QUANTILES[key] + missing)
    return math.inf if most is None else max(most, value)


def failed_share(operations: Sequence[OperationFigures]) -> float | None:
    """Return the share of due requests without success, with dropped and unanswered ones; None if none was due."""
    due = sum(operation.due for operation in operations)
    return (due - sum(operation.successes for operation in operations)) / due if due else None
