"""Declares options that several commands share, reads them, and refuses those that contradict each other."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from loadframe.errors import BadInput
from loadframe.ranges import MOST_NODES, MOST_RANKS, MOST_THREADS
from loadframe.units import parse_cores

StoreKind = Annotated[str, typer.Option(help="The store to start, or the kind of the one at --hosts.")]
StoreVersion = Annotated[str | None, typer.Option(help="The store's version; the newest embedded one if not given.")]
NodesToStart = Annotated[int | None, typer.Option(min=1, max=MOST_NODES, help="Nodes to start; 1 if not given.")]
NodeCpus = Annotated[float | None, typer.Option(help="CPU limit of each node, in cores.")]
NodeMemory = Annotated[str | None, typer.Option(help="Memory limit of each node, such as 1g.")]
ClusterHosts = Annotated[
    str | None, typer.Option(help="Use the cluster at these host:port or https://host:port, comma-separated.")
]
ClusterName = Annotated[str | None, typer.Option(help="Use this named cluster, which `cluster up` started.")]
Replace = Annotated[bool, typer.Option("--replace", help="Drop collections that an existing cluster has already.")]
ReplaceWithoutAsking = Annotated[
    bool, typer.Option("--yes", help="Do not ask before --replace drops data of a cluster at --hosts.")
]
Reuse = Annotated[bool, typer.Option("--reuse", help="Keep an existing cluster's data; skip what prepares it.")]
Parameters = Annotated[list[str], typer.Option("--set", help="A workload parameter, name=value; may be repeated.")]
Threads = Annotated[int, typer.Option(min=1, max=MOST_THREADS, help="Worker threads of the generator.")]
RunFolder = Annotated[Path | None, typer.Option(help="The run folder to write.")]
Cores = Annotated[
    str | None,
    typer.Option(
        help="Cores that all nodes share, such as 0-3, or that each has to itself: '1 each', '2 each of 0-5'. The "
        "generator keeps to the others."
    ),
]
Home = Annotated[
    str | None,
    typer.Option(help="Start the store's installation in this folder; embedded, or the system's, if not given."),
]
HostName = Annotated[
    str | None,
    typer.Option(
        "--host",
        help="Where nodes run: local (if not given), netns (each in a network of its own), container, or on other "
        "machines: ssh, slurm (those of the job that this is part of), mpi (those of the ranks).",
    ),
]
Image = Annotated[
    str | None, typer.Option(help="Of --host container: a root file system's folder, an image file, or a name.")
]
Machines = Annotated[
    str | None,
    typer.Option(
        help="Of --host ssh and slurm: machines for nodes, name or name:slots, comma-separated; or @FILE, a line each."
    ),
]
PerMachine = Annotated[
    int | None,
    typer.Option(min=1, help="Of --host ssh and slurm: nodes on a machine that says no slots; 1 if not given."),
]
Network = Annotated[
    str | None,
    typer.Option(
        help="Of --host ssh and slurm: the nodes' network: an interface, 10.1.0.0/16, or a suffix such as -ib."
    ),
]
Scratch = Annotated[
    str | None,
    typer.Option(help="Of --host ssh and slurm: the machines' folder for data; that of their state if not given."),
]
ContainerRuntime = Annotated[
    str | None,
    typer.Option(help="Of --host container: charliecloud, apptainer, podman or docker; the first that works here."),
]
EncryptionWord = Annotated[
    Literal["none", "http", "transport", "both"] | None,
    typer.Option(
        "--encryption",
        help="Which connections go by TLS, with certificates made for the cluster: those of clients (http), those "
        "between nodes (transport), both, or none, as if not given.",
    ),
]
Samples = Annotated[
    bool,
    typer.Option(
        "--samples", help="Record each request individually, too: samples.parquet in the run folder, 46 bytes each."
    ),
]
Strict = Annotated[
    bool,
    typer.Option("--strict", help="Exit with status 4 if any run has no usable figure, unless the store failed in it."),
]
Ranks = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=MOST_RANKS,
        help="Processes that load together; started by MPI on this machine, unless mpirun or srun has started them.",
    ),
]


def start_ranks(number: int | None) -> None:
    """Run this command as so many ranks and leave with its status, unless it is one of several or one is enough."""
    if number is None or number == 1:
        return
    from loadframe.ranks.hub import present
    from loadframe.ranks.launch import launch

    if present() is not None:
        return

    status = launch(number)
    # Rank 0 has said all there is to say.
    os._exit(status)


def assignments(texts: Sequence[str], option: str = "--set") -> dict[str, str]:
    """Return `name=value` texts as a mapping; BadInput for a text without `=` or a name given twice."""
    pairs: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise BadInput(f"{option} {text!r} sets nothing", remedy=f"write {option} name=value")
        if name in pairs:
            raise BadInput(f"{option} gives {name} twice", remedy="give it once")
        pairs[name] = value
    return pairs


def core_limits(text: str | None) -> dict[str, Any]:
    """Return the values of --cores as parts of Limits; none where the option was left out."""
    if text is None:
        return {}
    cores = parse_cores(text)
    return {"cores": cores.numbers, "cores_each": cores.per_node}


def exclude(given: Mapping[str, object], one: Sequence[str], other: Sequence[str], because: str) -> None:
    """BadInput if an option of each side was given; None and False are values of options that were not."""
    for first in (name for name in one if given[name] not in (None, False)):
        for second in (name for name in other if given[name] not in (None, False)):
            raise BadInput(f"{first} and {second} contradict each other: {because}", remedy="give one of them")


def require_writable(folder: Path) -> None:
    """BadInput unless the folder can be written, or made: said before anything is started, not after."""
    there = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        what = "cannot be written" if there.is_dir() else "is not a folder"
        raise BadInput(f"results cannot go to {folder}: {there} {what}", remedy="choose another folder with --output")


def measure_kinds(text: str) -> tuple[str, ...]:
    """Return the measures of a comma-separated list; BadInput for one that there is not."""
    from loadframe.analyze.comparison import KINDS
    from loadframe.yamlfile import did_you_mean

    kinds = tuple(word.strip() for word in text.split(",") if word.strip())
    for kind in kinds:
        if kind not in KINDS:
            raise BadInput(f"there is no measure {kind!r}", remedy=did_you_mean(kind, KINDS))
    if not kinds:
        raise BadInput("no measure is named", remedy=f"name some of {', '.join(KINDS)}")
    return tuple(dict.fromkeys(kinds))


def share(text: str, option: str) -> float:
    """Return a share above 0, written `5%` or 0.05; BadInput for anything else."""
    number, percent, rest = text.strip().partition("%")
    try:
        value = float(number) / (100 if percent else 1)
    except ValueError:
        value = -1.0
    if rest or not 0 < value < 100:
        raise BadInput(f"{option} {text!r} is not a share", remedy="write a percentage above 0, such as 5%")
    return value


def placed(machines: str | None, per_machine: int | None, network: str | None, scratch: str | None) -> dict[str, Any]:
    """Return the parts of a ClusterSpec that those options say; none that was left out."""
    from loadframe.host.placement import Placement, listed

    parts: dict[str, Any] = {}
    if machines is not None:
        parts["machines"] = listed(machines)
    if per_machine is not None or network is not None:
        parts["placement"] = Placement(per_machine, network=network)
    if scratch is not None:
        parts["scratch"] = scratch
    return parts
