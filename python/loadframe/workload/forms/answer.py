"""What an operation does with an answer: assertions and captured values."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from loadframe.workload.forms.rest import Header, Pointer
from loadframe.workload.forms.values import Positive, Share, Text
from loadframe.workload.holes import names
from loadframe.yamlfile import Model, shown, wrong

#: Requests whose answers are any number of documents.
FINDS = (
    *("search", "multi_search", "aggregation", "count", "sql", "esql", "eql", "knn"),
    *("scroll", "search_after", "composite"),
    *("scan", "find", "aggregate", "cql", "query", "statement"),
)
#: Those that do not return documents and therefore have no fields.
_COUNTS = ("multi_search", "count", "sql", "esql", "eql")
#: Those that find documents in an order, by their ids.
_RANKS = ("search", "knn")
#: Those whose answer is a document, too.
READS = ("get", "read", "read_modify_write", *(kind for kind in FINDS if kind not in _COUNTS))


def _ids(value: Any) -> Any:
    if (isinstance(value, list) and value) or (isinstance(value, str) and list(names(value))):
        return value
    raise wrong(f"expected a list of ids, not {shown(value)}", 'or write a variable, such as "${neighbors}"')


class Recall(Model):
    """Which documents should be found: the first `k` of a list of ids, the best first.

    Recall at k is the share of them that is among the first `k` hits; the mean over all answers is a figure of the run.
    With `at_least`, an answer with a smaller share is not a success.
    """

    of: Annotated[list[Any] | str, BeforeValidator(_ids)]
    k: Positive | None = None
    at_least: Share | None = None


class Assertion(Model):
    """A least or an exact number of hits; fields of the document that is read, or of the first one; and the
    documents that should be found.

    A dot in a field's name reaches inside. Values may hold holes.
    """

    min_hits: Positive | None = None
    hits: Annotated[int, Field(ge=0)] | None = None
    fields: dict[Text, Any] | None = None
    recall: Recall | None = None

    @model_validator(mode="after")
    def _something(self) -> "Assertion":
        if self.min_hits is not None and self.hits is not None:
            raise wrong("hits is exact, so that min_hits adds nothing", "remove min_hits", key="min_hits")
        if self.min_hits is None and self.hits is None and not self.fields and self.recall is None:
            raise wrong("it asserts nothing", "say min_hits, hits, fields or recall")
        return self

    def misplaced(self, kind: str) -> str | None:
        """Return why this cannot be asserted of the answer to a request; None if it can."""
        if kind not in FINDS and (self.min_hits is not None or self.hits is not None):
            return f"only a search has hits to assert, and this is {kind}"
        if kind not in READS and self.fields is not None:
            return f"only a document that is read has fields to assert, and this is {kind}"
        if kind not in _RANKS and self.recall is not None:
            return f"only a search has recall to assert, and this is {kind}"
        return None


#: The places in an answer that each family knows.
PLACES: dict[str, tuple[str, ...]] = {
    "elasticsearch": ("field", "json", "header"),
    "cassandra": ("field", "json"),
    "mongodb": ("field", "json"),
    "redis": ("field", "json", "reply"),
    "couchbase": ("field", "json"),
    "postgresql": ("field", "json"),
}


class Captured(Model):
    """Where in an answer a value is, and what it is `otherwise`, if the answer has none or null.

    A `field` is one of the first document or row (`a.b` is within `a`), `json` a JSON pointer into that document, for
    searches into the whole answer. A `header` is one of a search engine's answer, a `reply` what a command of redis is
    answered: `true` is all of it, a number an item of it, from 0 on.
    """

    field: Annotated[str, Field(min_length=1)] | None = None
    json_: Pointer | None = Field(None, alias="json")
    header: Header | None = None
    reply: Literal[True] | Annotated[int, Field(ge=0)] | None = None
    otherwise: Any = None

    @model_validator(mode="after")
    def _one(self) -> "Captured":
        if len(self.model_fields_set - {"otherwise"}) != 1:
            raise wrong(
                "it does not say where the value is", "say one of field: name, json: /pointer, header and reply"
            )
        return self

    @property
    def place(self) -> str:
        """The key that says where: `field`, `json`, `header` or `reply`."""
        (key,) = self.model_fields_set - {"otherwise"}
        return key.removesuffix("_")
