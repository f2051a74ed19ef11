"""Collections: what a workload needs in the store, in each family's own terms."""

from typing import Annotated, Any

from pydantic import Field

from loadframe.workload.forms import Text
from loadframe.yamlfile import NOT_EMPTY, Model, Scalar, Size


class SearchIndex(Model):
    """An index of the elasticsearch family, as the store's create-index call has it."""

    settings: dict[str, Any] = Field(default_factory=dict)
    mappings: dict[str, Any] = Field(default_factory=dict)
    aliases: dict[str, Any] = Field(default_factory=dict)


class CassandraTable(Model):
    """A table: its columns with their types, which of them is the id, and how the keyspace is replicated.

    `with` is what stands behind WITH in CREATE TABLE.
    """

    columns: Annotated[dict[Text, Text], NOT_EMPTY]
    key: Text = "id"
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
    """A collection, and what the bucket that holds it wants: its replicas, and its memory on each node in bytes."""

    replicas: Annotated[int, Field(ge=0, le=3)] | None = None
    ram_quota: Size | None = None


class Collection(Model):
    """A collection, defined for each family; where a family has no definition, the store's defaults apply."""

    elasticsearch: SearchIndex | None = None
    cassandra: CassandraTable | None = None
    mongodb: MongoCollection | None = None
    redis: RedisKeys | None = None
    couchbase: CouchbaseCollection | None = None

    def definition(self, family: str) -> dict[str, Any]:
        """Return what to create the collection with; empty for the store's defaults."""
        definition: Model | None = getattr(self, family, None)
        return {} if definition is None else definition.model_dump(exclude_unset=True, by_alias=True)
