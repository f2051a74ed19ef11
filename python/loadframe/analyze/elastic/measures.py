"""Measures of one change of a cluster under load.

A sum of positive parts accumulates noise: over 240 s of 10 % noise it reports a throughput deficit of 10 s without any
loss. Here noise cancels. The account sums (excess - allowance) from the time of the change. Its maximum ends the first
stretch, which counts as a whole, with its sign. A further stretch counts if its account rises from 0 by more than noise
would: Page's cumulative sum ("Continuous inspection schemes", Biometrika, 1954). Excursions beyond h have a probability
of about exp(-2 k h / s^2) each, with the long-run variance s^2 and the allowance k.

The allowance is two standard errors of the reference level. Excess within the level's uncertainty therefore does not
prolong a stretch, and losses below it over the whole run are underestimated. benchmarks/simulate_elasticity.py gives
bias and coverage by simulation.

Pauses, such as garbage collections, are far longer than noise. A stretch that ends at the maximum of the account would
end with a pause more often than chance, and the sum would be too large. So the choice of seconds ignores pauses that
are ordinary: not much larger than those in the windows before and after, and in the control runs. The sums include
them, and the difference to the control run cancels them on average.

Symbols: x(t) throughput (requests, documents or events per second), L(t) the 99th percentile of response times, t0 the
time of the change. x0 and L0 are medians over a window W before t0, x1 and L1 over the last W of the analysed horizon
H. x~ and L~ are 10-second running medians. Times are in s since t0. The measures come from the elasticity
literature, on a common axis.
"""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from loadframe.analyze.autocorrelation import NORMAL, long_run_deviation, noise_scale
from loadframe.analyze.elastic.course import Course, Event, Flags, Series
from loadframe.base.event_kinds import (
    BALANCED,
    FAILED,
    FIRED,
    JOINED,
    KILLED,
    LEAVING,
    LEFT,
    REQUESTED,
    RESTARTED,
    STARTED,
)

#: Multiple of the level's standard error; the factor under the root is a median's variance relative to a mean's.
_ALLOWANCE = 2.0 * np.sqrt(np.pi / 2)
#: Threshold in units of s^2 / 2k, the scale of noise excursions: one in 150 is as high.
_HEIGHT = 5.0


def stretches(excess: Series, deviation: float, window: float) -> Flags:
    """Return the seconds in which a series was worse than its level because of the change.

    `excess` is the deterioration in each second since the change (negative if better), `deviation` the long-run
    standard deviation of its noise in the same unit, `window` the length of the reference window in s. An allowance for
    the error of the level, 2.5 `deviation` / sqrt(`window`), is subtracted. The first stretch lasts from the change
    until the sum is largest. Each later one begins where the sum rises from 0 (CUSUM), if it exceeds a threshold, and
    ends at its maximum.
    """
    allowance = _ALLOWANCE * deviation / np.sqrt(window)
    height = _HEIGHT * deviation**2 / (2 * allowance) if allowance > 0 else 0.0
    steps = excess - allowance
    flags = np.zeros(len(excess), dtype=bool)
    first = int(np.argmax(np.concatenate([[0.0], np.cumsum(steps)])))
    flags[:first] = True
    begin, total, best, end = first, 0.0, height, first
    for second in range(first, len(steps)):
        total += steps[second]
        if total > best:
            best, end = total, second + 1
        if total <= 0 or second == len(steps) - 1:
            flags[begin:end] = True
            begin, total, best, end = second + 1, 0.0, height, second + 1
    return flags


def without_pauses(excess: Series, scale: float, ordinary: float) -> Series:
    """Return the excess of each second, lowered to the 10-s running median in the seconds of ordinary pauses.

    A pause is a sequence of seconds with an excess above three times `scale`, the standard deviation of the noise. It
    is ordinary if its sum is at most `ordinary`; 0 leaves all seconds unchanged.
    """
    if not ordinary:
        return excess
    result, median = excess.copy(), running_median(excess)
    for first, last in _pauses(excess, scale):
        if excess[first:last].sum() <= ordinary:
            result[first:last] = np.minimum(excess[first:last], median[first:last])
    return result


def ordinary_pause(references: Sequence[Series]) -> float:
    """Return the largest sum of an ordinary pause: twice the largest in these relative deteriorations; 0 without any.

    Each reference is a series of seconds that the change did not affect, divided by its level, larger if worse. Its
    10-s running median is subtracted.
    """
    largest = 0.0
    for reference in references:
        known = reference[np.isfinite(reference)]
        if len(known):
            # The running median follows steps and trends of the level, so only pauses remain.
            rest = known - running_median(known)
            largest = max([largest, *(rest[first:last].sum() for first, last in _pauses(rest, noise_scale(rest)))])
    return _ORDINARY * largest


def _pauses(excess: Series, scale: float) -> list[tuple[int, int]]:
    """Return the first second of each pause and the second after its last, as indices.

    A pause is a sequence of seconds whose excess is above three times `scale`, the standard deviation of the noise.
    """
    if scale <= 0:
        return []
    outside = np.concatenate([[False], excess > _MADS * scale, [False]])
    edges = np.flatnonzero(outside[1:] != outside[:-1])
    return [(int(first), int(last)) for first, last in edges.reshape(-1, 2)]


def signed_sum(excess: Series, during: Flags) -> float:
    """Return the sum of `excess` over the seconds that `during` marks, up to the end of the shorter one."""
    length = min(len(excess), len(during))
    return float(excess[:length][during[:length]].sum())


#: Width of the running medians in s, and the relative distances from the last level within which a series is settled.
_RUNNING = 10
_SETTLED = 0.05
_SETTLED_P99 = 0.1
_MADS = 3.0
#: A deficit of more standard errors than this is significant.
_ERRORS = 3.0
#: Pauses vary: one of at most so many times the largest in the reference seconds is ordinary.
_ORDINARY = 2.0
#: Longest time that a sample of the cluster represents, s: polls are 1 s apart, and one may fail.
_SAMPLE = 2.5


@dataclass(frozen=True)
class Value:
    """A measure of one run; if `censored`, `value` is a lower bound.

    `low` and `high` are bounds of the effect of the load generator; None if it has none.
    """

    value: float
    censored: bool = False
    low: float | None = None
    high: float | None = None

    @property
    def below(self) -> float:
        """How much smaller the true value may be, in the unit of the value; 0 without a lower bound."""
        return 0.0 if self.low is None else max(self.value - self.low, 0.0)

    @property
    def above(self) -> float:
        """How much larger the true value may be, in the unit of the value; 0 without an upper bound."""
        return 0.0 if self.high is None else max(self.high - self.value, 0.0)


@dataclass(frozen=True)
class ChangeInRun:
    """One change within a course: from t0 to the end of the horizon, from `before` to `after` nodes."""

    begin: float
    end: float
    before: int
    after: int
    open: bool  #: open loop: throughput is the offered rate
    p99: float | None = None  #: the objective, s
    errors: float | None = None  #: the objective, share
    capacity: float | None = None  #: measured capacity of `after` nodes, 1/s


@dataclass(frozen=True)
class Levels:
    """Throughput (1/s) and 99th percentile (s) before and after; nan if most of the window is unknown."""

    x0: float
    x1: float
    l0: float
    l1: float


@dataclass(frozen=True, eq=False)
class Disturbed:
    """Disturbed seconds of a run: those since t0 in which it was worse than its levels.

    `joined` is the time (s) at which the ideal changes from the level before to the level after. The run's control is
    judged in the same seconds.
    """

    joined: float
    throughput: Flags
    latency: Flags


def levels(course: Course, change: ChangeInRun, window: float) -> Levels | None:
    """Return the median throughput and percentile before and after a change; `window` in s.

    None if the run lacks a window before the change or two windows after it, or if throughput was 0 before it.
    """
    if change.begin - course.start < window - 1 or change.end - change.begin < 2 * window - 1:
        return None
    before, after = _windows(course, change, window)
    levels = Levels(
        *(float(np.median(s)) for s in (course.throughput[before], course.throughput[after])),
        *(_level(course.response_p99[w], course.unknown[w]) for w in (before, after)),
    )
    return levels if levels.x0 > 0 else None


def disturbed(course: Course, change: ChangeInRun, window: float, controls: Sequence[Course] = ()) -> Disturbed | None:
    """Return the seconds since the change in which a run was worse than its levels, or None without levels.

    The result has flags by second of the change's interval, separately for throughput and p99; those of p99 are empty
    if its levels are unknown. `window` is the length of the reference windows, s. The courses of `controls` also show
    the ordinary pauses of the store.
    """
    level = levels(course, change, window)
    if level is None:
        return None
    joined = _joined(course, change)
    before, after = _windows(course, change, window)

    def where(excess: Series | None, series: Series, others: Sequence[Series], worse: int) -> Flags:
        """Return the disturbed seconds by `excess`; `worse` is 1 if larger values of the series are worse, else -1.

        `others` are the same series of control runs. Empty if `excess` is None.
        """
        if excess is None:
            return np.zeros(0, dtype=bool)
        level = _median(series[before])
        references = [worse * reference / level for reference in (series[before], series[after])]
        references += [worse * other / middle for other in others if (middle := _median(other)) > 0]
        scale = noise_scale(series[before]) / level
        usual = without_pauses(excess, scale, ordinary_pause(references))
        return stretches(usual, long_run_deviation(series[before]) / level, window)

    excess = _excess(course.response_p99, course, change, window, joined)
    return Disturbed(
        joined,
        where(_deficit(course, change, level), course.throughput, [control.throughput for control in controls], -1),
        where(excess, course.response_p99, [control.response_p99 for control in controls], 1),
    )


def measure(course: Course, change: ChangeInRun, window: float, during: Disturbed | None = None) -> dict[str, Value]:
    """Return the available measures of a change by name; see `repeated.MEASURES` for titles and units.

    `window` is the length of the reference windows, s. Without levels these are times of events, moved data and the
    measures of `service`. Sums run over the disturbed seconds of the course, or of another run (`during`). If the load
    generator limited the run, values have bounds.
    """
    instants = _instants(course, change)
    values = instants | _moved(course, change) | service(course, change)
    made = not change_failed(course, change)
    level = levels(course, change, window)
    during = during or disturbed(course, change, window)
    if level is None or during is None:
        return values
    x = course.throughput[course.within(change.begin, change.end)]
    # The generator may have limited one part of the run more than another.
    most = course.most
    deficit = _deficit(course, change, level)
    values |= {
        "x0": _scaled(level.x0, 1.0, most),
        "x1": _scaled(level.x1, 1.0, most),
        "stabilisation": stabilisation(course, change, window, level, _joined(course, change)),
        "disturbance": _within(
            depth := _depth(x, level.x0, during.throughput),
            max(1 - (1 - depth) * most, 0.0) if most > 1 else depth,
            1 - (1 - depth) / most if most > 1 else depth,
        ),
        "lost_work": _within(
            lost := signed_sum(deficit, during.throughput),
            lost - (most - 1) * (done := signed_sum(1 - deficit, during.throughput)),
            lost + (1 - 1 / most) * done,
        ),
    }
    values |= _latency(course, change, window, level, during)
    if level.x1 > 0 and made:
        values["elastic_efficiency"] = _scaled(float(x.sum()) / (level.x1 * len(x)), 1 / most, most)
    if not change.open:
        before, _ = _windows(course, change, window)
        earlier = course.throughput[before]
        # A sum compares with a mean: a median ignores pauses, which recur after the change.
        before_mean, deviation = float(earlier.mean()), long_run_deviation(earlier, clipped=False)
        at = break_even(x, before_mean, deviation, window)
        if most > 1 and not at.censored:
            soonest, latest = (
                break_even(x * most, before_mean, deviation, window),
                break_even(x, before_mean * most, deviation, window),
            )
            at = replace(at, low=soonest.value, high=np.inf if latest.censored else latest.value)
        values["break_even"] = at
    # Failed changes bring nothing.
    if not change.open and made:
        values["growth"] = _scaled(level.x1 / level.x0, 1 / most, most)
        if change.after != change.before and change.before and change.after:
            values["realised_gain"] = _scaled((level.x1 / level.x0) / (change.after / change.before), 1 / most, most)
        if change.capacity:
            values["capacity_reached"] = _scaled(level.x1 / change.capacity, 1.0, most)
    return values


def _within(value: float, low: float, high: float) -> Value:
    """Return a value with the bounds `low` and `high`, or without bounds if both are equal to it."""
    return Value(value) if low == value == high else Value(value, low=low, high=high)


def _scaled(value: float, low: float, high: float) -> Value:
    """Return a value above 0 with its bounds: from `low` to `high` times the value. Without bounds if both are 1."""
    return _within(value, value * low, value * high)


def _latency(course: Course, change: ChangeInRun, window: float, level: Levels, during: Disturbed) -> dict[str, Value]:
    """Return measures of response times by name: `unknown_latency`, `l0`, `l1`, `slowdown` and `latency_debt`.

    `slowdown` is the largest p99 of a second divided by `l0`. Unknown seconds are counted as `unknown_latency`, and
    make slowdown and debt lower bounds. `window` is in s. A measure is left out if its figures are unknown.
    """
    horizon = course.within(change.begin, change.end)
    unknown = int(course.unknown[horizon].sum())
    values = {"unknown_latency": Value(float(unknown))}
    fastest = course.fastest
    slowest = 1 / fastest if fastest > 0 else np.inf
    values |= {
        name: _scaled(known, fastest, 1.0) for name, known in (("l0", level.l0), ("l1", level.l1)) if np.isfinite(known)
    }
    p99 = course.response_p99[horizon]
    if np.isfinite(level.l0) and np.isfinite(p99).any():
        values["slowdown"] = replace(
            _scaled(float(np.nanmax(p99)) / level.l0, fastest, slowest), censored=bool(unknown)
        )
    excess = _excess(course.response_p99, course, change, window, during.joined)
    if excess is not None:
        debt, low, high = _debts(excess, course, change, level, during)
        values["latency_debt"] = replace(_within(debt, low, high), censored=bool(unknown))
    return values


def _windows(course: Course, change: ChangeInRun, window: float) -> tuple[slice, slice]:
    """Return the slices of the reference windows, of `window` s before the change and at the end of its horizon."""
    return course.within(change.begin - window, change.begin), course.within(change.end - window, change.end)


def _median(series: Series) -> float:
    """Return the median of the known values; nan without any."""
    known = series[np.isfinite(series)]
    return float(np.median(known)) if len(known) else float("nan")


def _level(series: Series, unknown: Flags) -> float:
    """Return the median of the known values; nan if most seconds are marked as unknown."""
    return _median(series) if 2 * int(unknown.sum()) <= len(series) else float("nan")


def _deficit(course: Course, change: ChangeInRun, level: Levels) -> Series:
    """Return the deficit of throughput in each second of the horizon as a share of the level before: 1 - x / x0."""
    deficit: Series = 1.0 - course.throughput[course.within(change.begin, change.end)] / level.x0
    return deficit


def _excess(series: Series, course: Course, change: ChangeInRun, window: float, joined: float) -> Series | None:
    """Return the relative excess of a series of response times over its ideal, by second of the horizon.

    The ideal is the level before until `joined` (s since the change), then the level after; the unit is the level
    before. Seconds without a value have an excess of 0. None if a level is unknown or 0.
    """
    first, last = (_level(series[w], course.unknown[w]) for w in _windows(course, change, window))
    if not (np.isfinite([first, last]).all() and first > 0):
        return None
    horizon = course.within(change.begin, change.end)
    ideal = np.where(course.times[horizon] - change.begin < joined, first, last)
    excess: Series = np.nan_to_num((series[horizon] - ideal) / first, nan=0.0)
    return excess


def _debts(
    excess: Series, course: Course, change: ChangeInRun, level: Levels, during: Disturbed
) -> tuple[float, float, float]:
    """Return the sum of the excess over the disturbed seconds, in s, and its lower and upper bound.

    The excess is relative to `level.l0`. Times relative to that level may be shorter or longer by the factor `fastest`
    of the course. The ideal before the node joined is that level, and exact.
    """
    debt, fastest = signed_sum(excess, during.latency), course.fastest
    times = course.times[course.within(change.begin, change.end)] - change.begin
    before = (times < during.joined).astype(float)
    after = (1 - before) * level.l1 / level.l0
    total, exact, uncertain = (signed_sum(part, during.latency) for part in (excess + before + after, before, after))
    if fastest == 1 or total == 0:
        return debt, debt, debt
    if fastest == 0:
        return debt, -np.inf if uncertain else -exact, np.inf
    return debt, total * fastest - uncertain / fastest - exact, total / fastest - uncertain * fastest - exact


def _joined(course: Course, change: ChangeInRun) -> float:
    """Return the time at which the last node had joined, s since the change began; 0 if none joined.

    Unlike `join_delay`, it is known even if some nodes never joined, because the other nodes changed the level.
    Restarted nodes count if none joined. 0 also for changes that remove nodes or act on others.
    """
    events = _events_during(course, change)
    # Nodes that join while others leave, or during an action on others, belong to another step.
    others = _removes(events) or (_actions(events) and not _adds(events))
    joins = [] if others else _joins(events)
    return joins[-1] - change.begin if joins else 0.0


def _joins(events: Sequence[Event]) -> list[float]:
    """Return the times at which nodes joined; without any, those at which restarted nodes had their data.

    Times are in s since the measured window began, in the order of `events`.
    """
    joined, restarted = ([event.time for event in events if event.kind == kind] for kind in (JOINED, RESTARTED))
    # A restarted node with its data counts as joined and waits for no data.
    return joined or restarted


def _depth(x: Series, x0: float, during: Flags) -> float:
    """Return the largest fall of the 10-s running median below `x0` in the marked seconds, as a share of `x0`.

    `x` is the throughput by second, 1/s, `during` marks the seconds. 0 without marked seconds or without a fall.
    """
    inside = during[: len(x)]
    lowest = running_median(x)[: len(inside)][inside]
    return max(1.0 - float(lowest.min()) / x0, 0.0) if len(lowest) else 0.0


def stabilisation(course: Course, change: ChangeInRun, window: float, level: Levels, joined: float) -> Value:
    """Return the time at which throughput and percentile have reached their last level and hold it for a window.

    Times are in s since the change began: t, `joined` (the last node has joined), and the result. With the 10-s running
    medians x~ and L~ and the last levels x1 and L1, two conditions must hold for `window` s from the first t after
    `joined`: abs(x~ - x1) <= max(5 % of x1, 3 MAD) and L~ <= L1 + max(10 % of L1, 3 MAD). This interval must precede
    the window of x1 and L1, which agrees with itself in any case; so a run that ends sooner is censored.
    """
    begin, last = change.begin + joined, course.within(change.end - window, change.end)
    x, p99 = running_median(course.throughput), running_median(course.response_p99)
    near = np.abs(x - level.x1) <= max(_SETTLED * level.x1, _MADS * _mad(course.throughput[last]))
    slow = p99 > level.l1 + max(_SETTLED_P99 * level.l1, _MADS * _mad(course.response_p99[last]))
    good = near & ~slow & ~course.unknown & np.isfinite(level.l1)
    span = round(window)
    latest = course.within(0.0, change.end - 2 * window).stop
    for index in range(course.within(begin, change.end).start, latest + 1):
        if index + span <= len(good) and good[index : index + span].all():
            return Value(max(course.start + index - change.begin, 0.0))
    return Value(change.end - change.begin, censored=True)


def break_even(x: Series, x0: float, deviation: float, window: float) -> Value:
    """Return the time at which throughput has made up the deficit, s since the change began.

    It is the end of the first second after the deepest deficit in which the sum of `x` - `x0` is 0 or more. 0 without a
    deficit; censored at the end of `x` if it remains. `x` is the throughput by second since the change, `x0` its mean
    over `window` s before it, and `deviation` the long-run standard deviation of `x`, all in 1/s. A deficit counts if
    it exceeds 3 standard errors: of the sum over its seconds, and of `x0`.
    """
    total = np.cumsum(x - x0)
    worst = int(np.argmin(total))
    lasting = worst + 1
    if total[worst] >= -_ERRORS * deviation * np.sqrt(lasting + lasting**2 / window):
        return Value(0.0)
    recovered = np.flatnonzero(total[worst:] >= 0)
    return Value(float(worst + recovered[0] + 1)) if len(recovered) else Value(float(len(x)), censored=True)


def running_median(series: Series) -> Series:
    """Return the median of the 10 s around each second; fewer at the ends. NaN values are ignored."""
    half = _RUNNING // 2
    padded = np.concatenate([np.full(half, np.nan), series, np.full(half - 1, np.nan)])
    if not len(series):
        return series
    with warnings.catch_warnings():
        # The median of ten unknown seconds is nan.
        warnings.filterwarnings("ignore", "All-NaN slice")
        medians: Series = np.nanmedian(np.lib.stride_tricks.sliding_window_view(padded, _RUNNING), axis=1)
    return medians


def _mad(series: Series) -> float:
    """Return the median absolute deviation of the known values; 0 without any."""
    return noise_scale(series) / NORMAL


def change_failed(course: Course, change: ChangeInRun) -> bool:
    """Return whether the change failed, or a requested node had not joined by the end."""
    events = _events_during(course, change)
    return _failed(events) or _awaits_node(events)


def _events_during(course: Course, change: ChangeInRun) -> list[Event]:
    """Return the events from the change until the end of its horizon.

    Events of steps that were not triggered in this time are left out; events without a step stay.
    """
    events = [event for event in course.events if change.begin <= event.time < change.end]
    steps = {event.step for event in events if event.kind == FIRED}
    return [event for event in events if not steps or event.step is None or event.step in steps]


def _failed(events: Sequence[Event]) -> bool:
    """Return whether an event reports a failed change."""
    return any(event.kind == FAILED for event in events)


def _actions(events: Sequence[Event]) -> set[str]:
    """Return the first words of the started and failed changes, such as `add`, `remove`, `start`."""
    return {event.words.partition(" ")[0] for event in events if event.kind in (STARTED, FAILED)}


def _adds(events: Sequence[Event]) -> bool:
    """Return whether the change was to add or start a node.

    Without a recorded action, whether a node was requested. With other actions only, a requested node belongs to
    another step.
    """
    actions = _actions(events)
    return bool(actions & {"add", "start"}) or (not actions and any(event.kind == REQUESTED for event in events))


def _removes(events: Sequence[Event]) -> bool:
    """Return whether the change was to remove nodes; without a recorded action, whether a node began to leave."""
    actions = _actions(events)
    return "remove" in actions or (not actions and any(event.kind == LEAVING for event in events))


def _left(events: Sequence[Event]) -> float | None:
    """Return the time at which the last node to remove had left; None if one has not.

    The time is in s since the measured window began. All nodes that began to leave must have left, and as many as the
    change names, if it names a number, else at least one.
    """
    left = [event.time for event in events if event.kind == LEFT]
    gone, leaving = (
        {name for event in events if event.kind == kind for name in event.nodes} for kind in (LEFT, LEAVING)
    )
    # A step names a node, or a number of nodes, which leave one after the other.
    asked = max(
        (int(n) for e in events if e.kind == STARTED and (n := e.words.rpartition(" ")[2]).isdecimal()), default=1
    )
    return left[-1] if left and leaving <= gone and len(gone) >= asked else None


def _awaits_node(events: Sequence[Event]) -> bool:
    """Return whether the change was to add or start nodes and one of them has not joined.

    Each requested node must have joined. Without requested nodes, one that joined or restarted is enough.
    """
    requested, joined = (
        {name for event in events if event.kind == kind for name in event.nodes} for kind in (REQUESTED, JOINED)
    )
    some = any(event.kind in (JOINED, RESTARTED) for event in events)
    return _adds(events) and (not some or not requested <= joined)


def _instants(course: Course, change: ChangeInRun) -> dict[str, Value]:
    """Return `join_delay`, `departure` and `redistribution`, s, as far as the change has them.

    The first two count from the start of the change. Redistribution counts from the last join, or for removals from the
    start, until data are balanced. Those that did not finish are censored at the end of the horizon. Empty for other
    actions than to add, start or remove nodes.
    """
    events = _events_during(course, change)
    adds, removes = _adds(events), _removes(events)
    if _actions(events) and not (adds or removes):
        # Nodes that join, leave or receive data meanwhile belong to another step.
        return {}
    joined = [event.time for event in events if event.kind == JOINED]
    grew = [] if removes or _awaits_node(events) else _joins(events)
    length = change.end - change.begin
    values, since = {}, (grew or joined or [change.begin])[-1]
    placed = since
    if removes:
        left = _left(events)
        values["departure"] = Value(length, censored=True) if left is None else Value(left - change.begin)
        since, placed = change.begin, math.inf if left is None else left
    elif grew:
        values["join_delay"] = Value(grew[-1] - change.begin)
    elif adds or (change.after != change.before and not any(event.kind == KILLED for event in events)):
        values["join_delay"] = Value(length, censored=True)
    # An earlier event shows that the data of another node are in place.
    balanced = [event.time for event in events if event.kind == BALANCED and event.time >= placed]
    if balanced and (removes or grew or joined):
        values["redistribution"] = Value(balanced[-1] - since)
    elif removes or (joined and not _awaits_node(events)):
        values["redistribution"] = Value(change.end - since, censored=True)
    return values


def _moved(course: Course, change: ChangeInRun) -> dict[str, Value]:
    """Return `bytes_moved` (bytes) and `bytes_rate` (bytes/s); for a store that counts pieces, `pieces_...`.

    The amount is the largest reported rest within the change minus the last one. The rate covers the time from that
    report until the first later one with the last amount; none if that took no time. Empty without reports.
    """
    samples = [(time, value) for time, value in course.left if change.begin <= time < change.end]
    if not samples:
        return {}
    what, last = "bytes" if course.unit == "bytes" else "pieces", samples[-1][1]
    since, most = max(samples, key=lambda sample: sample[1])
    values = {f"{what}_moved": Value(most - last)}
    took = next(time for time, value in samples if time >= since and value == last) - since
    return values | ({f"{what}_rate": Value((most - last) / took)} if took > 0 else {})


def service(course: Course, change: ChangeInRun) -> dict[str, Value]:
    """Return `errors`, `longest_gap`, `violation` and `exposure`: failed or dropped requests, and three times in s.

    The times are the longest gap without a success, the seconds outside the SLO, and those without some replicas. A
    measure is left out if the run has no objective, or no count of replicas. None of them needs levels.
    """
    horizon = course.within(change.begin, change.end)
    x, failed = course.throughput[horizon], course.failures[horizon]
    gap = _longest_gap(x > 0, course.idle[horizon])
    values = {"errors": Value(float(failed.sum())), "longest_gap": Value(float(gap))}
    if change.p99 is not None or change.errors is not None:
        p99 = course.response_p99[horizon]
        broken, at_least = np.zeros((2, len(x)), dtype=bool)
        if change.p99 is not None:
            # In a second with an unknown response time no request was answered.
            broken |= (p99 > change.p99) | course.unknown[horizon]
            at_least |= (p99 * course.fastest > change.p99) | course.unknown[horizon]
        if change.errors is not None:
            failing = course.error_share[horizon] > change.errors
            broken, at_least = broken | failing, at_least | failing
        values["violation"] = _within(float(broken.sum()), float(at_least.sum()), float(broken.sum()))
    if any(change.begin <= time < change.end for time, _ in course.missing):
        values["exposure"] = _exposure(course, change)
    return values


def _exposure(course: Course, change: ChangeInRun) -> Value:
    """Return the seconds with missing replicas; a lower bound if some time was not observed.

    A sample holds for up to 2.5 s, until the next one. At least one sample is needed.
    """
    times = [time for time, _ in course.missing]
    total, unknown = 0.0, max(times[0] - change.begin - _SAMPLE, 0.0)
    for (time, value), later in zip(course.missing, [*times[1:], math.inf], strict=True):
        begin, end, known = max(time, change.begin), min(later, change.end), time + _SAMPLE
        total += max(min(end, known) - begin, 0.0) if value > 0 else 0.0
        unknown += max(end - max(begin, known), 0.0)
    return Value(total, censored=unknown > 0)


def _longest_gap(succeeded: Flags, idle: Flags) -> int:
    """Return the length of the longest gap without a success, s; 0 without any.

    `succeeded` and `idle` mark the seconds with a success and those in which nothing was due. A gap begins and ends
    with a second that is not idle. Idle seconds in it count: few requests are due in an outage at a low rate.
    """
    longest, begin = 0, None
    for second, (good, nothing_due) in enumerate(zip(succeeded, idle, strict=True)):
        if good:
            begin = None
        elif not nothing_due:
            begin = second if begin is None else begin
            longest = max(longest, second + 1 - begin)
    return longest
