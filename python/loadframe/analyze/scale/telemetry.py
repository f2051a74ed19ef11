"""Telemetry of a run's measured window: the samples of a metric, by source."""

from collections import defaultdict

import pyarrow.compute as pc

from loadframe.analyze.experiment import RecordedRun
from loadframe.analyze.processes import ALL, processes_of

_NODE = "node:"


def samples(run: RecordedRun, phase: str, source: str, metric: str) -> list[float]:
    """Return the samples of a metric from all sources with this prefix; see `by_source`."""
    return [value for values in by_source(run, phase, source, metric).values() for value in values]


def by_source(run: RecordedRun, phase: str, source: str, metric: str) -> dict[str, list[float]]:
    """Return the samples of a metric in time order, for each source with this prefix.

    Nodes without data, such as routers and configuration servers, are omitted: they would distort means over nodes.
    """
    entry = run.phase(phase)
    values: dict[str, list[float]] = defaultdict(list)
    if run.run is None or entry is None:
        return values
    table = run.run.telemetry
    end = entry.begin + entry.duration
    within = pc.and_(pc.greater_equal(table["time"], entry.begin), pc.less_equal(table["time"], end))
    named = pc.and_(pc.starts_with(table["source"], source), pc.equal(table["metric"], metric))
    rows = table.filter(pc.and_(within, named)).sort_by("time")
    for name, value in zip(rows["source"].to_pylist(), rows["value"].to_pylist(), strict=True):
        if name.removeprefix(_NODE) not in run.manifest.store.companions:
            values[name].append(value)
    return values


def cores_used(run: RecordedRun, phase: str) -> float:
    """Return the mean number of cores that all nodes used together in the measured window; 0 if unknown."""
    return sum(_cores(run, phase).values())


def cpu_shares(run: RecordedRun, phase: str) -> dict[str, float]:
    """Return the mean CPU use of each node as a share of its enforced limit or its dedicated cores.

    Empty if nodes have neither. Processes without data, such as routers, are omitted: they may idle under any load, and
    their number does not grow with the nodes. The use of a process that shares a node's limits is added to the node's.
    """
    limits, companions = run.manifest.store.limits, run.manifest.store.companions
    quota = limits.cpus if limits.in_force else None
    cpus = min(filter(None, (quota, limits.cores_each)), default=None)
    if cpus is None:
        return {}
    used = _cores(run, phase)
    for companion, node in run.manifest.store.shared.items():
        if companion in used and node in used:
            used[node] += used[companion]
    return {name: cores / cpus for name, cores in used.items() if name not in companions}


def _cores(run: RecordedRun, phase: str) -> dict[str, float]:
    """Return the mean cores used by each node; empty if the window has too few samples."""
    used = processes_of(run.run).get(phase, {}) if run.run else {}
    return {name: of_node.cores for name, of_node in used.items() if name != ALL}


def growth(run: RecordedRun, phase: str, source: str, metric: str) -> float:
    """Return the growth of a cumulative metric in the window, summed over all sources with this prefix."""
    return sum(max(values[-1] - values[0], 0.0) for values in by_source(run, phase, source, metric).values())
