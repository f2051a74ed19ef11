"""`loadframe bench`: run one workload on one cluster, existing or started for it, and write one run folder."""

import secrets
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from loadframe.base.errors import BadInput
from loadframe.base.units import MOST_SEED, parse_duration, parse_rate, parse_size
from loadframe.cli import access
from loadframe.cli.app import app
from loadframe.cli.choices import (
    ClusterHosts,
    ClusterName,
    ConfigServers,
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
    Routers,
    RunFolder,
    Samples,
    Scratch,
    Shards,
    StoreKind,
    StoreSettings,
    StoreVersion,
    Threads,
    WorkloadName,
    assignments,
    core_limits,
    exclude,
    placement_options,
    require_free,
    sharding,
    start_ranks,
    store_settings,
)
from loadframe.cli.output import Json, print_json, tell
from loadframe.cli.topics import Topic, option
from loadframe.cli.web import Web, WebAddress, published, require_web

if TYPE_CHECKING:
    from loadframe.workload import ResolvedPhase, ResolvedWorkload

_EXAMPLES = """\b
Examples:
  loadframe bench nyc_taxis --nodes 2
  loadframe bench ycsb/b --ranks 4 --store redis --nodes 3
  loadframe bench nyc_taxis --set documents=1000000 --only load
  loadframe bench ycsb/a --store redis --store-set appendfsync=always
  loadframe bench nyc_taxis --only load,range_100 --clients 32 --duration 30s
  loadframe bench nyc_taxis/range_100 --nodes 3 --duration 2m --at 30s=kill:node-1 --at 60s=grow
  loadframe bench ./my-workload.yaml --hosts 127.0.0.1:9200 --rate 500/s
  loadframe bench nyc_taxis --hosts https://search.example:9200 --user ann --ca ca.pem
"""


@app.command(epilog=_EXAMPLES)
@access.with_options
def bench(  # noqa: PLR0915 - one list of options and the order of their checks
    context: typer.Context,
    workload: WorkloadName,
    store: StoreKind = "opensearch",
    version: StoreVersion = None,
    shards: Shards = None,
    routers: Routers = None,
    config_servers: ConfigServers = None,
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
    store_set: StoreSettings = [],
    hosts: ClusterHosts = None,
    cluster: ClusterName = None,
    replace: Replace = False,
    yes: ReplaceWithoutAsking = False,
    reuse: Reuse = False,
    set_: Parameters = [],
    only: Annotated[
        str | None,
        option(Topic.WORKLOAD, help="Phases to measure, comma-separated. Phases that prepare data run anyway."),
    ] = None,
    seed: Annotated[
        int | None,
        option(Topic.WORKLOAD, min=0, max=MOST_SEED, help="Seed. The same seed repeats a run's requests."),
    ] = None,
    clients: Annotated[
        int | None, option(Topic.LOAD, min=1, help="Clients of the measured phases (closed loop).")
    ] = None,
    rate: Annotated[
        str | None, option(Topic.LOAD, help="Rate of the measured phases, such as 1000/s (open loop).")
    ] = None,
    arrivals: Annotated[
        Literal["constant", "poisson"] | None,
        option(
            Topic.LOAD,
            help="Arrivals of open loads: poisson (as from many independent users) or constant (evenly spaced). "
            "Default: the workload's, else poisson.",
        ),
    ] = None,
    warmup: Annotated[str | None, option(Topic.LOAD, help="Warm-up of the measured phases, such as 10s.")] = None,
    duration: Annotated[str | None, option(Topic.LOAD, help="Duration of the measured phases, such as 1m.")] = None,
    at: Annotated[
        list[str],
        option(
            Topic.LOAD,
            "--at",
            help="Change the cluster during the load, as TIME=ACTION: 30s=kill:node-1, 1m=grow. TIME counts from the "
            "end of the warm-up. Actions: grow, shrink, kill, start, pause, resume, cut, restore, set. Repeatable.",
        ),
    ] = [],
    allow_bad: Annotated[
        bool,
        option(Topic.LOAD, "--allow-bad", help="Measure even if replicas are missing. The run records this."),
    ] = False,
    threads: Threads = 1,
    ranks: Ranks = None,
    spread: Annotated[
        Literal["fixed", "round_robin", "all", "nearest"],
        option(
            Topic.GENERATOR,
            help="Node selection. fixed: each client uses one node. round_robin: nodes in turn. all: the node with the "
            "fewest requests in flight. nearest: each client uses a node near its rank.",
        ),
    ] = "fixed",
    nearest_as: Annotated[
        Path | None,
        option(Topic.GENERATOR, "--nearest-as", help="With --spread nearest: assign clients as in this run."),
    ] = None,
    connections: Annotated[
        int | None,
        option(Topic.GENERATOR, min=1, help="Connections that all clients share. Default: one for each client."),
    ] = None,
    samples: Samples = False,
    output: RunFolder = None,
    web: Web = False,
    web_address: WebAddress = None,
    as_json: Json = False,
) -> None:
    """Run one workload on one cluster and record it.

    Loadframe starts a cluster for the run, unless you name an existing one with --hosts or --cluster.
    """
    _refuse_contradictions(
        {
            "--hosts": hosts,
            "--cluster": cluster,
            "--version": version,
            "--nodes": nodes,
            "--shards": shards,
            "--routers": routers,
            "--config-servers": config_servers,
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
            "--store-set": store_set or None,
            "--replace": replace,
            "--reuse": reuse,
            "--clients": clients,
            "--rate": rate,
            "--arrivals": arrivals,
            "--at": at or None,
        }
    )
    sharded = sharding(store, nodes, shards, routers, config_servers)
    page = require_web(web, web_address)
    override = _levels(clients, rate, arrivals, warmup, duration)
    start_ranks(ranks)

    # These imports take a second or two. Help and usage errors do not need them.
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
    from loadframe.experiment.design.estimate import resolved_seconds
    from loadframe.experiment.runner.leftovers import remove_leftovers
    from loadframe.experiment.runner.listener import Listeners
    from loadframe.experiment.runner.preflight import check_load
    from loadframe.experiment.runner.recover_run import recover_runs
    from loadframe.experiment.runner.session import Labels, Session
    from loadframe.host.local import LocalHost
    from loadframe.load import Generator
    from loadframe.store import find

    limits = Limits(cpus=cpus, memory=parse_size(memory) if memory else None, **core_limits(cores))
    generator = Generator(threads, spread, connections, ranks, _recorded_spread(nearest_as, spread), samples)
    generator.members()
    interrupted = False
    # A killed run of the same name is moved aside.
    for kept in recover_runs(path.parent, lambda run: run != path.name):
        tell(f"recovered a killed run: {kept}")
    with published("bench", loaded.name, path, page) as publisher, Console() as console:
        listener = Listeners(console, publisher)
        started: AbstractContextManager[Cluster]
        if hosts:
            started = Cluster.attach(addresses, store, reached)
        elif cluster:
            started = access.named(cluster, store, context)
        else:
            # Check the workload before a node starts.
            spec = ClusterSpec(
                store=store,
                version=version,
                nodes=nodes or shards or 1,
                limits=limits,
                home=home,
                host=host or LocalHost.name,
                image=image,
                runtime=container_runtime,
                encryption=Encryption(encryption or "none"),
                settings=sharded | store_settings(store_set, "--store-set"),
                **placement_options(machines, per_machine, network, scratch),
            )
            kind = find(store)
            chosen = _chosen(loaded.for_family(kind.family, spec.nodes, listener.step), override, reuse=False)
            check_load(chosen, kind.driver, Cluster.prospect(spec), generator, spec.nodes)
            require_in_time(actions, chosen)
            started = Cluster.start(spec, listener.step)
        with started as live:
            if hosts or cluster:
                remove_leftovers(live, cluster, listener)
            resolved = loaded.for_family(live.store.family, live.size, listener.step)
            phases = _chosen(resolved, override, reuse)
            if hosts or cluster:
                check_load(phases, live.store.driver, live.target(), generator, live.size)
            require_in_time(actions, phases)
            require_nodes(actions, live)
            hook = Schedule(live, actions, phases, listener.step) if actions else None
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
                    replace=replace or not (hosts or cluster),
                    confirm=access.confirm_drop if hosts and not yes else None,
                )
            listener.expect({phase.name: resolved_seconds(phase) for phase in phases})
            try:
                session.record(path.parent, path.name, phases, Labels(), keep_interrupted=True, hook=hook)
            except KeyboardInterrupt:
                interrupted = path.exists()
                if not interrupted:
                    raise
    _show(path, as_json)
    if interrupted:
        raise KeyboardInterrupt


def _recorded_spread(path: Path | None, spread: str) -> dict[str, Any] | None:
    """Return the assignment of clients to nodes of a run with --spread nearest, or None without a run."""
    if path is None:
        return None
    if spread != "nearest":
        raise BadInput("--nearest-as requires --spread nearest", remedy="give both, or neither")
    from loadframe.record import Run

    recorded: dict[str, Any] | None = Run(path).raw_manifest["generator"].get("nearest")
    if recorded is None:
        raise BadInput("the run did not use --spread nearest", where=str(path), remedy="name a run that did")
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
        tell(f"recorded in {path}; see `loadframe report {path}`")


def _levels(
    clients: int | None, rate: str | None, arrivals: str | None, warmup: str | None, duration: str | None
) -> dict[str, Any]:
    """Parse the options that change the measured phases; None if not given. Rate in 1/s, times in s."""
    levels: dict[str, Any] = {
        "clients": clients,
        "rate": parse_rate(rate) if rate else None,
        "arrivals": arrivals,
        "warmup": parse_duration(warmup) if warmup else None,
        "duration": parse_duration(duration) if duration else None,
    }
    for name in ("rate", "duration"):
        if levels[name] == 0:
            raise BadInput(f"--{name} 0 measures nothing", remedy="give more than 0")
    return levels


def _refuse_contradictions(given: dict[str, Any]) -> None:
    """Refuse options that contradict each other. In `given`, None and False mean not given."""
    exclude(given, ["--hosts"], ["--cluster"], "both name a cluster")
    exclude(given, ["--replace"], ["--reuse"], "one drops data, the other keeps it")
    exclude(given, ["--hosts"], ["--at"], "Loadframe does not change clusters that it did not start")
    exclude(given, ["--clients"], ["--rate"], "a load is a closed or an open loop")
    exclude(given, ["--clients"], ["--arrivals"], "arrivals exist only in open loops")
    starting = ["--version", "--nodes", "--cpus", "--memory", "--cores", "--home"]
    starting += ["--host", "--image", "--container-runtime", "--machines", "--per-machine", "--network", "--scratch"]
    starting += ["--encryption", "--store-set", "--shards", "--routers", "--config-servers"]
    exclude(given, ["--hosts", "--cluster"], starting, "the cluster exists already")
    for name in ("--replace", "--reuse"):
        if given[name] and not (given["--hosts"] or given["--cluster"]):
            raise BadInput(
                f"{name} requires an existing cluster", remedy="name one with --hosts or --cluster, or leave it out"
            )


def _chosen(workload: "ResolvedWorkload", override: dict[str, Any], reuse: bool) -> "Sequence[ResolvedPhase]":
    """Return the phases to run. `override` changes the measured ones; `reuse` skips those that prepare data."""
    phases = [phase for phase in workload.phases if not (reuse and phase.prepares)]
    if not phases:
        raise BadInput("--reuse leaves no phase to run", remedy="name other phases with --only, or leave --reuse out")
    chosen = [phase if phase.prepares else phase.override(**override) for phase in phases]
    streams = [stream for phase in chosen if not phase.prepares for stream in phase.streams]
    if override["arrivals"] and not any(stream.is_open for stream in streams):
        raise BadInput("--arrivals requires an open loop, and all phases are closed loops", remedy="give --rate, too")
    return chosen
