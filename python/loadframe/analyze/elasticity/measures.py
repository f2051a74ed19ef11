"""The measures of one change of a cluster under load, as pure functions of the run's course.

Symbols: x(t) successes per second, L(t) the 99th percentile of response times, t0 the instant of the change; x0 and L0
are medians over a window W before t0, x1 and L1 over the last W of the horizon H that is looked at; x~ and L~ are
10-second running medians. Times are in s since t0. Method: the measures of the elasticity literature, put on one axis.
"""

from dataclasses import dataclass

import numpy as np

from loadframe.analyze.elasticity.course import BALANCED, JOINED, KILLED, LEAVING, LEFT, Course, Series

#: s of the running medians, and how far from its last level a series counts as settled.
_RUNNING = 10
_SETTLED = 0.05
_SETTLED_P99 = 0.1
_MADS = 3.0
#: From the median absolute deviation to the standard deviation of a normal distribution.
_NORMAL = 1.4826


@dataclass(frozen=True)
class Value:
    """A measure of one run; `censored` where it is only known to be more than `value`."""

    value: float
    censored: bool = False


@dataclass(frozen=True)
class Change:
    """One change within a course: from t0 to the horizon's end, on a cluster of `before` and then `after` nodes."""

    begin: float
    end: float
    before: int
    after: int
    open: bool  #: the load does not wait for answers, so throughput is what was offered
    p99: float | None = None  #: the objective, s
    errors: float | None = None  #: the objective, share
    capacity: float | None = None  #: 1/s, that as many nodes as there are afterwards were measured to have


@dataclass(frozen=True)
class Levels:
    """Throughput (1/s) and 99th percentile (s) before and after, and how much they scatter after."""

    x0: float
    x1: float
    l0: float
    l1: float


def levels(course: Course, change: Change, window: float) -> Levels | None:
    """Return the levels; None where the run has not so much before the change, or twice as much after it."""
    if change.begin - course.start < window - 1 or change.end - change.begin < 2 * window - 1:
        return None
    before = course.within(change.begin - window, change.begin)
    after = course.within(change.end - window, change.end)
    p99 = filled(course.response_p99)
    found = Levels(
        *(float(np.median(s)) for s in (course.successes[before], course.successes[after])),
        *(float(np.median(s)) for s in (p99[before], p99[after])),
    )
    return found if found.x0 > 0 and np.isfinite([found.l0, found.l1]).all() else None


def measure(course: Course, change: Change, window: float) -> dict[str, Value]:
    """Return every measure that the course can give, by name; see `names.MEASURES` for words and units."""
    found = _instants(course, change) | _moved(course, change) | service(course, change)
    level = levels(course, change, window)
    if level is None:
        return found
    horizon = course.within(change.begin, change.end)
    x, p99 = course.successes[horizon], filled(course.response_p99)[horizon]
    since = course.times[horizon] - change.begin
    joined = found["join_delay"].value if "join_delay" in found and not found["join_delay"].censored else 0.0
    ideal = np.where(since < joined, level.l0, level.l1)
    found |= {
        "x0": Value(level.x0),
        "x1": Value(level.x1),
        "l0": Value(level.l0),
        "l1": Value(level.l1),
        "stabilisation": stabilisation(course, change, window, level, joined),
        "disturbance": Value(max(1.0 - float(running_median(x).min()) / level.x0, 0.0)),
        "slowdown": Value(float(p99.max()) / level.l0),
        "lost_work": Value(float(np.maximum(level.x0 - x, 0.0).sum()) / level.x0),
        "latency_debt": Value(float(np.maximum(p99 - ideal, 0.0).sum()) / level.l0),
    }
    if level.x1 > 0:
        found["elastic_efficiency"] = Value(float(x.sum()) / (level.x1 * len(x)))
    if not change.open:
        found["break_even"] = break_even(x, level.x0, window)
        found["growth"] = Value(level.x1 / level.x0)
        if change.after != change.before and change.before and change.after:
            found["realised_gain"] = Value((level.x1 / level.x0) / (change.after / change.before))
        if change.capacity:
            found["capacity_reached"] = Value(level.x1 / change.capacity)
    dory = _dory(course, change, window, joined)
    return found if dory is None else found | {"dory": Value(dory)}


def stabilisation(course: Course, change: Change, window: float, level: Levels, joined: float) -> Value:
    """Return when throughput and percentile have come to their last level, and held it for W.

    That is the first t, not before the node has joined, from which abs(x~ - x1) <= max(5 % of x1, 3 MAD) and
    L~ <= L1 + max(10 % of L1, 3 MAD) hold for W. That stretch must lie before the window from which x1 and L1 are
    taken, which agrees with itself whatever happens; so a run that ends sooner is censored.
    """
    begin, last = change.begin + joined, course.within(change.end - window, change.end)
    x, p99 = running_median(course.successes), running_median(filled(course.response_p99))
    near = np.abs(x - level.x1) <= max(_SETTLED * level.x1, _MADS * _mad(course.successes[last]))
    fast = p99 <= level.l1 + max(_SETTLED_P99 * level.l1, _MADS * _mad(filled(course.response_p99)[last]))
    good = near & fast
    span = round(window)
    latest = course.within(0.0, change.end - 2 * window).stop
    for index in range(course.within(begin, change.end).start, latest + 1):
        if index + span <= len(good) and good[index : index + span].all():
            return Value(max(course.start + index - change.begin, 0.0))
    return Value(change.end - change.begin, censored=True)


def break_even(x: Series, x0: float, window: float) -> Value:
    """Return when what was lost since the change is made up for; 0 where nothing was lost, censored where it never is.

    A deficit within 3 standard deviations of what as many seconds scatter, and x0 itself as a median over W, is none.
    """
    total = np.cumsum(x - x0)
    worst = int(np.argmin(total))
    scatter = _NORMAL * _mad(np.diff(x)) / np.sqrt(2.0) if len(x) > 1 else 0.0
    lasting = worst + 1
    # The variance of a median is pi/2 of that of a mean.
    if total[worst] >= -_MADS * scatter * np.sqrt(lasting + lasting**2 * np.pi / 2 / window):
        return Value(0.0)
    recovered = np.flatnonzero(total[worst:] >= 0)
    return Value(float(worst + recovered[0] + 1)) if len(recovered) else Value(float(len(x)), censored=True)


def running_median(series: Series) -> Series:
    """Return the median of the 10 s about each second; at the ends of those that there are."""
    half = _RUNNING // 2
    padded = np.concatenate([np.full(half, np.nan), series, np.full(half - 1, np.nan)])
    if not len(series):
        return series
    medians: Series = np.nanmedian(np.lib.stride_tricks.sliding_window_view(padded, _RUNNING), axis=1)
    return medians


def filled(series: Series) -> Series:
    """Return a series whose gaps are bridged by straight lines: a second without an answer has no response time."""
    known = np.flatnonzero(np.isfinite(series))
    if not len(known):
        return series
    bridged: Series = np.interp(np.arange(len(series)), known, series[known])
    return bridged


def _mad(series: Series) -> float:
    return float(np.median(np.abs(series - np.median(series)))) if len(series) else 0.0


def _instants(course: Course, change: Change) -> dict[str, Value]:
    """Return how long joining and moving took, as far as they came."""
    found = {}
    here = [event for event in course.events if change.begin - 0.5 <= event.time < change.end]
    grew = [event.time for event in here if event.kind == JOINED]
    left = [event.time for event in here if event.kind == LEFT]
    balanced = [event.time for event in here if event.kind == BALANCED]
    length = change.end - change.begin
    leaving = any(event.kind == LEAVING for event in here)
    if change.after != change.before or leaving or grew:
        if grew:
            found["join_delay"] = Value(grew[-1] - change.begin)
        elif leaving:
            found["departure"] = Value(left[-1] - change.begin) if left else Value(length, censored=True)
        elif not any(event.kind == KILLED for event in here):
            found["join_delay"] = Value(length, censored=True)
        since = grew[-1] if grew else change.begin
        if balanced:
            found["redistribution"] = Value(max(balanced[-1] - since, 0.0))
        elif grew or leaving:
            found["redistribution"] = Value(change.end - since, censored=True)
    return found


def _moved(course: Course, change: Change) -> dict[str, Value]:
    """Return what was counted down while data moved, and how quickly; nothing where the change told of nothing."""
    told = [(time, value) for time, value in course.left if change.begin <= time < change.end]
    if not told:
        return {}
    what, last = "bytes" if course.unit == "bytes" else "pieces", told[-1][1]
    since, most = max(told, key=lambda sample: sample[1])
    found = {f"{what}_moved": Value(most - last)}
    took = next(time for time, value in told if time >= since and value == last) - since
    return found | ({f"{what}_rate": Value((most - last) / took)} if took > 0 else {})


def service(course: Course, change: Change) -> dict[str, Value]:
    """Return what users had to bear, counted in seconds and requests; it needs no levels."""
    horizon = course.within(change.begin, change.end)
    x, failed = course.successes[horizon], course.failures[horizon]
    found = {"errors": Value(float(failed.sum())), "longest_gap": Value(float(_longest(x == 0)))}
    if change.p99 is not None or change.errors is not None:
        p99 = course.response_p99[horizon]
        broken = np.zeros(len(x), dtype=bool)
        if change.p99 is not None:
            broken |= ~(p99 <= change.p99)
        if change.errors is not None:
            broken |= failed > change.errors * (x + failed)
        found["violation"] = Value(float(broken.sum()))
    seen = [(time, value) for time, value in course.missing if change.begin <= time < change.end]
    if seen:
        times = [*(time for time, _ in seen[1:]), change.end]
        # A look that takes long says nothing of the time until the next one.
        spans = (min(later - time, 2.0) for (time, _), later in zip(seen, times, strict=True))
        found["exposure"] = Value(sum(span for span, (_, value) in zip(spans, seen, strict=True) if value > 0))
    return found


def _longest(flags: np.ndarray) -> int:
    longest = current = 0
    for flag in flags:
        current = current + 1 if flag else 0
        longest = max(longest, current)
    return longest


def _dory(course: Course, change: Change, window: float, joined: float) -> float | None:
    """Return (A + B) / ((R1 + R2) (V1 + V2)), in the manner of Dory et al., "Measuring Elasticity for Cloud Databases"
    (CLOUD COMPUTING 2011), who propose a measure without dimension.

    A and B are the areas of what mean response time and its deviation have in excess of their levels (R1, V1 before
    the node joins and R2, V2 after), in s^2. 0 is a change that nobody notices. The formula is from memory and was not
    checked against the paper; the documentation says so.
    """
    total, levels_ = 0.0, []
    horizon = course.within(change.begin, change.end)
    since = course.times[horizon] - change.begin
    for series in (filled(course.response_mean), filled(course.response_deviation)):
        first = float(np.median(series[course.within(change.begin - window, change.begin)]))
        last = float(np.median(series[course.within(change.end - window, change.end)]))
        total += float(np.maximum(series[horizon] - np.where(since < joined, first, last), 0.0).sum())
        levels_.append(first + last)
    score = total / (levels_[0] * levels_[1]) if levels_[0] * levels_[1] > 0 else np.nan
    return float(score) if np.isfinite(score) else None
