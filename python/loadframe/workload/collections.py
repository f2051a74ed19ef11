"""Collections: what a workload needs in the store, in the terms of each family."""

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import Field, ValidationError, model_validator

from loadframe.base.errors import BadInput
from loadframe.workload.forms import Text
from loadframe.workload.forms.couchbase import Durability
from loadframe.yamlfile import NOT_EMPTY, Model, Scalar, Size, did_you_mean, shown, wrong


class SearchIndex(Model):
    """An index of the elasticsearch family, as the store's create-index call has it.

    As a `data_stream`, or behind an alias for `rollover`, it consists of indices that the store makes one after the
    other. Their definition is a template then.
    """

    settings: dict[str, Any] = Field(default_factory=dict)
    mappings: dict[str, Any] = Field(default_factory=dict)
    aliases: dict[str, Any] = Field(default_factory=dict)
    data_stream: bool = False
    rollover: bool = False

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if self.data_stream and self.rollover:
            raise wrong("a data stream rolls over anyway", "remove rollover", key="rollover")
        return self


class CassandraTable(Model):
    """A table: its columns with their types, which of them is the id, and how the keyspace is replicated.

    A `key` of several columns begins with the one by whose value rows are kept together; the verbs want one column.
    `with` is what stands behind WITH in CREATE TABLE.
    """

    columns: Annotated[dict[Text, Text], NOT_EMPTY]
    key: Text | Annotated[list[Text], NOT_EMPTY] = "id"
    replication: dict[str, Scalar] | None = None
    with_: Text | None = Field(None, alias="with")


class MongoCollection(Model):
    """A collection: the key that it is sharded by, its indexes (the keys of each, as createIndexes has them), and the
    options of the create command."""

    shard_key: dict[str, Scalar] | None = None
    indexes: list[dict[str, Any]] | None = None
    options: dict[str, Any] | None = None


class RedisKeys(Model):
    """Keys of their own prefix, and whether an index of the ids is kept, which scans need; on single servers only."""

    index: bool | None = None


class CouchbaseCollection(Model):
    """A bucket: its copies, its memory on each node in bytes, the least durability of its writes, and whether it has a
    primary index, which scans need."""

    replicas: Annotated[int, Field(ge=0, le=3)] | None = None
    ram_quota: Size | None = None
    durability: Durability | None = None
    index: bool | None = None


class PostgresTable(Model):
    """A table: its columns with their types, which of them is the id (none with null), its indexes, and its storage.

    Without columns it has an id and the document, as jsonb. An index is what follows CREATE INDEX ON table, `with` what
    follows WITH in CREATE TABLE.
    """

    columns: Annotated[dict[Text, Text], NOT_EMPTY] | None = None
    key: Text | None = "id"
    indexes: list[Text] | None = None
    with_: Text | None = Field(None, alias="with")
    unlogged: bool | None = None


class Collection(Model):
    """A collection, defined for each family; where a family has no definition, the store's defaults apply."""

    elasticsearch: SearchIndex | None = None
    cassandra: CassandraTable | None = None
    mongodb: MongoCollection | None = None
    redis: RedisKeys | None = None
    couchbase: CouchbaseCollection | None = None
    postgresql: PostgresTable | None = None

    def definition(self, family: str) -> dict[str, Any]:
        """Return what to create the collection with; empty for the store's defaults."""
        definition: Model | None = getattr(self, family, None)
        return {} if definition is None else definition.model_dump(exclude_unset=True, by_alias=True)


#: What defines a collection in each family.
DEFINITIONS: Mapping[str, type[Model]] = {
    "elasticsearch": SearchIndex,
    "cassandra": CassandraTable,
    "mongodb": MongoCollection,
    "redis": RedisKeys,
    "couchbase": CouchbaseCollection,
    "postgresql": PostgresTable,
}


def redefined(definition: Mapping[str, Any], family: str, key: str, value: Any) -> dict[str, Any]:
    """Return a family's definition with another value for `settings.NAME` or another key; None takes it out.

    BadInput if a collection of this family has no such key, or not such a value.
    """
    model = DEFINITIONS.get(family)
    first, _, name = key.partition(".")
    known = [field.alias or attribute for attribute, field in model.model_fields.items()] if model else []
    if model is None or first not in known:
        raise BadInput(f"a collection of {family} has no {first!r}", remedy=did_you_mean(first, known))
    changed = dict(definition)
    if name:
        inner = {key: old for key, old in dict(changed.get(first) or {}).items() if key != name}
        changed[first] = inner if value is None else {**inner, name: value}
    elif value is None:
        changed.pop(first, None)
    else:
        changed[first] = value
    try:
        return model.model_validate(changed).model_dump(exclude_unset=True, by_alias=True)
    except ValidationError as error:
        what = f"{shown(value)} cannot be the {key} of a collection of {family}: {error.errors()[0]['msg']}"
        raise BadInput(what, remedy="see what its definition may hold in docs/workloads.md") from None
