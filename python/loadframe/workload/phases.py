"""Phases and streams: which operations are issued, when they are due, and when the load is over. Models only."""

from typing import Annotated, Literal

from pydantic import Field, Strict, model_validator

from loadframe.workload.forms import Positive, Text
from loadframe.workload.pacing import Clients, Condition, Journey, Rates, ThinkTime
from loadframe.workload.variables import Weight
from loadframe.yamlfile import NOT_EMPTY, Duration, Model, Name, wrong


class Load(Model):
    """Operations and their pacing.

    Closed pacing has `clients`, each of which waits `think_time` between an answer and its next request. Open pacing
    has a `rate`; a request that is due while `max_in_flight` are in flight is dropped and counted. With a `journey`
    clients and arrivals are users, who walk through its steps in order. Requests that fail for no fault of their own
    are tried again `retries` times, if that is asked for.
    """

    operation: Text | None = None
    mix: Annotated[dict[str, Weight], NOT_EMPTY] | None = None
    journey: Journey | None = None
    clients: Clients | None = None
    think_time: ThinkTime | None = None
    rate: Rates | None = None
    arrivals: Literal["constant", "poisson"] | None = None
    max_in_flight: Positive | None = None
    retries: Annotated[int, Field(ge=0, le=100)] | None = None

    @property
    def weights(self) -> dict[str, float]:
        """The operations and their weights; a single one weighs 1, and so does each of a journey."""
        if self.journey is not None:
            return {step.operation: 1.0 for step in self.journey}
        return self.mix if self.mix is not None else {self.operation or "": 1.0}

    def _check_load(self) -> None:
        given = [key for key in ("operation", "mix", "journey") if getattr(self, key) is not None]
        if len(given) != 1:
            told = " and ".join(given) if given else "no operation, mix or journey"
            raise wrong(f"it has {told}", "say one of operation, mix and journey")
        if (self.clients is None) == (self.rate is None):
            both = "both clients (closed) and a rate (open)" if self.clients else "neither clients nor a rate"
            raise wrong(f"it has {both}", "say one of them")
        if self.clients is None and self.think_time is not None:
            raise wrong("only clients think, a rate does not", "remove it or say clients", key="think_time")
        for key in ("arrivals", "max_in_flight"):
            if self.rate is None and getattr(self, key) is not None:
                raise wrong(f"{key} goes with a rate", "remove it or say a rate", key=key)


class Stream(Load):
    """One of the streams of a phase. By default its name, in the records, is its operation's, `mix` or `journey`."""

    name: Name | None = None

    @model_validator(mode="after")
    def _sound(self) -> "Stream":
        self._check_load()
        return self


class Phase(Load):
    """A stretch of load that ends in one way: a time after the warm-up, after some requests, or with the corpus.

    Its load is its own or that of its streams, which run at the same time. A phase that `prepares` fills or readies
    the store: experiments run it once for each state of the cluster and do not measure it. An `optional` one runs only
    when it is named.
    """

    name: Name
    streams: Annotated[tuple[Stream, ...], Strict(False), NOT_EMPTY] | None = None
    warmup: Duration = 0.0
    duration: Annotated[Duration, Field(gt=0)] | None = None
    requests: Positive | None = None
    until: Literal["exhausted"] | None = None
    stop_when: Annotated[tuple[Condition, ...], Strict(False)] = ()
    prepares: bool = False
    optional: bool = False

    @model_validator(mode="after")
    def _sound(self) -> "Phase":
        if self.streams is None:
            self._check_load()
        else:
            for key in Load.model_fields:
                if getattr(self, key) is not None:
                    raise wrong(f"a phase with streams has no {key} of its own", "move it into the streams", key=key)
            names = [stream.name for stream in self.named_streams]
            for name in names:
                if names.count(name) > 1:
                    raise wrong(f"two streams are named {name!r}", "give each a name", key="streams")
        if self.prepares and self.optional:
            raise wrong("what prepares the others is not optional", "remove it", key="optional")
        stops = [key for key in ("duration", "requests", "until") if getattr(self, key) is not None]
        if len(stops) != 1:
            given = " and ".join(stops) or "none"
            raise wrong(f"a phase ends in one way, and this one has {given}", "say duration, requests or until")
        return self

    @property
    def named_streams(self) -> tuple[Stream, ...]:
        """The streams, each with its name; a phase's own load is a single stream."""
        if self.streams is None:
            own = {key: getattr(self, key) for key in Load.model_fields}
            streams: tuple[Stream, ...] = (Stream.model_construct(**own),)
        else:
            streams = self.streams
        return tuple(s.model_copy(update={"name": s.name or s.operation or _kind(s)}) for s in streams)


def _kind(stream: Stream) -> str:
    return "journey" if stream.journey is not None else "mix"
