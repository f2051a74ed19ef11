"""`loadframe ingest`: read events from TCP, files or standard input, write them to a store and count them there."""

import secrets
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loadframe.base import interrupts
from loadframe.base.errors import BadInput, LoadframeError
from loadframe.base.units import counted, format_count, format_duration, parse_duration, parse_size
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
    core_limits,
)
from loadframe.cli.output import Json, print_json, tell
from loadframe.cli.web import published
from loadframe.library.options import exclude, require_free

if TYPE_CHECKING:
    from loadframe.experiment.runner.ingest import IngestResult
    from loadframe.workload.sources import Feed

#: Kind of the dead letters that the store refused.
REFUSED = "refused"

#: Seconds to send accepted events after an interrupt.
_PATIENCE = 60.0

_EXAMPLES = """\b
Examples:
  loadframe ingest adbids --listen 127.0.0.1:5000 --for 5m
  loadframe ingest adbids events.ndjson.gz --json
  my_generator | loadframe ingest adbids - --hosts 127.0.0.1:9200 --reuse
"""


@app.command(epilog=_EXAMPLES)
@access.with_options()
def ingest(  # noqa: PLR0915 - one list of options and the order of their checks
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
    or --idle, or on Ctrl-C or SIGTERM. Accepted events are then sent; another Ctrl-C drops them. The exit code is 1 if
    no line arrived, or the store refused or lost events.
    """
    starting = {"--version": version, "--nodes": nodes, "--cpus": cpus, "--memory": memory, "--cores": cores}
    given = {**starting, "--home": home, "--hosts": hosts, "--cluster": cluster, "--replace": replace, "--reuse": reuse}
    exclude(given, ["--hosts"], ["--cluster"], "both name a cluster")
    exclude(given, ["--replace"], ["--reuse"], "one drops data, the other keeps it")
    exclude(given, ["--hosts", "--cluster"], [*starting, "--home"], "the cluster exists already")
    feed = _feed(listen, files or [], batch, flush, idle, spill, acknowledge=acknowledge)
    duration = _positive(for_, "--for")

    # These imports take a second or two. Help and usage errors do not need them.
    from loadframe.experiment.runner.ingest import documents, ingest_phase, ingest_result, with_feed
    from loadframe.workload import load_workload

    loaded = load_workload(workload, assignments(set_), endless=True)
    name = ingest_phase(loaded, only)
    loaded = loaded.choose([name])
    path = output or Path("results") / f"{loaded.name}-ingest-{time.strftime('%Y%m%d-%H%M%S')}"
    require_free(path)
    addresses, reached = access.existing(context.params)

    from loadframe.cli.console import Console
    from loadframe.cluster import Cluster, ClusterSpec, Limits
    from loadframe.experiment.runner.listener import Listeners
    from loadframe.experiment.runner.preflight import check_load
    from loadframe.experiment.runner.session import Labels, Session
    from loadframe.load import Closing, Generator
    from loadframe.record import Run
    from loadframe.store import find

    generator = Generator(threads)
    with published("ingest", loaded.name, path, None) as publisher, Console() as console:
        listener = Listeners(console, publisher)
        started: AbstractContextManager[Cluster]
        if hosts:
            started = Cluster.attach(addresses, store, reached)
        elif cluster:
            started = access.named_cluster(cluster, store, context)
        else:
            limits = Limits(cpus=cpus, memory=parse_size(memory) if memory else None, **core_limits(cores))
            spec = ClusterSpec(store=store, version=version, nodes=nodes or 1, limits=limits, home=home)
            kind = find(store)
            # Check the workload before a node starts.
            phase = with_feed(
                loaded.for_family(kind.family, spec.nodes, listener.step).phase(name),
                feed,
                workers=workers,
                duration=duration,
            )
            check_load([phase], kind.driver, Cluster.prospect(spec), generator, spec.nodes)
            started = Cluster.start(spec, listener.step)
        with started as live:
            resolved = loaded.for_family(live.store.family, live.size, listener.step)
            fed = with_feed(resolved.phase(name), feed, workers=workers, duration=duration)
            phases = [*(phase for phase in resolved.phases if phase.prepares and not reuse), fed]
            if hosts or cluster:
                check_load(phases, live.store.driver, live.target(), generator, live.size)
            session = Session(live, resolved, seed=secrets.randbits(32), generator=generator, listener=listener)
            if not reuse:
                session.create_collections(
                    replace=replace or not (hosts or cluster),
                    confirm=access.confirm_drop if hosts and not yes else None,
                )
            try:
                closing = Closing(_PATIENCE, _tell_end)
                session.record(path.parent, path.name, phases, Labels(), keep_interrupted=True, closing=closing)
            except KeyboardInterrupt:
                if not path.exists() or name not in [phase.name for phase in Run(path).summary.phases]:
                    raise
                # The result counts unsent events as left over.
                interrupts.answer()
            counted = documents(fed, live)
    _show(ingest_result(Run(path).summary.phases, counted, str(path)), as_json)


def _tell_end() -> None:
    tell(
        f"stopped reading; sending accepted events for up to {format_duration(_PATIENCE)};"
        " press Ctrl-C again to drop the rest",
        style="yellow",
    )


def _feed(
    listen: str | None,
    files: Sequence[str],
    batch: int | None,
    flush: str | None,
    idle: str | None,
    spill: str | None,
    *,
    acknowledge: bool,
) -> "Feed":
    """Return the source of events. BadInput if options contradict each other."""
    if listen and files:
        raise BadInput("--listen and files cannot be combined", remedy="give one of them")
    if "-" in files and len(files) > 1:
        raise BadInput("standard input and files cannot be combined", remedy="give either - or files")
    if idle and files and files != ["-"]:
        raise BadInput("--idle requires --listen or standard input: files end", remedy="leave --idle out")
    from loadframe.workload.sources import Feed

    named_files = tuple(Path(file) for file in files if file != "-")
    times = {"flush": _positive(flush, "--flush"), "idle": _positive(idle, "--idle")}
    most = parse_size(spill) if spill is not None else None
    feed = Feed(
        listen=listen,
        files=named_files,
        stdin="-" in files,
        batch=batch,
        acknowledge=acknowledge,
        spill=most,
        **times,
    )
    feed.check()
    return feed


def _positive(text: str | None, option: str) -> float | None:
    """Parse the duration of an option, s. BadInput for 0."""
    seconds = parse_duration(text) if text else None
    if seconds == 0:
        raise BadInput(f"{option} must be more than 0; got {text}", remedy="give a time such as 10s")
    return seconds


def _show(result: "IngestResult", as_json: bool) -> None:
    """Print the counts of events. LoadframeError if the store refused events, or some were not sent."""
    figures = result.figures
    if as_json:
        print_json(result.as_dict())
    else:
        rows: dict[str, Any] = {
            "lines": figures.lines,
            "events accepted": figures.accepted,
            "events indexed": figures.indexed,
            "dead letters": figures.dead,
            "left over": figures.left_over,
            **({"spilled to disk": figures.spilled_events} if figures.spilled_events else {}),
            "documents in the store": result.documents,
        }
        for label, count in rows.items():
            print(f"{label:24}{format_count(count):>14}")
        for label, latency in (("stored after", result.stored_after), ("visible after", result.visibility)):
            for quantile in ("p50", "p99", "max"):
                if latency is not None and (seconds := latency.at(quantile)) is not None:
                    print(f"{f'{label}, {quantile}':24}{format_duration(seconds):>14}")
        if figures.sampled is not None:
            share = f"{format_count(figures.seen or 0)} of {format_count(figures.sampled)}"
            print(f"{'visible of sampled':24}{share:>14}")
    for trouble in figures.trouble:
        tell(trouble, style="yellow")
    if figures.kept:
        tell(f"dead letters are in {Path(result.run) / figures.kept}")
    tell(f"recorded in {result.run}; see `loadframe report {result.run}`")
    if not figures.lines:
        remedy = "start the sender first: --idle and --for count from the start" if figures.address else None
        raise LoadframeError("no line arrived", where=result.run, remedy=remedy or "check that the input has lines")
    if figures.left_over:
        raise LoadframeError(
            f"{counted(figures.left_over, 'accepted event')} not in the store",
            where=result.run,
            remedy="send them again: repeated events are stored once",
        )
    if refused := figures.dead_letters.get(REFUSED, 0):
        raise LoadframeError(
            f"the store refused {counted(refused, 'event')}",
            where=str(Path(result.run) / (figures.kept or "")),
            remedy="each dead letter holds the line and the reason: correct the lines and send them again",
        )
