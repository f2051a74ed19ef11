"""Background activities of a store by second, from its telemetry: checkpoints, merges, garbage collections, ...

Figures are summed over all nodes. A run has the activities that its store reports.
"""

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from loadframe.analyze.dips.periods import Series
from loadframe.record import Run
from loadframe.record.schema.summary import PhaseSummary

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
    """One activity in the seconds of a phase's window; `amounts` are in the metric's unit, per second."""

    metric: str
    amounts: Series

    @property
    def words(self) -> str:
        """Title of the activity."""
        return ACTIVITIES[self.metric]

    @property
    def busy(self) -> npt.NDArray[np.bool_]:
        """Whether a second's amount exceeds the mean."""
        more: npt.NDArray[np.bool_] = self.amounts > self.amounts.mean()
        return more

    @property
    def stretches(self) -> list[tuple[int, int]]:
        """The first second of each busy stretch, and the second after its last."""
        edges = np.flatnonzero(np.diff(np.concatenate([[0], self.busy.astype(int), [0]])))
        return [(int(begin), int(end)) for begin, end in edges.reshape(-1, 2)]


def activity_series(run: Run, phase: PhaseSummary, seconds: int) -> list[ActivitySeries]:
    """Return the recorded activities in a window of `seconds` whole seconds, except constant ones."""
    known = [(metric, _amounts(run, phase, metric, seconds)) for metric in ACTIVITIES]
    return [ActivitySeries(metric, amounts) for metric, amounts in known if amounts is not None and np.ptp(amounts) > 0]


def _amounts(run: Run, phase: PhaseSummary, metric: str, seconds: int) -> Series | None:
    """Return the amount in each second, summed over all nodes; None if it was not recorded."""
    if seconds < 1:
        return None
    table = run.telemetry
    # A rate covers the time before its sample, so the last second's comes after its end.
    until = pc.less_equal(table["time"], phase.begin + seconds + 1)
    rows = table.filter(pc.and_(pc.equal(table["metric"], metric), until))
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
        if metric in _LEVELS:
            values = np.concatenate([[0.0], np.cumsum(values[1:] * np.diff(times))])
        # The totals of a restarted node start from 0 again.
        steps = np.maximum(np.diff(values), 0.0)
        amounts += np.diff(np.interp(edges, times, np.concatenate([[0.0], np.cumsum(steps)])))
        seen = True
    return amounts if seen else None
