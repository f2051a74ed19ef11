"""manifest.json: all that is needed to repeat a run."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from loadframe.record.schema.model import told

#: The number in a manifest's `format`. It grows when a reader of the older shape would misread the newer one.
FORMAT = 1


@dataclass(frozen=True, slots=True)
class WorkloadFile:
    """The file that a workload came from."""

    path: str | None = field(default=None, metadata=told("its path"))
    sha256: str | None = field(default=None, metadata=told("its SHA-256", "hexadecimal"))


@dataclass(frozen=True, slots=True)
class RecordedWorkload:
    """What analyses and reports use of the workload that was run."""

    name: str | None = field(default=None, metadata=told("its name"))
    file: WorkloadFile | None = field(default=None, metadata=told(""))
    parameters: Mapping[str, Any] = field(default_factory=dict, metadata=told("what was set or taken by default"))
    phases: tuple[Mapping[str, Any], ...] = field(default=(), metadata=told("the phases as they were run"))
    corpora: Mapping[str, Any] = field(default_factory=dict, metadata=told("its corpora, by name"))


@dataclass(frozen=True, slots=True)
class RecordedLimits:
    """What each node was allowed to use, and what enforced it: `none`, or None where no cluster was started."""

    cpus: float | None = field(default=None, metadata=told("CPU quota", "cores"))
    memory: int | None = field(default=None, metadata=told("memory", "B"))
    cores: tuple[int, ...] | None = field(default=None, metadata=told("the cores that nodes run on"))
    cores_each: int | None = field(default=None, metadata=told("how many cores each node has to itself", "cores"))
    disk: Mapping[str, Any] | None = field(
        default=None,
        metadata=told(
            "what it may read and write: `read`, `write` (B/s), `read_operations`, `write_operations` (1/s)",
            null=True,
        ),
    )
    enforced_by: str | None = field(default=None, metadata=told("what enforces it"))
    obstacle: str | None = field(default=None, metadata=told("why it is not enforced"))
    period: float | None = field(default=None, metadata=told("period of the quota", "s"))

    @property
    def in_force(self) -> bool:
        """Whether anything enforced the limits."""
        return self.enforced_by not in (None, "none")


@dataclass(frozen=True, slots=True)
class RecordedStore:
    """What analyses and reports use of the cluster that was asked for."""

    kind: str | None = field(default=None, metadata=told("kind of store"))
    family: str | None = field(default=None, metadata=told("the operations that it understands"))
    version: str | None = field(default=None, metadata=told("its version"))
    origin: str | None = field(default=None, metadata=told("where its software comes from"))
    nodes: int | None = field(default=None, metadata=told("nodes", "nodes"))
    host: str | None = field(default=None, metadata=told("where its nodes run"))
    machines: tuple[Mapping[str, Any], ...] = field(
        default=(),
        metadata=told("the other machines that its nodes run on: name, nodes, address, cpu, threads, memory, kernel"),
    )
    placement: Mapping[str, Any] = field(
        default_factory=dict, metadata=told("how its nodes were placed on them: per_machine, share, network")
    )
    companions: Mapping[str, str] = field(
        default_factory=dict,
        metadata=told("the processes beside its nodes, which keep no data (routers, configuration), and their roles"),
    )
    shared: Mapping[str, str] = field(
        default_factory=dict,
        metadata=told("those of them that share the limits and cores of a node, and that node"),
    )
    image: str | None = field(default=None, metadata=told("the image of its containers"))
    links: Mapping[str, Any] = field(default_factory=dict, metadata=told("what the nodes' links did to packets"))
    limits: RecordedLimits = field(default=RecordedLimits(), metadata=told(""))
    java: Any = field(default=None, metadata=told("the version of Java"))
    heap: Any = field(default=None, metadata=told("the heap of each node", "B"))
    settings: Mapping[str, Any] = field(default_factory=dict, metadata=told("settings"))
    encryption: str | None = field(
        default=None,
        metadata=told(
            "which connections went by TLS: `none`, `http` (clients'), `transport` (between nodes), `both`; null where "
            "no cluster was started",
            null=True,
        ),
    )
    allowed: tuple[str, ...] | None = field(
        default=None, metadata=told("states of the cluster that were allowed, where any were", null=True)
    )


@dataclass(frozen=True, slots=True)
class RankPlace:
    """A rank of the generator, and where it ran."""

    rank: int = field(metadata=told("a rank that loaded, where several did"))
    machine: str | None = field(default=None, metadata=told("its machine"))


@dataclass(frozen=True, slots=True)
class GeneratorSetup:
    """How the load generator was set up."""

    ranks: int | None = field(default=None, metadata=told("load-generator processes", "processes"))
    threads: int | None = field(default=None, metadata=told("worker threads of each", "threads"))
    spread: str | None = field(
        default=None,
        metadata=told("the node that a request goes to: `fixed` by client, `round_robin`, or the least busy of `all`"),
    )
    connections: int | None = field(
        default=None, metadata=told("connections that all clients share; null: one for each", null=True)
    )
    samples: bool | None = field(
        default=None, metadata=told("whether each request was recorded individually, in `samples.parquet`")
    )
    members: tuple[RankPlace, ...] = field(default=(), metadata=told(""))
    nearest: Mapping[str, Any] = field(
        default_factory=dict,
        metadata=told(
            "with the spread `nearest`, by phase: round trips from ranks to hosts (s), and how many clients of each"
            " rank ask each host",
            below=True,
        ),
    )
    ceiling: float | None = field(
        default=None, metadata=told("requests that one worker of this driver managed in calibration", "1/s", null=True)
    )


@dataclass(frozen=True, slots=True)
class RecordedFile:
    """A file that went into a run."""

    name: str = field(metadata=told("a file that went into the run"))
    bytes: int = field(metadata=told("its size", "B"))
    sha256: str = field(metadata=told("its hash", "hexadecimal"))


@dataclass(frozen=True, slots=True)
class Versions:
    """The software that made a run."""

    loadframe: str | None = field(default=None, metadata=told("the package's version"))
    commit: str | None = field(default=None, metadata=told("its Git commit when it runs from a checkout", null=True))
    modified: bool | None = field(
        default=None, metadata=told("whether that checkout had changes on top of the commit", null=True)
    )
    python: str | None = field(default=None, metadata=told("interpreter and version"))
    kernel: str | None = field(default=None, metadata=told("system, release and build"))
    system: str | None = field(default=None, metadata=told("distribution"))


@dataclass(frozen=True, slots=True)
class Hardware:
    """The machine that the generator ran on."""

    hostname: str | None = field(default=None, metadata=told("this machine's name"))
    architecture: str | None = field(default=None, metadata=told("instruction set"))
    cpu: str | None = field(default=None, metadata=told("CPU model"))
    virtual: bool | None = field(default=None, metadata=told("whether a hypervisor is announced"))
    cores: int | None = field(default=None, metadata=told("physical", "cores", null=True))
    threads: int | None = field(default=None, metadata=told("logical CPUs", "threads"))
    usable: int | None = field(default=None, metadata=told("logical CPUs that this process may run on", "threads"))
    memory: int | None = field(default=None, metadata=told("physical memory", "B"))
    swap: int | None = field(default=None, metadata=told("swap space", "B"))
    clock: str | None = field(default=None, metadata=told("the kernel's clock source"))
    governor: str | None = field(default=None, metadata=told("CPU frequency governor, where it can be read", null=True))
    cgroup: str | None = field(default=None, metadata=told("control groups: `v1`, `v2`, `hybrid` or `none`"))
    load: tuple[float, ...] = field(
        default=(), metadata=told("load averages of 1, 5 and 15 minutes when the run began", "tasks")
    )
    yardstick: tuple[float, ...] = field(
        default=(),
        metadata=told(
            "CPU time of a fixed computation before and after the load; longer where the machine is slower", "s"
        ),
    )


@dataclass(frozen=True, slots=True)
class Manifest:
    """A run's manifest. What an older run did not record is None, or empty."""

    format: int = field(metadata=told(f"version of this layout: {FORMAT}"))
    run: str | None = field(default=None, metadata=told("the run's name, which is its folder's name"))
    started: str | None = field(default=None, metadata=told("when the run began", "ISO 8601, UTC"))
    session: str | None = field(
        default=None,
        metadata=told(
            "a name for the command that made the run: runs with the same one were made one after the other", null=True
        ),
    )
    command: tuple[str, ...] = field(default=(), metadata=told("the command line that made the run, word by word"))
    treatment: Mapping[str, Any] = field(default_factory=dict, metadata=told("the level of each factor", of="FACTOR"))
    block: int | None = field(default=None, metadata=told("the block in which the run was randomised", null=True))
    repetition: int | None = field(default=None, metadata=told("which repetition of the treatment this is", null=True))
    seed: int | None = field(default=None, metadata=told("with it the same requests are made again"))
    workload: RecordedWorkload = field(
        default=RecordedWorkload(), metadata=told("the workload as it was run, parameters filled in", below=True)
    )
    store: RecordedStore = field(
        default=RecordedStore(),
        metadata=told(
            "the cluster as it was asked for: kind, version, nodes, limits, settings; `adapted` are settings that this"
            " machine made necessary, with the reasons, and `allowed` are states of it that `allow_bad` let pass",
            below=True,
        ),
    )
    generator: GeneratorSetup = field(default=GeneratorSetup(), metadata=told(""))
    files: tuple[RecordedFile, ...] = field(default=(), metadata=told(""))
    versions: Versions = field(default=Versions(), metadata=told(""))
    hardware: Hardware = field(default=Hardware(), metadata=told(""))
