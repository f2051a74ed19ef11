"""A workload resolved for one store family and cluster size, and its engine plans.

Only per-run values are still open: seed, hosts, rank, and factor levels of an experiment.
`crates/engine/src/plan` defines the format of plans.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from loadframe.base.errors import BadInput
from loadframe.workload import corpora, journeys, sources
from loadframe.workload.forms.repeat import Visible
from loadframe.workload.holes import names
from loadframe.workload.pacing import (
    Arrivals,
    AutoDuration,
    AutoWarmup,
    ClientLevel,
    Condition,
    RateLevel,
    longest,
    obstacle,
    plan_level,
)
from loadframe.workload.phases import ANY, ORDERS, Ended, Phase, Stream, combined_target
from loadframe.workload.variables import Variable, closure

#: Default number of clients that users share.
CLIENTS_OF_USERS = 64
#: Default number of connections that ingest a source.
WORKERS = 4

#: The end condition of a load in a plan.
Stop = dict[str, Any] | str


@dataclass(frozen=True)
class ResolvedPhase:
    """One phase with everything that its operations need. Mappings are by name, in the format of plans."""

    name: str
    prepares: bool
    #: Seconds before the measurement, recorded separately; the upper limit if it is automatic.
    warmup: float
    #: The end condition of streams that lack one: `{"duration": s}`, `{"requests": n}`, `{"journeys": n}`,
    #: `"exhausted"`, or `"ended"` (with the phase).
    stop: Stop
    streams: tuple[Stream, ...]
    #: Conditions that end the phase early.
    stop_when: tuple[Condition, ...]
    #: The phase ends with the first of these streams; if empty, with the last stream.
    ends_with: tuple[str, ...]
    #: Only the operations, corpora and variables that this phase uses.
    operations: Mapping[str, dict[str, Any]] = field(repr=False)
    corpora: Mapping[str, dict[str, Any]] = field(repr=False)
    variables: Mapping[str, dict[str, Any]] = field(repr=False)
    #: All targets of the workload.
    targets: Mapping[str, dict[str, Any]] = field(default_factory=dict, repr=False)
    #: Maximum wait until all replicas are in service, in seconds; None: no wait.
    ready_within: float | None = None
    #: Sources that its streams ingest.
    sources: Mapping[str, dict[str, Any]] = field(default_factory=dict, repr=False)
    #: Limits of an automatic warm-up and length; None if they are fixed.
    auto_warmup: AutoWarmup | None = None
    auto_duration: AutoDuration | None = None
    #: Maximum wait after the warm-up until no request is in flight, in seconds; None: no wait.
    wait_for_queue: float | None = None
    #: Whether it only checks or completes the phases before it, so that reports exclude its figures.
    finishes: bool = False

    @property
    def adjustable(self) -> bool:
        """Whether the end of the warm-up or of the window is chosen during the load."""
        return bool(self.auto_warmup or self.auto_duration or self.wait_for_queue)

    @property
    def longest_warmup(self) -> float:
        """The longest time before the measured window, s: the warm-up plus the wait for an empty queue."""
        return self.warmup + (self.wait_for_queue or 0.0)

    @property
    def duration(self) -> float | None:
        """The measured seconds, at most if automatic; None if the phase has another end condition."""
        return self.stop["duration"] if isinstance(self.stop, dict) and "duration" in self.stop else None

    @property
    def exhausts(self) -> bool:
        """Whether a stream ends when its corpus or source is exhausted."""
        return any((_stop(stream) or self.stop) == "exhausted" for stream in self.streams)

    def override(
        self,
        *,
        clients: int | None = None,
        rate: float | None = None,
        users: int | None = None,
        arrivals: Arrivals | None = None,
        warmup: float | AutoWarmup | None = None,
        duration: float | AutoDuration | None = None,
        ready_within: float | None = None,
    ) -> "ResolvedPhase":
        """Return a copy of the phase with other levels. None leaves a level unchanged.

        `clients` makes the stream a closed loop, `rate` (1/s) an open loop. In a phase with one stream, they apply to
        it; among several, to the only one of that kind. `users` applies to the only stream with users. BadInput if that
        is not exactly one stream, and for a stream with a source. `arrivals` applies to all open-loop streams.
        `duration` replaces all other end conditions, also of streams. Times are in seconds. BadInput also for `clients`
        with `rate`, for either in a phase with users, and for automatic lengths that the load does not support.
        """
        phase = replace(
            self,
            streams=with_arrivals(with_levels(self.streams, clients, rate, self.name, users), arrivals),
            warmup=self.warmup if warmup is None else longest(warmup),
            auto_warmup=self.auto_warmup if warmup is None else _automatic(warmup),
            ready_within=self.ready_within if ready_within is None else ready_within,
        )
        if duration is not None:
            endless = tuple(s.model_copy(update=dict.fromkeys(Ended.model_fields)) for s in phase.streams)
            stop = {"duration": longest(duration)}
            phase = replace(phase, streams=endless, stop=stop, ends_with=(), auto_duration=_automatic(duration))
        phase._check_window()
        return phase

    def _check_window(self) -> None:
        """Raise BadInput for automatic lengths or `wait_for_queue` that the load does not support."""
        chosen = {
            "warmup: auto": self.auto_warmup,
            "duration: auto": self.auto_duration,
            "wait_for_queue": self.wait_for_queue,
        }
        for key in filter(chosen.get, chosen):
            why = obstacle(key, self.streams, ends_by_duration=self.duration is not None)
            if why:
                raise BadInput(why[0], remedy=why[1], where=f"phase {self.name}")
        if self.auto_warmup and self.wait_for_queue:
            what = "warmup: auto and wait_for_queue exclude each other"
            raise BadInput(what, remedy="use a fixed warm-up", where=f"phase {self.name}")

    def plan(
        self,
        *,
        seed: int,
        hosts: Sequence[str],
        driver: str,
        rank: int = 0,
        ranks: int = 1,
        threads: int = 1,
        began: float | None = None,
        target: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Return the engine's plan of this phase for one generator process, ready for JSON.

        `rank`, from 0, is the number of this process among `ranks`; `threads` are its worker threads. `hosts` are
        `host:port`. `began` is the start time of the run on the monotonic clock, in seconds, unless the run starts with
        this phase. `target` holds further driver options, which may include secrets.
        """
        return {
            "seed": seed,
            "rank": rank,
            "ranks": ranks,
            "threads": threads,
            "phase": self.name,
            **({} if began is None else {"began": began}),
            "warmup": self.longest_warmup,
            **({"adjustable": True} if self.adjustable else {}),
            **({"pause_after": self.warmup} if self.wait_for_queue else {}),
            "target": combined_target(
                {"driver": driver, "hosts": list(hosts), **(target or {})}, self.targets, self.operations
            ),
            "corpora": dict(self.corpora),
            "variables": dict(self.variables),
            "operations": {name: _driver_form(form) for name, form in self.operations.items()},
            **({"visible": self.visibility_probes} if self.visibility_probes else {}),
            **({"answers": sorted(self.charts)} if self.charts else {}),
            # One generator does not know which requests the others have sent first.
            **({"first": first} if (first := self._operations_with("first")) and ranks == 1 else {}),
            **({"shows": shown} if (shown := self.shown) else {}),
            **({"sources": dict(self.sources)} if self.sources else {}),
            "streams": self._streams(),
            **({"ends_with": list(self.ends_with)} if self.ends_with else {}),
            "stop_when": [condition.model_dump() for condition in self.stop_when],
        }

    def describe(self) -> dict[str, Any]:
        """Return the load of this phase for the manifest, ready for JSON, in the format of plans; times in seconds."""
        return {
            "name": self.name,
            "prepares": self.prepares,
            "warmup": self.longest_warmup,
            **self._window(),
            **({} if self.ready_within is None else {"ready_within": self.ready_within}),
            "variables": dict(self.variables),
            "operations": dict(self.operations),
            "streams": self._streams(),
            **({"ends_with": list(self.ends_with)} if self.ends_with else {}),
            "stop_when": [condition.model_dump() for condition in self.stop_when],
        }

    def _window(self) -> dict[str, Any]:
        """Return `auto_warmup`, `auto_duration` and `wait_for_queue` for the manifest, if they are set, in s."""
        chosen = {"auto_warmup": self.auto_warmup, "auto_duration": self.auto_duration}
        automatic = {key: limits.model_dump() for key, limits in chosen.items() if limits is not None}
        return automatic | ({"wait_for_queue": self.wait_for_queue} if self.wait_for_queue else {})

    @property
    def charts(self) -> dict[str, dict[str, Any]]:
        """The charts of answers, by operation."""
        return {name: form["chart"] for name, form in self.operations.items() if "chart" in form}

    @property
    def shown(self) -> dict[str, str]:
        """The ingesting operation by the operation whose `shows` names it; only ingesting ones with enabled probes."""
        shown = {name: str(self.operations[name]["shows"]) for name in self._operations_with("shows")}
        return {name: ingesting for name, ingesting in shown.items() if ingesting in self.visibility_probes}

    def _operations_with(self, key: str) -> list[str]:
        """Return the sorted names of the operations in which a key is set to a true value."""
        return sorted(name for name, form in self.operations.items() if form.get(key))

    @property
    def visibility_probes(self) -> dict[str, dict[str, float]]:
        """Enabled visibility probes by operation: `every`, `within` and, for events, `sample`, all in seconds.

        One event per `sample` is probed.
        """
        forms = {name: form["visible"] for name, form in self.operations.items() if "visible" in form}
        probes = {name: Visible.model_validate(form).plan() for name, form in forms.items()}
        return {name: probe for name, probe in probes.items() if probe is not None}

    def _streams(self) -> list[dict[str, Any]]:
        """Return the streams for the plan: requests, load model, end condition and retries; times in seconds."""
        return [
            {
                "name": stream.name,
                **_requests(stream),
                "pacing": load_model(stream),
                "stop": _stop(stream) or self.stop,
                **_retries(stream),
            }
            for stream in self.streams
        ]


def _retries(stream: Stream) -> dict[str, Any]:
    """Return the number of retries after the first attempt, and their pauses if set, in the format of plans."""
    if stream.retry is None:
        return {"retries": stream.retries or 0}
    return {"retries": stream.retry.attempts - 1, "back_off": stream.retry.plan()}


@dataclass(frozen=True)
class ResolvedWorkload:
    """A workload for one store family and cluster size."""

    name: str
    family: str
    nodes: int
    #: Values of all parameters, by name.
    parameters: Mapping[str, Any]
    #: Definitions of the family, by collection; empty for the store's defaults.
    collections: Mapping[str, dict[str, Any]] = field(repr=False)
    corpora: Mapping[str, dict[str, Any]] = field(repr=False)
    phases: Sequence[ResolvedPhase]
    #: Path and SHA-256 of the workload file.
    file: Mapping[str, str]
    #: Sources that its phases use, in the format of plans.
    sources: Mapping[str, dict[str, Any]] = field(default_factory=dict, repr=False)
    #: Prefix that was added to the names of the collections.
    prefix: str = ""

    def phase(self, name: str) -> ResolvedPhase:
        """Return a phase by name; KeyError if there is none."""
        for phase in self.phases:
            if phase.name == name:
                return phase
        raise KeyError(name)

    def preparing(self, names: Sequence[str]) -> list[ResolvedPhase]:
        """Return the named phases in the order of the names; skips names of phases that this workload does not have."""
        return [phase for name in names for phase in self.phases if phase.name == name]

    def describe(self) -> dict[str, Any]:
        """Return the manifest entry to reproduce the load, ready for JSON. Reads all files to hash them.

        LoadframeError if a file cannot be read.
        """
        forms = [form for phase in self.phases for form in phase.variables.values()]
        lines = sorted({form["lines"]["file"] for form in forms if "lines" in form})
        return {
            "name": self.name,
            "file": dict(self.file),
            "family": self.family,
            "nodes": self.nodes,
            "parameters": dict(self.parameters),
            "corpora": {name: corpora.describe(source) for name, source in self.corpora.items()},
            "lines": corpora.describe_files(lines),
            **(
                {"sources": {name: sources.describe(source) for name, source in self.sources.items()}}
                if self.sources
                else {}
            ),
        }


def resolve_phase(
    phase: Phase,
    operations: Mapping[str, dict[str, Any]],
    corpora: Mapping[str, dict[str, Any]],
    variables: Mapping[str, dict[str, Any]],
    models: Mapping[str, Variable],
    targets: Mapping[str, dict[str, Any]],
    sources: Mapping[str, dict[str, Any]],
) -> ResolvedPhase:
    """Return a phase with the operations, corpora, variables and sources that it uses, in the format of plans.

    All mappings are by name and in the format of plans, except `models`: the variables as written, to follow
    references. Captured values become variables. Names must exist; all `targets` are kept.
    """
    streams = phase.named_streams
    used = {name: operations[name] for stream in streams for name in stream.weights}
    bulks = [form["bulk"] for form in used.values() if "bulk" in form]
    counted = {name for stream in streams for name in journeys.counts(stream.journey or ())}
    drawn = closure(set(names(used)) | counted, models)
    captured = {name for form in used.values() for at in (form, form.get("http", {})) for name in at.get("capture", ())}
    sampled = [source.corpus for name in drawn if (source := models[name].field or models[name].document) is not None]
    ends_with: tuple[str, ...] = ()
    if phase.ends_with is not None:
        names_of_streams = tuple(str(stream.name) for stream in streams)
        ends_with = names_of_streams if phase.ends_with == ANY else (phase.ends_with,)
    return ResolvedPhase(
        name=phase.name,
        prepares=phase.prepares,
        warmup=longest(phase.warmup),
        auto_warmup=_automatic(phase.warmup),
        auto_duration=_automatic(phase.duration),
        wait_for_queue=phase.wait_for_queue,
        stop=_stop(phase) or "ended",
        streams=streams,
        stop_when=phase.stop_when,
        ends_with=ends_with,
        operations=used,
        corpora={name: corpora[name] for name in (*(bulk["corpus"] for bulk in bulks), *sampled)},
        variables={name: form for name, form in variables.items() if name in drawn}
        | {name: {"captured": {}} for name in sorted(captured)},
        targets=targets,
        ready_within=phase.ready_within,
        sources={stream.source: sources[stream.source] for stream in streams if stream.source is not None},
    )


#: Keys of an operation that drivers do not read.
_NOT_FOR_DRIVERS = ("new_documents", "visible", "chart", "first", "shows")


def _driver_form(form: Mapping[str, Any]) -> dict[str, Any]:
    """Return an operation without the keys that drivers do not read."""
    return {key: value for key, value in form.items() if key not in _NOT_FOR_DRIVERS}


def _automatic(length: Any) -> Any:
    """Return the limits of an automatic length, or None for other lengths."""
    return length if isinstance(length, AutoWarmup | AutoDuration) else None


def _stop(load: Ended) -> Stop | None:
    """Return the end condition of a phase or stream for the plan, or None without one.

    An automatic duration counts as its upper limit, in seconds.
    """
    if load.duration is not None:
        return {"duration": longest(load.duration)}
    if load.requests is not None:
        return {"requests": load.requests}
    if load.journeys is not None:
        return {"journeys": load.journeys}
    return load.until


def _requests(stream: Stream) -> dict[str, Any]:
    """Return the operations of a stream for the plan, as keys of a mapping.

    They are `mix` (pairs of name and weight) and `order`, also for a single operation; `journey`; or, with users,
    `steps` and `clock`.
    """
    if stream.journey is None:
        order = {} if stream.order is None else {"order": stream.order}
        return {"mix": [[name, weight] for name, weight in stream.weights.items()], **order}
    if stream.users is not None:
        clock = {} if stream.clock is None else {"clock": stream.clock.dump()}
        return {"steps": journeys.dump(stream.journey), **clock}
    steps = [{"operation": step.operation, "think_time": plan_level(step.think_time or 0.0)} for step in stream.journey]
    return {"journey": steps}


def load_model(stream: Stream) -> dict[str, Any]:
    """Return the load model of a stream for the plan: one of the keys `source`, `users`, `closed` and `open`.

    Times are in seconds, rates in 1/s. Defaults are filled in, except `max_in_flight`.
    """
    if stream.source is not None:
        routes = {} if stream.route is None else {"routes": stream.route}
        return {"source": {"source": stream.source, "workers": stream.workers or WORKERS, **routes}}
    if stream.users is not None:
        shared = {"users": stream.users, "clients": stream.clients or CLIENTS_OF_USERS}
        times = {"think_time": plan_level(stream.think_time or 0.0), "over": stream.arrive_over or 0.0}
        return {"users": {**shared, **times, **_pacing(stream)}}
    if stream.clients is not None:
        think_time = plan_level(stream.think_time or 0.0)
        return {"closed": {"clients": plan_level(stream.clients), "think_time": think_time, **_pacing(stream)}}
    limit = {} if stream.max_in_flight is None else {"max_in_flight": stream.max_in_flight}
    return {"open": {"rate": plan_level(stream.rate or 0.0), "arrivals": stream.spacing, **limit}}


def _pacing(stream: Stream) -> dict[str, float]:
    """Return the time from start to start of a client's requests, in seconds, under `pacing`; empty without one."""
    return {} if stream.pacing is None else {"pacing": stream.pacing}


def with_arrivals(streams: tuple[Stream, ...], arrivals: Arrivals | None) -> tuple[Stream, ...]:
    """Return streams with the spacing of open-loop requests replaced. None leaves it unchanged."""
    if arrivals is None:
        return streams
    return tuple(s.model_copy(update={"arrivals": arrivals}) if s.is_open else s for s in streams)


def with_levels(
    streams: tuple[Stream, ...],
    clients: int | ClientLevel | None,
    rate: float | RateLevel | None,
    phase: str,
    users: int | None = None,
) -> tuple[Stream, ...]:
    """Return streams with other clients, users or rate (1/s) where given; see `ResolvedPhase.override`.

    BadInput as there, and if the stream's `order` requires the other level. `phase` is the phase's name, for errors.
    """
    if users is not None:
        with_users = [stream for stream in streams if stream.users is not None]
        if len(with_users) != 1:
            what = f"cannot set users: {len(with_users)} streams of the phase {phase!r} have users, not 1"
            raise BadInput(what, remedy="choose a phase with one such stream")
        changed = with_users[0].model_copy(update={"users": users})
        streams = tuple(changed if stream is with_users[0] else stream for stream in streams)
    if clients is None and rate is None:
        return streams
    if clients is not None and rate is not None:
        what = f"cannot set both clients (closed loop) and rate (open loop) of the phase {phase!r}"
        raise BadInput(what, remedy="choose one of them")
    if any(stream.users is not None for stream in streams):
        what = f"cannot set clients or rate of the phase {phase!r}: users generate its load"
        raise BadInput(what, remedy="set users instead")
    key, other = ("clients", "rate") if clients is not None else ("rate", "clients")
    fitting = [
        stream
        for stream in streams
        if stream.source is None and (len(streams) == 1 or getattr(stream, key) is not None)
    ]
    if len(fitting) != 1:
        what = f"cannot set {key}: {len(fitting)} streams of the phase {phase!r} have {key}, not 1"
        raise BadInput(what, remedy="choose a phase with one such stream")
    order = fitting[0].order
    if order and (needs := ORDERS[order]) != key:
        raise BadInput(
            f"cannot set {key} of the phase {phase!r}: its order: {order} requires {needs}",
            remedy=f"set {needs} instead",
        )
    changed = fitting[0].model_copy(update={key: clients if clients is not None else rate, other: None})
    return tuple(changed if stream is fitting[0] else stream for stream in streams)
