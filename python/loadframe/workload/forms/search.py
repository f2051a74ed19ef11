"""What only the elasticsearch family (Elasticsearch and OpenSearch) can be asked."""

from typing import Any, Literal

from pydantic import Field

from loadframe.workload.forms.values import Hits, Id, Positive, Text
from loadframe.yamlfile import Model, Scalar


class Search(Model):
    """Search a collection: `body` in the store's query language, `size` hits, further `parameters` of the address."""

    collection: Text
    body: dict[str, Any] = Field(default_factory=dict)
    size: Hits | None = None
    request_cache: bool | None = None
    parameters: dict[str, Scalar] = Field(default_factory=dict)


class Get(Model):
    """Read one document by its id."""

    collection: Text
    id: Id


class Index(Model):
    """Write one document; without an id the store chooses one."""

    collection: Text
    id: Id | None = None
    document: dict[str, Any]


class SearchOfSeveral(Model):
    """One of several searches that are sent together."""

    collection: Text
    body: dict[str, Any] = Field(default_factory=dict)
    size: Hits | None = None
    request_cache: bool | None = None


class MultiSearch(Model):
    """Several searches in one request; each has to succeed."""

    searches: list[SearchOfSeveral] = Field(min_length=1)


class Aggregation(Model):
    """Aggregate what a query finds, without hits. Documents are the buckets of the outermost aggregations."""

    collection: Text
    aggregations: dict[str, Any] = Field(min_length=1)
    query: dict[str, Any] | None = None
    request_cache: bool | None = None


class CountDocuments(Model):
    """Count the documents of a collection, or those that match a query."""

    collection: Text
    query: dict[str, Any] | None = None


class Sql(Model):
    """A query in SQL, for stores that have it. Documents are the rows of the answer."""

    query: Text
    fetch_size: Positive | None = None


class Request(Model):
    """Any other request of the protocol."""

    method: Literal["GET", "HEAD", "POST", "PUT", "DELETE"]
    path: Text
    body: Any = None
    parameters: dict[str, Scalar] = Field(default_factory=dict)
