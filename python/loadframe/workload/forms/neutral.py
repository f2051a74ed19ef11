"""Neutral verbs, the same request for every store family, and requests that only some families support."""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from loadframe.workload.holes import Count, Fraction, Hits, Id, Positive, Routing, Text
from loadframe.yamlfile import NOT_EMPTY, Duration, Model, Scalar, wrong

#: Whether a write is visible to searches before its response: `true` refreshes at once, `wait_for` awaits a refresh.
Refreshed = bool | Literal["wait_for"]


class Write(Model):
    """A write. The elasticsearch family also supports `routing` (choice of the shard) and `refresh` (visibility)."""

    collection: Text
    id: Id
    routing: Routing = None
    refresh: Refreshed | None = None


class Insert(Write):
    """Add a document; an existing one is an error if the store detects it."""

    document: dict[str, Any]


class Read(Model):
    """Read one document, or only some of its fields."""

    collection: Text
    id: Id
    fields: list[Text] | None = None
    routing: Routing = None


class Update(Write):
    """Change some fields of an existing document."""

    document: dict[str, Any]


class Upsert(Write):
    """Change some fields of a document; create it if it is missing."""

    document: dict[str, Any]


class Delete(Write):
    """Remove a document."""


class Scan(Model):
    """Read up to `count` documents in id order.

    `by` is the field that holds the id, for stores that cannot sort by id.
    """

    collection: Text
    from_: Id = Field(alias="from")
    count: Count
    by: Text | None = None


class TakeIn(Model):
    """Ingest the events of a source: merge each into its document, in any order of arrival.

    A document has one field per kind of event. With `daily`, documents go to one collection per day (UTC),
    COLLECTION-YYYY.MM.DD: the day of the event's timestamp (`event`) or of its arrival (`arrival`). `arrival` splits
    documents whose events arrive on different days.

    `times` lists timestamp fields of events, as KIND.FIELD. MongoDB stores them as dates, which compare correctly
    across time zones and formats. Search engines use their mapping for this.
    """

    collection: Text
    daily: Literal["event", "arrival"] | None = None
    times: list[Annotated[str, Field(pattern=r"^[^.]+\.[^.]+$")]] | None = None


class DeleteDays(Model):
    """Delete the daily collections of a `take_in`: all, or with `keep` only those that ended longer ago.

    `collection` is that of the `take_in`. Ages follow the timestamps of events.
    """

    collection: Text
    keep: Annotated[Duration, Field(gt=0)] | None = None


class ReadModifyWrite(Model):
    """Read a document, then change some of its fields. Counts one document."""

    collection: Text
    id: Id
    document: dict[str, Any]


class Bulk(Model):
    """Send the next `size` documents of a corpus in one request; each document succeeds or fails separately.

    `id` is the field that holds the id of a document. With `conflicts`, ids are generated, and a document reuses an
    earlier id with `conflict_probability`. A `recency` above 0 prefers recent ids.

    Search engines only: `per` is a field whose values select the collection COLLECTION-VALUE, which the store creates.
    `pipeline` is an ingest pipeline, `routing` applies to all documents, and `parameters` go into the query string.
    """

    collection: Text
    corpus: Text
    size: Positive
    action: Literal["index", "create", "update", "upsert", "delete"] = "index"
    id: Text | None = None
    per: Text | None = None
    conflicts: Literal["sequential", "random"] | None = None
    conflict_probability: Fraction = 0.25
    on_conflict: Literal["index", "update"] = "index"
    recency: Fraction = 0.0
    pipeline: Text | None = None
    routing: Routing = None
    refresh: Refreshed | None = None
    parameters: dict[str, Scalar] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check_ids(self) -> "Bulk":
        """Refuse actions without the `id` that they require, and combinations of ids and conflicts."""
        if self.action in ("update", "upsert", "delete") and self.id is None:
            raise wrong(f"action: {self.action} requires id", "add id: the field with the document's id", key="action")
        if self.conflicts is None:
            for key in ("conflict_probability", "on_conflict", "recency"):
                if key in self.model_fields_set:
                    raise wrong(f"{key} requires conflicts", "add conflicts: sequential or random", key=key)
            return self
        if self.id is not None:
            raise wrong("id and conflicts exclude each other: conflicts generates ids", "remove one of them", key="id")
        if self.action != "index":
            what = f"conflicts requires action: index; got {self.action}"
            raise wrong(what, "remove action, and use on_conflict", key="action")
        return self


Consistency = Literal[
    "any", "one", "two", "three", "quorum", "all", "local_quorum", "each_quorum", "local_one", "serial", "local_serial"
]


class Cql(Model):
    """A CQL statement, with a `?` for each of its values."""

    statement: Text
    values: list[Any] = Field(default_factory=list)
    consistency: Consistency | None = None


Durability = Literal["none", "majority", "majority_and_persist_active", "persist_to_majority"]


class Query(Model):
    """An SQL++ statement, with parameters for `$1`, `$2`, ... (list) or `$name` (mapping)."""

    statement: Text
    parameters: list[Any] | dict[str, Any] = Field(default_factory=list)


#: Condition for acknowledging a write, weakest first.
WriteConcern = Literal["unacknowledged", "acknowledged", "journaled", "majority"]
#: Which members of a replica set are read from.
ReadPreference = Literal["primary", "primary_preferred", "secondary", "secondary_preferred", "nearest"]


class Find(Model):
    """Find documents that match a filter."""

    collection: Text
    filter: dict[str, Any] = Field(default_factory=dict)
    projection: dict[str, Any] | None = None
    sort: dict[str, Any] | None = None
    skip: Hits | None = None
    limit: Hits | None = None


class Aggregate(Model):
    """Run an aggregation pipeline."""

    collection: Text
    pipeline: list[dict[str, Any]]


ReadFrom = Literal["primary", "replica", "prefer_replica", "any"]


class Statement(Model):
    """A statement, values for its `$1`, `$2`, ..., and the number of rows that it must return or write."""

    statement: Text
    values: list[Any] = Field(default_factory=list)
    rows: Annotated[int, Field(ge=0)] | None = None


class Statements(Model):
    """One statement, or a transaction of several; prepared, or sent as text with the simple protocol."""

    statement: Text | None = None
    values: list[Any] = Field(default_factory=list)
    rows: Annotated[int, Field(ge=0)] | None = None
    transaction: Annotated[list[Statement], NOT_EMPTY] | None = None
    isolation: Literal["read_committed", "repeatable_read", "serializable"] | None = None
    protocol: Literal["prepared", "simple"] = "prepared"
    expect: Literal["commit", "rollback"] | None = None

    @model_validator(mode="after")
    def _check_transaction(self) -> "Statements":
        """Refuse a missing statement, and keys of one statement with a transaction or the reverse."""
        if self.transaction is None:
            if self.statement is None:
                raise wrong("sql lacks a statement", "add statement, or transaction with a list of statements")
            for key in ("isolation", "expect"):
                if getattr(self, key) is not None:
                    raise wrong(f"{key} requires transaction", f"remove {key}, or add transaction", key=key)
        else:
            for key in ("statement", "values", "rows"):
                if getattr(self, key):
                    raise wrong(f"{key} and transaction exclude each other", f"move {key} into transaction", key=key)
        return self
