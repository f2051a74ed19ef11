"""Expressions: `${10 * nodes}` where an experiment file has a number, worked out for each run from its levels.

They are arithmetic and nothing else: numbers, + - * / // %, brackets, min and max, `nodes`, and the names of factors.
They are parsed by Python's own parser, and what is evaluated is its tree, of which only these parts are known here.
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
#: Characters of an expression, and the largest number that one may give: more is a slip of the pen.
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
_REMEDY = "use numbers, names of factors such as nodes, + - * / // %, brackets, min(...) and max(...)"


def is_expression(value: object) -> bool:
    """Tell whether a value of a file is an expression; `$${...}` is a text."""
    return isinstance(value, str) and value.startswith(_MARK) and value.endswith(_END) and value.count(_MARK) == 1


@dataclass(frozen=True)
class Expression:
    """An expression as it stands in a file, and the names that it is made of."""

    text: str
    names: tuple[str, ...]

    def value(self, levels: Mapping[str, object]) -> int | float:
        """Return what it is at the levels of a run; whole numbers are int. BadInput where that is not a number."""
        try:
            value = _value(_parsed(self.text), self.text, levels)
        except ZeroDivisionError:
            raise BadInput(f"{self.text} divides by zero{_at(self.names, levels)}") from None
        if not math.isfinite(value) or abs(value) > _LARGEST:
            raise BadInput(f"{self.text} is more than {_LARGEST:g}{_at(self.names, levels)}", remedy="make it smaller")
        return int(value) if value == int(value) else value

    def whole(self, levels: Mapping[str, object]) -> int:
        """Return its value where only a whole number of at least 1 makes sense; BadInput for another."""
        value = self.value(levels)
        if not isinstance(value, int) or value < 1:
            what = f"{self.text} is {value:g}{_at(self.names, levels)}, and not a whole number of at least 1"
            raise BadInput(what, remedy="round with //, and keep it up with max(1, ...)")
        return value

    def positive(self, levels: Mapping[str, object]) -> float:
        """Return its value where only a number above 0 makes sense; BadInput for another."""
        value = float(self.value(levels))
        if value <= 0:
            raise BadInput(f"{self.text} is {value:g}{_at(self.names, levels)}, and not above 0", remedy="use max(...)")
        return value


@functools.lru_cache(maxsize=1000)
def expression(text: str) -> Expression:
    """Return an expression of a file, which `is_expression`; BadInput for what is not arithmetic."""
    names: list[str] = []
    _check(_parsed(text), text, names)
    return Expression(text, tuple(dict.fromkeys(names)))


def require_names(written: Expression, known: Sequence[str]) -> None:
    """BadInput for a name that is not one of those known."""
    for name in written.names:
        if name not in known:
            raise BadInput(f"{written.text}: no factor is called {name!r}", remedy=did_you_mean(name, known))


@functools.lru_cache(maxsize=1000)
def _parsed(text: str) -> ast.expr:
    inside = text[len(_MARK) : -len(_END)].strip()
    if len(inside) > _LONGEST:
        raise BadInput(f"{shown(text)} has more than {_LONGEST} characters", remedy="write a shorter expression")
    try:
        # `with` is a word of Python's own, and what names of parameters begin with.
        return ast.parse(re.sub(r"\bwith\.", "with_.", inside), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise BadInput(f"{shown(text)} cannot be read as an expression", remedy=_REMEDY) from None


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
            raise BadInput(f"{shown(text)} has a part that is not arithmetic: {ast.unparse(tree)}", remedy=_REMEDY)
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
        raise BadInput(f"{text}: {name} is {shown(level)} in some runs, and not a number", remedy=_REMEDY)
    return level


def _name(tree: ast.expr) -> str:
    """Return the name of a factor, which may have dots, as `store.limits.cpus`; empty for anything else."""
    if isinstance(tree, ast.Attribute):
        before = _name(tree.value)
        return f"{before}.{tree.attr}" if before else ""
    return tree.id.removesuffix("_") if isinstance(tree, ast.Name) else ""


def _at(names: Sequence[str], levels: Mapping[str, object]) -> str:
    told = ", ".join(f"{name} = {levels.get(name)}" for name in names)
    return f" at {told}" if told else ""
