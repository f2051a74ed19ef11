"""Serialization between a command and its agents: values as JSON, functions by name.

Supported values: JSON types, bytes, paths, tuples, and instances of the package's dataclasses. Decoding creates only
these types and resolves only names in the package, so neither side can run other code.
"""

import base64
import dataclasses
import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

_PACKAGE = "loadframe."
#: Key that marks a value without a JSON equivalent.
_KIND = "$"


def encoded(value: Any) -> Any:
    """Return a value in its JSON form; TypeError if the type is not supported."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, list):
        return [encoded(item) for item in value]
    if isinstance(value, Mapping) and all(isinstance(key, str) and key != _KIND for key in value):
        return {key: encoded(item) for key, item in value.items()}
    kind, content = _marked(value)
    return {_KIND: kind, "is": content}


def _marked(value: Any) -> tuple[str, Any]:
    """Return the type tag and the encoded content of a value without a JSON equivalent."""
    if isinstance(value, tuple):
        return "tuple", [encoded(item) for item in value]
    if isinstance(value, bytes):
        return "bytes", base64.b64encode(value).decode()
    if isinstance(value, Path):
        return "path", str(value)
    if isinstance(value, Mapping):
        return "mapping", [[encoded(key), encoded(item)] for key, item in value.items()]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: encoded(getattr(value, field.name)) for field in dataclasses.fields(value) if field.init}
        return name_of(type(value)), fields
    raise TypeError(f"a {type(value).__name__} cannot be sent to another machine")


def decoded(value: Any) -> Any:
    """Return the value that `encoded` was called with. TypeError for a type outside the package."""
    if isinstance(value, list):
        return [decoded(item) for item in value]
    if not isinstance(value, dict):
        return value
    if _KIND not in value:
        return {key: decoded(item) for key, item in value.items()}
    kind, content = value[_KIND], value["is"]
    return _READERS[kind](content) if kind in _READERS else _object(kind, content)


def _object(kind: str, fields: Mapping[str, Any]) -> Any:
    made = named(kind)
    if not (isinstance(made, type) and dataclasses.is_dataclass(made)):
        raise TypeError(f"{kind} is not a dataclass")
    return made(**{key: decoded(item) for key, item in fields.items()})


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "tuple": lambda items: tuple(decoded(item) for item in items),
    "bytes": base64.b64decode,
    "path": Path,
    "mapping": lambda pairs: {decoded(key): decoded(item) for key, item in pairs},
}


def name_of(thing: Callable[..., Any]) -> str:
    """Return the name under which `named` finds a function or type.

    TypeError if it is not at the top of a module of this package.
    """
    name = f"{thing.__module__}:{thing.__qualname__}"
    if not name.startswith(_PACKAGE) or "<" in name:
        raise TypeError(
            f"{name} cannot be sent to another machine: it is not a top-level name of the loadframe package"
        )
    return name


def named(name: str) -> Any:
    """Import and return the function or type of that name; TypeError if it is outside the package."""
    module, _, path = name.partition(":")
    if not module.startswith(_PACKAGE):
        raise TypeError(f"{name} is not in the loadframe package")
    thing: Any = importlib.import_module(module)
    for part in path.split("."):
        thing = getattr(thing, part)
    return thing
