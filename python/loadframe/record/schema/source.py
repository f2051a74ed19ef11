"""What came of a source of events, and what the store has of it: parts of a run's summary."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from loadframe.record.schema.model import told


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFigures:
    """What came of a source of events in a phase, its warm-up included.

    Lines are accepted events and dead letters; accepted events were indexed, refused (dead letters, too) or left over.
    """

    lines: int = field(metadata=told("that came", "lines"))
    accepted: int = field(metadata=told("of these, events that were taken to be indexed", "events"))
    indexed: int = field(metadata=told("of these, those that the store acknowledged", "events"))
    left_over: int = field(
        default=0,
        metadata=told("of these, those that the store had neither acknowledged nor refused in the end", "events"),
    )
    sampled: int | None = field(
        default=None,
        metadata=told("of those, events that were looked for; only where that was asked", "events", absent=True),
    )
    seen: int | None = field(
        default=None, metadata=told("of the sampled ones, those that a query saw in time", "events", absent=True)
    )
    unseen: int | None = field(
        default=None,
        metadata=told(
            "of the sampled ones, those that no query saw in time; what is neither was not looked for to the end, since"
            " the phase was stopped",
            "events",
            absent=True,
        ),
    )
    dead_letters: Mapping[str, int] = field(
        default_factory=dict,
        metadata=told(
            "lines that are not events, and events that the store refused, by the reason", "lines", of="REASON"
        ),
    )
    kept: str | None = field(
        default=None, metadata=told("the member of this folder that has the dead letters", absent=True)
    )
    kinds: Mapping[str, int] = field(
        default_factory=dict,
        metadata=told("events that the store acknowledged, by their kind", "events", of="KIND"),
    )
    spilled_events: int = field(
        default=0, metadata=told("events that went to disk, since memory had no room for them", "events")
    )
    spilled_bytes: int = field(default=0, metadata=told("bytes that were written for them", "B"))
    most_spilled_bytes: int = field(default=0, metadata=told("the most of these on disk at a time", "B"))
    reader_cpu_share: float | None = field(
        default=None,
        metadata=told(
            "mean CPU share of the busiest thread that read it, in the measured window; null where it is not known",
            "share",
            null=True,
        ),
    )
    connections: int = field(default=0, metadata=told("that brought lines", "connections"))
    bytes: int = field(default=0, metadata=told("that came", "B"))
    address: str | None = field(default=None, metadata=told("where it listened", absent=True))
    trouble: tuple[str, ...] = field(
        default=(), metadata=told("what else went wrong, such as dead letters that could not be written", absent=True)
    )

    @property
    def dead(self) -> int:
        """All dead letters."""
        return sum(self.dead_letters.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEvents:
    """What a collection has, after the last phase, of the events that the run's sources brought.

    An event counts as there if a document has the field of its kind. Events that were acknowledged and are not there
    are missing: the store has lost them, or, where events may come twice, the same one was counted twice.
    """

    collection: str = field(metadata=told("where they are; `NAME-*` are the days of NAME"))
    documents: int = field(metadata=told("in it, whoever wrote them", "documents"))
    events: Mapping[str, int] = field(metadata=told("of this kind, more than before the run", "events", of="KIND"))
    indexed: int = field(metadata=told("that the store acknowledged, in all phases of the run", "events"))
    unique: bool = field(metadata=told("whether no event can have come twice, since the generator made them all"))
    acknowledged_at_kill: int | None = field(
        default=None,
        metadata=told(
            "of these, those that were acknowledged when the first node was killed, known to 0.2 s; only where one was",
            "events",
            absent=True,
        ),
    )

    @property
    def missing(self) -> int:
        """Events that were acknowledged and are not there."""
        return max(self.indexed - sum(self.events.values()), 0)
