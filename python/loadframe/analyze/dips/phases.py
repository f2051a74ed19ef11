"""Dips in the phases of a run, and the activities of the store in the same seconds.

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

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from loadframe.analyze.autocorrelation import detrended
from loadframe.analyze.dips.activities import ActivitySeries, activity_series
from loadframe.analyze.dips.periods import Dips, Series, periodic_dips
from loadframe.record import Run
from loadframe.record.schema.summary import PhaseSummary

#: Probability of a false claim per phase.
LEVEL = 0.05


@dataclass(frozen=True)
class Overlap:
    """The share of the deficit in an activity's seconds, the share of these seconds in all, and the p of this."""

    lost: float
    seconds: float
    p: float

    @property
    def claimed(self) -> bool:
        """Whether the share of the deficit is significantly larger."""
        return self.p < LEVEL and self.lost > self.seconds


def overlaps(lost: Series, busy: Sequence[npt.NDArray[np.bool_]]) -> list[Overlap]:
    """Return the overlap of the deficit by second (not all 0) with each activity's busy seconds."""
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
    """Return the deficit that coincides with the activity at each shift, from 0 on."""
    n = len(lost)
    sums: Series = np.fft.irfft(np.fft.rfft(lost) * np.conj(np.fft.rfft(busy.astype(float))), n)
    return sums


_LEAST = 40
#: A dip lies at least this many standard deviations, and this share of the level, below the level.
_DEVIATIONS, _DEPTH = 6.0, 0.3
#: Ratio of standard deviation to median deviation for normal noise.
_NORMAL = 1.4826
#: Smallest number of dips, and largest share of their seconds; beyond it they are the level.
_DIPS, _MOST = 3, 1 / 3


def irregular_dips(throughput: Series) -> Dips | None:
    """Return the dips in throughputs of successive seconds, 1/s, at any distances, or None without any."""
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
        """Return the activity for JSON."""
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
        """The overlap of the deficit with any claimed activity; None if none is claimed."""
        if not self.claimed:
            return None
        any_of = np.any([activity.series.busy for activity in self.claimed], axis=0)
        (together,) = overlaps(_lost(self.dips), [any_of])
        return together

    @property
    def begins(self) -> list[float]:
        """The start of each dip, s since the run began."""
        return [self.phase.begin + second for second in self.dips.begins]

    def as_dict(self) -> dict[str, Any]:
        """Return the dips for JSON."""
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
    """Return the measured phases of a run that have recurring dips."""
    phases: list[DipsOfPhase] = []
    for phase in run.summary.measured:
        throughput = _throughput(run, phase)
        dips = periodic_dips(throughput) or irregular_dips(throughput)
        if dips:
            phases.append(DipsOfPhase(phase, dips, tuple(_activities(run, phase, dips))))
    return phases


def _throughput(run: Run, phase: PhaseSummary) -> Series:
    """Return the successes in each whole second of the measured window."""
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
    return np.where(dips.inside, dips.lost, 0.0)


def _activities(run: Run, phase: PhaseSummary, dips: Dips) -> list[Activity]:
    watched = activity_series(run, phase, len(dips.inside))
    known = [
        Activity(series, overlap, float(series.amounts[dips.inside].mean()), float(series.amounts[~dips.inside].mean()))
        for series, overlap in zip(watched, overlaps(_lost(dips), [series.busy for series in watched]), strict=True)
    ]
    return sorted(known, key=lambda activity: (activity.overlap.p, activity.overlap.seconds - activity.overlap.lost))
