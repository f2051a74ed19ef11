"""Counts of acknowledged documents and events, compared with counts in the store.

An event is a field of its document, so the documents with that field are counted: a document can exist without a later
event. The difference is data that the store acknowledged and lost.
"""

import csv
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loadframe.base import interrupts
from loadframe.base.errors import LoadframeError
from loadframe.base.event_kinds import KILLED
from loadframe.base.units import counted
from loadframe.cluster import Cluster
from loadframe.cluster.events import ClusterEvent
from loadframe.load import Outcome, Progress
from loadframe.record.schema.figures import StoredEvents
from loadframe.workload import ResolvedPhase
from loadframe.workload.collection_use import may_change_number

#: Pause between two counts, s.
COUNT_PAUSE = 1.0
#: Last words of a difference that shows no loss of acknowledged documents.
WITHOUT_ACKNOWLEDGEMENT = "written without acknowledgement"
#: Last words of a difference that evictions explain.
EVICTED = "the store evicted documents for lack of memory"


def collection_of(form: Mapping[str, Any]) -> str:
    """Return the collection of an operation's `take_in` form; the pattern `NAME-*` if each day has its own."""
    return f"{form['collection']}-*" if form.get("daily") is not None else str(form["collection"])


@dataclass(frozen=True)
class _EventCollection:
    """A collection that sources write events to."""

    collection: str
    sources: Mapping[str, tuple[str, ...]]  #: kinds of the events, by source
    unique: bool  #: whether each event is sent only once

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of the events of all its sources, without duplicates."""
        return tuple(dict.fromkeys(kind for kinds in self.sources.values() for kind in kinds))

    def acknowledged(self, counts: Mapping[str, Mapping[str, int]]) -> int:
        """Return the sum of `counts` (by source and kind) over its sources and kinds; missing ones count as 0."""
        return sum(counts.get(source, {}).get(kind, 0) for source, kinds in self.sources.items() for kind in kinds)


class EventCount:
    """Counts the events that a run ingests, before and after its load; empty if no phase ingests."""

    def __init__(self, cluster: Cluster, phases: Iterable[ResolvedPhase], uncountable: Collection[str] = ()) -> None:
        """Take the cluster that counts, and the phases with the sources to count.

        Events in the collections `uncountable` are not counted.
        """
        self._cluster = cluster
        self._places = [place for place in _places(phases) if place.collection.removesuffix("-*") not in uncountable]
        self._before: dict[str, Mapping[str, int]] = {}
        #: Whether the store counted the events before the load; None before `begin`.
        self.begun: bool | None = None
        self._indexed: Counter[str] = Counter()
        self._of_phase: Counter[str] = Counter()
        self._at_kill: Counter[str] | None = None

    def begin(self) -> None:
        """Count the events in the store before the first phase with sources; LoadframeError if the store cannot."""
        self.begun = False
        for place in self._places:
            self._before[place.collection] = self._cluster.count_having(place.collection, place.kinds)
        self.begun = True

    def progress(self, progress: Progress) -> None:
        """Update the number of events that the store has acknowledged in this phase."""
        self._of_phase = self._acknowledged({name: source.kinds for name, source in progress.sources.items()})

    def ended(self, outcome: Outcome) -> None:
        """Add the acknowledged events of a finished phase to the run's, and reset the current phase's."""
        self._indexed += self._acknowledged(_kinds(outcome))
        self._of_phase = Counter()

    def _acknowledged(self, counts: Mapping[str, Mapping[str, int]]) -> Counter[str]:
        """Return the number of acknowledged events by collection, from counts by source, then kind."""
        return Counter({place.collection: place.acknowledged(counts) for place in self._places})

    def changed(self, event: ClusterEvent) -> None:
        """Store the acknowledged events so far, by collection, at the first KILLED event of the run; ignore others."""
        if event.kind == KILLED and self._at_kill is None:
            self._at_kill = self._indexed + self._of_phase

    def end(self, outcomes: Sequence[Outcome]) -> tuple[StoredEvents, ...]:
        """Count the events in the store after the load; requires `begin`. LoadframeError if the store cannot count.

        Counts again until none is missing, up to the store's `count_lag`, or until an interrupt.
        """
        began = time.monotonic()
        while True:
            stored = tuple(self._stored(place, outcomes) for place in self._places)
            late = interrupts.pending() or time.monotonic() - began >= self._cluster.store.count_lag
            if late or not any(events.missing for events in stored):
                return stored
            time.sleep(COUNT_PAUSE)

    def _stored(self, place: _EventCollection, outcomes: Sequence[Outcome]) -> StoredEvents:
        """Count the events in a collection now; return the new ones of the run, by kind, and the acknowledged ones.

        `outcomes` has one entry for each phase of the run. `unique` is False if the collection held
        events before, or if not all sources generate theirs. Requires `begin`.
        """
        before = self._before[place.collection]
        stored_before = sum(before.values())
        after = self._cluster.count_having(place.collection, place.kinds)
        return StoredEvents(
            collection=place.collection,
            documents=self._cluster.count(place.collection),
            events={kind: after[kind] - before[kind] for kind in place.kinds},
            indexed=sum(place.acknowledged(_kinds(outcome)) for outcome in outcomes),
            # The events of an earlier run can come again.
            unique=place.unique and not stored_before,
            before=stored_before,
            acknowledged_at_kill=None if self._at_kill is None else self._at_kill[place.collection],
        )


def _kinds(outcome: Outcome) -> dict[str, Mapping[str, int]]:
    """Return the acknowledged events by source, then kind, from a phase's outcome; empty without sources."""
    return {name: source["kinds"] for name, source in outcome.get("sources", {}).items()}


def _places(phases: Iterable[ResolvedPhase]) -> list[_EventCollection]:
    """Return the collections that the phases' sources write to, with the kinds of their events by source.

    `unique` is set if all sources of a collection generate their events.
    """
    places: dict[str, _EventCollection] = {}
    for phase in phases:
        for stream in phase.streams:
            if stream.source is None:
                continue
            source = phase.sources[stream.source]
            for operation in stream.weights:
                collection = collection_of(phase.operations[operation]["take_in"])
                place = places.get(collection, _EventCollection(collection, {}, unique=True))
                kinds = (*place.sources.get(stream.source, ()), *stream.kinds_of(operation, source["events"]["kinds"]))
                places[collection] = _EventCollection(
                    collection,
                    {**place.sources, stream.source: tuple(dict.fromkeys(kinds))},
                    place.unique and "generate" in source,
                )
    return list(places.values())


def uncounted(error: LoadframeError) -> str:
    """Return the remark for a count of events that failed with `error`."""
    return f"could not count the events in the store: {error.what}"


#: Change of the number of documents by each acknowledged write; None if it depends on the store's content.
_CHANGES: Mapping[str, int | None] = {
    "insert": 1,
    "create": 1,
    "delete": -1,
    "update": 0,
    "upsert": None,
    "take_in": None,
}
#: Change by writes that may meet missing documents, where it is not 1. Cassandra's UPDATE can create a row.
_POSSIBLE = {"delete": -1, "update": 0}
#: Error classes of requests that the store may have carried out.
_UNANSWERED = ("connect", "timeout")
_WRITES = ("bulk", "insert", "index", "update", "upsert", "delete", "take_in")


@dataclass(frozen=True)
class Gain:
    """Growth of a collection by one operation: `amount`, negative for deletions, for each document or success."""

    amount: float
    by: str = "documents"  #: or `successes`
    #: False if the growth depends on the store's content; then every insert counts as a new document
    sure: bool = True

    def as_dict(self) -> dict[str, Any]:
        """Return the gain as it is stored in outcomes."""
        return dict(vars(self))


def written_content(form: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]] | None:
    """Return the kind and the content of a form that writes documents, such as `("bulk", {...})`; None for others."""
    return next(((kind, form[kind]) for kind in _WRITES if form.get(kind) is not None), None)


def retries_of_warmup(folder: Path) -> Counter[tuple[str, str]]:
    """Return the retries in the warm-up of a phase, by stream and operation, from its folder; outcomes lack them."""
    retries = Counter[tuple[str, str]]()
    with (folder / "series.csv").open(newline="", encoding="utf-8") as rows:
        for row in csv.DictReader(rows):
            if row["segment"] == "warmup":
                retries[row["stream"], row["operation"]] += int(row["retries"])
    return retries


def unanswered_documents(form: Mapping[str, Any], operation: Mapping[str, Any], warmup_retries: int = 0) -> int:
    """Return the most documents that requests without an answer may have written, from the operation's outcome.

    These are requests in flight at the end and, after a connection error or timeout, all failed requests and retries
    except failures known to be of another class; times `size` for a bulk. `warmup_retries` are those of the warm-up.
    """
    bulk = form.get("bulk") or {}
    # A bulk may fail by an item although others had no answer. Failed items of deletions are mostly missing documents.
    classes = (*_UNANSWERED, "item") if bulk and bulk.get("action") != "delete" else _UNANSWERED
    requests: int = operation["in_flight_at_end"]
    # Outcomes have a message of each class that occurred, but not all of its messages.
    if any(error["class"] in classes for error in operation["errors"]):
        requests += sum(counts["requests"] - counts["successes"] for counts in (operation, operation["warmup"]))
        requests -= sum(error["count"] for error in operation["errors"] if error["class"] not in classes)
        # The attempt before a retry may have had no answer either.
        requests += operation["retries"] + warmup_retries
    return requests * int(bulk.get("size", 1))


def unacknowledged(form: Mapping[str, Any]) -> bool:
    """Return whether a form has `write_concern: unacknowledged`: the store reports neither writes nor failures."""
    return form.get("write_concern") == "unacknowledged"


def change(
    kind: str,
    content: Mapping[str, Any],
    corpora: Mapping[str, Mapping[str, Any]],
    *,
    first: bool,
    new_ids: bool,
) -> int | None:
    """Return by how much each document changes the count: 1, 0 or -1; None if that depends on the store's content.

    `kind` and `content` are the result of `written_content`; `corpora` has the phase's corpora by name. `first`: the
    collection is empty. `new_ids`: the store gives a document without an id a new one.
    """
    if content.get("conflicts"):
        return None
    action = content.get("action", "index") if kind == "bulk" else kind
    corpus = corpora.get(content.get("corpus", ""), {})
    if action == "index" and "id" not in content and corpus.get("encrypted", {}).get("of", corpus).get("actions"):
        # Action lines may repeat an id.
        return None
    if action in ("index", "upsert"):
        # Documents with a new id are new, and so are all documents of a corpus in an empty collection.
        return 1 if ("id" not in content and new_ids) or (kind == "bulk" and first) else None
    return _CHANGES[action]


_NONE: Mapping[str, Mapping[str, Any]] = {}


class AcknowledgedDocuments:
    """Number of acknowledged documents in each collection that was created here.

    `form` is the request of an operation for the store's family.
    """

    def __init__(self, *, new_ids: bool, blind_writes: bool, uncountable: Collection[str] = ()) -> None:
        """Begin without collections. See `Store` for the arguments.

        The store removes documents of the collections `uncountable`; their number is never known.
        """
        self._new_ids, self._blind_writes, self._uncountable = new_ids, blind_writes, uncountable
        self._counts: dict[str, int | None] = {}
        #: Documents that the store may lack, because it did not acknowledge their writes; 0 if it only deleted so.
        self._unacknowledged: Counter[str] = Counter()
        #: Changes of the number by requests without an answer, if the store carried them out: additions and deletions.
        self._added, self._deleted = Counter[str](), Counter[str]()
        #: Missing documents that evictions explain.
        self._evicted: Counter[str] = Counter()

    def created(self, collection: str) -> None:
        """Count a new, empty collection from 0."""
        self._counts[collection] = None if collection in self._uncountable else 0
        for counter in (self._unacknowledged, self._added, self._deleted, self._evicted):
            counter.pop(collection, None)

    def forget(self) -> None:
        """Mark all counts as unknown, after requests that may have added or removed documents."""
        self._counts = dict.fromkeys(self._counts)

    @property
    def held(self) -> int | None:
        """Total number of documents; None if a count is unknown or no collection was created."""
        counts = [count for count in self._counts.values() if count is not None]
        return sum(counts) if counts and len(counts) == len(self._counts) else None

    def gains(
        self, forms: Mapping[str, Mapping[str, Any]], corpora: Mapping[str, Mapping[str, Any]] = _NONE
    ) -> dict[str, dict[str, Any]]:
        """Return the gain (`Gain.as_dict`) of each operation that changes the number, for a load that starts now.

        `forms` and `corpora` are the phase's, by name. Empty, because the growth is unknown, if a deletion may meet
        missing documents, the store removes documents of a written collection, or other requests may change the number.
        """
        if any(self._is_unknown(form) for form in forms.values()):
            return {}
        known = {name: gain for name, form in forms.items() if (gain := self._gain(form, corpora))}
        if any(gain.amount < 0 and not gain.sure for gain in known.values()):
            return {}
        return {name: gain.as_dict() for name, gain in known.items()}

    def add(
        self,
        form: Mapping[str, Any],
        documents: int,
        corpora: Mapping[str, Mapping[str, Any]] = _NONE,
        *,
        unanswered: int = 0,
    ) -> str | None:
        """Add the acknowledged documents of an operation to the count of its collection, and return the collection.

        `documents` is their number, and `unanswered` that of documents in requests without an answer. None, without a
        change, if the operation does not write a counted collection. The count becomes unknown if the change depends on
        the store's content.
        """
        collection = self._counted(form)
        if collection is None:
            return None
        count, changed = self._counts[collection], self._change(form, corpora)
        self._counts[collection] = None if count is None or changed is None else count + changed * documents
        self._added[collection] += max((changed or 0) * unanswered, 0)
        self._deleted[collection] += max(-(changed or 0) * unanswered, 0)
        if unacknowledged(form):
            self._unacknowledged[collection] += max((changed or 0) * documents, 0)
        return collection

    def _is_unknown(self, form: Mapping[str, Any]) -> bool:
        """Return whether nothing is known about the growth by an operation.

        Known are forms with `new_documents` or `target`, and writes to collections that are countable; unknown are
        other forms that may change the number.
        """
        if form.get("new_documents") is not None or form.get("target"):
            return False
        write = written_content(form)
        return may_change_number(form) if write is None else write[1]["collection"] in self._uncountable

    def _counted(self, form: Mapping[str, Any]) -> str | None:
        """Return the counted collection that an operation writes, or None for others, and with `per` or `target`."""
        write = written_content(form)
        # `per` creates a collection for each field value, and `target` names another server.
        if write is None or write[1]["collection"] not in self._counts or write[1].get("per") or form.get("target"):
            return None
        return str(write[1]["collection"])

    def _change(self, form: Mapping[str, Any], corpora: Mapping[str, Mapping[str, Any]]) -> int | None:
        """Return how much each document of a write changes the count; 0 for other operations.

        None if that depends on the store's content.
        """
        write = written_content(form)
        if write is None:
            return 0
        first = self._counts.get(self._counted(form) or "") == 0
        changed = change(*write, corpora, first=first, new_ids=self._new_ids)
        return None if self._blind_writes and not (write[0] == "bulk" and first and changed == 1) else changed

    def _gain(self, form: Mapping[str, Any], corpora: Mapping[str, Mapping[str, Any]]) -> Gain | None:
        """Return the growth of a collection by an operation; None if the number does not change.

        `new_documents` of the operation takes precedence. Other writes to an additional target do not count.
        """
        write = written_content(form)
        declared = form.get("new_documents")
        if declared is not None:
            return Gain(declared, "documents" if write and write[0] == "bulk" else "successes") if declared else None
        if write is None or form.get("target"):
            return None
        changed = self._change(form, corpora)
        if changed is not None:
            return Gain(float(changed), sure=not unacknowledged(form)) if changed else None
        kind, content = write
        action = content.get("action", "index") if kind == "bulk" else kind
        return Gain(float(_POSSIBLE.get(action, 1)), sure=False)

    def difference(self, collection: str, stored: int, evicted: int = 0) -> str | None:
        """Return a sentence if the store's count `stored` differs from the expected one; None if equal or unknown.

        Requests without an answer make the expected number a range. The sentence is about acknowledged documents if the
        store holds fewer than these. It ends with EVICTED if the missing ones can be among the `evicted` documents of
        all collections, less those missing in other collections.
        """
        self._evicted[collection] = 0
        expected = self._counts.get(collection)
        if expected is None or expected - self._deleted[collection] <= stored <= expected + self._added[collection]:
            return None
        how = WITHOUT_ACKNOWLEDGEMENT if collection in self._unacknowledged else "acknowledged"
        certain = expected - self._unacknowledged[collection]
        missing = certain - self._deleted[collection] - stored
        if missing > 0:
            expected, how = certain, "acknowledged"
            if missing <= evicted - self._evicted.total():
                self._evicted[collection] = missing
                how += f": {EVICTED}"
        return f"{collection} holds {counted(stored, 'document')}, but {expected:,} were {how}"
