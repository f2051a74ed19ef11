"""The profile of sampled documents: for each field its presence, kinds of values and distributions.

`Profile.documents` draws documents that follow it. The profile holds sampled values in memory, and is never written.
"""

import itertools
import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loadframe.base.errors import BadInput
from loadframe.workload.sampling import distributions
from loadframe.workload.sampling.distributions import Distribution, OriginalValues, Weighted
from loadframe.workload.sampling.pseudonyms import Pseudonyms, looks_like_identifier
from loadframe.yamlfile import did_you_mean

#: An object with more distinct keys than this, each in a small share of its values, is a map from keys to values.
_MANY_KEYS, _RARE_KEY = 50, 0.1
#: Arrays of equal length up to this have a distribution for each position, such as coordinates.
_POSITIONS = 8
#: Attempts to draw an unused id.
_ATTEMPTS = 50
#: The most words of a kept text that is a keyword.
_WORDS_OF_KEYWORD = 8
_OBJECT, _ARRAY, _NULL = "object", "array", "null"


class Field:
    """The values of a field: a mixture of kinds, each with a distribution."""

    def __init__(self, values: Sequence[Any], path: str, around: "_Profiling") -> None:
        """Profile the values of a field, which must not be empty, by their kinds.

        `path` is the name with dots, without positions of arrays; it is added to the paths of `around`.
        """
        around.paths.setdefault(path)
        groups: dict[str, list[Any]] = {}
        for value in values:
            groups.setdefault(_kind(value), []).append(value)
        self._weights = Weighted(Counter({kind: len(group) for kind, group in groups.items()}))
        self.kinds: dict[str, Distribution | Object | Array | None] = {
            kind: _distribution(kind, group, path, around) for kind, group in groups.items()
        }

    @property
    def has_long_text(self) -> bool:
        """Whether its kept texts have more than a few words."""
        kept = (kind for kind in self.kinds.values() if isinstance(kind, OriginalValues))
        return any(len(str(value).split()) > _WORDS_OF_KEYWORD for kind in kept for value in kind.values)

    def draw(self, rng: random.Random) -> Any:
        """Return a random value."""
        kind = self.kinds[self._weights.draw(rng)]
        return None if kind is None else kind.draw(rng)


class Object:
    """Objects: their fields, and entries under keys that are data rather than names."""

    def __init__(self, values: Sequence[Mapping[str, Any]], path: str, around: "_Profiling") -> None:
        """Profile the fields of objects, and entries under keys that are data; `values` must not be empty."""
        present = Counter(key for value in values for key in value)
        many = len(present) > _MANY_KEYS
        entries = {
            key
            for key, count in present.items()
            if looks_like_identifier(key) or (many and count < _RARE_KEY * len(values))
        }
        self.fields: dict[str, Field] = {}
        self._presence: dict[str, float] = {}
        for key, count in present.items():
            if key not in entries:
                inner = [value[key] for value in values if key in value]
                self.fields[key] = Field(inner, f"{path}.{key}" if path else key, around)
                self._presence[key] = count / len(values)
        self._pseudonyms = around.pseudonyms
        self.entry: Field | None = None
        if entries:
            held = [value[key] for value in values for key in value if key in entries]
            self.entry = Field(held, f"{path}.*" if path else "*", around)
            self._keys = Weighted(Counter({key: present[key] for key in entries}))
            self._counts = Weighted(Counter(sum(key in entries for key in value) for value in values))

    def draw(self, rng: random.Random) -> dict[str, Any]:
        """Return a random object: each field with its sampled frequency, and random entries if the names are data."""
        drawn = {
            key: field.draw(rng)
            for key, field in self.fields.items()
            if self._presence[key] >= 1 or rng.random() < self._presence[key]
        }
        if self.entry is not None:
            for _ in range(self._counts.draw(rng)):
                drawn[self._pseudonyms.of(self._keys.draw(rng))] = self.entry.draw(rng)
        return drawn


class Array:
    """Arrays: their length, and their elements by position (short arrays of equal length) or together."""

    def __init__(self, values: Sequence[Sequence[Any]], path: str, around: "_Profiling") -> None:
        """Profile the lengths and the elements of arrays; `values` must not be empty."""
        lengths = Counter(map(len, values))
        self._lengths = Weighted(lengths)
        fixed = next(iter(lengths)) if len(lengths) == 1 else 0
        by_position = 2 <= fixed <= _POSITIONS and all(
            isinstance(element, int | float) for value in values for element in value
        )
        if by_position:
            self.elements = [Field([value[place] for value in values], path, around) for place in range(fixed)]
        else:
            elements = [element for value in values for element in value]
            self.elements = [Field(elements, path, around)] if elements else []

    def draw(self, rng: random.Random) -> list[Any]:
        """Return an array of a profiled length; its elements are drawn from those of their position or of all."""
        length = self._lengths.draw(rng)
        if len(self.elements) > 1:
            return [element.draw(rng) for element in self.elements]
        return [self.elements[0].draw(rng) for _ in range(length)]


@dataclass
class _Profiling:
    """Settings and paths of all fields of a profile."""

    pseudonyms: Pseudonyms
    keep: frozenset[str]
    #: The paths of all fields.
    paths: dict[str, None]
    #: The paths of fields with kept values.
    kept: set[str]


class Profile:
    """The profile of sampled documents."""

    def __init__(self, documents: Sequence[Mapping[str, Any]], *, keep: Sequence[str] = (), seed: int = 1) -> None:
        """Profile documents. `keep`: paths of fields, such as `a.b`, with unchanged values.

        BadInput for a kept field that no document has, or that holds only objects.
        """
        self._seed = seed
        self.pseudonyms = Pseudonyms(seed)
        self.sampled = len(documents)
        self.kept = frozenset(keep)
        for document in documents:
            self.pseudonyms.avoid(_texts(document))
        around = _Profiling(self.pseudonyms, self.kept, {}, set())
        self.root = Object(documents, "", around)
        self.paths = tuple(around.paths)
        self._unique = {name for name in self.root.fields if _identify([document.get(name) for document in documents])}
        for field in keep:
            if field not in around.paths:
                raise BadInput(f"--keep {field}: no document has this field", remedy=did_you_mean(field, self.paths))
            if field not in around.kept:
                inner = next((path for path in self.paths if path.startswith(f"{field}.")), None)
                remedy = f"name a field inside it, such as {inner}" if inner else f"remove --keep {field}"
                raise BadInput(f"--keep {field}: the field holds no texts, numbers or booleans", remedy=remedy)

    def documents(self, count: int, unique: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
        """Yield `count` random documents. Values of the top-level fields `unique` do not repeat."""
        rng = random.Random(f"documents:{self._seed}")
        distinct = {name: _DistinctValues(self.root.fields[name]) for name in unique}
        for number in range(count):
            document = self.root.draw(rng)
            document.update((name, values.draw(number, rng)) for name, values in distinct.items())
            yield document

    def is_unique(self, name: str) -> bool:
        """Whether a top-level field holds a text or a whole number in every document, each value once."""
        return name in self._unique

    def fields_of(self, kind: type[Distribution]) -> list[str]:
        """Return the top-level fields in which all values follow one distribution of a kind."""
        return [
            name
            for name, field in self.root.fields.items()
            if len(field.kinds) == 1 and isinstance(next(iter(field.kinds.values())), kind)
        ]


class _DistinctValues:
    """Values of a field that do not repeat."""

    def __init__(self, field: "Field") -> None:
        self._field = field
        self._used: set[Any] = set()
        self._largest: float = -math.inf  #: number among the used values

    def draw(self, number: int, rng: random.Random) -> Any:
        """Return a drawn value that is unused; after many attempts, the next whole number or a numbered text.

        A numbered text is a drawn one with `number`, or the first number after it that makes it unused.
        """
        value: Any = None
        for _ in range(_ATTEMPTS):
            value = self._field.draw(rng)
            if value not in self._used:
                break
        else:
            if isinstance(value, int):
                value = int(self._largest) + 1
            else:
                value = next(it for it in (f"{value}{n}" for n in itertools.count(number)) if it not in self._used)
        self._used.add(value)
        if isinstance(value, int | float):
            self._largest = max(self._largest, value)
        return value


def _distribution(
    kind: str, values: list[Any], path: str, around: _Profiling
) -> "Distribution | Object | Array | None":
    """Return the distribution of values of one kind, or None for null; adds a kept field to `around`."""
    makers: dict[str, Callable[[], Distribution | Object | Array | None]] = {
        _NULL: lambda: None,
        _ARRAY: lambda: Array(values, path, around),
        _OBJECT: lambda: Object(values, path, around),
        "boolean": lambda: Weighted(Counter(values)),
        "text": lambda: distributions.of_texts(values, around.pseudonyms),
        "number": lambda: distributions.of_numbers(values, around.pseudonyms),
    }
    if path in around.keep and kind in ("boolean", "text", "number"):
        around.kept.add(path)
        return OriginalValues(values)
    return makers[kind.partition(" ")[0]]()


def _identify(values: Sequence[Any]) -> bool:
    """Whether values are texts or whole numbers that do not repeat."""
    types = {type(value) for value in values}
    return types in ({str}, {int}) and len(set(values)) == len(values)


def _kind(value: Any) -> str:
    """Return the kind of a JSON value: null, boolean, number, text, object or array.

    A typed value in extended JSON, such as {"$date": ...}, has its own kind.
    """
    match value:
        case None:
            return _NULL
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "text"
        case dict():
            key = next(iter(value), "")
            return f"{_OBJECT} {key}" if len(value) == 1 and key.startswith("$") else _OBJECT
        case _:
            return _ARRAY


def _texts(value: Any) -> Iterator[str]:
    """Yield all texts of a JSON value, with the keys of objects that look like identifiers."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            if looks_like_identifier(key):
                yield key
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)
