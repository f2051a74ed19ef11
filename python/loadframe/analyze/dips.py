"""Recurring dips in throughput: their period and depth, and the store's activities in the same seconds.

The autocorrelation of the detrended series has a local maximum at the period. Seconds are correlated anyway, so the
threshold comes from 200 first-order autoregressive series with the same correlation and length: the maximum must exceed
99 of 100. Folding the series at the period then locates the dip within it. Slow waves are found as well as short stops;
dips at irregular distances are not.

Figures are summed over all nodes. A run has the activities that its store reports.

The test of an activity assumes under the null hypothesis that deficit and activity are independent. The activity could
then start at any other second, so its series is shifted circularly against the deficit by every number of seconds,
which keeps the spacing of both. p is the share of shifts at which at least as much of the deficit coincides with the
activity. For several activities, the most conspicuous one decides at each shift, so p is the probability of any false
claim among them (Westfall and Young, Resampling-Based Multiple Testing, Wiley 1993).

If dips and an activity recur at the same interval, only their phase distinguishes them from chance. p is then at least
about 1 / interval in seconds, so one run with a short period is inconclusive.

Irregular dips are outliers below the level. The spread of the other seconds comes from their median deviation, which
the dips do not widen. Slow waves are not found, nor are single stops.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from loadframe.analyze.autocorrelation import detrended, lag_one
from loadframe.record import Run
from loadframe.record.schema.summary import PhaseSummary

Series = npt.NDArray[np.float64]

#: Smallest number of periods in the series, and shortest period, s.
_CYCLES = 3
_SHORTEST = 4
#: Shortest series that is searched, s.
_LEAST = 40
_SURROGATES = 200
_LEVEL = 0.01
#: Maxima with at least this share of the highest count: the first is the period, the others its multiples.
_NEARLY = 0.7
#: Dips below this share of the level are ignored.
_SHALLOW = 0.05


@dataclass(frozen=True, eq=False)
class Dips:
    """Recurring dips: `period` and `length` in s, `depth` as a share of `level` (1/s).

    Irregular dips have no `period`; their `length` is the mean. `inside` marks the seconds within dips. `lost` is the
    deficit of each second relative to the level, 1/s. `share` is the deficit within dips as a share of the work at that
    level.
    """

    period: float | None
    length: float
    depth: float
    level: float
    inside: npt.NDArray[np.bool_]
    lost: Series
    share: float

    @property
    def begins(self) -> list[int]:
        """The first second of each dip, counted from the first whole second of the window."""
        before = np.concatenate([[False], self.inside[:-1]])
        return [int(second) for second in np.flatnonzero(self.inside & ~before)]


def periodic_dips(throughput: Series) -> Dips | None:
    """Return the periodic dips in throughputs of successive seconds, 1/s; None without any, or for fewer than 40 s."""
    values = np.asarray(throughput, dtype=float)
    if len(values) < _LEAST or values.mean() <= 0 or np.ptp(values) == 0:
        return None
    residuals = detrended(values)
    lags = _lags(len(values))
    heights = _heights(residuals, lags)
    if not len(heights) or heights.max() <= _threshold(len(values), lag_one(residuals), lags):
        return None
    first = int(np.flatnonzero(heights >= _NEARLY * heights.max())[0])
    return _folded(values, residuals, _refined(residuals, int(lags[first])))


def _lags(seconds: int) -> npt.NDArray[np.int64]:
    """Return the lags to search, s: from 4 to a third of a series of `seconds` s; empty for a series below 12 s."""
    return np.arange(_SHORTEST, seconds // _CYCLES + 1)


def _correlations(residuals: Series) -> Series:
    """Return the unbiased autocorrelation at each lag from 0 to n - 1, for residuals with mean 0; it is 1 at lag 0."""
    n = len(residuals)
    spectrum = np.fft.rfft(residuals, 2 * n)
    products = np.fft.irfft(np.abs(spectrum) ** 2)[:n]
    correlations: Series = products / (n - np.arange(n)) / (products[0] / n)
    return correlations


def _heights(residuals: Series, lags: npt.NDArray[np.int64]) -> Series:
    """Return for each lag the autocorrelation of the residuals if it is a positive local maximum there, else 0."""
    known = _correlations(residuals)
    at = known[lags]
    peak = (at >= known[lags - 1]) & (at >= known[lags + 1])
    return np.where(peak, np.maximum(at, 0.0), 0.0)


def _threshold(seconds: int, rho: float, lags: npt.NDArray[np.int64]) -> float:
    """Return the 99th percentile of the highest local maximum of the autocorrelation of series without a period.

    It is from 200 random series, always the same ones. They have `seconds` values with lag-one correlation `rho`;
    maxima are sought at the `lags`, s.
    """
    from scipy.signal import lfilter  # slow to import, and few runs need it

    random = np.random.default_rng(1)
    highest = []
    for _ in range(_SURROGATES):
        noise = random.standard_normal(seconds)
        noise[0] /= np.sqrt(1 - rho**2)
        series = lfilter([1.0], [1.0, -rho], noise)
        highest.append(float(_heights(detrended(series), lags).max(initial=0.0)))
    return float(np.quantile(highest, 1 - _LEVEL))


def _refined(residuals: Series, lag: int) -> float:
    """Return the period, s, to fractions of a second: the lag of its farthest usable multiple, divided by the multiple.

    `lag` is the period in whole s. Multiples reach up to two thirds of the series; the first one without a positive
    autocorrelation within 2 s ends the search.
    """
    known = _correlations(residuals)
    period = float(lag)
    for multiple in range(2, int(2 * len(residuals) / 3 / lag) + 1):
        middle = round(multiple * period)
        near = np.arange(max(middle - 2, 1), min(middle + 3, len(known)))
        if len(near) < 5 or known[near].max() <= 0:
            break
        period = float(near[np.argmax(known[near])]) / multiple
    return period


def _folded(values: Series, residuals: Series, period: float) -> Dips | None:
    """Return the dips that repeat with a period, s; None if their mean depth is below 5 % of the level.

    `residuals` are `values` (1/s by second) without their trend. They are averaged over all periods, by their place in
    the period; a dip has the places around the lowest mean that are below half of its depth.
    """
    places = (np.arange(len(values)) % period).astype(int)
    count = int(places.max()) + 1
    folded = np.array([residuals[places == place].mean() for place in range(count)])
    usual = float(np.median(folded))
    deepest = int(np.argmin(folded))
    half = usual - (usual - folded[deepest]) / 2
    places_inside = {deepest}
    for step in (1, -1):
        place = (deepest + step) % count
        while folded[place] < half and place not in places_inside:
            places_inside.add(place)
            place = (place + step) % count
    inside = np.isin(places, sorted(places_inside))
    # The level follows the trend: the deficit is relative to the surrounding seconds.
    trend = values - residuals
    level = trend + float(np.median(residuals[~inside])) if (~inside).any() else trend
    lost = np.maximum(level - values, 0.0)
    mean = float(level.mean())
    depth = float((level[inside] - values[inside]).mean()) / mean
    if depth < _SHALLOW:
        return None
    return Dips(period, len(places_inside), depth, mean, inside, lost, float(lost[inside].sum() / level.sum()))


#: Background activities that may delay requests: title by metric.
ACTIVITIES = {
    "merges_current": "merges",
    "refresh_ms": "refreshes",
    "flush_ms": "flushes",
    "gc_young_ms": "young garbage collections",
    "gc_old_ms": "old garbage collections",
    "jvm.gc": "garbage collections",
    "checkpoint_running": "checkpoints under way",
    "checkpoint_ms": "time of checkpoints",
    "compactions_current": "compactions",
    "flush_completed": "flushes of memtables",
    "saving": "snapshots (RDB)",
    "rewriting": "rewrites of the log (AOF)",
    "forks": "forks",
    "checkpoints": "checkpoints",
    "checkpoint_written_bytes": "writes of checkpoints",
    "vacuums_running": "vacuums",
    "cache_written_bytes": "writes of the cache",
    "process.written": "writes to storage",
    "process.read": "reads from storage",
    "cgroup.throttled": "stops by the CPU quota",
}
#: Metrics that are rates or current counts; the others are cumulative totals.
_LEVELS = {
    "merges_current",
    "jvm.gc",
    "checkpoint_running",
    "compactions_current",
    "saving",
    "rewriting",
    "vacuums_running",
    "process.written",
    "process.read",
    "cgroup.throttled",
}


@dataclass(frozen=True, eq=False)
class ActivitySeries:
    """One activity in successive seconds; `amounts` are in the metric's unit, per second."""

    metric: str
    amounts: Series

    @property
    def words(self) -> str:
        """Title of the activity."""
        return ACTIVITIES[self.metric]

    @property
    def busy(self) -> npt.NDArray[np.bool_]:
        """For each second, whether its amount exceeds the mean."""
        more: npt.NDArray[np.bool_] = self.amounts > self.amounts.mean()
        return more

    @property
    def stretches(self) -> list[tuple[int, int]]:
        """The first second of each busy stretch, and the second after its last, counted from the first one."""
        edges = np.flatnonzero(np.diff(np.concatenate([[0], self.busy.astype(int), [0]])))
        return [(int(begin), int(end)) for begin, end in edges.reshape(-1, 2)]


def activity_series(run: Run, begin: float, seconds: int) -> list[ActivitySeries]:
    """Return the recorded activities in `seconds` seconds from `begin` on, s since the run began, except constant ones.

    They are in the order of `ACTIVITIES`.
    """
    known = [(metric, _amounts(run, begin, metric, seconds)) for metric in ACTIVITIES]
    return [ActivitySeries(metric, amounts) for metric, amounts in known if amounts is not None and np.ptp(amounts) > 0]


def _amounts(run: Run, begin: float, metric: str, seconds: int) -> Series | None:
    """Return a metric's amount in each of the `seconds` seconds from `begin` on, s since the run began, over all nodes.

    Amounts are sums in the metric's unit per second. None if it was not recorded there, or if `seconds` is below 1.
    """
    if seconds < 1:
        return None
    table = run.telemetry
    # A rate covers the time before its sample, so the last second's comes after its end.
    until = pc.less_equal(table["time"], begin + seconds + 1)
    rows = table.filter(pc.and_(pc.equal(table["metric"], metric), until))
    by_source: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for source, time, value in zip(
        rows["source"].to_pylist(), rows["time"].to_pylist(), rows["value"].to_pylist(), strict=True
    ):
        by_source[source].append((time - begin, value))
    amounts = np.zeros(seconds)
    seen = False
    edges = np.arange(seconds + 1, dtype=float)
    for samples in by_source.values():
        times, values = np.array(sorted(samples)).T
        if len(times) < 2 or times[0] > seconds or times[-1] < 0:
            continue
        if metric in _LEVELS:
            values = np.concatenate([[0.0], np.cumsum(values[1:] * np.diff(times))])
        # The totals of a restarted node start from 0 again.
        steps = np.maximum(np.diff(values), 0.0)
        amounts += np.diff(np.interp(edges, times, np.concatenate([[0.0], np.cumsum(steps)])))
        seen = True
    return amounts if seen else None


#: Probability of a false claim per phase.
LEVEL = 0.05


@dataclass(frozen=True)
class Overlap:
    """The share of the deficit in an activity's seconds, the share of these seconds in all, and the overlap's p."""

    lost: float
    seconds: float
    p: float

    @property
    def claimed(self) -> bool:
        """Whether the activity has significantly (p < 0.05) more of the deficit than its share of all seconds."""
        return self.p < LEVEL and self.lost > self.seconds


def overlaps(lost: Series, busy: Sequence[npt.NDArray[np.bool_]]) -> list[Overlap]:
    """Return each activity's share of the deficit, its share of all seconds, and the p-value of their overlap.

    `lost` is the deficit of each second (not all 0), `busy` the busy seconds of each activity, of equal length. p is
    the share of circular shifts of the busy seconds, common to all activities, at which any activity overlaps at least
    as much, in its own standard deviations. So it is corrected for the number of activities; pass all of them at once.
    """
    if not busy:
        return []
    total = lost.sum()
    shifted = np.array([_at_every_shift(lost, seconds) / total for seconds in busy])
    spread = shifted.std(axis=1, keepdims=True)
    standing = (shifted - shifted.mean(axis=1, keepdims=True)) / np.where(spread > 0, spread, 1.0)
    # Sums that differ only by rounding count as equal.
    most = standing.max(axis=0) + 1e-9
    return [
        Overlap(float(shifted[at, 0]), float(seconds.mean()), float((most >= standing[at, 0]).mean()))
        for at, seconds in enumerate(busy)
    ]


def _at_every_shift(lost: Series, busy: npt.NDArray[np.bool_]) -> Series:
    """Return the part of the deficit in busy seconds, with `busy` shifted circularly by 0, 1, ... seconds.

    `lost` and `busy` have a value for each second, and so has the result for each shift.
    """
    n = len(lost)
    sums: Series = np.fft.irfft(np.fft.rfft(lost) * np.conj(np.fft.rfft(busy.astype(float))), n)
    return sums


#: A dip lies at least this many standard deviations, and this share of the level, below the level.
_DEVIATIONS, _DEPTH = 6.0, 0.3
#: Ratio of standard deviation to median deviation for normal noise.
_NORMAL = 1.4826
#: Smallest number of dips, and largest share of their seconds; beyond it they are the level.
_DIPS, _MOST = 3, 1 / 3


def irregular_dips(throughput: Series) -> Dips | None:
    """Return the dips in throughputs of successive seconds, 1/s, at any distances, or None without any.

    A dip is at least 30 % and six standard deviations below the level. None also for fewer than 40 s, for fewer than
    three dips, and if dips have more than a third of the seconds.
    """
    values = np.asarray(throughput, dtype=float)
    if len(values) < _LEAST or values.mean() <= 0:
        return None
    residuals = detrended(values)
    level = values - residuals + float(np.median(residuals))
    below = level - values
    deviation = _NORMAL * float(np.median(np.abs(below)))
    inside = below > np.maximum(_DEVIATIONS * deviation, _DEPTH * level)
    stretches = int((np.diff(np.concatenate([[0], inside.astype(int)])) == 1).sum())
    if stretches < _DIPS or inside.mean() > _MOST:
        return None
    lost, mean = np.maximum(below, 0.0), float(level.mean())
    depth = float(below[inside].mean()) / mean
    length = float(inside.sum()) / stretches
    return Dips(None, length, depth, mean, inside, lost, float(lost[inside].sum() / level.sum()))


@dataclass(frozen=True)
class Activity:
    """An activity of the store and its overlap with the deficit.

    `inside` and `outside` are its mean amounts within and outside dips, in the metric's unit per second.
    """

    series: ActivitySeries
    overlap: Overlap
    inside: float
    outside: float

    def as_dict(self) -> dict[str, Any]:
        """Return metric, title (`words`), overlap and mean amounts within and outside dips for JSON."""
        return {
            "metric": self.series.metric,
            "words": self.series.words,
            "lost": self.overlap.lost,
            "seconds": self.overlap.seconds,
            "p": self.overlap.p,
            "inside": self.inside,
            "outside": self.outside,
        }


@dataclass(frozen=True, eq=False)
class DipsOfPhase:
    """The dips of one phase and the store's activities, the most significant first."""

    phase: PhaseSummary
    dips: Dips
    activities: tuple[Activity, ...]

    @property
    def claimed(self) -> tuple[Activity, ...]:
        """The activities with a significant overlap."""
        return tuple(activity for activity in self.activities if activity.overlap.claimed)

    @property
    def explained(self) -> Overlap | None:
        """The overlap of the deficit with the busy seconds of all claimed activities together; None without any."""
        if not self.claimed:
            return None
        any_of = np.any([activity.series.busy for activity in self.claimed], axis=0)
        (together,) = overlaps(_lost(self.dips), [any_of])
        return together

    @property
    def begins(self) -> list[float]:
        """The start of each dip, s since the run began."""
        return [_whole_from(self.phase) + second for second in self.dips.begins]

    def as_dict(self) -> dict[str, Any]:
        """Return the dips and activities for JSON: `period` and `length` in s, `begins` in s since the run began.

        `depth` and `lost_share` are shares. `period` is null for irregular dips, and `explained` without a claimed
        activity.
        """
        dips = self.dips
        return {
            "phase": self.phase.name,
            "period": dips.period,
            "length": dips.length,
            "depth": dips.depth,
            "lost_share": dips.share,
            "begins": self.begins,
            "activities": [activity.as_dict() for activity in self.activities],
            "explained": self.explained and vars(self.explained),
        }


def dips_of(run: Run) -> list[DipsOfPhase]:
    """Return the measured phases of a run with dips, each with the dips and the store's activities.

    The dips are the periodic ones; without these, the irregular ones.
    """
    phases: list[DipsOfPhase] = []
    for phase in run.summary.measured:
        throughput = _throughput(run, phase)
        dips = periodic_dips(throughput) or irregular_dips(throughput)
        if dips:
            phases.append(DipsOfPhase(phase, dips, tuple(_activities(run, phase, dips))))
    return phases


def _whole_from(phase: PhaseSummary) -> float:
    """Return the start of the first whole second of the measured window, s since the run began."""
    return phase.start + phase.whole_seconds.start


def _throughput(run: Run, phase: PhaseSummary) -> Series:
    """Return an array of the successes, all operations together, in each whole second of the measured window."""
    series = run.series
    begin, end = phase.whole_seconds.start, phase.whole_seconds.stop
    within = pc.and_(pc.greater_equal(series["second"], begin), pc.less(series["second"], end))
    single = pc.is_in(series["operation"], pa.array(list(phase.single), pa.string()))
    rows = series.filter(pc.and_(pc.and_(within, single), pc.equal(series["phase"], phase.name)))
    counts = np.bincount(
        rows["second"].to_numpy() - begin, weights=rows["successes"].to_numpy(), minlength=max(end - begin, 0)
    )
    return counts.astype(float)


def _lost(dips: Dips) -> Series:
    """Return the deficit of each second within dips, 1/s, and 0 for the other seconds."""
    return np.where(dips.inside, dips.lost, 0.0)


def _activities(run: Run, phase: PhaseSummary, dips: Dips) -> list[Activity]:
    """Return the store's activities with their overlap with the deficit in dips, the most significant first."""
    watched = activity_series(run, _whole_from(phase), len(dips.inside))
    known = [
        Activity(series, overlap, float(series.amounts[dips.inside].mean()), float(series.amounts[~dips.inside].mean()))
        for series, overlap in zip(watched, overlaps(_lost(dips), [series.busy for series in watched]), strict=True)
    ]
    return sorted(known, key=lambda activity: (activity.overlap.p, activity.overlap.seconds - activity.overlap.lost))


__all__ = ["ActivitySeries", "Dips", "DipsOfPhase", "activity_series", "dips_of", "irregular_dips", "periodic_dips"]
