"""Check of arguments: a decorator for the public interface that compares them with their annotations."""

import functools
import inspect
import math
import os
import re
import sys
import typing
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, ParamSpec, TypeVar, Unpack

from loadframe.base.errors import BadInput, LoadframeError
from loadframe.base.units import MOST_NODES, counted
from loadframe.yamlfile import did_you_mean

_EMPTY = inspect.Parameter.empty
_P = ParamSpec("_P")
_R = TypeVar("_R")
_Word = TypeVar("_Word", bound=str)

#: Parameters of methods that a call does not give.
_BOUND = ("self", "cls")
#: Maximum length of a value in a message.
_SHOWN = 60
#: Names of types in messages.
_NAMES: dict[Any, str] = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    os.PathLike: "a path",
    Mapping: "a mapping",
    Sequence: "a list",
    Iterable: "a list",
    Callable: "a function",
}
#: Parameters by option, where the option is not the parameter's name with hyphens.
_OPTIONS = {
    "--bound": "bounds",
    "--for": "duration",
    "--json": "as_dict()",
    "--measure": "measures",
    "--set": "parameters",
    "--store-set": "settings",
}
#: An option in a message, or a quotation, whose options stay unless it is one.
_OPTION = re.compile(r"""`[^`]*`|"[^"]*"|(?<![\w'-])--[a-z][a-z-]*[a-z]""")


def listed(words: _Word | Iterable[_Word]) -> list[_Word]:
    """Return words as a list; a text is one word."""
    return [words] if isinstance(words, str) else list(words)


class Range(NamedTuple):
    """Accepted numbers from `low` to `high`."""

    low: float
    high: float = math.inf
    #: Whether the ends are excluded.
    between: bool = False

    def __contains__(self, number: object) -> bool:
        """Return whether a number is accepted."""
        assert isinstance(number, int | float)
        return self.low < number < self.high if self.between else self.low <= number <= self.high

    def __str__(self) -> str:
        """Return the range as words that follow a type in messages, such as `of at least 1`."""
        if self.high == math.inf:
            return f"above {self.low} and finite" if self.between else f"of at least {self.low}"
        return f"from {self.low} to {self.high}"


Count = Annotated[int, Range(1)]
Positive = Annotated[float, Range(0, between=True)]
Nodes = Annotated[int, Range(1, MOST_NODES)]
Percent = Annotated[float, Range(0, 100)]
#: s; `inf` is allowed.
Seconds = Annotated[float, Range(0)]


class _Mismatch(Exception):
    """A value of another type: its path in the argument, the expected values and a remedy."""

    def __init__(self, value: object, expected: Sequence[str], path: str = "", remedy: str | None = None) -> None:
        super().__init__(path)
        self.value, self.expected, self.path, self.remedy = value, tuple(expected), path, remedy


def checked(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Decorate a function: its arguments are checked by their annotations, and BadInput names a wrong one.

    BadInput also for an unknown, a missing or a surplus argument. Functions receive numbers of numpy as numbers of
    Python, and lists instead of iterators. Arguments with a quoted annotation or none are not checked. In the errors of
    the function, options of the command line become the function's parameters.
    """
    signature = inspect.signature(function)
    options = options_of(signature)
    # Quoted annotations have names that only type checkers import.
    hints = {
        name: (_hint(parameter), "give another value" + f", or leave {name} out" * (parameter.default is not _EMPTY))
        for name, parameter in signature.parameters.items()
        if parameter.annotation is not _EMPTY and not isinstance(parameter.annotation, str) and name not in options
    }

    @functools.wraps(function)
    def call(*arguments: _P.args, **named: _P.kwargs) -> _R:
        """Check and convert the arguments, and call the function with them."""
        bound = _bound(function.__qualname__, signature, arguments, named)
        for name, value in bound.arguments.items():
            if name in hints:
                bound.arguments[name] = _argument(name, value, *hints[name])
            elif name in options:
                bound.arguments[name] = {key: _option(options[name], key, value[key]) for key in value}
        with naming_parameters(signature):
            return function(*bound.args, **bound.kwargs)

    return call


@contextmanager
def naming_parameters(signature: inspect.Signature) -> Iterator[None]:
    """Replace options of the command line by parameters of a function in the errors of the block.

    Lower layers name the options: `--output` becomes `output`. Options without a parameter stay, and so do the words of
    a store or another program: those in quotes, and what failed at run time.
    """
    named = functools.partial(_named, parameters_of(signature))
    try:
        yield
    except LoadframeError as error:
        # `before_start` raises such failures as BadInput.
        failures = [it for it in (error, error.__cause__) if isinstance(it, LoadframeError)]
        if all(isinstance(failure, BadInput) for failure in failures):
            error.what = _OPTION.sub(named, error.what)
            error.args = (error.what,)
        error.where, error.remedy = (text and _OPTION.sub(named, text) for text in (error.where, error.remedy))
        raise


def _named(parameters: Collection[str], match: re.Match[str]) -> str:
    """Return the parameter of a matched option, also in backquotes; other matches and other options stay."""
    option = match[0].strip("`")
    name = _OPTIONS.get(option, option.removeprefix("--").replace("-", "_"))
    return match[0].replace(option, name) if name in parameters else match[0]


def in_python(text: str) -> str:
    """Return a printed result with the parameters of public functions in place of options, such as `cores`.

    Columns of tables keep their places.
    """
    for match in reversed([match for match in _OPTION.finditer(text) if "--" in match[0]]):
        named = _named(_public_parameters(), match)
        rest = text[match.end() :]
        # Two spaces end a cell.
        if gap := re.match(r"(?:[^\n]*?\S)?? {2,}(?=\S)", rest):
            rest = rest[: gap.end()] + " " * (len(match[0]) - len(named)) + rest[gap.end() :]
        text = text[: match.start()] + named + rest
    return text


@functools.cache
def _public_parameters() -> frozenset[str]:
    """Return the parameters of all public functions, and the method that stands for `--json`."""
    # The package is loaded with its first module, and imports the functions on first use.
    public = sys.modules[__name__.partition(".")[0]]
    functions = filter(inspect.isfunction, (getattr(public, name) for name in public.__all__))
    return frozenset([_OPTIONS["--json"], *(name for it in functions for name in parameters_of(inspect.signature(it)))])


def options_of(signature: inspect.Signature) -> dict[str, Mapping[str, Any]]:
    """Return the types by keyword for each parameter such as `**access: Unpack[Access]`, by the parameter's name."""
    return {
        name: typing.get_args(parameter.annotation)[0].__annotations__
        for name, parameter in signature.parameters.items()
        if typing.get_origin(parameter.annotation) is Unpack
    }


def parameters_of(signature: inspect.Signature) -> list[str]:
    """Return the names that a call can give, in their order; those of `**access: Unpack[Access]` are the keywords."""
    options = options_of(signature)
    return [known for name in signature.parameters for known in options.get(name, (name,)) if known not in _BOUND]


def _bound(
    name: str, signature: inspect.Signature, arguments: Sequence[Any], named: Mapping[str, Any]
) -> inspect.BoundArguments:
    """Return the arguments by parameter; BadInput for an unknown, a missing or a surplus one.

    `name` is that of the function, with its class.
    """
    known, call = parameters_of(signature), name.removesuffix(".__init__")
    takes_any = any(it.kind is it.VAR_KEYWORD for it in signature.parameters.values()) and not options_of(signature)
    if unknown := [] if takes_any else [word for word in named if word not in known]:
        raise BadInput(f"{call} has no parameter {unknown[0]!r}", remedy=did_you_mean(unknown[0], known))
    try:
        return signature.bind(*arguments, **named)
    except TypeError as error:
        raise BadInput(f"{call}: {error}", remedy=f"the parameters are {', '.join(known)}") from None


def _option(hints: Mapping[str, Any], name: str, value: object) -> Any:
    """Return the checked value of keyword argument `name`, which has a type in `hints`; BadInput for another type."""
    return _argument(name, value, hints[name], f"give another value, or leave {name} out")


def _hint(parameter: inspect.Parameter) -> Any:
    """Return the annotated type of a parameter: a tuple of it for `*name`, and a mapping for `**name`."""
    hint: Any = parameter.annotation
    kind = parameter.kind
    return tuple[hint, ...] if kind is kind.VAR_POSITIONAL else Mapping[str, hint] if kind is kind.VAR_KEYWORD else hint


def _argument(name: str, value: object, hint: Any, remedy: str) -> Any:
    """Return the checked value of argument `name`. BadInput for an empty text, or if it does not fit the type `hint`.

    Texts are not parsed. Numbers become those of Python; containers become tuples, lists or dictionaries. Numbers out
    of range, not a number, and a bool in place of a number do not fit. `remedy` is the error's remedy, unless the
    mismatch has its own.
    """
    if isinstance(value, str) and not value:
        raise BadInput(f"{name} is an empty text", remedy=remedy)
    try:
        return _read(value, hint)
    except _Mismatch as error:
        shown = repr(error.value)
        raise BadInput(
            f"{name}{error.path} must be {' or '.join(dict.fromkeys(error.expected))};"
            f" got {shown if len(shown) <= _SHOWN else f'{shown[:_SHOWN]}...'}",
            remedy=error.remedy or remedy,
        ) from None


def _read(value: Any, hint: Any) -> Any:
    """Return a value converted to the type `hint`, with numbers of Python; raise _Mismatch if it is of another type."""
    inner = typing.get_args(hint)
    kind = typing.get_origin(hint) or hint
    if kind in (typing.Union, UnionType):
        return _read_union(value, inner)
    if kind is Annotated:
        return _in_range(value, *inner)
    if kind is Literal:
        if isinstance(value, str) and value in inner:
            return value
        nearest = did_you_mean(value, inner) if isinstance(value, str) else None
        raise _Mismatch(value, [repr(word) for word in inner], remedy=nearest)
    if kind in _CONTAINERS and _is_container(value, kind):
        return _read_container(value, kind, inner)
    if kind in (Any, object) or (kind not in _CONTAINERS and _is(value, kind)):
        return value if kind not in (int, float) else int(value) if isinstance(value, Integral) else float(value)
    raise _Mismatch(value, [_NAMES.get(kind) or f"{'an' if kind.__name__[0] in 'AEIOU' else 'a'} {kind.__name__}"])


_CONTAINERS = (tuple, Sequence, Iterable, Mapping)


def _is_container(value: object, kind: Any) -> bool:
    """Return whether a value is a container of type `kind`. For `tuple`, any iterable is.

    Texts, bytes and mappings are not sequences here.
    """
    if isinstance(value, str | bytes | Mapping):
        return kind is Mapping and isinstance(value, Mapping)
    return isinstance(value, Iterable if kind is tuple else kind)


def _read_container(value: Any, kind: Any, inner: Sequence[Any]) -> Any:
    """Return a tuple, a list or a dictionary with entries of the types `inner`; _Mismatch for an entry of another."""
    if kind is tuple:
        return _read_tuple(list(value), inner)
    if kind is Mapping:
        _read_keys(value, inner[0])
        return _read_entries(value.items(), inner[1])
    return list(_read_entries(enumerate(value), inner[0]).values())


def _in_range(value: Any, hint: Any, accepted: Range) -> Any:
    """Return a number of type `hint`; _Mismatch for another type, or a number that is not `accepted`."""
    try:
        number = _read(value, hint)
    except _Mismatch as error:
        raise _Mismatch(value, [f"{words} {accepted}" for words in error.expected]) from None
    if number not in accepted:
        raise _Mismatch(value, [f"{_NAMES[hint]} {accepted}"])
    return number


def _read_union(value: Any, hints: Sequence[Any]) -> Any:
    """Return a value as the first of the types `hints` that it has, its exact type first.

    If it has none, raise the _Mismatch of an entry inside a list or a mapping, or else one that lists all types but
    None. Its remedy considers the words of all literal types.
    """
    words = tuple(word for hint in hints if typing.get_origin(hint) is Literal for word in typing.get_args(hint))
    if words:
        hints = [Literal[words], *(hint for hint in hints if typing.get_origin(hint) is not Literal)]
    failures = []
    # True is a whole number, too, and 1 is a number: exact types first.
    for hint in sorted(hints, key=lambda hint: hint is not type(value)):
        try:
            return _read(value, hint)
        except _Mismatch as error:
            failures += [error] if hint is not NoneType else []
    for failure in failures:
        if failure.path:
            raise failure
    remedy = next((failure.remedy for failure in failures if failure.remedy), None)
    raise _Mismatch(value, [words for failure in failures for words in failure.expected], remedy=remedy)


def _read_tuple(values: list[Any], hints: Sequence[Any]) -> tuple[Any, ...]:
    """Return a tuple with entries of the types `hints`; `(type, ...)` has any length. _Mismatch for another length."""
    if hints[-1] is Ellipsis:
        return tuple(_read_entries(enumerate(values), hints[0]).values())
    if len(values) != len(hints):
        raise _Mismatch(values, [counted(len(hints), "value")])
    return tuple(_read_entry(place, *entry) for place, entry in enumerate(zip(values, hints, strict=True)))


def _read_keys(keys: Iterable[Any], hint: Any) -> None:
    """Raise _Mismatch for a key of a mapping that is not of type `hint`."""
    for key in keys:
        try:
            _read(key, hint)
        except _Mismatch as error:
            raise _Mismatch(error.value, error.expected, " key") from None


def _read_entries(entries: Iterable[tuple[Any, Any]], hint: Any) -> dict[Any, Any]:
    """Return the values by index or key, converted to the type `hint`; _Mismatch for another type."""
    return {place: _read_entry(place, value, hint) for place, value in entries}


def _read_entry(place: object, value: Any, hint: Any) -> Any:
    """Return the value at an index or key `place`, converted to the type `hint`; a _Mismatch has its path."""
    try:
        return _read(value, hint)
    except _Mismatch as error:
        raise _Mismatch(error.value, error.expected, f"[{place!r}]{error.path}", error.remedy) from None


def _is(value: Any, kind: Any) -> bool:
    """Return whether a value has a type. Numbers are not bool, and not NaN; texts have no NUL character."""
    if kind is NoneType:
        return value is None
    if kind is str:
        return isinstance(value, str) and "\0" not in value
    if kind in (int, float):
        return isinstance(value, Integral if kind is int else Real) and not isinstance(value, bool) and _fits(value)
    return callable(value) if kind is Callable else isinstance(value, kind)


def _fits(number: Any) -> bool:
    """Return whether a number fits into a float; False for NaN and for larger integers."""
    try:
        return not math.isnan(number)
    except OverflowError:
        return False
