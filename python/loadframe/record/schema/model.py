"""Models of manifests and summaries: frozen dataclasses with documented fields.

Each class defines the keys, types, units and descriptions of a part of a record. The documentation of run folders, the
reader and the check of written records use these classes.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from pydantic import TypeAdapter


@dataclass(frozen=True)
class Field:
    """A column, key or metric: name or path, type, unit (empty without one) and description (`says`).

    In a path, a key in capitals stands for any name, `[]` for each element of a list, `**` for all keys below.
    """

    name: str
    type: str
    unit: str
    says: str


def undocumented(value: Mapping[str, object], documented: Sequence[Field]) -> list[str]:
    """Return the dotted paths of `value` (a manifest, summary or event) that no field of `documented` covers, sorted.

    See `_leaves` for the paths.
    """
    patterns = [_steps(field.name) for field in documented]
    return sorted({".".join(path) for path in _leaves(value) if not any(_covers(p, path) for p in patterns)})


def _steps(path: str) -> tuple[str, ...]:
    """Split a path such as `phases[].name` into its keys; `[]` counts as a separate key."""
    return tuple(path.replace("[]", ".[]").split("."))


def _leaves(value: object) -> Iterator[tuple[str, ...]]:
    """Yield the path of each scalar, as keys from the top; `[]` is the key of a list's elements.

    A list without mappings and lists counts as a scalar. An empty mapping has no path.
    """
    if isinstance(value, Mapping):
        for key, below in value.items():
            yield from ((str(key), *rest) for rest in _leaves(below))
    elif isinstance(value, list) and any(isinstance(element, Mapping | list) for element in value):
        for element in value:
            yield from (("[]", *rest) for rest in _leaves(element))
    else:
        yield ()


def _covers(pattern: tuple[str, ...], path: tuple[str, ...]) -> bool:
    """Return whether a documented path covers a path of a record, both split into keys; see `Field` for the rule.

    The path of an empty list or a list of scalars ends before the `[]` of its pattern.
    """
    if not pattern or not path:
        # The path of an empty or scalar-only list ends before the pattern's `[]`.
        return pattern == path or pattern[:1] in {("**",), ("[]",)}
    if pattern[0] == "**":
        return True
    return (pattern[0] == path[0] or pattern[0].isupper()) and _covers(pattern[1:], path[1:])


_Model = TypeVar("_Model")

_NOTE = "note"
_TYPES: dict[object, str] = {int: "int", float: "number", str: "string", bool: "bool", Any: "any"}


@dataclass(frozen=True)
class _Note:
    """Documentation of a field; see `doc_metadata`."""

    says: str
    unit: str
    of: str
    below: bool
    absent: bool
    null: bool


def doc_metadata(
    says: str, unit: str = "", *, of: str = "", below: bool = False, absent: bool = False, null: bool = False
) -> dict[str, Any]:
    """Return the documentation of a field as metadata of a dataclass field.

    - `says`: the description; for a field that holds a model, the prefix of the descriptions of its fields.
    - `of`: the documented name of a mapping's keys.
    - `below`: document the field as `**`, without its content.
    - `absent`: do not write an empty field (None, or an empty tuple or mapping).
    - `null`: current runs may have null. Otherwise None means that an older run lacks the field.
    """
    return {_NOTE: _Note(says, unit, of, below, absent, null)}


def documented(model: type) -> tuple[Field, ...]:
    """Return the documentation of a model and its nested models, with a path for each key, in the order of fields."""
    return tuple(_documented(model, "", ""))


def as_document(record: Any) -> Any:
    """Convert a record to JSON types: models become mappings without empty fields that are marked `absent`.

    Tuples become lists, keys of mappings become texts, and other values stay unchanged.
    """
    if is_dataclass(record):
        values = {entry.name: (getattr(record, entry.name), entry.metadata.get(_NOTE)) for entry in fields(record)}
        return {
            name: as_document(value)
            for name, (value, note) in values.items()
            if value not in (None, (), {}) or not (note and note.absent)
        }
    if isinstance(record, Mapping):
        return {str(key): as_document(value) for key, value in record.items()}
    if isinstance(record, list | tuple):
        return [as_document(value) for value in record]
    return record


def from_json(model: type[_Model], text: str) -> _Model:
    """Read a record of this model, and ignore unknown keys.

    ValueError, with the field's path, if a field is missing or has a wrong type; ValueError if the text is not JSON.
    """
    from pydantic import ValidationError

    try:
        record: _Model = _adapter(cast("type", model)).validate_json(text, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        path = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in first["loc"]).lstrip(".")
        if first["type"] == "missing":
            raise ValueError(f"{path} is missing") from error
        words = f"{first['msg'][:1].lower()}{first['msg'][1:]}"
        raise ValueError(f"{path}: {words}, not {json.dumps(first['input'], default=str)[:40]}") from error
    return record


@cache
def _adapter(model: type) -> "TypeAdapter[Any]":
    """Return pydantic's validator of a model, created once."""
    # Imported late: pydantic is slow to import, and only reading runs needs it.
    from pydantic import TypeAdapter

    return TypeAdapter(model)


def _documented(model: type, path: str, before: str) -> Iterator[Field]:
    """Yield the documentation of a model's keys and of its nested models.

    `path` precedes all names (it ends with a dot unless empty), and `before` all descriptions.
    """
    hints = get_type_hints(model)
    for entry in fields(model):
        note: _Note = entry.metadata[_NOTE]
        kind, name, words = _known(hints[entry.name]), f"{path}{entry.name}", before + note.says
        if note.below:
            yield Field(f"{name}.**", "any", note.unit, words)
            continue
        if get_origin(kind) is tuple:
            kind, name = get_args(kind)[0], f"{name}[]"
        elif get_origin(kind) is Mapping:
            kind, name = get_args(kind)[1], f"{name}.{note.of}"
        if is_dataclass(kind):
            assert isinstance(kind, type)
            yield from _documented(kind, f"{name}.", words)
        else:
            yield Field(name, f"{_TYPES[kind]}{' or null' * note.null}", note.unit, words)


def _known(hint: Any) -> Any:
    """Return a type hint without None: `int` for `int | None`. A hint of several other types is not supported."""
    if get_origin(hint) in (Union, UnionType):
        (kind,) = (kind for kind in get_args(hint) if kind is not NoneType)
        return kind
    return hint
