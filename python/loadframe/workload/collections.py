"""Collections: definitions of indices, tables and buckets, one per store family."""

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import Field, ValidationError, model_validator

from loadframe.base.errors import BadInput
from loadframe.workload.forms import Text
from loadframe.workload.forms.neutral import Durability
from loadframe.yamlfile import NOT_EMPTY, Model, Scalar, Size, did_you_mean, short_json, wrong


class SearchIndex(Model):
    """An index of the elasticsearch family: the body of the create-index request.

    With `data_stream`, or `rollover` (an alias that rolls over), the store creates a series of backing indices. The
    definition then becomes an index template.
    """

    settings: dict[str, Any] = Field(default_factory=dict)
    mappings: dict[str, Any] = Field(default_factory=dict)
    aliases: dict[str, Any] = Field(default_factory=dict)
    data_stream: bool = False
    rollover: bool = False

    @model_validator(mode="after")
    def _check_rollover(self) -> Self:
        """Refuse `rollover` with `data_stream`."""
        if self.data_stream and self.rollover:
            raise wrong("data_stream already includes rollover", "remove rollover", key="rollover")
        return self


class CassandraTable(Model):
    """A Cassandra table: column types, primary key, and the replication of its keyspace.

    The first column of a composite `key` is the partition key; the neutral verbs need a key of one column. `with` is
    the text after WITH in CREATE TABLE.
    """

    columns: Annotated[dict[Text, Text], NOT_EMPTY]
    key: Text | Annotated[list[Text], NOT_EMPTY] = "id"
    replication: dict[str, Scalar] | None = None
    with_: Text | None = Field(None, alias="with")


class MongoCollection(Model):
    """A MongoDB collection: its shard key, the key documents of its indexes, and options of the create command."""

    shard_key: dict[str, Scalar] | None = None
    indexes: list[dict[str, Any]] | None = None
    options: dict[str, Any] | None = None


class RedisKeys(Model):
    """Redis keys with a common prefix. `index` maintains a sorted set of ids for scans; single servers only."""

    index: bool | None = None


class CouchbaseCollection(Model):
    """A Couchbase bucket.

    `ram_quota` is the memory per node in bytes, `durability` the minimum for writes, `index` a primary index for scans.
    """

    replicas: Annotated[int, Field(ge=0, le=3)] | None = None
    ram_quota: Size | None = None
    durability: Durability | None = None
    index: bool | None = None


class PostgresTable(Model):
    """A PostgreSQL table: column types, the id column (null for none), indexes and storage options.

    Without columns, the table has an id and a jsonb document. An index is the text after CREATE INDEX ON table; `with`
    is the text after WITH in CREATE TABLE. In partitioned clusters, the hash of the column `partition_by` (default: the
    id column) spreads the rows.
    """

    columns: Annotated[dict[Text, Text], NOT_EMPTY] | None = None
    key: Text | None = "id"
    indexes: list[Text] | None = None
    with_: Text | None = Field(None, alias="with")
    unlogged: bool | None = None
    partition_by: Text | None = None


class Collection(Model):
    """A collection, with one definition per store family; without one, the store's defaults apply."""

    elasticsearch: SearchIndex | None = None
    cassandra: CassandraTable | None = None
    mongodb: MongoCollection | None = None
    redis: RedisKeys | None = None
    couchbase: CouchbaseCollection | None = None
    postgresql: PostgresTable | None = None

    def definition(self, family: str) -> dict[str, Any]:
        """Return the keys that the file sets for a family; empty without a definition, and for an unknown family."""
        definition: Model | None = getattr(self, family, None)
        return {} if definition is None else definition.model_dump(exclude_unset=True, by_alias=True)


#: The model of a collection's definition, by family.
DEFINITIONS: Mapping[str, type[Model]] = {
    "elasticsearch": SearchIndex,
    "cassandra": CassandraTable,
    "mongodb": MongoCollection,
    "redis": RedisKeys,
    "couchbase": CouchbaseCollection,
    "postgresql": PostgresTable,
}


def redefined(definition: Mapping[str, Any], family: str, key: str, value: Any) -> dict[str, Any]:
    """Return a copy of a collection's definition with one key set to `value`; None removes it.

    `key` is a key of the family's definition, or KEY.NAME for an entry in a mapping; NAME may contain dots. BadInput if
    a collection of this family does not have KEY, or the definition is invalid with the value.
    """
    model = DEFINITIONS.get(family)
    first, _, name = key.partition(".")
    known = [field.alias or attribute for attribute, field in model.model_fields.items()] if model else []
    if model is None or first not in known:
        raise BadInput(f"unknown key {first!r} for a collection of {family}", remedy=did_you_mean(first, known))
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
        what = f"invalid value {short_json(value)} for {key} of a collection of {family}: {error.errors()[0]['msg']}"
        raise BadInput(what, remedy="see docs/reference/workload-file/collections.md") from None
