"""Parameters: named values of a workload that can be set from outside, typed like their defaults.

A default may refer to other parameters, and to `nodes`, the number of the cluster's nodes, which is always there. It is
a single value; `{product: [...]}`, numbers multiplied, such as a scale factor by the rows of one unit; or
`{by: "${other}", one: 1, two: 2}`, a value for each value of another.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loadframe.base.errors import BadInput
from loadframe.workload.holes import Filler, Value, is_name
from loadframe.yamlfile import Document, did_you_mean, scalar, shown

#: The parameter that the cluster gives and that cannot be set.
BUILT_IN = "nodes"
#: The key of a default that is numbers multiplied.
PRODUCT = "product"
#: The first key of a default that has a value for each value of another parameter.
BY = "by"
#: Parameters that one may be made of, one of the other.
LONGEST_CHAIN = 50


def check(document: Document, defaults: Any, variables: Collection[str]) -> Mapping[str, Value]:
    """Return the file's parameters section; BadInput, with the place, if it is not valid."""
    if not isinstance(defaults, dict):
        raise document.error(("parameters",), f"expected a mapping of names to values, not {shown(defaults)}")
    for name, value in defaults.items():
        place = ("parameters", name)
        if not is_name(name):
            raise document.error(place, f"{shown(name)} is not a name", "use letters, digits and _", key=True)
        if name == BUILT_IN:
            what = f"{name!r} is built in: the number of the cluster's nodes"
            raise document.error(place, what, "choose another name", key=True)
        if name in variables:
            raise document.error(place, f"{name!r} is a variable, too", "rename one of them", key=True)
        if isinstance(value, dict) and list(value) == [PRODUCT] and isinstance(value[PRODUCT], list) and value[PRODUCT]:
            continue
        if isinstance(value, dict) and next(iter(value), None) == BY and len(value) > 1:
            if any(isinstance(one, dict | list) for one in value.values()):
                raise document.error(place, "expected a single value for each case, not a list or a mapping")
            continue
        if isinstance(value, dict | list):
            raise document.error(
                place,
                "expected a single value, not a list or a mapping",
                f"or numbers to multiply, {{{PRODUCT}: [...]}}, or a value for each of another's, {{{BY}: ...}}",
            )
    return defaults


class Parameters:
    """The values of a workload's parameters, for a cluster of a given number of nodes."""

    def __init__(
        self, document: Document, defaults: Mapping[str, Value], settings: Mapping[str, "Setting"], nodes: int
    ) -> None:
        self._document = document
        self._defaults = defaults
        self._settings = settings
        self._nodes = nodes
        self._under_way: list[str] = []
        self._known: dict[str, Value] = {}
        #: The parameters that each one's value is made of.
        self.made_of: dict[str, set[str]] = {name: set() for name in defaults}

    def value(self, name: str) -> Value:
        """Return a parameter's value; KeyError for an unknown name, BadInput for a wrong value."""
        if name == BUILT_IN:
            return self._nodes
        default = self._default(name)
        setting = self._settings.get(name)
        return default if setting is None else setting.like(name, default)

    def values(self) -> dict[str, Value]:
        """Return all values, by name."""
        return {name: self.value(name) for name in self._defaults}

    def _default(self, name: str) -> Value:
        if name in self._known:
            return self._known[name]
        default = self._defaults[name]
        if name in self._under_way:
            chain = " -> ".join([*self._under_way[self._under_way.index(name) :], name])
            raise self._document.error(("parameters", name), f"the parameter refers to itself: {chain}")
        if len(self._under_way) >= LONGEST_CHAIN:
            what = f"it is made of parameters that are made of others, over more than {LONGEST_CHAIN} steps"
            raise self._document.error(("parameters", name), what, "write the value itself")
        self._under_way.append(name)
        filler = Filler(self._document, self.value, [*self._defaults, BUILT_IN], ())
        filled = filler.fill(default, ("parameters", name), per_request=False)
        value: Value = filled
        if isinstance(filled, dict):
            used = [other for others in filler.filled.values() for other in others]
            value = self._product(name, filled[PRODUCT]) if PRODUCT in filled else self._case(name, filled, used)
        self._under_way.pop()
        self._known[name] = value
        if name not in self._settings:
            self.made_of[name].update(*filler.filled.values())
        return value

    def _case(self, name: str, cases: Mapping[str, Value], used: Iterable[str]) -> Value:
        by = cases[BY]
        wanted = by if isinstance(by, str) else str(by).lower()
        if wanted == BY or wanted not in cases:
            known = [case for case in cases if case != BY]
            what = f"{name!r} has no value for {shown(by)}, only for {', '.join(known)}"
            given = next((self._settings[other].where for other in used if other in self._settings), None)
            where = given or self._document.where(("parameters", name))
            raise BadInput(what, where=where, remedy=did_you_mean(wanted, known))
        return cases[wanted]

    def _product(self, name: str, factors: list[int | float]) -> int | float:
        for number, factor in enumerate(factors):
            if _number(factor) is None:
                place = ("parameters", name, PRODUCT, number)
                raise self._document.error(place, f"expected a number to multiply, not {shown(factor)}")
        return math.prod(factors)


@dataclass(frozen=True)
class Setting:
    """A value that a parameter is given."""

    value: Value
    #: Where it was given, for messages.
    where: str
    #: Where the value begins if it turns out to be a relative path.
    folder: Path

    def like(self, name: str, default: Value) -> Value:
        """Return the value in the type of the parameter's default; BadInput if it does not have it.

        Text, as the command line has it, is read as the type wants; a default without a type takes any single value.
        """
        value = self.value
        if isinstance(default, str):
            return value
        if isinstance(value, str):
            try:
                value = scalar(value)
            except ValueError as error:
                raise BadInput(f"the parameter {name!r}: {error}", where=self.where) from None
        if default is None:
            return value
        kind, expected = _KINDS[type(default)]
        fitting = kind(value)
        if fitting is None:
            what = f"the parameter {name!r} is {expected}, not {shown(self.value)}"
            raise BadInput(what, where=self.where, remedy=f"its default is {shown(default)}")
        return fitting


def check_names(settings: Mapping[str, Setting], defaults: Collection[str]) -> None:
    """Refuse settings of parameters that do not exist; BadInput with the nearest one."""
    for name, setting in settings.items():
        if name == BUILT_IN:
            what = f"{name!r} is the number of the cluster's nodes and no parameter"
            raise BadInput(what, where=setting.where, remedy="set the cluster's nodes instead")
        if name not in defaults:
            what = f"the workload has no parameter {name!r}"
            raise BadInput(what, where=setting.where, remedy=did_you_mean(name, defaults))


def origins(parameters: Iterable[str], made_of: Mapping[str, Collection[str]]) -> list[str]:
    """Return the parameters, then those that they are made of, and so on; each once."""
    reached = [name for name in parameters if name in made_of]
    for name in reached:  # it grows while it is walked
        reached += [other for other in sorted(made_of[name]) if other in made_of and other not in reached]
    return reached


def _boolean(value: Value) -> Value:
    return value if isinstance(value, bool) else None


def _whole(value: Value) -> Value:
    if isinstance(value, float) and value.is_integer():
        return int(value)  # 1e6 is a good way to write a million
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _number(value: Value) -> Value:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


_KINDS: dict[type, tuple[Callable[[Value], Value], str]] = {
    bool: (_boolean, "true or false"),
    int: (_whole, "a whole number"),
    float: (_number, "a number"),
}
