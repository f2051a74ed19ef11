"""Reads JSON files to import: limits their size, checks encoding and types, and reports the place of errors.

The path of the key `size` in the third entry of the list under `operations` is `, operations[2], size`.
"""

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from loadframe.base.errors import BadInput
from loadframe.yamlfile import did_you_mean, short_json

#: Limits above the size of hand-written files.
MAX_BYTES = 16 * 2**20
MAX_DEPTH = 50
MAX_VALUES = 500_000


def text_of(path: Path, most: int = MAX_BYTES) -> str:
    """Return a file's text without a byte-order mark.

    BadInput if the file is missing, unreadable, larger than `most` bytes, or not UTF-8.
    """
    try:
        if not path.is_file():
            what = "this is a folder" if path.is_dir() else "the file does not exist"
            raise BadInput(what, where=str(path), remedy="check the path")
        with path.open("rb") as file:
            content = file.read(most + 1)
    except (OSError, ValueError) as error:  # a path with a NUL is a ValueError
        raise BadInput(f"cannot read the file: {error}", where=str(path), remedy="check the path") from None
    if len(content) > most:
        what = f"the file is larger than {most // 2**20} MiB"
        raise BadInput(what, where=str(path), remedy="use a smaller file")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        where = f"{path}:{line}"
        raise BadInput("this is not UTF-8 text", where=where, remedy="save the file as UTF-8") from None


def json_of(text: str, where: str, place: Callable[[int], str] | None = None) -> Any:
    """Parse JSON; BadInput for invalid JSON and for values that are not supported.

    These are nesting beyond 50 levels, more than 500,000 values, a number out of range (whole: 64 bits), and half of a
    surrogate pair. The length of the text is not limited here; see `text_of`. `where` names the text in messages, with
    line and column of a syntax error. For a rendered text, `place` returns the origin of an offset in characters; a
    syntax error names that origin instead.
    """
    try:
        data = json.loads(text, parse_constant=_no_constant, parse_float=_finite, parse_int=_whole)
        _check(data)
    except json.JSONDecodeError as error:
        line = text.split("\n")[error.lineno - 1 : error.lineno]
        near = short_json(line[0][max(0, error.colno - 20) : error.colno + 20])
        at = f"{where}:{error.lineno}:{error.colno}" if place is None else place(error.pos)
        what = f"invalid JSON{'' if place is None else ' after rendering'}: {error.msg}, near {near}"
        raise BadInput(what, where=at, remedy="correct the file") from None
    except RecursionError:
        raise BadInput(f"nested deeper than {MAX_DEPTH} levels", where=where, remedy="correct the file") from None
    except ValueError as error:
        raise BadInput(str(error), where=where, remedy="correct the file") from None
    return data


def _no_constant(name: str) -> Any:
    """Raise ValueError: NaN and infinity are not JSON."""
    raise ValueError(f"{name} is not a number in JSON")


def _finite(text: str) -> float:
    """Return a decimal number of JSON; ValueError if it is out of range."""
    number = float(text)
    if math.isinf(number):
        raise ValueError("number out of range")
    return number


def _whole(text: str) -> int:
    """Return a whole number of JSON; ValueError if it exceeds 64 bits."""
    # Check the length first: int() refuses thousands of digits.
    number = int(text) if len(text) < 100 else 2**64
    if not -(2**63) <= number < 2**64:
        raise ValueError("whole number out of range: it exceeds 64 bits")
    return number


def _check(data: Any) -> None:
    """Refuse nesting deeper than 50 levels, more than 500,000 values, and lone surrogates, with ValueError."""
    level, values = [data], 0
    for _ in range(MAX_DEPTH + 1):
        values += len(level)
        if values > MAX_VALUES:
            raise ValueError(f"more than {MAX_VALUES:,} values")
        for value in level:
            for text in [value] if isinstance(value, str) else value if isinstance(value, dict) else ():
                if _HALF.search(text):
                    raise ValueError("invalid character: half of a surrogate pair")
        level = [
            inner
            for value in level
            if isinstance(value, dict | list)
            for inner in (value.values() if isinstance(value, dict) else value)
        ]
        if not level:
            return
    raise ValueError(f"nested deeper than {MAX_DEPTH} levels")


_HALF = re.compile("[\ud800-\udfff]")


#: Prefixes of keys that serve as comments.
_COMMENT = ("#", "//", "_comment")


class ImportedObject:
    """An object of an imported file, with its place for messages and typed access to its keys.

    It records which keys were read, so that `rest` can report the others.
    """

    def __init__(self, data: Any, where: str) -> None:
        """`where` is the place of the object, for messages. BadInput if the data is not an object."""
        if not isinstance(data, dict):
            raise BadInput(f"expected an object, not {short_json(data)}", where=where, remedy="correct the file")
        self.data: dict[str, Any] = data
        self.where = where
        self.read_keys: set[str] = set()

    def error(self, key: str, what: str, remedy: str = "correct the file") -> BadInput:
        """Return the error to raise for the value of a key; `what` is the problem."""
        return BadInput(f"{key}: {what}", where=f"{self.where}, {key}", remedy=remedy)

    def get(self, key: str, default: Any = None) -> Any:
        """Return a value of any type and mark the key as read; null counts as missing."""
        self.read_keys.add(key)
        value = self.data.get(key)
        return default if value is None else value

    def text(self, key: str, default: str | None = None) -> str:
        """Return a non-empty text; BadInput for other values, and if it is missing without a default."""
        value = self.get(key, default)
        if value is None:
            hint = did_you_mean(key, self.data)
            raise BadInput(f"the key {key!r} is missing", where=self.where, remedy=hint)
        if not isinstance(value, str) or not value:
            raise self.error(key, f"expected a text, not {short_json(value)}")
        return value

    def number(self, key: str, default: float | None = None, least: float = 0) -> float | None:
        """Return a number of at least `least` and below 1e15, also from a text, or `default` if it is missing or null.

        BadInput for other values.
        """
        value = self.get(key)
        if value is None:
            return default
        try:
            number = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else math.nan
        except ValueError:
            number = math.nan
        if not least <= number < 1e15:
            raise self.error(key, f"expected a number of at least {least:.15g}, not {short_json(value)}")
        return number

    def whole(self, key: str, default: int, least: float = 0) -> int:
        """Return a whole number of at least `least`, also from a text, or `default` if it is missing or null.

        BadInput for other values.
        """
        number = self.number(key, default, least)
        if number is None or not float(number).is_integer():
            raise self.error(key, f"expected a whole number, not {short_json(self.data[key])}")
        return int(number)

    def flag(self, key: str, default: bool | None = None) -> bool | None:
        """Return a boolean, also from the texts true and false (any case), or `default` if it is missing or null.

        BadInput for other values.
        """
        value = self.get(key, default)
        if isinstance(value, str) and value.lower() in ("true", "false"):
            return value.lower() == "true"
        if value is not None and not isinstance(value, bool):
            raise self.error(key, f"expected true or false, not {short_json(value)}")
        return value

    def mapping(self, key: str) -> dict[str, Any]:
        """Return a mapping, empty if it is missing; BadInput for other types."""
        value = self.get(key, {})
        if not isinstance(value, dict):
            raise self.error(key, f"expected an object, not {short_json(value)}")
        return value

    def texts(self, key: str) -> list[str]:
        """Return a list of texts (a single text as a list), empty if it is missing; BadInput for other values."""
        value = self.get(key, [])
        texts = [value] if isinstance(value, str) else value
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise self.error(key, f"expected texts, not {short_json(value)}")
        return texts

    def listed(self, key: str) -> list[Any]:
        """Return a list, empty if it is missing; BadInput for other types."""
        value = self.get(key, [])
        if not isinstance(value, list):
            raise self.error(key, f"expected a list, not {short_json(value)}")
        return value

    def parts(self, key: str) -> Iterator["ImportedObject"]:
        """Yield the objects of a list as parts, in order; BadInput if it is not a list of objects.

        A missing or null key yields nothing.
        """
        for index, entry in enumerate(self.listed(key)):
            yield ImportedObject(entry, f"{self.where}, {key}[{index}]")

    def rest(self, known: Iterable[str] = ()) -> list[str]:
        """Return the keys that were not read, sorted, without `known` ones and comments.

        Comments are keys that begin with `#`, `//` or `_comment`.
        """
        return sorted(key for key in set(self.data) - self.read_keys - set(known) if not key.startswith(_COMMENT))


#: Nesting levels with recorded positions; deeper parts have the position of the innermost recorded one.
_DEPTH = 8
_TOKEN = re.compile(r'"((?:[^"\\]|\\.)*)"(\s*:)?|[\[\]{},]')


def key_offsets(text: str) -> dict[str, int]:
    """Return the offset in characters of each object and key of a JSON text, by path.

    A path is empty for the whole text, else such as `, operations[2], name`, with names as they are escaped in the
    text. A key with an object has the offset of the object. Parts below 8 levels are omitted. The text must be valid
    JSON.
    """
    places = {"": 0}
    #: Enclosing levels: path, and for a list the index of the current entry.
    around: list[tuple[str, int | None]] = []
    path = ""
    for token in _TOKEN.finditer(text):
        mark = token[0]
        if token[2] is not None:
            path = f"{around[-1][0]}, {token[1]}" if around else f", {token[1]}"
            if len(around) <= _DEPTH:
                places.setdefault(path, token.start())
        elif mark in ("{", "["):
            outer, entry = around[-1] if around else ("", None)
            path = path if entry is None else f"{outer}[{entry}]"
            if mark == "{" and len(around) <= _DEPTH:
                places[path] = token.start()
            around.append((path, 0 if mark == "[" else None))
        elif mark in ("}", "]") and around:
            path, _ = around.pop()
        elif mark == "," and around:
            outer, entry = around[-1]
            around[-1] = (outer, None if entry is None else entry + 1)
    return places


def nearest(path: str, places: Mapping[str, str]) -> str | None:
    """Return the place of a path such as `, operations[2], name`, else of the innermost enclosing part that has one.

    `places` maps paths to places; the path of the whole text is empty. None if no part has a place.
    """
    while path not in places:
        if not path:
            return None
        cut = max(path.rfind(", "), path.rfind("["))
        path = path[: max(cut, 0)]
    return places[path]
