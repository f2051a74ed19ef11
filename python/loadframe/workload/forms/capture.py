"""What is taken from an answer for the same user's later requests, beside an operation of a store. Models only."""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from loadframe.workload.rest import Header, Pointer
from loadframe.yamlfile import Model, wrong

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
