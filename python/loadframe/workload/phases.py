"""Phases and streams: operations, targets, load model (closed loop, open loop, users, source) and end. Models only."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field, Strict, model_validator

from loadframe.workload.forms import Family, Positive, Text
from loadframe.workload.journeys import Journey, SimulatedClock, every_step
from loadframe.workload.pacing import (
    USUAL_ARRIVALS,
    Arrivals,
    AutoDuration,
    AutoWarmup,
    ClientLevel,
    Clients,
    Condition,
    Length,
    QueueLimit,
    Rates,
    Retry,
    ThinkTime,
    Warmup,
    obstacle,
)
from loadframe.workload.variables import Weight
from loadframe.yamlfile import NOT_EMPTY, Duration, Model, Name, did_you_mean, wrong

#: The target of operations that name none: the store under test.
MAIN = "store"
#: The driver of each family that has another name than its driver.
_DRIVERS = {"elasticsearch": "search", "cassandra": "cql"}
#: Default of `max_in_flight`, which the engine sets.
MAX_IN_FLIGHT = 1024
#: The load model that each order of a mix requires.
ORDERS = {"permuted": "clients", "together": "rate"}


def _address(value: str) -> str:
    """Return a text unchanged; refuse anything but `host:port` with a port from 1 to 65535."""
    host, colon, port = value.rpartition(":")
    if not (host and colon and port.isdigit() and 0 < int(port) < 65536):
        raise wrong(f"{value!r} is not an address", "write host:port, such as 127.0.0.1:8080")
    return value


class Target(Model):
    """A running service: its family, which decides the supported requests, and its addresses."""

    family: Family
    hosts: Annotated[list[Annotated[str, AfterValidator(_address)]], NOT_EMPTY]

    def plan(self) -> dict[str, Any]:
        """Return the target in the format of plans: the driver and the addresses."""
        return {"driver": _DRIVERS.get(self.family, self.family), "hosts": list(self.hosts)}


def combined_target(
    main: Mapping[str, Any], others: Mapping[str, dict[str, Any]], operations: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the target section of a plan: `main`, and the targets among `others` that operations use.

    `others` are plans of targets by name; operations name theirs under `target`. If none does, the result is a copy of
    `main`. Otherwise its driver is `several`, `targets` has the used ones and `main` as `store`, and `hosts` are the
    hosts of all, those of `main` first.
    """
    used = sorted({form["target"] for form in operations.values() if "target" in form})
    if not used:
        return dict(main)
    hosts: Sequence[str] = [host for name in used for host in others[name]["hosts"]]
    targets = {MAIN: dict(main), **{name: others[name] for name in used}}
    return {"driver": "several", "hosts": [*main["hosts"], *hosts], "targets": targets}


def _fixed(value: Any) -> Any:
    """Return a value unchanged; refuse a mapping, because the number of users is constant."""
    if isinstance(value, dict):
        what = "the number of users is constant during a phase"
        raise wrong(what, "write a number; use arrive_over to stagger their starts, or add phases")
    return value


Users = Annotated[int, Field(ge=1, le=2**31), BeforeValidator(_fixed)]


class Load(Model):
    """Operations and their load model.

    Operations: one `operation`, a weighted `mix` or a `journey`. In a mix, each request selects an operation by weight.
    With `order: permuted`, each client instead cycles through all operations in its own order, each as often as its
    weight. With `order: together`, each arrival sends all operations at the same instant, each as often as its weight.

    Closed loop: `clients`, each of which waits `think_time` between a response and its next request. With `pacing`,
    each client or user instead starts its next request or journey this long after the start of the previous one, or at
    once if that took longer.

    Open loop: a `rate`, with `arrivals` evenly spaced or Poisson. A request that is due while `max_in_flight` are in
    flight is dropped and counted.

    Journeys: each client or arrival is a user who follows the steps in order. With `users`, the users share the clients
    (64 by default), remember captured values, and may branch and loop. The first user starts at once, the last after
    `arrive_over`. They may have a simulated `clock`.

    Source: requests are due when its events arrive; `workers` (4 by default) connections ingest them. `route` names an
    operation for each kind of event, instead of one `operation`.

    A request that failed for a passing reason is resent up to `retries` times; `retry` sets pauses and limits.
    """

    REMEDIES: ClassVar = {"operations": "give each operation a weight, such as mix: {read: 95, update: 5}"}

    operation: Text | None = None
    mix: Annotated[dict[str, Weight], NOT_EMPTY] | None = None
    order: Literal["permuted", "together"] | None = None
    journey: Journey | None = None
    users: Users | None = None
    arrive_over: Duration | None = None
    clock: SimulatedClock | None = None
    clients: Clients | None = None
    think_time: ThinkTime | None = None
    pacing: Annotated[Duration, Field(gt=0)] | None = None
    rate: Rates | None = None
    arrivals: Arrivals | None = None
    max_in_flight: Positive | None = None
    retries: Annotated[int, Field(ge=0, le=100)] | None = None
    retry: Retry | None = None
    source: Text | None = None
    route: Annotated[dict[str, Text], NOT_EMPTY] | None = None
    workers: Annotated[int, Field(ge=1, le=4096)] | None = None

    @property
    def is_open(self) -> bool:
        """Whether the load is an open loop: requests are due at a rate, independent of responses."""
        return self.rate is not None

    @property
    def group(self) -> int:
        """The number of requests that each arrival sends at the same instant; 1 without `order: together`."""
        return round(sum(self.weights.values())) if self.order == "together" else 1

    @property
    def per_arrival(self) -> int:
        """The number of requests that each arrival of an open loop sends: its group, or the steps of its journey.

        Open loops have no branching journeys.
        """
        return max(self.group, len(self.journey or ()))

    @property
    def spacing(self) -> Arrivals | None:
        """The spacing of open-loop requests, by default `USUAL_ARRIVALS`, or None in closed loops."""
        return (self.arrivals or USUAL_ARRIVALS) if self.is_open else None

    @property
    def weights(self) -> dict[str, float]:
        """The weights by operation: those of the mix; 1 for a single operation and each one of a journey or route.

        Operations of nested steps are included, those of disabled steps are not.
        """
        if self.journey is not None:
            return {step.operation: 1.0 for _, step in every_step(self.journey) if step.operation is not None}
        if self.route is not None:
            return dict.fromkeys(self.route.values(), 1.0)
        return self.mix if self.mix is not None else {self.operation or "": 1.0}

    def kinds_of(self, operation: str, kinds: Iterable[str]) -> tuple[str, ...]:
        """Return those of a source's `kinds` of events that the operation ingests; all without a route."""
        return tuple(kind for kind in kinds if self.route is None or self.route.get(kind) == operation)

    def _check_load(self) -> None:
        """Refuse other than one of `operation`, `mix`, `journey` and `route`, and keys that exclude each other.

        Also refuses a load without clients, rate, users or source.
        """
        given = [key for key in ("operation", "mix", "journey", "route") if getattr(self, key) is not None]
        if len(given) != 1:
            what = f"{' and '.join(given)} exclude each other" if given else "operation, mix or journey is missing"
            remedy = "with a source, use operation or route" if self.source else "use one of operation, mix and journey"
            raise wrong(what, remedy)
        self._check_order()
        self._check_users()
        if self.retry is not None and self.retries is not None:
            raise wrong("retries and retry exclude each other", "write the number as attempts in retry", key="retries")
        if self._check_source():
            return
        if self.users is None and (self.clients is None) == (self.rate is None):
            what = (
                "clients (closed loop) and rate (open loop) exclude each other"
                if self.clients
                else "clients or rate is missing"
            )
            raise wrong(what, "use clients for a closed loop, or rate for an open loop")
        if self.clients is None and self.users is None and self.think_time is not None:
            raise wrong("think_time requires clients or users", "remove think_time, or add clients", key="think_time")
        self._check_pacing()
        for key in ("arrivals", "max_in_flight"):
            if not self.is_open and getattr(self, key) is not None:
                raise wrong(f"{key} requires rate", f"remove {key}, or add a rate", key=key)

    def _check_pacing(self) -> None:
        """Refuse `pacing` without clients or users, beside a think time, or with a simulated clock."""
        if self.pacing is None:
            return
        if self.clients is None and self.users is None:
            raise wrong("pacing requires clients or users", "remove pacing, or add clients", key="pacing")
        for key in ("think_time", "clock"):
            if getattr(self, key) is not None:
                raise wrong(
                    f"pacing and {key} exclude each other", "keep one; steps may have think times", key="pacing"
                )

    def _check_order(self) -> None:
        """Refuse `order` without a mix and its load model, fractional weights, or a group above `max_in_flight`."""
        if self.order is None:
            return
        needs = ORDERS[self.order]
        if self.mix is None or getattr(self, needs) is None:
            what = f"order: {self.order} requires mix and {needs}"
            raise wrong(what, f"add mix and {needs}, or remove order", key="order")
        for name, weight in self.mix.items():
            if weight != int(weight):
                what = f"with order: {self.order}, weights must be whole numbers; {name!r} has {weight:g}"
                raise wrong(what, "write whole numbers, such as 1 each", key="mix")
        limit = MAX_IN_FLIGHT if self.max_in_flight is None else self.max_in_flight
        if limit < self.group:
            what = f"max_in_flight must be at least the {self.group} requests of a group; got {limit}"
            given = self.max_in_flight is not None
            raise wrong(what, "raise max_in_flight", key="max_in_flight" if given else "mix")

    def _check_source(self) -> bool:
        """Return whether a source drives the load; refuse keys that it excludes.

        Refuses `workers` and `route` without a source, and a source with a mix or a journey.
        """
        if self.source is None:
            if self.workers is not None:
                raise wrong("workers requires source", "add a source, or use clients instead", key="workers")
            if self.route is not None:
                raise wrong("route requires source", "add a source, or use mix instead", key="route")
            return False
        if self.operation is None and self.route is None:
            key = "mix" if self.mix is not None else "journey"
            raise wrong(f"a source requires operation or route, not {key}", "use one operation", key=key)
        for key in ("clients", "think_time", "pacing", "users", "rate", "arrivals", "max_in_flight", "retry"):
            if getattr(self, key) is not None:
                raise wrong(f"{key} has no effect with a source, whose events set the pace", f"remove {key}", key=key)
        return True

    def _check_users(self) -> None:
        """Refuse `clock`, `arrive_over` or a branching journey without `users`, and keys that do not fit `users`.

        Users need a journey with requests, and a constant number of clients instead of a rate. A clock and pauses
        require each other; `together` requires a shared clock, which excludes `arrive_over`.
        """
        if self.users is None:
            for key in ("arrive_over", "clock"):
                if getattr(self, key) is not None:
                    raise wrong(f"{key} requires users", "add users: 100", key=key)
            if any(step.operation is None or step.missing is not None for step in self.journey or ()):
                raise wrong("a journey with branches, loops or missing requires users", "add users: 100", key="journey")
            return
        if self.journey is None:
            raise wrong("users requires journey", "add a journey", key="users")
        if self.rate is not None or isinstance(self.clients, ClientLevel):
            key = "rate" if self.rate is not None else "clients"
            raise wrong("users share a constant number of clients", "write clients: 64", key=key)
        shared = self.clock is not None and self.clock.shared
        steps = [step for _, step in every_step(self.journey)]
        pauses = any(step.pause is not None for step in steps)
        if not self.weights:
            raise wrong("the journey sends no requests", "add an operation", key="journey")
        if self.clock is None and pauses:
            raise wrong("pause requires a simulated clock", "add a clock, or use think", key="journey")
        if not shared and any(step.together for step in steps):
            raise wrong("together requires a shared clock", "add shared: true to the clock", key="journey")
        if self.clock is not None and not pauses:
            raise wrong("a clock requires a pause in the journey", "add a pause, or remove the clock", key="clock")
        if shared and self.arrive_over:
            raise wrong("users with a shared clock start together", "remove arrive_over", key="arrive_over")


class Ended(Model):
    """End conditions of a load.

    `duration` counts from the end of the warm-up. `journeys` is the number that each user completes. `until: exhausted`
    ends with the corpus or source.
    """

    duration: Annotated[Duration, Field(gt=0)] | None = None
    requests: Positive | None = None
    journeys: Annotated[int, Field(ge=1, le=2**32 - 1)] | None = None
    until: Literal["exhausted"] | None = None

    @property
    def ways_to_end(self) -> list[str]:
        """The keys of the end conditions that are set: of duration, requests, journeys and until, in this order."""
        return [key for key in Ended.model_fields if getattr(self, key) is not None]

    @property
    def ends_itself(self) -> bool:
        """Whether an end condition is set."""
        return bool(self.ways_to_end)


def _check_end_fits(end: Ended, load: Load) -> None:
    """Refuse an end condition that does not apply to the load.

    `journeys` requires users; `requests` and `until` exclude them; `requests` excludes a source. With `order:
    together`, `requests` must be a multiple of the group.
    """
    if end.journeys is not None and load.users is None:
        raise wrong("journeys requires users", "use requests or duration", key="journeys")
    if end.requests is not None and end.requests % load.group:
        what = f"requests must be a multiple of the {load.group} requests of a group; got {end.requests}"
        raise wrong(what, "write a multiple", key="requests")
    if load.source is not None and end.requests is not None:
        what = "a source does not make a fixed number of requests"
        raise wrong(what, "use duration or until: exhausted", key="requests")
    for key in ("requests", "until"):
        if load.users is not None and getattr(end, key) is not None:
            raise wrong(f"{key} does not apply to users", "use journeys or duration", key=key)


#: The value of `ends_with` for the first stream that ends.
ANY = "any"


class Stream(Load, Ended):
    """One of the concurrent loads of a phase.

    The default `name` is that of its operation, or with `route` that of the source, or `mix` or `journey`. Without an
    end condition it ends with the phase.
    """

    name: Name | None = None

    @model_validator(mode="after")
    def _check(self) -> "Stream":
        """Refuse contradictory keys of a stream, and more than one end condition."""
        self._check_load()
        if len(self.ways_to_end) > 1:
            raise wrong(f"{' and '.join(self.ways_to_end)} exclude each other", "keep one end condition")
        _check_end_fits(self, self)
        return self


class Phase(Load, Ended):
    """A period of load with exactly one end condition.

    It has its own load or concurrent `streams`. It ends by its condition, with the last stream if all streams have
    conditions, or with the stream that `ends_with` names (`any`: the first to end).

    A phase that `prepares` loads or sets up the store: experiments run it once per cluster state and do not measure it.
    With `wait_for_queue`, open-loop streams pause after the warm-up until no request is in flight, at most for that
    time.

    An `optional` phase runs only if selected by name. With `ready_within`, the phase first waits until all replicas are
    in service, at most for that time.
    """

    name: Name
    streams: Annotated[tuple[Stream, ...], Strict(False), NOT_EMPTY] | None = None
    warmup: Warmup = 0.0
    duration: Length | None = None  # type: ignore[assignment]
    wait_for_queue: QueueLimit | None = None
    ready_within: Annotated[Duration, Field(gt=0)] | None = None
    ends_with: Text | None = None
    stop_when: Annotated[tuple[Condition, ...], Strict(False)] = ()
    prepares: bool = False
    optional: bool = False

    @model_validator(mode="after")
    def _check(self) -> "Phase":
        """Refuse contradictory keys of a phase or its streams, duplicate stream names, and a missing end condition."""
        if self.streams is None:
            self._check_load()
            _check_end_fits(self, self)
        else:
            for stream in self.streams:
                if not stream.ends_itself:
                    _check_end_fits(self, stream)
            for key in Load.model_fields:
                if getattr(self, key) is not None:
                    raise wrong(f"streams and {key} exclude each other", f"move {key} into the streams", key=key)
            names = [stream.name for stream in self.named_streams]
            for name in names:
                if names.count(name) > 1:
                    raise wrong(f"duplicate stream name {name!r}", "give each stream a name", key="streams")
        if self.prepares and self.optional:
            raise wrong("prepares and optional exclude each other", "remove one of them", key="optional")
        self._check_end()
        self._check_missed_share()
        self._check_window()
        return self

    def _check_window(self) -> None:
        """Refuse automatic lengths and `wait_for_queue` for loads that do not support them."""
        chosen = {
            "warmup": isinstance(self.warmup, AutoWarmup),
            "duration": isinstance(self.duration, AutoDuration),
            "wait_for_queue": self.wait_for_queue is not None,
        }
        for key in filter(chosen.get, chosen):
            name = key if key == "wait_for_queue" else f"{key}: auto"
            why = obstacle(name, self.streams or self.named_streams, ends_by_duration=self.duration is not None)
            if why:
                raise wrong(*why, key=key)
        if chosen["warmup"] and chosen["wait_for_queue"]:
            what = "warmup: auto and wait_for_queue exclude each other"
            raise wrong(what, "remove wait_for_queue: an automatic warm-up ends when the queue is steady", key="warmup")

    def _check_missed_share(self) -> None:
        """Refuse the metric `missed_share` in `stop_when` without an open loop."""
        needs_rate = any(condition.metric == "missed_share" for condition in self.stop_when)
        if needs_rate and not any(stream.is_open for stream in self.named_streams):
            raise wrong("missed_share requires a rate", "use another metric, or add a rate", key="stop_when")

    def _check_end(self) -> None:
        """Refuse a phase without an end condition, with several, or with an ineffective one."""
        stops = self.ways_to_end
        if self.ends_with is not None:
            if stops:
                raise wrong(
                    f"ends_with and {stops[0]} exclude each other", f"move {stops[0]} into a stream", key=stops[0]
                )
            self._check_ends_with(self.ends_with)
        elif self.streams is not None and all(stream.ends_itself for stream in self.streams):
            if stops:
                what = f"{stops[0]} of the phase has no effect: each stream has its own end condition"
                raise wrong(what, f"remove {stops[0]}", key=stops[0])
        elif len(stops) != 1:
            what = f"a phase needs exactly one end condition; got {' and '.join(stops) or 'none'}"
            raise wrong(what, "use one of duration, requests, journeys and until")

    def _check_ends_with(self, name: str) -> None:
        """Refuse `ends_with` for an unknown stream, or for streams without an end condition."""
        streams = {str(stream.name): stream.ends_itself for stream in self.named_streams} if self.streams else {}
        if name != ANY and name not in streams:
            raise wrong(f"unknown stream {name!r}", did_you_mean(name, [*streams, ANY]), key="ends_with")
        ending = any(streams.values()) if name == ANY else streams[name]
        if not ending:
            what = "all streams lack an end condition" if name == ANY else f"the stream {name!r} lacks an end condition"
            raise wrong(what, "add a duration, requests or until: exhausted to it", key="ends_with")

    @property
    def recorded(self) -> tuple[str, ...]:
        """The distinct names under which requests are recorded: operations, then `timed` groups, in file order."""
        names = [name for stream in self.named_streams for name in stream.weights]
        steps = (step for stream in self.named_streams for _, step in every_step(stream.journey or ()))
        return tuple(dict.fromkeys([*names, *(step.timed.name for step in steps if step.timed is not None)]))

    @property
    def named_streams(self) -> tuple[Stream, ...]:
        """The streams with their names filled in; a phase's own load becomes a single stream."""
        if self.streams is None:
            load = {key: getattr(self, key) for key in Load.model_fields}
            streams: tuple[Stream, ...] = (Stream.model_construct(**load),)
        else:
            streams = self.streams
        return tuple(s.model_copy(update={"name": s.name or s.operation or _kind(s)}) for s in streams)


def _kind(stream: Stream) -> str:
    """Return the default name of a stream without a single operation: `journey`, the name of its source, or `mix`."""
    return "journey" if stream.journey is not None else stream.source or "mix"
