"""How load is paced: levels that stay, step or ramp, think times, what ends a phase early. Models only."""

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Strict, Tag, model_validator

from loadframe.base.units import parse_rate
from loadframe.workload.forms import Positive
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
    """A rate that changes: from a rate, through stages; the last holds, or it `repeats` as the hours of a day do."""

    from_: Annotated[RateOrNone, Field(alias="from")]
    stages: Annotated[tuple[RateStage, ...], Strict(False), NOT_EMPTY]
    repeats: Literal[True] | None = None

    @model_validator(mode="after")
    def _sends(self) -> "RateLevel":
        _not_nothing(self.from_, [stage.to for stage in self.stages])
        if self.repeats is not None and not any(stage.over for stage in self.stages):
            raise wrong("what repeats lasts no time", "give a stage more than 0s", key="repeats")
        return self


def _not_nothing(start: float, levels: list[float] | list[int]) -> None:
    if start == 0 and not any(levels):
        raise wrong("a level that is always 0 sends nothing", "give one stage more than 0", key="stages")


def _shape(value: Any) -> str:
    # Such a word stands in the path of an error, and so it is none of the keys there.
    return "levels" if isinstance(value, dict | Model) else "level"


Clients = Annotated[Annotated[Positive, Tag("level")] | Annotated[ClientLevel, Tag("levels")], Discriminator(_shape)]
Rates = Annotated[Annotated[Rate, Tag("level")] | Annotated[RateLevel, Tag("levels")], Discriminator(_shape)]

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


ThinkTime = Annotated[Annotated[Duration, Tag("level")] | Annotated[ThinkDraw, Tag("levels")], Discriminator(_shape)]


class Condition(Model):
    """Ends a phase early: when a figure is above a bound for a number of seconds in a row."""

    metric: Literal["error_share", "response_p99", "dropped"]
    above: Annotated[float, Field(ge=0), Strict(False)]
    seconds: Positive = 1


def plan_level(level: int | float | Model) -> Any:
    """Return a number of clients, a rate or a think time as plans have it."""
    return level.model_dump(exclude_none=True, by_alias=True) if isinstance(level, Model) else level
