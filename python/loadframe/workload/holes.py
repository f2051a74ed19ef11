"""Holes: `${name}` in texts, where a parameter goes before a run, or a variable for each request.

A text that is one hole becomes the parameter's value in its own type; within a longer text the value is written out.
Holes of variables stay for the engine, with the same rule. `$${` stands for a literal `${`.
"""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from loadframe.base.errors import BadInput
from loadframe.yamlfile import Document, did_you_mean

Place = tuple[str | int, ...]
Value = str | int | float | bool | None

#: Characters that parameters may fill into one document: texts that double each other have no other end.
MOST_FILLED = 16 * 2**20

#: A literal `${`, a hole, or the beginning of a hole without an end.
_PIECE = re.compile(r"\$\$\{|\$\{([^}]*)\}|\$\{")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def is_name(text: str) -> bool:
    """Tell whether a text can be the name of a parameter or a variable."""
    return _NAME.fullmatch(text) is not None


def names(data: Any) -> Iterator[str]:
    """Yield the names of the holes anywhere within data, keys included."""
    if isinstance(data, str):
        yield from (match[1] for match in _PIECE.finditer(data) if match[1] is not None)
    elif isinstance(data, Mapping):
        for key, value in data.items():
            yield from names(key)
            yield from names(value)
    elif isinstance(data, list | tuple):
        for value in data:
            yield from names(value)


@dataclass
class Filler:
    """Fills parameters into a document's data, and remembers which ones went where."""

    document: Document
    #: Gives a parameter's value; raises KeyError for an unknown name.
    value: Callable[[str], Value]
    #: The words to suggest from when a name is unknown.
    parameters: Collection[str]
    variables: Collection[str]
    #: The parameters that went into each place.
    filled: dict[Place, tuple[str, ...]] = field(default_factory=dict)
    #: Characters that were filled in so far.
    length: int = 0

    def fill(self, data: Any, place: Place, *, per_request: bool) -> Any:
        """Return a copy of data with its parameters filled in.

        `per_request` tells that this part is filled again by the engine: variables are allowed and stay, literals
        keep their escapes. BadInput at the place of a name that is unknown or of a hole without an end.
        """
        if isinstance(data, str):
            return self._text(data, place, per_request)
        if isinstance(data, list):
            return [self.fill(value, (*place, index), per_request=per_request) for index, value in enumerate(data)]
        if isinstance(data, dict):
            result: dict[str, Any] = {}
            for key, value in data.items():
                name = written(self._text(key, (*place, key), per_request))
                if name in result:
                    raise self.document.error((*place, key), f"the key {name!r} stands here twice", key=True)
                result[name] = self.fill(value, (*place, key), per_request=per_request)
            return result
        return data

    def _text(self, text: str, place: Place, per_request: bool) -> Any:
        if "${" not in text:
            return text
        whole = _PIECE.fullmatch(text)
        if whole is not None and whole[1] is not None:
            filled = self._hole(whole, place, per_request)
            return (
                filled if not isinstance(filled, str) or whole[1] in self.variables else _escaped(filled, per_request)
            )
        return _PIECE.sub(lambda match: self._piece(match, place, per_request), text)

    def _piece(self, match: re.Match[str], place: Place, per_request: bool) -> str:
        if match[0] == "$${":
            return match[0] if per_request else "${"
        text = written(self._hole(match, place, per_request))
        return text if match[1] in self.variables else _escaped(text, per_request)

    def _hole(self, match: re.Match[str], place: Place, per_request: bool) -> Value:
        name = match[1]
        if name is None:
            raise self._error(place, "a ${ has no }", "write $${ for a literal one")
        if name in self.variables:
            if per_request:
                return match[0]
            raise self._error(place, f"the variable {name!r} has a value only in operations", "use a parameter here")
        try:
            value = self.value(name)
        except KeyError:
            known = [*self.parameters, *(self.variables if per_request else ())]
            raise self._error(
                place,
                f"there is no parameter {name!r}" + (" and no variable" if per_request else ""),
                did_you_mean(name, known),
            ) from None
        self.length += len(value) if isinstance(value, str) else 0
        if self.length > MOST_FILLED:
            raise self._error(place, f"parameters fill in more than {MOST_FILLED >> 20} MiB of text", "shorten them")
        self.filled[place] = (*self.filled.get(place, ()), name)
        return value

    def _error(self, place: Place, what: str, remedy: str) -> BadInput:
        return self.document.error(place, what, remedy)


def written(value: Value) -> str:
    """Write a value into a longer text, as JSON does; texts stand for themselves."""
    return value if isinstance(value, str) else json.dumps(value)


def _escaped(text: str, per_request: bool) -> str:
    """Keep the engine from reading a parameter's text as holes."""
    return text.replace("${", "$${") if per_request else text
