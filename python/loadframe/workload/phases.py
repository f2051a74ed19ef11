"""Phases and streams: which operations are issued, when they are due, and when the load is over. Models only."""

from typing import Annotated, Literal

from pydantic import Field, Strict, model_validator

from loadframe.workload.forms import Positive, Text
from loadframe.workload.pacing import USUAL_ARRIVALS, Arrivals, Clients, Condition, Journey, Rates, ThinkTime
from loadframe.workload.variables import Weight
from loadframe.yamlfile import NOT_EMPTY, Duration, Model, Name, did_you_mean, wrong


class Load(Model):
    """Operations and their pacing.

    Closed pacing has `clients`, each of which waits `think_time` between an answer and its next request. Open pacing
    has a `rate`, and `arrivals` that say how requests are spaced; a request that is due while `max_in_flight` are in
    flight is dropped and counted. With a `journey` clients and arrivals are users, who walk through its steps in order.
    Requests that fail for a reason that may pass are tried again up to `retries` times.
    """

    operation: Text | None = None
    mix: Annotated[dict[str, Weight], NOT_EMPTY] | None = None
    journey: Journey | None = None
    clients: Clients | None = None
    think_time: ThinkTime | None = None
    rate: Rates | None = None
    arrivals: Arrivals | None = None
    max_in_flight: Positive | None = None
    retries: Annotated[int, Field(ge=0, le=100)] | None = None

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
            return {step.operation: 1.0 for step in self.journey}
        return self.mix if self.mix is not None else {self.operation or "": 1.0}

    def _check_load(self) -> None:
        given = [key for key in ("operation", "mix", "journey") if getattr(self, key) is not None]
        if len(given) != 1:
            keys = " and ".join(given) if given else "no operation, mix or journey"
            raise wrong(f"it has {keys}", "say one of operation, mix and journey")
        if (self.clients is None) == (self.rate is None):
            both = "both clients (closed) and a rate (open)" if self.clients else "neither clients nor a rate"
            raise wrong(f"it has {both}", "say one of them")
        if self.clients is None and self.think_time is not None:
            raise wrong("only clients think, a rate does not", "remove it or say clients", key="think_time")
        for key in ("arrivals", "max_in_flight"):
            if not self.is_open and getattr(self, key) is not None:
                raise wrong(f"{key} goes with a rate", "remove it or say a rate", key=key)


class Ended(Model):
    """The ways in which a load ends: a time after the warm-up, after some requests, or with its corpus."""

    duration: Annotated[Duration, Field(gt=0)] | None = None
    requests: Positive | None = None
    until: Literal["exhausted"] | None = None

    @property
    def ways_to_end(self) -> list[str]:
        """The keys that say how it ends."""
        return [key for key in Ended.model_fields if getattr(self, key) is not None]

    @property
    def ends_itself(self) -> bool:
        """Whether it says how it ends."""
        return bool(self.ways_to_end)


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
        return self


class Phase(Load, Ended):
    """A stretch of load that ends in one way: a time after the warm-up, after some requests, with the corpus, or when
    its streams end.

    Its load is its own or that of its streams, which run at the same time. Streams may have ends of their own; with
    `ends_with`, the end of one stream is that of all. A phase that `prepares` fills or readies
    the store: experiments run it once for each state of the cluster and do not measure it. An `optional` one runs only
    when it is named.
    """

    name: Name
    streams: Annotated[tuple[Stream, ...], Strict(False), NOT_EMPTY] | None = None
    warmup: Duration = 0.0
    ends_with: Text | None = None
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
            raise wrong(f"a phase ends in one way, and this one has {given}", "say duration, requests or until")

    def _check_ends_with(self, wanted: str) -> None:
        streams = {str(stream.name): stream.ends_itself for stream in self.named_streams} if self.streams else {}
        if wanted != ANY and wanted not in streams:
            raise wrong(f"there is no stream {wanted!r}", did_you_mean(wanted, [*streams, ANY]), key="ends_with")
        ending = any(streams.values()) if wanted == ANY else streams[wanted]
        if not ending:
            what = "no stream says how it ends" if wanted == ANY else f"the stream {wanted!r} does not say how it ends"
            raise wrong(what, "give it a duration, requests or until: exhausted", key="ends_with")

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
