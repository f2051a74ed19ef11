"""One entry of the documentation of run folders, and the search for what has none."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Field:
    """A column, key or metric: its name or path, its type, its unit (empty if it has none) and what it says.

    In a path, a key in capitals stands for any name, `[]` for each element of a list, `**` for whatever lies below.
    """

    name: str
    type: str
    unit: str
    says: str


def undocumented(value: Mapping[str, object], documented: Sequence[Field]) -> list[str]:
    """Return the paths of `value` (a manifest, a summary, an event) that no field of `documented` covers."""
    patterns = [_steps(field.name) for field in documented]
    return sorted({".".join(path) for path in _leaves(value) if not any(_covers(p, path) for p in patterns)})


def _steps(path: str) -> tuple[str, ...]:
    return tuple(path.replace("[]", ".[]").split("."))


def _leaves(value: object) -> Iterator[tuple[str, ...]]:
    """Yield the path of each scalar and of each empty or scalar-only list; an empty mapping holds no key."""
    if isinstance(value, Mapping):
        for key, below in value.items():
            yield from ((str(key), *rest) for rest in _leaves(below))
    elif isinstance(value, list) and any(isinstance(element, Mapping | list) for element in value):
        for element in value:
            yield from (("[]", *rest) for rest in _leaves(element))
    else:
        yield ()


def _covers(pattern: tuple[str, ...], path: tuple[str, ...]) -> bool:
    if not pattern or not path:
        # A list that happens to be empty, or to hold only scalars, ends where the pattern goes on into it.
        return pattern == path or pattern[:1] in {("**",), ("[]",)}
    if pattern[0] == "**":
        return True
    return (pattern[0] == path[0] or pattern[0].isupper()) and _covers(pattern[1:], path[1:])
