"""Load levels: constant, stepped or ramped clients and rates; think times; retries; early stop conditions."""

import math
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, Discriminator, Field, Strict, Tag, ValidationInfo, model_validator

from loadframe.base.errors import BadInput
from loadframe.base.units import MOST_RATE, exceeds_responses, parse_duration, parse_rate, parse_share
from loadframe.workload.forms import Positive
from loadframe.yamlfile import NOT_EMPTY, QUANTITY, Duration, Model, Rate, lasting, quantity, short_json, wrong


class ClientStage(Model):
    """A linear ramp of the number of clients; a ramp over 0 s is a step."""

    to: Annotated[int, Field(ge=0)]
    over: Duration


class ClientLevel(Model):
    """A number of clients that changes in stages; the last level holds."""

    from_: Annotated[int, Field(ge=0, alias="from")]
    stages: Annotated[tuple[ClientStage, ...], Strict(False), NOT_EMPTY]

    @model_validator(mode="after")
    def _sends(self) -> "ClientLevel":
        """Refuse a number of clients that stays at 0."""
        _check_not_idle(self.from_, [stage.to for stage in self.stages])
        return self


#: A rate that may be 0 within a profile.
RateOrNone = Annotated[float, quantity(parse_rate, MOST_RATE), Field(ge=0)]


class RateStage(Model):
    """A linear ramp of the rate; a ramp over 0 s is a step."""

    to: RateOrNone
    over: Duration


class RateLevel(Model):
    """A rate that changes in stages; the last level holds, or with `repeats` the profile starts over."""

    from_: Annotated[RateOrNone, Field(alias="from")]
    stages: Annotated[tuple[RateStage, ...], Strict(False), NOT_EMPTY]
    repeats: Literal[True] | None = None

    @model_validator(mode="after")
    def _sends(self) -> "RateLevel":
        """Refuse a rate that stays at 0, and a repeating profile of 0 s."""
        _check_not_idle(self.from_, [stage.to for stage in self.stages])
        if self.repeats is not None and not any(stage.over for stage in self.stages):
            raise wrong("a repeating profile must last longer than 0s", "lengthen a stage", key="repeats")
        return self


def _check_not_idle(start: float, levels: list[float] | list[int]) -> None:
    """Refuse a start and levels of stages that are all 0."""
    if start == 0 and not any(levels):
        raise wrong("a level that stays at 0 sends nothing", "set one stage above 0", key="stages")


def shape(value: Any) -> str:
    """Return the tag of a level: `levels` for a mapping, `level` for a single value."""
    # The tag appears in the path of an error, so it must differ from all keys.
    return "levels" if isinstance(value, dict | Model) else "level"


Clients = Annotated[Annotated[Positive, Tag("level")] | Annotated[ClientLevel, Tag("levels")], Discriminator(shape)]
Rates = Annotated[Annotated[Rate, Tag("level")] | Annotated[RateLevel, Tag("levels")], Discriminator(shape)]

#: Spacing of open-loop requests: even, or random as from many independent users.
Arrivals = Literal["constant", "poisson"]
#: The default, since an open loop models independent users.
USUAL_ARRIVALS: Arrivals = "poisson"

_Pair = Annotated[tuple[Duration, Duration], Strict(False)]


class ThinkDraw(Model):
    """A random think time: `uniform` [low, high], `exponential` mean, or `normal` [mean, deviation]."""

    uniform: _Pair | None = None
    exponential: Duration | None = None
    normal: _Pair | None = None

    @model_validator(mode="after")
    def _check_distribution(self) -> "ThinkDraw":
        """Refuse other than exactly one distribution, and a uniform one with its bounds reversed."""
        given = self.model_dump(exclude_none=True)
        if len(given) != 1:
            what = f"a think time needs exactly one distribution; got {short_json(sorted(given))}"
            raise wrong(what, "use one of uniform, exponential and normal")
        if self.uniform is not None and self.uniform[0] > self.uniform[1]:
            raise wrong("the lower bound is above the upper bound", "swap them", key="uniform")
        return self


ThinkTime = Annotated[Annotated[Duration, Tag("level")] | Annotated[ThinkDraw, Tag("levels")], Discriminator(shape)]


def _share_bound(value: Any) -> float:
    """Return a bound on a share, 0 to below 1, from a number or a text such as `5%`. BadInput for other values."""
    share = parse_share(value)
    if share == 1:
        raise BadInput(f"no share is above {short_json(value)}", remedy="use a bound below 1, such as 5% or 0.05")
    return share


def _response_bound(value: Any) -> float:
    """Return a bound on response times, s, from a number or a text such as `250ms`. BadInput unless it is below 1 h."""
    seconds = parse_duration(value)
    if exceeds_responses(seconds):
        raise BadInput(f"no response time is above {short_json(value)}", remedy="use a bound below 1h, such as 250ms")
    return seconds


def _number_bound(value: Any) -> float:
    """Return a bound as a number, also from a text. BadInput unless it is finite and at least 0."""
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not 0 <= number < math.inf:
        raise BadInput(f"expected a number of at least 0, not {short_json(value)}")
    return number


#: Parsers of a condition's bound, by metric.
_BOUNDS: dict[str, Callable[[Any], float]] = {
    "error_share": _share_bound,
    "response_p99": _response_bound,
    "dropped": _number_bound,
    "missed_share": _share_bound,
}


def _parse_bound(value: Any, info: ValidationInfo) -> float:
    """Return a condition's bound in the unit of its metric: a share from 0 to 1, seconds, or a number.

    `info` holds the metric. Returns 0 for an invalid metric, which has its own error. Refuses an invalid bound.
    """
    parse = _BOUNDS.get(info.data.get("metric", ""))
    try:
        return parse(value) if parse else 0.0
    except BadInput as error:
        raise wrong(error.what, error.remedy) from None


class Condition(Model):
    """An early end of a phase: a metric stays above a bound for a number of consecutive seconds.

    `missed_share` counts these seconds together: it is the share of the requests that failed, were dropped or had no
    response within `seconds` after they were due.
    """

    metric: Literal["error_share", "response_p99", "dropped", "missed_share"]
    above: Annotated[
        float,
        BeforeValidator(
            _parse_bound,
            json_schema_input_type=Annotated[
                float | str, Field(json_schema_extra={QUANTITY: "share, duration or number"})
            ],
        ),
    ]
    seconds: Positive = 1


def plan_level(level: int | float | Model) -> Any:
    """Return a number of clients, a rate or a think time for the plan.

    It is a number, or a mapping: `from`, `stages` (`to`, `over` in s) and `repeats`, or the distribution of a think
    time.
    """
    return level.model_dump(exclude_none=True, by_alias=True) if isinstance(level, Model) else level


#: A failure after which the same request may succeed.
Retryable = Literal["connect", "timeout", "rejected", "server"]


class Retry(Model):
    """Retries of failed requests. The pauses follow from the seed and count towards the response time."""

    #: Maximum number of attempts per request, the first included.
    attempts: Annotated[int, Field(ge=2, le=101)]
    backoff: Literal["constant", "exponential"] = "exponential"
    #: Pause before the first retry; with `exponential`, each further pause is twice as long, up to `cap`.
    base: Duration = 0.05
    cap: Duration = 2.0
    #: Maximum share by which chance lengthens a pause.
    jitter: Annotated[float, quantity(parse_share, 100), Field(ge=0, le=1)] = 0.5
    #: Maximum retries as a share of the requests; without it, only `attempts` limits them.
    budget: Annotated[float, quantity(parse_share, 1e4), Field(gt=0)] | None = None
    on: Annotated[tuple[Retryable, ...], Strict(False), NOT_EMPTY] = get_args(Retryable)
    #: Wait at least as long as the store requests, up to 60 s.
    respect_retry_after: bool = True

    @model_validator(mode="after")
    def _check_pauses(self) -> "Retry":
        """Refuse a first pause that is longer than the longest."""
        if self.base > self.cap:
            raise wrong("the first pause is longer than the longest", "write a base of at most cap", key="base")
        return self

    def plan(self) -> dict[str, Any]:
        """Return the pauses (s), limits and retried failures (`on`) for the plan, without the number of attempts.

        `factor` multiplies the pause after each retry: 1 (constant) or 2 (exponential).
        """
        kept = self.model_dump(include={"base", "cap", "jitter", "budget", "respect_retry_after"})
        return {**kept, "on": list(self.on), "factor": 1 if self.backoff == "constant" else 2}


#: Shortest automatic warm-up, s: steady state cannot be judged earlier.
LEAST_WARMUP = 20.0


class AutoWarmup(Model):
    """A warm-up that ends when throughput and response times are steady, or after `at_most`."""

    at_least: Annotated[Duration, Field(ge=LEAST_WARMUP), lasting(LEAST_WARMUP)] = LEAST_WARMUP
    at_most: Duration = 300.0

    @model_validator(mode="after")
    def _check_bounds(self) -> "AutoWarmup":
        """Refuse `at_most` below `at_least`."""
        _check_bounds(self.at_least, self.at_most)
        return self


class AutoDuration(Model):
    """A window that ends when the intervals of throughput and p99 are narrow enough, or after `at_most`.

    `precision` is half of an interval's width as a share of the figure.
    """

    precision: Annotated[float, quantity(parse_share, 1.0), Field(ge=0.001)] = 0.05
    at_least: Annotated[Duration, Field(ge=10), lasting(10)] = 30.0
    at_most: Duration = 600.0

    @model_validator(mode="after")
    def _check_bounds(self) -> "AutoDuration":
        """Refuse `at_most` below `at_least`."""
        _check_bounds(self.at_least, self.at_most)
        return self


def _check_bounds(at_least: float, at_most: float) -> None:
    """Refuse `at_most` below `at_least`, both s."""
    if at_most < at_least:
        raise wrong(f"at_most must be at least {at_least:g} s; got {at_most:g} s", "raise at_most", key="at_most")


#: The value for an automatic length with default limits.
AUTO = "auto"
#: Default limit of the wait for an empty queue, s.
_QUEUE_LIMIT = 60.0


def _defaults(value: Any) -> Any:
    """Return an empty mapping, which stands for the default limits, for `auto`; return other values unchanged."""
    return {} if value == AUTO else value


def _limit(value: Any) -> Any:
    """Return the default limit of `wait_for_queue`, in s, for true; return other values unchanged."""
    return _QUEUE_LIMIT if value is True else value


Warmup = Annotated[
    Annotated[Duration, Tag("level")] | Annotated[AutoWarmup, Tag("levels")],
    Discriminator(shape),
    BeforeValidator(_defaults),
]
Length = Annotated[
    Annotated[Annotated[Duration, Field(gt=0)], Tag("level")] | Annotated[AutoDuration, Tag("levels")],
    Discriminator(shape),
    BeforeValidator(_defaults),
]
#: At least one recorded second ends while the load pauses, so that the queue is known.
QueueLimit = Annotated[
    Duration, Field(ge=1), lasting(1), BeforeValidator(_limit, json_schema_input_type=bool | float | str)
]


def longest(length: "float | AutoWarmup | AutoDuration") -> float:
    """Return a length in seconds; the upper limit of an automatic one."""
    return length if isinstance(length, int | float) else length.at_most


def shortest(length: "float | AutoWarmup | AutoDuration") -> float:
    """Return a length in seconds; the lower limit of an automatic one."""
    return length if isinstance(length, int | float) else length.at_least


def obstacle(key: str, streams: Sequence[Any], *, ends_by_duration: bool) -> tuple[str, str] | None:
    """Return the first reason why `streams` do not support `key`, and a remedy; None if they do.

    `key` is `warmup: auto`, `duration: auto` or `wait_for_queue`. All need constant levels, no source, no stream with
    its own end, and `ends_by_duration`: the phase has a duration and no other end. `wait_for_queue` needs open loops
    only.
    """
    levels = [level for stream in streams for level in (stream.clients, stream.rate)]
    if any(stream.source is not None for stream in streams):
        return f"{key} does not apply to a source, which sets the pace", "use a fixed time"
    if any(isinstance(level, Model) for level in levels):
        return f"{key} requires a constant load, not stages", "use a fixed time"
    if any(stream.ends_itself for stream in streams) or not ends_by_duration:
        return f"{key} requires a phase that ends by its duration", "give the phase a duration, and no other end"
    if key == "wait_for_queue" and not all(stream.is_open for stream in streams):
        return f"{key} requires a rate: clients wait for their answers anyway", "remove it, or use rate"
    return None
