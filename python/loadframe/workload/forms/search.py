"""Requests that only the elasticsearch family (Elasticsearch and OpenSearch) supports: searches and administration."""

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from loadframe.workload.forms.neutral import Refreshed
from loadframe.workload.holes import Body, Hits, Id, Positive, Routing, Text, names
from loadframe.yamlfile import Duration, Model, Scalar, Size, short_json, wrong


def _vector(value: Any) -> Any:
    """Return a value unchanged; refuse anything but a list of numbers or a text with a placeholder.

    The list must not be empty; its elements may also be texts.
    """
    numbers = isinstance(value, list) and all(isinstance(part, int | float | str) for part in value)
    if (numbers and value) or (isinstance(value, str) and list(names(value))):
        return value
    raise wrong(f"expected a list of numbers, not {short_json(value)}", 'or write a variable, such as "${vector}"')


class Search(Model):
    """Search a collection: `body` in the query DSL, `size` hits, `parameters` for the query string."""

    collection: Text
    body: Body = Field(default_factory=dict)
    size: Hits | None = None
    request_cache: bool | None = None
    parameters: dict[str, Scalar] = Field(default_factory=dict)
    routing: Routing = None


class Get(Model):
    """Read one document by its id, with its `routing` value."""

    collection: Text
    id: Id
    routing: Routing = None


class Index(Model):
    """Write one document; without an id, the store generates one."""

    collection: Text
    id: Id | None = None
    document: dict[str, Any]
    routing: Routing = None
    refresh: Refreshed | None = None


class GivenDocument(Model):
    """A document and its id."""

    id: Id
    document: Body


class IndexMany(Model):
    """Write several documents in one bulk request, with a common `routing`; replaces existing documents."""

    collection: Text
    documents: list[GivenDocument] = Field(min_length=1)
    routing: Routing = None
    refresh: Refreshed | None = None


class SearchOfSeveral(Model):
    """One of several searches that are sent together."""

    collection: Text
    body: Body = Field(default_factory=dict)
    size: Hits | None = None
    request_cache: bool | None = None


class MultiSearch(Model):
    """Several searches in one request; all must succeed."""

    searches: list[SearchOfSeveral] = Field(min_length=1)


class Aggregation(Model):
    """Aggregate the matches of a query, without hits. Counts the buckets of top-level aggregations as documents."""

    collection: Text
    aggregations: Annotated[Body, Field(min_length=1)]
    query: Body | None = None
    request_cache: bool | None = None


class CountDocuments(Model):
    """Count the documents of a collection, or the matches of a query."""

    collection: Text
    query: Body | None = None


class WithQuery(Model):
    """A query in a query language; `body` is the rest of the request body."""

    query: Text
    body: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check_body(self) -> Self:
        """Refuse a body with a query."""
        if "query" in self.body:
            raise wrong("body must not contain query", "move query out of body", key="body")
        return self


class Sql(WithQuery):
    """A query in SQL, for stores that support it. Counts rows as documents."""

    fetch_size: Positive | None = None


class Esql(WithQuery):
    """A query in ES|QL (Elasticsearch 8.11 or newer). Counts rows as documents."""

    parameters: dict[str, Scalar] = Field(default_factory=dict)


class Eql(WithQuery):
    """A query in EQL (Elasticsearch 7.9 or newer). Counts events or sequences as documents."""

    collection: Text
    parameters: dict[str, Scalar] = Field(default_factory=dict)


class Knn(Model):
    """Find the `k` nearest neighbours of a vector, considering `candidates` documents per shard."""

    collection: Text
    field: Text
    vector: Annotated[list[Any] | str, BeforeValidator(_vector)]
    k: Positive
    candidates: Positive | None = None
    filter: dict[str, Any] | None = None
    parameters: dict[str, Scalar] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check_candidates(self) -> Self:
        """Refuse fewer candidates than `k`."""
        if self.candidates is not None and self.candidates < self.k:
            what = f"candidates must be at least k, {self.k}; got {self.candidates}"
            raise wrong(what, "increase candidates", key="candidates")
        return self


class Request(Model):
    """Any other request to the HTTP API."""

    method: Literal["GET", "HEAD", "POST", "PUT", "DELETE"]
    path: Text
    body: Any = None
    parameters: dict[str, Scalar] = Field(default_factory=dict)


class CreateCollection(Model):
    """Create an index from its definition, or a data stream, which a template defines."""

    collection: Text
    settings: dict[str, Any] | None = None
    mappings: dict[str, Any] | None = None
    aliases: dict[str, Any] | None = None
    data_stream: bool = False

    @model_validator(mode="after")
    def _check_data_stream(self) -> Self:
        """Refuse a definition of a data stream, which a template defines."""
        for key in ("settings", "mappings", "aliases"):
            if self.data_stream and getattr(self, key) is not None:
                raise wrong(f"data_stream and {key} exclude each other", f"move {key} to put_template", key=key)
        return self


class DeleteCollection(Model):
    """Delete an index or data stream; a missing one is an error unless `ignore_missing` is true."""

    collection: Text
    ignore_missing: bool = False
    data_stream: bool = False


class PutSettings(Model):
    """Change settings of an existing index."""

    collection: Text
    settings: dict[str, Any]


class PutTemplate(Model):
    """Create a template for future indices or data streams that match `patterns`; the highest `priority` wins.

    `composed_of` names component templates.
    """

    name: Text
    patterns: list[Text] = Field(min_length=1)
    priority: Positive | None = None
    data_stream: bool = False
    composed_of: list[Text] | None = None
    settings: dict[str, Any] | None = None
    mappings: dict[str, Any] | None = None
    aliases: dict[str, Any] | None = None


class DeleteTemplate(Model):
    """Delete a template."""

    name: Text


class Aliases(Model):
    """Change aliases of indices; all `actions` apply atomically."""

    actions: list[dict[str, Any]] = Field(min_length=1)


class Refresh(Model):
    """Make recent writes visible to searches."""

    collection: Text


class Flush(Model):
    """Flush the translog of a collection to index files."""

    collection: Text
    force: bool | None = None


class ForceMerge(Model):
    """Merge the segments of a collection, optionally down to `max_segments` per shard.

    `only_expunge_deletes` merges only segments with deleted documents. A flush follows unless `flush` is false.
    """

    collection: Text
    max_segments: Positive | None = None
    only_expunge_deletes: bool | None = None
    flush: bool | None = None


class Rollover(Model):
    """Roll an alias or data stream over to a new index if one of the `conditions` holds, or always without any."""

    alias: Text
    to: Text | None = None
    conditions: dict[str, Any] | None = None
    settings: dict[str, Any] | None = None
    mappings: dict[str, Any] | None = None
    aliases: dict[str, Any] | None = None


class Shrink(Model):
    """Shrink an index to a new one with fewer shards. First moves its shards to one node and blocks writes."""

    from_: Text = Field(alias="from")
    to: Text
    settings: dict[str, Any] | None = None


class RollOver(Model):
    """Limits at which a day gets another index; the first one reached applies."""

    #: Visible documents.
    documents: Positive | None = None
    #: Bytes of the primary shards.
    size: Annotated[Size, Field(ge=1)] | None = None
    #: From the oldest to the newest document, by the timestamps of events.
    age: Annotated[Duration, Field(gt=0)] | None = None

    @model_validator(mode="after")
    def _check_limits(self) -> Self:
        """Refuse `roll_over` without a limit."""
        if self.documents is None and self.size is None and self.age is None:
            raise wrong("roll_over requires a limit", "add documents, size or age")
        return self


class ShrinkClosed(Model):
    """Shrinking of an index `after` its last day ended, so that late events still arrive."""

    after: Annotated[Duration, Field(ge=0)] = 3600.0
    shards: Positive = 1
    settings: dict[str, Any] | None = None
    #: Segments per shard to merge to after shrinking.
    segments: Positive | None = None


class ManageIndices(Model):
    """Manage the daily indices of a `take_in`: roll over, shrink, and delete after `keep`.

    `collection` is that of the `take_in`. `times` are the document fields with the timestamp that decides the day. Ages
    follow the timestamps of events.
    """

    collection: Text
    times: list[Text] = Field(min_length=1)
    roll_over: RollOver | None = None
    shrink: ShrinkClosed | None = None
    keep: Annotated[Duration, Field(gt=0)] | None = None

    @model_validator(mode="after")
    def _check_action(self) -> Self:
        """Refuse `manage_indices` without an action."""
        if self.roll_over is None and self.shrink is None and self.keep is None:
            raise wrong("manage_indices requires an action", "add roll_over, shrink or keep")
        return self


class CreateRepository(Model):
    """Create a snapshot repository in a folder that all nodes share and their `path.repo` allows."""

    repository: Text
    location: Text
    settings: dict[str, Any] | None = None


class Snapshot(Model):
    """Create a snapshot of collections in a repository; waits for completion unless `wait` is false."""

    repository: Text
    name: Text
    collections: Text | list[Text] | None = None
    wait: bool = True


class DeleteSnapshot(Model):
    """Delete a snapshot from its repository."""

    repository: Text
    name: Text


class WaitForHealth(Model):
    """Wait for a health status and a number of nodes; with `still`, also for no relocating or initializing shards."""

    collection: Text | None = None
    status: Literal["green", "yellow", "red"] = "green"
    nodes: Positive | None = None
    still: bool = False
    wait: Annotated[Duration, Field(gt=0)] = 30.0
