"""What an answer must have to count as a success."""

from typing import Annotated, Any

from pydantic import Field, model_validator

from loadframe.workload.forms.values import Positive, Text
from loadframe.yamlfile import Model, wrong

#: Requests whose answers are documents, of which there may be none.
FINDS = (
    *("search", "multi_search", "aggregation", "count", "sql", "scroll", "search_after", "composite"),
    *("scan", "find", "aggregate", "cql", "query", "statement"),
)
#: Those that find something else than documents, which has no fields.
_COUNTS = ("multi_search", "count", "sql")
#: Those whose answer is a document, too.
READS = ("get", "read", "read_modify_write", *(kind for kind in FINDS if kind not in _COUNTS))


class Assertion(Model):
    """So many hits at least, or exactly so many; and fields of the document that is read, or of the first one.

    A dot in a field's name reaches inside. Values may hold holes.
    """

    min_hits: Positive | None = None
    hits: Annotated[int, Field(ge=0)] | None = None
    fields: dict[Text, Any] | None = None

    @model_validator(mode="after")
    def _something(self) -> "Assertion":
        if self.min_hits is not None and self.hits is not None:
            raise wrong("hits says it all", "remove min_hits", key="min_hits")
        if self.min_hits is None and self.hits is None and not self.fields:
            raise wrong("it asserts nothing", "say min_hits, hits or fields")
        return self

    def misplaced(self, kind: str) -> str | None:
        """Return why nothing of the kind can be asserted of an answer to a request, None if it can."""
        if kind not in FINDS and (self.min_hits is not None or self.hits is not None):
            return f"only a search has hits to assert, and this is {kind}"
        if kind not in READS and self.fields is not None:
            return f"only a document that is read has fields to assert, and this is {kind}"
        return None
