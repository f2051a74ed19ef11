"""The fields of a collection, as its mapping has them, and how the values of each are encrypted."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator

from loadframe.yamlfile import Model, shown, wrong

_WORDS = frozenset(("text", "match_only_text"))
_TEXTS = frozenset(("keyword", "constant_keyword", "wildcard", "boolean", *_WORDS))
_WHOLE = frozenset(("byte", "short", "integer", "long"))
_REAL = frozenset(("half_float", "float", "double"))
_EPOCHS = frozenset(("epoch_millis", "epoch_second"))
#: Decimals that numbers may have whose mapping says none.
DECIMALS = 6
#: What an encrypted field keeps of its mapping.
_KEPT = ("index", "doc_values", "store")
#: What a mapping may say of a field that is searched. All else, such as a normalizer, changes which values match.
_KNOWN = frozenset(("type", "format", "scaling_factor", "fields", *_KEPT))
#: Letters of a format of dates: as strftime has them, and the milliseconds that they tell apart.
_LETTERS = {
    "yyyy": ("%Y", 0),
    "uuuu": ("%Y", 0),
    "MM": ("%m", 0),
    "dd": ("%d", 86_400_000),
    "HH": ("%H", 3_600_000),
    "mm": ("%M", 60_000),
    "ss": ("%S", 1000),
    "SSS": ("%L", 1),
}
_PIECE = re.compile(r"'([^'%]*)'|([A-Za-z]+)|([^A-Za-z'%|]+)")


class NotEncrypted(Exception):  # noqa: N818 - reads as what it is where it is caught
    """Something has no encrypted form; the message says what and why."""


@dataclass(frozen=True)
class Field:
    """A field: its name with those around it, and how its values are encrypted, in the engine's words."""

    name: str
    how: str | Mapping[str, Any]
    #: Whether a query for a value finds what has it: not within texts, nor of places.
    searchable: bool = True

    @property
    def ordered(self) -> bool:
        """Whether encrypted values have the order of the plain ones."""
        return self.how != "text" and self.searchable

    def asked_in(self, date_format: str | None) -> str | Mapping[str, Any]:
        """Return how a query's value is encrypted, whose dates may have another format; NotEncrypted if they cannot."""
        if date_format is None:
            return self.how
        if isinstance(self.how, Mapping) and "instant" in self.how:
            return {"instant": _instant(date_format)}
        raise NotEncrypted(f"the field {self.name!r} has no dates in a format")


def fields_of(mappings: Mapping[str, Any]) -> dict[str, Field]:
    """Return the fields of a mapping by their full names; NotEncrypted for one whose type has no encrypted form."""
    return {field.name: field for field in _fields(_properties(mappings), "")}


def encrypted_mappings(mappings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the mapping of the encrypted documents: texts are keywords, numbers and dates are `long`."""
    return {**mappings, "properties": _encrypted(_properties(mappings), "")}


def _properties(mappings: Mapping[str, Any]) -> Mapping[str, Any]:
    for key in ("dynamic_templates", "runtime"):
        if key in mappings:
            raise NotEncrypted(f"its mapping has {key}, which name no types of fields beforehand")
    properties: Mapping[str, Any] = mappings.get("properties") or {}
    if not properties:
        raise NotEncrypted("it has no mapping, which says what its fields are")
    return properties


def _fields(properties: Mapping[str, Any], before: str) -> Iterator[Field]:
    for name, said in properties.items():
        path = f"{before}{name}"
        if "properties" in said:
            yield from _fields(said["properties"], f"{path}.")
        else:
            yield _field(path, said)


def _field(name: str, said: Mapping[str, Any]) -> Field:
    kind, date_format = said.get("type"), said.get("format", "")
    scaling = float(said.get("scaling_factor", 0))
    changing = sorted(said.keys() - _KNOWN) if kind not in _WORDS else []
    if changing:
        raise NotEncrypted(f"the mapping of the field {name!r} has {changing[0]}, which changes what matches")
    if kind in _TEXTS:
        return Field(name, "text", searchable=kind not in _WORDS)
    if kind == "date" and date_format not in _EPOCHS:
        return Field(name, {"instant": _instant(date_format, name)})
    if kind in _WHOLE or kind == "date":
        number: dict[str, Any] = {"unit": 1}
    elif kind in _REAL:
        number = {"unit": 10**DECIMALS}
    elif kind == "scaled_float" and scaling.is_integer():
        # The store rounds such numbers, too.
        number = {"unit": int(scaling), "rounded": True}
    elif kind == "geo_point":
        number = {"unit": 10**DECIMALS, "rounded": True}
    else:
        raise NotEncrypted(f"the field {name!r} is of the type {kind}, which has no encrypted form")
    return Field(name, {"number": number}, searchable=kind != "geo_point")


def _instant(date_format: str, name: str | None = None) -> dict[str, Any]:
    """Return a format of dates as the engine reads it, and how many milliseconds a text in it stands for."""
    pieces, end, span = [], 0, 86_400_000
    for match in _PIECE.finditer(date_format):
        quoted, letters, other = match.groups()
        if match.start() != end or (letters is not None and letters not in _LETTERS):
            break
        end = match.end()
        pieces.append(_LETTERS[letters][0] if letters else quoted or other or "")
        span = min(span, _LETTERS[letters][1] or span) if letters else span
    text = "".join(pieces)
    if end < len(date_format) or not all(day in text for day in ("%Y", "%m", "%d")):
        of = f"the field {name!r} has dates in" if name else "a query has dates in"
        what = f"the format {date_format!r}" if date_format else "no format"
        raise NotEncrypted(f"{of} {what}; it has to be made of yyyy MM dd HH mm ss SSS")
    return {"format": text, "span": span}


def _encrypted(properties: Mapping[str, Any], before: str) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, said in properties.items():
        path = f"{before}{name}"
        if "properties" in said:
            made[name] = {**said, "properties": _encrypted(said["properties"], f"{path}.")}
        else:
            kept = {key: said[key] for key in _KEPT if key in said}
            made[name] = {"type": "keyword" if _field(path, said).how == "text" else "long", **kept}
    return made


def _key(value: str) -> str:
    if not re.fullmatch(r"[0-9A-Fa-f]{32}", value):
        raise wrong(f"{shown(value)} is not a key", "give 32 hexadecimal digits")
    return value


class ClientEncryption(Model):
    """Whether values are encrypted before the store gets them, and the key of AES-128.

    The key stands in the manifest, since runs must be repeatable: it must not be one that protects anything.
    """

    enabled: bool
    key: Annotated[str, AfterValidator(_key)] = "000102030405060708090a0b0c0d0e0f"
