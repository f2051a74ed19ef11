"""What a store did in each second of a phase, as its telemetry tells: checkpoints, merges, collections of garbage, ...

Figures of all nodes count together. A store's runs have those activities of which its figures tell.
"""

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from loadframe.analyze.dips.periods import Series
from loadframe.record import Run
from loadframe.record.schema.summary import PhaseSummary

#: What stores do now and then that may hold requests up: the metric that tells of it, and its words.
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
#: Those whose samples are rates, or tell how many go on; the others are totals that grow.
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
class Doing:
    """One of these in the seconds of a phase's window: how much of it there was, and in which there was more of it.

    `amounts` are in the metric's unit, per second. `busy` says of each second whether it had more than on average.
    """

    metric: str
    amounts: Series

    @property
    def words(self) -> str:
        """What it is called."""
        return ACTIVITIES[self.metric]

    @property
    def busy(self) -> npt.NDArray[np.bool_]:
        """Whether a second had more of it than seconds have on average."""
        more: npt.NDArray[np.bool_] = self.amounts > self.amounts.mean()
        return more

    @property
    def stretches(self) -> list[tuple[int, int]]:
        """The first second of each stretch of busy ones, and that after its last."""
        edges = np.flatnonzero(np.diff(np.concatenate([[0], self.busy.astype(int), [0]])))
        return [(int(begin), int(end)) for begin, end in edges.reshape(-1, 2)]


def doings(run: Run, phase: PhaseSummary, seconds: int) -> list[Doing]:
    """Return what was watched in a window of so many whole seconds, but for what was the same in all of them."""
    known = [(metric, _amounts(run, phase, metric, seconds)) for metric in ACTIVITIES]
    return [Doing(metric, amounts) for metric, amounts in known if amounts is not None and np.ptp(amounts) > 0]


def _amounts(run: Run, phase: PhaseSummary, metric: str, seconds: int) -> Series | None:
    """Return how much there was in each second, all nodes together; None if it was not watched or there is none."""
    if seconds < 1:
        return None
    table = run.telemetry
    # A rate is that of the time before its sample, so the one of the last second comes when that is over.
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
        # Totals begin anew with a node that was started again.
        steps = np.maximum(np.diff(values), 0.0)
        amounts += np.diff(np.interp(edges, times, np.concatenate([[0.0], np.cumsum(steps)])))
        seen = True
    return amounts if seen else None
