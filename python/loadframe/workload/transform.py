"""Transformation of a source's lines: steps that change fields or drop events before id and timestamp are read.

The engine applies the steps. This module validates them and refuses steps that fail on every line.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, Strict, model_validator

from loadframe.workload.forms import Text
from loadframe.yamlfile import NOT_EMPTY, Model, Name, Place, Scalar, short_json, wrong


def _path_inside(value: str) -> str:
    """Return a text unchanged; refuse anything but a field of an event: names joined by dots, without `/` and `~`."""
    if not re.fullmatch(r"[^./~]+(\.[^./~]+)*", value):
        raise wrong(f"{short_json(value)} is not a field of an event", "write a name, or a path such as a.b")
    return value


def _date_format(value: str) -> str:
    """Return a date format unchanged; refuse other directives than %Y %m %d %H %M %S %j %G %V %%, which write dates."""
    if not re.fullmatch(r"([^%]|%[YmdHMSjGV%])*", value):
        what = f"{short_json(value)} is not a format of dates"
        raise wrong(what, "use %Y, %m, %d, %H, %M, %S, %j, %G, %V and %%, such as %Y.%m.%d")
    return value


def _parsed_format(value: str) -> str:
    """Return a date format unchanged; refuse other directives than strptime's, which read dates."""
    if not re.fullmatch(r"([^%]|%[YymbBdeaAjHIMSpfzs%])*", value):
        what = f"{short_json(value)} is not a format of dates to read"
        raise wrong(what, "use directives of strptime, such as %d/%b/%Y:%H:%M:%S %z")
    return value


#: A field of an event; dots separate the names of nested fields.
Inside = Annotated[Text, AfterValidator(_path_inside)]
Fields = Annotated[tuple[Inside, ...], Strict(False), NOT_EMPTY]


class Expression(Model):
    """Value of a derived field: exactly one of `date`, `part`, `join`, `sum` and `product`."""

    date: Inside | None = None
    format: Annotated[Text, AfterValidator(_date_format)] | None = None
    from_: Annotated[Text, AfterValidator(_parsed_format)] | None = Field(None, alias="from")
    part: Inside | None = None
    split: Text | None = None
    at: Annotated[int, Field(ge=0, lt=2**31)] | None = None
    join: Fields | None = None
    with_: str | None = Field(None, alias="with")
    sum: Fields | None = None
    product: Fields | None = None

    @model_validator(mode="after")
    def _check_keys(self) -> "Expression":
        """Refuse other than exactly one kind of expression, and keys that it lacks or does not support."""
        kind = _only(self, tuple(_COMPANIONS), "expression")
        for other, companions in _COMPANIONS.items():
            for key in companions:
                given = self._value(key) is not None
                if given and other != kind:
                    raise wrong(f"{key} requires {other}; got {kind}", f"remove {key}", key=key)
                if not given and other == kind:
                    raise wrong(f"{kind} requires {key}", f"add {key}", key=kind)
        if self.from_ is not None and kind != "date":
            raise wrong(f"from requires date; got {kind}", "remove from", key="from")
        return self

    def _value(self, key: str) -> Any:
        """Return the value of a key of the file; `with` is the attribute `with_`."""
        return getattr(self, "with_" if key == "with" else key)

    @property
    def operands(self) -> tuple[str, ...]:
        """The fields that it reads, with dots, in file order."""
        given = next(value for kind in _COMPANIONS if (value := getattr(self, kind)) is not None)
        return (given,) if isinstance(given, str) else tuple(given)

    def plan(self) -> dict[str, Any]:
        """Return the expression for the plan, with fields as JSON pointers."""
        kind = next(kind for kind in _COMPANIONS if getattr(self, kind) is not None)
        fields = [pointer(field) for field in self.operands]
        if not _COMPANIONS[kind]:
            return {kind: fields}
        of = fields if kind == "join" else fields[0]
        read = {} if self.from_ is None else {"from": self.from_}
        return {kind: {"of": of, **{key: self._value(key) for key in _COMPANIONS[kind]}, **read}}


#: Further keys that each kind of expression requires.
_COMPANIONS: Mapping[str, tuple[str, ...]] = {
    "date": ("format",),
    "part": ("split", "at"),
    "join": ("with",),
    "sum": (),
    "product": (),
}


def _bound(value: Any) -> Any:
    """Return a value unchanged; refuse anything but a float or a whole number of 64 bits."""
    fits = isinstance(value, float) or (type(value) is int and -(2**63) <= value < 2**63)
    if not fits:
        raise wrong(f"{short_json(value)} is not a number of 64 bits", "write a number such as 5 or 0.5")
    return value


_Bound = Annotated[int | float, BeforeValidator(_bound, json_schema_input_type=int | float)]


def _listed(value: Any) -> Any:
    """Return a list unchanged, and another value as a list of one."""
    return value if isinstance(value, list | tuple) else [value]


class EventCondition(Model):
    """A condition on an event: tests of the field `of`, all of which must hold, or `not`, `all` or `any`.

    A missing field satisfies only `missing`. A field of another type satisfies no comparison.
    """

    of: Inside | None = None
    equals: (
        Annotated[
            tuple[Scalar, ...],
            Strict(False),
            BeforeValidator(_listed, json_schema_input_type=Scalar | list[Scalar]),
            NOT_EMPTY,
        ]
        | None
    ) = None
    matches: Text | None = None
    exists: Literal[True] | None = None
    missing: Literal[True] | None = None
    at_least: _Bound | None = None
    above: _Bound | None = None
    at_most: _Bound | None = None
    below: _Bound | None = None
    not_: "EventCondition | None" = Field(None, alias="not")
    all: Annotated[tuple["EventCondition", ...], Strict(False), NOT_EMPTY] | None = None
    any: Annotated[tuple["EventCondition", ...], Strict(False), NOT_EMPTY] | None = None

    @model_validator(mode="after")
    def _check_keys(self) -> "EventCondition":
        """Refuse a condition without a test, and `not`, `all` or `any` with other keys."""
        given = {key.rstrip("_") for key in self.model_fields_set}
        if not given & _GROUPS and not (self.of and self._tests()):
            remedy = f"add of and one of {', '.join(_TESTS)}; or use not, all or any"
            raise wrong("the condition tests nothing", remedy)
        if given & _GROUPS and len(given) > 1:
            group = sorted(given & _GROUPS)[0]
            raise wrong(f"{group} excludes other keys", "combine conditions with all or any", key=group)
        return self

    def plan(self) -> dict[str, Any]:
        """Return the condition for the plan, with fields as JSON pointers. Several tests of a field become `all`."""
        if self.not_ is not None:
            return {"not": self.not_.plan()}
        for key, inner in (("all", self.all), ("any", self.any)):
            if inner is not None:
                return {key: [condition.plan() for condition in inner]}
        assert self.of is not None  # by the validator
        planned = [{"field": {"field": pointer(self.of), "test": self._test(key)}} for key in self._tests()]
        return planned[0] if len(planned) == 1 else {"all": planned}

    def _tests(self) -> list[str]:
        """Return the keys of the tests that are set, in a fixed order. `equals: null` is one."""
        given = [key for key in _TESTS if key in self.model_fields_set]
        return [key for key in given if key == "equals" or getattr(self, key) is not None]

    def _test(self, key: str) -> Any:
        """Return the test under `key` in the format of plans; `equals: null` becomes a list with None."""
        if key in ("exists", "missing"):
            return key
        value = getattr(self, key)
        return {key: list(value or [None]) if key == "equals" else value}


_TESTS = ("equals", "matches", "exists", "missing", "at_least", "above", "at_most", "below")
_GROUPS = {"not", "all", "any"}


class Grok(Model):
    """Patterns that take fields out of a text: the first one that fits counts."""

    match: Annotated[
        tuple[Text, ...], Strict(False), BeforeValidator(_listed, json_schema_input_type=str | list[str]), NOT_EMPTY
    ]
    patterns: dict[Name, Text] = Field({})


def _match_alone(value: Any) -> Any:
    """Return the mapping of a grok step for a plain pattern or list of patterns; return other values unchanged."""
    return value if isinstance(value, dict | Grok) else {"match": value}


class TransformStep(Model):
    """A step of a transformation; exactly one key."""

    rename: Annotated[dict[Inside, Inside], NOT_EMPTY] | None = None
    drop: Fields | None = None
    convert: Annotated[dict[Inside, Literal["integer", "float", "boolean", "text", "time"]], NOT_EMPTY] | None = None
    derive: Annotated[dict[Inside, Expression], NOT_EMPTY] | None = None
    add: Annotated[dict[Inside, Scalar], NOT_EMPTY] | None = None
    grok: (
        Annotated[
            dict[
                Inside,
                Annotated[Grok, BeforeValidator(_match_alone, json_schema_input_type=str | list[str] | Grok)],
            ],
            NOT_EMPTY,
        ]
        | None
    ) = None
    drop_event: EventCondition | None = None

    @model_validator(mode="after")
    def _check_one(self) -> "TransformStep":
        """Refuse a step with no key or several."""
        _only(self, _STEPS, "step")
        return self

    def changes(self) -> Iterator[tuple[str, str, Any]]:
        """Yield the kind of step, the field and its argument, for each field in the order of the file.

        The argument of `drop` is None. The field of `drop_event` is empty: its argument is a condition.
        """
        kind = next(kind for kind in _STEPS if getattr(self, kind) is not None)
        if kind == "drop_event":
            yield kind, "", self.drop_event
            return
        fields = getattr(self, kind)
        for field in fields:
            yield kind, field, None if kind == "drop" else fields[field]


_STEPS = ("rename", "drop", "convert", "derive", "add", "grok", "drop_event")


def _only(model: Model, keys: Sequence[str], what: str) -> str:
    """Return the one of `keys` that is set; refuse none and several. `what` is the noun for the model in messages."""
    given = [key for key in keys if getattr(model, key) is not None]
    if not given:
        raise wrong(f"the {what} is empty", f"add one of {', '.join(keys)}")
    if len(given) > 1:
        raise wrong(f"{given[0]} and {given[1]} exclude each other", "write two entries", key=given[1])
    return given[0]


def pointer(dotted: str) -> str:
    """Return the JSON pointer of a dotted path: `/a/b` for `a.b`."""
    return f"/{dotted.replace('.', '/')}"


def plan_steps(steps: Sequence[TransformStep]) -> dict[str, Any]:
    """Return `{"transform": [...]}` for the plan, one step per field in file order; empty without steps."""
    planned = []
    for kind, field, argument in (change for step in steps for change in step.changes()):
        if kind == "drop_event":
            planned.append({"step": kind, "condition": argument.plan()})
            continue
        change: dict[str, Any] = {"step": kind, "field": pointer(field)}
        if kind == "grok":
            change |= {"patterns": list(argument.match), **({"custom": argument.patterns} if argument.patterns else {})}
        elif kind == "rename":
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
        """`removed` and `made` are the fields that earlier steps removed and set."""
        self.removed, self.made = set(removed), set(made)

    def copy(self) -> "Known":
        """Return an independent copy."""
        return Known(frozenset(self.removed), frozenset(self.made))

    def gone(self, field: str) -> bool:
        """Return whether the steps so far removed the field, or an object around it.

        False if a step set the field, a part of it, or an object around it.
        """
        removed = any(_is_within(field, other) for other in self.removed)
        return removed and not any(_is_within(field, other) or _is_within(other, field) for other in self.made)

    def contradictions(self, steps: Sequence[TransformStep]) -> Iterator[tuple[Place, str, str]]:
        """Follow the steps; yield the place in the list, the problem and the remedy of each impossible step.

        Such steps read a field that an earlier one removes, or rename to a field that is set or the same. Consuming the
        iterator updates the sets of fields.
        """
        for index, step in enumerate(steps):
            for kind, field, argument in step.changes():
                if kind == "drop_event":
                    continue
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
        """Update the sets of fields for a step of this `kind`, such as `rename`, of one field, with its argument.

        After `grok`, which may set any field, no field counts as removed.
        """
        if kind == "grok":
            # Its patterns may set any field.
            self.removed.clear()
            return
        if kind in ("rename", "drop"):
            self.made = {other for other in self.made if not _is_within(other, field)}
            self.removed.add(field)
        if kind != "drop":
            target = argument if kind == "rename" else field
            self.made.add(target)
            self.removed = {other for other in self.removed if not _is_within(other, target)}


def _is_within(field: str, other: str) -> bool:
    """Return whether a dotted path equals another one or lies within it."""
    return f"{field}.".startswith(f"{other}.")
