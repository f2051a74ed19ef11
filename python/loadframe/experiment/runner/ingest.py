"""Taking the events of one source into a store: which phase does it, with what feed, and what came of it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from loadframe.base.errors import BadInput
from loadframe.cluster import Cluster
from loadframe.experiment.runner.document_counts import collection_of
from loadframe.record.schema.source import SourceFigures
from loadframe.record.schema.summary import Latency, PhaseSummary
from loadframe.workload import ResolvedPhase, Workload
from loadframe.workload.phases import Ended, Stream
from loadframe.workload.sources import Feed
from loadframe.yamlfile import did_you_mean

#: The part of an operation that is an event, from its arrival until a query has seen it.
VISIBLE = "visible"
#: The phase that is taken where a workload has several with sources.
DEFAULT_PHASE = "ingest"


def ingest_phase(workload: Workload, wanted: str | None) -> str:
    """Return the name of the phase that takes events in; BadInput if there is none, or if it is not clear which."""
    # Also those that run only when they are named.
    phases = {phase.name: phase for phase in workload.fill(1).file.phases if not phase.prepares}
    fed = {
        name: [stream.source for stream in phase.named_streams if stream.source is not None]
        for name, phase in phases.items()
    }
    names = [name for name, sources in fed.items() if sources]
    usual = [name for name in names if not phases[name].optional]
    if not names:
        remedy = "name one whose phases have a source, such as adbids, or add a source to it"
        raise BadInput(
            f"the workload {workload.name} takes no events in", where=str(workload.document.path), remedy=remedy
        )
    name = wanted or (DEFAULT_PHASE if DEFAULT_PHASE in usual else (usual or names)[0])
    if name not in names:
        what = f"the workload {workload.name} has no phase {name!r} that takes events in"
        raise BadInput(what, where="--only", remedy=did_you_mean(name, names))
    if len(fed[name]) > 1:
        what = (
            f"the phase {name!r} takes events from {' and '.join(map(str, fed[name]))}, and which is meant is not clear"
        )
        raise BadInput(what, where=str(workload.document.path), remedy="name a phase with one source by --only")
    return name


def with_feed(phase: ResolvedPhase, feed: Feed, *, workers: int | None, duration: float | None) -> ResolvedPhase:
    """Return the phase with the events of another feed, which it takes in until they end, or for a time in s."""
    (name,) = phase.sources
    fed = replace(phase, sources={name: feed.into(phase.sources[name])}, stop_when=())
    if duration is not None:
        fed = fed.override(duration=duration)
    streams = tuple(_until_all_is_sent(stream, workers, for_good=duration is None) for stream in fed.streams)
    if duration is not None:
        return replace(fed, streams=streams)
    (ending,) = (str(stream.name) for stream in streams if stream.source is not None)
    return replace(fed, streams=streams, stop="ended", ends_with=(ending,) if len(streams) > 1 else ())


def _until_all_is_sent(stream: Stream, workers: int | None, *, for_good: bool) -> Stream:
    if stream.source is None:
        return stream
    ends = {**dict.fromkeys(Ended.model_fields), "until": "exhausted"} if for_good else {}
    return stream.model_copy(update={"workers": workers or stream.workers, **ends})


def documents(phase: ResolvedPhase, cluster: Cluster) -> int:
    """Refresh and count the documents that the store has in the collections of a phase's events."""
    (form,) = (form["take_in"] for form in phase.operations.values() if "take_in" in form)
    return cluster.count(collection_of(form))


@dataclass(frozen=True)
class IngestResult:
    """What came of a source, and how many documents the store has afterwards."""

    source: str
    figures: SourceFigures
    seconds: float
    documents: int
    run: str
    #: From the arrival of the events that were looked for until a query saw them, s; None where none was.
    visibility: Latency | None = None
    #: The pause between two such queries, s.
    resolution: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return it for programs."""
        figures, seconds = self.figures, self.seconds
        return {
            "source": self.source,
            "lines": figures.lines,
            "accepted": figures.accepted,
            "indexed": figures.indexed,
            "documents": self.documents,
            "dead_letters": figures.dead,
            "dead_letters_by_reason": dict(figures.dead_letters),
            "left_over": figures.left_over,
            "indexed_by_kind": dict(figures.kinds),
            "spilled_events": figures.spilled_events,
            "spilled_bytes": figures.spilled_bytes,
            "most_spilled_bytes": figures.most_spilled_bytes,
            "trouble": list(figures.trouble),
            "connections": figures.connections,
            "bytes": figures.bytes,
            "seconds": seconds,
            "lines_per_second": figures.lines / seconds if seconds else 0.0,
            "indexed_per_second": figures.indexed / seconds if seconds else 0.0,
            "indexed_per_second_by_kind": {
                kind: count / seconds if seconds else 0.0 for kind, count in figures.kinds.items()
            },
            **({} if self.visibility is None else {"visibility": self._looked_for(self.visibility)}),
            "run": self.run,
        }

    def _looked_for(self, visibility: Latency) -> dict[str, Any]:
        figures = self.figures
        return {
            **{name: getattr(visibility, name) for name in ("p50", "p99", "max")},
            "resolution": self.resolution,
            **{name: getattr(figures, name) for name in ("sampled", "seen", "unseen")},
        }


def ingest_result(phases: Sequence[PhaseSummary], counted: int, run: str) -> IngestResult:
    """Return what came of the source of a run's last phase."""
    phase = phases[-1]
    ((source, figures),) = phase.sources.items()
    looking = [operation for operation in phase.operations.values() if VISIBLE in operation.parts]
    came = IngestResult(source, figures, phase.warmup + phase.duration, counted, run)
    if not looking:
        return came
    return replace(came, visibility=looking[0].parts[VISIBLE].response, resolution=looking[0].resolution)
