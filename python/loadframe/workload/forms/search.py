"""What only the elasticsearch family (Elasticsearch and OpenSearch) can be asked."""

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
    """Search a collection: `body` in the store's query language, `size` hits, further `parameters` of the address."""

    collection: Text
    body: Body = Field(default_factory=dict)
    size: Hits | None = None
    request_cache: bool | None = None
    parameters: dict[str, Scalar] = Field(default_factory=dict)
    routing: Routing = None


class Get(Model):
    """Read one document by its id, on the shard that its `routing` leads to."""

    collection: Text
    id: Id
    routing: Routing = None


class Index(Model):
    """Write one document; without an id the store chooses one."""

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
    """Write a few documents in one bulk request, all with the same `routing`; those that are there are replaced."""

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
    """Several searches in one request; each has to succeed."""

    searches: list[SearchOfSeveral] = Field(min_length=1)


class Aggregation(Model):
    """Aggregate what a query finds, without hits. Documents are the buckets of the outermost aggregations."""

    collection: Text
    aggregations: Annotated[Body, Field(min_length=1)]
    query: Body | None = None
    request_cache: bool | None = None


class CountDocuments(Model):
    """Count the documents of a collection, or those that match a query."""

    collection: Text
    query: Body | None = None


class WithQuery(Model):
    """A query in its own language; `body` is the rest of the request's body."""

    query: Text
    body: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _one_query(self) -> Self:
        if "query" in self.body:
            raise wrong("the query stands beside the body", "remove it from the body", key="body")
        return self


class Sql(WithQuery):
    """A query in SQL, for stores that have it. Documents are the rows of the answer."""

    fetch_size: Positive | None = None


class Esql(WithQuery):
    """A query in ES|QL, which Elasticsearch has from 8.11 on. Documents are the rows of the answer."""

    parameters: dict[str, Scalar] = Field(default_factory=dict)


class Eql(WithQuery):
    """A query in EQL, which Elasticsearch has from 7.9 on. Documents are the events, or sequences, of the answer."""

    collection: Text
    parameters: dict[str, Scalar] = Field(default_factory=dict)


class Knn(Model):
    """The `k` documents whose vectors are nearest to one; of each shard `candidates` are looked at."""

    collection: Text
    field: Text
    vector: Annotated[list[Any] | str, BeforeValidator(_vector)]
    k: Positive
    candidates: Positive | None = None
    filter: dict[str, Any] | None = None
    parameters: dict[str, Scalar] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _enough(self) -> Self:
        if self.candidates is not None and self.candidates < self.k:
            raise wrong(f"{self.k} neighbours are not among {self.candidates} candidates", key="candidates")
        return self


class Request(Model):
    """Any other request of the protocol."""

    method: Literal["GET", "HEAD", "POST", "PUT", "DELETE"]
    path: Text
    body: Any = None
    parameters: dict[str, Scalar] = Field(default_factory=dict)
