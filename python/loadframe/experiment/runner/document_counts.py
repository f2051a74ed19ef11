"""Documents that collections should hold, and documents that the store holds.

An event is a field of its document, so documents that have the field are counted: a document from which a win was lost
is still there. What is missing then is what the store acknowledged and does not have.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loadframe.base.errors import LoadframeError
from loadframe.cluster import Cluster
from loadframe.cluster.events import KILLED, ClusterEvent
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


#: What each writing verb that was acknowledged does to the number of documents; None where only the store can tell.
_CHANGES: Mapping[str, int | None] = {
    "insert": 1,
    "create": 1,
    "delete": -1,
    "update": 0,
    "upsert": None,
    "take_in": None,
}
_WRITES = ("bulk", "insert", "index", "update", "upsert", "delete", "take_in")


@dataclass(frozen=True)
class Gain:
    """By how much documents become more with each document that an operation counts, or with each of its successes.

    Where only the store can tell (`sure` is False), each is taken for a new one.
    """

    amount: float
    by: str = "documents"  #: or `successes`
    sure: bool = True

    def as_dict(self) -> dict[str, Any]:
        """Return it as outcomes have it."""
        return dict(vars(self))


def written(form: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]] | None:
    """Return the kind of a request that writes documents, and what it says; None of all others."""
    return next(((kind, form[kind]) for kind in _WRITES if form.get(kind) is not None), None)


def change(
    kind: str, content: Mapping[str, Any], corpora: Mapping[str, Mapping[str, Any]], *, first: bool
) -> int | None:
    """Return what each document does to the count; None where only the store can tell. `first`: there are no others."""
    if content.get("conflicts"):
        return None
    action = content.get("action", "index") if kind == "bulk" else kind
    corpus = corpora.get(content.get("corpus", ""), {})
    if action == "index" and "id" not in content and corpus.get("encrypted", {}).get("of", corpus).get("actions"):
        # Action lines may repeat an id.
        return None
    if action in ("index", "upsert"):
        # Documents without an id are new ones, and so are those with ids as long as there are no others.
        return 1 if "id" not in content or (kind == "bulk" and first) else None
    return _CHANGES[action]


def gain(form: Mapping[str, Any], corpora: Mapping[str, Mapping[str, Any]], *, first: bool) -> Gain | None:
    """Return what an operation adds; None if nothing. `first`: its collection is empty when the load begins."""
    write = written(form)
    said = form.get("new_documents")
    if said is not None:
        return Gain(said, "documents" if write and write[0] == "bulk" else "successes") if said else None
    changed = 0 if write is None else change(*write, corpora, first=first)
    return Gain(1.0, sure=False) if changed is None else Gain(float(changed)) if changed else None


_NONE: Mapping[str, Mapping[str, Any]] = {}


class AcknowledgedDocuments:
    """Counts per collection since they were made."""

    def __init__(self) -> None:
        self._counts: dict[str, int | None] = {}

    def created(self, collection: str) -> None:
        """A collection is new and empty."""
        self._counts[collection] = 0

    @property
    def held(self) -> int | None:
        """All documents there are; None where nobody can know, or nothing was made."""
        counts = [count for count in self._counts.values() if count is not None]
        return sum(counts) if counts and len(counts) == len(self._counts) else None

    def gains(
        self, forms: Mapping[str, Mapping[str, Any]], corpora: Mapping[str, Mapping[str, Any]] = _NONE
    ) -> dict[str, dict[str, Any]]:
        """Return what each of these operations would add if the load began now; those that add nothing are left out."""
        collections = {name: write[1]["collection"] for name, form in forms.items() if (write := written(form))}
        known = {
            name: gain(form, corpora, first=self._counts.get(collections.get(name, "")) == 0)
            for name, form in forms.items()
        }
        return {name: added.as_dict() for name, added in known.items() if added}

    def add(
        self, form: Mapping[str, Any], documents: int, corpora: Mapping[str, Mapping[str, Any]] = _NONE
    ) -> str | None:
        """Count the documents that an operation was acknowledged, and return the collection if it writes to one."""
        write = written(form)
        # Collections that are made for the values of a field are not those that the workload defines.
        if write is None or write[1]["collection"] not in self._counts or write[1].get("per"):
            return None
        kind, content = write
        collection: str = content["collection"]
        count = self._counts[collection]
        changed = change(kind, content, corpora, first=count == 0)
        self._counts[collection] = None if count is None or changed is None else count + changed * documents
        return collection

    def difference(self, collection: str, counted: int) -> str | None:
        """Return a sentence if a collection holds another number of documents; None if not, or if nobody can know."""
        expected = self._counts.get(collection)
        if expected is None or expected == counted:
            return None
        return f"{collection} holds {counted:,} documents, but {expected:,} were acknowledged"
