"""Ingestion of events from a TCP port, files or standard input into a store, recorded as one run."""

import inspect
import os
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Unpack

from loadframe.analyze.executions import ingest_pace
from loadframe.analyze.percentiles import percentiles_of
from loadframe.base import interrupts
from loadframe.base.errors import BadInput, LoadframeError
from loadframe.base.units import MOST_THREADS, counted, format_count, format_duration, parse_duration, parse_size
from loadframe.cluster import Cluster as LiveCluster
from loadframe.cluster import ClusterSpec
from loadframe.experiment.runner.ingest import (
    FirstEvents,
    IngestResult,
    documents,
    ingest_phase,
    ingest_result,
    with_feed,
)
from loadframe.experiment.runner.listener import Labels, Listener
from loadframe.experiment.runner.preflight import check_load
from loadframe.experiment.runner.session import DroppedData, Session
from loadframe.library.arguments import Nodes, Positive, Range, checked, naming_parameters
from loadframe.library.cluster import Cluster, existing_cluster, spec_from
from loadframe.library.options import Access, attachment, parsed_as, refuse_contradictions, require_free
from loadframe.library.progress import Callback, listener_of
from loadframe.library.run import Run
from loadframe.library.tables import Answer
from loadframe.library.workload import Value, Workload, loaded_workload
from loadframe.load import Closing, Generator
from loadframe.record import Run as RecordedRun
from loadframe.report.run.terminal import print_verdict
from loadframe.report.run_status import ingest_pace_text
from loadframe.store import find
from loadframe.workload import ResolvedPhase
from loadframe.workload import Workload as LoadedWorkload
from loadframe.workload.sources import Feed

if TYPE_CHECKING:
    from rich.console import Console

#: Kind of the dead letters that the store refused.
_REFUSED = "refused"
#: Seconds to send accepted events after an interrupt.
PATIENCE = 60.0


class Ingested(Answer):
    """The counts of one ingestion.

    >>> ingested = loadframe.ingest("log.yaml", "results/events.ndjson", store="sim", output="results/ingested")
    >>> ingested.lines, ingested.indexed, ingested.left_over
    (3, 3, 0)
    >>> ingested.require()
    """

    @checked
    def __init__(self, result: IngestResult) -> None:
        """Create the result of an ingestion."""
        self._result = result
        super().__init__({**result.as_dict(), "verdict": self._recorded.raw_summary.get("verdict")}, self._print)

    @cached_property
    def _recorded(self) -> RecordedRun:
        """The recorded run of the ingestion."""
        return RecordedRun(Path(self._result.run))

    @property
    def run(self) -> Run:
        """The recorded run."""
        return Run(self._result.run)

    @property
    def lines(self) -> int:
        """The number of lines that arrived."""
        return self._result.figures.lines

    @property
    def accepted(self) -> int:
        """The number of lines that are events."""
        return self._result.figures.accepted

    @property
    def indexed(self) -> int:
        """The number of events that the store acknowledged."""
        return self._result.figures.indexed

    @property
    def left_over(self) -> int:
        """The number of accepted events that are not in the store."""
        return self._result.figures.left_over

    @property
    def dead_letters(self) -> dict[str, int]:
        """The number of lines that were not stored, by reason."""
        return dict(self._result.figures.dead_letters)

    @property
    def documents(self) -> int:
        """The number of documents in the collections of the events, counted in the store afterwards."""
        return self._result.documents

    @property
    def remarks(self) -> list[str]:
        """Problems of the source, and the place of the dead letters, as sentences."""
        figures = self._result.figures
        kept = [f"dead letters are in {Path(self._result.run) / figures.kept}"] if figures.kept else []
        return [*figures.trouble, *kept]

    def require(self) -> None:
        """Raise LoadframeError if no line arrived, if no event was stored, or if the store refused or lost events.

        Lines that were dead letters for another reason do not count as refused. Acknowledged events count as lost only
        if they cannot be duplicates, or in the store before the run.
        """
        with naming_parameters(inspect.signature(ingest)):
            require_stored(self._result)

    def _print(self, console: "Console") -> None:
        """Print counts, latencies and pace of the ingest, and the verdict on its run."""
        result, figures = self._result, self._result.figures
        rows: dict[str, Any] = {
            "lines": figures.lines,
            **({"events dropped": figures.dropped} if figures.dropped else {}),
            "events accepted": figures.accepted,
            "events indexed": figures.indexed,
            "dead letters": figures.dead,
            "left over": figures.left_over,
            **({"spilled to disk": figures.spilled_events} if figures.spilled_events else {}),
            # The simulated store keeps none.
            **({"documents in the store": result.documents} if result.documents or result.stored else {}),
            **{f"  {it.collection}": it.documents for it in result.stored if len(result.stored) > 1},
            **result.missing,
        }
        texts = [(label, format_count(count)) for label, count in rows.items()]
        for label, latency in (("stored after", result.stored_after), ("visible after", result.visibility)):
            for quantile in ("p50", "p99", "max"):
                if latency is not None and (seconds := latency.at(quantile)) is not None:
                    texts.append((f"{label}, {quantile}", format_duration(seconds)))
        if figures.sampled is not None:
            share = f"{format_count(figures.seen or 0)} of {format_count(figures.sampled)}"
            texts.append(("visible of sampled", share))
        for label, text in texts:
            console.print(f"{label:24}{text:>14}", markup=False, highlight=False, soft_wrap=True)
        if result.pace is not None:
            console.print(ingest_pace_text(result.pace), markup=False, highlight=False)
        # Without lines, the error says enough.
        if figures.lines and (verdict := self._recorded.summary.verdict):
            print_verdict(console, self._recorded, verdict, percentiles_of(self._recorded))


def require_stored(result: IngestResult) -> None:
    """Raise LoadframeError as `Ingested.require`; the remedy names options of the command line."""
    figures, run = result.figures, result.run
    if not figures.lines:
        remedy = (
            f"send lines to {figures.address} while the command listens, or add --wait 10m: --idle and --for then"
            " count from the first line"
            if figures.address
            else None
        )
        raise LoadframeError("no line arrived", where=run, remedy=remedy or "check that the input has lines")
    if figures.left_over:
        raise LoadframeError(
            f"{counted(figures.left_over, 'accepted event')} not in the store",
            where=run,
            remedy="send them again: repeated events are stored once",
        )
    if refused := figures.dead_letters.get(_REFUSED, 0):
        raise LoadframeError(
            f"the store refused {counted(refused, 'event')}",
            where=str(Path(run) / (figures.kept or "")),
            remedy="each dead letter holds the line and the reason: correct the lines and send them again",
        )
    if not figures.indexed:
        raise LoadframeError(
            f"no event was stored: none of {counted(figures.lines, 'line')} is an event to store",
            where=str(Path(run) / (figures.kept or "")),
            remedy="each dead letter holds the line and the reason: correct the lines or the fields of the source",
        )
    if lost := sum(stored.missing for stored in result.stored if stored.unique):
        raise LoadframeError(
            f"the store lost {counted(lost, 'acknowledged event')}",
            where=run,
            remedy="check the durability of the store's settings; its logs may name the cause",
        )


@dataclass(frozen=True)
class Ingest:
    """One ingestion to carry out: workload and its phase, source, cluster and folder."""

    workload: LoadedWorkload
    phase: str
    path: Path
    #: The cluster to start, or a function that returns an existing one.
    cluster: ClusterSpec | Callable[[], AbstractContextManager[LiveCluster]]
    feed: Feed
    generator: Generator
    workers: int | None = None
    duration: float | None = None
    replace: bool = False
    reuse: bool = False
    #: Called before collections of a cluster that Loadframe did not start are dropped; may refuse.
    confirm: Callable[[DroppedData], None] | None = None

    def carry_out(self, listener: Listener) -> IngestResult:
        """Start or attach to the cluster, record the run, count the documents in the store, and return the result.

        Unless `reuse`, creates the collections and prepares data first. Existing data is dropped only once
        the source has an event. An interrupt ends the source; accepted events are then sent
        for up to 60 s. An interrupt before the ingesting phase has a record is raised.
        """
        with self._started(listener) as live:
            exists = not isinstance(self.cluster, ClusterSpec)
            resolved = self.workload.for_family(live.store.family, live.size, listener.step)
            fed = self._fed(resolved.phase(self.phase))
            phases = [*(phase for phase in resolved.phases if phase.prepares and not self.reuse), fed]
            if exists:
                check_load(phases, live.store.driver, live.target(), self.generator, live.size)
            session = Session(live, resolved, seed=secrets.randbits(32), generator=self.generator, listener=listener)
            first = FirstEvents([fed], listener)

            def await_event(dropped: DroppedData) -> None:
                """Ask for confirmation of a drop, then wait for an event."""
                if self.confirm:
                    self.confirm(dropped)
                first.wait()

            closing = Closing(PATIENCE, lambda: listener.remark(_CLOSING))
            try:
                if not self.reuse:
                    session.create_collections(replace=self.replace or not exists, confirm=await_event)
                session.record(
                    self.path.parent, self.path.name, phases, Labels(), keep_interrupted=True, closing=closing
                )
            except KeyboardInterrupt:
                if not self._is_recorded():
                    raise
                # The result counts unsent events as left over.
                interrupts.answer()
            finally:
                first.close()
            stored = documents(fed, live)
        run = RecordedRun(self.path)
        last = run.summary.phases[-1]
        pace = ingest_pace(run, last, next(iter(last.sources)))
        return ingest_result([last], stored, str(self.path), stored=run.summary.stored, pace=pace)

    def _started(self, listener: Listener) -> AbstractContextManager[LiveCluster]:
        """Return the context of the existing cluster, or of new nodes. Checks the load before it starts nodes."""
        if not isinstance(self.cluster, ClusterSpec):
            return self.cluster()
        kind, spec = find(self.cluster.store), self.cluster
        phase = self._fed(self.workload.for_family(kind.family, spec.nodes, listener.step).phase(self.phase))
        check_load([phase], kind.driver, LiveCluster.prospect(spec), self.generator, spec.nodes)
        return LiveCluster.start(spec, listener.step)

    def _fed(self, phase: ResolvedPhase) -> ResolvedPhase:
        """Return the phase with the source, workers and duration of this ingestion."""
        return with_feed(phase, self.feed, workers=self.workers, duration=self.duration)

    def _is_recorded(self) -> bool:
        """Return whether the run folder has the phase of the ingestion."""
        phases = RecordedRun(self.path).summary.phases if self.path.exists() else ()
        return self.phase in [phase.name for phase in phases]


_CLOSING = (
    f"stopped reading; sending accepted events for up to {format_duration(PATIENCE)};"
    " press Ctrl-C again to drop the rest"
)


def default_folder(workload: str) -> Path:
    """Return the default run folder of an ingestion: results/WORKLOAD-ingest-TIME."""
    return Path("results") / f"{workload}-ingest-{time.strftime('%Y%m%d-%H%M%S')}"


def feed_of(
    listen: str | None,
    files: Sequence[str],
    batch: int | None,
    times: Mapping[str, str | float | None],
    spill: str | int | None,
    *,
    acknowledge: bool,
    written: Callable[[str], str] = str,
) -> Feed:
    """Return the source of events: the address `listen`, or files (`-` is standard input).

    `times` are `flush`, `idle` and `wait` (s or texts such as "10s"), and `batch` is a number of events. `spill` is
    bytes or a text such as `1g`. With `acknowledge`, each connection receives the number of its stored lines. BadInput
    if arguments contradict each other. `written` returns the name of an argument for messages.
    """
    if listen and files:
        raise BadInput(f"{written('listen')} and files cannot be combined", remedy="give one of them")
    if "-" in files and len(files) > 1:
        raise BadInput("standard input and files cannot be combined", remedy="give either - or files")
    feed = Feed(
        listen=listen,
        files=tuple(Path(file) for file in files if file != "-"),
        stdin="-" in files,
        batch=batch,
        acknowledge=acknowledge,
        spill=parsed_as(parse_size, spill, written("spill")) if spill is not None else None,
        **{name: positive_time(value, written(name)) for name, value in times.items()},
    )
    feed.check()
    return feed


def positive_time(value: str | float | None, option: str) -> float | None:
    """Return a duration, s, from a number of seconds or a text such as `10s`; None if it is None or empty.

    BadInput for 0; `option` names the argument.
    """
    seconds = parsed_as(parse_duration, value, option) if value not in (None, "") else None
    if seconds == 0:
        raise BadInput(f"{option} must be more than 0; got {value}", remedy="give a time such as 10s")
    return seconds


@checked
def ingest(
    workload: str | os.PathLike[str] | Workload,
    files: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
    *,
    listen: str | None = None,
    duration: str | float | None = None,
    idle: str | float | None = None,
    wait: str | float | None = None,
    acknowledge: bool = False,
    spill: str | int | None = None,
    workers: Annotated[int, Range(1, 4096)] | None = None,
    batch: Annotated[int, Range(1, 1_000_000)] | None = None,
    flush: str | float | None = None,
    only: str | None = None,
    output: str | os.PathLike[str] | None = None,
    store: str = "opensearch",
    version: str | None = None,
    nodes: Nodes | None = None,
    cpus: Positive | None = None,
    memory: str | int | None = None,
    cores: str | None = None,
    home: str | None = None,
    settings: Mapping[str, Any] | None = None,
    hosts: str | Sequence[str] | None = None,
    cluster: str | Cluster | None = None,
    replace: bool = False,
    reuse: bool = False,
    parameters: Mapping[str, Value] | None = None,
    threads: Annotated[int, Range(1, MOST_THREADS)] = 1,
    progress: Callback | None = None,
    **access: Unpack[Access],
) -> Ingested:
    """Ingest events from a TCP port, NDJSON files or standard input ("-") into a store, and count them there.

    Arguments are the options of `loadframe ingest`; `duration` is `--for`, and `access` are the options of `bench` for
    credentials and TLS. Without `listen` and `files`, the workload's own source is used. An interrupt ends the source:
    accepted events are then sent for up to 60 s. `require()` of the result raises if events were refused or lost.

    >>> ingested = loadframe.ingest("log.yaml", "results/events.ndjson", store="sim", output="results/events")
    >>> ingested.run.status
    'done'
    """
    starting: dict[str, Any] = {
        "version": version, "nodes": nodes, "cpus": cpus, "memory": memory, "cores": cores, "home": home,
        "settings": settings or None,
    }  # fmt: skip
    refuse_contradictions({**starting, "hosts": hosts, "cluster": cluster, "replace": replace, "reuse": reuse})
    given = [files] if isinstance(files, str | os.PathLike) else files
    feed = feed_of(
        listen, [os.fspath(file) for file in given], batch, {"flush": flush, "idle": idle, "wait": wait}, spill,
        acknowledge=acknowledge,
    )  # fmt: skip
    loaded = loaded_workload(workload, parameters or {}, endless=True)
    phase = ingest_phase(loaded, only, "only")
    path = Path(output) if output is not None else default_folder(loaded.name)
    require_free(path, "output")
    listener = listener_of(progress)
    attached = attachment(store, hosts, access, listener.remark) or existing_cluster(cluster)
    plan = Ingest(
        workload=loaded.choose([phase]),
        phase=phase,
        path=path,
        cluster=attached or spec_from(store, **{**starting, "nodes": 1 if nodes is None else nodes}),
        feed=feed,
        generator=Generator(threads),
        workers=workers,
        duration=positive_time(duration, "duration"),
        replace=replace,
        reuse=reuse,
    )
    return Ingested(plan.carry_out(listener))
