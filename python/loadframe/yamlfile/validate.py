"""Validation of data by models. Pydantic's errors become messages with file, line and remedy."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from loadframe.base.errors import BadInput
from loadframe.yamlfile.compose import Document, Place, read
from loadframe.yamlfile.fields import Model, did_you_mean, shown

#: Maximum number of shown errors; further errors are usually consequences.
SHOWN = 5

M = TypeVar("M", bound=Model)

#: Expected value, by pydantic's type of the error.
_EXPECTED = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a mapping (key: value)",
    "model_type": "a mapping (key: value)",
    "model_attributes_type": "a mapping (key: value)",
    "greater_than": "a number above {gt}",
    "greater_than_equal": "a number of at least {ge}",
    "less_than": "a number below {lt}",
    "less_than_equal": "a number of at most {le}",
    "string_too_short": "a text of at least {min_length} character",
}


def load(path: str | Path, model: type[M]) -> M:
    """Read a file into a model; BadInput, with file, line and column, if it is invalid."""
    return validate(read(path), model)


def validate(document: Document, model: type[M], data: Any = None, given: Mapping[Place, str] | None = None) -> M:
    """Validate a document's data by a model and return the model; BadInput with the first five errors.

    `data` replaces the document's data: the same structure with parameters filled in. `given` maps places to the origin
    of their values, such as an option; errors of these values are reported there.
    """
    data = document.data if data is None else data
    try:
        return model.model_validate(data)
    except ValidationError as error:
        errors = [_error(document, detail, data, given or {}) for detail in error.errors(include_url=False)]
    if given:
        # Report a value once, even if it is used in several places.
        once = {e.where if e.where in given.values() else f"{e.where} {e.what}": e for e in reversed(errors)}
        errors = list(reversed(once.values()))
    if len(errors) == 1:
        raise errors[0]
    lines = [f"{e.where}: {e.what}" + (f"; {e.remedy}" if e.remedy else "") for e in errors[:SHOWN]]
    if len(errors) > SHOWN:
        lines.append(f"and {len(errors) - SHOWN} more")
    raise BadInput("\n  ".join([f"{len(errors)} errors", *lines]), where=str(document.path))


def _error(document: Document, detail: ErrorDetails, data: Any, given: Mapping[Place, str]) -> BadInput:
    """Convert one of pydantic's errors to an error with its place."""
    place: Place = ()
    for step in detail["loc"]:
        # The path also has branches of unions; skip steps that do not exist in the data.
        if (isinstance(data, dict) and step in data) or (isinstance(data, list) and step in range(len(data))):
            data, place = data[step], (*place, step)  # type: ignore[index]
    key = detail["loc"][-1:] == ("[key]",)
    points_to = detail.get("ctx", {}).get("key") if detail["type"] == "wrong" else None
    if points_to is not None:
        place, key = (*place, points_to), True
    what, remedy = _message(detail, data)
    if place in given:
        return BadInput(f"{what} (used at {document.where(place)})", where=given[place], remedy=remedy)
    return document.error(place, what, remedy, key=key)


def _message(detail: ErrorDetails, value: Any) -> tuple[str, str | None]:
    """Return the problem and the remedy."""
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "wrong":
        return context["what"], context["remedy"]
    if kind == "missing":
        return f"the key {str(detail['loc'][-1])!r} is missing", None
    if kind == "string_type":
        quotable = value is not None and not isinstance(value, dict | list)
        return f"expected a text, not {shown(value)}", "put it in quotes" if quotable else None
    if kind == "literal_error":
        words = re.findall(r"'([^']*)'", context["expected"])
        return f"{shown(value)} is not valid here", did_you_mean(str(value), words)
    if kind in _EXPECTED:
        return f"expected {_EXPECTED[kind].format(**context)}, not {shown(value)}", None
    return detail["msg"], None
