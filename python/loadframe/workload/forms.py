"""Operations: one request to a store, in the forms that the families of stores have for it.

Models only: what an operation may say. Bytes are made of it by the engine's drivers, whose interface the dumped forms
are. Bodies, paths and ids may hold `${variable}` holes, which are filled per request.
"""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from loadframe.workload.holes import names
from loadframe.workload.rest import Http
from loadframe.yamlfile import Duration, Model, Scalar, shown, wrong

Family = Literal["elasticsearch", "http"]

#: Forms that every family of stores understands, and those that one family has for itself.
NEUTRAL = ("bulk",)
NATIVE: dict[Family, tuple[str, ...]] = {
    "elasticsearch": ("search", "get", "index", "update", "delete", "refresh", "force_merge", "request"),
    "http": ("http",),
}
#: What stands behind a REST interface is not known to be a store.
_WITHOUT_NEUTRAL = ("http",)


def _document_id(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise wrong(f"expected a text or a whole number, not {shown(value)}")
    return value


def _hits(value: Any) -> Any:
    if isinstance(value, str) and set(names(value)):
        return value
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise wrong(f"expected a whole number of at least 0, not {shown(value)}")
    return value


Text = Annotated[str, Field(min_length=1)]
Positive = Annotated[int, Field(ge=1)]
Id = Annotated[str | int, BeforeValidator(_document_id)]
#: A number of hits, which may be drawn for each request.
Hits = Annotated[int | str, BeforeValidator(_hits)]


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


class Update(Model):
    """Merge fields into one document."""

    collection: Text
    id: Id
    document: dict[str, Any]


class Delete(Model):
    """Remove one document."""

    collection: Text
    id: Id


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


class Assertion(Model):
    """What an answer must have to count as a success: so many hits."""

    min_hits: Positive


class Form(Model):
    """One kind of request, when it counts as timed out, and what is asserted of its answer."""

    bulk: Bulk | None = None
    search: Search | None = None
    get: Get | None = None
    index: Index | None = None
    update: Update | None = None
    delete: Delete | None = None
    refresh: Refresh | None = None
    force_merge: ForceMerge | None = None
    request: Request | None = None
    http: Http | None = None
    timeout: Annotated[Duration, Field(gt=0)] | None = None
    assert_: Assertion | None = Field(None, alias="assert")

    @model_validator(mode="after")
    def _one_kind(self) -> "Form":
        kinds = [name for name in _KINDS if getattr(self, name) is not None]
        if len(kinds) > 1:
            raise wrong(f"one request cannot be {' and '.join(kinds)}", "make two operations of it", key=kinds[1])
        if not kinds:
            raise wrong("it says no request", f"say one of {', '.join(_KINDS)}")
        if self.assert_ is not None and self.search is None:
            raise wrong(f"only a search has hits to assert, and this is {kinds[0]}", "remove it", key="assert")
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
        form: dict[str, Any] = {self.kind: self.content.model_dump(exclude_unset=True, by_alias=True)}
        if self.timeout is not None:
            form["timeout"] = self.timeout
        if self.assert_ is not None:
            form["assert"] = self.assert_.model_dump()
        return form


class Forms(Model):
    """One operation in a form per family: the same logical work on each."""

    elasticsearch: Form | None = None
    http: Form | None = None


_KINDS = (*NEUTRAL, *(kind for kinds in NATIVE.values() for kind in kinds))


def _shape(value: Any) -> str:
    """Tell a mapping of families from a form; what is neither is checked as a form."""
    families = isinstance(value, Forms) or (isinstance(value, dict) and any(_is_family(key, value) for key in NATIVE))
    return "a form per family" if families else "one form"


def _is_family(key: str, operation: dict[str, Any]) -> bool:
    """`http` is a family, under which a form stands, and a kind of request, under which a request stands."""
    below = operation.get(key)
    return key in operation and (
        key not in _KINDS or (isinstance(below, dict) and any(kind in below for kind in _KINDS))
    )


Operation = Annotated[
    Annotated[Form, Tag("one form")] | Annotated[Forms, Tag("a form per family")], Discriminator(_shape)
]


def form_for(operation: Form | Forms, family: str) -> Form | None:
    """Return an operation's form for a family; None if it has none."""
    if isinstance(operation, Forms):
        form: Form | None = getattr(operation, family, None)
        return form
    native = {str(name): kinds for name, kinds in NATIVE.items()}.get(family, ())
    neutral = () if family in _WITHOUT_NEUTRAL else NEUTRAL
    return operation if operation.kind in (*neutral, *native) else None


def every_form(operation: Form | Forms) -> dict[str, Form]:
    """Return the forms that an operation is written in, by family; a direct one under the empty name."""
    if isinstance(operation, Form):
        return {"": operation}
    return {family: form for family in NATIVE if (form := getattr(operation, family)) is not None}
