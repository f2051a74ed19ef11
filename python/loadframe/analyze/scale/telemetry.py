"""Telemetry of a run's measured window: the samples of a metric, by source."""

from collections import defaultdict

import pyarrow.compute as pc

from loadframe.analyze.experiment import RecordedRun
from loadframe.analyze.processes import ALL, processes_of

_NODE = "node:"


def samples(run: RecordedRun, phase: str, source: str, metric: str) -> list[float]:
    """Return the samples of a metric, of all sources with this beginning, as `by_source` takes them."""
    return [value for values in by_source(run, phase, source, metric).values() for value in values]


def by_source(run: RecordedRun, phase: str, source: str, metric: str) -> dict[str, list[float]]:
    """Return the samples of a metric in their order, for each source with this beginning.

    Of nodes these are those that keep data: routers and servers of a configuration are beside the store, and would
    only dilute what is averaged over nodes.
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
    """Return how many cores all nodes together used on average in the measured window; 0 if that is not known."""
    return sum(_cores(run, phase).values())


def cpu_shares(run: RecordedRun, phase: str) -> dict[str, float]:
    """Return the mean CPU use of each node as a share of what it may use: a limit in force, or cores of its own.

    Empty where nodes have neither. Processes that keep no data, such as routers, are not nodes: they may idle however
    loaded the store is, and none is added by adding nodes. What those use that share a node's limits is used of these.
    """
    limits, beside = run.manifest.store.limits, run.manifest.store.companions
    quota = limits.cpus if limits.in_force else None
    cpus = min(filter(None, (quota, limits.cores_each)), default=None)
    if cpus is None:
        return {}
    used = _cores(run, phase)
    for companion, node in run.manifest.store.shared.items():
        if companion in used and node in used:
            used[node] += used[companion]
    return {name: cores / cpus for name, cores in used.items() if name not in beside}


def _cores(run: RecordedRun, phase: str) -> dict[str, float]:
    """Return the cores that each node used on average; nothing of a window that was watched too little."""
    used = processes_of(run.run).get(phase, {}) if run.run else {}
    return {name: of_node.cores for name, of_node in used.items() if name != ALL}


def growth(run: RecordedRun, phase: str, source: str, metric: str) -> float:
    """Return by how much totals grew in the window, of all sources with this beginning together."""
    return sum(max(values[-1] - values[0], 0.0) for values in by_source(run, phase, source, metric).values())
