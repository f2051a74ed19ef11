"""What only MongoDB can be asked. Its `command` is the command's document, and has no model."""

from typing import Any, Literal

from pydantic import Field

from loadframe.workload.forms.values import Hits, Text
from loadframe.yamlfile import Model

#: What has to be done for a write before it is answered, the surest last.
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
    """Run an aggregation's stages."""

    collection: Text
    pipeline: list[dict[str, Any]]
