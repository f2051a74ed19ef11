"""Requests that only the elasticsearch family (Elasticsearch and OpenSearch) supports."""

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from loadframe.workload.forms.neutral import Refreshed
from loadframe.workload.forms.values import Body, Hits, Id, Positive, Routing, Text
from loadframe.workload.holes import names
from loadframe.yamlfile import Model, Scalar, shown, wrong


def _vector(value: Any) -> Any:
    numbers = isinstance(value, list) and all(isinstance(part, int | float | str) for part in value)
    if (numbers and value) or (isinstance(value, str) and list(names(value))):
        return value
    raise wrong(f"expected a list of numbers, not {shown(value)}", 'or write a variable, such as "${vector}"')


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
