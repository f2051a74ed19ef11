"""Encryption of the fields of a collection, derived from its mapping."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator

from loadframe.yamlfile import Model, short_json, wrong

_WORDS = frozenset(("text", "match_only_text"))
_TEXTS = frozenset(("keyword", "constant_keyword", "wildcard", "boolean", *_WORDS))
_WHOLE = frozenset(("byte", "short", "integer", "long"))
_REAL = frozenset(("half_float", "float", "double"))
_EPOCHS = frozenset(("epoch_millis", "epoch_second"))
#: Decimals of encrypted floating-point numbers and coordinates.
DECIMALS = 6
#: Mapping parameters that an encrypted field keeps.
_KEPT = ("index", "doc_values", "store")
#: Supported mapping parameters of a searchable field. Others, such as a normalizer, change which values match.
_KNOWN = frozenset(("type", "format", "scaling_factor", "fields", *_KEPT))
#: Letters of a date format: the strftime directive, and the resolution in milliseconds.
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


class NotEncryptable(Exception):
    """A field, query or operation has no encrypted form; the message explains why."""


@dataclass(frozen=True)
class Field:
    """A field: its full dotted name and its encryption in the format of plans."""

    name: str
    how: str | Mapping[str, Any]
    #: Whether queries by value work on the encrypted field. Not for full text and geographic points.
    searchable: bool = True

    @property
    def ordered(self) -> bool:
        """Whether encryption preserves the order of values, so that ranges, sorts, minima and maxima work."""
        return self.how != "text" and self.searchable

    def encryption_in(self, date_format: str | None) -> str | Mapping[str, Any]:
        """Return the encryption of a query's value; `date_format` is the format of its dates, None for the field's own.

        NotEncryptable for an unsupported format, and for a format of a field without dates.
        """
        if date_format is None:
            return self.how
        if isinstance(self.how, Mapping) and "instant" in self.how:
            return {"instant": _instant(date_format)}
        raise NotEncryptable(f"a date format does not apply to the field {self.name!r}")


def fields_of(mappings: Mapping[str, Any]) -> dict[str, Field]:
    """Return the fields of a mapping by full name, with dots for nested objects, without multi-fields.

    NotEncryptable for an unsupported type, parameter or mapping.
    """
    return {field.name: field for field in _fields(_properties(mappings), "")}


def encrypted_mappings(mappings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the mapping of the encrypted documents: texts and booleans are `keyword`, all others `long`.

    NotEncryptable for an unsupported type or mapping.
    """
    return {**mappings, "properties": _encrypted(_properties(mappings), "")}


def _properties(mappings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields of a mapping; NotEncryptable without fields.

    NotEncryptable also for dynamic templates and runtime fields, whose types are unknown.
    """
    for key in ("dynamic_templates", "runtime"):
        if key in mappings:
            raise NotEncryptable(f"its mapping uses {key}, so the types of fields are unknown")
    properties: Mapping[str, Any] = mappings.get("properties") or {}
    if not properties:
        raise NotEncryptable("it lacks a mapping with the types of its fields")
    return properties


def _fields(properties: Mapping[str, Any], prefix: str) -> Iterator[Field]:
    """Yield the fields of `properties` and of nested objects; `prefix` is put before their names.

    NotEncryptable for an unsupported type or parameter.
    """
    for name, mapping in properties.items():
        path = f"{prefix}{name}"
        if "properties" in mapping:
            yield from _fields(mapping["properties"], f"{path}.")
        else:
            yield _field(path, mapping)


def _field(name: str, mapping: Mapping[str, Any]) -> Field:
    """Return the encryption of a field, from its mapping; NotEncryptable for an unsupported type or parameter."""
    kind, date_format = mapping.get("type"), mapping.get("format", "")
    scaling = float(mapping.get("scaling_factor", 0))
    unsupported = sorted(mapping.keys() - _KNOWN) if kind not in _WORDS else []
    if unsupported:
        raise NotEncryptable(f"the mapping of the field {name!r} has {unsupported[0]}, which changes query matches")
    if kind in _TEXTS:
        return Field(name, "text", searchable=kind not in _WORDS)
    if kind == "date" and date_format not in _EPOCHS:
        return Field(name, {"instant": _instant(date_format, name)})
    if kind in _WHOLE or kind == "date":
        number: dict[str, Any] = {"unit": 1}
    elif kind in _REAL:
        number = {"unit": 10**DECIMALS}
    elif kind == "scaled_float" and scaling.is_integer():
        # The store rounds these numbers as well.
        number = {"unit": int(scaling), "rounded": True}
    elif kind == "geo_point":
        number = {"unit": 10**DECIMALS, "rounded": True}
    else:
        raise NotEncryptable(f"the type {kind} of the field {name!r} cannot be encrypted")
    return Field(name, {"number": number}, searchable=kind != "geo_point")


def _instant(date_format: str, name: str | None = None) -> dict[str, Any]:
    """Convert a date format of the store, such as `yyyy-MM-dd`, to `{"format": STRFTIME, "span": RESOLUTION}`.

    RESOLUTION is in milliseconds. NotEncryptable for a format without year, month and day, or with letters other than
    yyyy uuuu MM dd HH mm ss SSS. `name` is the field, for errors, or None for a format in a query.
    """
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
        of = f"of the field {name!r}" if name else "of a query"
        what = (
            f"the date format {date_format!r} {of} is unsupported"
            if date_format
            else f"the date format {of} is missing"
        )
        raise NotEncryptable(f"{what}; it must consist of yyyy MM dd HH mm ss SSS")
    return {"format": text, "span": span}


def _encrypted(properties: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return the mappings of encrypted fields, also in nested objects; `prefix` is put before their names, for errors.

    Keeps `index`, `doc_values` and `store`. NotEncryptable for an unsupported type or parameter.
    """
    encrypted: dict[str, Any] = {}
    for name, mapping in properties.items():
        path = f"{prefix}{name}"
        if "properties" in mapping:
            encrypted[name] = {**mapping, "properties": _encrypted(mapping["properties"], f"{path}.")}
        else:
            kept = {key: mapping[key] for key in _KEPT if key in mapping}
            encrypted[name] = {"type": "keyword" if _field(path, mapping).how == "text" else "long", **kept}
    return encrypted


def _key(value: str) -> str:
    """Return a text unchanged; refuse anything but an AES-128 key of 32 hexadecimal digits."""
    if not re.fullmatch(r"[0-9A-Fa-f]{32}", value):
        raise wrong(f"{short_json(value)} is not an AES-128 key", "write 32 hexadecimal digits")
    return value


class ClientEncryption(Model):
    """Client-side encryption of values with AES-128.

    The manifest records the key so that runs are repeatable: do not use a secret key.
    """

    enabled: bool
    key: Annotated[str, AfterValidator(_key)] = "000102030405060708090a0b0c0d0e0f"
