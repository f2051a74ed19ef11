"""Dips that come again in the phases of a run, beside what the telemetry says of the store in the same seconds."""

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from loadframe.analyze.dips.periods import Dips, Series, periodic_dips
from loadframe.record import Run
from loadframe.record.schema.summary import PhaseSummary

#: What a store does now and then that may hold requests up, by the totals of its statistics that grow meanwhile.
ACTIVITIES = {
    "merges_ms": "merges",
    "refresh_ms": "refreshes",
    "flush_ms": "flushes",
    "gc_young_ms": "young collections of garbage",
    "gc_old_ms": "old collections of garbage",
    "cache_written_bytes": "writes of the cache, by checkpoints or to make room",
    "process.written": "writes to storage",
    "process.read": "reads from storage",
    "cgroup.throttled": "stops by the CPU quota",
}
#: Those whose samples are rates already, and not totals.
_RATES = {"process.written", "process.read", "cgroup.throttled"}


@dataclass(frozen=True)
class Activity:
    """What the store did: the share of what dips lost in seconds with more of it than usual; the share of all seconds.

    `inside` and `outside` are how much of it there was per second in dips and out of them, in the metric's unit.
    """

    metric: str
    words: str
    lost: float
    seconds: float
    inside: float
    outside: float

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return vars(self)


@dataclass(frozen=True, eq=False)
class DipsOfPhase:
    """The dips of one phase, and what the store did meanwhile: first what most of the loss falls into."""

    phase: PhaseSummary
    dips: Dips
    activities: tuple[Activity, ...]

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
        }


def dips_of(run: Run) -> list[DipsOfPhase]:
    """Return the measured phases of a run in which throughput dips again and again."""
    told = []
    for phase in run.summary.measured:
        dips = periodic_dips(_throughput(run, phase))
        if dips:
            told.append(DipsOfPhase(phase, dips, tuple(_activities(run, phase, dips))))
    return told


def _throughput(run: Run, phase: PhaseSummary) -> Series:
    """Return the successes of each whole second of the measured window."""
    series = run.series
    begin, end = int(np.ceil(phase.warmup)), int(phase.warmup + phase.duration)
    within = pc.and_(pc.greater_equal(series["second"], begin), pc.less(series["second"], end))
    single = pc.is_in(series["operation"], pa.array(list(phase.single), pa.string()))
    rows = series.filter(pc.and_(pc.and_(within, single), pc.equal(series["phase"], phase.name)))
    counts = np.bincount(
        rows["second"].to_numpy() - begin, weights=rows["successes"].to_numpy(), minlength=max(end - begin, 0)
    )
    return counts.astype(float)


def _activities(run: Run, phase: PhaseSummary, dips: Dips) -> list[Activity]:
    lost = np.where(dips.inside, dips.lost, 0.0)
    known = []
    for metric, words in ACTIVITIES.items():
        amounts = _amounts(run, phase, metric, len(dips.inside))
        if amounts is None or np.ptp(amounts) == 0 or lost.sum() <= 0:
            continue
        busy = amounts > amounts.mean()
        known.append(
            Activity(
                metric,
                words,
                float(lost[busy].sum() / lost.sum()),
                float(busy.mean()),
                float(amounts[dips.inside].mean()),
                float(amounts[~dips.inside].mean()),
            )
        )
    return sorted(known, key=lambda activity: activity.seconds - activity.lost)


def _amounts(run: Run, phase: PhaseSummary, metric: str, seconds: int) -> npt.NDArray[np.float64] | None:
    """Return how much there was in each second, all nodes together; None where it was not watched."""
    table = run.telemetry
    # A rate is that of the time before its sample, so the one of the last second comes when that is over.
    rows = table.filter(
        pc.and_(pc.equal(table["metric"], metric), pc.less_equal(table["time"], phase.begin + seconds + 1))
    )
    by_source: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for source, time, value in zip(
        rows["source"].to_pylist(), rows["time"].to_pylist(), rows["value"].to_pylist(), strict=True
    ):
        by_source[source].append((time - phase.begin, value))
    amounts = np.zeros(seconds)
    seen = False
    edges = np.arange(seconds + 1, dtype=float)
    for samples in by_source.values():
        times, values = np.array(sorted(samples)).T
        if len(times) < 2 or times[0] > seconds or times[-1] < 0:
            continue
        if metric in _RATES:
            values = np.concatenate([[0.0], np.cumsum(values[1:] * np.diff(times))])
        # Totals begin anew with a node that was started again.
        steps = np.maximum(np.diff(values), 0.0)
        amounts += np.diff(np.interp(edges, times, np.concatenate([[0.0], np.cumsum(steps)])))
        seen = True
    return amounts if seen else None
