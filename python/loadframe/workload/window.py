"""Automatic warm-up and length of a phase, and the wait for an empty queue. Models and checks only."""

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from loadframe.base.units import parse_share
from loadframe.workload.pacing import shape
from loadframe.yamlfile import Duration, Model, quantity, wrong

#: Shortest automatic warm-up, s: steady state cannot be judged earlier.
LEAST_WARMUP = 20.0


class AutoWarmup(Model):
    """A warm-up that ends when throughput and response times are steady, or after `at_most`."""

    at_least: Annotated[Duration, Field(ge=LEAST_WARMUP)] = LEAST_WARMUP
    at_most: Duration = 300.0

    @model_validator(mode="after")
    def _check_bounds(self) -> "AutoWarmup":
        _check_bounds(self.at_least, self.at_most)
        return self


class AutoDuration(Model):
    """A window that ends when the intervals of throughput and p99 are narrow enough, or after `at_most`.

    `precision` is half of an interval's width as a share of the figure.
    """

    precision: Annotated[float, quantity(parse_share, 1.0), Field(ge=0.001)] = 0.05
    at_least: Annotated[Duration, Field(ge=10)] = 30.0
    at_most: Duration = 600.0

    @model_validator(mode="after")
    def _check_bounds(self) -> "AutoDuration":
        _check_bounds(self.at_least, self.at_most)
        return self


def _check_bounds(at_least: float, at_most: float) -> None:
    if at_most < at_least:
        raise wrong(f"at_most must be at least {at_least:g} s; got {at_most:g} s", "raise at_most", key="at_most")


#: The value for an automatic length with default limits.
AUTO = "auto"
#: Default limit of the wait for an empty queue, s.
_QUEUE_LIMIT = 60.0


def _defaults(value: Any) -> Any:
    return {} if value == AUTO else value


def _limit(value: Any) -> Any:
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
QueueLimit = Annotated[Duration, Field(ge=1), BeforeValidator(_limit, json_schema_input_type=bool | float | str)]


def longest(length: "float | AutoWarmup | AutoDuration") -> float:
    """Return a length in seconds; the upper limit of an automatic one."""
    return length if isinstance(length, int | float) else length.at_most


def shortest(length: "float | AutoWarmup | AutoDuration") -> float:
    """Return a length in seconds; the lower limit of an automatic one."""
    return length if isinstance(length, int | float) else length.at_least


def obstacle(key: str, streams: Sequence[Any], *, ends_by_duration: bool) -> tuple[str, str] | None:
    """Return why streams do not support an automatic length or `wait_for_queue`, and a remedy; None if they do."""
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
