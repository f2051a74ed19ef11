"""Models of the keys that the files of all experiments share."""

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, Strict, Tag, model_validator
from pydantic.types import Discriminator

from loadframe.analyze.levels import SIZES, Spacing, numeric_levels
from loadframe.base.errors import BadInput
from loadframe.base.ranges import MOST_FIRST_SEED, MOST_NODES, MOST_RANKS, MOST_THREADS
from loadframe.base.units import Cores as CoreSets
from loadframe.base.units import parse_cores, parse_share, parse_throughput
from loadframe.cluster import is_path, parse_machine
from loadframe.experiment.file.expression import expression, is_expression
from loadframe.load.generator import Spread
from loadframe.workload.pacing import Arrivals
from loadframe.yamlfile import (
    NOT_EMPTY,
    Bandwidth,
    Duration,
    Model,
    Name,
    Rate,
    Scalar,
    Size,
    did_you_mean,
    quantity,
    shown,
    wrong,
)

Nodes = Annotated[int, Field(ge=1, le=MOST_NODES)]


def _cores(value: Any) -> CoreSets:
    try:
        return parse_cores(value)
    except BadInput as error:
        raise wrong(error.what, error.remedy) from None


#: Cores that all nodes share (`2`, `0-3`, `0,2`), or that each gets for itself (`1 each`, `2 each of 0-5`).
Cores = Annotated[CoreSets, BeforeValidator(_cores, json_schema_input_type=str | int)]


#: Bytes per second of a disk.
Throughput = Annotated[int, quantity(parse_throughput, 2**63)]


class DiskEntry(Model):
    """What each node may read and write in a second of the disk that its data is on: bytes, and operations."""

    read: Throughput | None = None
    write: Throughput | None = None
    read_operations: Annotated[Rate, Field(ge=1)] | None = None
    write_operations: Annotated[Rate, Field(ge=1)] | None = None


class LimitsEntry(Model):
    """What each node may use of its machine: CPUs, bytes of memory, cores, and its disk."""

    cpus: Annotated[float, Field(gt=0)] | None = None
    memory: Size | None = None
    cores: Cores | None = None
    disk: DiskEntry = DiskEntry()


class LinkEntry(Model):
    """What each node's link does to packets, in each direction: s of delay, share lost, bytes per second."""

    delay: Duration = 0.0
    loss: Annotated[float, quantity(parse_share, 1.0)] = 0.0
    rate: Bandwidth | None = None


#: Hosts that have machines of their own for nodes. On all others the nodes are beside the generator.
REMOTE_HOSTS = ("ssh", "slurm", "mpi")
#: What is said of those machines.
PLACEMENT_KEYS = ("machines", "placement", "scratch")


class PlacementEntry(Model):
    """How nodes are put on machines: nodes a machine, whether the generator may share it, and their network."""

    per_machine: Annotated[int, Field(ge=1)] | None = None
    share: bool = True
    network: str | None = None


#: Which connections of the cluster go by TLS.
EncryptionWord = Literal["none", "http", "transport", "both"]


def _machine(value: Any) -> Any:
    try:
        if isinstance(value, str):
            parse_machine(value)
    except BadInput as error:
        raise wrong(error.what, error.remedy) from None
    return value


#: A machine by its name, with the number of nodes that it takes behind a colon where that is not that of all.
MachineName = Annotated[str, BeforeValidator(_machine, json_schema_input_type=str)]


def _kind(value: Any) -> Any:
    if isinstance(value, str) and not is_path(value) and not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,79}", value):
        raise wrong(f"{shown(value)} is not a kind of store", "`loadframe stores` lists them; a path has a slash in it")
    return value


#: A kind of store, or the path of a file or folder that has one, from the experiment's folder.
StoreKind = Annotated[str, BeforeValidator(_kind)]


class StoreEntry(Model):
    """The store under test, and its state where no factor says otherwise."""

    kind: StoreKind
    version: str | None = None
    nodes: Nodes = 1
    limits: LimitsEntry = LimitsEntry()
    home: str | None = None
    host: Literal["local", "netns", "container", "ssh", "slurm", "mpi"] = "local"
    machines: Annotated[tuple[MachineName, ...], Strict(False)] = ()
    placement: PlacementEntry = PlacementEntry()
    scratch: str | None = None
    racks: Annotated[tuple[Name, ...], Strict(False)] = ()
    image: str | None = None
    runtime: str | None = None
    link: LinkEntry = LinkEntry()
    encryption: EncryptionWord = "none"
    settings: dict[str, Scalar] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _placed(self) -> "StoreEntry":
        for key in PLACEMENT_KEYS:
            if self.host not in REMOTE_HOSTS and key in self.model_fields_set:
                raise wrong(f"{key} is for nodes on other machines", f"say host: {' or '.join(REMOTE_HOSTS)}", key=key)
        return self


Count = Annotated[int, Field(ge=1)]
#: Names of phases; a single one needs no list.
Phases = Annotated[
    tuple[str, ...],
    Strict(False),
    BeforeValidator(lambda value: [value] if isinstance(value, str) else value, json_schema_input_type=str | list[str]),
]
#: The levels of a factor, and factors by name.
Levels = Annotated[tuple[Scalar, ...], Strict(False), NOT_EMPTY]
Factors = dict[str, Levels]


def _expression(value: str) -> str:
    try:
        expression(value)
    except BadInput as error:
        raise wrong(error.what, error.remedy) from None
    return value


#: An expression, kept as it is written.
Written = Annotated[str, BeforeValidator(_expression)]
#: What tells the two forms of a number apart.
BY_FORM = Discriminator(lambda value: "expression" if is_expression(value) else "level")
#: A number of clients or a rate (1/s) for all runs, or an expression of it.
Clients = Annotated[Annotated[Count, Tag("level")] | Annotated[Written, Tag("expression")], BY_FORM]
PerSecond = Annotated[Annotated[Rate, Tag("level")] | Annotated[Written, Tag("expression")], BY_FORM]


#: A share of something, written `5%` or 0.05.
Share = Annotated[float, quantity(parse_share, 100), Field(gt=0)]


#: How ratios of groups are estimated: by trimmed means, or where it is left out, by means.
Estimate = Literal["robust"]


class Until(Model):
    """When repetitions may end: the half-width of the 95 % intervals relative to the mean, and the most repetitions."""

    relative_interval: Share
    most: Annotated[int, Field(ge=2, le=1000)]


class ExperimentFile(Model):
    """An experiment as it is written, whatever its kind."""

    experiment: Name
    question: str = ""
    published: Annotated[str, Field(min_length=1)] | None = None
    store: StoreEntry
    workload: Annotated[str, Field(min_length=1)]
    with_: dict[str, Scalar] = Field(default_factory=dict, alias="with")
    kind: str
    prepare: Phases | None = None
    measure: Annotated[Phases, NOT_EMPTY] | None = None
    repetitions: Annotated[int, Field(ge=1, le=1000)] = 1
    until: Until | None = None
    warmup: Duration | None = None
    duration: Annotated[Duration, Field(gt=0)] | None = None
    ready_within: Annotated[Duration, Field(gt=0)] | None = None
    arrivals: Arrivals | None = None
    seed: Annotated[int, Field(ge=0, le=MOST_FIRST_SEED)] = 1
    threads: Annotated[int, Field(ge=1, le=MOST_THREADS)] = 1
    ranks: Annotated[int, Field(ge=1, le=MOST_RANKS)] | None = None
    spread: Spread = "fixed"
    connections: Annotated[int, Field(ge=1)] | None = None
    samples: bool = False
    allow_bad: bool = False

    @model_validator(mode="after")
    def _repeated(self) -> "ExperimentFile":
        if self.until and self.until.most < self.repetitions:
            raise wrong("there are more repetitions than that to begin with", "raise most, or lower repetitions",
                        key="until")  # fmt: skip
        return self


class PacedFile(ExperimentFile):
    """An experiment as it is written whose measured phases may have clients, or a rate, that no factor says.

    `crash` is a node that is killed after the load of each run and started again.
    """

    clients: Clients | None = None
    rate: PerSecond | None = None
    crash: Annotated[str, Field(pattern=r"node-\d+")] | None = None


class CurvesFile(PacedFile):
    """An experiment as it is written whose report has curves over each factor of numbers.

    `axes` says how the axis of such a factor is spaced, where its levels are not to decide it.
    """

    factors: Annotated[Factors, NOT_EMPTY]
    axes: dict[str, Spacing] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _axes_of_numbers(self) -> "CurvesFile":
        for name, spacing in self.axes.items():
            if name not in self.factors:
                raise wrong(f"{name} is not a factor", did_you_mean(name, self.factors), key="axes")
            if name in SIZES:
                raise wrong(f"the curve over {name} is fitted and has an axis of its own", "remove it", key="axes")
            levels = numeric_levels(self.factors[name])
            if levels is None:
                raise wrong(f"the levels of {name} are not two numbers or more, so they have no axis",
                            "remove it", key="axes")  # fmt: skip
            if spacing == "log" and min(levels.numbers.values()) <= 0:
                raise wrong(f"{name} has the level 0, which a logarithmic axis cannot show", "say linear", key="axes")
        return self
