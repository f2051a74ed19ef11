"""Variables: per-request values, drawn by the engine from the seed and the number of the request.

Models only; the engine implements the distributions (`crates/engine`).
"""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, Strict, model_validator

from loadframe.base.units import counted
from loadframe.workload.holes import names
from loadframe.yamlfile import NOT_EMPTY, Model, short_json, wrong


def _number(value: Any) -> Any:
    """Return a value unchanged; refuse anything but a number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise wrong(f"expected a number, not {short_json(value)}")
    return value


def _pair(value: Any) -> Any:
    """Return a value unchanged; refuse anything but a list of two elements. Their types are checked later."""
    if not isinstance(value, list) or len(value) != 2:
        raise wrong(f"expected two numbers, [low, high], not {short_json(value)}")
    return value


def _length(value: Any) -> Any:
    """Return a value unchanged; refuse anything but a number of characters or [shortest, longest], up to 2^20."""
    ends = value if isinstance(value, list) else [value, value]
    whole = all(isinstance(end, int) and not isinstance(end, bool) for end in ends)
    if len(ends) != 2 or not whole or not 0 <= ends[0] <= ends[1] <= LONGEST:
        raise wrong(f"expected a number of characters up to {LONGEST}, or [shortest, longest], not {short_json(value)}")
    return value


def _instant(value: Any) -> Any:
    """Return a value unchanged; refuse anything but a text such as `2015-01-31` or `2015-01-31T12:30:00Z`."""
    if not isinstance(value, str) or not _INSTANT.fullmatch(value) or not _is_date(value):
        raise wrong(f"expected a date, not {short_json(value)}", "write 2015-01-31 or 2015-01-31T12:30:00")
    return value


def _is_date(text: str) -> bool:
    """Return whether a text is a valid ISO 8601 date or time."""
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _format(value: Any) -> Any:
    """Return a value unchanged; refuse anything but a date format.

    A format is `epoch_second`, `epoch_millis` or a text with the directives %Y %m %d %H %M %S %L and %%.
    """
    if not isinstance(value, str) or not (value in _EPOCH or _FORMAT.fullmatch(value)):
        raise wrong(
            f"{short_json(value)} is not a date format",
            f"use %Y %m %d %H %M %S %L (milliseconds) and %%, or {' or '.join(_EPOCH)}",
        )
    return value


def _choice(value: Any) -> Any:
    """Return the mapping of a choice for a plain list, `{"values": value}`; return other values unchanged."""
    return {"values": value} if isinstance(value, list) else value


#: The most characters of a random text.
LONGEST = 2**20
_INSTANT = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d)?)?Z?")
_EPOCH = ("epoch_second", "epoch_millis")
_FORMAT = re.compile(r"(?:[^%]|%[YmdHMSL%])*")

#: Kinds of variables whose values are numbers.
_LAWS = ("zipfian", "latest", "hotspot", "exponential", "normal")
_NUMBERS = ("uniform", "sequential", "counter", "loop", *_LAWS, "linear", "hash")
#: Integers stay integers: two integer bounds make a distribution of integers.
Number = Annotated[int | float, BeforeValidator(_number)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Items = Annotated[int, Field(ge=1, le=2**53)]
Mean = Annotated[float, Field(gt=0, allow_inf_nan=False)]
DrawOrder = Literal["random", "sequential"]
Text = Annotated[str, Field(min_length=1)]
Instant = Annotated[str, BeforeValidator(_instant)]
Weight = Annotated[float, Field(gt=0)]


class Choice(Model):
    """One of several values, at random (equally likely, or by weight) or in order; a value may be a list or mapping."""

    values: Annotated[list[Any], NOT_EMPTY]
    weights: list[Weight] | None = None
    order: DrawOrder = "random"

    @model_validator(mode="after")
    def _check_weights(self) -> "Choice":
        """Refuse weights with a sequential order, and another number of weights than of values."""
        if self.weights is not None and self.order == "sequential":
            raise wrong("weights requires order: random", "remove weights or order", key="weights")
        if self.weights is not None and len(self.weights) != len(self.values):
            raise wrong(
                f"got {counted(len(self.weights), 'weight')} for {counted(len(self.values), 'value')}", key="weights"
            )
        return self


class Sequential(Model):
    """The number of the request (or user, or iteration), starting at `from`."""

    from_: int = Field(0, alias="from")


class Counter(Model):
    """Consecutive numbers for the requests that use it, starting at `from`, without gaps.

    It wraps around after `items` numbers. A `fresh` counter starts at a different number for each phase and seed.
    """

    from_: int = Field(0, alias="from")
    items: Items | None = None
    fresh: bool = False


class Zipf(Model):
    """A Zipf distribution over `items`: the probability of item i, from 0, is proportional to (i + 1)^-exponent.

    `exact` supports any exponent. `ycsb` is Gray's approximation (1994) as in YCSB, for exponents below 1.
    """

    items: Items
    exponent: Annotated[float, Field(gt=0, le=20)] = 0.99
    form: Literal["exact", "ycsb"] = "exact"
    from_: int = Field(0, alias="from")

    @model_validator(mode="after")
    def _converges(self) -> "Zipf":
        """Refuse the form `ycsb` with an exponent of 1 or more."""
        if self.form == "ycsb" and self.exponent >= 1:
            what = f"form: ycsb requires an exponent below 1; got {self.exponent:g}"
            raise wrong(what, "use form: exact", key="exponent")
        return self


class Zipfian(Zipf):
    """A Zipf distribution in which low item numbers are popular.

    `scrambled` spreads the popular items over the whole range by a hash, as YCSB does. With the counter `inserted`, the
    distribution covers the items and the `expected` inserts; an item that is not inserted yet is redrawn.
    """

    scrambled: bool = False
    expected: Annotated[int, Field(ge=0, le=2**53)] = 0
    inserted: Text | None = None

    @model_validator(mode="after")
    def _check_scrambled_and_inserted(self) -> "Zipfian":
        """Refuse the scrambled form `ycsb` with another exponent than 0.99, and `inserted` without `expected`."""
        if self.form == "ycsb" and self.scrambled and self.exponent != 0.99:
            what = f"form: ycsb with scrambled requires an exponent of 0.99; got {self.exponent:g}"
            raise wrong(what, "remove exponent", key="exponent")
        if self.inserted is not None and not self.expected:
            raise wrong(
                "inserted requires expected, the number of expected inserts", "add expected: 1000", key="inserted"
            )
        return self


class Latest(Zipf):
    """A Zipf distribution in which the newest item is the most popular.

    Like YCSB, `form: ycsb` never draws the oldest item. The range grows by `growth` items per request, such as the
    fraction of inserts, or by the records that the counter `inserted` numbers.
    """

    growth: Annotated[float, Field(ge=0, le=1e6)] = 0.0
    inserted: Text | None = None

    @model_validator(mode="after")
    def _check_growth(self) -> "Latest":
        """Refuse `growth` with `inserted`."""
        if self.inserted is not None and self.growth:
            raise wrong("growth and inserted exclude each other", "remove one of them", key="growth")
        return self


class Hotspot(Model):
    """A hot set: the first `hot_items` (a fraction) get the fraction `hot_share` of draws; uniform within each set."""

    items: Items
    hot_items: Fraction = 0.2
    hot_share: Fraction = 0.8
    from_: int = Field(0, alias="from")


class Exponential(Model):
    """An exponential distribution: a real number, or with `items` item i, from 0, in proportion to exp(-i / mean).

    Items count from the oldest, or with `newest_first` from the newest. Records that the counter `inserted` numbers are
    the newest.
    """

    mean: Mean
    items: Items | None = None
    from_: int = Field(0, alias="from")
    newest_first: bool = False
    inserted: Text | None = None

    @model_validator(mode="after")
    def _check_items(self) -> "Exponential":
        """Refuse `from` or `newest_first` without `items`, and `inserted` without `newest_first`."""
        if self.items is None and "from_" in self.model_fields_set:
            raise wrong("from requires items", "add items: 1000", key="from")
        if self.items is None and self.newest_first:
            raise wrong("newest_first requires items", "add items: 1000", key="newest_first")
        if self.inserted is not None and not self.newest_first:
            raise wrong("inserted requires newest_first", "add newest_first: true", key="inserted")
        return self


class Normal(Model):
    """A normally distributed number."""

    mean: Annotated[float, Field(allow_inf_nan=False)]
    deviation: Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Letters(Model):
    """A random text of letters, digits, - and _; `length` is a number of characters or [shortest, longest]."""

    length: Annotated[int | list[int], BeforeValidator(_length)]


class Date(Model):
    """A random instant (UTC) between `from` and `to`, excluding `to`; default format 2015-01-31T12:30:00.000Z."""

    from_: Instant = Field(alias="from")
    to: Instant
    format: Annotated[str, BeforeValidator(_format)] | None = None

    @model_validator(mode="after")
    def _in_order(self) -> "Date":
        """Refuse a range that does not end after its beginning."""
        begin, end = (datetime.fromisoformat(text.removesuffix("Z")) for text in (self.from_, self.to))
        if begin >= end:
            raise wrong("from must be before to", "swap them", key="to")
        return self


class SimulatedInstant(Model):
    """The time of the user's simulated clock; default format 2015-01-31T12:30:00.000Z."""

    format: Annotated[str, BeforeValidator(_format)] | None = None


class LoopCount(Model):
    """The number of the pass, starting at `from`, through the journey loop whose `count` names this variable."""

    from_: int = Field(0, alias="from")


class Lines(Model):
    """A line of a text file; empty lines are skipped."""

    file: Text
    order: DrawOrder = "random"


class FieldOf(Model):
    """A field (`a.b` for nested ones) of the documents of a corpus, sampled from up to 10,000 documents across it."""

    corpus: Text
    field: Text
    order: DrawOrder = "random"


class DocumentOf(Model):
    """A whole document of a corpus, such as the parameters of one request.

    `random` draws any document; with `sequential`, request k uses document k. Files are memory-mapped, so a corpus may
    exceed memory.
    """

    corpus: Text
    order: DrawOrder = "random"


class PartOf(Model):
    """A field (`a.b` for nested ones) of a document variable, or `otherwise` if it is missing.

    Within a request, all parts of a document variable come from the same document.
    """

    of: Text
    field: Text
    otherwise: Any = None


class Linear(Model):
    """A linear function of a number variable: value × `times` + `plus`; an integer if all three are integers."""

    of: Text
    times: Number = 1
    plus: Number = 0


class Hash(Model):
    """YCSB's hash (FNV-1a) of an integer variable."""

    of: Text


class Several(Model):
    """A list of `count` values of another variable; each request uses the next `count` values."""

    of: Text
    count: Annotated[int, Field(ge=1)]


class Variable(Model):
    """A variable: exactly one kind, drawn once per request, journey iteration or user."""

    uniform: Annotated[tuple[Number, Number], Strict(False), BeforeValidator(_pair)] | None = None
    constant: Any = None
    choice: Annotated[Choice, BeforeValidator(_choice, json_schema_input_type=Choice | list[Any])] | None = None
    sequential: Sequential | None = None
    counter: Counter | None = None
    zipfian: Zipfian | None = None
    latest: Latest | None = None
    hotspot: Hotspot | None = None
    exponential: Exponential | None = None
    normal: Normal | None = None
    text: Letters | None = None
    date: Date | None = None
    instant: SimulatedInstant | None = None
    loop: LoopCount | None = None
    lines: Lines | None = None
    field: FieldOf | None = None
    document: DocumentOf | None = None
    part: PartOf | None = None
    derived: Text | None = None
    linear: Linear | None = None
    hash: Hash | None = None
    several: Several | None = None
    per: Literal["request", "iteration", "user"] = "request"

    @model_validator(mode="after")
    def _check_kind(self) -> "Variable":
        """Refuse other than exactly one kind, reversed bounds, and `per` for kinds that do not support it."""
        ways = sorted(self.model_fields_set - {"per"})
        if len(ways) != 1:
            known = ", ".join(name for name in type(self).model_fields if name != "per")
            raise wrong(f"a variable needs exactly one kind; got {len(ways)}", f"use one of {known}")
        if self.uniform is not None and self.uniform[0] > self.uniform[1]:
            raise wrong("the lower bound is above the upper bound", "write [low, high]", key="uniform")
        if self.of and not self.inserted and "per" in self.model_fields_set:
            what = "a derived variable inherits per from the variables it refers to"
            raise wrong(what, "move per to those variables", key="per")
        if self.loop is not None and self.per != "request":
            raise wrong("a loop variable does not support per", "remove per", key="per")
        if (self.counter or self.inserted) and self.per != "request":
            raise wrong("a variable that depends on a counter requires per: request", "remove per", key="per")
        return self

    @property
    def inserted(self) -> str | None:
        """The name of the counter of inserted records that extends its range, or None without one."""
        law = self.zipfian or self.latest or self.exponential
        return law.inserted if law is not None else None

    @property
    def of(self) -> tuple[str, ...]:
        """The names of the variables that it depends on, each once; empty for independent ones."""
        derived = self.linear or self.hash or self.several or self.part
        if derived is not None:
            return (derived.of,)
        return (self.inserted,) if self.inserted else tuple(dict.fromkeys(names(self.derived)))

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of its values: a whole number is `number` and `whole number`, others `number` or `document`.

        Empty for texts, lists and choices, whose kinds are not known.
        """
        bounds = (*(self.uniform or ()), *((self.linear.times, self.linear.plus) if self.linear else ()))
        if self.document is not None:
            return ("document",)
        if self.instant is not None and self.instant.format in _EPOCH:
            return ("number", "whole number")
        if not any(getattr(self, way) is not None for way in _NUMBERS):
            return ()
        real = self.normal is not None or (self.exponential is not None and self.exponential.items is None)
        whole = not real and all(isinstance(bound, int) for bound in bounds)
        return ("number", "whole number") if whole else ("number",)

    def dump(self, folder: Path = Path()) -> dict[str, Any]:
        """Return the variable for the plan; relative paths are resolved against `folder`."""
        if self.choice is not None and self.choice.weights is None and self.choice.order == "random":
            dumped: dict[str, Any] = {"choice": self.choice.values}
        elif self.sequential is not None:
            dumped = {"sequential": {"from": self.sequential.from_}}
        elif self.lines is not None:
            dumped = {"lines": {"file": str((folder / self.lines.file).absolute()), "order": self.lines.order}}
        else:
            dumped = self.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude={"per"})
        return dumped if self.per == "request" else {**dumped, "per": self.per}


def closure(used: set[str], variables: Mapping[str, Variable]) -> set[str]:
    """Return the used variables and all variables that they depend on, directly or not; drops names of other things."""
    reached: set[str] = set()
    new = used & variables.keys()
    while new:
        reached |= new
        new = {other for name in new for other in variables[name].of if other in variables} - reached
    return reached


def cycle(variables: Mapping[str, Variable]) -> list[str] | None:
    """Return the names along a dependency cycle, the first repeated at the end, or None without a cycle."""
    acyclic: set[str] = set()

    def walk(name: str, path: list[str]) -> Iterator[list[str]]:
        """Yield each cycle that a variable leads to, as names, the first repeated at the end.

        `path` are the variables on the way to it. Adds variables that lead to none to `acyclic`, and skips these.
        """
        if name in path:
            yield [*path[path.index(name) :], name]
        elif name in variables and name not in acyclic:
            for other in variables[name].of:
                yield from walk(other, [*path, name])
            acyclic.add(name)

    return next((path for name in variables for path in walk(name, [])), None)
