"""Operations: one request to a store, in the forms that the families of stores have for it.

Models only: what an operation may say. Bytes are made of it by the engine's drivers, whose interface the dumped forms
are. Bodies, paths and ids may hold `${variable}` holes, which are filled per request.
"""

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from loadframe.yamlfile import Duration, Model, Scalar, wrong

Family = Literal["elasticsearch"]

#: Forms that every family understands, and those that one family has for itself.
NEUTRAL = ("bulk",)
NATIVE: dict[Family, tuple[str, ...]] = {
    "elasticsearch": ("search", "get", "index", "update", "delete", "refresh", "force_merge", "request")
}

Text = Annotated[str, Field(min_length=1)]
Positive = Annotated[int, Field(ge=1)]


class Bulk(Model):
    """Send the next `size` documents of a corpus in one request. Its documents count as successes one by one."""

    collection: Text
    corpus: Text
    size: Positive
    action: Literal["index", "create"] = "index"


class Search(Model):
    """Search a collection: `body` in the store's query language, `size` hits, further `parameters` of the address."""

    collection: Text
    body: dict[str, Any] = Field(default_factory=dict)
    size: Annotated[int, Field(ge=0)] | None = None
    request_cache: bool | None = None
    parameters: dict[str, Scalar] = Field(default_factory=dict)


class Get(Model):
    """Read one document by its id."""

    collection: Text
    id: Text


class Index(Model):
    """Write one document; without an id the store chooses one."""

    collection: Text
    id: Text | None = None
    document: dict[str, Any]


class Update(Model):
    """Merge fields into one document."""

    collection: Text
    id: Text
    document: dict[str, Any]


class Delete(Model):
    """Remove one document."""

    collection: Text
    id: Text


class Refresh(Model):
    """Make what was written visible to searches."""

    collection: Text


class ForceMerge(Model):
    """Merge a collection's segments, down to `max_segments` per shard when it is given."""

    collection: Text
    max_segments: Positive | None = None


class Request(Model):
    """Any other request of the protocol."""

    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]
    path: Annotated[str, Field(min_length=1)]
    body: dict[str, Any] | None = None
    parameters: dict[str, Scalar] = Field(default_factory=dict)


class Form(Model):
    """One kind of request, and when it counts as timed out."""

    bulk: Bulk | None = None
    search: Search | None = None
    get: Get | None = None
    index: Index | None = None
    update: Update | None = None
    delete: Delete | None = None
    refresh: Refresh | None = None
    force_merge: ForceMerge | None = None
    request: Request | None = None
    timeout: Annotated[Duration, Field(gt=0)] | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> "Form":
        kinds = [name for name in _KINDS if getattr(self, name) is not None]
        if len(kinds) > 1:
            raise wrong(f"one request cannot be {' and '.join(kinds)}", "make two operations of it", key=kinds[1])
        if not kinds:
            raise wrong("it says no request", f"say one of {', '.join(_KINDS)}")
        return self

    @property
    def kind(self) -> str:
        """The form's name: `bulk`, `search`, ..."""
        return next(name for name in _KINDS if getattr(self, name) is not None)

    @property
    def content(self) -> Model:
        """What the form says."""
        content: Model = getattr(self, self.kind)
        return content

    def dump(self) -> dict[str, Any]:
        """Return the form as drivers take it: what the file says and no more, the timeout in seconds."""
        form: dict[str, Any] = {self.kind: self.content.model_dump(exclude_unset=True)}
        if self.timeout is not None:
            form["timeout"] = self.timeout
        return form


class Forms(Model):
    """One operation in a form per family: the same logical work on each."""

    elasticsearch: Form | None = None


_KINDS = (*NEUTRAL, *(kind for kinds in NATIVE.values() for kind in kinds))


def _shape(value: Any) -> str:
    """Tell a mapping of families from a form; what is neither is checked as a form."""
    families = isinstance(value, Forms) or (isinstance(value, dict) and any(family in value for family in NATIVE))
    return "a form per family" if families else "one form"


Operation = Annotated[
    Annotated[Form, Tag("one form")] | Annotated[Forms, Tag("a form per family")], Discriminator(_shape)
]


def form_for(operation: Form | Forms, family: str) -> Form | None:
    """Return an operation's form for a family; None if it has none."""
    if isinstance(operation, Forms):
        form: Form | None = getattr(operation, family, None)
        return form
    return operation if operation.kind in NEUTRAL or operation.kind in NATIVE.get(family, ()) else None  # type: ignore[call-overload]


def every_form(operation: Form | Forms) -> dict[str, Form]:
    """Return the forms that an operation is written in, by family; a direct one under the empty name."""
    if isinstance(operation, Form):
        return {"": operation}
    return {family: form for family in NATIVE if (form := getattr(operation, family)) is not None}
