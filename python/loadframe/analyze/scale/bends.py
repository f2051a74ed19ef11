"""Bends of curves over clients: resources that the telemetry shows saturated at the bend.

The report states the observation, not the cause: a queue shows where requests wait, not always the reason.
"""

from collections.abc import Iterator, Sequence
from math import isfinite
from statistics import fmean

from loadframe.analyze.experiment import RecordedRun
from loadframe.analyze.finding import Finding, Rule
from loadframe.analyze.scale.telemetry import cpu_shares, growth, samples
from loadframe.analyze.scale.treatments import Treatment
from loadframe.base.units import format_count, format_nodes, format_share

#: A throughput below this share of linear growth with the clients is a bend.
_BENT = 0.8
#: Shares from which a resource counts as saturated: CPU of its limit, CPU of the machine, time throttled by a quota,
#: time spent on garbage collection, time spent waiting for storage.
_CPU, _MACHINE, _THROTTLED, _GARBAGE, _STORAGE = 0.9, 0.95, 0.05, 0.1, 0.2
_POOLS = ("search", "write", "get")


def _bend(nodes: int | None, clients: int, effective: float, reasons: Sequence[str]) -> str:
    """Return the cause; `reasons` are the saturated resources, the strongest first.

    `effective` is the effective concurrency: the clients that would achieve this throughput at the speed of one alone.
    """
    at = f"at {format_nodes(nodes)} " if nodes else ""
    seen = "; ".join(reasons) if reasons else "no monitored resource was saturated"
    return f"{at}effective concurrency was {format_count(effective)} of {clients} clients: {seen}"


BEND = Rule("bend", _bend, "{advice}")


def bend(runs: Sequence[RecordedRun], phase: str, treatments: Sequence[Treatment], best: Treatment) -> Finding | None:
    """Return why throughput bends over the clients at one number of nodes; None if it does not.

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
    here = [run for run in runs if run.nodes == best.nodes and run.sound and run.clients(phase) == best.clients]
    above = [run for run in runs if run.nodes == best.nodes and (run.clients(phase) or 0) > (best.clients or 0)]
    signs = [*_seen(here, phase), *_generator(above, phase)]
    advice = signs[0][1] if signs else "monitor more of the store, or use its slow log and profiler"
    return BEND(
        nodes=best.nodes,
        clients=best.clients or 0,
        effective=effective,
        reasons=tuple(reason for reason, _ in signs),
        advice=advice,
    )


def _seen(runs: Sequence[RecordedRun], phase: str) -> Iterator[tuple[str, str]]:
    """Yield each saturated resource with a remedy."""
    if not runs:
        return
    yield from _processors(runs, phase)
    rejected = sum(growth(run, phase, "node:", f"{pool}_rejected") for run in runs for pool in _POOLS)
    if rejected:
        yield (
            f"nodes rejected {format_count(rejected)} requests",
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
    collecting = [
        sum(growth(run, phase, "node:", f"gc_{kind}_ms") for kind in ("young", "old")) / 1e3 / _node_seconds(run, phase)
        for run in runs
    ]
    if collecting and fmean(collecting) > _GARBAGE:
        yield f"nodes collected garbage for {format_share(fmean(collecting))} of the time", "give nodes a larger heap"
    stalled = [value for run in runs for value in samples(run, phase, "host", "pressure.io.some")]
    if stalled and fmean(stalled) > _STORAGE:
        yield (
            f"tasks waited for storage for {format_share(fmean(stalled))} of the time",
            "give nodes more memory for their data, or faster storage",
        )


def _processors(runs: Sequence[RecordedRun], phase: str) -> Iterator[tuple[str, str]]:
    more = "give nodes more processors, or take more nodes"
    shares = [share for run in runs for share in cpu_shares(run, phase).values()]
    if shares and max(shares) >= _CPU:
        yield f"the busiest node used {format_share(max(shares))} of its CPU limit", more
    still = [value for run in runs for value in samples(run, phase, "node:", "cgroup.throttled_time")]
    if still and fmean(still) > _THROTTLED:
        yield f"nodes' threads were throttled by their CPU quota for {fmean(still):.2g} s in each second", more
    busy = [value for run in runs for value in samples(run, phase, "host", "cpu.busy")]
    if busy and fmean(busy) > _MACHINE:
        yield f"the machine was {format_share(fmean(busy))} busy", "use separate machines, or lower CPU limits per node"


def _generator(above: Sequence[RecordedRun], phase: str) -> Iterator[tuple[str, str]]:
    if above and all(_is_generators(run, phase) for run in above):
        yield (
            "with more clients the load generator was the limit",
            "give the generator more threads or a separate machine",
        )


def _is_generators(run: RecordedRun, phase: str) -> bool:
    """Return whether the generator made the run invalid, or its throughput is unbounded above."""
    throughput = run.figure(phase, "throughput")
    return run.fault == "generator" or (throughput.counts and not isfinite(throughput.high))


def _mean(runs: Sequence[RecordedRun], phase: str, metric: str) -> float | None:
    values = [value for run in runs for value in samples(run, phase, "node:", metric)]
    return fmean(values) if values else None


def _node_seconds(run: RecordedRun, phase: str) -> float:
    entry = run.phase(phase)
    return entry.duration * max(run.nodes or 1, 1) if entry and entry.duration else 1.0
