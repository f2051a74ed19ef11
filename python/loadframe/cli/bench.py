"""`loadframe bench`: run one workload on one cluster, existing or started for it, and write one run folder."""

import secrets
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from loadframe.base.errors import BadInput
from loadframe.base.units import MOST_SEED
from loadframe.cli import access
from loadframe.cli.app import Topic, app, option
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
    option_name,
    sharding,
    start_ranks,
    store_settings,
)
from loadframe.cli.output import Json, print_json, tell
from loadframe.cli.web import (
    MetricsAddress,
    Otlp,
    TracedShare,
    Web,
    WebAddress,
    published,
    require_outlets,
    require_web,
)
from loadframe.library.options import (
    default_path,
    levels,
    refuse_contradictions,
    refuse_unused_data_options,
    require_free,
)

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
@access.with_options()
def bench(
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
    warmup: Annotated[
        str | None, option(Topic.LOAD, help="Warm-up of the measured phases, such as 10s; auto: until steady state.")
    ] = None,
    duration: Annotated[
        str | None,
        option(Topic.LOAD, help="Duration of the measured phases, such as 1m; auto: until the figures are precise."),
    ] = None,
    precision: Annotated[
        str | None,
        option(
            Topic.LOAD,
            help="With --duration auto: half-width of the 95 % intervals of throughput and p99. Default: 5%.",
        ),
    ] = None,
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
    spin: Annotated[
        bool,
        option(
            Topic.GENERATOR,
            "--spin",
            help="Give each worker thread its own core, and wait awake for the last 50 us before a request is due.",
        ),
    ] = False,
    kernel_timestamps: Annotated[
        bool,
        option(
            Topic.GENERATOR,
            "--kernel-timestamps",
            help="Measure the generator's part of service times by the kernel's timestamps of requests and answers. "
            "Cassandra has none.",
        ),
    ] = False,
    samples: Samples = False,
    output: RunFolder = None,
    web: Web = False,
    web_address: WebAddress = None,
    metrics: MetricsAddress = None,
    otlp: Otlp = None,
    trace: TracedShare = None,
    as_json: Json = False,
) -> None:
    """Run one workload on one cluster and record it.

    Loadframe starts a cluster for the run, unless you name an existing one with --hosts or --cluster.
    """
    given: dict[str, Any] = {
        "hosts": hosts,
        "cluster": cluster,
        "replace": replace,
        "reuse": reuse,
        "clients": clients,
        "rate": rate,
    }
    given |= {"arrivals": arrivals, "at": at or None, "version": version, "nodes": nodes, "cpus": cpus}
    given |= {"memory": memory, "cores": cores, "home": home, "host": host, "image": image, "machines": machines}
    given |= {"container_runtime": container_runtime, "per_machine": per_machine, "network": network}
    given |= {"scratch": scratch, "encryption": encryption, "store_set": store_set or None}
    given |= {"shards": shards, "routers": routers, "config_servers": config_servers}
    refuse_contradictions(given, option_name)
    refuse_unused_data_options(given, option_name)
    sharded = sharding(store, nodes, shards, routers, config_servers)
    page, outlets = require_web(web, web_address), require_outlets(metrics, otlp, trace)
    override = levels(clients, rate or None, arrivals, warmup or None, duration or None, option_name, precision)
    start_ranks(ranks)

    # These imports take a second or two. Help and usage errors do not need them.
    from loadframe.workload import load_workload

    loaded = load_workload(workload, assignments(set_))
    if only:
        loaded = loaded.choose(only.split(","), where="--only")
    path = output or default_path(loaded.name)
    require_free(path)
    attached = access.existing(context.params)

    if cluster:
        attached = partial(access.named_cluster, cluster, store, context)

    from loadframe.cli.console import Console
    from loadframe.experiment.runner.listener import Listeners
    from loadframe.host.local import LocalHost
    from loadframe.host.placement import parse_machines
    from loadframe.library.bench import Bench, parse_schedule
    from loadframe.library.cluster import spec_from
    from loadframe.load import Generator
    from loadframe.store import find

    started = spec_from(
        store,
        version=version,
        nodes=nodes or shards or 1,
        cpus=cpus,
        memory=memory or None,
        cores=cores,
        settings=sharded | store_settings(store_set, "--store-set"),
        encryption=encryption or "none",
        home=home,
        host=host or LocalHost.name,
        image=image,
        container_runtime=container_runtime,
        machines=parse_machines(machines) if machines is not None else (),
        per_machine=per_machine,
        network=network,
        scratch=scratch,
        written=option_name,
    )
    made = Bench(
        workload=loaded,
        path=path,
        cluster=attached or started,
        generator=Generator(
            threads,
            spread,
            connections,
            ranks,
            _recorded_spread(nearest_as, spread),
            samples,
            outlets.trace,
            spin,
            kernel_timestamps,
        ),
        seed=secrets.randbits(32) if seed is None else seed,
        override=override,
        actions=parse_schedule(at),
        name=cluster,
        replace=replace,
        reuse=reuse,
        allow_bad=allow_bad,
        confirm=access.confirm_drop if hosts and not yes else None,
        written=option_name,
        driver=None if cluster else find(store).driver,
    )
    with published("bench", loaded.name, path, page, outlets) as publisher, Console() as console:
        whole = made.carry_out(Listeners(console, publisher))
    _show(path, as_json)
    if not whole:
        raise KeyboardInterrupt


def _recorded_spread(path: Path | None, spread: str) -> dict[str, Any] | None:
    """Return the assignment of clients to nodes that the run at `path` recorded, or None if `path` is None.

    BadInput unless both the run and this command (`spread`) use --spread nearest.
    """
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
    """Print the figures of a recorded run: as JSON, or as text with a hint on `loadframe report`."""
    from loadframe.record import Run
    from loadframe.report.run.document import run_document
    from loadframe.report.run.terminal import print_run

    run = Run(path)
    if as_json:
        print_json(run_document(run))
    else:
        print_run(run)
        tell(f"recorded in {path}; see `loadframe report {path}`")
