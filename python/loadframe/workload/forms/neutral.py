"""The verbs that every family of stores understands, each in its own way: the same logical work on all of them."""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from loadframe.workload.forms.values import Count, Id, Positive, Routing, Share, Text
from loadframe.yamlfile import Duration, Model, Scalar, wrong

#: Whether what is written is visible to searches before it is answered, at once (`true`) or with the next refresh.
Refreshed = bool | Literal["wait_for"]


class Placed(Model):
    """A write whose shard can be chosen, and whose visibility can be waited for, in the elasticsearch family."""

    collection: Text
    id: Id
    routing: Routing = None
    refresh: Refreshed | None = None


class Insert(Placed):
    """Add a document; that one is there already is an error where the store can tell."""

    document: dict[str, Any]


class Read(Model):
    """Read one document, or only the named fields of it."""

    collection: Text
    id: Id
    fields: list[Text] | None = None
    routing: Routing = None


class Update(Placed):
    """Change some fields of a document that is there."""

    document: dict[str, Any]


class Upsert(Placed):
    """Change some fields of a document, which is made if it is not there."""

    document: dict[str, Any]


class Delete(Placed):
    """Remove a document."""


class Scan(Model):
    """Read up to `count` documents in the order of their ids; `by` is the field that holds them where the store knows
    no order of ids."""

    collection: Text
    from_: Id = Field(alias="from")
    count: Count
    by: Text | None = None


class TakeIn(Model):
    """Take the events of a source into the documents that they belong to, whichever of these comes first.

    A document has a field for each kind of event that has come for it. With `daily` it goes to the collection of a day
    (UTC), COLLECTION-YYYY.MM.DD where the store keeps days apart: that of the instant which the event names, or that of
    the event's own arrival, which leaves some documents in two pieces.

    `times` lists the fields of events that are instants, as KIND.FIELD. MongoDB stores them as dates, so that they
    compare as instants whatever their zone or form. Search engines have their mapping for that.
    """

    collection: Text
    daily: Literal["event", "arrival"] | None = None
    times: list[Annotated[str, Field(pattern=r"^[^.]+\.[^.]+$")]] | None = None


class DeleteDays(Model):
    """Delete the collections of days that `take_in` has made: all, or with `keep` those that were over longer ago.

    `collection` is that of `take_in`. Ages are those of the events.
    """

    collection: Text
    keep: Annotated[Duration, Field(gt=0)] | None = None


class ReadModifyWrite(Model):
    """Read a document, then change some of its fields."""

    collection: Text
    id: Id
    document: dict[str, Any]


class Bulk(Model):
    """Send the next `size` documents of a corpus in one request. Its documents count as successes one by one.

    `id` is the field of a document that holds its id. With `conflicts`, ids are made, and with `conflict_probability`
    a document gets one that was sent before: any of those, or with `recency` above 0 rather one of the latest.

    `per` is a field, too: each of its values has a collection of its own then, COLLECTION-VALUE, which the store makes.
    Search engines do that. They also take an ingest `pipeline`, a `routing` for all documents, `refresh`, and further
    `parameters` of the address.
    """

    collection: Text
    corpus: Text
    size: Positive
    action: Literal["index", "create", "update", "upsert", "delete"] = "index"
    id: Text | None = None
    per: Text | None = None
    conflicts: Literal["sequential", "random"] | None = None
    conflict_probability: Share = 0.25
    on_conflict: Literal["index", "update"] = "index"
    recency: Share = 0.0
    pipeline: Text | None = None
    routing: Routing = None
    refresh: Refreshed | None = None
    parameters: dict[str, Scalar] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _whose_ids(self) -> "Bulk":
        if self.action in ("update", "upsert", "delete") and self.id is None:
            what = f"{self.action} wants to know the documents' ids"
            raise wrong(what, "say id: the name of the field that holds them", key="action")
        if self.conflicts is None:
            for key in ("conflict_probability", "on_conflict", "recency"):
                if key in self.model_fields_set:
                    raise wrong(f"{key} is about conflicts", "say conflicts: sequential or random", key=key)
            return self
        if self.id is not None:
            raise wrong("conflicts make the ids themselves", "remove id, or conflicts", key="id")
        if self.action != "index":
            raise wrong("conflicts are for the action index", "say what happens by on_conflict", key="action")
        return self
