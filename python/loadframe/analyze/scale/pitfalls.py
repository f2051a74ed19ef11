"""What makes a scale experiment misleading, as seen in manifests, summaries and telemetry."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from loadframe.analyze import pace
from loadframe.analyze.compare import Measure
from loadframe.analyze.experiment import RecordedRun
from loadframe.analyze.finding import Finding
from loadframe.analyze.scale.telemetry import cores_used, cpu_shares, samples
from loadframe.analyze.scale.treatments import Treatment
from loadframe.base.units import format_duration, format_nodes, format_share, format_shares, format_size

#: Reads from storage above this (B/s) are more than housekeeping.
_READS = 2**20
#: Hosts whose nodes run on the machine that generates the load.
_HERE = ("local", "netns", "container")
#: A machine busier than this has no CPU left for its nodes.
_BUSY = 0.95
#: Above this average loss, figures vary from minute to minute.
_STOLEN = 0.02
#: CPU time of a request with many nodes over that with few, above which it is reported.
_DEARER = 1.25
#: Share of its CPU limit from which a node is saturated, and share of its use below which the others count as idle.
_USED_UP, _IDLE_BESIDE = 0.9, 0.6
#: Ratio of two runs' yardsticks above which the speed of the machine affects what is compared.
_PACES = 1.15


@dataclass(frozen=True)
class ClientsFixed(Finding):
    """Nodes grow, clients do not."""

    clients: int

    def _cause(self) -> str:
        return f"the number of clients stays at {self.clients:g} while nodes are added"

    def _remedy(self) -> str:
        return "make clients a factor: few clients cannot load many nodes, so the curve bends for lack of load"


@dataclass(frozen=True)
class OpenLoad(Finding):
    """An open load was measured as if it were capacity."""

    phase: str

    def _cause(self) -> str:
        return (
            f"phase {self.phase} has open pacing: its throughput is the offered rate, not the capacity of the cluster"
        )

    def _remedy(self) -> str:
        return "measure capacity with closed clients, and latency at a rate below it"


@dataclass(frozen=True)
class ReplicasClipped(Finding):
    """More copies were asked for than there are nodes."""

    replicas: int
    nodes: tuple[int, ...]

    def _cause(self) -> str:
        return (
            f"{self.replicas + 1} copies of the data were asked for, but {format_nodes(*self.nodes)} cannot hold that"
            " many: the small clusters did less work"
        )

    def _remedy(self) -> str:
        return f"start at {self.replicas + 1} nodes, or measure without replicas"


@dataclass(frozen=True)
class ShardsUneven(Finding):
    """Shards cannot be spread evenly."""

    shards: int
    nodes: tuple[int, ...]

    def _cause(self) -> str:
        return (
            f"{self.shards} shards cannot be spread evenly over {format_nodes(*self.nodes)}: some nodes have less to do"
        )

    def _remedy(self) -> str:
        return "choose a number of shards that every number of nodes divides, or one that grows with the nodes"


@dataclass(frozen=True)
class DataOutgrowsMemory(Finding):
    """Some sizes read from storage, others do not."""

    reading: tuple[int, ...]
    rate: float

    def _cause(self) -> str:
        return (
            f"{format_nodes(*self.reading)} read up to {format_size(self.rate)}/s from storage while others read almost"
            " nothing: sizes whose data fit in memory are compared with sizes whose data do not"
        )

    def _remedy(self) -> str:
        return "give each node more memory or use less data, so that all sizes are alike in this"


@dataclass(frozen=True)
class SharedCores(Finding):
    """Nodes and generator want more CPUs than there are."""

    wanted: float | None
    usable: int

    def _cause(self) -> str:
        wanted = "nodes without a CPU limit" if self.wanted is None else f"nodes limited to {self.wanted:g} CPUs in all"
        return f"{wanted} and the generator share this machine's {self.usable} CPUs"

    def _remedy(self) -> str:
        return "limit the nodes so that a core is left for each generator thread, or use separate machines"


@dataclass(frozen=True)
class CrowdedCores(Finding):
    """The cores reserved for the nodes are too few."""

    wanted: float
    cores: int

    def _cause(self) -> str:
        have = f"{self.cores} cores" if self.cores > 1 else "one core"
        return f"nodes limited to {self.wanted:g} CPUs in all have {have}: they cannot reach their limits"

    def _remedy(self) -> str:
        return "give the nodes more cores, or lower limits"


@dataclass(frozen=True)
class MachineFull(Finding):
    """The machine that runs all nodes had no CPU left."""

    nodes: tuple[int, ...]
    busy: float

    def _cause(self) -> str:
        return (
            f"with {format_nodes(*self.nodes)} the whole machine was up to {format_share(self.busy)} busy:"
            " its processors, not the cluster, may limit throughput"
        )

    def _remedy(self) -> str:
        return "use lower CPU limits per node, fewer nodes, or separate machines"


@dataclass(frozen=True)
class ProcessorsStolen(Finding):
    """The hypervisor gave processor time of this machine to other guests."""

    mean: float
    most: float

    def _cause(self) -> str:
        return (
            f"the hypervisor took {format_share(self.mean)} of this machine's processors while runs were measured,"
            f" {format_share(self.most)} in the worst run: the machine was smaller by an amount that varied"
        )

    def _remedy(self) -> str:
        return "repeat on a machine with dedicated processors; more repetitions reduce the scatter that this causes"


@dataclass(frozen=True)
class DearerRequests(Finding):
    """With more nodes a request costs more CPU time."""

    nodes: tuple[int, int]
    #: CPU time of all nodes for one request, s.
    cost: tuple[float, float]

    def _cause(self) -> str:
        (few, many), (cheap, dear) = self.nodes, self.cost
        return (
            f"for each request the nodes used {format_duration(dear)} of CPU time with {format_nodes(many)} and"
            f" {format_duration(cheap)} with {format_nodes(few)}, so part of the capacity of the added"
            " nodes is spent on overhead"
        )

    def _remedy(self) -> str:
        return (
            "look at the work that nodes do for each other (replication, forwarding, shards per search) and while they"
            " wait for work, and give each node its own processors: those of one machine share its caches"
        )


@dataclass(frozen=True)
class HotNode(Finding):
    """One node had no CPU left while others had."""

    nodes: tuple[int, ...]
    #: Shares of the CPU limit: the least that the busiest node used, and the least and the most of the others.
    busiest: float
    others: tuple[float, float]

    def _cause(self) -> str:
        others = "the other" if self.nodes == (2,) else "the others"
        return (
            f"with {format_nodes(*self.nodes)} one node used {format_share(self.busiest)} of its CPU limit and {others}"
            f" {format_shares(*self.others)}: the work was not spread evenly, and that node limits throughput"
        )

    def _remedy(self) -> str:
        return (
            "see which shards, keys or roles the requests go to, on which node those are, and whether clients use all"
            " nodes (`spread` in the file); telemetry.parquet says which node it was. Until then more nodes do not help"
        )


@dataclass(frozen=True)
class PaceVaried(Finding):
    """The speed of the machine varied."""

    #: How many times as long the yardstick took beside one run than beside another, and the share of the scatter of
    #: throughput between repetitions that goes with it; None where too few runs say it.
    factor: float
    share: float | None

    def _cause(self) -> str:
        scatter = (
            ""
            if self.share is None
            else f", and {format_share(self.share)} of the scatter between repetitions goes along with it"
        )
        return (
            f"a fixed computation took up to {self.factor:.1f} times as long beside one run as beside another: the"
            f" speed of the machine varied{scatter}"
        )

    def _remedy(self) -> str:
        return "repeat on a machine with dedicated processors; more repetitions reduce the scatter that this causes"


def pitfalls(runs: Sequence[RecordedRun], phase: str, best: Sequence[Treatment]) -> tuple[Finding, ...]:
    """Return what is seen in the usable runs of a phase; `best` is what stands for each number of nodes, ascending."""
    usable = [run for run in runs if run.sound and run.phase(phase)]
    by_nodes: dict[int, list[RecordedRun]] = defaultdict(list)
    for run in usable:
        by_nodes[run.nodes or 1].append(run)
    return (
        *_about_load(usable, by_nodes, phase),
        *_about_data(by_nodes),
        *_about_storage(by_nodes, phase),
        *_about_work(usable, phase, best),
        *_about_machine(usable, by_nodes, phase),
    )


def _about_load(usable: Sequence[RecordedRun], by_nodes: Mapping[int, Any], phase: str) -> Iterator[Finding]:
    streams = [stream for run in usable for stream in run.streams(phase)]
    if any(stream.is_open for stream in streams):
        yield OpenLoad(phase)
    clients = {stream.clients for stream in streams if isinstance(stream.clients, int)}
    if len(by_nodes) > 1 and len(clients) == 1:
        yield ClientsFixed(clients.pop())


def _about_data(by_nodes: Mapping[int, Sequence[RecordedRun]]) -> Iterator[Finding]:
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
        yield from (ReplicasClipped(replicas, tuple(sorted(nodes))) for replicas, nodes in clipped.items())
    yield from (ShardsUneven(shards, tuple(sorted(nodes))) for shards, nodes in uneven.items())


def _about_storage(by_nodes: Mapping[int, Sequence[RecordedRun]], phase: str) -> Iterator[Finding]:
    rates = {}
    for nodes, runs in by_nodes.items():
        read = [value for run in runs for value in samples(run, phase, "node:", "process.read")]
        if read:
            rates[nodes] = fmean(read)
    reading = tuple(sorted(nodes for nodes, rate in rates.items() if rate > _READS))
    if reading and any(rate < _READS / 10 for rate in rates.values()):
        yield DataOutgrowsMemory(reading, max(rates.values()))


def _about_work(usable: Sequence[RecordedRun], phase: str, best: Sequence[Treatment]) -> Iterator[Finding]:
    by_id = {run.id: run for run in usable}
    runs = {
        treatment.nodes or 1: [(by_id[point.run], point.throughput / point.per_request) for point in treatment.points]
        for treatment in best
    }
    costs = {nodes: fmean(cores_used(run, phase) / rate for run, rate in pairs) for nodes, pairs in runs.items()}
    few, many = min(costs, default=0), max(costs, default=0)
    if few < many and costs[few] and costs[many] > _DEARER * costs[few]:
        yield DearerRequests((few, many), (costs[few], costs[many]))
    hot = {}
    for nodes, pairs in runs.items():
        shares = [sorted(used) for run, _ in pairs if len(used := cpu_shares(run, phase).values()) > 1]
        if shares and all(used[-1] >= _USED_UP and fmean(used[:-1]) <= _IDLE_BESIDE * used[-1] for used in shares):
            hot[nodes] = shares
    if hot:
        every = [used for shares in hot.values() for used in shares]
        others = [share for used in every for share in used[:-1]]
        yield HotNode(tuple(hot), min(used[-1] for used in every), (min(others), max(others)))


def _about_machine(
    usable: Sequence[RecordedRun], by_nodes: Mapping[int, Sequence[RecordedRun]], phase: str
) -> Iterator[Finding]:
    for run in sorted(usable, key=lambda candidate: candidate.nodes or 1, reverse=True)[:1]:
        manifest = run.manifest
        store, limits = manifest.store, manifest.store.limits
        cpus, cores, apart = limits.cpus, limits.cores, limits.cores_each
        nodes = store.nodes or 1
        wanted = cpus * nodes if cpus and limits.in_force else None
        threads = manifest.generator.threads or 1
        usable_cpus = manifest.hardware.usable
        here = store.origin in ("embedded", "vendor", "installed") and store.host in _HERE
        if cores or apart:
            have = apart * nodes if apart else len(cores or ())
            if wanted and wanted > have:
                yield CrowdedCores(wanted, have)
        elif here and usable_cpus and (wanted is None or wanted + threads > usable_cpus):
            yield SharedCores(wanted, usable_cpus)
    stolen = [fmean(values) for run in usable if (values := samples(run, phase, "host", "cpu.stolen"))]
    if stolen and fmean(stolen) > _STOLEN:
        yield ProcessorsStolen(fmean(stolen), max(stolen))
    factor = pace.slowest(usable)
    if factor > _PACES:
        throughput = Measure(phase, "throughput")
        points = [(json.dumps(run.treatment), run, throughput.of(run) or 0.0) for run in usable]
        yield PaceVaried(factor, pace.share(points))
    busy = {}
    for nodes, runs in by_nodes.items():
        shares = [fmean(values) for run in runs if (values := samples(run, phase, "host", "cpu.busy"))]
        if shares and max(shares) > _BUSY:
            busy[nodes] = max(shares)
    if busy:
        yield MachineFull(tuple(sorted(busy)), max(busy.values()))
