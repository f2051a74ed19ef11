"""Counts in the store what a run's sources brought: events by their kinds, before the first phase and after the last.

An event is a field of its document, so documents that have the field are counted: a document from which a win was lost
is still there. What is missing then is what the store acknowledged and does not have.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loadframe.cluster import Cluster
from loadframe.cluster.events import KILLED, ClusterEvent
from loadframe.errors import LoadframeError
from loadframe.load import Outcome, Progress
from loadframe.record.schema.source import StoredEvents
from loadframe.workload import ResolvedPhase


def collection_of(form: Mapping[str, Any]) -> str:
    """Return where a `take_in` operation keeps its documents, in words that the store counts by."""
    # Each day is a collection of its own.
    return f"{form['collection']}-*" if form.get("daily") is not None else str(form["collection"])


@dataclass(frozen=True)
class _Place:
    """Where events of some sources go, and of which kinds they are."""

    collection: str
    kinds: tuple[str, ...]
    sources: frozenset[str]
    unique: bool  #: whether no event of theirs comes twice


class EventCount:
    """Counts the events of a run, which some of `phases` take in; nothing where none does."""

    def __init__(self, cluster: Cluster, phases: Iterable[ResolvedPhase]) -> None:
        self._cluster = cluster
        self._places = _places(phases)
        self._before: dict[str, Mapping[str, int]] = {}
        self._indexed = 0
        self._of_phase = 0
        self._at_kill: int | None = None

    def begin(self) -> bool:
        """Count what is there before the load, and return whether there is anything to count; LoadframeError if the
        store cannot."""
        for place in self._places:
            self._before[place.collection] = self._cluster.count_having(place.collection, place.kinds)
        return bool(self._places)

    def progress(self, progress: Progress) -> None:
        """Note how many events the store has acknowledged by now."""
        self._of_phase = sum(source.indexed for source in progress.sources.values())

    def ended(self, outcome: Outcome) -> None:
        """A phase is over: note how many events it has brought."""
        self._indexed += sum(said["indexed"] for said in outcome.get("sources", {}).values())
        self._of_phase = 0

    def changed(self, event: ClusterEvent) -> None:
        """Note how many were acknowledged when the first node was killed."""
        if event.kind == KILLED and self._at_kill is None:
            self._at_kill = self._indexed + self._of_phase

    def end(self, outcomes: Sequence[Outcome]) -> tuple[StoredEvents, ...]:
        """Count what is there after the load; LoadframeError if the store cannot."""
        return tuple(self._stored(place, outcomes) for place in self._places)

    def _stored(self, place: _Place, outcomes: Sequence[Outcome]) -> StoredEvents:
        before = self._before[place.collection]
        after = self._cluster.count_having(place.collection, place.kinds)
        indexed = sum(
            said["indexed"]
            for outcome in outcomes
            for source, said in outcome.get("sources", {}).items()
            if source in place.sources
        )
        return StoredEvents(
            collection=place.collection,
            documents=self._cluster.count(place.collection),
            events={kind: after[kind] - before[kind] for kind in place.kinds},
            indexed=indexed,
            unique=place.unique,
            acknowledged_at_kill=self._at_kill,
        )


def _places(phases: Iterable[ResolvedPhase]) -> list[_Place]:
    places: dict[str, _Place] = {}
    for phase in phases:
        for stream in phase.streams:
            if stream.source is None:
                continue
            source = phase.sources[stream.source]
            collection = collection_of(phase.operations[str(stream.operation)]["take_in"])
            place = places.get(collection, _Place(collection, (), frozenset(), unique=True))
            places[collection] = _Place(
                collection,
                tuple(dict.fromkeys([*place.kinds, *source["events"]["kinds"]])),
                place.sources | {stream.source},
                place.unique and "generate" in source,
            )
    return list(places.values())


def uncounted(error: LoadframeError) -> str:
    """Return the words for events that could not be counted in the store."""
    return f"the events could not be counted in the store: {error.what}"
