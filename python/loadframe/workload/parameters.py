"""Parameters: named values of a workload that a user can set, typed like their defaults.

A default is a scalar, a product `{product: [...]}`, or cases of another parameter, `{by: "${other}", a: 1, b: 2}`. It
may refer to other parameters and to the built-in `nodes`, the number of cluster nodes.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loadframe.base.errors import BadInput
from loadframe.workload.holes import Filler, Value, is_name
from loadframe.yamlfile import Document, did_you_mean, scalar, short_json

#: The read-only parameter: the number of cluster nodes.
BUILT_IN = "nodes"
#: The key of a default that multiplies numbers.
PRODUCT = "product"
#: The first key of a default that depends on another parameter.
BY = "by"
#: The longest chain of defaults that refer to each other.
LONGEST_CHAIN = 50


def check(document: Document, defaults: Any, variables: Collection[str]) -> Mapping[str, Value]:
    """Return the parameters section of a file unchanged. BadInput, with its place, for an invalid name or default.

    Names of `variables` and `nodes` are also refused. References inside defaults are not checked.
    """
    if not isinstance(defaults, dict):
        raise document.error(("parameters",), f"expected a mapping of names to values, not {short_json(defaults)}")
    for name, value in defaults.items():
        place = ("parameters", name)
        if not is_name(name):
            raise document.error(place, f"{short_json(name)} is not a name", "use letters, digits and _", key=True)
        if name == BUILT_IN:
            what = f"{name!r} is reserved for the number of cluster nodes"
            raise document.error(place, what, "choose another name", key=True)
        if name in variables:
            raise document.error(place, f"{name!r} is also a variable", "rename one of them", key=True)
        if isinstance(value, dict) and list(value) == [PRODUCT] and isinstance(value[PRODUCT], list) and value[PRODUCT]:
            continue
        if isinstance(value, dict) and next(iter(value), None) == BY and len(value) > 1:
            if any(isinstance(one, dict | list) for one in value.values()):
                raise document.error(place, "expected a scalar for each case, not a list or a mapping")
            continue
        if isinstance(value, dict | list):
            raise document.error(
                place,
                "expected a scalar, not a list or a mapping",
                f"or write a product, {{{PRODUCT}: [...]}}, or cases of another parameter, {{{BY}: ...}}",
            )
    return defaults


class Parameters:
    """The parameter values of a workload for a number of cluster nodes."""

    def __init__(
        self, document: Document, defaults: Mapping[str, Value], settings: Mapping[str, "Setting"], nodes: int
    ) -> None:
        """`defaults` are the file's parameters, `settings` the user's values, `nodes` the number of cluster nodes."""
        self._document = document
        self._defaults = defaults
        self._settings = settings
        self._nodes = nodes
        self._pending: list[str] = []
        self._known: dict[str, Value] = {}
        #: The parameters that each parameter's default refers to.
        self.made_of: dict[str, set[str]] = {name: set() for name in defaults}

    def value(self, name: str) -> Value:
        """Return a parameter's value: the user's, else the default. KeyError for an unknown name.

        BadInput for a setting of a wrong type, and for a default without a value, even if a setting replaces it.
        """
        if name == BUILT_IN:
            return self._nodes
        default = self._default(name)
        setting = self._settings.get(name)
        return default if setting is None else setting.like(name, default)

    def values(self) -> dict[str, Value]:
        """Return all values, by name, in file order; without `nodes`. BadInput for an invalid setting or default."""
        return {name: self.value(name) for name in self._defaults}

    def _default(self, name: str) -> Value:
        """Return a parameter's default with its references filled in, computed once. KeyError for an unknown name.

        Records the references in `made_of`, unless the user set the parameter. BadInput for a parameter that refers to
        itself, a chain of more than 50 references, an unknown name, a missing case and a factor that is not a number.
        """
        if name in self._known:
            return self._known[name]
        default = self._defaults[name]
        if name in self._pending:
            chain = " -> ".join([*self._pending[self._pending.index(name) :], name])
            raise self._document.error(("parameters", name), f"the parameter refers to itself: {chain}")
        if len(self._pending) >= LONGEST_CHAIN:
            what = f"the parameter refers to others in a chain of more than {LONGEST_CHAIN}"
            raise self._document.error(("parameters", name), what, "write the value itself")
        self._pending.append(name)
        filler = Filler(self._document, self.value, [*self._defaults, BUILT_IN], ())
        filled = filler.fill(default, ("parameters", name), per_request=False)
        value: Value = filled
        if isinstance(filled, dict):
            used = [other for others in filler.filled.values() for other in others]
            value = self._product(name, filled[PRODUCT]) if PRODUCT in filled else self._case(name, filled, used)
        self._pending.pop()
        self._known[name] = value
        if name not in self._settings:
            self.made_of[name].update(*filler.filled.values())
        return value

    def _case(self, name: str, cases: Mapping[str, Value], used: Iterable[str]) -> Value:
        """Return the value in `cases` for the value under their key `by`. BadInput without such a case.

        `name` is the parameter with these cases. A value that is not a text is looked up as lower-case text, such as
        `true`. `used` are the parameters that the default refers to: a setting of one of them is the place of the
        error.
        """
        by = cases[BY]
        wanted = by if isinstance(by, str) else str(by).lower()
        if wanted == BY or wanted not in cases:
            known = [case for case in cases if case != BY]
            what = f"{name!r} lacks a case for {short_json(by)}; it has {', '.join(known)}"
            set_at = next((self._settings[other].where for other in used if other in self._settings), None)
            where = set_at or self._document.where(("parameters", name))
            raise BadInput(what, where=where, remedy=did_you_mean(wanted, known))
        return cases[wanted]

    def _product(self, name: str, factors: list[int | float]) -> int | float:
        """Return the product of `factors`. BadInput, at the default of the parameter `name`, if one is not a number."""
        for number, factor in enumerate(factors):
            if _number(factor) is None:
                place = ("parameters", name, PRODUCT, number)
                raise self._document.error(place, f"expected a number to multiply, not {short_json(factor)}")
        return math.prod(factors)


@dataclass(frozen=True)
class Setting:
    """A value that the user set for a parameter."""

    value: Value
    #: Where the user set it, for messages.
    where: str
    #: The folder to resolve it against if it is a relative path.
    folder: Path

    def like(self, name: str, default: Value) -> Value:
        """Return the value converted to the type of the default of the parameter `name`. BadInput if it does not fit.

        For a default that is not a text, a text, as from the command line, is parsed as YAML. A text default accepts
        any value unchanged, a null default any scalar. A whole number may be a float such as 1e6.
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
            what = f"the parameter {name!r} must be {expected}; got {short_json(self.value)}"
            raise BadInput(what, where=self.where, remedy=f"its default is {short_json(default)}")
        return fitting


def check_names(settings: Mapping[str, Setting], defaults: Collection[str]) -> None:
    """Refuse settings of unknown parameters and of `nodes`, with BadInput; the remedy suggests a similar name."""
    for name, setting in settings.items():
        if name == BUILT_IN:
            what = f"{name!r} cannot be set: it is the number of cluster nodes"
            raise BadInput(what, where=setting.where, remedy="change the number of cluster nodes instead")
        if name not in defaults:
            what = f"unknown parameter {name!r} of the workload"
            raise BadInput(what, where=setting.where, remedy=did_you_mean(name, defaults))


def origins(parameters: Iterable[str], made_of: Mapping[str, Collection[str]]) -> list[str]:
    """Return the parameters followed by all parameters that they refer to, directly or not; each reference once.

    Drops names that are not in `made_of`, which maps each parameter to those it refers to.
    """
    reached = [name for name in parameters if name in made_of]
    for name in reached:  # grows during the iteration
        reached += [other for other in sorted(made_of[name]) if other in made_of and other not in reached]
    return reached


def _boolean(value: Value) -> Value:
    """Return a boolean unchanged, or None for other values."""
    return value if isinstance(value, bool) else None


def _whole(value: Value) -> Value:
    """Return a whole number, also from a float such as 1e6, or None for other values."""
    if isinstance(value, float) and value.is_integer():
        return int(value)  # accept 1e6 for a million
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _number(value: Value) -> Value:
    """Return a number unchanged, or None for other values."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


_KINDS: dict[type, tuple[Callable[[Value], Value], str]] = {
    bool: (_boolean, "true or false"),
    int: (_whole, "a whole number"),
    float: (_number, "a number"),
}
