"""Dips in the phases of a run, and the activities of the store in the same seconds.

By chance means: both go on as they do, and have nothing to do with each other. Then the one could as well have begun
at any other second, so the series of the activity is shifted against that of the loss by every number of seconds, in a
circle, which keeps how either is spaced. p is the share of shifts at which as much of the loss falls into the activity
as at none. Of several activities that were looked at, the one that stands out most decides at each shift, so that any
false claim among all of them has that probability (Westfall and Young, Resampling-Based Multiple Testing, Wiley 1993).

Where dips and an activity come at the same interval, only their phase tells them apart from chance: p is then
no less than about one by the seconds of that distance, and one run of short periods cannot decide.

Far is beyond what the scatter of the others reaches, taken from their median deviation, so that the dips themselves do
not widen it. A slow wave is not found, nor is a single stop, which does not come again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from loadframe.analyze.autocorrelation import detrended
from loadframe.analyze.dips.activities import Doing, doings
from loadframe.analyze.dips.periods import Dips, Series, periodic_dips
from loadframe.record import Run
from loadframe.record.schema.summary import PhaseSummary

#: The probability of a false claim in a phase.
LEVEL = 0.05


@dataclass(frozen=True)
class Overlap:
    """The share of what was lost in an activity's seconds, beside the share of all seconds that these are; p of it."""

    lost: float
    seconds: float
    p: float

    @property
    def claimed(self) -> bool:
        """Whether that is more than chance."""
        return self.p < LEVEL and self.lost > self.seconds


def overlaps(lost: Series, busy: Sequence[npt.NDArray[np.bool_]]) -> list[Overlap]:
    """Return the overlap of what was lost in each second (at least something) with each activity's busy seconds."""
    if not busy:
        return []
    total = lost.sum()
    shifted = np.array([_at_every_shift(lost, seconds) / total for seconds in busy])
    spread = shifted.std(axis=1, keepdims=True)
    standing = (shifted - shifted.mean(axis=1, keepdims=True)) / np.where(spread > 0, spread, 1.0)
    # Sums that differ by rounding alone are alike.
    most = standing.max(axis=0) + 1e-9
    return [
        Overlap(float(shifted[at, 0]), float(seconds.mean()), float((most >= standing[at, 0]).mean()))
        for at, seconds in enumerate(busy)
    ]


def _at_every_shift(lost: Series, busy: npt.NDArray[np.bool_]) -> Series:
    """Return how much of the loss falls into the activity at each shift; the first is none."""
    n = len(lost)
    sums: Series = np.fft.irfft(np.fft.rfft(lost) * np.conj(np.fft.rfft(busy.astype(float))), n)
    return sums


_LEAST = 40
#: A dip lies so many standard deviations below the level, and by so much of it.
_DEVIATIONS, _DEPTH = 6.0, 0.3
#: The median deviation of normal noise is the standard deviation by this.
_NORMAL = 1.4826
#: So many dips at least come again, and they are less than so much of the time: else they are the level.
_DIPS, _MOST = 3, 1 / 3


def irregular_dips(throughput: Series) -> Dips | None:
    """Return the dips in throughputs of successive seconds, 1/s, at whatever distances; None where there are none."""
    values = np.asarray(throughput, dtype=float)
    if len(values) < _LEAST or values.mean() <= 0:
        return None
    residuals = detrended(values)
    level = values - residuals + float(np.median(residuals))
    below = level - values
    scatter = _NORMAL * float(np.median(np.abs(below)))
    inside = below > np.maximum(_DEVIATIONS * scatter, _DEPTH * level)
    stretches = int((np.diff(np.concatenate([[0], inside.astype(int)])) == 1).sum())
    if stretches < _DIPS or inside.mean() > _MOST:
        return None
    lost, mean = np.maximum(below, 0.0), float(level.mean())
    depth = float(below[inside].mean()) / mean
    length = float(inside.sum()) / stretches
    return Dips(None, length, depth, mean, inside, lost, float(lost[inside].sum() / level.sum()))


@dataclass(frozen=True)
class Activity:
    """What the store did, and how much of the loss falls into it.

    `inside` and `outside` are how much of it there was per second in dips and out of them, in the metric's unit.
    """

    doing: Doing
    overlap: Overlap
    inside: float
    outside: float

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {
            "metric": self.doing.metric,
            "words": self.doing.words,
            "lost": self.overlap.lost,
            "seconds": self.overlap.seconds,
            "p": self.overlap.p,
            "inside": self.inside,
            "outside": self.outside,
        }


@dataclass(frozen=True, eq=False)
class DipsOfPhase:
    """The dips of one phase, and what the store did meanwhile: first what is the least likely by chance."""

    phase: PhaseSummary
    dips: Dips
    activities: tuple[Activity, ...]

    @property
    def claimed(self) -> tuple[Activity, ...]:
        """Those into which more of the loss falls than chance explains."""
        return tuple(activity for activity in self.activities if activity.overlap.claimed)

    @property
    def explained(self) -> Overlap | None:
        """The loss in seconds of any claimed activity, beside the share of all seconds; None where none is claimed."""
        if not self.claimed:
            return None
        any_of = np.any([activity.doing.busy for activity in self.claimed], axis=0)
        (together,) = overlaps(_lost(self.dips), [any_of])
        return together

    @property
    def begins(self) -> list[float]:
        """When dips begin, s since the run began."""
        return [self.phase.begin + second for second in self.dips.begins]

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
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
    """Return the measured phases of a run in which throughput dips again and again."""
    told = []
    for phase in run.summary.measured:
        throughput = _throughput(run, phase)
        dips = periodic_dips(throughput) or irregular_dips(throughput)
        if dips:
            told.append(DipsOfPhase(phase, dips, tuple(_activities(run, phase, dips))))
    return told


def _throughput(run: Run, phase: PhaseSummary) -> Series:
    """Return the successes of each whole second of the measured window."""
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
    watched = doings(run, phase, len(dips.inside))
    known = [
        Activity(doing, overlap, float(doing.amounts[dips.inside].mean()), float(doing.amounts[~dips.inside].mean()))
        for doing, overlap in zip(watched, overlaps(_lost(dips), [doing.busy for doing in watched]), strict=True)
    ]
    return sorted(known, key=lambda activity: (activity.overlap.p, activity.overlap.seconds - activity.overlap.lost))
