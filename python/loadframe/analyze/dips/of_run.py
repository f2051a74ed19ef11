"""Dips that come again in the phases of a run, beside what the telemetry says of the store in the same seconds."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from loadframe.analyze.dips.activities import Doing, doings
from loadframe.analyze.dips.chance import Overlap, overlaps
from loadframe.analyze.dips.irregular import irregular_dips
from loadframe.analyze.dips.periods import Dips, Series, periodic_dips
from loadframe.record import Run
from loadframe.record.schema.summary import PhaseSummary


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
