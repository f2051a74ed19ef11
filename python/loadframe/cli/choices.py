"""Options that several commands share, their parsers, and checks for contradictions."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from loadframe.base.errors import BadInput
from loadframe.base.units import MOST_NODES, MOST_RANKS, MOST_THREADS, parse_cores
from loadframe.cli import completion
from loadframe.cli.app import Topic, option
from loadframe.library.options import exclude, require_measures

WorkloadName = Annotated[
    str, typer.Argument(help="Built-in workload, or workload file.", autocompletion=completion.workloads)
]
StoreKind = Annotated[
    str, option(Topic.STORE, autocompletion=completion.stores, help="Store to start, or kind of the store at --hosts.")
]
StoreVersion = Annotated[str | None, option(Topic.STORE, help="Version. Default: the newest embedded one.")]
Home = Annotated[
    str | None,
    option(Topic.STORE, help="Folder of your own installation. Default: the embedded or the system's one."),
]
EncryptionWord = Annotated[
    Literal["none", "http", "transport", "both"] | None,
    option(
        Topic.STORE,
        "--encryption",
        help="Connections that use TLS: http (clients), transport (between nodes), both or none. Loadframe creates the "
        "certificates. Default: none.",
    ),
]
StoreSettings = Annotated[
    list[str],
    option(Topic.STORE, "--store-set", help="Setting of the store to start as key=value. Repeatable."),
]
Shards = Annotated[
    int | None,
    option(Topic.STORE, min=1, max=MOST_NODES, help="Start this number of shards behind routers (MongoDB)."),
]
Routers = Annotated[
    int | None, option(Topic.STORE, min=1, max=MOST_NODES, help="Routers of a sharded cluster. Default: 1.")
]
ConfigServers = Annotated[
    int | None, option(Topic.STORE, min=1, max=MOST_NODES, help="Config servers of a sharded cluster. Default: 1.")
]
NodesToStart = Annotated[
    int | None, option(Topic.MACHINES, min=1, max=MOST_NODES, help="Number of nodes to start. Default: 1.")
]
HostName = Annotated[
    str | None,
    option(
        Topic.MACHINES,
        "--host",
        help="Where nodes run: local, netns (a network namespace for each), container, ssh, slurm (machines of this "
        "job) or mpi (machines of the ranks). Default: local.",
    ),
]
Image = Annotated[
    str | None,
    option(Topic.MACHINES, help="With --host container: a root file system's folder, an image file or an image name."),
]
ContainerRuntime = Annotated[
    str | None,
    option(
        Topic.MACHINES,
        help="With --host container: charliecloud, apptainer, podman or docker. Default: the first that works here.",
    ),
]
Machines = Annotated[
    str | None,
    option(
        Topic.MACHINES,
        help="With --host ssh or slurm: machines for nodes, as name or name:slots, comma-separated. Or @FILE with one "
        "on each line.",
    ),
]
PerMachine = Annotated[
    int | None,
    option(
        Topic.MACHINES, min=1, help="With --host ssh or slurm: nodes on each machine without a :slots part. Default: 1."
    ),
]
Network = Annotated[
    str | None,
    option(
        Topic.MACHINES,
        help="With --host ssh or slurm: network of the nodes, as an interface, a range such as 10.1.0.0/16, or a host "
        "name suffix such as -ib.",
    ),
]
Scratch = Annotated[
    str | None,
    option(
        Topic.MACHINES,
        help="With --host ssh or slurm: folder for data on the machines. Default: their state folder.",
    ),
]
NodeCpus = Annotated[float | None, option(Topic.LIMITS, help="CPU limit, in cores.")]
NodeMemory = Annotated[str | None, option(Topic.LIMITS, help="Memory limit, such as 1g.")]
Cores = Annotated[
    str | None,
    option(
        Topic.LIMITS,
        help="Cores for nodes: shared by all, such as 0-3, or reserved for each, such as '1 each' or '2 each of 0-5'. "
        "The generator uses the others.",
    ),
]
ClusterHosts = Annotated[
    str | None,
    option(Topic.EXISTING, help="Addresses of an existing cluster: host:port or https://host:port, comma-separated."),
]
ClusterName = Annotated[
    str | None,
    option(Topic.EXISTING, autocompletion=completion.clusters, help="Name of a cluster that `cluster up` started."),
]
Replace = Annotated[bool, option(Topic.EXISTING, "--replace", help="Drop collections that exist already.")]
ReplaceWithoutAsking = Annotated[
    bool, option(Topic.EXISTING, "--yes", help="Do not ask before --replace drops data at --hosts.")
]
Reuse = Annotated[
    bool, option(Topic.EXISTING, "--reuse", help="Keep the cluster's data and skip the phases that prepare it.")
]
Parameters = Annotated[list[str], option(Topic.WORKLOAD, "--set", help="Workload parameter as name=value. Repeatable.")]
Threads = Annotated[int, option(Topic.GENERATOR, min=1, max=MOST_THREADS, help="Worker threads of each rank.")]
Ranks = Annotated[
    int | None,
    option(
        Topic.GENERATOR,
        min=1,
        max=MOST_RANKS,
        help="Processes that generate the load together. MPI starts them on this machine, unless mpirun or srun has.",
    ),
]
RunFolder = Annotated[Path | None, option(Topic.OUTPUT, help="Run folder to write. Default: results/NAME-TIME.")]
Samples = Annotated[
    bool,
    option(Topic.OUTPUT, "--samples", help="Also record each request, in samples.parquet (46 bytes each)."),
]
Strict = Annotated[
    bool,
    option(Topic.OUTPUT, "--strict", help="Exit with code 4 if a run is invalid for a reason other than the store."),
]


def start_ranks(number: int | None) -> None:
    """Run this command as `number` ranks and exit with its code.

    Return without an effect for None or 1, and in a process that is a rank already.
    """
    if number is None or number == 1:
        return
    from loadframe.ranks.coordinator import present
    from loadframe.ranks.launch import launch

    if present() is not None:
        return

    status = launch(number)
    # Rank 0 has printed everything.
    os._exit(status)


def option_name(parameter: str) -> str:
    """Return the command-line option of a parameter, such as `--store-set` for `store_set`."""
    return f"--{parameter.replace('_', '-')}"


def assignments(texts: Sequence[str], option: str = "--set") -> dict[str, str]:
    """Return texts of the form `name=value` as a mapping; a value may be empty.

    BadInput, which names `option`, if a text lacks `=` or a name, or if a name occurs twice.
    """
    pairs: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise BadInput(f"{option} {text!r} lacks a value", remedy=f"write {option} name=value")
        if name in pairs:
            raise BadInput(f"{option} gives {name} twice", remedy="give it once")
        pairs[name] = value
    return pairs


def store_settings(texts: Sequence[str], option: str = "--set") -> dict[str, Any]:
    """Return `name=value` texts as a mapping, with the value types of an experiment file.

    Values are numbers, booleans, null or texts; an empty value is the empty text. BadInput, which names `option`, for
    other texts.
    """
    # Imported late: it loads YAML, which other commands do without.
    from loadframe.yamlfile import scalar

    settings: dict[str, Any] = {}
    for name, text in assignments(texts, option).items():
        try:
            settings[name] = scalar(text) if text else ""
        except ValueError as error:
            raise BadInput(f"{option} {name}: {error}", where=text) from None
    return settings


def sharding(
    store: str, nodes: int | None, shards: int | None, routers: int | None, config_servers: int | None
) -> dict[str, Any]:
    """Return the store settings for --shards, --routers and --config-servers; empty without these options.

    Each shard is a node: BadInput for --shards together with --nodes. BadInput, too, without a number of shards or
    nodes, and for a store without routers.
    """
    from loadframe.store import find

    exclude({"--shards": shards, "--nodes": nodes}, ["--shards"], ["--nodes"], "each shard is a node")
    if (shards, routers, config_servers) == (None, None, None):
        return {}
    settings = find(store).shard_settings(routers, config_servers)
    if shards is None and nodes is None:
        raise BadInput("--routers and --config-servers require a sharded cluster", remedy="give --shards, too")
    return settings


def core_limits(text: str | None) -> dict[str, Any]:
    """Return the arguments `cores` and `cores_each` of Limits for --cores; empty without it, BadInput if malformed."""
    if text is None:
        return {}
    cores = parse_cores(text)
    return {"cores": cores.numbers, "cores_each": cores.per_node}


def measure_kinds(text: str) -> tuple[str, ...]:
    """Return the distinct measures in a comma-separated list. BadInput for an unknown one, or for none."""
    return require_measures(text.split(","))


def placement_options(
    machines: str | None, per_machine: int | None, network: str | None, scratch: str | None
) -> dict[str, Any]:
    """Return the arguments `machines`, `placement` and `scratch` of ClusterSpec for the options that are given.

    `machines` may be `@FILE`: BadInput if it is invalid or unreadable.
    """
    from loadframe.host.placement import Placement, parse_machines

    parts: dict[str, Any] = {}
    if machines is not None:
        parts["machines"] = parse_machines(machines)
    if per_machine is not None or network is not None:
        parts["placement"] = Placement(per_machine, network=network)
    if scratch is not None:
        parts["scratch"] = scratch
    return parts
