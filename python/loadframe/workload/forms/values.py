"""Single values of operations: texts, ids, and numbers that may be drawn for each request."""

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from loadframe.workload.holes import names
from loadframe.yamlfile import shown, wrong


def _document_id(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise wrong(f"expected a text or a whole number, not {shown(value)}")
    return value


def whole(least: int) -> BeforeValidator:
    """Return a validator of whole numbers from `least` on, or of a text with a hole that draws one."""

    def read(value: Any) -> Any:
        if isinstance(value, str) and set(names(value)):
            return value
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise wrong(f"expected a whole number of at least {least}, not {shown(value)}")
        return value

    return BeforeValidator(read)


def _or_hole(value: Any) -> Any:
    """Return a mapping, or a text that is one hole, whose variable is a mapping of its own for each request."""
    if isinstance(value, dict) or (isinstance(value, str) and _ONE_HOLE.fullmatch(value)):
        return value
    raise wrong(f"expected a mapping, not {shown(value)}", 'or write one variable, such as "${body}"')


def _routing(value: Any) -> Any:
    """Return what a document is routed by; None of `{of: VALUE, on: false}`, so that a parameter can turn it off."""
    if isinstance(value, dict) and set(value) == {"of", "on"} and isinstance(value["on"], bool):
        return _document_id(value["of"]) if value["on"] else None
    return _document_id(value)


_ONE_HOLE = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")

#: A body, or the variable that it is drawn from.
Body = Annotated[dict[str, Any] | str, BeforeValidator(_or_hole)]
Text = Annotated[str, Field(min_length=1)]
Positive = Annotated[int, Field(ge=1)]
#: A share, 0 to 1.
Share = Annotated[float, Field(ge=0, le=1)]
Id = Annotated[str | int, BeforeValidator(_document_id)]
#: What decides on which shard a document is, or None for its id.
Routing = Annotated[
    str | int | None, BeforeValidator(_routing, json_schema_input_type=str | int | dict[Literal["of", "on"], Any])
]
#: A number of hits, which may be drawn for each request.
Hits = Annotated[int | str, whole(0)]
#: The same, but some.
Count = Annotated[int | str, whole(1)]
