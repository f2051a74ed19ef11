"""Journeys: the steps of a simulated user, with loops, weighted choices, conditions and pauses. Models only."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, Strict, model_validator

from loadframe.workload.forms import Text
from loadframe.workload.holes import Place
from loadframe.workload.pacing import ThinkTime, plan_level
from loadframe.workload.variables import Instant, Weight
from loadframe.yamlfile import NOT_EMPTY, Duration, Model, Name, wrong

#: Classes of failed requests, as recorded.
ErrorClass = Literal["connect", "timeout", "rejected", "client", "server", "item", "assertion", "unseen"]


class Comparison(Model):
    """A test of a captured value; all given bounds must hold."""

    of: Text
    at_least: Annotated[float, Strict(False)] | None = None
    below: Annotated[float, Strict(False)] | None = None
    equals: Text | None = None

    @model_validator(mode="after")
    def _check_bounds(self) -> "Comparison":
        """Refuse a comparison without a bound."""
        if self.at_least is None and self.below is None and self.equals is None:
            raise wrong(f"the comparison of {self.of!r} lacks a bound", "add at_least, below or equals")
        return self


def _in_order(hours: tuple[int, int]) -> tuple[int, int]:
    """Return two hours unchanged; refuse them in reverse order, or equal ones."""
    if hours[0] >= hours[1]:
        raise wrong("the first hour must be before the second", "write [8, 20], or swap steps and otherwise")
    return hours


_Hour = Annotated[int, Field(ge=0, le=24)]


class Test(Model):
    """A condition; exactly one key.

    `failed`: the user's last request failed with one of these classes (an empty list: any class). `known`: the captured
    value exists. `value`: the captured value satisfies a comparison. `hours`: the simulated hour of the day is at least
    the first and below the second.
    """

    __test__ = False

    failed: tuple[ErrorClass, ...] | None = Field(None, strict=False)
    known: Text | None = None
    value: Comparison | None = None
    hours: Annotated[tuple[_Hour, _Hour], Strict(False), AfterValidator(_in_order)] | None = None

    @model_validator(mode="after")
    def _check_one_key(self) -> "Test":
        """Refuse other than exactly one key."""
        if len(self.model_fields_set) != 1:
            raise wrong("a condition needs exactly one key", "use one of failed, known, value and hours")
        return self

    @property
    def reads(self) -> str | None:
        """The name of the captured value that `known` or `value` tests, or None for other tests."""
        return self.value.of if self.value is not None else self.known


def _step(value: Any) -> Any:
    """Return a step's data; a plain name becomes a step with that operation."""
    return {"operation": value} if isinstance(value, str) else value


class Repeat(Model):
    """A loop: `times` passes, or fewer if `until` holds before a pass. 0 passes remove it.

    `count` names a loop variable that holds the number of the pass.
    """

    times: Annotated[int, Field(ge=0, le=2**32 - 1)]
    until: Test | None = None
    count: Text | None = None
    steps: "Journey"


class Way(Model):
    """One branch of a weighted choice; without steps it does nothing."""

    weight: Weight
    steps: "Steps" = ()


class Timed(Model):
    """Steps whose total time is also recorded as one request, under a name that differs from all operations.

    The time runs from when the user is due at the first step until the user finishes the last.
    """

    name: Name
    steps: "Journey"


#: The actions of a step, exactly one per step; each other key requires one of them.
_ACTIONS = ("operation", "repeat", "choose", "when", "timed", "think", "pause", "together", "leave")
_REQUIRES = {"think_time": "operation", "missing": "operation", "steps": "when", "otherwise": "when"}


class JourneyStep(Model):
    """A step of a journey: exactly one action, with the keys that belong to it.

    `operation` sends a request and then waits `think_time`. If the request needs a captured value that does not exist,
    `missing` decides: it fails (`fail`), is skipped (`skip`), or fails and ends the journey (`leave`).

    `repeat` is a loop, `choose` selects a branch by weight, `when` runs `steps` or `otherwise`, and `timed` records the
    total time of its steps. `think` waits in real time, `pause` in simulated time. `together` waits for all users
    (`false` removes the step). `leave` ends the journey.
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
    def _check_action(self) -> "JourneyStep":
        """Refuse other than exactly one action, and a key without the action that it requires."""
        actions = [key for key in _ACTIONS if getattr(self, key) is not None]
        if len(actions) != 1:
            what = f"a step needs exactly one action; got {' and '.join(actions) or 'none'}"
            raise wrong(what, f"use one of {', '.join(_ACTIONS)}")
        for key, action in _REQUIRES.items():
            if getattr(self, key) is not None and actions != [action]:
                raise wrong(f"{key} requires {action}", f"remove {key}", key=key)
        return self

    @property
    def left_out(self) -> bool:
        """Whether the step is disabled, as a parameter may do: `together: false`, or a `repeat` of 0 passes."""
        return self.together is False or (self.repeat is not None and self.repeat.times == 0)

    @property
    def inside(self) -> Iterator[tuple[Place, "Sequence[JourneyStep]"]]:
        """Yield the lists of nested steps in file order, each with its place (keys and indices) relative to this step.

        A missing list of `when` counts as empty.
        """
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
        """Return the step for the plan, with times in seconds; do not call it for a disabled step.

        It is a mapping with one key: `ask` for `operation`, else the action's name. For `together` and `leave`, it is
        that text.
        """
        if self.operation is not None:
            request = {"operation": self.operation, "think_time": plan_level(self.think_time or 0.0)}
            return {"ask": request if self.missing is None else {**request, "missing": self.missing}}
        if self.think is not None:
            return {"think": plan_level(self.think)}
        if self.pause is not None:
            return {"pause": self.pause}
        return self._dump_nested() or ("together" if self.together else "leave")

    def _dump_nested(self) -> dict[str, Any] | None:
        """Return a `repeat`, `choose`, `when` or `timed` step for the plan, or None for other steps.

        Disabled nested steps are omitted.
        """
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
    """Return a condition for the plan: a mapping with its one key; bounds that are not set are absent."""
    return test.model_dump(mode="json", exclude_none=True)


_StepOrName = Annotated[JourneyStep, BeforeValidator(_step, json_schema_input_type=JourneyStep | str)]
Steps = Annotated[tuple[_StepOrName, ...], Strict(False)]
#: The steps of one user, in order; a plain name is a step with that operation.
Journey = Annotated[tuple[_StepOrName, ...], Strict(False), NOT_EMPTY]


class SimulatedClock(Model):
    """The simulated clock of a stream's users, which starts at the instant `from`.

    It runs `scale` times as fast as real time. A `shared` clock instead stands still until every user waits for it,
    then jumps to the earliest instant that a user waits for; it ignores `scale`.
    """

    from_: Annotated[Instant, Field(alias="from")]
    scale: Annotated[float, Field(gt=0, le=1e9), Strict(False)] | None = None
    shared: bool = False

    @model_validator(mode="after")
    def _check_speed(self) -> "SimulatedClock":
        """Refuse a clock with neither `scale` nor `shared`."""
        if self.scale is None and not self.shared:
            raise wrong("the clock lacks a speed", "add scale: 3600, or shared: true")
        return self

    def dump(self) -> dict[str, Any]:
        """Return the clock for the plan; a shared clock has no `scale`."""
        return {"from": self.from_, **({} if self.shared else {"scale": self.scale})}


def dump(journey: "Sequence[JourneyStep]") -> list[Any]:
    """Return the steps of a journey for the plan, without disabled ones."""
    return [step.dump() for step in journey if not step.left_out]


def every_step(journey: "Sequence[JourneyStep]", place: Place = ()) -> Iterator[tuple[Place, JourneyStep]]:
    """Yield the steps of a journey and their nested steps in file order, with their places; skips disabled ones."""
    for index, step in enumerate(journey):
        if step.left_out:
            continue
        yield (*place, index), step
        for inside, steps in step.inside:
            yield from every_step(steps, (*place, index, *inside))


def counts(journey: "Sequence[JourneyStep]") -> set[str]:
    """Return the names under `count` of the enabled `repeat` steps of a journey, also nested ones."""
    loops = (step.repeat for _, step in every_step(journey))
    return {loop.count for loop in loops if loop is not None and loop.count is not None}
