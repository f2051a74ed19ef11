"""Rules for misleading scale experiments, from manifests, summaries and telemetry."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from loadframe.analyze.compare import Measure
from loadframe.analyze.experiment import RecordedRun
from loadframe.analyze.finding import Finding, Rule
from loadframe.analyze.scale.saturation import cores_used, cpu_shares
from loadframe.analyze.scale.treatments import Treatment, largest_failed_share, main_operation
from loadframe.analyze.sessions import speed_range, speed_share
from loadframe.analyze.telemetry import HERE, by_machine, fresh_nodes, machines_of_one_node, samples
from loadframe.analyze.verdict.rules import ERROR_LIMIT
from loadframe.base.units import counted, format_duration, format_nodes, format_share, format_shares

#: Reads from storage above this (B/s) are more than housekeeping.
_READS = 2**20
#: A machine busier than this has no CPU left for its nodes.
_BUSY = 0.95
#: Above this average loss, figures vary from minute to minute.
_STOLEN = 0.02
#: CPU time per request with many nodes over that with few, above which it is reported.
_DEARER = 1.25
#: Share of its CPU limit from which a node is saturated, and share of its use below which the others count as idle.
_USED_UP, _IDLE_BESIDE = 0.9, 0.6
#: Ratio of the reference benchmark's times above which the speed of the machine affects comparisons.
_PACES = 1.15
_DEDICATED = "repeat on a machine with dedicated processors; more repetitions reduce the run-to-run variance"


def _shared_cores(wanted: float | None, usable: int) -> str:
    """Return the cause: nodes and generator share the CPUs of the machine.

    `wanted` is the CPU limit of all nodes together (None: no limit), `usable` the CPUs of the machine.
    """
    nodes = "nodes without a CPU limit" if wanted is None else f"nodes limited to {wanted:g} CPUs in total"
    return f"{nodes} and the generator share this machine's {usable} CPUs"


def _dearer_requests(nodes: tuple[int, int], cost: tuple[float, float]) -> str:
    """Return the cause: a request costs more CPU time with more nodes.

    `nodes` are the few and the many nodes, `cost` the CPU time of all nodes per request with each, s.
    """
    (few, many), (cheap, dear) = nodes, cost
    return (
        f"the nodes used {format_duration(dear)} of CPU time per request with {format_nodes(many)} and"
        f" {format_duration(cheap)} with {format_nodes(few)}: part of the capacity of the added nodes is spent on"
        " overhead"
    )


def _hot_node(nodes: Sequence[int], busiest: float, others: tuple[float, float]) -> str:
    """Return the cause: one node is saturated and the others are not, at these numbers of `nodes`.

    `busiest` and `others` (the least and the most) are shares of the CPU limit.
    """
    rest = "the other" if tuple(nodes) == (2,) else "the others"
    return (
        f"with {format_nodes(*nodes)} one node used {format_share(busiest)} of its CPU limit and {rest}"
        f" {format_shares(*others)}: the work is unevenly distributed, and that node limits throughput"
    )


def _speed_varied(factor: float, share: float | None) -> str:
    """Return the cause: the speed of the machine varied by `factor` between runs.

    `share` is the share of the run-to-run variance of throughput that correlates with it; None if unknown.
    """
    variance = f", which explains {format_share(share)} of the run-to-run variance" if share is not None else ""
    return (
        f"the CPU time of the reference benchmark differed by a factor of up to {factor:.1f} between runs: the speed of"
        f" the machine varied{variance}"
    )


def _failing_requests(worst: float, size: int, clients: int | None, runs: int, total: int) -> str:
    """Return the cause: many requests failed in `runs` of `total` runs.

    `worst` is the largest share of failed requests of a run, at `size` nodes and `clients`.
    """
    at = f"{format_nodes(size)}, {counted(clients, 'client')}" if clients else format_nodes(size)
    return (
        f"in {runs} of {counted(total, 'run')} more than {format_share(ERROR_LIMIT)} of the requests of an operation"
        f" failed, at worst {format_share(worst)} ({at}): throughput and response times cover successes only"
    )


CLIENTS_FIXED = Rule(
    "clients_fixed",
    "the number of clients stays at {clients:g} while nodes are added",
    "make clients a factor: few clients cannot saturate many nodes, so the curve bends for lack of load",
)
FAILING_REQUESTS = Rule(
    "failing_requests",
    _failing_requests,
    "look at the answers with `loadframe check` and at the store's log; such treatments do less work",
)
FEW_REQUESTS = Rule(
    "few_requests",
    "a run has only {count:counted request} of {operation}; p99 needs {needed:,}, else single requests decide it",
    "set a longer duration, or ignore p99",
)
OPEN_LOAD = Rule(
    "open_load",
    "phase {phase} has an open load: its throughput is at most the offered rate, which need not be the capacity of the"
    " cluster",
    "measure capacity with closed clients, and latency at a rate below it",
)
REPLICAS_CLIPPED = Rule(
    "replicas_clipped",
    "the workload sets {replicas:counted replica}, but {nodes:nodes} cannot hold that many copies: the small clusters"
    " did less work",
    lambda replicas: f"start at {replicas + 1} nodes, or measure without replicas",
)
SHARDS_UNEVEN = Rule(
    "shards_uneven",
    "{shards} shards cannot be distributed evenly over {nodes:nodes}: some nodes have less work",
    "choose a number of shards that each number of nodes divides, or one that grows with the nodes",
)
DATA_OUTGROWS_MEMORY = Rule(
    "data_outgrows_memory",
    "{reading:nodes} read up to {rate:size}/s from storage while others read almost nothing: sizes whose data fit in"
    " memory are compared with sizes whose data do not",
    "give each node more memory or use less data, so that the data fit in memory at all sizes or at none",
)
SHARED_CORES = Rule(
    "shared_cores",
    _shared_cores,
    "limit the nodes so that a core is left for each generator thread, or use separate machines",
)
CROWDED_CORES = Rule(
    "crowded_cores",
    "nodes limited to {wanted:g} CPUs in total have {cores:counted core}: they cannot reach their limits",
    "give the nodes more cores, or lower limits",
)
MACHINE_FULL = Rule(
    "machine_full",
    "with {nodes:nodes} {machine} was up to {busy:share} busy: its processors, not the cluster, may limit throughput",
    "use lower CPU limits per node, fewer nodes, or separate machines",
)
PROCESSORS_STOLEN = Rule(
    "processors_stolen",
    "the hypervisor took {mean:share} of the processors of {machine} during the measurements, {most:share} in the worst"
    " run: the capacity of the machine varied",
    _DEDICATED,
)
DEARER_REQUESTS = Rule(
    "dearer_requests",
    _dearer_requests,
    "look at the work that nodes do for each other (replication, forwarding, shards per search) and while idle, and"
    " give each node its own processors: nodes on one machine share its caches",
)
HOT_NODE = Rule(
    "hot_node",
    _hot_node,
    "check which shards, keys or roles the requests use, on which node these are, and whether clients use all nodes"
    " (`spread` in the file); telemetry.parquet names the node. Until then more nodes do not help",
)
SPEED_VARIED = Rule("speed_varied", _speed_varied, _DEDICATED)


def warnings(runs: Sequence[RecordedRun], phase: str, best: Sequence[Treatment]) -> tuple[Finding, ...]:
    """Return findings about the valid runs (`sound`) that reached a phase; unknown numbers of nodes count as 1.

    `best` has one treatment per number of nodes, ascending.
    """
    usable = [run for run in runs if run.sound and run.phase(phase)]
    by_nodes: dict[int, list[RecordedRun]] = defaultdict(list)
    for run in usable:
        by_nodes[run.nodes or 1].append(run)
    return (
        *_about_failures(usable, phase),
        *_about_responses(usable, phase),
        *_about_load(usable, by_nodes, phase),
        *_about_data(by_nodes),
        *_about_storage(by_nodes, phase),
        *_about_work(usable, phase, best),
        *_about_machine(usable, phase),
        *_about_processors(usable, by_nodes, phase),
        *fresh_nodes(usable, [phase]),
    )


def _about_failures(usable: Sequence[RecordedRun], phase: str) -> Iterator[Finding]:
    """Yield a finding if over 1 % of the requests of an operation failed in a run."""
    shares = [(largest_failed_share(run, phase), run) for run in usable]
    failing = [(share, run) for share, run in shares if share > ERROR_LIMIT]
    if failing:
        worst, run = max(failing, key=lambda pair: pair[0])
        yield FAILING_REQUESTS(
            worst=worst, size=run.nodes or 1, clients=run.clients(phase), runs=len(failing), total=len(usable)
        )


def _about_responses(usable: Sequence[RecordedRun], phase: str) -> Iterator[Finding]:
    """Yield a finding if a run has too few requests for the p99 of the main operation."""
    operation = main_operation(usable, phase)
    few = Measure(phase, "p99", operation).few_requests(usable)
    if few and few.count:
        yield FEW_REQUESTS(count=few.count, operation=operation, needed=few.needed)


def _about_load(usable: Sequence[RecordedRun], by_nodes: Mapping[int, Any], phase: str) -> Iterator[Finding]:
    """Yield findings about an open load, and about a fixed number of clients on several numbers of nodes.

    The latter if all closed streams of all runs have one number. `by_nodes` has the runs by number of nodes.
    """
    streams = [stream for run in usable for stream in run.streams(phase)]
    if any(stream.is_open for stream in streams):
        yield OPEN_LOAD(phase=phase)
    clients = {stream.clients for stream in streams if isinstance(stream.clients, int)}
    if len(by_nodes) > 1 and len(clients) == 1:
        yield CLIENTS_FIXED(clients=clients.pop())


def _about_data(by_nodes: Mapping[int, Sequence[RecordedRun]]) -> Iterator[Finding]:
    """Yield findings about replicas that do not fit on the nodes, and shards that do not divide evenly.

    They use the parameters `shards` and `replicas` of the workload in one run per number of nodes. The number of copies
    of all shards should be a multiple of the nodes. Replicas have a finding only if the numbers of nodes differ.
    `by_nodes` has the runs by number of nodes.
    """
    uneven: dict[int, list[int]] = defaultdict(list)
    clipped: dict[int, list[int]] = defaultdict(list)
    for nodes, runs in by_nodes.items():
        parameters = runs[0].manifest.workload.parameters
        shards, replicas = parameters.get("shards"), parameters.get("replicas")
        if isinstance(shards, int) and isinstance(replicas, int) and shards * (1 + replicas) % nodes:
            uneven[shards].append(nodes)
        if isinstance(replicas, int) and replicas + 1 > nodes:
            clipped[replicas].append(nodes)
    if len(by_nodes) > 1:
        yield from (
            REPLICAS_CLIPPED(replicas=replicas, nodes=tuple(sorted(nodes))) for replicas, nodes in clipped.items()
        )
    yield from (SHARDS_UNEVEN(shards=shards, nodes=tuple(sorted(nodes))) for shards, nodes in uneven.items())


def _about_storage(by_nodes: Mapping[int, Sequence[RecordedRun]], phase: str) -> Iterator[Finding]:
    """Yield a finding if nodes read from storage at some numbers of nodes and hardly at others.

    `by_nodes` has the runs by number of nodes. More than 1 MiB/s on average counts as reading, less than a tenth of
    that as hardly.
    """
    rates = {}
    for nodes, runs in by_nodes.items():
        read = [value for run in runs for value in samples(run, phase, "node:", "process.read")]
        if read:
            rates[nodes] = fmean(read)
    reading = tuple(sorted(nodes for nodes, rate in rates.items() if rate > _READS))
    if reading and any(rate < _READS / 10 for rate in rates.values()):
        yield DATA_OUTGROWS_MEMORY(reading=reading, rate=max(rates.values()))


def _about_work(usable: Sequence[RecordedRun], phase: str, best: Sequence[Treatment]) -> Iterator[Finding]:
    """Yield findings about CPU time per request that grows with the nodes, and about one busy node among idle ones.

    `usable` are the runs of the phase, `best` has one treatment per number of nodes. A growth by up to 25 % has no
    finding.
    """
    by_id = {run.id: run for run in usable}
    runs = {
        treatment.nodes or 1: [(by_id[point.run], point.throughput / point.per_request) for point in treatment.points]
        for treatment in best
    }
    costs = {}
    for nodes, pairs in runs.items():
        # `cores_used` is 0 if the use is unknown.
        if known := [cores / rate for run, rate in pairs if (cores := cores_used(run, phase))]:
            costs[nodes] = fmean(known)
    few, many = min(costs, default=0), max(costs, default=0)
    if few < many and costs[many] > _DEARER * costs[few]:
        yield DEARER_REQUESTS(nodes=(few, many), cost=(costs[few], costs[many]))
    hot = {}
    for nodes, pairs in runs.items():
        shares = [sorted(used) for run, _ in pairs if len(used := cpu_shares(run, phase).values()) > 1]
        if shares and all(used[-1] >= _USED_UP and fmean(used[:-1]) <= _IDLE_BESIDE * used[-1] for used in shares):
            hot[nodes] = shares
    if hot:
        every = [used for shares in hot.values() for used in shares]
        others = [share for used in every for share in used[:-1]]
        yield HOT_NODE(nodes=tuple(hot), busiest=min(used[-1] for used in every), others=(min(others), max(others)))


def _about_machine(usable: Sequence[RecordedRun], phase: str) -> Iterator[Finding]:
    """Yield findings about shared or too few cores and varying speed; `usable` are the runs of the phase.

    Cores are judged on one run with the most nodes. They are shared on this machine without CPU limits of nodes, or if
    limits and generator threads exceed the usable CPUs. They are too few if limits exceed the dedicated cores. Speeds
    of runs that differ by up to 15 % have no finding.
    """
    for run in sorted(usable, key=lambda candidate: candidate.nodes or 1, reverse=True)[:1]:
        manifest = run.manifest
        store, limits = manifest.store, manifest.store.limits
        cpus, cores, apart = limits.cpus, limits.cores, limits.cores_each
        nodes = store.nodes or 1
        wanted = cpus * nodes if cpus and limits.in_force else None
        threads = manifest.generator.threads or 1
        usable_cpus = manifest.hardware.usable
        here = store.origin in ("embedded", "vendor", "installed") and store.host in HERE
        if cores or apart:
            have = apart * nodes if apart else len(cores or ())
            if wanted and wanted > have:
                yield CROWDED_CORES(wanted=wanted, cores=have)
        elif here and usable_cpus and (wanted is None or wanted + threads > usable_cpus):
            yield SHARED_CORES(wanted=wanted, usable=usable_cpus)
    factor = speed_range(usable)
    if factor > _PACES:
        throughput = Measure(phase, "throughput")
        points = [(json.dumps(run.treatment), run, throughput.of(run) or 0.0) for run in usable]
        yield SPEED_VARIED(factor=factor, share=speed_share(points))


def _about_processors(
    usable: Sequence[RecordedRun], by_nodes: Mapping[int, Sequence[RecordedRun]], phase: str
) -> Iterator[Finding]:
    """Yield findings about machines whose processors were stolen or busy.

    Means over runs of over 2 % stolen (only the worst machine), and runs over 95 % busy, have a finding. A machine of a
    single node is not reported as busy. `usable` are the runs of the phase, `by_nodes` has them by number of nodes.
    """
    stolen: dict[str, list[float]] = defaultdict(list)
    for run in usable:
        for machine, values in by_machine(run, phase, "cpu.stolen").items():
            stolen[machine].append(fmean(values))
    if stolen:
        machine, shares = max(stolen.items(), key=lambda pair: fmean(pair[1]))
        if fmean(shares) > _STOLEN:
            yield PROCESSORS_STOLEN(mean=fmean(shares), most=max(shares), machine=machine)
    busy: dict[str, dict[int, float]] = defaultdict(dict)
    for nodes, runs in by_nodes.items():
        for run in runs:
            # A node that alone uses up its own machine is saturated, as it would be at a CPU limit.
            single = {f"machine {name}" for name in machines_of_one_node(run.manifest.store)}
            for machine, values in by_machine(run, phase, "cpu.busy").items():
                if fmean(values) > _BUSY and machine not in single:
                    busy[machine][nodes] = max(fmean(values), busy[machine].get(nodes, 0.0))
    for machine, by_size in busy.items():
        yield MACHINE_FULL(nodes=tuple(sorted(by_size)), busy=max(by_size.values()), machine=machine)
