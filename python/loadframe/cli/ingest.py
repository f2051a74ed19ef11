"""`loadframe ingest`: read events from TCP, files or standard input, write them to a store and count them there."""

from functools import partial
from typing import Annotated, Any

import typer

from loadframe.base import interrupts
from loadframe.cli import access
from loadframe.cli.app import Topic, app, option
from loadframe.cli.choices import (
    ClusterHosts,
    ClusterName,
    Cores,
    Home,
    NodeCpus,
    NodeMemory,
    NodesToStart,
    Parameters,
    Replace,
    ReplaceWithoutAsking,
    Reuse,
    RunFolder,
    StoreKind,
    StoreVersion,
    Threads,
    WorkloadName,
    assignments,
    option_name,
)
from loadframe.cli.output import Json, out, print_json, tell
from loadframe.cli.web import published
from loadframe.library.options import refuse_contradictions, require_free

_EXAMPLES = """\b
Examples:
  loadframe ingest adbids --listen 127.0.0.1:5000 --for 5m
  loadframe ingest adbids events.ndjson.gz --json
  my_generator | loadframe ingest adbids - --hosts 127.0.0.1:9200 --reuse
"""


@app.command(epilog=_EXAMPLES)
@access.with_options()
def ingest(
    context: typer.Context,
    workload: WorkloadName,
    files: Annotated[
        list[str] | None, typer.Argument(help="NDJSON files, plain, .gz, .bz2 or .zst. - is standard input.")
    ] = None,
    listen: Annotated[
        str | None, option(Topic.EVENTS, help="Accept connections at this host:port. Port 0: any free port.")
    ] = None,
    for_: Annotated[str | None, option(Topic.EVENTS, "--for", help="Stop after this time.")] = None,
    idle: Annotated[
        str | None, option(Topic.EVENTS, help="Stop when no line arrives for this time, from the start on.")
    ] = None,
    wait: Annotated[
        str | None, option(Topic.EVENTS, help="Start with the first line at the port, which must arrive in this time.")
    ] = None,
    acknowledge: Annotated[
        bool, option(Topic.EVENTS, "--acknowledge", help="Send each connection the number of its stored lines.")
    ] = False,
    spill: Annotated[
        str | None,
        option(
            Topic.EVENTS,
            help="Disk space for events while memory is full. Default: 1g with --listen, else 0 (senders wait).",
        ),
    ] = None,
    workers: Annotated[
        int | None, option(Topic.LOAD, min=1, max=4096, help="Connections to the store that send batches.")
    ] = None,
    batch: Annotated[int | None, option(Topic.LOAD, min=1, max=1_000_000, help="Maximum events in a request.")] = None,
    flush: Annotated[
        str | None, option(Topic.LOAD, help="Send an incomplete batch after this time, such as 500ms.")
    ] = None,
    only: Annotated[
        str | None,
        option(Topic.WORKLOAD, help="Phase that ingests. Default: the phase `ingest`, or the only phase."),
    ] = None,
    store: StoreKind = "opensearch",
    version: StoreVersion = None,
    nodes: NodesToStart = None,
    cpus: NodeCpus = None,
    memory: NodeMemory = None,
    cores: Cores = None,
    home: Home = None,
    hosts: ClusterHosts = None,
    cluster: ClusterName = None,
    replace: Replace = False,
    yes: ReplaceWithoutAsking = False,
    reuse: Reuse = False,
    set_: Parameters = [],
    threads: Threads = 1,
    output: RunFolder = None,
    as_json: Json = False,
) -> None:
    """Ingest events from a TCP port, files or standard input into a store, and count them there.

    Without --listen and files, the workload's own source is used. Ingestion stops at the end of the files, after --for
    or --idle, or on Ctrl-C, SIGTERM or (exit code 130) SIGHUP. Accepted events are then sent; another Ctrl-C drops
    them. The exit code is 1 if no event was stored, a file is damaged, or the store refused or lost events; other lines
    that are not events do not change it.
    """
    starting: dict[str, Any] = {
        "version": version,
        "nodes": nodes,
        "cpus": cpus,
        "memory": memory,
        "cores": cores,
        "home": home,
    }
    existing = {"hosts": hosts, "cluster": cluster, "replace": replace, "reuse": reuse}
    refuse_contradictions({**starting, **existing}, option_name)

    # These imports take a second or two. Help and usage errors do not need them.
    from loadframe.experiment.runner.ingest import ingest_phase
    from loadframe.library.cluster import spec_from
    from loadframe.library.ingest import Ingest, Ingested, default_folder, feed_of, positive_time, require_stored
    from loadframe.load import Generator
    from loadframe.workload import load_workload

    times = {"flush": flush, "idle": idle, "wait": wait}
    feed = feed_of(listen, files or [], batch, times, spill, acknowledge=acknowledge, written=option_name)
    lasting = positive_time(for_, "--for")
    loaded = load_workload(workload, assignments(set_), endless=True)
    phase = ingest_phase(loaded, only)
    path = output or default_folder(loaded.name)
    require_free(path)
    attached = access.existing(context.params)
    if cluster:
        attached = partial(access.named_cluster, cluster, store, context)
    plan = Ingest(
        workload=loaded.choose([phase]),
        phase=phase,
        path=path,
        cluster=attached or spec_from(store, written=option_name, **{**starting, "nodes": nodes or 1}),
        feed=feed,
        generator=Generator(threads),
        workers=workers,
        duration=lasting,
        replace=replace,
        reuse=reuse,
        confirm=access.confirm_drop if hosts and not yes else None,
    )

    from loadframe.cli.console import Console
    from loadframe.experiment.runner.listener import Listeners

    with published("ingest", loaded.name, path, None) as publisher, Console() as console:
        result = plan.carry_out(Listeners(console, publisher))
    ingested = Ingested(result)
    if as_json:
        print_json(ingested.as_dict())
    else:
        ingested.show(out)
    for remark in ingested.remarks:
        tell(remark, style="yellow")
    tell(f"recorded in {path}; see `loadframe report {path}`")
    require_stored(result)
    if interrupts.hung_up():
        # A closed terminal does not ask for a normal end.
        raise KeyboardInterrupt
