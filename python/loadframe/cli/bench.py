"""`loadframe bench`: one workload on one cluster, existing or started for it; one run folder."""

import secrets
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from loadframe.cli import access, loss
from loadframe.cli.app import app
from loadframe.cli.choices import (
    ClusterHosts,
    ClusterName,
    ContainerRuntime,
    Cores,
    EncryptionWord,
    Home,
    HostName,
    Image,
    Machines,
    Network,
    NodeCpus,
    NodeMemory,
    NodesToStart,
    Parameters,
    PerMachine,
    Ranks,
    Replace,
    ReplaceWithoutAsking,
    Reuse,
    RunFolder,
    Samples,
    Scratch,
    StoreKind,
    StoreVersion,
    Threads,
    assignments,
    core_limits,
    exclude,
    placed,
    start_ranks,
)
from loadframe.cli.clusters import named, require_free
from loadframe.cli.output import Json, print_json, tell
from loadframe.cli.web import Web, WebAddress, published, require_web
from loadframe.errors import BadInput
from loadframe.ranges import MOST_SEED
from loadframe.units import parse_duration, parse_rate, parse_size

if TYPE_CHECKING:
    from loadframe.workload import ResolvedPhase, ResolvedWorkload

_EXAMPLES = """\b
Examples:
  loadframe bench nyc_taxis --nodes 2
  loadframe bench ycsb/b --ranks 4 --store redis --nodes 3
  loadframe bench nyc_taxis --set documents=1000000 --only load
  loadframe bench nyc_taxis --only load,range_100 --clients 32 --duration 30s
  loadframe bench nyc_taxis/range_100 --nodes 3 --duration 2m --at 30s=kill:node-1 --at 60s=grow
  loadframe bench ./my-workload.yaml --hosts 127.0.0.1:9200 --rate 500/s
  loadframe bench nyc_taxis --hosts https://search.example:9200 --user ann --ca ca.pem
"""


@app.command(epilog=_EXAMPLES)
def bench(  # noqa: PLR0915 - it is one list of what may be asked, and the order in which that is checked
    context: typer.Context,
    workload: Annotated[str, typer.Argument(help="A workload of the library, or a workload file.")],
    store: StoreKind = "opensearch",
    version: StoreVersion = None,
    nodes: NodesToStart = None,
    cpus: NodeCpus = None,
    memory: NodeMemory = None,
    cores: Cores = None,
    home: Home = None,
    host: HostName = None,
    image: Image = None,
    container_runtime: ContainerRuntime = None,
    machines: Machines = None,
    per_machine: PerMachine = None,
    network: Network = None,
    scratch: Scratch = None,
    encryption: EncryptionWord = None,
    hosts: ClusterHosts = None,
    cluster: ClusterName = None,
    replace: Replace = False,
    yes: ReplaceWithoutAsking = False,
    reuse: Reuse = False,
    set_: Parameters = [],
    only: Annotated[
        str | None, typer.Option(help="Measure only these phases, comma-separated; those that prepare run anyway.")
    ] = None,
    clients: Annotated[int | None, typer.Option(min=1, help="Clients of the measured phases (closed loop).")] = None,
    rate: Annotated[str | None, typer.Option(help="Rate of the measured phases, such as 1000/s (open loop).")] = None,
    arrivals: Annotated[
        Literal["poisson", "constant"] | None,
        typer.Option(
            help="How open loads space their requests: at random instants, as many independent users send them, or"
            " evenly; the workload's own if not given, which is poisson where it says nothing."
        ),
    ] = None,
    warmup: Annotated[str | None, typer.Option(help="Warm-up of the measured phases.")] = None,
    duration: Annotated[str | None, typer.Option(help="Measured time of the measured phases.")] = None,
    at: Annotated[
        list[str],
        typer.Option(
            "--at",
            help="Change the cluster under load, so long after the measured part begins: 30s=kill:node-1, 1m=grow; with"
            " grow, shrink, kill, start, pause, resume, cut, restore or set. May be repeated.",
        ),
    ] = [],
    threads: Threads = 1,
    ranks: Ranks = None,
    spread: Annotated[
        Literal["fixed", "round_robin", "all", "nearest"],
        typer.Option(
            help="Each client keeps to one node, requests go to the nodes in turn, or to the idlest of all; nearest:"
            " each client keeps to one that is near to its rank."
        ),
    ] = "fixed",
    nearest_as: Annotated[
        Path | None, typer.Option("--nearest-as", help="With --spread nearest: spread clients as in this run.")
    ] = None,
    connections: Annotated[
        int | None, typer.Option(min=1, help="Connections that all clients share; one for each if not given.")
    ] = None,
    samples: Samples = False,
    allow_bad: Annotated[
        bool,
        typer.Option("--allow-bad", help="Measure although copies of data are not in service, and declare that."),
    ] = False,
    seed: Annotated[
        int | None,
        typer.Option(min=0, max=MOST_SEED, help="Repeats the requests of an earlier run; random if not given."),
    ] = None,
    output: RunFolder = None,
    user: access.User = None,
    password_file: access.PasswordFile = None,
    api_key_file: access.ApiKeyFile = None,
    token_file: access.TokenFile = None,
    ca: access.Ca = None,
    cert: access.Cert = None,
    key: access.Key = None,
    insecure: access.Insecure = False,
    compress: access.Compress = False,
    web: Web = False,
    web_address: WebAddress = None,
    as_json: Json = False,
) -> None:
    """Run one workload on one cluster and record it."""
    _refuse_contradictions(
        {
            "--hosts": hosts,
            "--cluster": cluster,
            "--version": version,
            "--nodes": nodes,
            "--cpus": cpus,
            "--memory": memory,
            "--cores": cores,
            "--home": home,
            "--host": host,
            "--image": image,
            "--container-runtime": container_runtime,
            "--machines": machines,
            "--per-machine": per_machine,
            "--network": network,
            "--scratch": scratch,
            "--encryption": encryption,
            "--replace": replace,
            "--reuse": reuse,
            "--clients": clients,
            "--rate": rate,
            "--arrivals": arrivals,
            "--at": at or None,
        }
    )
    page = require_web(web, web_address)
    override = _levels(clients, rate, arrivals, warmup, duration)
    start_ranks(ranks)

    # What follows takes a second or two to import, which help and slips of the pen should not cost.
    from loadframe.workload import load_workload

    loaded = load_workload(workload, assignments(set_))
    if only:
        loaded = loaded.choose(only.split(","), where="--only")
    path = output or Path("results") / f"{loaded.name}-{time.strftime('%Y%m%d-%H%M%S')}"
    require_free(path)
    addresses, reached = access.existing(context.params)

    from loadframe.experiment.elastic.schedule import Schedule, parse_schedule, require_in_time, require_nodes

    actions = parse_schedule(at)

    from loadframe.cli.console import Console
    from loadframe.cluster import Cluster, ClusterSpec, Encryption, Limits
    from loadframe.experiment.design_estimate import resolved_seconds
    from loadframe.experiment.listener import Listeners
    from loadframe.experiment.rescue import rescue
    from loadframe.experiment.session import Labels, Session
    from loadframe.experiment.soundness import require_sound
    from loadframe.host.local import LocalHost
    from loadframe.load import Generator
    from loadframe.store import find

    limits = Limits(cpus=cpus, memory=parse_size(memory) if memory else None, **core_limits(cores))
    generator = Generator(threads, spread, connections, ranks, _recorded_spread(nearest_as, spread), samples)
    generator.members()
    interrupted = False
    # One of the same name makes room.
    for kept in rescue(path.parent, lambda run: run != path.name):
        tell(f"what a killed run had recorded is in {kept}")
    with published("bench", loaded.name, path, page) as publisher, Console() as console:
        listener = Listeners(console, publisher)
        started: AbstractContextManager[Cluster]
        if hosts:
            started = Cluster.attach(addresses, store, reached)
        elif cluster:
            started = named(cluster, store, context)
        else:
            # Everything that can be wrong with the workload is said before a node starts.
            spec = ClusterSpec(
                store=store,
                version=version,
                nodes=nodes or 1,
                limits=limits,
                home=home,
                host=host or LocalHost.name,
                image=image,
                runtime=container_runtime,
                encryption=Encryption(encryption or "none"),
                **placed(machines, per_machine, network, scratch),
            )
            kind = find(store)
            chosen = _chosen(loaded.for_family(kind.family, spec.nodes, listener.step), override, reuse=False)
            require_sound(chosen, kind.driver, Cluster.prospect(spec), generator, spec.nodes)
            require_in_time(actions, chosen)
            started = Cluster.start(spec, listener.step)
        with started as live:
            resolved = loaded.for_family(live.store.family, live.size, listener.step)
            phases = _chosen(resolved, override, reuse)
            if hosts or cluster:
                require_sound(phases, live.store.driver, live.target(), generator, live.size)
            require_in_time(actions, phases)
            require_nodes(actions, live)
            beside = Schedule(live, actions, phases, listener.step) if actions else None
            session = Session(
                live,
                resolved,
                seed=secrets.randbits(32) if seed is None else seed,
                generator=generator,
                listener=listener,
                allow_bad=allow_bad,
            )
            if not reuse:
                session.create_collections(
                    replace=replace or not (hosts or cluster), confirm=loss.confirm if hosts and not yes else None
                )
            listener.expect({phase.name: resolved_seconds(phase) for phase in phases})
            try:
                session.record(path.parent, path.name, phases, Labels(), keep_interrupted=True, beside=beside)
            except KeyboardInterrupt:
                interrupted = path.exists()
                if not interrupted:
                    raise
    _show(path, as_json)
    if interrupted:
        raise KeyboardInterrupt


def _recorded_spread(path: Path | None, spread: str) -> dict[str, Any] | None:
    """Return how a run's clients were spread over nodes; None without a run. BadInput if it was not by nearness."""
    if path is None:
        return None
    if spread != "nearest":
        raise BadInput("--nearest-as is about --spread nearest", remedy="give both, or neither")
    from loadframe.record import Run

    recorded: dict[str, Any] | None = Run(path).raw_manifest["generator"].get("nearest")
    if recorded is None:
        raise BadInput("its clients were not spread by nearness", where=str(path), remedy="name a run that was")
    return recorded


def _show(path: Path, as_json: bool) -> None:
    from loadframe.record import Run
    from loadframe.report.run.document import run_document
    from loadframe.report.run.terminal import print_run

    run = Run(path)
    if as_json:
        print_json(run_document(run))
    else:
        print_run(run)
        tell(f"recorded in {path}; `loadframe report {path}` draws it")


def _levels(
    clients: int | None, rate: str | None, arrivals: str | None, warmup: str | None, duration: str | None
) -> dict[str, Any]:
    """Return what is asked of the measured phases, None where nothing is: rate in 1/s, times in s."""
    levels: dict[str, Any] = {
        "clients": clients,
        "rate": parse_rate(rate) if rate else None,
        "arrivals": arrivals,
        "warmup": parse_duration(warmup) if warmup else None,
        "duration": parse_duration(duration) if duration else None,
    }
    for option in ("rate", "duration"):
        if levels[option] == 0:
            raise BadInput(f"--{option} 0 measures nothing", remedy="give more than 0")
    return levels


def _refuse_contradictions(given: dict[str, Any]) -> None:
    """Refuse options that cannot hold together; by their names, None or False for those that were not given."""
    exclude(given, ["--hosts"], ["--cluster"], "each names a cluster")
    exclude(given, ["--replace"], ["--reuse"], "one drops the data that the other keeps")
    exclude(given, ["--hosts"], ["--at"], "Loadframe does not change a cluster that it did not start")
    exclude(given, ["--clients"], ["--rate"], "a load is either a closed loop or an open one")
    exclude(given, ["--clients"], ["--arrivals"], "clients send when they are answered, and do not arrive")
    starting = ["--version", "--nodes", "--cpus", "--memory", "--cores", "--home"]
    starting += ["--host", "--image", "--container-runtime", "--machines", "--per-machine", "--network", "--scratch"]
    starting += ["--encryption"]
    exclude(given, ["--hosts", "--cluster"], starting, "a cluster that exists is as it is")
    for option in ("--replace", "--reuse"):
        if given[option] and not (given["--hosts"] or given["--cluster"]):
            raise BadInput(
                f"{option} is about data that is there, and a new cluster has none",
                remedy="name a cluster with --hosts or --cluster, or leave it out",
            )


def _chosen(workload: "ResolvedWorkload", override: dict[str, Any], reuse: bool) -> "Sequence[ResolvedPhase]":
    """Return the phases to run, those that are measured at the levels asked for."""
    # What is measured must be there: a phase that prepares is left out only where the data is there already.
    phases = [phase for phase in workload.phases if not (reuse and phase.prepares)]
    if not phases:
        raise BadInput("no phase is left to run", remedy="name others with --only, or leave out --reuse")
    chosen = [phase if phase.prepares else phase.override(**override) for phase in phases]
    streams = [stream for phase in chosen if not phase.prepares for stream in phase.streams]
    if override["arrivals"] and not any(stream.is_open for stream in streams):
        raise BadInput("--arrivals is about open loads, and all phases are closed", remedy="give a --rate, too")
    return chosen
