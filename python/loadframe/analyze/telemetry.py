"""Telemetry in a measured window: samples of a metric, CPU use of each process, and ages of nodes."""

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from loadframe.analyze.estimate import Estimate, mean_interval, within
from loadframe.analyze.experiment import RecordedExperiment, RecordedRun, by_treatment
from loadframe.analyze.finding import Finding, Rule
from loadframe.base.units import by_number
from loadframe.record import Run
from loadframe.record.schema.manifest import RecordedStore
from loadframe.record.schema.summary import PhaseSummary

_NODE = "node:"
#: Prefix of the sources of machines other than the load generator's.
MACHINE = "machine:"
#: Hosts that run nodes on the machine that generates the load.
HERE = ("local", "netns", "container")
_CPU = "process.cpu"
#: Written in each poll of a process, including the first, which has no CPU rate.
_LOOK = "process.resident"
#: Polls are a second apart. After a longer gap, s, the process was absent or not seen.
_GAP = 2.5
#: Smallest share of a window between the first and last poll of the run. The rest may have had most of the activity.
_LEAST_SEEN = 0.9
#: Smallest share of a window between the first and last poll within it. The intervals around them also cover the time
#: before or after the window: a window of 0.3 s would have the mean use of a whole second.
_LEAST_INSIDE = 0.5
#: Name of the sum of all processes.
ALL = "all"
#: The statistic of some stores with the time since a node's start, ms.
UPTIME = "uptime_ms"
#: Time in which the JIT compiler of a JVM makes a node faster, s.
_WARMING = 300.0
#: Ratio of the ages of two nodes from which they count as differently warm.
_OLDER = 3

#: Start and end of the interval before a poll, s, and the CPU use in it, cores.
_Span = tuple[float, float, float]

FRESH_NODE = Rule(
    "fresh_node",
    "with {nodes:nodes} the youngest node had run for {young:duration} and the oldest for {old:duration} when the"
    " measurement began: a node on a JVM gets faster for minutes, so the figures may be too low",
    "load the new node for 5 minutes before its runs, in a phase of prepare, or set a longer warmup; if a phase of"
    " prepare loads it already, lengthen that phase, such as by `duration` under `with`",
)


@dataclass(frozen=True)
class CpuUse:
    """CPU use of one process, or of all together, in a measured window."""

    cores: float  #: mean, while it was polled
    watched: float  #: duration of the polls, s
    whole: bool  #: whether they cover the whole window
    #: CPU time per successful request, s; None if the polls do not cover the window or no request succeeded
    per_request: float | None

    def as_dict(self) -> dict[str, Any]:
        """Return the use for JSON: cores, and times in s."""
        return dict(vars(self))


@dataclass(frozen=True)
class UsedAt:
    """CPU use as means over the runs of one treatment, with intervals for several runs."""

    phase: str
    treatment: Mapping[str, Any]
    process: str
    runs: int  #: runs with figures of the process
    of_runs: int  #: all included runs of the treatment
    cores: Estimate
    per_request: Estimate | None  #: None if a run lacks it
    partial: int = 0  #: included runs of the treatment without samples of some processes, which have no `ALL`

    def as_dict(self) -> dict[str, Any]:
        """Return the means for JSON: cores, and times in s."""
        return {
            "phase": self.phase,
            "treatment": dict(self.treatment),
            "process": self.process,
            "runs": self.runs,
            "of_runs": self.of_runs,
            "cores": self.cores.as_dict(),
            "per_request": self.per_request.as_dict() if self.per_request else None,
            "partial": self.partial,
        }


@dataclass(frozen=True)
class Unsampled:
    """Runs of a treatment without CPU figures of a measured phase, because it has too few polls."""

    phase: str
    treatment: Mapping[str, Any]
    runs: int  #: runs without figures
    of_runs: int  #: all included runs of the treatment
    duration: float  #: of the measured window of the first of them, s
    sampled: float  #: between the first and last poll within it, s

    def as_dict(self) -> dict[str, Any]:
        """Return the counts for JSON, times in s."""
        return {**vars(self), "treatment": dict(self.treatment)}


@dataclass(frozen=True)
class ProcessesOf:
    """CPU use in the phases of a run."""

    #: By phase and process; for several processes, all of which were sampled, the last one is `ALL`.
    used: Mapping[str, Mapping[str, CpuUse]]
    unsampled: Sequence[Unsampled]  #: phases with too few polls; empty if no process was polled
    #: Phases with samples of only some of the recorded nodes and companions, so that sums are unknown.
    partial: frozenset[str] = frozenset()


def samples(run: RecordedRun, phase: str, source: str, metric: str) -> list[float]:
    """Return the samples of a metric in the measured window, from all sources whose name begins with `source`.

    They are grouped by source, by time in each. Nodes without data, such as routers, are left out. Empty if the run did
    not reach the phase.
    """
    return [value for values in by_source(run, phase, source, metric).values() for value in values]


def by_source(run: RecordedRun, phase: str, source: str, metric: str) -> dict[str, list[float]]:
    """Return the samples of a metric in the measured window by source, for names that begin with `source`.

    Samples are in order of time. Nodes without data, such as routers and configuration servers, are omitted: they would
    distort means over nodes. Empty if the run did not reach the phase.
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


def by_machine(run: RecordedRun, phase: str, metric: str, *, of_nodes: bool = False) -> dict[str, list[float]]:
    """Return the samples of a metric of machines in the measured window, by the machine in words.

    These are the load generator's machine and other machines with nodes. The generator's is called `the machine` if all
    nodes run on it. `of_nodes` leaves it out if all nodes run on other machines.
    """
    store = run.manifest.store
    without = {machine["name"] for machine in store.machines if not machine.get("nodes", True)}
    sampled = {
        source.removeprefix(MACHINE): values for source, values in by_source(run, phase, MACHINE, metric).items()
    }
    generator = _name_of(run.manifest.hardware.hostname, {*sampled, *(machine["name"] for machine in store.machines)})
    machines = {
        f"machine {name}": values for name, values in sampled.items() if name != generator and name not in without
    }
    elsewhere = sum(
        len(set(machine.get("nodes", ())) - store.companions.keys())
        for machine in store.machines
        if machine["name"] != generator
    )
    apart = elsewhere >= (_processes(store) or 1) if store.machines else store.host not in HERE
    if of_nodes and apart:
        return machines
    here = "the load generator's machine" if store.machines or store.host not in HERE else "the machine"
    values = samples(run, phase, "host", metric)
    return {**({here: values} if values else {}), **machines}


def _name_of(hostname: str | None, names: Collection[str]) -> str | None:
    """Return the name of a machine among the names of machines, or None if it is absent.

    A name with a domain and one without it are the same machine, unless several names fit.
    """
    if hostname is None or hostname in names:
        return hostname
    alike = [
        name
        for name in names
        if name.partition(".")[0] == hostname.partition(".")[0] and ("." in name) != ("." in hostname)
    ]
    return alike[0] if len(alike) == 1 else None


def machines_of_one_node(store: RecordedStore) -> set[str]:
    """Return the names of the machines with one node with data and no other process with limits of its own."""
    processes = {it["name"]: set(it.get("nodes", ())) - store.shared.keys() for it in store.machines}
    return {name for name, held in processes.items() if len(held) == 1 and not held & store.companions.keys()}


def fresh_nodes(
    runs: Iterable[RecordedRun], phases: Sequence[str], within: float = _WARMING, older: float = _OLDER
) -> list[Finding]:
    """Return a finding if a run had a fresh node beside an old node; it names the youngest node of all runs.

    A fresh node had run for under `within`, s, when the window of a phase began. The oldest had run for over 300 s, and
    over `older` times as long. Only for stores whose statistics have the time since the start.
    """
    mixed = []
    for run in runs:
        if (run.nodes or 1) == 1:
            continue
        fresh = run.uncached()
        for phase in phases:
            ages = [min(values) / 1e3 for values in by_source(fresh, phase, _NODE, UPTIME).values()]
            if len(ages) > 1 and min(ages) < within and max(ages) >= _WARMING and max(ages) > older * min(ages):
                mixed.append((min(ages), max(ages), len(ages)))
    if not mixed:
        return []
    young, old, nodes = min(mixed)
    return [FRESH_NODE(nodes=[nodes], young=young, old=old)]


def processes_of(run: Run, phases: Sequence[PhaseSummary] | None = None) -> ProcessesOf:
    """Return the CPU use of each process in some phases (by default the measured ones), and the unsampled phases."""
    polled, spans = _spans(run.telemetry)
    used, unsampled, partial = {}, [], set()
    for phase in run.summary.measured if phases is None else phases:
        begin, end = phase.begin, phase.begin + phase.duration
        times = [time for time in polled if begin <= time <= end]
        inside = times[-1] - times[0] if times else 0.0
        seen = min(end, polled[-1]) - max(begin, polled[0]) if polled else 0.0
        enough = inside >= _LEAST_INSIDE * phase.duration and seen >= _LEAST_SEEN * phase.duration
        if enough and (of_phase := _of_phase(spans, phase)):
            if _is_partial(of_phase, run.manifest.store):
                partial.add(phase.name)
            elif len(of_phase) > 1:
                of_phase[ALL] = _together(of_phase.values(), phase.duration)
            used[phase.name] = of_phase
        elif polled:
            unsampled.append(Unsampled(phase.name, {}, 1, 1, phase.duration, inside))
    return ProcessesOf(used, unsampled, frozenset(partial))


def _is_partial(sampled: Mapping[str, CpuUse], store: RecordedStore) -> bool:
    """Return whether some processes of a store's recorded nodes, or companions, were not sampled."""
    companions = store.companions.keys()
    return not companions <= sampled.keys() or len(sampled.keys() - companions) < _processes(store)


def _processes(store: RecordedStore) -> int:
    """Return the number of processes with data; 0 if the number of nodes is unknown."""
    # A node of a sharded MongoDB is a shard, with a process for each of its members.
    members = store.settings.get("members") if store.kind == "mongodb" else None
    return (store.nodes or 0) * int(members or 1)


def processes_at(folder: RecordedExperiment) -> tuple[list[UsedAt], list[Unsampled]]:
    """Return the CPU use by process in the measured phases, over the included runs of each treatment.

    The second list has the phases and treatments of which some runs have too few polls.
    """
    rows: dict[str, list[UsedAt]] = defaultdict(list)
    unsampled: dict[str, list[Unsampled]] = defaultdict(list)
    for treatment, runs in by_treatment(folder):
        used: dict[tuple[str, str], list[CpuUse]] = defaultdict(list)
        without: dict[str, list[Unsampled]] = defaultdict(list)
        partial: Counter[str] = Counter()
        for _, run in runs:
            of_run = processes_of(run)
            partial.update(of_run.partial)
            for gap in of_run.unsampled:
                without[gap.phase].append(gap)
            for phase, processes in of_run.used.items():
                for process, of_process in processes.items():
                    used[phase, process].append(of_process)
        for phase, gaps in without.items():
            unsampled[phase].append(replace(gaps[0], treatment=treatment, runs=len(gaps), of_runs=len(runs)))
        for (phase, process), several in used.items():
            costs = [one.per_request for one in several if one.per_request is not None]
            rows[phase].append(
                UsedAt(
                    phase,
                    treatment,
                    process,
                    len(several),
                    len(runs),
                    within(mean_interval([one.cores for one in several])),
                    within(mean_interval(costs)) if len(costs) == len(several) else None,
                    partial[phase],
                )
            )
    measured = folder.description["measure"]
    return (
        [row for phase in measured for row in rows.get(phase, ())],
        [gap for phase in measured for gap in unsampled.get(phase, ())],
    )


def _spans(telemetry: pa.Table) -> tuple[list[float], dict[str, list[_Span]]]:
    """Return the times of polls of any node, ascending, and node name -> intervals with a known CPU use.

    Times are in s since the run began. An interval is (previous poll, poll, CPU use in cores).
    """
    polled = pc.is_in(telemetry["metric"], pa.array([_CPU, _LOOK]))
    rows = telemetry.filter(pc.and_(polled, pc.starts_with(telemetry["source"], _NODE))).sort_by("time")
    last: dict[str, float] = {}
    spans: dict[str, list[_Span]] = defaultdict(list)
    rates: dict[tuple[str, float], float | None] = {}
    for source, metric, time, value in zip(
        *(rows[name].to_pylist() for name in ("source", "metric", "time", "value")), strict=True
    ):
        rates.setdefault((source, time), None)
        if metric == _CPU:
            rates[source, time] = value
    for (source, time), cores in rates.items():
        if source in last and cores is not None:
            spans[source.removeprefix(_NODE)].append((last[source], time, cores))
        last[source] = time
    return sorted({time for _, time in rates}), spans


def _of_phase(spans: Mapping[str, Sequence[_Span]], phase: PhaseSummary) -> dict[str, CpuUse]:
    """Return the CPU use of each process in the measured window, ordered by name and number.

    `spans` has the polled intervals of each process (start, end, cores), s since the run began. Processes without a
    sample in the window are left out. The cost per request needs samples without a gap.
    """
    begin, end = phase.begin, phase.begin + phase.duration
    answered = sum(operation.successes for operation in phase.single.values())
    used: dict[str, CpuUse] = {}
    for name in sorted(spans, key=by_number):
        inside = [
            (max(since, begin), min(until, end), cores)
            for since, until, cores in spans[name]
            if since < end and until > begin
        ]
        watched = math.fsum(until - since for since, until, _ in inside)
        if not watched:
            continue
        cores = math.fsum((until - since) * rate for since, until, rate in inside) / watched
        whole = _longest_gap(inside, begin, end) <= _GAP
        cost = cores * phase.duration / answered if answered and whole else None
        used[name] = CpuUse(cores, watched, whole, cost)
    return used


def _longest_gap(inside: Sequence[_Span], begin: float, end: float) -> float:
    """Return the longest time from `begin` to `end` that none of the intervals `inside` (by time) covers, s."""
    known = [(begin, begin), *((since, until) for since, until, _ in inside), (end, end)]
    return max(later[0] - earlier[1] for earlier, later in pairwise(known))


def _together(used: Iterable[CpuUse], duration: float) -> CpuUse:
    """Return the summed CPU use of processes in a window of `duration` s; `used` must not be empty.

    A process that was not polled for the whole window counts for its part of it.
    """
    parts = tuple(used)
    costs = [part.per_request for part in parts if part.per_request is not None]
    return CpuUse(
        # A process that existed for part of the window counts for that part.
        cores=math.fsum(part.cores * (1.0 if part.whole else part.watched / duration) for part in parts),
        watched=max(part.watched for part in parts),
        whole=all(part.whole for part in parts),
        per_request=math.fsum(costs) if len(costs) == len(parts) else None,
    )
