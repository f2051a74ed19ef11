"""Figures of a source of events, and of its events in the store, in a run's summary."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from loadframe.record.schema.model import doc_metadata


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFigures:
    """Figures of a source of events in a phase, including its warm-up.

    A line is an accepted event or a dead letter. An accepted event is indexed, rejected (also a dead letter) or left
    over.
    """

    lines: int = field(metadata=doc_metadata("received lines", "lines"))
    accepted: int = field(metadata=doc_metadata("events accepted for indexing", "events"))
    indexed: int = field(metadata=doc_metadata("accepted events that the store acknowledged", "events"))
    left_over: int = field(
        default=0,
        metadata=doc_metadata("accepted events that the store neither acknowledged nor rejected by the end", "events"),
    )
    sampled: int | None = field(
        default=None,
        metadata=doc_metadata("events with a visibility probe; only if probes were configured", "events", absent=True),
    )
    seen: int | None = field(
        default=None, metadata=doc_metadata("probed events that a query returned in time", "events", absent=True)
    )
    unseen: int | None = field(
        default=None,
        metadata=doc_metadata(
            "probed events that no query returned in time; the end of the phase stopped the probes of the remaining"
            " events",
            "events",
            absent=True,
        ),
    )
    dead_letters: Mapping[str, int] = field(
        default_factory=dict,
        metadata=doc_metadata("invalid lines, and events that the store rejected, by reason", "lines", of="REASON"),
    )
    kept: str | None = field(
        default=None, metadata=doc_metadata("file of this folder with the dead letters", absent=True)
    )
    kinds: Mapping[str, int] = field(
        default_factory=dict,
        metadata=doc_metadata("events that the store acknowledged, by kind", "events", of="KIND"),
    )
    spilled_events: int = field(
        default=0, metadata=doc_metadata("events spilled to disk because memory was full", "events")
    )
    spilled_bytes: int = field(default=0, metadata=doc_metadata("bytes written for spilled events", "B"))
    most_spilled_bytes: int = field(default=0, metadata=doc_metadata("maximum of spilled bytes on disk at a time", "B"))
    reader_cpu_share: float | None = field(
        default=None,
        metadata=doc_metadata(
            "mean CPU share of the busiest thread that read the source, in the measured window; null if unknown",
            "share",
            null=True,
        ),
    )
    connections: int = field(default=0, metadata=doc_metadata("connections that sent lines", "connections"))
    bytes: int = field(default=0, metadata=doc_metadata("received bytes", "B"))
    address: str | None = field(
        default=None, metadata=doc_metadata("the address on which the source listened", absent=True)
    )
    trouble: tuple[str, ...] = field(
        default=(), metadata=doc_metadata("other problems, such as dead letters that could not be written", absent=True)
    )

    @property
    def dead(self) -> int:
        """Number of dead letters, all reasons together."""
        return sum(self.dead_letters.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEvents:
    """The events of the run's sources in a collection after the last phase.

    An event is in the store if a document has the field of its kind. Acknowledged events that are not in the store are
    missing: the store lost them, or they were duplicates.
    """

    collection: str = field(metadata=doc_metadata("the collection; `NAME-*` are the daily collections of NAME"))
    documents: int = field(metadata=doc_metadata("all documents in it", "documents"))
    events: Mapping[str, int] = field(metadata=doc_metadata("increase of the events of this kind", "events", of="KIND"))
    indexed: int = field(metadata=doc_metadata("acknowledged by the store in all phases of the run", "events"))
    unique: bool = field(
        metadata=doc_metadata("whether duplicates are impossible, because the generator made all events")
    )
    acknowledged_at_kill: int | None = field(
        default=None,
        metadata=doc_metadata(
            "events acknowledged before the first kill of a node, to 0.2 s; only if a node was killed",
            "events",
            absent=True,
        ),
    )

    @property
    def missing(self) -> int:
        """Number of acknowledged events that are not in the store."""
        return max(self.indexed - sum(self.events.values()), 0)
