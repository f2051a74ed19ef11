"""Processing of responses: assertions, captured values, and charts of answers in the live view."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from loadframe.workload.forms.rest import Header, Pointer
from loadframe.workload.holes import Fraction, Positive, Text, names
from loadframe.yamlfile import NOT_EMPTY, Model, short_json, wrong


def _place(value: str) -> str:
    """Return a text unchanged; refuse anything but a JSON pointer, which is empty for the whole value."""
    if value and not value.startswith("/"):
        raise wrong(f"{short_json(value)} is not a JSON pointer", "start it with /, such as /aggregations/ads/buckets")
    return value


#: A JSON pointer into an answer or into a row; in `rows`, `*` matches each element of a list.
Place = Annotated[str, AfterValidator(_place)]
Label = Annotated[str, Field(min_length=1, max_length=200)]


class Chart(Model):
    """A chart of an answer.

    `bars` are rows sorted by value, greatest first. `columns` are rows in the order of the answer, as in a histogram.
    `figures` are single values. `rows` points to the list of rows; `label`, `value` and the additional numbers in
    `beside` point into a row. Rows with the same label are summed.
    """

    kind: Literal["bars", "columns", "figures"]
    title: Label | None = None
    rows: Place | None = None
    label: Place | None = None
    value: Place | None = None
    unit: Label | None = None
    beside: dict[Label, Place] = Field(default_factory=dict)
    figures: Annotated[dict[Label, Place], NOT_EMPTY] | None = None

    @model_validator(mode="after")
    def _check_keys(self) -> "Chart":
        """Refuse keys that the kind of chart does not support, and a chart without the keys that it requires."""
        if self.kind == "figures":
            for key in ("rows", "label", "value"):
                if getattr(self, key) is not None:
                    raise wrong(f"kind: figures does not support {key}", f"remove {key}, or use kind: bars", key=key)
            if self.beside:
                raise wrong("kind: figures does not support beside", "move it into figures", key="beside")
            if self.figures is None:
                raise wrong("kind: figures requires figures", "add figures: {NAME: /pointer}")
            return self
        for key in ("rows", "label", "value"):
            if getattr(self, key) is None:
                raise wrong(f"kind: {self.kind} requires {key}", f"add {key}: /pointer")
        return self

    def dump(self) -> dict[str, Any]:
        """Return the keys that the file sets, ready for JSON."""
        return self.model_dump(exclude_unset=True)


#: Requests that return any number of documents (hits).
FINDS = (
    *("search", "multi_search", "aggregation", "count", "sql", "esql", "eql", "knn"),
    *("scroll", "search_after", "composite"),
    *("scan", "find", "aggregate", "cql", "query", "statement"),
)
#: Requests in FINDS without fields of documents to assert.
_COUNTS = ("multi_search", "count", "sql", "esql", "eql")
#: Requests that return ranked ids, which recall needs.
_RANKS = ("search", "knn")
#: Requests that return a document with fields.
READS = ("get", "read", "read_modify_write", *(kind for kind in FINDS if kind not in _COUNTS))


def _ids(value: Any) -> Any:
    """Return a value unchanged; refuse anything but a list of ids that is not empty, or a text with a placeholder."""
    if (isinstance(value, list) and value) or (isinstance(value, str) and list(names(value))):
        return value
    raise wrong(f"expected a list of ids, not {short_json(value)}", 'or write a variable, such as "${neighbors}"')


class Recall(Model):
    """Recall at `k`: the fraction of the first `k` ids of the list `of`, best first, among the first `k` hits.

    The run records the mean. With `at_least`, a response with a lower recall fails.
    """

    of: Annotated[list[Any] | str, BeforeValidator(_ids)]
    k: Positive | None = None
    at_least: Fraction | None = None


class Assertion(Model):
    """Conditions that a response must meet: minimum or exact number of hits, field values, recall.

    `fields` are those of the document, or of the first one; `a.b` is a nested field. Values may hold placeholders.
    """

    min_hits: Positive | None = None
    hits: Annotated[int, Field(ge=0)] | None = None
    fields: dict[Text, Any] | None = None
    recall: Recall | None = None

    @model_validator(mode="after")
    def _check(self) -> "Assertion":
        """Refuse an empty assertion, and `min_hits` with `hits`."""
        if self.min_hits is not None and self.hits is not None:
            raise wrong("min_hits and hits exclude each other", "remove min_hits", key="min_hits")
        if self.min_hits is None and self.hits is None and not self.fields and self.recall is None:
            raise wrong("the assertion is empty", "add min_hits, hits, fields or recall")
        return self

    def misplaced(self, kind: str) -> str | None:
        """Return why this kind of request does not support the assertion; None if it does.

        `kind` is as in `Form._asserted`.
        """
        if kind not in FINDS and (self.min_hits is not None or self.hits is not None):
            return f"asserting hits requires a search; {kind} has none"
        if kind not in READS and self.fields is not None:
            return f"asserting fields requires a request that reads documents; {kind} does not"
        if kind not in _RANKS and self.recall is not None:
            return f"asserting recall requires search or knn; got {kind}"
        return None


#: The keys of Captured that each family supports.
PLACES: dict[str, tuple[str, ...]] = {
    "elasticsearch": ("field", "json", "header"),
    "cassandra": ("field", "json"),
    "mongodb": ("field", "json"),
    "redis": ("field", "json", "reply"),
    "couchbase": ("field", "json"),
    "postgresql": ("field", "json"),
}


class Captured(Model):
    """A value to capture from a response, with a default (`otherwise`) if it is missing or null.

    `field` is a field of the first document or row (`a.b` for nested ones). `json` is a JSON pointer into that
    document, or for searches into the whole response. `header` is a response header (search engines). `reply` is the
    reply of a Redis command: `true` for all of it, or the index of an item.
    """

    field: Annotated[str, Field(min_length=1)] | None = None
    json_: Pointer | None = Field(None, alias="json")
    header: Header | None = None
    reply: Literal[True] | Annotated[int, Field(ge=0)] | None = None
    otherwise: Any = None

    @model_validator(mode="after")
    def _check_one_place(self) -> "Captured":
        """Refuse other than exactly one of `field`, `json`, `header` and `reply`."""
        if len(self.model_fields_set - {"otherwise"}) != 1:
            what = "a captured value needs exactly one place"
            raise wrong(what, "use one of field: name, json: /pointer, header and reply")
        return self

    @property
    def place(self) -> str:
        """The key that locates the value: `field`, `json`, `header` or `reply`."""
        (key,) = self.model_fields_set - {"otherwise"}
        return key.removesuffix("_")
