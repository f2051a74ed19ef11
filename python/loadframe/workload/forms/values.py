"""Value types of operations: texts, ids, bodies, and numbers that a variable may provide."""

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from loadframe.workload.holes import names
from loadframe.yamlfile import short_json, wrong


def _document_id(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise wrong(f"expected a text or a whole number, not {short_json(value)}")
    return value


def whole(least: int) -> BeforeValidator:
    """Return a validator of whole numbers of at least `least`, or a text with a placeholder."""

    def read(value: Any) -> Any:
        if isinstance(value, str) and set(names(value)):
            return value
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise wrong(f"expected a whole number of at least {least}, not {short_json(value)}")
        return value

    return BeforeValidator(read)


def _or_hole(value: Any) -> Any:
    """Accept a mapping, or a single placeholder of a variable that provides a mapping per request."""
    if isinstance(value, dict) or (isinstance(value, str) and _ONE_HOLE.fullmatch(value)):
        return value
    raise wrong(f"expected a mapping, not {short_json(value)}", 'or write one variable, such as "${body}"')


def _routing(value: Any) -> Any:
    """Return the routing value, or None for `{of: VALUE, on: false}`, with which a parameter can disable routing."""
    if isinstance(value, dict) and set(value) == {"of", "on"} and isinstance(value["on"], bool):
        return _document_id(value["of"]) if value["on"] else None
    return _document_id(value)


_ONE_HOLE = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")

#: A body, or the placeholder of a variable that provides it.
Body = Annotated[dict[str, Any] | str, BeforeValidator(_or_hole)]
Text = Annotated[str, Field(min_length=1)]
Positive = Annotated[int, Field(ge=1)]
#: A fraction, 0 to 1.
Fraction = Annotated[float, Field(ge=0, le=1)]
Id = Annotated[str | int, BeforeValidator(_document_id)]
#: The routing value, which selects the shard of a document; None: by id.
Routing = Annotated[
    str | int | None, BeforeValidator(_routing, json_schema_input_type=str | int | dict[Literal["of", "on"], Any])
]
#: A number of hits, which a variable may provide per request.
Hits = Annotated[int | str, whole(0)]
#: The same, at least 1.
Count = Annotated[int | str, whole(1)]
