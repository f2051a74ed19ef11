"""manifest.json: the setup of a run, sufficient to repeat it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from loadframe.record.schema.model import doc_metadata

#: The manifest's `format`. Increase it if readers of the old layout would misread the new one.
FORMAT = 1


@dataclass(frozen=True, slots=True)
class WorkloadFile:
    """The file that a workload came from."""

    path: str | None = field(default=None, metadata=doc_metadata("its path"))
    sha256: str | None = field(default=None, metadata=doc_metadata("its SHA-256", "hexadecimal"))


@dataclass(frozen=True, slots=True)
class RecordedWorkload:
    """The keys of a run's workload that analyses and reports use."""

    name: str | None = field(default=None, metadata=doc_metadata("its name"))
    file: WorkloadFile | None = field(default=None, metadata=doc_metadata(""))
    parameters: Mapping[str, Any] = field(
        default_factory=dict, metadata=doc_metadata("its parameters, including defaults")
    )
    phases: tuple[Mapping[str, Any], ...] = field(default=(), metadata=doc_metadata("the phases as they were run"))
    corpora: Mapping[str, Any] = field(default_factory=dict, metadata=doc_metadata("its corpora, by name"))


@dataclass(frozen=True, slots=True)
class RecordedLimits:
    """Limits of each node and the mechanism that enforced them: `none`, or None if no cluster was started."""

    cpus: float | None = field(default=None, metadata=doc_metadata("CPU quota", "cores"))
    memory: int | None = field(default=None, metadata=doc_metadata("memory", "B"))
    cores: tuple[int, ...] | None = field(default=None, metadata=doc_metadata("the cores that nodes run on"))
    cores_each: int | None = field(default=None, metadata=doc_metadata("dedicated cores of each node", "cores"))
    disk: Mapping[str, Any] | None = field(
        default=None,
        metadata=doc_metadata(
            "limits of reads and writes: `read`, `write` (B/s), `read_operations`, `write_operations` (1/s)",
            null=True,
        ),
    )
    enforced_by: str | None = field(default=None, metadata=doc_metadata("the mechanism that enforces the limits"))
    obstacle: str | None = field(default=None, metadata=doc_metadata("why the limits are not enforced"))
    period: float | None = field(default=None, metadata=doc_metadata("period of the quota", "s"))

    @property
    def in_force(self) -> bool:
        """Whether the limits were enforced."""
        return self.enforced_by not in (None, "none")


@dataclass(frozen=True, slots=True)
class RecordedStore:
    """The keys of the requested cluster that analyses and reports use."""

    kind: str | None = field(default=None, metadata=doc_metadata("kind of store"))
    family: str | None = field(default=None, metadata=doc_metadata("the set of operations that it supports"))
    version: str | None = field(default=None, metadata=doc_metadata("its version"))
    origin: str | None = field(default=None, metadata=doc_metadata("origin of its software"))
    nodes: int | None = field(default=None, metadata=doc_metadata("number of nodes", "nodes"))
    host: str | None = field(default=None, metadata=doc_metadata("host type of its nodes"))
    machines: tuple[Mapping[str, Any], ...] = field(
        default=(),
        metadata=doc_metadata("other machines of its nodes: name, nodes, address, cpu, threads, memory, kernel"),
    )
    placement: Mapping[str, Any] = field(
        default_factory=dict,
        metadata=doc_metadata("placement of its nodes on these machines: per_machine, share, network"),
    )
    companions: Mapping[str, str] = field(
        default_factory=dict,
        metadata=doc_metadata("processes without data (routers, configuration servers), and their roles"),
    )
    shared: Mapping[str, str] = field(
        default_factory=dict,
        metadata=doc_metadata("companions that share the limits and cores of a node, and that node"),
    )
    image: str | None = field(default=None, metadata=doc_metadata("the image of its containers"))
    links: Mapping[str, Any] = field(default_factory=dict, metadata=doc_metadata("shaping of the nodes' links"))
    limits: RecordedLimits = field(default=RecordedLimits(), metadata=doc_metadata(""))
    java: Any = field(default=None, metadata=doc_metadata("the version of Java"))
    heap: Any = field(default=None, metadata=doc_metadata("the heap of each node", "B"))
    settings: Mapping[str, Any] = field(default_factory=dict, metadata=doc_metadata("settings"))
    durability: str | None = field(
        default=None,
        metadata=doc_metadata(
            "settings that decide when a write is acknowledged; null if unknown or no cluster was started", null=True
        ),
    )
    encryption: str | None = field(
        default=None,
        metadata=doc_metadata(
            "connections with TLS: `none`, `http` (of clients), `transport` (between nodes), `both`; null if no cluster"
            " was started",
            null=True,
        ),
    )
    allowed: tuple[str, ...] | None = field(
        default=None, metadata=doc_metadata("tolerated states of the cluster, if any", null=True)
    )
    existing: bool = field(
        default=False, metadata=doc_metadata("whether the cluster existed before the experiment that recorded the run")
    )
    prefix: str | None = field(
        default=None,
        metadata=doc_metadata("prefix of the collections' names on the cluster, which the record leaves out"),
    )
    documents: Mapping[str, int] = field(
        default_factory=dict,
        metadata=doc_metadata(
            "documents of each collection before the run, if the cluster existed before the experiment"
        ),
    )


@dataclass(frozen=True, slots=True)
class RankPlace:
    """A rank of the load generator and its machine."""

    rank: int = field(metadata=doc_metadata("number of a rank, if several generated load"))
    machine: str | None = field(default=None, metadata=doc_metadata("its machine"))


@dataclass(frozen=True, slots=True)
class GeneratorSetup:
    """Setup of the load generator."""

    ranks: int | None = field(default=None, metadata=doc_metadata("load-generator processes", "processes"))
    threads: int | None = field(default=None, metadata=doc_metadata("worker threads of each", "threads"))
    spread: str | None = field(
        default=None,
        metadata=doc_metadata("node selection: `fixed` by client, `round_robin`, or the least busy of `all`"),
    )
    connections: int | None = field(
        default=None, metadata=doc_metadata("connections shared by all clients; null: one for each client", null=True)
    )
    samples: bool | None = field(
        default=None, metadata=doc_metadata("whether each request was recorded individually, in `samples.parquet`")
    )
    trace: float | None = field(
        default=None, metadata=doc_metadata("share of the HTTP requests that carried a trace context, with `--trace`")
    )
    spin: bool | None = field(
        default=None, metadata=doc_metadata("whether each worker had its own core and waited awake for due requests")
    )
    kernel_timestamps: bool | None = field(
        default=None, metadata=doc_metadata("whether the kernel's timestamps of requests and answers were recorded")
    )
    members: tuple[RankPlace, ...] = field(default=(), metadata=doc_metadata(""))
    nearest: Mapping[str, Any] = field(
        default_factory=dict,
        metadata=doc_metadata(
            "with the spread `nearest`, by phase: round trips from ranks to hosts (s), and clients of each"
            " rank for each host",
            below=True,
        ),
    )
    ceiling: float | None = field(
        default=None, metadata=doc_metadata("calibrated limit of one worker with this driver", "1/s", null=True)
    )


@dataclass(frozen=True, slots=True)
class RecordedFile:
    """An input file of a run."""

    name: str = field(metadata=doc_metadata("an input file of the run"))
    bytes: int = field(metadata=doc_metadata("its size", "B"))
    sha256: str = field(metadata=doc_metadata("its hash", "hexadecimal"))


@dataclass(frozen=True, slots=True)
class Versions:
    """The software that made a run."""

    loadframe: str | None = field(default=None, metadata=doc_metadata("the package's version"))
    commit: str | None = field(
        default=None, metadata=doc_metadata("its Git commit, if it runs from a checkout", null=True)
    )
    modified: bool | None = field(
        default=None, metadata=doc_metadata("whether that checkout had uncommitted changes", null=True)
    )
    python: str | None = field(default=None, metadata=doc_metadata("interpreter and version"))
    kernel: str | None = field(default=None, metadata=doc_metadata("system, release and build"))
    system: str | None = field(default=None, metadata=doc_metadata("distribution"))


@dataclass(frozen=True, slots=True)
class Hardware:
    """The machine of the load generator."""

    hostname: str | None = field(default=None, metadata=doc_metadata("this machine's name"))
    architecture: str | None = field(default=None, metadata=doc_metadata("instruction set"))
    cpu: str | None = field(default=None, metadata=doc_metadata("CPU model"))
    virtual: bool | None = field(default=None, metadata=doc_metadata("whether the CPU reports a hypervisor"))
    cores: int | None = field(default=None, metadata=doc_metadata("physical", "cores", null=True))
    threads: int | None = field(default=None, metadata=doc_metadata("logical CPUs", "threads"))
    usable: int | None = field(
        default=None, metadata=doc_metadata("logical CPUs that this process may run on", "threads")
    )
    memory: int | None = field(default=None, metadata=doc_metadata("physical memory", "B"))
    swap: int | None = field(default=None, metadata=doc_metadata("swap space", "B"))
    clock: str | None = field(default=None, metadata=doc_metadata("the kernel's clock source"))
    governor: str | None = field(
        default=None, metadata=doc_metadata("CPU frequency governor; null if unknown", null=True)
    )
    cgroup: str | None = field(default=None, metadata=doc_metadata("control groups: `v1`, `v2`, `hybrid` or `none`"))
    load: tuple[float, ...] = field(
        default=(), metadata=doc_metadata("load averages of 1, 5 and 15 minutes at the start of the run", "tasks")
    )
    yardstick: tuple[float, ...] = field(
        default=(),
        metadata=doc_metadata(
            "CPU time of a reference benchmark before and after the load; longer on a slower machine", "s"
        ),
    )


@dataclass(frozen=True, slots=True)
class Manifest:
    """Manifest of a run. Keys that an older run did not record are None or empty."""

    format: int = field(metadata=doc_metadata(f"version of this layout: {FORMAT}"))
    run: str | None = field(default=None, metadata=doc_metadata("the run's name, which is its folder's name"))
    started: str | None = field(default=None, metadata=doc_metadata("start of the run", "ISO 8601, UTC"))
    session: str | None = field(
        default=None,
        metadata=doc_metadata(
            "identifier of the command that made the run; its runs were made one after the other", null=True
        ),
    )
    command: tuple[str, ...] = field(
        default=(), metadata=doc_metadata("the command line that made the run, word by word")
    )
    treatment: Mapping[str, Any] = field(
        default_factory=dict, metadata=doc_metadata("the level of each factor", of="FACTOR")
    )
    block: int | None = field(
        default=None, metadata=doc_metadata("the block in which the run was randomised", null=True)
    )
    repetition: int | None = field(
        default=None, metadata=doc_metadata("number of the treatment's repetition", null=True)
    )
    seed: int | None = field(
        default=None, metadata=doc_metadata("random seed; the same seed repeats the same requests")
    )
    workload: RecordedWorkload = field(
        default=RecordedWorkload(), metadata=doc_metadata("the workload, with its parameters filled in", below=True)
    )
    store: RecordedStore = field(
        default=RecordedStore(),
        metadata=doc_metadata(
            "the requested cluster: kind, version, nodes, limits, settings; `adapted` are settings that the machine"
            " required, with reasons, and `allowed` are cluster states that `allow_bad` tolerated",
            below=True,
        ),
    )
    generator: GeneratorSetup = field(default=GeneratorSetup(), metadata=doc_metadata(""))
    files: tuple[RecordedFile, ...] = field(default=(), metadata=doc_metadata(""))
    versions: Versions = field(default=Versions(), metadata=doc_metadata(""))
    hardware: Hardware = field(default=Hardware(), metadata=doc_metadata(""))
