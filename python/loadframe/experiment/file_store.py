"""The section `store` of an experiment's file, as models: the store, its nodes' limits, links and machines."""

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, Strict, model_validator

from loadframe.cluster import is_path, parse_machine
from loadframe.errors import BadInput
from loadframe.ranges import MOST_NODES
from loadframe.units import Cores as CoreSets
from loadframe.units import parse_cores, parse_share, parse_throughput
from loadframe.yamlfile import Bandwidth, Duration, Model, Name, Rate, Scalar, Size, quantity, shown, wrong

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
OTHER_MACHINES = ("ssh", "slurm", "mpi")
#: What is said of those machines.
PLACING = ("machines", "placement", "scratch")


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
        for key in PLACING:
            if self.host not in OTHER_MACHINES and key in self.model_fields_set:
                raise wrong(
                    f"{key} is for nodes on other machines", f"say host: {' or '.join(OTHER_MACHINES)}", key=key
                )
        return self
