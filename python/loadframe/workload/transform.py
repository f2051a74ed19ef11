"""Transformation of a source's lines: steps that change fields before the id and the timestamp are read.

The engine applies the steps. This module validates them and refuses steps that fail on every line.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, Strict, model_validator

from loadframe.workload.forms import Text
from loadframe.yamlfile import NOT_EMPTY, Model, Place, Scalar, short_json, wrong


def _path_inside(value: str) -> str:
    if not re.fullmatch(r"[^./~]+(\.[^./~]+)*", value):
        raise wrong(f"{short_json(value)} is not a field of an event", "write a name, or a path such as a.b")
    return value


def _date_format(value: str) -> str:
    if not re.fullmatch(r"([^%]|%[YmdHMSjGV%])*", value):
        what = f"{short_json(value)} is not a format of dates"
        raise wrong(what, "use %Y, %m, %d, %H, %M, %S, %j, %G, %V and %%, such as %Y.%m.%d")
    return value


#: A field of an event; dots separate the names of nested fields.
Inside = Annotated[Text, AfterValidator(_path_inside)]
Fields = Annotated[tuple[Inside, ...], Strict(False), NOT_EMPTY]


class Expression(Model):
    """Value of a derived field: exactly one of `date`, `part`, `join`, `sum` and `product`."""

    date: Inside | None = None
    format: Annotated[Text, AfterValidator(_date_format)] | None = None
    part: Inside | None = None
    split: Text | None = None
    at: Annotated[int, Field(ge=0, lt=2**31)] | None = None
    join: Fields | None = None
    with_: str | None = Field(None, alias="with")
    sum: Fields | None = None
    product: Fields | None = None

    @model_validator(mode="after")
    def _check_keys(self) -> "Expression":
        kind = _only(self, tuple(_COMPANIONS), "expression")
        for other, companions in _COMPANIONS.items():
            for key in companions:
                given = self._value(key) is not None
                if given and other != kind:
                    raise wrong(f"{key} requires {other}; got {kind}", f"remove {key}", key=key)
                if not given and other == kind:
                    raise wrong(f"{kind} requires {key}", f"add {key}", key=kind)
        return self

    def _value(self, key: str) -> Any:
        return getattr(self, "with_" if key == "with" else key)

    @property
    def operands(self) -> tuple[str, ...]:
        """The fields that it reads."""
        given = next(value for kind in _COMPANIONS if (value := getattr(self, kind)) is not None)
        return (given,) if isinstance(given, str) else tuple(given)

    def plan(self) -> dict[str, Any]:
        """Return the expression for the plan."""
        kind = next(kind for kind in _COMPANIONS if getattr(self, kind) is not None)
        fields = [pointer(field) for field in self.operands]
        if not _COMPANIONS[kind]:
            return {kind: fields}
        of = fields if kind == "join" else fields[0]
        return {kind: {"of": of, **{key: self._value(key) for key in _COMPANIONS[kind]}}}


#: Further keys that each kind of expression requires.
_COMPANIONS: Mapping[str, tuple[str, ...]] = {
    "date": ("format",),
    "part": ("split", "at"),
    "join": ("with",),
    "sum": (),
    "product": (),
}


class TransformStep(Model):
    """A step of a transformation: exactly one of `rename`, `drop`, `convert`, `derive` and `add`."""

    rename: Annotated[dict[Inside, Inside], NOT_EMPTY] | None = None
    drop: Fields | None = None
    convert: Annotated[dict[Inside, Literal["integer", "float", "boolean", "text", "time"]], NOT_EMPTY] | None = None
    derive: Annotated[dict[Inside, Expression], NOT_EMPTY] | None = None
    add: Annotated[dict[Inside, Scalar], NOT_EMPTY] | None = None

    @model_validator(mode="after")
    def _check_one(self) -> "TransformStep":
        _only(self, _STEPS, "step")
        return self

    def changes(self) -> Iterator[tuple[str, str, Any]]:
        """Yield the kind of step, the field and its argument, for each field in the order of the file."""
        kind = next(kind for kind in _STEPS if getattr(self, kind) is not None)
        fields = getattr(self, kind)
        for field in fields:
            yield kind, field, None if kind == "drop" else fields[field]


_STEPS = ("rename", "drop", "convert", "derive", "add")


def _only(model: Model, keys: Sequence[str], what: str) -> str:
    """Return the key that is given; refuse none and several."""
    given = [key for key in keys if getattr(model, key) is not None]
    if not given:
        raise wrong(f"the {what} is empty", f"add one of {', '.join(keys)}")
    if len(given) > 1:
        raise wrong(f"{given[0]} and {given[1]} exclude each other", "write two entries", key=given[1])
    return given[0]


def pointer(dotted: str) -> str:
    """Return the JSON pointer of a dotted path."""
    return f"/{dotted.replace('.', '/')}"


def plan_steps(steps: Sequence[TransformStep]) -> dict[str, Any]:
    """Return the steps for the plan, one per field; empty without steps."""
    planned = []
    for kind, field, argument in (change for step in steps for change in step.changes()):
        change: dict[str, Any] = {"step": kind, "field": pointer(field)}
        if kind == "rename":
            change["to"] = pointer(argument)
        elif kind == "convert":
            change["to"] = argument
        elif kind in ("derive", "add"):
            change["value"] = argument.plan() if kind == "derive" else argument
        planned.append(change)
    return {"transform": planned} if planned else {}


class Known:
    """Fields that the steps so far have set or removed on every line that has them."""

    def __init__(self, removed: frozenset[str] = frozenset(), made: frozenset[str] = frozenset()) -> None:
        self.removed, self.made = set(removed), set(made)

    def copy(self) -> "Known":
        """Return an independent copy."""
        return Known(frozenset(self.removed), frozenset(self.made))

    def gone(self, field: str) -> bool:
        """Return whether no line has the field."""
        removed = any(_is_within(field, other) for other in self.removed)
        return removed and not any(_is_within(field, other) or _is_within(other, field) for other in self.made)

    def contradictions(self, steps: Sequence[TransformStep]) -> Iterator[tuple[Place, str, str]]:
        """Follow the steps; yield the place in the list, the problem and the remedy of each one that cannot work."""
        for index, step in enumerate(steps):
            for kind, field, argument in step.changes():
                place: Place = (index, kind, step.drop.index(field) if step.drop is not None else field)
                reads = argument.operands if kind == "derive" else () if kind == "add" else (field,)
                for read in reads:
                    if self.gone(read):
                        yield place, f"an earlier step removes the field {read!r}", "change the order, or remove one"
                if kind == "rename" and any(_is_within(other, argument) for other in {*self.made, field}):
                    what = f"an earlier step sets the field {argument!r}, or it is the same field"
                    yield place, what, "choose another name"
                self._follow(kind, field, argument)

    def _follow(self, kind: str, field: str, argument: Any) -> None:
        if kind in ("rename", "drop"):
            self.made = {other for other in self.made if not _is_within(other, field)}
            self.removed.add(field)
        if kind != "drop":
            target = argument if kind == "rename" else field
            self.made.add(target)
            self.removed = {other for other in self.removed if not _is_within(other, target)}


def _is_within(field: str, other: str) -> bool:
    return f"{field}.".startswith(f"{other}.")
