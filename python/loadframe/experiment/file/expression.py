"""Expressions such as `${10 * nodes}` for numbers in an experiment file, evaluated with the levels of each run.

Only arithmetic is allowed: numbers, + - * / // %, parentheses, min and max, `nodes`, and names of factors. Python's
parser builds the tree; `_check` refuses all other nodes, and `_value` evaluates it.
"""

import ast
import functools
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loadframe.base.errors import BadInput
from loadframe.yamlfile import did_you_mean, shown

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
    """Return whether a value in a file is an expression; `$${...}` is text."""
    return isinstance(value, str) and value.startswith(_MARK) and value.endswith(_END) and value.count(_MARK) == 1


@dataclass(frozen=True)
class Expression:
    """An expression as written, with the names in it."""

    text: str
    names: tuple[str, ...]

    def value(self, levels: Mapping[str, object]) -> int | float:
        """Return the value at the levels of a run, as int if whole; BadInput if it is not a finite number."""
        try:
            value = _value(_parsed(self.text), self.text, levels)
        except ZeroDivisionError:
            raise BadInput(f"{self.text} divides by zero{_at(self.names, levels)}") from None
        if not math.isfinite(value) or abs(value) > _LARGEST:
            raise BadInput(f"{self.text} exceeds {_LARGEST:g}{_at(self.names, levels)}", remedy="use smaller numbers")
        return int(value) if value == int(value) else value

    def whole(self, levels: Mapping[str, object]) -> int:
        """Return the value; BadInput unless it is a whole number of at least 1."""
        value = self.value(levels)
        if not isinstance(value, int) or value < 1:
            what = f"{self.text} must be a whole number of at least 1; it is {value:g}{_at(self.names, levels)}"
            raise BadInput(what, remedy="round with //, and set a minimum with max(1, ...)")
        return value

    def positive(self, levels: Mapping[str, object]) -> float:
        """Return the value; BadInput unless it is above 0."""
        value = float(self.value(levels))
        if value <= 0:
            raise BadInput(
                f"{self.text} must be above 0; it is {value:g}{_at(self.names, levels)}", remedy="use max(...)"
            )
        return value


@functools.lru_cache(maxsize=1000)
def expression(text: str) -> Expression:
    """Parse a text that `is_expression`; BadInput if it is not arithmetic."""
    names: list[str] = []
    _check(_parsed(text), text, names)
    return Expression(text, tuple(dict.fromkeys(names)))


def require_names(written: Expression, known: Sequence[str]) -> None:
    """Raise BadInput for a name that is not in `known`."""
    for name in written.names:
        if name not in known:
            raise BadInput(f"{written.text}: unknown factor {name!r}", remedy=did_you_mean(name, known))


@functools.lru_cache(maxsize=1000)
def _parsed(text: str) -> ast.expr:
    inside = text[len(_MARK) : -len(_END)].strip()
    if len(inside) > _LONGEST:
        raise BadInput(f"{shown(text)} has more than {_LONGEST} characters", remedy="write a shorter expression")
    try:
        # `with` is a keyword of Python, but names of parameters start with `with.`.
        return ast.parse(re.sub(r"\bwith\.", "with_.", inside), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise BadInput(f"{shown(text)} is not a valid expression", remedy=_REMEDY) from None


def _check(tree: ast.expr, text: str, names: list[str]) -> None:
    """Add the names of a tree to `names`; BadInput for any part that is not arithmetic."""
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
            raise BadInput(f"{shown(text)} contains {ast.unparse(tree)}, which is not arithmetic", remedy=_REMEDY)
    for part in parts:
        _check(part, text, names)


def _value(tree: ast.expr, text: str, levels: Mapping[str, object]) -> Any:
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
        raise BadInput(f"{text}: {name} must be a number; it is {shown(level)} in some runs", remedy=_REMEDY)
    return level


def _name(tree: ast.expr) -> str:
    """Return the (dotted) name of a factor, such as `store.limits.cpus`; empty for other nodes."""
    if isinstance(tree, ast.Attribute):
        before = _name(tree.value)
        return f"{before}.{tree.attr}" if before else ""
    return tree.id.removesuffix("_") if isinstance(tree, ast.Name) else ""


def _at(names: Sequence[str], levels: Mapping[str, object]) -> str:
    listed = ", ".join(f"{name} = {levels.get(name)}" for name in names)
    return f" at {listed}" if listed else ""
