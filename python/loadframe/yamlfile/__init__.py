"""YAML files: reading with positions, validation by models, and errors with line numbers.

The formats are models in other packages (`loadframe.workload`, `loadframe.experiment`), built from the field types
here. Validators raise `wrong(...)`; `validate` converts it to a message with the place in the file. Only a subset of
YAML is supported; see `compose`.
"""

import contextlib
import difflib
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sized
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from loadframe.base.errors import BadInput
from loadframe.base.units import (
    MOST_RATE,
    format_duration,
    parse_bandwidth,
    parse_duration,
    parse_rate,
    parse_size,
    reachable_response,
)
from loadframe.yamlfile.compose import Document, Place, document_of, read, scalar

__all__ = [
    "NOT_EMPTY",
    "QUANTITY",
    "Bandwidth",
    "Document",
    "Duration",
    "Model",
    "Name",
    "Place",
    "Rate",
    "Scalar",
    "Size",
    "did_you_mean",
    "document_of",
    "load",
    "quantity",
    "read",
    "scalar",
    "short_json",
    "validate",
    "wrong",
]


def wrong(what: str, remedy: str | None = None, key: str | None = None) -> PydanticCustomError:
    """Return the error, with problem and remedy, for a validator to raise; `key` is the mapping's offending key."""
    return PydanticCustomError("wrong", "{what}", {"what": what, "remedy": remedy, "key": key})


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the remedy for an unknown word: the most similar valid word, or the first 100 valid words, sorted.

    A word that differs only in capitals is the most similar one. All words are listed if none is similar.
    """
    words = sorted(known)
    likely = [other for other in words if abs(len(other) - len(word)) <= len(word)][:_COMPARED]
    near = [other for other in likely if other.casefold() == word.casefold()]
    if not near and len(word) <= _LONGEST_WORD:
        near = difflib.get_close_matches(word, likely, n=1, cutoff=0.6)
    if near:
        return f"did you mean {near[0]!r}?"
    more = [f"and {len(words) - _LISTED} more"] if len(words) > _LISTED else []
    return f"valid here: {', '.join([*words[:_LISTED], *more])}" if words else "nothing is valid here"


#: Limits of a remedy: length of the unknown word, compared words, listed words.
_LONGEST_WORD, _COMPARED, _LISTED = 100, 10_000, 100


def short_json(value: Any) -> str:
    """Return a value as JSON for a message, cut to 60 characters; types that JSON lacks are formatted by `str`."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else text[:57] + "..."


class Model(BaseModel):
    """A mapping in a file: frozen, with exact types, without unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)
    #: Remedies for wrong keys whose most similar key would not help.
    REMEDIES: ClassVar[Mapping[str, str]] = {}

    @model_validator(mode="before")
    @classmethod
    def _no_unknown_keys(cls, data: Any) -> Any:
        """Return the data unchanged; raise `wrong` for the first unknown key, before missing keys are checked.

        An unknown key is often a misspelt one. Data that is not a mapping is not checked.
        """
        if isinstance(data, Mapping):
            known = [field.alias or name for name, field in cls.model_fields.items()]
            for key in data:
                if key not in known:
                    remedy = cls.REMEDIES.get(key) or did_you_mean(str(key), known)
                    raise wrong(f"unknown key {key!r}", remedy, key=str(key))
        return data


#: Keyword of a JSON Schema that names the kind of quantity, such as `duration`; validators ignore it.
QUANTITY = "x-quantity"


def quantity(parse: Callable[[Any], float], limit: float) -> BeforeValidator:
    """Return a validator that parses a number with its unit; it raises `wrong` for numbers from `limit` on.

    `parse` is a function such as `parse_size`, which raises BadInput; that becomes `wrong`.
    """

    def read(value: Any) -> float:
        """Return the parsed number; raise `wrong` for a malformed one, and for one of at least `limit`."""
        try:
            number = parse(value)
        except BadInput as error:
            raise wrong(error.what, error.remedy) from None
        except OverflowError:
            number = math.inf
        if number >= limit:
            raise wrong(f"{short_json(value)} is too large")
        return number

    kind = parse.__name__.removeprefix("parse_")
    return BeforeValidator(
        read, json_schema_input_type=Annotated[float | str, Field(json_schema_extra={QUANTITY: kind})]
    )


def _single(value: Any) -> Any:
    """Return the value unchanged; raise `wrong` for lists and mappings."""
    if isinstance(value, dict | list):
        raise wrong("expected a single value, not a list or a mapping")
    return value


def _name(value: Any) -> Any:
    """Return the value unchanged; raise `wrong` for a text that is not a name. Other types are not checked.

    A name has 1 to 80 letters, digits, `_`, `-` and `.`, and begins with neither `-` nor `.`.
    """
    if isinstance(value, str) and not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,79}", value):
        raise wrong(
            f"{short_json(value)} is not a name", "use up to 80 letters, digits, _, - and ., without leading - or ."
        )
    return value


def _not_empty(value: Sized) -> Sized:
    """Return the value unchanged; raise `wrong` for an empty list or mapping."""
    if not value:
        raise wrong("expected at least one entry")
    return value


#: For nonempty lists and mappings. Pydantic's own constraint also reports entries that are invalid.
NOT_EMPTY = AfterValidator(_not_empty)
#: Seconds, written `10s`, `250ms` or as a number.
Duration = Annotated[float, quantity(parse_duration, 1e9)]


def _reachable_response(seconds: float) -> float:
    """Return the bound on response times, s, unchanged; raise `wrong` for one that no response time meets."""
    try:
        return reachable_response(seconds, f"{seconds:g} s")
    except BadInput as error:
        raise wrong(error.what, error.remedy) from None


#: Upper bound on response times, s.
ResponseBound = Annotated[Duration, Field(gt=0), AfterValidator(_reachable_response)]


def lasting(least: float) -> BeforeValidator:
    """Return a validator that raises `wrong` for durations below `least`, s. It returns others unchanged."""

    def read(value: Any) -> Any:
        """Return the value unchanged; raise `wrong` for a duration below `least`.

        Malformed values are left to `Duration`.
        """
        with contextlib.suppress(BadInput, OverflowError):
            if parse_duration(value) < least:
                raise wrong(f"expected a duration of at least {format_duration(least)}, not {short_json(value)}")
        return value

    return BeforeValidator(read)


#: Events per second, written `1000/s` or as a number.
Rate = Annotated[float, quantity(parse_rate, MOST_RATE), Field(gt=0)]
#: Bytes per second, written `100mbit` or as a number.
Bandwidth = Annotated[float, quantity(parse_bandwidth, 2e10), Field(gt=0)]
#: Bytes, written `512m` or as a number.
Size = Annotated[int, quantity(parse_size, 2**63), Field(gt=0)]
#: A JSON value that is neither a list nor a mapping.
Scalar = Annotated[str | int | float | bool | None, BeforeValidator(_single)]
#: A name for folders, tables and plots.
Name = Annotated[str, BeforeValidator(_name)]

#: Maximum number of shown errors; further errors are usually consequences.
SHOWN = 5

M = TypeVar("M", bound=Model)

#: Expected value, by pydantic's type of the error.
_EXPECTED = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
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
    """Validate a document's data by a model and return the model; BadInput for invalid data.

    `data` replaces the document's data: the same structure with parameters filled in. `given` maps places to the origin
    of their values, such as an option; errors of these values are reported there, once per origin. Several errors
    become one that lists the first five.
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
    raise BadInput("\n  ".join([f"{len(errors)} errors", *lines]), where=document.origin)


def _error(document: Document, detail: ErrorDetails, data: Any, given: Mapping[Place, str]) -> BadInput:
    """Convert one of pydantic's errors to BadInput with its position in the document, or its origin in `given`.

    `data` is the validated data, `given` maps places to the origin of their values.
    """
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
    """Return the problem and the remedy (or None) for one of pydantic's errors.

    `value` is the invalid value; for a missing key, the mapping that lacks it.
    """
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "wrong":
        return context["what"], context["remedy"]
    if kind == "missing":
        return f"the key {str(detail['loc'][-1])!r} is missing", None
    if kind == "string_type":
        quotable = value is not None and not isinstance(value, dict | list)
        return f"expected a text, not {short_json(value)}", "put it in quotes" if quotable else None
    if kind == "literal_error":
        words = re.findall(r"'([^']*)'", context["expected"])
        return f"{short_json(value)} is not valid here", did_you_mean(str(value), words)
    if kind in _EXPECTED:
        return f"expected {_EXPECTED[kind].format(**context)}, not {short_json(value)}", None
    return detail["msg"], None
