"""Variables: values that differ from request to request, drawn by the engine from the seed and the request's number.

The models of what a file may say of them; the laws themselves are the engine's (`crates/engine/src/workload/variables`).
"""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, Strict, model_validator

from loadframe.workload.holes import names
from loadframe.yamlfile import NOT_EMPTY, Model, shown, wrong


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise wrong(f"expected a number, not {shown(value)}")
    return value


def _pair(value: Any) -> Any:
    if not isinstance(value, list) or len(value) != 2:
        raise wrong(f"expected two numbers, [low, high], not {shown(value)}")
    return value


def _length(value: Any) -> Any:
    ends = value if isinstance(value, list) else [value, value]
    whole = all(isinstance(end, int) and not isinstance(end, bool) for end in ends)
    if len(ends) != 2 or not whole or not 0 <= ends[0] <= ends[1] <= LONGEST:
        raise wrong(f"expected a number of characters up to {LONGEST}, or [shortest, longest], not {shown(value)}")
    return value


def _instant(value: Any) -> Any:
    if not isinstance(value, str) or not _INSTANT.fullmatch(value) or not _is_date(value):
        raise wrong(f"expected a date, not {shown(value)}", "write 2015-01-31 or 2015-01-31T12:30:00")
    return value


def _is_date(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _format(value: Any) -> Any:
    if not isinstance(value, str) or not (value in _EPOCH or _FORMAT.fullmatch(value)):
        raise wrong(
            f"{shown(value)} is not a format of dates",
            f"make it of %Y %m %d %H %M %S %L (milliseconds) and %%, or write {' or '.join(_EPOCH)}",
        )
    return value


def _choice(value: Any) -> Any:
    return {"values": value} if isinstance(value, list) else value


#: Characters that a text may have.
LONGEST = 2**20
_INSTANT = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d)?)?Z?")
_EPOCH = ("epoch_second", "epoch_millis")
_FORMAT = re.compile(r"(?:[^%]|%[YmdHMSL%])*")

#: The ways to draw a number.
_LAWS = ("zipfian", "latest", "hotspot", "exponential", "normal")
_NUMBERS = ("uniform", "sequential", "counter", "loop", *_LAWS, "linear", "hash")
#: A whole number stays one: whether both bounds are decides what is drawn.
Number = Annotated[int | float, BeforeValidator(_number)]
Share = Annotated[float, Field(ge=0, le=1)]
Items = Annotated[int, Field(ge=1, le=2**53)]
Mean = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Order = Literal["random", "sequential"]
Text = Annotated[str, Field(min_length=1)]
Instant = Annotated[str, BeforeValidator(_instant)]
Weight = Annotated[float, Field(gt=0)]


class Choice(Model):
    """One of some values, with equal or given weights, or one after the other; a value may be a list or a mapping."""

    values: Annotated[list[Any], NOT_EMPTY]
    weights: list[Weight] | None = None
    order: Order = "random"

    @model_validator(mode="after")
    def _one_weight_each(self) -> "Choice":
        if self.weights is not None and self.order == "sequential":
            raise wrong("weights go with a random order", "remove one of them", key="weights")
        if self.weights is not None and len(self.weights) != len(self.values):
            raise wrong(f"{len(self.values)} values have {len(self.weights)} weights", key="weights")
        return self


class Sequential(Model):
    """Counts requests (or users, or iterations): the first one's value, and one more for each further."""

    from_: int = Field(0, alias="from")


class Counter(Model):
    """Numbers the requests that use it, without gaps: the first one's value, and one more for each further.

    It begins again after `items` numbers. A `fresh` one begins at another number in each phase and with each seed.
    """

    from_: int = Field(0, alias="from")
    items: Items | None = None
    fresh: bool = False


class Zipf(Model):
    """A law of Zipf over `items`: item i, from 0, in proportion to (i + 1)^-exponent.

    `exact` is that for any exponent; `ycsb` is Gray's approximation (1994) as YCSB has it, for exponents below 1.
    """

    items: Items
    exponent: Annotated[float, Field(gt=0, le=20)] = 0.99
    form: Literal["exact", "ycsb"] = "exact"
    from_: int = Field(0, alias="from")

    @model_validator(mode="after")
    def _converges(self) -> "Zipf":
        if self.form == "ycsb" and self.exponent >= 1:
            raise wrong("the ycsb form wants an exponent below 1", "write form: exact", key="exponent")
        return self


class Zipfian(Zipf):
    """Few items are popular; `scrambled` scatters those among all items, as YCSB does, by a hash.

    The law holds over the items and over those that are `expected` to be `inserted` (by operations that use that
    counter); an item that is not there yet is drawn again.
    """

    scrambled: bool = False
    expected: Annotated[int, Field(ge=0, le=2**53)] = 0
    inserted: Text | None = None

    @model_validator(mode="after")
    def _scrambles_as_ycsb_does(self) -> "Zipfian":
        if self.form == "ycsb" and self.scrambled and self.exponent != 0.99:
            raise wrong("YCSB scrambles only with an exponent of 0.99", "leave it out", key="exponent")
        if self.inserted is not None and not self.expected:
            raise wrong("it does not say how many items are expected", "add expected: 1000", key="inserted")
        return self


class Latest(Zipf):
    """The newest item is the most popular; the `ycsb` form never draws the oldest, as YCSB does not.

    Each request adds `growth` items (such as the share of inserts), or those that have been `inserted` are added (by
    operations that use that counter).
    """

    growth: Annotated[float, Field(ge=0, le=1e6)] = 0.0
    inserted: Text | None = None

    @model_validator(mode="after")
    def _grows_in_one_way(self) -> "Latest":
        if self.inserted is not None and self.growth:
            raise wrong("items grow by growth or by what is inserted", "remove one of them", key="growth")
        return self


class Hotspot(Model):
    """The first `hot_items` of the items (a share) get `hot_share` of the draws; within both it is even."""

    items: Items
    hot_items: Share = 0.2
    hot_share: Share = 0.8
    from_: int = Field(0, alias="from")


class Exponential(Model):
    """A number of that mean; with `items` a whole one: item i, from 0, in proportion to exp(-i / mean).

    Items are counted from the oldest, or with `newest_first` from the newest; those that have been `inserted` (by
    operations that use that counter) are the newest.
    """

    mean: Mean
    items: Items | None = None
    from_: int = Field(0, alias="from")
    newest_first: bool = False
    inserted: Text | None = None

    @model_validator(mode="after")
    def _from_items(self) -> "Exponential":
        if self.items is None and "from_" in self.model_fields_set:
            raise wrong("only items are counted from a number", "say how many items", key="from")
        if self.items is None and self.newest_first:
            raise wrong("only items have a newest one", "say how many items", key="newest_first")
        if self.inserted is not None and not self.newest_first:
            raise wrong("inserted items are the newest", "add newest_first: true", key="inserted")
        return self


class Normal(Model):
    """A number of that mean and standard deviation."""

    mean: Annotated[float, Field(allow_inf_nan=False)]
    deviation: Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Letters(Model):
    """Random letters, digits, - and _; `length` is a number of characters or [shortest, longest]."""

    length: Annotated[int | list[int], BeforeValidator(_length)]


class Date(Model):
    """An instant from `from` to just before `to`, UTC; without a format as 2015-01-31T12:30:00.000Z."""

    from_: Instant = Field(alias="from")
    to: Instant
    format: Annotated[str, BeforeValidator(_format)] | None = None

    @model_validator(mode="after")
    def _in_order(self) -> "Date":
        begin, end = (datetime.fromisoformat(text.removesuffix("Z")) for text in (self.from_, self.to))
        if begin >= end:
            raise wrong("the date ends before it begins", "write the earlier one under from", key="to")
        return self


class SimulatedInstant(Model):
    """The instant of the user's simulated clock; without a format as 2015-01-31T12:30:00.000Z."""

    format: Annotated[str, BeforeValidator(_format)] | None = None


class LoopCount(Model):
    """The number of the pass through the loop of a journey that names it as its `count`; the first one's, and one more
    for each further."""

    from_: int = Field(0, alias="from")


class Lines(Model):
    """A line of a text file; those that are empty are left out."""

    file: Text
    order: Order = "random"


class FieldOf(Model):
    """A field of documents of a corpus (`a.b` is within `a`), taken from up to 10,000 spread over it."""

    corpus: Text
    field: Text
    order: Order = "random"


class DocumentOf(Model):
    """A whole document of a corpus, such as the parameters of one request: any, or request k takes document k.

    Files of a corpus are mapped and not read, so that there may be more documents than memory holds.
    """

    corpus: Text
    order: Order = "random"


class PartOf(Model):
    """What is at a field of a variable that is a document (`a.b` is within `a`), or `otherwise`.

    The parts of one document variable are of the same document in the same request.
    """

    of: Text
    field: Text
    otherwise: Any = None


class Linear(Model):
    """A variable that is a number, `times` a number, `plus` a number; whole if all three are."""

    of: Text
    times: Number = 1
    plus: Number = 0


class Hash(Model):
    """YCSB's hash (FNV-1a) of a variable that is a whole number."""

    of: Text


class Several(Model):
    """A list of `count` values of another variable; the next request has the next `count` values."""

    of: Text
    count: Annotated[int, Field(ge=1)]


class Variable(Model):
    """One way to draw a value, and whether each request, iteration (of a journey) or user has its own."""

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
    def _one_way(self) -> "Variable":
        ways = sorted(self.model_fields_set - {"per"})
        if len(ways) != 1:
            known = ", ".join(name for name in type(self).model_fields if name != "per")
            raise wrong(f"expected one way to draw a value, not {len(ways)}", f"say one of {known}")
        if self.uniform is not None and self.uniform[0] > self.uniform[1]:
            raise wrong("the lower bound is above the upper one", "write [low, high]", key="uniform")
        if self.of and not self.inserted and "per" in self.model_fields_set:
            raise wrong("a derived value changes with what it is made of", "say per there", key="per")
        if self.loop is not None and self.per != "request":
            raise wrong("a loop's count is its user's", "leave per out", key="per")
        if (self.counter or self.inserted) and self.per != "request":
            raise wrong("what depends on a counter has a value for each request", "leave per out", key="per")
        return self

    @property
    def inserted(self) -> str | None:
        """The name of the counter that numbers the records which its values are chosen from, if they may grow."""
        law = self.zipfian or self.latest or self.exponential
        return law.inserted if law is not None else None

    @property
    def of(self) -> tuple[str, ...]:
        """The names of the variables that it depends on."""
        derived = self.linear or self.hash or self.several or self.part
        if derived is not None:
            return (derived.of,)
        return (self.inserted,) if self.inserted else tuple(dict.fromkeys(names(self.derived)))

    @property
    def kinds(self) -> tuple[str, ...]:
        """Which kinds its values are known to be of: `number`, `whole number`, `document`."""
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
        """Return the variable as the engine takes it; relative paths begin at `folder`."""
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
    """Return the names of the variables that are used, with those that they are made of."""
    reached: set[str] = set()
    new = used & variables.keys()
    while new:
        reached |= new
        new = {other for name in new for other in variables[name].of if other in variables} - reached
    return reached


def circle(variables: Mapping[str, Variable]) -> list[str] | None:
    """Return the names of variables that are made of each other in a circle, the first one again last; or None."""
    free: set[str] = set()

    def walk(name: str, way: list[str]) -> Iterator[list[str]]:
        if name in way:
            yield [*way[way.index(name) :], name]
        elif name in variables and name not in free:
            for other in variables[name].of:
                yield from walk(other, [*way, name])
            free.add(name)

    return next((path for name in variables for path in walk(name, [])), None)
