"""Journeys: what a user does, step by step, with loops that end, choices, conditions and pauses. Models only."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, Strict, model_validator

from loadframe.workload.forms import Text
from loadframe.workload.holes import Place
from loadframe.workload.pacing import ThinkTime, plan_level
from loadframe.workload.variables import Instant, Weight
from loadframe.yamlfile import NOT_EMPTY, Duration, Model, Name, wrong

#: How a request may fail, as records have it.
ErrorClass = Literal["connect", "timeout", "rejected", "client", "server", "item", "assertion", "unseen"]


class Comparison(Model):
    """A comparison of what an answer gave; all that is said must hold."""

    of: Text
    at_least: Annotated[float, Strict(False)] | None = None
    below: Annotated[float, Strict(False)] | None = None
    equals: Text | None = None

    @model_validator(mode="after")
    def _something(self) -> "Comparison":
        if self.at_least is None and self.below is None and self.equals is None:
            raise wrong(f"what is asked of {self.of!r} is missing", "say at_least, below or equals")
        return self


def _in_order(hours: tuple[int, int]) -> tuple[int, int]:
    if hours[0] >= hours[1]:
        raise wrong("the first hour is not before the second", "write [8, 20], or exchange steps and otherwise")
    return hours


_Hour = Annotated[int, Field(ge=0, le=24)]


class Test(Model):
    """A condition: how the user's last request failed (of any class, with an empty list), whether an answer has given a
    value, what that value is, or the simulated hour of the day, from the first to before the second."""

    __test__ = False

    failed: tuple[ErrorClass, ...] | None = Field(None, strict=False)
    known: Text | None = None
    value: Comparison | None = None
    hours: Annotated[tuple[_Hour, _Hour], Strict(False), AfterValidator(_in_order)] | None = None

    @model_validator(mode="after")
    def _one(self) -> "Test":
        if len(self.model_fields_set) != 1:
            raise wrong("a condition is one thing", "say one of failed, known, value and hours")
        return self

    @property
    def reads(self) -> str | None:
        """The name of the value from answers that it looks at."""
        return self.value.of if self.value is not None else self.known


def _step(value: Any) -> Any:
    return {"operation": value} if isinstance(value, str) else value


class Repeat(Model):
    """A loop: its steps so many times, or until a condition holds before one of them; a variable may count them.

    One of 0 times is left out.
    """

    times: Annotated[int, Field(ge=0, le=2**32 - 1)]
    until: Test | None = None
    count: Text | None = None
    steps: "Journey"


class Way(Model):
    """One of the ways to go on, with its weight; without steps it leads past the others."""

    weight: Weight
    steps: "Steps" = ()


class Timed(Model):
    """Steps that are recorded as one request of their own, under a name that no operation has, beside what they ask
    for: from when the user is due at the first of them until it is through with the last."""

    name: Name
    steps: "Journey"


#: What a step does; the other keys go with one of these.
_DOES = ("operation", "repeat", "choose", "when", "timed", "think", "pause", "together", "leave")
_GOES_WITH = {"think_time": "operation", "missing": "operation", "steps": "when", "otherwise": "when"}


class JourneyStep(Model):
    """A step of a journey: an operation and what its user thinks before the next step, or a way to go on.

    `missing` says what becomes of a request without a value that an answer should have given: it fails, is skipped, or
    fails and ends the journey (`leave`). `repeat` is a loop, `choose` takes one of several ways by weight, `when` goes
    by what has happened, `timed` records what its steps take together. `think` waits in real time, `pause` in simulated
    time; `together` waits until all users stand there (or, if it is false, for nobody), `leave` ends the journey.
    """

    operation: Text | None = None
    think_time: ThinkTime | None = None
    missing: Literal["fail", "skip", "leave"] | None = None
    repeat: Repeat | None = None
    choose: Annotated[tuple[Way, ...], Strict(False), NOT_EMPTY] | None = None
    when: Test | None = None
    timed: Timed | None = None
    steps: "Steps | None" = None
    otherwise: "Steps | None" = None
    think: ThinkTime | None = None
    pause: Annotated[Duration, Field(gt=0)] | None = None
    together: bool | None = None
    leave: Literal[True] | None = None

    @model_validator(mode="after")
    def _one(self) -> "JourneyStep":
        does = [key for key in _DOES if getattr(self, key) is not None]
        if len(does) != 1:
            raise wrong(f"a step does one thing, not {' and '.join(does) or 'none'}", f"say one of {', '.join(_DOES)}")
        for key, other in _GOES_WITH.items():
            if getattr(self, key) is not None and does != [other]:
                raise wrong(f"{key} goes with {other}", "remove it", key=key)
        return self

    @property
    def left_out(self) -> bool:
        """Whether it does nothing, so that a parameter can turn it off."""
        return self.together is False or (self.repeat is not None and self.repeat.times == 0)

    @property
    def inside(self) -> Iterator[tuple[Place, "Sequence[JourneyStep]"]]:
        """The steps within it, each list with its place."""
        if self.repeat is not None:
            yield ("repeat", "steps"), self.repeat.steps
        for index, way in enumerate(self.choose or ()):
            yield ("choose", index, "steps"), way.steps
        if self.when is not None:
            yield ("steps",), self.steps or ()
            yield ("otherwise",), self.otherwise or ()
        if self.timed is not None:
            yield ("timed", "steps"), self.timed.steps

    def dump(self) -> Any:
        """Return the step as plans have it."""
        if self.operation is not None:
            ask = {"operation": self.operation, "think_time": plan_level(self.think_time or 0.0)}
            return {"ask": ask if self.missing is None else {**ask, "missing": self.missing}}
        if self.think is not None:
            return {"think": plan_level(self.think)}
        if self.pause is not None:
            return {"pause": self.pause}
        return self._dump_ways() or ("together" if self.together else "leave")

    def _dump_ways(self) -> dict[str, Any] | None:
        """Return a step that has others within it as plans have it."""
        if self.repeat is not None:
            until = {} if self.repeat.until is None else {"until": _test(self.repeat.until)}
            count = {} if self.repeat.count is None else {"count": self.repeat.count}
            return {"repeat": {"times": self.repeat.times, **until, **count, "steps": dump(self.repeat.steps)}}
        if self.choose is not None:
            return {"choose": [{"weight": way.weight, "steps": dump(way.steps)} for way in self.choose]}
        if self.when is not None:
            ways = {"steps": dump(self.steps or ()), "otherwise": dump(self.otherwise or ())}
            return {"when": {"test": _test(self.when), **ways}}
        if self.timed is not None:
            return {"timed": {"name": self.timed.name, "steps": dump(self.timed.steps)}}
        return None


def _test(test: Test) -> dict[str, Any]:
    return test.model_dump(mode="json", exclude_none=True)


_StepOrName = Annotated[JourneyStep, BeforeValidator(_step, json_schema_input_type=JourneyStep | str)]
Steps = Annotated[tuple[_StepOrName, ...], Strict(False)]
#: What one user does, in order; a step that is a name is that operation.
Journey = Annotated[tuple[_StepOrName, ...], Strict(False), NOT_EMPTY]


class SimulatedClock(Model):
    """The simulated clock of users: it begins at an instant, and either goes `scale` times as fast as the real one, or
    is `shared`: it stands until every user waits for it, and then goes to the next instant that one waits for.

    A clock that is shared has no use for its scale, which counts if `shared` is false.
    """

    from_: Annotated[Instant, Field(alias="from")]
    scale: Annotated[float, Field(gt=0, le=1e9), Strict(False)] | None = None
    shared: bool = False

    @model_validator(mode="after")
    def _one(self) -> "SimulatedClock":
        if self.scale is None and not self.shared:
            raise wrong("it does not say how the clock goes", "say scale: 3600, or shared: true")
        return self

    def dump(self) -> dict[str, Any]:
        """Return the clock as plans have it."""
        return {"from": self.from_, **({} if self.shared else {"scale": self.scale})}


def dump(journey: "Sequence[JourneyStep]") -> list[Any]:
    """Return steps as plans of users have them."""
    return [step.dump() for step in journey if not step.left_out]


def every_step(journey: "Sequence[JourneyStep]", place: Place = ()) -> Iterator[tuple[Place, JourneyStep]]:
    """Yield the steps of a journey and those within them, in the order of the file, with their places."""
    for index, step in enumerate(journey):
        if step.left_out:
            continue
        yield (*place, index), step
        for inside, steps in step.inside:
            yield from every_step(steps, (*place, index, *inside))


def counts(journey: "Sequence[JourneyStep]") -> set[str]:
    """Return the names of the variables that count loops of a journey."""
    loops = (step.repeat for _, step in every_step(journey))
    return {loop.count for loop in loops if loop is not None and loop.count is not None}


for _model in (Repeat, Way, Timed, JourneyStep):
    _model.model_rebuild()
