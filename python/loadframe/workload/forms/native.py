"""Requests that only Cassandra, Couchbase, MongoDB or PostgreSQL supports."""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from loadframe.workload.holes import Hits, Text
from loadframe.yamlfile import NOT_EMPTY, Model, wrong

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
