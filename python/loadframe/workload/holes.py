"""Placeholders `${name}` in texts, and the value types of operations, whose values may be placeholders.

Parameters are filled in before a run, variables per request. A text that consists of one placeholder takes the
parameter's value and type. Within a longer text, the value is formatted as text. The engine fills in variables by the
same rule. `$${` escapes a literal `${`.
"""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from loadframe.base.errors import BadInput
from loadframe.yamlfile import Document, did_you_mean, short_json, wrong

Place = tuple[str | int, ...]
Value = str | int | float | bool | None

#: The most characters that parameters may add to one document. It stops defaults that double each other.
MOST_FILLED = 16 * 2**20

#: An escaped `${`, a placeholder, or an unclosed one.
_PIECE = re.compile(r"\$\$\{|\$\{([^}]*)\}|\$\{")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def is_name(text: str) -> bool:
    """Return whether a text is a valid name of a parameter or variable: ASCII letters, `_` and, not first, digits."""
    return _NAME.fullmatch(text) is not None


def names(data: Any) -> Iterator[str]:
    """Yield the names of all placeholders within data, in order and with repetitions, including those in mapping keys.

    Skips escaped and unclosed placeholders.
    """
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
    """Fills parameters into a document's data and records which parameters each place used."""

    document: Document
    #: Returns a parameter's value; raises KeyError for an unknown name.
    value: Callable[[str], Value]
    #: Names to suggest for an unknown one.
    parameters: Collection[str]
    variables: Collection[str]
    #: The parameters used at each place.
    filled: dict[Place, tuple[str, ...]] = field(default_factory=dict)
    #: Characters filled in so far.
    length: int = 0

    def fill(self, data: Any, place: Place, *, per_request: bool) -> Any:
        """Return a copy of data with its parameters filled in, and record their places.

        With `per_request`, the engine fills in the data again: variables are allowed and kept, and escapes stay.
        BadInput for an unknown name, an unclosed placeholder, a duplicate key, or more than MOST_FILLED characters.
        """
        if isinstance(data, str):
            return self._text(data, place, per_request)
        if isinstance(data, list):
            return [self.fill(value, (*place, index), per_request=per_request) for index, value in enumerate(data)]
        if isinstance(data, dict):
            result: dict[str, Any] = {}
            for key, value in data.items():
                name = value_text(self._text(key, (*place, key), per_request))
                if name in result:
                    raise self.document.error((*place, key), f"duplicate key {name!r}", key=True)
                result[name] = self.fill(value, (*place, key), per_request=per_request)
            return result
        return data

    def _text(self, text: str, place: Place, per_request: bool) -> Any:
        """Return a text with its parameters filled in; a text that is one placeholder becomes the parameter's value.

        Records the parameters under `place`. `per_request`: the engine fills the text again, so placeholders of
        variables and escapes stay, and `${` in values is escaped. BadInput for an unknown name, an unclosed placeholder
        and too much text.
        """
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
        """Return the replacement of a placeholder or escape within a longer text.

        With `per_request`, variables and escapes stay, and `${` in values is escaped. BadInput for an unknown name, an
        unclosed placeholder and too much text.
        """
        if match[0] == "$${":
            return match[0] if per_request else "${"
        text = value_text(self._hole(match, place, per_request))
        return text if match[1] in self.variables else _escaped(text, per_request)

    def _hole(self, match: re.Match[str], place: Place, per_request: bool) -> Value:
        """Return the value of the parameter in a placeholder, and record it under `place`.

        With `per_request`, the placeholder of a variable is returned unchanged. BadInput for an unclosed placeholder,
        an unknown name, a variable without `per_request`, or too much text.
        """
        name = match[1]
        if name is None:
            raise self._error(place, "${ lacks its closing }", "close it, or write $${ for a literal ${")
        if name in self.variables:
            if per_request:
                return match[0]
            what = f"the variable {name!r} is only available in operations"
            raise self._error(place, what, "use a parameter here")
        try:
            value = self.value(name)
        except KeyError:
            known = [*self.parameters, *(self.variables if per_request else ())]
            raise self._error(
                place,
                f"unknown parameter{' or variable' if per_request else ''} {name!r}",
                did_you_mean(name, known),
            ) from None
        self.length += len(value) if isinstance(value, str) else 0
        if self.length > MOST_FILLED:
            raise self._error(place, f"parameters add more than {MOST_FILLED >> 20} MiB of text", "shorten them")
        self.filled[place] = (*self.filled.get(place, ()), name)
        return value

    def _error(self, place: Place, what: str, remedy: str) -> BadInput:
        """Return the error at a place of the document."""
        return self.document.error(place, what, remedy)


def value_text(value: Value) -> str:
    """Format a value within a longer text: a text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value)


def _escaped(text: str, per_request: bool) -> str:
    """Return a parameter's text; with `per_request`, escaped so that the engine reads no placeholders in it."""
    return text.replace("${", "$${") if per_request else text


def _document_id(value: Any) -> Any:
    """Return an id unchanged; refuse anything but a whole number or a text that is not empty."""
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise wrong(f"expected a text or a whole number, not {short_json(value)}")
    return value


def whole(least: int) -> BeforeValidator:
    """Return a validator that accepts whole numbers of at least `least`, and texts with a placeholder, unchanged."""

    def read(value: Any) -> Any:
        """Return a value unchanged; refuse anything but such a whole number or a text with a placeholder."""
        if isinstance(value, str) and set(names(value)):
            return value
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise wrong(f"expected a whole number of at least {least}, not {short_json(value)}")
        return value

    return BeforeValidator(read)


def _or_hole(value: Any) -> Any:
    """Return a value unchanged; refuse anything but a mapping or a text that consists of one placeholder."""
    if isinstance(value, dict) or (isinstance(value, str) and _ONE_HOLE.fullmatch(value)):
        return value
    raise wrong(f"expected a mapping, not {short_json(value)}", 'or write one variable, such as "${body}"')


def _routing(value: Any) -> Any:
    """Return a routing value, also from `{of: VALUE, on: true}`. Return None for `{of: VALUE, on: false}`.

    With `on`, a parameter can disable routing. Refuses a value that is not a document id.
    """
    if isinstance(value, dict) and set(value) == {"of", "on"} and isinstance(value["on"], bool):
        return _document_id(value["of"]) if value["on"] else None
    return _document_id(value)


_ONE_HOLE = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")

#: A body, or the placeholder of a variable that provides it.
Body = Annotated[dict[str, Any] | str, BeforeValidator(_or_hole)]
Text = Annotated[str, Field(min_length=1)]
Positive = Annotated[int, Field(ge=1)]
#: A fraction, 0 to 1.
Fraction = Annotated[float, Field(ge=0, le=1)]
Id = Annotated[str | int, BeforeValidator(_document_id)]
#: The routing value, which selects the shard of a document; None: by id.
Routing = Annotated[
    str | int | None, BeforeValidator(_routing, json_schema_input_type=str | int | dict[Literal["of", "on"], Any])
]
#: A number of hits, which a variable may provide per request.
Hits = Annotated[int | str, whole(0)]
#: The same, at least 1.
Count = Annotated[int | str, whole(1)]
