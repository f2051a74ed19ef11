"""The profile of sampled documents: for each field its presence, kinds of values and distributions.

`Profile.documents` draws documents that follow it. The profile holds sampled values in memory, and is never written.
"""

import itertools
import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from loadframe.base.errors import BadInput
from loadframe.workload.sampling import distributions
from loadframe.workload.sampling.distributions import Distribution, OriginalValues, Pairs, Weighted
from loadframe.workload.sampling.pseudonyms import Pseudonyms, Run, looks_like_identifier, rearranged, shared_pairs
from loadframe.yamlfile import did_you_mean

#: An object with more distinct keys than this, each in a small share of its values, is a map from keys to values.
_MANY_KEYS, _RARE_KEY = 50, 0.1
#: Arrays of equal length up to this have a distribution for each position, such as coordinates.
_POSITIONS = 8
#: Least documents of a run: neighbours in the collection, which resemble each other.
_RUN = 20
#: Generated runs that follow the same run of the sample are this many runs apart, on average.
_APART = 20
#: Attempts to draw an unused id.
_ATTEMPTS = 50
#: The most words of a kept text that is a keyword.
_WORDS_OF_KEYWORD = 8
_OBJECT, _ARRAY, _NULL = "object", "array", "null"


class Field:
    """The values of a field: a mixture of kinds, each with a distribution."""

    def __init__(self, values: Sequence[Any], path: str, around: "_Profiling") -> None:
        """Profile the values of a field, which must not be empty, by their kinds.

        `path` is the name with dots, without positions of arrays; it is added to the paths of `around`. The order of
        values is that of the collection.
        """
        around.paths.setdefault(path)
        groups: dict[str, list[Any]] = {}
        for value in values:
            groups.setdefault(_kind(value), []).append(value)
        # Results are cached by the id of a list, so all lists must live until the run ends.
        self._runs = _runs(values)
        self.kinds: dict[str, Distribution | Object | Array | _Coordinates | None] = {
            kind: _distribution(kind, group, path, around) for kind, group in groups.items()
        }

    @property
    def has_long_text(self) -> bool:
        """Whether one of the field's values that the user keeps has more than 8 words; False if none are kept."""
        kept = (kind for kind in self.kinds.values() if isinstance(kind, OriginalValues))
        return any(len(str(value).split()) > _WORDS_OF_KEYWORD for kind in kept for value in kind.values)

    def like(self, values: Sequence[Any], place: int, run: Run) -> Any:
        """Return a random value that resembles `values[place]`; `values` come from a run of sampled documents."""
        kind = _kind(values[place])
        distribution = self.kinds[kind]
        if distribution is None:
            return None
        groups = run.once(("kinds", id(self), id(values)), lambda: _by_kind(values))
        group, places = groups[kind]
        return distribution.like(group, places[place], run)

    def draw(self, run: Run) -> Any:
        """Return a random value that resembles the values of a random run of the sample."""
        values = run.rng.choice(self._runs)
        return self.like(values, run.rng.randrange(len(values)), run)


def _by_kind(values: Sequence[Any]) -> dict[str, tuple[list[Any], dict[int, int]]]:
    """Group values by kind: return for each kind its values, and their indices in the group by index in `values`."""
    groups: dict[str, tuple[list[Any], dict[int, int]]] = {}
    for place, value in enumerate(values):
        group, places = groups.setdefault(_kind(value), ([], {}))
        places[place] = len(group)
        group.append(value)
    return groups


class Object:
    """Objects: their fields, and entries under keys that are data rather than names."""

    def __init__(self, values: Sequence[Mapping[str, Any]], path: str, around: "_Profiling") -> None:
        """Profile the fields of objects, and entries under keys that are data; `values` must not be empty.

        `path` is empty for documents. The paths of fields are added to `around`.
        """
        present = Counter(key for value in values for key in value)
        many = len(present) > _MANY_KEYS
        entries = {
            key
            for key, count in present.items()
            if looks_like_identifier(key) or (many and count < _RARE_KEY * len(values))
        }
        self.fields: dict[str, Field] = {}
        for key in present:
            if key not in entries:
                inner = [value[key] for value in values if key in value]
                self.fields[key] = Field(inner, f"{path}.{key}" if path else key, around)
        self._runs = _runs(values)
        self._pseudonyms = around.pseudonyms
        self.entry: Field | None = None
        if entries:
            held = [value[key] for value in values for key in value if key in entries]
            self.entry = Field(held, f"{path}.*" if path else "*", around)
            self._keys = Weighted(Counter({key: present[key] for key in entries}))
            self._counts = Weighted(Counter(sum(key in entries for key in value) for value in values))

    def like(self, values: Sequence[Mapping[str, Any]], place: int, run: Run) -> dict[str, Any]:
        """Return a random object with fields like those of a run's objects (`values`), and entries under random keys.

        Each field follows the object at a random distance from `place`, the same in the run; distances differ if there
        are as many objects as fields, so that no object has the combined values of a sampled one. Fewer than 10 objects
        are replaced by a random run of all objects.
        """
        if len(values) < _RUN // 2:
            values = run.once(("objects", id(self)), lambda: run.rng.choice(self._runs))
            place = run.rng.randrange(len(values))
        count = len(values)
        drawn = {}
        for number, (key, field) in enumerate(self.fields.items()):
            inner, places = run.once(("field", id(field), id(values)), partial(_held, values, key))
            # The distances of fields differ if the run has enough objects.
            distances = run.once(("far", id(self), count, number // count), lambda: run.rng.sample(range(count), count))
            filled = places.get((place + distances[number % count]) % count)
            if filled is not None:
                drawn[key] = field.like(inner, filled, run)
        if self.entry is not None:
            for _ in range(self._counts.draw(run.rng)):
                drawn[self._pseudonyms.of(self._keys.draw(run.rng))] = self.entry.draw(run)
        return drawn


def _runs(values: Sequence[Any]) -> list[Sequence[Any]]:
    """Return values in runs of 20 to 39 neighbours, or in one run if there are fewer."""
    count = max(1, len(values) // _RUN)
    ends = [len(values) * number // count for number in range(count + 1)]
    return [values[begin:end] for begin, end in itertools.pairwise(ends)]


def _held(values: Sequence[Mapping[str, Any]], key: str) -> tuple[list[Any], dict[int, int]]:
    """Return the values under `key` of the objects that have it, and the index of each value by index of its object."""
    having = [place for place, value in enumerate(values) if key in value]
    return [values[place][key] for place in having], {place: number for number, place in enumerate(having)}


class Array:
    """Arrays: their length, and their elements by position (short arrays of equal length) or together."""

    def __init__(self, values: Sequence[Sequence[Any]], path: str, around: "_Profiling") -> None:
        """Profile the lengths and the elements of arrays; `values` must not be empty."""
        lengths = set(map(len, values))
        fixed = next(iter(lengths)) if len(lengths) == 1 else 0
        by_position = 2 <= fixed <= _POSITIONS and all(
            isinstance(element, int | float) for value in values for element in value
        )
        self._pairs: Pairs | None = None
        self._common: frozenset[tuple[str, str]] = frozenset()
        if by_position:
            self.elements = [Field([value[place] for value in values], path, around) for place in range(fixed)]
            kept = any(isinstance(kind, OriginalValues) for field in self.elements for kind in field.kinds.values())
            if fixed == len(_COORDINATES) and not kept and all(map(_are_coordinates, values)):
                self._pairs = Pairs([(value[0], value[1]) for value in values])
        else:
            elements = [element for value in values for element in value]
            self.elements = [Field(elements, path, around)] if elements else []
            self._common = shared_pairs([value for value in values if _are_texts(value)])

    def like(self, values: Sequence[Sequence[Any]], place: int, run: Run) -> list[Any]:
        """Return an array with the length of the one at `place`, and elements like those of all arrays in `values`.

        An array of texts follows the one at `place`; neighbours that several sampled arrays share stay neighbours.
        Elements of short arrays of numbers are drawn per position, and coordinates as pairs.
        """
        if self._pairs is not None:
            return list(self._pairs.near((values[place][0], values[place][1]), run.rng))
        if len(self.elements) > 1:
            columns = run.once(("columns", id(self), id(values)), lambda: [*map(list, zip(*values, strict=True))])
            return [
                field.like(column, run.other(id(field), place, len(values)), run)
                for field, column in zip(self.elements, columns, strict=True)
            ]
        if not values[place]:
            return []
        (field,) = self.elements
        if _are_texts(values[place]):
            texts: list[list[str]] = run.once(
                ("array", id(self), id(values)),
                lambda: rearranged([value if _are_texts(value) else [] for value in values], self._common, run.rng),
            )
            return [field.like(texts[place], number, run) for number in range(len(texts[place]))]
        pool = run.once(("pool", id(self), id(values)), lambda: [element for value in values for element in value])
        return [field.like(pool, run.rng.randrange(len(pool)), run) for _ in values[place]]


#: Names of the coordinates of a point.
_COORDINATES = ("lat", "lon")


class _Coordinates(Object):
    """Geographic points as objects with `lat` and `lon`."""

    def __init__(self, values: Sequence[Mapping[str, Any]], path: str, around: "_Profiling") -> None:
        """Profile points; `values` must not be empty, and each must have two numbers."""
        super().__init__(values, path, around)
        self._pairs = Pairs([(value["lat"], value["lon"]) for value in values])

    def like(self, values: Sequence[Mapping[str, Any]], place: int, run: Run) -> dict[str, Any]:
        """Return a point near the one at `place`."""
        near = self._pairs.near((values[place]["lat"], values[place]["lon"]), run.rng)
        return dict(zip(_COORDINATES, near, strict=True))


def _are_coordinates(values: Sequence[Any]) -> bool:
    """Return whether all values are numbers other than booleans, and at least one is a float, as of coordinates."""
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values) and any(
        isinstance(value, float) for value in values
    )


def _are_texts(values: Sequence[Any]) -> bool:
    """Return whether all values are texts."""
    return all(isinstance(value, str) for value in values)


@dataclass
class _Profiling:
    """Settings and paths of all fields of a profile."""

    pseudonyms: Pseudonyms
    keep: frozenset[str]
    #: The paths of all fields.
    paths: dict[str, None]
    #: The paths of fields with kept values.
    kept: set[str]
    #: The number of sampled documents.
    documents: int

    def span(self, values: Sequence[Any]) -> int:
        """Return the number of a field's values in a run of documents, at least 1; `values` are all its values."""
        return max(1, _RUN * len(values) // self.documents)


class Profile:
    """The profile of sampled documents."""

    def __init__(self, documents: Sequence[Mapping[str, Any]], *, keep: Sequence[str] = (), seed: int = 1) -> None:
        """Profile documents, in the order of the collection if it is known.

        `keep` are paths of fields, such as `a.b`, whose values stay unchanged. BadInput for a kept field that no
        document has, or that holds no texts, numbers or booleans.
        """
        self._seed = seed
        self.pseudonyms = Pseudonyms(seed)
        self.sampled = len(documents)
        self.kept = frozenset(keep)
        for document in documents:
            self.pseudonyms.avoid(_texts(document))
        self._documents = documents
        around = _Profiling(self.pseudonyms, self.kept, {}, set(), len(documents))
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
        """Yield `count` random documents. Values of the top-level fields `unique` do not repeat.

        They come in runs of 20. Each resembles a run of sampled documents, in about the order of the sample. Equal
        seeds give equal documents in a new profile. KeyError for an unknown field in `unique`.
        """
        rng = random.Random(f"documents:{self._seed}")
        distinct = {name: _DistinctValues(self.root.fields[name]) for name in unique}
        sampled = _runs(self._documents)
        runs = math.ceil(count / _RUN)
        # Generated runs that follow the same run would be compressed together.
        order = sorted(range(runs), key=lambda number: number * len(sampled) / runs + rng.uniform(0, _APART))
        for number in range(count):
            if number % _RUN == 0:
                values = sampled[order[number // _RUN] * len(sampled) // runs]
                run = Run(rng, count / self.sampled)
                first = rng.randrange(len(values))
            document = self.root.like(values, (first + number) % len(values), run)
            document.update((name, held.unused(document.get(name), number, run)) for name, held in distinct.items())
            yield document

    def is_unique(self, name: str) -> bool:
        """Return whether a top-level field holds a text or a whole number in every document, each value once."""
        return name in self._unique

    def fields_of(self, kind: type[Distribution]) -> list[str]:
        """Return the top-level fields whose values, without any null, all follow one distribution of class `kind`.

        They are in order of appearance.
        """
        return [
            name
            for name, field in self.root.fields.items()
            if len(field.kinds) == 1 and isinstance(next(iter(field.kinds.values())), kind)
        ]


class _DistinctValues:
    """Values of a field that do not repeat."""

    def __init__(self, field: "Field") -> None:
        """Begin without used values; `field` draws further ones."""
        self._field = field
        self._used: set[Any] = set()
        self._largest: float = -math.inf  #: number among the used values

    def unused(self, value: Any, number: int, run: Run) -> Any:
        """Return `value` if it is unused, else a drawn unused value; record it as used. None counts as used.

        After 50 attempts, a whole number becomes the largest used one plus 1. A text gets `number` appended, or the
        first number after it that makes it unused.
        """
        for _ in range(_ATTEMPTS):
            if value is not None and value not in self._used:
                break
            value = self._field.draw(Run(run.rng, run.scale))
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
) -> "Distribution | Object | Array | _Coordinates | None":
    """Return the distribution of values of one kind (see `_kind`), or None for null; adds a kept field to `around`."""
    makers: dict[str, Callable[[], Distribution | Object | Array | _Coordinates | None]] = {
        _NULL: lambda: None,
        _ARRAY: lambda: Array(values, path, around),
        _OBJECT: lambda: (_Coordinates if _are_points(values, path, around) else Object)(values, path, around),
        "boolean": lambda: Weighted(Counter(values)),
        "text": lambda: distributions.of_texts(values, around.pseudonyms, around.span(values)),
        "number": lambda: distributions.of_numbers(values, around.pseudonyms),
    }
    if path in around.keep and kind in ("boolean", "text", "number"):
        around.kept.add(path)
        return OriginalValues(values)
    return makers[kind.partition(" ")[0]]()


def _are_points(values: Sequence[Mapping[str, Any]], path: str, around: _Profiling) -> bool:
    """Return whether objects are points with a latitude and a longitude only, which the user does not keep."""
    kept = any(f"{path}.{name}" in around.keep for name in _COORDINATES)
    return not kept and all(
        tuple(value) in (_COORDINATES, _COORDINATES[::-1]) and _are_coordinates([*value.values()]) for value in values
    )


def _identify(values: Sequence[Any]) -> bool:
    """Return whether values are all texts or all whole numbers, and do not repeat."""
    types = {type(value) for value in values}
    return types in ({str}, {int}) and len(set(values)) == len(values)


def _kind(value: Any) -> str:
    """Return the kind of a JSON value: `null`, `boolean`, `number`, `text`, `object` or `array`.

    A typed value in extended JSON, such as {"$date": ...}, has its own kind, such as `object $date`.
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
    """Yield all texts of a JSON value, and the keys of its objects that look like an identifier, such as an address."""
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
