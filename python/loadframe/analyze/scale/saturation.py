"""Saturated resources: at the bends of curves over clients, and for the calibration of the number of clients.

The report states the observation, not the cause: a queue shows where requests wait, not always the reason.

Calibration of clients, with the bounds of the elasticity paper: every node between 20 % and 90 % of its CPUs. If no CPU
limit applies to the nodes, only throughput shows whether there are enough clients.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from statistics import fmean

from loadframe.analyze.experiment import RecordedRun
from loadframe.analyze.finding import Finding, Rule
from loadframe.analyze.rates import THROUGHPUT, Rate
from loadframe.analyze.scale.treatments import Treatment
from loadframe.analyze.telemetry import ALL, by_machine, by_source, processes_of, samples
from loadframe.base.units import counted, format_count, format_nodes, format_share


def cores_used(run: RecordedRun, phase: str) -> float:
    """Return the mean number of cores that all nodes used together in the measured window; 0 if unknown."""
    return sum(_cores(run, phase).values())


def cpu_shares(run: RecordedRun, phase: str) -> dict[str, float]:
    """Return the mean CPU use of each node as a share of its enforced limit or its dedicated cores.

    Empty if nodes have neither, or if the use of one is unknown. Processes without data, such as routers, are omitted:
    they may idle under any load, and their number does not grow with the nodes. The use of a process that shares a
    node's limits is added to the node's.
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
    """Return the mean cores used by each node; empty if the window has too few samples, or only of some nodes."""
    cpu = processes_of(run.run) if run.run else None
    used = cpu.used.get(phase, {}) if cpu and phase not in cpu.partial else {}
    return {name: of_node.cores for name, of_node in used.items() if name != ALL}


def growth(run: RecordedRun, phase: str, source: str, metric: str) -> float:
    """Return the growth of a cumulative metric within the measured window; 0 without samples.

    It is the sum over the sources whose names begin with `source`, such as `node:`, of the last minus the first sample.
    A source with a lower last value counts as 0.
    """
    return sum(max(values[-1] - values[0], 0.0) for values in by_source(run, phase, source, metric).values())


#: A throughput below this share of linear growth with the clients is a bend.
_BENT = 0.8
#: Shares from which a resource counts as saturated: CPU of its limit, CPU of the machine, time throttled by a quota,
#: time spent on garbage collection, time spent waiting for storage.
_CPU, _MACHINE, _THROTTLED, _GARBAGE, _STORAGE = 0.9, 0.95, 0.05, 0.1, 0.2
_POOLS = ("search", "write", "get")


def _bend(nodes: int | None, clients: int, fewest: int, effective: float, reasons: Sequence[str]) -> str:
    """Return the cause: throughput bends over the clients, with the saturated resources in `reasons`.

    `effective` is the effective concurrency: the clients that would achieve this throughput at the speed of each of the
    `fewest` clients. `nodes` is None if unknown.
    """
    at = f"at {format_nodes(nodes)} " if nodes else ""
    seen = "; ".join(reasons) if reasons else "no monitored resource was saturated"
    times = format_count(effective / fewest)
    return f"{at}throughput with {counted(clients, 'client')} was {times} times that with {fewest}: {seen}"


BEND = Rule("bend", _bend, "{advice}")


def bend(runs: Sequence[RecordedRun], phase: str, treatments: Sequence[Treatment], best: Treatment) -> Finding | None:
    """Return a finding on throughput that bends over the clients, with saturated resources; None if it does not bend.

    It bends if it grows to at most 80 % of linear growth from the fewest clients. The runs are at one number of nodes.
    The function examines the `best` treatment, and larger numbers of clients for a saturated generator. If the
    generator limits the best throughput (no upper bound), it examines the best of the others.
    """
    known = [treatment for treatment in treatments if treatment.clients and isfinite(treatment.stretch.high)]
    ordered = sorted(known, key=lambda treatment: treatment.clients or 0)
    if len(ordered) < 2:
        return None
    first = ordered[0]
    if best not in ordered:
        best = max(ordered, key=lambda treatment: treatment.throughput.value)
    if best.clients == first.clients:
        best = ordered[1]
    effective = best.throughput.value / first.throughput.value * (first.clients or 1)
    if effective > _BENT * (best.clients or 1):
        return None
    above = [run for run in runs if run.nodes == best.nodes and (run.clients(phase) or 0) > (best.clients or 0)]
    signs = [*_saturated_resources(_runs_at(runs, phase, best), phase), *_generator(above, phase)]
    advice = signs[0][1] if signs else "monitor more of the store, or use its slow log and profiler"
    return BEND(
        nodes=best.nodes,
        clients=best.clients or 0,
        fewest=first.clients or 1,
        effective=effective,
        reasons=tuple(reason for reason, _ in signs),
        advice=advice,
    )


def is_saturated(runs: Sequence[RecordedRun], phase: str, treatment: Treatment) -> bool:
    """Return whether a resource of the store or machine was saturated at a treatment."""
    return any(_saturated_resources(_runs_at(runs, phase, treatment), phase))


def _runs_at(runs: Sequence[RecordedRun], phase: str, at: Treatment) -> list[RecordedRun]:
    """Return the sound runs with the same numbers of nodes and clients as the treatment `at`."""
    return [run for run in runs if run.nodes == at.nodes and run.sound and run.clients(phase) == at.clients]


def _saturated_resources(runs: Sequence[RecordedRun], phase: str) -> Iterator[tuple[str, str]]:
    """Yield a clause on each saturated resource of the store or machine, and a remedy.

    Resources are processors, pools that reject or queue requests, the heap (garbage collection), and storage.
    """
    if not runs:
        return
    yield from _processors(runs, phase)
    rejected = sum(growth(run, phase, "node:", f"{pool}_rejected") for run in runs for pool in _POOLS)
    if rejected:
        yield (
            f"nodes rejected {counted(rejected, 'request')}",
            "send fewer concurrent requests, or let nodes queue more",
        )
    for pool in _POOLS:
        waiting = _mean(runs, phase, f"{pool}_queue")
        if waiting is not None and waiting >= 1:
            active = _mean(runs, phase, f"{pool}_active") or 0.0
            yield (
                f"{waiting:.1f} requests waited in each node's {pool} queue, while {active:.1f} were served",
                "add threads if processors are free, otherwise nodes",
            )
    collecting = [share for run in runs if (share := _garbage_share(run, phase)) is not None]
    if collecting and fmean(collecting) > _GARBAGE:
        yield f"nodes collected garbage for {format_share(fmean(collecting))} of the time", "give nodes a larger heap"
    machine, stalled = _busiest_machine(runs, phase, "pressure.io.some", of_nodes=True)
    if stalled > _STORAGE:
        yield (
            f"tasks on {machine} waited for storage for {format_share(stalled)} of the time",
            "give nodes more memory for their data, or faster storage",
        )


def _processors(runs: Sequence[RecordedRun], phase: str) -> Iterator[tuple[str, str]]:
    """Yield a clause on each processor limit that was reached, of nodes or the machine, and a remedy.

    Limits are the CPU share of the busiest node, the mean time for which quotas throttled nodes, and how busy the
    busiest machine is.
    """
    more = "give nodes more processors, or take more nodes"
    shares = [share for run in runs for share in cpu_shares(run, phase).values()]
    if shares and max(shares) >= _CPU:
        yield f"the busiest node used {format_share(max(shares))} of its CPU limit", more
    still = [value for run in runs for value in samples(run, phase, "node:", "cgroup.throttled_time")]
    if still and fmean(still) > _THROTTLED:
        yield f"nodes' threads were throttled by their CPU quota for {fmean(still):.2g} s in each second", more
    machine, busy = _busiest_machine(runs, phase, "cpu.busy")
    if busy > _MACHINE:
        yield f"{machine} was {format_share(busy)} busy", "use separate machines, or lower CPU limits per node"


def _busiest_machine(
    runs: Sequence[RecordedRun], phase: str, metric: str, *, of_nodes: bool = False
) -> tuple[str, float]:
    """Return the machine, in words, with the largest mean of a metric over runs and samples, and that mean.

    Empty text and 0 without samples. `of_nodes` leaves out the load generator's machine if all nodes run on others.
    """
    values: dict[str, list[float]] = defaultdict(list)
    for run in runs:
        for machine, sampled in by_machine(run, phase, metric, of_nodes=of_nodes).items():
            values[machine] += sampled
    means = {machine: fmean(sampled) for machine, sampled in values.items()}
    return max(means.items(), key=lambda pair: pair[1], default=("", 0.0))


def _generator(above: Sequence[RecordedRun], phase: str) -> Iterator[tuple[str, str]]:
    """Yield a clause and a remedy if the generator limited all runs `above`, those with more clients."""
    if above and all(_is_generator_limited(run, phase) for run in above):
        yield (
            "with more clients the load generator was the limit",
            "raise `threads` in the experiment file, or give the generator a separate machine",
        )


def _is_generator_limited(run: RecordedRun, phase: str) -> bool:
    """Return whether the generator made a run invalid, or left its throughput without an upper bound."""
    throughput = run.figure(phase, "throughput")
    return run.fault == "generator" or (throughput.counts and not isfinite(throughput.high))


def _mean(runs: Sequence[RecordedRun], phase: str, metric: str) -> float | None:
    """Return the mean of a metric over all nodes, runs and samples, or None without samples."""
    values = [value for run in runs for value in samples(run, phase, "node:", metric)]
    return fmean(values) if values else None


def _garbage_share(run: RecordedRun, phase: str) -> float | None:
    """Return the share of the measured window that nodes collected garbage, as a mean over nodes with samples.

    None without samples.
    """
    metrics = [f"gc_{kind}_ms" for kind in ("young", "old")]
    sampled = {source for metric in metrics for source in by_source(run, phase, "node:", metric)}
    entry = run.phase(phase)
    if not sampled or not entry or not entry.duration:
        return None
    return sum(growth(run, phase, "node:", metric) for metric in metrics) / 1e3 / (entry.duration * len(sampled))


IDLE, OVERLOADED = 0.2, 0.9
#: Smallest gain from a doubling of clients that continues the search.
_GAIN = 1.05
#: Largest number of clients; more need another generator.
_MOST = 4096


@dataclass(frozen=True)
class ClientsTried:
    """Result of a number of clients: throughput (1/s), CPU share of the least and of the most busy node."""

    clients: int
    throughput: float | None  #: None if the run is invalid
    idlest: float | None = None
    busiest: float | None = None


@dataclass(frozen=True)
class Calibration:
    """The largest number of clients with every node within the bounds; `clients` is None if there was none."""

    nodes: int | None
    clients: int | None
    idlest: float | None
    busiest: float | None


def clients_tried(run: RecordedRun, phase: str, rate: Rate = THROUGHPUT) -> ClientsTried:
    """Return a run's number of clients with its throughput and the CPU shares of its least and most busy node.

    Only the number is known if the run did not reach the phase, or if its throughput is unknown or has no upper bound.
    An unknown number is 0.
    """
    clients, entry = run.clients(phase) or 0, run.phase(phase)
    # A throughput without an upper bound does not show whether more clients would increase it.
    if entry is None or not isfinite(run.figure(phase, rate.name).high):
        return ClientsTried(clients, None)
    shares = cpu_shares(run, phase).values()
    return ClientsTried(clients, rate.of(entry), min(shares, default=None), max(shares, default=None))


def next_clients(trials: Sequence[ClientsTried]) -> int | None:
    """Return the next number of clients, twice the largest one (1 without trials); None if the search is finished.

    It is finished if a node is overloaded (CPU share above `OVERLOADED`), if the largest number has less than 1.05
    times the highest throughput of fewer clients, or if more than 4096 would be next. It is also finished if the last
    two runs have no throughput: one may have been disturbed, two mean that the generator is the limit.
    """
    if not trials:
        return 1
    ordered = sorted(trials, key=lambda trial: trial.clients)
    last = ordered[-1]
    if last.throughput is None:
        enough = len(ordered) > 1 and ordered[-2].throughput is None
    else:
        before = max((trial.throughput for trial in ordered[:-1] if trial.throughput is not None), default=0.0)
        enough = last.throughput < _GAIN * before or (last.busiest or 0.0) > OVERLOADED
    return None if enough or 2 * last.clients > _MOST else 2 * last.clients


def every_clients() -> list[int]:
    """Return all numbers of clients that the search may try on one cluster: powers of two from 1 to 4096."""
    numbers = [1]
    while 2 * numbers[-1] <= _MOST:
        numbers.append(2 * numbers[-1])
    return numbers


def calibrate(nodes: int | None, trials: Sequence[ClientsTried]) -> Calibration | None:
    """Return the largest number of clients with every node from 20 % to 90 % busy, or None without CPU limits.

    All trials of the number must meet this. If no number does, `clients` of the result is None, and its shares are the
    extremes of all trials. `nodes` is only stored.
    """
    known = [trial for trial in trials if trial.idlest is not None and trial.busiest is not None]
    if not known:
        return None
    within = []
    for clients in {trial.clients for trial in known}:
        at_clients = [trial for trial in known if trial.clients == clients]
        idlest, busiest = (
            min(trial.idlest or 0.0 for trial in at_clients),
            max(trial.busiest or 0.0 for trial in at_clients),
        )
        if idlest >= IDLE and busiest <= OVERLOADED:
            within.append(Calibration(nodes, clients, idlest, busiest))
    best = max(within, key=lambda candidate: candidate.clients or 0, default=None)
    if best is not None:
        return best
    return Calibration(
        nodes, None, min(trial.idlest or 0.0 for trial in known), max(trial.busiest or 0.0 for trial in known)
    )
