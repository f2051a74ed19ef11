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


class Refresh(Model):
    """Make what was written visible to searches."""

    collection: Text


class ForceMerge(Model):
    """Merge a collection's segments, down to `max_segments` per shard when it is given."""

    collection: Text
    max_segments: Positive | None = None


class Request(Model):
    """Any other request of the protocol."""

    method: Literal["GET", "HEAD", "POST", "PUT", "DELETE"]
    path: Text
    body: Any = None
    parameters: dict[str, Scalar] = Field(default_factory=dict)
