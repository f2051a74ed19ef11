"""Administration of the elasticsearch family: what changes or readies collections, and reads no documents."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from loadframe.workload.forms.values import Positive, Text
from loadframe.yamlfile import Duration, Model, Size, wrong


class CreateCollection(Model):
    """Make an index, as defined, or a data stream, which a template defines."""

    collection: Text
    settings: dict[str, Any] | None = None
    mappings: dict[str, Any] | None = None
    aliases: dict[str, Any] | None = None
    data_stream: bool = False

    @model_validator(mode="after")
    def _defined_once(self) -> Self:
        for key in ("settings", "mappings", "aliases"):
            if self.data_stream and getattr(self, key) is not None:
                raise wrong("a data stream is defined by its template", f"move {key} to put_template", key=key)
        return self


class DeleteCollection(Model):
    """Remove an index, or a data stream, with its documents; a missing one is an error without `ignore_missing`."""

    collection: Text
    ignore_missing: bool = False
    data_stream: bool = False


class PutSettings(Model):
    """Change settings of an index that is there."""

    collection: Text
    settings: dict[str, Any]


class PutTemplate(Model):
    """Define indices, or data streams, that will be made, by the `patterns` of their names; the highest `priority` wins

    `composed_of` names component templates.
    """

    name: Text
    patterns: list[Text] = Field(min_length=1)
    priority: Positive | None = None
    data_stream: bool = False
    composed_of: list[Text] | None = None
    settings: dict[str, Any] | None = None
    mappings: dict[str, Any] | None = None
    aliases: dict[str, Any] | None = None


class DeleteTemplate(Model):
    """Remove such a definition."""

    name: Text


class Aliases(Model):
    """Change other names of indices; all `actions` take effect at once."""

    actions: list[dict[str, Any]] = Field(min_length=1)


class Refresh(Model):
    """Make what was written visible to searches."""

    collection: Text


class Flush(Model):
    """Write what is only in the log to the index's own files."""

    collection: Text
    force: bool | None = None


class ForceMerge(Model):
    """Merge a collection's segments, down to `max_segments` per shard when it is given.

    `only_expunge_deletes` merges only those with deleted documents; `flush` is done afterwards unless it is false.
    """

    collection: Text
    max_segments: Positive | None = None
    only_expunge_deletes: bool | None = None
    flush: bool | None = None


class Rollover(Model):
    """Have an alias, or a data stream, write to a new index if one of the `conditions` is met.

    Without conditions it always does.
    """

    alias: Text
    to: Text | None = None
    conditions: dict[str, Any] | None = None
    settings: dict[str, Any] | None = None
    mappings: dict[str, Any] | None = None
    aliases: dict[str, Any] | None = None


class Shrink(Model):
    """Make an index with fewer shards from another, which is gathered on one node and closed to writes before."""

    from_: Text = Field(alias="from")
    to: Text
    settings: dict[str, Any] | None = None


class RollOver(Model):
    """When a day gets another index: as soon as the last one reaches one of these."""

    #: Those that are visible.
    documents: Positive | None = None
    #: Bytes of the primary shards.
    size: Annotated[Size, Field(ge=1)] | None = None
    #: From the index's beginning to its newest document, by the times of the events.
    age: Annotated[Duration, Field(gt=0)] | None = None

    @model_validator(mode="after")
    def _sometimes(self) -> Self:
        if self.documents is None and self.size is None and self.age is None:
            raise wrong("nothing says when a day gets another index", "say documents, size or age")
        return self


class ShrinkClosed(Model):
    """How an index is made smaller once no more events come for it, and how long after its end that is."""

    after: Annotated[Duration, Field(ge=0)] = 3600.0
    shards: Positive = 1
    settings: dict[str, Any] | None = None
    #: So many in each shard, once the new index is in its place.
    segments: Positive | None = None


class ManageIndices(Model):
    """Look after the indices that `take_in` grows, a day each or several: roll over, shrink, and delete old ones.

    `collection` is that of `take_in`, `times` are the fields of documents that hold the instant by which a document is
    placed. Ages are those of the events.
    """

    collection: Text
    times: list[Text] = Field(min_length=1)
    roll_over: RollOver | None = None
    shrink: ShrinkClosed | None = None
    keep: Annotated[Duration, Field(gt=0)] | None = None

    @model_validator(mode="after")
    def _does_something(self) -> Self:
        if self.roll_over is None and self.shrink is None and self.keep is None:
            raise wrong("nothing is to be done with the indices", "say roll_over, shrink or keep")
        return self


class CreateRepository(Model):
    """Name a folder for snapshots, which all nodes share and which their `path.repo` allows."""

    repository: Text
    location: Text
    settings: dict[str, Any] | None = None


class Snapshot(Model):
    """Copy collections into a repository; waits until they are there unless `wait` is false."""

    repository: Text
    name: Text
    collections: Text | list[Text] | None = None
    wait: bool = True


class DeleteSnapshot(Model):
    """Remove a snapshot from its repository."""

    repository: Text
    name: Text


class WaitForHealth(Model):
    """Wait for a status, for a number of nodes, and if `still` is true until no shard moves or comes up."""

    collection: Text | None = None
    status: Literal["green", "yellow", "red"] = "green"
    nodes: Positive | None = None
    still: bool = False
    wait: Annotated[Duration, Field(gt=0)] = 30.0
