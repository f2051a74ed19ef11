"""Single values of operations: texts, ids, and numbers that may be drawn for each request."""

from typing import Annotated, Any

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


Text = Annotated[str, Field(min_length=1)]
Positive = Annotated[int, Field(ge=1)]
#: A share, 0 to 1.
Share = Annotated[float, Field(ge=0, le=1)]
Id = Annotated[str | int, BeforeValidator(_document_id)]
#: A number of hits, which may be drawn for each request.
Hits = Annotated[int | str, whole(0)]
#: The same, but some.
Count = Annotated[int | str, whole(1)]
