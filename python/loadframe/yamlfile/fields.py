"""Base class of file models, and field types for quantities, names and single values.

Validators raise `wrong(...)`; `loadframe.yamlfile.validate` converts it to a message.
"""

import difflib
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sized
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from loadframe.base.errors import BadInput
from loadframe.base.units import parse_bandwidth, parse_duration, parse_rate, parse_size


def wrong(what: str, remedy: str | None = None, key: str | None = None) -> PydanticCustomError:
    """Return the error for a validator to raise; `key` is the offending key of the validated mapping."""
    return PydanticCustomError("wrong", "{what}", {"what": what, "remedy": remedy, "key": key})


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the remedy for an unknown word: the most similar valid word, else all valid words."""
    words = sorted(known)
    likely = [other for other in words if abs(len(other) - len(word)) <= len(word)][:_COMPARED]
    near = difflib.get_close_matches(word, likely, n=1, cutoff=0.6) if len(word) <= _LONGEST_WORD else []
    if near:
        return f"did you mean {near[0]!r}?"
    more = [f"and {len(words) - _LISTED} more"] if len(words) > _LISTED else []
    return f"valid here: {', '.join([*words[:_LISTED], *more])}" if words else "nothing is valid here"


#: Limits of a remedy: length of the unknown word, compared words, listed words.
_LONGEST_WORD, _COMPARED, _LISTED = 100, 10_000, 100


def shown(value: Any) -> str:
    """Write a value as JSON, truncated for a message."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else text[:57] + "..."


class Model(BaseModel):
    """A mapping in a file: frozen, with exact types, without unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    @model_validator(mode="before")
    @classmethod
    def _no_unknown_keys(cls, data: Any) -> Any:
        """Refuse unknown keys first: a missing key is often a misspelt one."""
        if isinstance(data, Mapping):
            known = [field.alias or name for name, field in cls.model_fields.items()]
            for key in data:
                if key not in known:
                    raise wrong(f"unknown key {key!r}", did_you_mean(str(key), known), key=str(key))
        return data


#: Keyword of a JSON Schema that names the kind of quantity, such as `duration`; validators ignore it.
QUANTITY = "x-quantity"


def quantity(parse: Callable[[Any], float], limit: float) -> BeforeValidator:
    """Return a validator that parses a number with its unit; numbers from `limit` on are refused as typing errors."""

    def read(value: Any) -> float:
        try:
            number = parse(value)
        except BadInput as error:
            raise wrong(error.what, error.remedy) from None
        except OverflowError:
            number = math.inf
        if number >= limit:
            raise wrong(f"{shown(value)} is too large")
        return number

    kind = parse.__name__.removeprefix("parse_")
    return BeforeValidator(
        read, json_schema_input_type=Annotated[float | str, Field(json_schema_extra={QUANTITY: kind})]
    )


def _single(value: Any) -> Any:
    if isinstance(value, dict | list):
        raise wrong("expected a single value, not a list or a mapping")
    return value


def _name(value: Any) -> Any:
    if isinstance(value, str) and not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,79}", value):
        raise wrong(f"{shown(value)} is not a name", "use up to 80 letters, digits, _, - and ., without leading - or .")
    return value


def _not_empty(value: Sized) -> Sized:
    if not value:
        raise wrong("expected at least one entry")
    return value


#: For nonempty lists and mappings. Pydantic's own constraint also reports entries that are invalid.
NOT_EMPTY = AfterValidator(_not_empty)
#: Seconds, written `10s`, `250ms` or as a number.
Duration = Annotated[float, quantity(parse_duration, 1e9)]
#: Events per second, written `1000/s` or as a number.
Rate = Annotated[float, quantity(parse_rate, 1e9), Field(gt=0)]
#: Bytes per second, written `100mbit` or as a number.
Bandwidth = Annotated[float, quantity(parse_bandwidth, 2e10), Field(gt=0)]
#: Bytes, written `512m` or as a number.
Size = Annotated[int, quantity(parse_size, 2**63), Field(gt=0)]
#: A JSON value that is neither a list nor a mapping.
Scalar = Annotated[str | int | float | bool | None, BeforeValidator(_single)]
#: A name for folders, tables and plots.
Name = Annotated[str, BeforeValidator(_name)]
