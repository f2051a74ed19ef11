"""Requests that only MongoDB supports. `command` is the command's document, without a model."""

from typing import Any, Literal

from pydantic import Field

from loadframe.workload.forms.values import Hits, Text
from loadframe.yamlfile import Model

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
