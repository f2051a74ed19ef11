"""Phases and streams: which operations are issued, when they are due, and when the load is over. Models only."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, Strict, model_validator

from loadframe.workload.forms import Positive, Text
from loadframe.workload.journeys import Journey, SimulatedClock, every_step
from loadframe.workload.pacing import USUAL_ARRIVALS, Arrivals, ClientLevel, Clients, Condition, Rates, ThinkTime
from loadframe.workload.variables import Weight
from loadframe.yamlfile import NOT_EMPTY, Duration, Model, Name, did_you_mean, wrong


def _fixed(value: Any) -> Any:
    if isinstance(value, dict):
        what = "the number of users does not change during a phase"
        raise wrong(
            what, "say a number; arrive_over has them begin one after the other, and further phases can have more"
        )
    return value


Users = Annotated[int, Field(ge=1, le=2**31), BeforeValidator(_fixed)]


class Load(Model):
    """Operations and their pacing.

    Of a `mix` each request draws its operation by the weights. With `order: permuted` each client walks round all of
    them, in an order of its own, each as often as it weighs.

    Closed pacing has `clients`, each of which waits `think_time` between an answer and its next request. Open pacing
    has a `rate`, and `arrivals` that say how requests are spaced; a request that is due while `max_in_flight` are in
    flight is dropped and counted. With a `journey` clients and arrivals are users, who walk through its steps in order.
    With `users` as well, these share the clients (64 if not given), each has a memory, and they may go their own ways;
    the first begins at once, the last after `arrive_over`. They may have a simulated `clock`. Requests that fail for a
    reason that may pass are tried again up to `retries` times.

    With a `source` requests are due when its events come, which `workers` (4 if not given) take in.
    """

    operation: Text | None = None
    mix: Annotated[dict[str, Weight], NOT_EMPTY] | None = None
    order: Literal["permuted"] | None = None
    journey: Journey | None = None
    users: Users | None = None
    arrive_over: Duration | None = None
    clock: SimulatedClock | None = None
    clients: Clients | None = None
    think_time: ThinkTime | None = None
    rate: Rates | None = None
    arrivals: Arrivals | None = None
    max_in_flight: Positive | None = None
    retries: Annotated[int, Field(ge=0, le=100)] | None = None
    source: Text | None = None
    workers: Annotated[int, Field(ge=1, le=4096)] | None = None

    @property
    def is_open(self) -> bool:
        """Whether requests are due at a rate, independently of the answers; otherwise clients send them."""
        return self.rate is not None

    @property
    def spacing(self) -> Arrivals | None:
        """How requests of an open load are spaced, whether the file says so or not; None for a closed one."""
        return (self.arrivals or USUAL_ARRIVALS) if self.is_open else None

    @property
    def weights(self) -> dict[str, float]:
        """The operations and their weights; a single one weighs 1, and so does each of a journey."""
        if self.journey is not None:
            return {step.operation: 1.0 for _, step in every_step(self.journey) if step.operation is not None}
        return self.mix if self.mix is not None else {self.operation or "": 1.0}

    def _check_load(self) -> None:
        given = [key for key in ("operation", "mix", "journey") if getattr(self, key) is not None]
        if len(given) != 1:
            keys = " and ".join(given) if given else "no operation, mix or journey"
            raise wrong(f"it has {keys}", "say one of operation, mix and journey")
        self._check_order()
        self._check_users()
        if self._check_source():
            return
        if self.users is None and (self.clients is None) == (self.rate is None):
            both = "both clients (closed) and a rate (open)" if self.clients else "neither clients nor a rate"
            raise wrong(f"it has {both}", "say one of them")
        if self.clients is None and self.users is None and self.think_time is not None:
            raise wrong("only clients think, a rate does not", "remove it or say clients", key="think_time")
        for key in ("arrivals", "max_in_flight"):
            if not self.is_open and getattr(self, key) is not None:
                raise wrong(f"{key} goes with a rate", "remove it or say a rate", key=key)

    def _check_order(self) -> None:
        """Refuse an order where no client could keep to it."""
        if self.order is None:
            return
        if self.mix is None or self.clients is None:
            raise wrong("only clients can send the operations of a mix in turn", "say mix and clients", key="order")
        for name, weight in self.mix.items():
            if weight != int(weight):
                what = f"{name!r} weighs {weight:g}, where operations alternate"
                raise wrong(what, "give whole numbers, such as 1 each", key="mix")

    def _check_source(self) -> bool:
        """Tell whether events decide when requests are due; refuse what they leave nothing to decide for."""
        if self.source is None:
            if self.workers is not None:
                raise wrong("workers take in what comes from a source", "say source, or clients", key="workers")
            return False
        if self.operation is None:
            key = "mix" if self.mix is not None else "journey"
            raise wrong("events of a source all go into one operation", "say operation", key=key)
        for key in ("clients", "think_time", "users", "rate", "arrivals", "max_in_flight"):
            if getattr(self, key) is not None:
                raise wrong(f"events of a source come when they come, and {key} is not heeded", "remove it", key=key)
        return True

    def _check_users(self) -> None:
        """Refuse what only users have without users, and users with what they cannot have."""
        if self.users is None:
            for key in ("arrive_over", "clock"):
                if getattr(self, key) is not None:
                    raise wrong(f"{key} goes with users", "say how many users", key=key)
            if any(step.operation is None or step.missing is not None for step in self.journey or ()):
                raise wrong("only users go ways of their own", "add users: 100", key="journey")
            return
        if self.journey is None:
            raise wrong("users walk a journey, and there is none", "say journey", key="users")
        if self.rate is not None or isinstance(self.clients, ClientLevel):
            key = "rate" if self.rate is not None else "clients"
            raise wrong("users share a fixed number of clients", "say clients: 64", key=key)
        shared = self.clock is not None and self.clock.shared
        steps = [step for _, step in every_step(self.journey)]
        pauses = any(step.pause is not None for step in steps)
        if not self.weights:
            raise wrong("the journey asks for nothing", "add an operation", key="journey")
        if self.clock is None and pauses:
            raise wrong("it pauses, and has no simulated clock", "add a clock, or let it think", key="journey")
        if not shared and any(step.together for step in steps):
            raise wrong("users wait for each other only by a clock that they share", "say shared: true", key="journey")
        if self.clock is not None and not pauses:
            raise wrong("no user moves the simulated clock", "let the journey pause, or remove the clock", key="clock")
        if shared and self.arrive_over:
            raise wrong("users who share a clock begin together", "remove it", key="arrive_over")


class Ended(Model):
    """The ways in which a load ends: a time after the warm-up, after some requests, with its corpus, or when each user
    has walked so many journeys."""

    duration: Annotated[Duration, Field(gt=0)] | None = None
    requests: Positive | None = None
    journeys: Annotated[int, Field(ge=1, le=2**32 - 1)] | None = None
    until: Literal["exhausted"] | None = None

    @property
    def ways_to_end(self) -> list[str]:
        """The keys that say how it ends."""
        return [key for key in Ended.model_fields if getattr(self, key) is not None]

    @property
    def ends_itself(self) -> bool:
        """Whether it says how it ends."""
        return bool(self.ways_to_end)


def _check_walks(end: Ended, load: Load) -> None:
    """Refuse an end that a load cannot have."""
    if end.journeys is not None and load.users is None:
        raise wrong("only users walk a number of journeys", "say requests or a duration", key="journeys")
    if load.source is not None and end.requests is not None:
        raise wrong(
            "how many requests events make, nobody can say", "say a duration or until: exhausted", key="requests"
        )
    for key in ("requests", "until"):
        if load.users is not None and getattr(end, key) is not None:
            raise wrong("journeys of users have no fixed number of requests", "say journeys or a duration", key=key)


#: What `ends_with` says for the first stream that ends, whichever that is.
ANY = "any"


class Stream(Load, Ended):
    """One of the streams of a phase. By default its name, in the records, is its operation's, `mix` or `journey`.

    It may end in a way of its own; otherwise it ends as the phase does.
    """

    name: Name | None = None

    @model_validator(mode="after")
    def _sound(self) -> "Stream":
        self._check_load()
        if len(self.ways_to_end) > 1:
            raise wrong(f"a stream ends in one way, and this one has {' and '.join(self.ways_to_end)}", "choose one")
        _check_walks(self, self)
        return self


class Phase(Load, Ended):
    """A stretch of load that ends in one way: a time after the warm-up, after some requests, with the corpus, or when
    its streams end.

    Its load is its own or that of its streams, which run at the same time. Streams may have ends of their own; with
    `ends_with`, the end of one stream is that of all. A phase that `prepares` fills or readies
    the store: experiments run it once for each state of the cluster and do not measure it. An `optional` one runs only
    when it is named. With `ready_within` it waits, up to that time, until every copy of the data is in service.
    """

    name: Name
    streams: Annotated[tuple[Stream, ...], Strict(False), NOT_EMPTY] | None = None
    warmup: Duration = 0.0
    ready_within: Annotated[Duration, Field(gt=0)] | None = None
    ends_with: Text | None = None
    stop_when: Annotated[tuple[Condition, ...], Strict(False)] = ()
    prepares: bool = False
    optional: bool = False

    @model_validator(mode="after")
    def _sound(self) -> "Phase":
        if self.streams is None:
            self._check_load()
            _check_walks(self, self)
        else:
            for stream in self.streams:
                if not stream.ends_itself:
                    _check_walks(self, stream)
            for key in Load.model_fields:
                if getattr(self, key) is not None:
                    raise wrong(f"a phase with streams cannot have {key}", "move it into the streams", key=key)
            names = [stream.name for stream in self.named_streams]
            for name in names:
                if names.count(name) > 1:
                    raise wrong(f"two streams are named {name!r}", "give each a name", key="streams")
        if self.prepares and self.optional:
            raise wrong("a phase that prepares others cannot be optional", "remove it", key="optional")
        self._check_end()
        return self

    def _check_end(self) -> None:
        """Refuse a phase that does not end in exactly one way."""
        stops = self.ways_to_end
        if self.ends_with is not None:
            if stops:
                raise wrong("ends_with says when the phase ends", f"move {stops[0]} into a stream", key=stops[0])
            self._check_ends_with(self.ends_with)
        elif self.streams is not None and all(stream.ends_itself for stream in self.streams):
            if stops:
                what = f"each stream says how it ends, so that {stops[0]} is never used"
                raise wrong(what, "remove it", key=stops[0])
        elif len(stops) != 1:
            given = " and ".join(stops) or "none"
            raise wrong(
                f"a phase ends in one way, and this one has {given}", "say duration, requests, journeys or until"
            )

    def _check_ends_with(self, wanted: str) -> None:
        streams = {str(stream.name): stream.ends_itself for stream in self.named_streams} if self.streams else {}
        if wanted != ANY and wanted not in streams:
            raise wrong(f"there is no stream {wanted!r}", did_you_mean(wanted, [*streams, ANY]), key="ends_with")
        ending = any(streams.values()) if wanted == ANY else streams[wanted]
        if not ending:
            what = "no stream says how it ends" if wanted == ANY else f"the stream {wanted!r} does not say how it ends"
            raise wrong(what, "give it a duration, requests or until: exhausted", key="ends_with")

    @property
    def recorded(self) -> tuple[str, ...]:
        """The names under which the requests of its streams are recorded, and what several of them take together."""
        names = [name for stream in self.named_streams for name in stream.weights]
        steps = (step for stream in self.named_streams for _, step in every_step(stream.journey or ()))
        return tuple(dict.fromkeys([*names, *(step.timed.name for step in steps if step.timed is not None)]))

    @property
    def named_streams(self) -> tuple[Stream, ...]:
        """The streams, each with its name; a phase's own load is a single stream."""
        if self.streams is None:
            load = {key: getattr(self, key) for key in Load.model_fields}
            streams: tuple[Stream, ...] = (Stream.model_construct(**load),)
        else:
            streams = self.streams
        return tuple(s.model_copy(update={"name": s.name or s.operation or _kind(s)}) for s in streams)


def _kind(stream: Stream) -> str:
    return "journey" if stream.journey is not None else "mix"
