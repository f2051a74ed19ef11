"""What a track's templates make of an index or a data stream of some name."""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

_DEFINITION = ("settings", "mappings", "aliases")


def shape(name: str, templates: Mapping[str, Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return the definition that templates give an index of a name, with `data_stream` if they make it one.

    `templates` has the bodies by name, by the section that declares them. The store would take the composable template
    of the highest priority, with its components, and without one all others in their order. None if none fits.
    """
    composable = [body for body in templates.get("composable-templates", {}).values() if _fits(name, body)]
    if composable:
        chosen = max(composable, key=lambda body: _number(body.get("priority")))
        components = templates.get("component-templates", {})
        named = chosen.get("composed_of")
        parts = [components.get(part, {}) for part in named] if isinstance(named, list) else []
        made = _merged([*(part.get("template") for part in parts), chosen.get("template")])
        return made | ({"data_stream": True} if "data_stream" in chosen else {})
    legacy = [body for body in templates.get("templates", {}).values() if _fits(name, body)]
    if not legacy:
        return None
    return _merged(sorted(legacy, key=lambda body: _number(body.get("order"))))


def _number(value: Any) -> float:
    return value if isinstance(value, int | float) else 0


def _fits(name: str, body: Mapping[str, Any]) -> bool:
    patterns = body.get("index_patterns", body.get("template"))
    listed = patterns if isinstance(patterns, list) else [patterns]
    return any(isinstance(pattern, str) and fnmatchcase(name, pattern) for pattern in listed)


def _merged(definitions: list[Any]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for definition in definitions:
        if isinstance(definition, dict):
            made = _over(made, {key: definition[key] for key in _DEFINITION if isinstance(definition.get(key), dict)})
    return made


def _over(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Return one mapping with the values of another one put over it, also within."""
    both = dict(one)
    for key, value in other.items():
        inner = one.get(key)
        both[key] = _over(inner, value) if isinstance(inner, dict) and isinstance(value, dict) else value
    return both
