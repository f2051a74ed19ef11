"""Ingest: choice of the phase, replacement of its feed, files of its sources, and the result."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from loadframe.analyze.executions import IngestPace
from loadframe.base.errors import BadInput, GeneratorFailed
from loadframe.base.units import counted, format_count
from loadframe.cluster import Cluster
from loadframe.experiment.runner.document_counts import collection_of
from loadframe.experiment.runner.listener import Listener
from loadframe.load import FirstEvent, Outcome
from loadframe.record.schema.figures import MISSING_LABELS, Latency, OperationFigures, SourceFigures, StoredEvents
from loadframe.record.schema.summary import PhaseSummary
from loadframe.workload import ResolvedPhase, Workload
from loadframe.workload.phases import Ended, Stream
from loadframe.workload.sources import Feed
from loadframe.yamlfile import did_you_mean

#: Parts of an operation that ingests: from the arrival of an event until the store has it, and until a query finds it.
STORED, VISIBLE = "event", "visible"
#: Phase that is preferred if several phases have sources.
DEFAULT_PHASE = "ingest"


def ingest_phase(workload: Workload, wanted: str | None, option: str = "--only") -> str:
    """Return the name of the phase to ingest with; BadInput without one, or if it has several sources.

    `wanted` is the name that the user gave with `option`. None selects the phase `ingest`, or else the first with a
    source; an optional phase only if no other has one. Preparing phases are excluded.
    """
    # `fill(1)` includes optional phases.
    phases = {phase.name: phase for phase in workload.fill(1).file.phases if not phase.prepares}
    fed = {
        name: [stream.source for stream in phase.named_streams if stream.source is not None]
        for name, phase in phases.items()
    }
    names = [name for name, sources in fed.items() if sources]
    usual = [name for name in names if not phases[name].optional]
    if not names:
        remedy = "use a workload with a source, such as adbids, or add a source to this one"
        raise BadInput(
            f"the workload {workload.name} lacks a source of events", where=str(workload.document.path), remedy=remedy
        )
    name = wanted or (DEFAULT_PHASE if DEFAULT_PHASE in usual else (usual or names)[0])
    if name not in names:
        what = f"the workload {workload.name} has no phase {name!r} with a source"
        raise BadInput(what, where=option, remedy=did_you_mean(name, names))
    if len(fed[name]) > 1:
        what = f"the phase {name!r} has several sources: {' and '.join(map(str, fed[name]))}"
        raise BadInput(what, where=str(workload.document.path), remedy=f"choose a phase with one source with {option}")
    return name


def with_feed(phase: ResolvedPhase, feed: Feed, *, workers: int | None, duration: float | None) -> ResolvedPhase:
    """Return the phase with another feed for its source, until the feed ends, or for `duration` s unless None.

    The phase must have exactly one source (ValueError otherwise). Its `stop_when` is removed. `workers` replaces the
    number of workers; None keeps it. BadInput if the feed contradicts itself, such as a wait without a port.
    """
    (name,) = phase.sources
    fed = replace(phase, sources={name: feed.into(phase.sources[name])}, stop_when=())
    if duration is not None:
        fed = fed.override(duration=duration)
    streams = tuple(_with_end(stream, workers, until_exhausted=duration is None) for stream in fed.streams)
    if duration is not None:
        return replace(fed, streams=streams)
    (ending,) = (str(stream.name) for stream in streams if stream.source is not None)
    return replace(fed, streams=streams, stop="ended", ends_with=(ending,) if len(streams) > 1 else ())


def _with_end(stream: Stream, workers: int | None, *, until_exhausted: bool) -> Stream:
    """Return the stream with `workers` (None keeps its number); unchanged without a source.

    With `until_exhausted`, the end of the source replaces its other stop conditions.
    """
    if stream.source is None:
        return stream
    ends = {**dict.fromkeys(Ended.model_fields), "until": "exhausted"} if until_exhausted else {}
    return stream.model_copy(update={"workers": workers or stream.workers, **ends})


#: A wait without a limit, s.
_NO_LIMIT = 1e9


class FirstEvents:
    """Holds a drop of data until the sources of phases have an event.

    Ports stay open until the phase takes them over, or until `close`. The phase reads all lines again.
    """

    def __init__(self, phases: Iterable[ResolvedPhase], listener: Listener) -> None:
        """Create it for the sources of `phases`; opens nothing yet."""
        self._phases, self._listener = list(phases), listener
        self._searches: list[FirstEvent] = []

    def wait(self) -> None:
        """Return once each source has an event; sources are awaited in turn, and one at a known address only once.

        BadInput if one ends, or its time is over, without an event, or for port 0. The time of a source is its `wait`,
        or else the shorter one of its `idle` and its phase; without these it has no limit.
        """
        addresses = set()
        for phase in self._phases:
            for name, source in phase.sources.items():
                if "listen" in source:
                    address = source["listen"]["address"]
                    if address in addresses:
                        continue
                    _require_fixed_port(name, address)
                    addresses.add(address)
                    self._listener.step(f"waiting for a sender to {name} at {address}")
                else:
                    self._listener.step(f"looking for an event of {name}")
                search = FirstEvent(phase.name, source)
                self._searches.append(search)
                search.wait(source.get("wait") or min(source.get("idle", _NO_LIMIT), _longest(phase)))

    def close(self) -> None:
        """Close the ports that no phase has taken over."""
        for search in self._searches:
            search.stop()
        self._searches.clear()


def _longest(phase: ResolvedPhase) -> float:
    """Return the longest time that the load of a phase lasts with its warm-up, s; 1e9 without a duration."""
    return _NO_LIMIT if phase.duration is None else phase.longest_warmup + phase.duration


def damage_error(phase: ResolvedPhase, outcome: Outcome) -> GeneratorFailed | None:
    """Return the error of a phase whose input was not read to its end, with the number of stored events; else None."""
    sources = outcome.get("sources", {}).values()
    damage = [words for source in sources for words in source["damage"]]
    if not damage:
        return None
    accepted, stored = (sum(source[key] for source in sources) for key in ("accepted", "indexed"))
    return GeneratorFailed(
        f"phase {phase.name}: {'; '.join(damage)}; {format_count(stored)} of {counted(accepted, 'accepted event')}"
        " stored",
        remedy="replace the damaged input, and ingest it again: repeated events are stored once",
    )


def _require_fixed_port(name: str, address: str) -> None:
    """Refuse port 0 for the source `name` whose first event is awaited before the load."""
    if address.endswith(":0"):
        raise BadInput(
            f"--replace requires a fixed port: data is dropped once {name} has an event, and port 0 is assigned only"
            " when the load starts",
            remedy="name a port, or drop the data first",
        )


def documents(phase: ResolvedPhase, cluster: Cluster) -> int:
    """Return the number of all documents in the collections that the phase's sources write to, after a refresh."""
    forms = [form["take_in"] for form in phase.operations.values() if "take_in" in form]
    return sum(cluster.count(collection) for collection in {collection_of(form) for form in forms})


@dataclass(frozen=True)
class IngestResult:
    """Figures of one ingested source, and the number of documents in the store afterwards."""

    source: str
    figures: SourceFigures
    seconds: float
    documents: int
    run: str
    #: Time from arrival of an event to its storage, s, of the slowest operation. None if no event arrived.
    stored_after: Latency | None = None
    #: Time from the arrival of probed events until a query found them, s; None if none was probed.
    visibility: Latency | None = None
    #: Interval between two visibility queries, s.
    resolution: float | None = None
    #: How the store kept pace with arriving events. None without samples.
    pace: IngestPace | None = None
    #: The events of each collection; empty if the store cannot count them.
    stored: Sequence[StoredEvents] = ()

    @property
    def missing(self) -> dict[str, int]:
        """Acknowledged events that the collections lack: one label, that with the most causes, and the sum over all.

        Empty if the store cannot count.
        """
        labels = {collection.missing_label for collection in self.stored}
        # The label with the most causes fits all collections.
        label = max(labels, key=MISSING_LABELS.index, default="")
        return {label: sum(collection.missing for collection in self.stored)} if label else {}

    def as_dict(self) -> dict[str, Any]:
        """Return the result for JSON: counts, times in s, and rates in 1/s over the whole `seconds`."""
        figures, seconds = self.figures, self.seconds
        return {
            "source": self.source,
            "lines": figures.lines,
            "dropped": figures.dropped,
            "accepted": figures.accepted,
            "indexed": figures.indexed,
            "documents": self.documents,
            "collections": {collection.collection: _counts(collection) for collection in self.stored},
            "dead_letters": figures.dead,
            "dead_letters_by_reason": dict(figures.dead_letters),
            "left_over": figures.left_over,
            "indexed_by_kind": dict(figures.kinds),
            "spilled_events": figures.spilled_events,
            "spilled_bytes": figures.spilled_bytes,
            "most_spilled_bytes": figures.most_spilled_bytes,
            "held_back": figures.held_back,
            "buffer_full": figures.buffer_full,
            "unread_share": figures.unread_share,
            "trouble": list(figures.trouble),
            "connections": figures.connections,
            "bytes": figures.bytes,
            "seconds": seconds,
            "lines_per_second": figures.lines / seconds if seconds else 0.0,
            "indexed_per_second": figures.indexed / seconds if seconds else 0.0,
            "indexed_per_second_by_kind": {
                kind: count / seconds if seconds else 0.0 for kind, count in figures.kinds.items()
            },
            **{_key(label): count for label, count in self.missing.items()},
            **({} if self.pace is None else {"pace": self.pace.as_dict()}),
            **({} if self.stored_after is None else {"stored_after": _quantiles(self.stored_after)}),
            **({} if self.visibility is None else {"visibility": self._probes(self.visibility)}),
            "run": self.run,
        }

    def _probes(self, visibility: Latency) -> dict[str, Any]:
        """Return p50, p99 and maximum of visibility, its resolution (s), and the sampled, seen and unseen events."""
        figures = self.figures
        return {
            **_quantiles(visibility),
            "resolution": self.resolution,
            **{name: getattr(figures, name) for name in ("sampled", "seen", "unseen")},
        }


def _counts(stored: StoredEvents) -> dict[str, Any]:
    """Return the documents in a collection, and its events: indexed, added by kind, and missing, under its label."""
    return {
        "documents": stored.documents,
        "indexed": stored.indexed,
        "added_by_kind": dict(stored.events),
        _key(stored.missing_label): stored.missing,
    }


def _key(label: str) -> str:
    """Return a label with underscores for spaces, as a JSON key."""
    return label.replace(" ", "_")


def ingest_result(
    phases: Sequence[PhaseSummary],
    counted: int,
    run: str,
    *,
    stored: Sequence[StoredEvents] = (),
    pace: IngestPace | None = None,
) -> IngestResult:
    """Return the result for the source of a run's last phase, which must have exactly one (ValueError otherwise).

    `counted` is the number of documents in the store afterwards, `run` the path of the run's folder. `stored` has the
    counts of each collection (empty: not counted), `pace` how the store kept up (None: no samples).
    """
    phase = phases[-1]
    ((source, figures),) = phase.sources.items()
    operations = list(phase.operations.values())
    return IngestResult(
        source,
        figures,
        phase.warmup + phase.duration,
        counted,
        run,
        pace=pace,
        stored=stored,
        stored_after=_slowest(operations, STORED),
        visibility=_slowest(operations, VISIBLE),
        resolution=max((one.resolution for one in operations if one.resolution is not None), default=None),
    )


def _slowest(operations: Iterable[OperationFigures], part: str) -> Latency | None:
    """Return the response times of `part` (such as `event`) in the operation with its largest p99; None without one."""
    known = [operation.parts[part].response for operation in operations if part in operation.parts]
    return max(known, key=lambda latency: latency.p99 or 0.0, default=None)


def _quantiles(latency: Latency) -> dict[str, float | None]:
    """Return p50, p99 and maximum, s, by name."""
    return {name: latency.at(name) for name in ("p50", "p99", "max")}


def _dead_letter_file(phase: str, source: str) -> str:
    """Return the name of the dead-letter file of a source in a phase."""
    return f"dead-letters-{phase}-{source}.ndjson"


def with_spill_folder(plan: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return the plan with `folder` for the temporary spill files of its sources that spill to disk."""
    where = {"spill_folder": str(folder.absolute())}
    sources = {
        name: {**source, **(where if "spill" in source else {})} for name, source in plan.get("sources", {}).items()
    }
    return {**plan, "sources": sources} if sources else plan


def with_dead_letter_files(plan: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return the plan with the path of a dead-letter file in `folder` for each source; creates no file."""
    if "sources" not in plan:
        return plan
    files = {name: str((folder / _dead_letter_file(plan["phase"], name)).absolute()) for name in plan["sources"]}
    sources = {name: {**source, "dead_letters": files[name]} for name, source in plan["sources"].items()}
    return {**plan, "sources": sources}


def with_dead_letter_names(outcome: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return the outcome's sources, by name; `kept` is the name of a dead-letter file that exists in `folder`."""
    files = {name: _dead_letter_file(outcome["phase"], name) for name in outcome.get("sources", {})}
    return {
        name: {**source, **({"kept": files[name]} if (folder / files[name]).exists() else {})}
        for name, source in outcome.get("sources", {}).items()
    }


def with_limits(
    outcomes: Mapping[str, Mapping[str, Any]], sources: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Return each source's outcome with the limits of its buffer and spill, in bytes (spill 0 without one).

    The keys are `buffer` and `spill`. `outcomes` and `sources` (their definitions in the phase) are by name.
    """
    limits = {name: {"buffer": source["buffer"], "spill": source.get("spill", 0)} for name, source in sources.items()}
    return {name: {**outcome, **limits[name]} for name, outcome in outcomes.items()}
