"""Factors of an experiment with their levels, and expressions such as `${10 * nodes}` of these levels.

Only arithmetic is allowed: numbers, + - * / // %, parentheses, min and max, `nodes`, and names of factors. Python's
parser builds the tree; `_check` refuses all other nodes, and `_value` evaluates it.
"""

import ast
import functools
import itertools
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loadframe.base.errors import BadInput
from loadframe.base.units import (
    MOST_NODES,
    MOST_RANKS,
    MOST_RATE,
    MOST_THREADS,
    parse_bandwidth,
    parse_cores,
    parse_duration,
    parse_rate,
    parse_share,
    parse_size,
    parse_throughput,
)
from loadframe.cluster import Encryption
from loadframe.workload import Workload
from loadframe.yamlfile import Document, Place, did_you_mean, short_json

_MARK, _END = "${", "}"
#: Longest expression in characters, and the largest absolute value.
_LONGEST, _LARGEST = 200, 1e15
_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_FUNCTIONS: dict[str, Callable[[list[Any]], Any]] = {"min": min, "max": max}
_REMEDY = "use numbers, names of factors such as nodes, + - * / // %, parentheses, min(...) and max(...)"


def is_expression(value: object) -> bool:
    """Return whether a value in a file is one expression `${...}`, without text around it; `$${...}` is text."""
    return isinstance(value, str) and value.startswith(_MARK) and value.endswith(_END) and value.count(_MARK) == 1


@dataclass(frozen=True)
class Expression:
    """An expression as written, with the names in it."""

    text: str
    names: tuple[str, ...]

    def value(self, levels: Mapping[str, object]) -> int | float:
        """Return the value at the levels of a run (by name, with `nodes`), as int if whole.

        BadInput for a name without a number as level, a division by zero, or an absolute value above 1e15.
        """
        try:
            value = _value(_parsed(self.text), self.text, levels)
        except ZeroDivisionError:
            raise BadInput(f"{self.text} divides by zero{_at(self.names, levels)}") from None
        if not math.isfinite(value) or abs(value) > _LARGEST:
            raise BadInput(f"{self.text} exceeds {_LARGEST:g}{_at(self.names, levels)}", remedy="use smaller numbers")
        return int(value) if value == int(value) else value

    def whole(self, levels: Mapping[str, object]) -> int:
        """Return the `value` at these levels; BadInput unless it is a whole number of at least 1."""
        value = self.value(levels)
        if not isinstance(value, int) or value < 1:
            what = f"{self.text} must be a whole number of at least 1; it is {value:g}{_at(self.names, levels)}"
            raise BadInput(what, remedy="round with //, and set a minimum with max(1, ...)")
        return value

    def positive(self, levels: Mapping[str, object]) -> float:
        """Return the `value` at these levels; BadInput unless it is above 0."""
        value = float(self.value(levels))
        if value <= 0:
            raise BadInput(
                f"{self.text} must be above 0; it is {value:g}{_at(self.names, levels)}", remedy="use max(...)"
            )
        return value


@functools.lru_cache(maxsize=1000)
def expression(text: str) -> Expression:
    """Return the expression in a text that `is_expression`, without evaluating it; BadInput if it is not arithmetic."""
    names: list[str] = []
    _check(_parsed(text), text, names)
    return Expression(text, tuple(dict.fromkeys(names)))


def require_names(written: Expression, known: Sequence[str]) -> None:
    """Raise BadInput if the expression uses a name that is not in `known`."""
    for name in written.names:
        if name not in known:
            raise BadInput(f"{written.text}: unknown factor {name!r}", remedy=did_you_mean(name, known))


@functools.lru_cache(maxsize=1000)
def _parsed(text: str) -> ast.expr:
    """Return the syntax tree inside `${...}`; BadInput for more than 200 characters or invalid syntax."""
    inside = text[len(_MARK) : -len(_END)].strip()
    if len(inside) > _LONGEST:
        raise BadInput(f"{short_json(text)} has more than {_LONGEST} characters", remedy="write a shorter expression")
    try:
        # `with` is a keyword of Python, but names of parameters start with `with.`.
        return ast.parse(re.sub(r"\bwith\.", "with_.", inside), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise BadInput(f"{short_json(text)} is not a valid expression", remedy=_REMEDY) from None


def _check(tree: ast.expr, text: str, names: list[str]) -> None:
    """Append the names of a tree to `names`, with repeats; BadInput for a part that is not allowed.

    Allowed are numbers, names, signs, `+ - * / // %`, `min(...)` and `max(...)`. `text` is for messages.
    """
    match tree:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            parts = [left, right]
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
            parts = [operand]
        case ast.Call(func=ast.Name(id=function), args=[_, *_] as arguments, keywords=[]) if function in _FUNCTIONS:
            parts = arguments
        case _ if name := _name(tree):
            names.append(name)
            return
        case _:
            raise BadInput(f"{short_json(text)} contains {ast.unparse(tree)}, which is not arithmetic", remedy=_REMEDY)
    for part in parts:
        _check(part, text, names)


def _value(tree: ast.expr, text: str, levels: Mapping[str, object]) -> Any:
    """Evaluate a checked tree at these levels; BadInput if a name's level is not a number.

    ZeroDivisionError for a division by zero. `text` is for messages.
    """
    match tree:
        case ast.Constant(value=number):
            return number
        case ast.BinOp(left=left, op=op, right=right):
            return _OPERATORS[type(op)](_value(left, text, levels), _value(right, text, levels))
        case ast.UnaryOp(op=op, operand=operand):
            value = _value(operand, text, levels)
            return -value if isinstance(op, ast.USub) else value
        case ast.Call(func=ast.Name(id=function), args=arguments):
            return _FUNCTIONS[function]([_value(argument, text, levels) for argument in arguments])
    name = _name(tree)
    level = levels.get(name)
    if isinstance(level, bool) or not isinstance(level, int | float):
        raise BadInput(f"{text}: {name} must be a number; it is {short_json(level)} in some runs", remedy=_REMEDY)
    return level


def _name(tree: ast.expr) -> str:
    """Return the (dotted) name of a factor, such as `store.limits.cpus`; empty for other nodes."""
    if isinstance(tree, ast.Attribute):
        before = _name(tree.value)
        return f"{before}.{tree.attr}" if before else ""
    return tree.id.removesuffix("_") if isinstance(tree, ast.Name) else ""


def _at(names: Sequence[str], levels: Mapping[str, object]) -> str:
    """Return ` at NAME = LEVEL, ...` for messages; empty without names."""
    listed = ", ".join(f"{name} = {levels.get(name)}" for name in names)
    return f" at {listed}" if listed else ""


Level = str | int | float | bool | None

#: Number of ranks per node of the store, each with one client. Each level gets a new cluster, so that filling it can be
#: measured, too.
RANKS_PER_NODE = "ranks_per_node"
#: Addresses of an existing cluster or service.
HOSTS = "store.hosts"
SETTINGS = "store.settings."
COLLECTIONS = "collections."
WITH = "with."


@dataclass(frozen=True)
class Factor:
    """A factor, named as in the file, with its levels in order."""

    name: str
    #: Integers for nodes and clients, 1/s for a rate, bytes for memory; settings and parameters as written.
    levels: tuple[Level, ...]
    #: Hard to change: whether another level needs a new cluster or new data.
    hard: bool
    #: Levels as written, if some are expressions of other factors. A treatment then has only levels that one yields.
    written: tuple[Level, ...] = ()

    def takes(self, treatment: Mapping[str, Level]) -> bool:
        """Return whether the factor's level in a treatment is the value of one of `written` at the treatment's levels.

        True if no level is an expression (`written` is empty).
        """
        level = treatment[self.name]
        return not self.written or level in [_evaluate(self.name, written, treatment) for written in self.written]


def read_factors(
    document: Document,
    written: Mapping[str, tuple[Level, ...]],
    workload: Workload,
    prepared: tuple[str, ...],
    where: Callable[[str, int | None], Place],
) -> tuple[Factor, ...]:
    """Return the factors of a file; BadInput with the position of an unknown factor or an invalid level.

    `written` has the levels of each factor as in the file. `prepared` names the phases that fill the store: workload
    parameters that affect them are hard to change. `where` returns the position of a factor, or of its level with an
    index. Factors that both set the load are refused. Factors with expressions as `clients` or `rate` come last.
    """
    shaping = workload.shaping(prepared)
    factors = []
    for name, levels in written.items():
        if name in ("clients", "rate") and any(map(is_expression, levels)):
            continue
        read = _reader(document, name, workload, where(name, None))
        known: list[tuple[bool, Level]] = []  # with the type, because true equals 1 in Python
        for index, level in enumerate(levels):
            place = where(name, index)
            try:
                value = _checked_expression(level) if name.startswith((SETTINGS, WITH)) else read(level)
            except BadInput as error:
                raise document.error(place, f"a level of {name}: {error.what}", error.remedy) from None
            if name.startswith(WITH) and not is_expression(value):
                _check_parameter(document, workload, name.removeprefix(WITH), value, place)
            if (isinstance(value, bool), value) in known:
                raise document.error(place, f"duplicate level {short_json(level)} of {name}", "remove one")
            known.append((isinstance(value, bool), value))
        easy = name in EASY or (name.startswith(WITH) and name.removeprefix(WITH) not in shaping)
        factors.append(Factor(name, tuple(level for _, level in known), hard=not easy))
    plain = tuple(factors)
    for name, levels in written.items():
        if name not in [factor.name for factor in plain]:
            factors.append(_derived_factor(document, name, levels, plain, where))
    if {"clients", "rate"} <= written.keys():
        what = "clients and rate are both factors, but a load is either closed loop (clients) or open loop (rate)"
        raise document.error(where("rate", None), what, "remove one of them", key=True)
    for other in {"ranks", "clients"} & written.keys() if RANKS_PER_NODE in written else ():
        what = f"{RANKS_PER_NODE} and {other} are both factors, but {RANKS_PER_NODE} determines {other}"
        raise document.error(where(other, None), what, "remove one of them", key=True)
    return tuple(factors)


def _derived_factor(
    document: Document,
    name: str,
    levels: tuple[Level, ...],
    others: tuple[Factor, ...],
    where: Callable[[str, int | None], Place],
) -> Factor:
    """Return the factor `clients` or `rate` whose `levels` are expressions of the factors `others`, or numbers.

    Its levels are all values at all combinations of the levels of `others`, ascending. BadInput, with the position by
    `where`, for an invalid one.
    """
    numbers: set[Level] = set()
    for index, level in enumerate(levels):
        try:
            if is_expression(level):
                require_names(expression(str(level)), [factor.name for factor in others])
            for combination in itertools.product(*(factor.levels for factor in others)):
                names = (factor.name for factor in others)
                numbers.add(_evaluate(name, level, dict(zip(names, combination, strict=True))))
        except BadInput as error:
            raise document.error(where(name, index), f"a level of {name}: {error.what}", error.remedy) from None
    return Factor(name, tuple(sorted(numbers, key=lambda level: float(level or 0))), hard=False, written=levels)


def _evaluate(name: str, level: Level, treatment: Mapping[str, Level]) -> Level:
    """Return a level of the factor `name` (`clients` or `rate`, 1/s) as a number; BadInput if it is invalid."""
    if not is_expression(level):
        return READERS[name](level)
    written = expression(str(level))
    return written.whole(treatment) if name == "clients" else written.positive(treatment)


def _checked_expression(level: Level) -> Level:
    """Return the level unchanged; BadInput if it is an invalid expression. Other levels are not checked."""
    if is_expression(level):
        expression(str(level))
    return level


def _reader(document: Document, name: str, workload: Workload, place: Place) -> Callable[[Level], Level]:
    """Return the function that parses a level of the factor `name`; its BadInput has no position.

    It returns settings, keys of collections and parameters as they are. BadInput, at `place`, for an unknown factor.
    """
    if name in READERS:
        return READERS[name]
    if name.startswith(SETTINGS) and name != SETTINGS:
        return lambda level: level
    if name.startswith(COLLECTIONS):
        _check_collection(document, name, workload, place)
        return lambda level: level
    parameters = list(workload.defaults)
    if name.startswith(WITH) and name.removeprefix(WITH) in parameters:
        return lambda level: level
    known = [*READERS, *(WITH + parameter for parameter in parameters), SETTINGS + "NAME", COLLECTIONS + "NAME.KEY"]
    remedy = did_you_mean(name, known)
    if name in parameters:
        remedy = f"for the parameter of the workload, write {WITH}{name}"
    raise document.error(place, f"unknown factor {name!r}", remedy, key=True)


def _check_collection(document: Document, name: str, workload: Workload, place: Place) -> None:
    """Raise BadInput, at `place`, if the factor `name`, `collections.NAME.KEY`, has an unknown collection or no key.

    The key itself is checked when the store is known.
    """
    collection, _, key = name.removeprefix(COLLECTIONS).partition(".")
    known = workload.file.collections
    if collection not in known:
        what = f"unknown collection {collection!r} of the workload"
        raise document.error(place, what, did_you_mean(collection, known), key=True)
    if not key:
        remedy = f"write {COLLECTIONS}{collection}.settings.NAME, or another key of its definition"
        raise document.error(place, "the factor must name a key of the collection", remedy, key=True)


def _check_parameter(
    document: Document, workload: Workload, parameter: str, value: Level, place: tuple[str | int, ...]
) -> None:
    """Raise BadInput, at the path `place` in the document, if `value` is invalid for the parameter of the workload."""
    folder = document.path.parent
    workload.with_parameters({parameter: value}, folder=folder, where=lambda _: document.where(place))


def _count(level: Level) -> int:
    """Return the level; BadInput unless it is a whole number of at least 1."""
    if isinstance(level, bool) or not isinstance(level, int) or level < 1:
        raise BadInput(f"expected a whole number of at least 1, not {short_json(level)}")
    return level


def _at_most(most: int, what: str) -> Callable[[Level], int]:
    """Return a function that returns a whole number from 1 to `most` unchanged and raises BadInput for other levels.

    `what` names the counted things in the message.
    """

    def read(level: Level) -> int:
        """Return the level; BadInput unless it is a whole number from 1 to `most`."""
        count = _count(level)
        if count > most:
            raise BadInput(f"expected at most {most} {what}, not {short_json(level)}")
        return count

    return read


def _text(level: Level) -> str:
    """Return the level; BadInput unless it is a nonempty text."""
    if not isinstance(level, str) or not level:
        raise BadInput(f"expected a word, not {short_json(level)}", remedy="quote numbers such as versions")
    return level


def _cores(level: Level) -> str:
    """Return a level such as `0-3` or `1 each` as text; BadInput if it does not name cores."""
    if isinstance(level, bool) or not isinstance(level, str | int):
        raise BadInput(f"expected cores, not {short_json(level)}", remedy="write numbers such as 0-3, or `1 each`")
    parse_cores(level)
    return str(level)


def _encryption(level: Level) -> str:
    """Return the level; BadInput unless it is a word of `Encryption`."""
    known = [word.value for word in Encryption]
    if level not in known:
        raise BadInput(f"expected {', '.join(known)}, not {short_json(level)}")
    return str(level)


def _positive(level: Level) -> float:
    """Return the level as float; BadInput unless it is a number above 0."""
    if isinstance(level, bool) or not isinstance(level, int | float) or level <= 0:
        raise BadInput(f"expected a number above 0, not {short_json(level)}")
    return float(level)


def _rate(level: Level) -> float:
    """Return a level such as `1000/s` in 1/s; BadInput unless it is above 0 and below 1e9."""
    rate = parse_rate(_quantity(level))
    if not 0 < rate < MOST_RATE:
        raise BadInput(f"expected a rate above 0 and below 1e9/s, not {short_json(level)}")
    return rate


def _size(level: Level) -> int:
    """Return a level such as `512m` in bytes; BadInput unless it is above 0."""
    quantity = _quantity(level)
    size = parse_size(quantity if isinstance(quantity, str) else int(quantity))
    if not 0 < size < 2**63:
        raise BadInput(f"expected a size above 0, not {short_json(level)}")
    return size


def _quantity(level: Level) -> str | float:
    """Return the level; BadInput for booleans and null, which are not quantities."""
    if isinstance(level, bool) or level is None:
        raise BadInput(f"expected a number with its unit, not {short_json(level)}")
    return level


READERS: dict[str, Callable[[Level], Level]] = {
    "store.kind": _text,
    HOSTS: _text,
    "store.version": _text,
    "nodes": _at_most(MOST_NODES, "nodes"),
    "ranks": _at_most(MOST_RANKS, "ranks"),
    RANKS_PER_NODE: _at_most(MOST_RANKS, "ranks"),
    "threads": _at_most(MOST_THREADS, "threads"),
    "clients": _count,
    "rate": _rate,
    "users": _at_most(2**31, "users"),
    "store.limits.cpus": _positive,
    "store.limits.memory": _size,
    "store.limits.cores": _cores,
    "store.limits.disk.read": lambda level: parse_throughput(_quantity(level)),
    "store.limits.disk.write": lambda level: parse_throughput(_quantity(level)),
    "store.limits.disk.read_operations": _rate,
    "store.limits.disk.write_operations": _rate,
    "store.encryption": _encryption,
    "store.link.delay": lambda level: parse_duration(_quantity(level)),
    "store.link.loss": lambda level: parse_share(_quantity(level)),
    "store.link.rate": lambda level: parse_bandwidth(_quantity(level)),
}
#: Factors that can change between runs on one cluster.
EASY = ("ranks", "threads", "clients", "rate", "users")
