"""`loadframe ingest`: events that come by TCP, in files or on standard input go into a store, and are counted there."""

import secrets
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loadframe import interrupts
from loadframe.cli import access, loss
from loadframe.cli.app import app
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
    assignments,
    core_limits,
    exclude,
)
from loadframe.cli.clusters import named, require_free
from loadframe.cli.output import Json, print_json, tell
from loadframe.cli.web import published
from loadframe.errors import BadInput, LoadframeError
from loadframe.units import format_count, format_duration, parse_duration, parse_size

if TYPE_CHECKING:
    from loadframe.experiment.ingest import Ingested
    from loadframe.workload.sources import Feed

#: The dead letters that are events, which the store refused.
REFUSED = "refused"

#: How long accepted events may take to be sent after an interrupt, s.
_PATIENCE = 60.0

_EXAMPLES = """\b
Examples:
  loadframe ingest adbids --listen 127.0.0.1:5000 --for 5m
  loadframe ingest adbids events.ndjson.gz --json
  my_generator | loadframe ingest adbids - --hosts 127.0.0.1:9200 --reuse
"""


@app.command(epilog=_EXAMPLES)
def ingest(  # noqa: PLR0915 - it is one list of what may be asked, and the order in which that is checked
    context: typer.Context,
    workload: Annotated[str, typer.Argument(help="A workload of the library, or a workload file, with a source.")],
    files: Annotated[
        list[str] | None, typer.Argument(help="NDJSON files, plain, .gz, .bz2 or .zst; - is standard input.")
    ] = None,
    listen: Annotated[
        str | None, typer.Option(help="Take lines from connections to this host:port; port 0 is any that is free.")
    ] = None,
    workers: Annotated[int | None, typer.Option(min=1, max=4096, help="Connections that send batches.")] = None,
    batch: Annotated[int | None, typer.Option(min=1, max=1_000_000, help="Events in a request at most.")] = None,
    flush: Annotated[str | None, typer.Option(help="When a batch is sent that is not full, such as 500ms.")] = None,
    for_: Annotated[str | None, typer.Option("--for", help="End after this time.")] = None,
    idle: Annotated[str | None, typer.Option(help="End when no line has come for this time.")] = None,
    acknowledge: Annotated[
        bool, typer.Option("--acknowledge", help="Tell those who send to the port how many of their lines are safe.")
    ] = False,
    spill: Annotated[
        str | None,
        typer.Option(help="Bytes on disk while memory is full; if not given 1g for a port, else 0: senders wait."),
    ] = None,
    only: Annotated[
        str | None, typer.Option(help="The phase that takes events in; `ingest`, or the only one, if not given.")
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
    user: access.User = None,
    password_file: access.PasswordFile = None,
    api_key_file: access.ApiKeyFile = None,
    token_file: access.TokenFile = None,
    ca: access.Ca = None,
    cert: access.Cert = None,
    key: access.Key = None,
    insecure: access.Insecure = False,
    compress: access.Compress = False,
    as_json: Json = False,
) -> None:
    """Take events from a TCP port, files or standard input into a store, and count them there.

    Without a port or files the workload's own source is taken. It ends with the files, after --for or --idle, or with
    Ctrl-C or SIGTERM, and what was accepted until then is sent; another Ctrl-C drops that. The status is 1 if the store
    refused events, or does not have all of the others.
    """
    starting = {"--version": version, "--nodes": nodes, "--cpus": cpus, "--memory": memory, "--cores": cores}
    given = {**starting, "--home": home, "--hosts": hosts, "--cluster": cluster, "--replace": replace, "--reuse": reuse}
    exclude(given, ["--hosts"], ["--cluster"], "each names a cluster")
    exclude(given, ["--replace"], ["--reuse"], "one drops the data that the other keeps")
    exclude(given, ["--hosts", "--cluster"], [*starting, "--home"], "a cluster that exists is as it is")
    feed = _feed(listen, files or [], batch, flush, idle, spill, acknowledge=acknowledge)
    duration = _positive(for_, "--for")

    # What follows takes a second or two to import, which help and slips of the pen should not cost.
    from loadframe.experiment.ingest import documents, fed_by, ingested, phase_of
    from loadframe.workload import load_workload

    loaded = load_workload(workload, assignments(set_))
    name = phase_of(loaded, only)
    loaded = loaded.choose([name])
    path = output or Path("results") / f"{loaded.name}-ingest-{time.strftime('%Y%m%d-%H%M%S')}"
    require_free(path)
    addresses, reached = access.existing(context.params)

    from loadframe.cli.console import Console
    from loadframe.cluster import Cluster, ClusterSpec, Limits
    from loadframe.experiment.listener import Listeners
    from loadframe.experiment.session import Labels, Session
    from loadframe.experiment.soundness import require_sound
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
            started = named(cluster, store, context)
        else:
            limits = Limits(cpus=cpus, memory=parse_size(memory) if memory else None, **core_limits(cores))
            spec = ClusterSpec(store=store, version=version, nodes=nodes or 1, limits=limits, home=home)
            kind = find(store)
            # Everything that can be wrong with the workload is said before a node starts.
            phase = fed_by(
                loaded.for_family(kind.family, spec.nodes, listener.step).phase(name),
                feed,
                workers=workers,
                duration=duration,
            )
            require_sound([phase], kind.driver, Cluster.prospect(spec), generator, spec.nodes)
            started = Cluster.start(spec, listener.step)
        with started as live:
            resolved = loaded.for_family(live.store.family, live.size, listener.step)
            fed = fed_by(resolved.phase(name), feed, workers=workers, duration=duration)
            phases = [*(phase for phase in resolved.phases if phase.prepares and not reuse), fed]
            if hosts or cluster:
                require_sound(phases, live.store.driver, live.target(), generator, live.size)
            session = Session(live, resolved, seed=secrets.randbits(32), generator=generator, listener=listener)
            if not reuse:
                session.create_collections(
                    replace=replace or not (hosts or cluster), confirm=loss.confirm if hosts and not yes else None
                )
            try:
                closing = Closing(_PATIENCE, _tell_end)
                session.record(path.parent, path.name, phases, Labels(), keep_interrupted=True, closing=closing)
            except KeyboardInterrupt:
                if not path.exists() or name not in [phase.name for phase in Run(path).summary.phases]:
                    raise
                # What was not sent is left over, and the rest is told as usual.
                interrupts.answer()
            counted = documents(fed, live)
    _show(ingested(Run(path).summary.phases, counted, str(path)), as_json)


def _tell_end() -> None:
    tell(
        "no more lines are taken; what was accepted is sent, for"
        f" {format_duration(_PATIENCE)} at most; Ctrl-C again drops what is left",
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
    """Return where events come from; BadInput for what contradicts itself."""
    if listen and files:
        raise BadInput("events come from --listen or from files, not from both", remedy="give one of them")
    if "-" in files and len(files) > 1:
        raise BadInput("standard input and files cannot be taken together", remedy="give - alone, or files alone")
    if idle and files and files != ["-"]:
        raise BadInput("files end by themselves, and are not waited for", remedy="leave --idle out")
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
    """Return an option's time, s; BadInput for 0."""
    seconds = parse_duration(text) if text else None
    if seconds == 0:
        raise BadInput(f"{option} 0 leaves no time", remedy="give more than 0")
    return seconds


def _show(came: "Ingested", as_json: bool) -> None:
    """Print what came of the events; LoadframeError if some are left over."""
    figures = came.figures
    if as_json:
        print_json(came.as_dict())
    else:
        said: dict[str, Any] = {
            "lines": figures.lines,
            "events accepted": figures.accepted,
            "events indexed": figures.indexed,
            "dead letters": figures.dead,
            "left over": figures.left_over,
            **({"spilled to disk": figures.spilled_events} if figures.spilled_events else {}),
            "documents in the store": came.documents,
        }
        for words, count in said.items():
            print(f"{words:24}{format_count(count):>14}")
        if came.visibility is not None and came.visibility.count:
            for quantile in ("p50", "p99", "max"):
                print(f"{f'visible after, {quantile}':24}{format_duration(getattr(came.visibility, quantile)):>14}")
        if figures.sampled is not None:
            looked = f"{format_count(figures.seen or 0)} of {format_count(figures.sampled)}"
            print(f"{'seen of those looked for':24}{looked:>14}")
    for trouble in figures.trouble:
        tell(trouble, style="yellow")
    if figures.kept:
        tell(f"dead letters are in {Path(came.run) / figures.kept}")
    tell(f"recorded in {came.run}; `loadframe report {came.run}` draws it")
    if figures.left_over:
        raise LoadframeError(
            f"{figures.left_over:,} events were accepted and are not in the store",
            where=came.run,
            remedy="send them again: the same event once more changes nothing",
        )
    if refused := figures.dead_letters.get(REFUSED, 0):
        raise LoadframeError(
            f"the store refused {refused:,} event{'s' * (refused != 1)}",
            where=str(Path(came.run) / (figures.kept or "")),
            remedy="the dead letters have each line and the reason; correct them and send them again",
        )
