"""How load is paced: levels that stay, step or ramp, think times, journeys, what ends a phase early. Models only."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Strict, Tag, model_validator

from loadframe.units import parse_rate
from loadframe.workload.forms import Positive, Text
from loadframe.yamlfile import NOT_EMPTY, Duration, Model, Rate, quantity, shown, wrong


class ClientStage(Model):
    """A linear change of the number of clients; one over 0 s is a step."""

    to: Annotated[int, Field(ge=0)]
    over: Duration


class ClientLevel(Model):
    """Clients that come and go: from a number, through stages; the last level holds."""

    from_: Annotated[int, Field(ge=0, alias="from")]
    stages: Annotated[tuple[ClientStage, ...], Strict(False), NOT_EMPTY]

    @model_validator(mode="after")
    def _sends(self) -> "ClientLevel":
        _not_nothing(self.from_, [stage.to for stage in self.stages])
        return self


#: A rate that may be 0 for a while.
RateOrNone = Annotated[float, quantity(parse_rate, 1e9), Field(ge=0)]


class RateStage(Model):
    """A linear change of the rate; one over 0 s is a step."""

    to: RateOrNone
    over: Duration


class RateLevel(Model):
    """A rate that changes: from a rate, through stages; the last one holds."""

    from_: Annotated[RateOrNone, Field(alias="from")]
    stages: Annotated[tuple[RateStage, ...], Strict(False), NOT_EMPTY]

    @model_validator(mode="after")
    def _sends(self) -> "RateLevel":
        _not_nothing(self.from_, [stage.to for stage in self.stages])
        return self


def _not_nothing(start: float, levels: list[float] | list[int]) -> None:
    if start == 0 and not any(levels):
        raise wrong("a level that is always 0 sends nothing", "give one stage more than 0", key="stages")


def _shape(value: Any) -> str:
    return "stages" if isinstance(value, dict | Model) else "constant"


Clients = Annotated[Annotated[Positive, Tag("constant")] | Annotated[ClientLevel, Tag("stages")], Discriminator(_shape)]
Rates = Annotated[Annotated[Rate, Tag("constant")] | Annotated[RateLevel, Tag("stages")], Discriminator(_shape)]

#: How the requests of an open load are spaced: evenly, or at random instants, as many independent users send them.
Arrivals = Literal["constant", "poisson"]
#: The default: an open load stands for users, and users do not take turns.
USUAL_ARRIVALS: Arrivals = "poisson"

_Pair = Annotated[tuple[Duration, Duration], Strict(False)]


class ThinkDraw(Model):
    """A think time that is drawn anew each time: between two bounds, with a mean, or with mean and deviation."""

    uniform: _Pair | None = None
    exponential: Duration | None = None
    normal: _Pair | None = None

    @model_validator(mode="after")
    def _one(self) -> "ThinkDraw":
        given = self.model_dump(exclude_none=True)
        if len(given) != 1:
            raise wrong(f"a think time is drawn in one way, not {shown(sorted(given))}", "say one of them")
        if self.uniform is not None and self.uniform[0] > self.uniform[1]:
            raise wrong("the lower bound is above the upper one", "exchange them", key="uniform")
        return self


ThinkTime = Annotated[Annotated[Duration, Tag("constant")] | Annotated[ThinkDraw, Tag("stages")], Discriminator(_shape)]


class JourneyStep(Model):
    """A step of a journey: an operation, and what its user thinks before the next one."""

    operation: Text
    think_time: ThinkTime | None = None


def _step(value: Any) -> Any:
    return {"operation": value} if isinstance(value, str) else value


_StepOrName = Annotated[JourneyStep, BeforeValidator(_step, json_schema_input_type=JourneyStep | str)]
#: Operations that one user walks through in order; a step without a think time is just its operation's name.
Journey = Annotated[tuple[_StepOrName, ...], Strict(False), NOT_EMPTY]


class Condition(Model):
    """Ends a phase early: when a figure is above a bound for a number of seconds in a row."""

    metric: Literal["error_share", "response_p99", "dropped"]
    above: Annotated[float, Field(ge=0), Strict(False)]
    seconds: Positive = 1


def plan_level(level: int | float | Model) -> Any:
    """Return a number of clients, a rate or a think time as plans have it."""
    return level.model_dump(exclude_none=True, by_alias=True) if isinstance(level, Model) else level
