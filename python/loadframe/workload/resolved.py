"""A workload for one family of stores and one cluster size: phases that become the engine's plans.

Nothing is left open here but what differs from run to run: the seed, the hosts, the rank, and the levels of an
experiment's factors. The plan's form is the contract with `crates/engine/src/plan`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from loadframe.base.errors import BadInput
from loadframe.workload import corpora, journeys, sources
from loadframe.workload.forms.repeat import Visible
from loadframe.workload.holes import names
from loadframe.workload.pacing import Arrivals, ClientLevel, Condition, RateLevel, plan_level
from loadframe.workload.phases import ANY, Ended, Phase, Stream
from loadframe.workload.targets import together
from loadframe.workload.variables import Variable, closure

#: How many clients users share, unless the file says.
CLIENTS_OF_USERS = 64
#: How many connections take in the events of a source, unless the file says.
WORKERS = 4

#: How a load ends, as plans have it.
Stop = dict[str, Any] | str


@dataclass(frozen=True)
class ResolvedPhase:
    """One phase: when it ends, its streams, and everything that its operations need."""

    name: str
    prepares: bool
    #: Seconds; before the measurement, recorded apart.
    warmup: float
    #: How streams without an end of their own end, as plans have it: `{"duration": s}`, `{"requests": n}`,
    #: `"exhausted"`, or `"ended"` with the phase.
    stop: Stop
    streams: tuple[Stream, ...]
    #: Any of these ends it early.
    stop_when: tuple[Condition, ...]
    #: The names of streams, the first of which to end ends the phase; without any it ends with the last.
    ends_with: tuple[str, ...]
    #: By name, as plans have them; only what this phase uses.
    operations: Mapping[str, dict[str, Any]] = field(repr=False)
    corpora: Mapping[str, dict[str, Any]] = field(repr=False)
    variables: Mapping[str, dict[str, Any]] = field(repr=False)
    #: Targets that its operations may name, as plans have them.
    targets: Mapping[str, dict[str, Any]] = field(default_factory=dict, repr=False)
    #: How long it waits at most until every copy of the data is in service, s; None: it does not wait.
    ready_within: float | None = None
    #: Sources that its streams take events from, as plans have them.
    sources: Mapping[str, dict[str, Any]] = field(default_factory=dict, repr=False)

    @property
    def duration(self) -> float | None:
        """The measured seconds; None if something else ends the phase."""
        return self.stop["duration"] if isinstance(self.stop, dict) and "duration" in self.stop else None

    @property
    def exhausts(self) -> bool:
        """Whether a stream sends its corpus to the end."""
        return any((_stop(stream) or self.stop) == "exhausted" for stream in self.streams)

    def override(
        self,
        *,
        clients: int | None = None,
        rate: float | None = None,
        users: int | None = None,
        arrivals: Arrivals | None = None,
        warmup: float | None = None,
        duration: float | None = None,
        ready_within: float | None = None,
    ) -> "ResolvedPhase":
        """Return the phase at other levels; what is None stays as it is.

        `clients` makes the phase's stream a closed one and `rate` (1/s) an open one; among several streams they mean
        the one that is so already, and BadInput says if that is not exactly one. `users` are those of the one stream
        that has some. `arrivals` are those of all its open streams. `duration` (s) replaces any other way to end.
        `ready_within` (s) is how long it waits for the cluster.
        """
        phase = replace(
            self,
            streams=arriving(paced(self.streams, clients, rate, self.name, users), arrivals),
            warmup=self.warmup if warmup is None else warmup,
            ready_within=self.ready_within if ready_within is None else ready_within,
        )
        if duration is None:
            return phase
        endless = tuple(s.model_copy(update=dict.fromkeys(Ended.model_fields)) for s in phase.streams)
        return replace(phase, streams=endless, stop={"duration": duration}, ends_with=())

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
        """Return the engine's plan of this phase for one generator, ready for JSON.

        `hosts` are `host:port`; `began` is when the run began, in s of the monotonic clock, if the phase does not
        begin it; `target` is what the driver is to know besides, and may hold secrets, which are then in the plan and
        nowhere else.
        """
        return {
            "seed": seed,
            "rank": rank,
            "ranks": ranks,
            "threads": threads,
            "phase": self.name,
            **({} if began is None else {"began": began}),
            "warmup": self.warmup,
            "target": together(
                {"driver": driver, "hosts": list(hosts), **(target or {})}, self.targets, self.operations
            ),
            "corpora": dict(self.corpora),
            "variables": dict(self.variables),
            "operations": {name: _asked(form) for name, form in self.operations.items()},
            **({"visible": self.looks} if self.looks else {}),
            **({"answers": sorted(self.charts)} if self.charts else {}),
            # Of several generators none knows what the others have asked.
            **({"first": first} if (first := self._saying("first")) and ranks == 1 else {}),
            **({"shows": shown} if (shown := self.shown) else {}),
            **({"sources": dict(self.sources)} if self.sources else {}),
            "streams": self._streams(),
            **({"ends_with": list(self.ends_with)} if self.ends_with else {}),
            "stop_when": [condition.model_dump() for condition in self.stop_when],
        }

    def describe(self) -> dict[str, Any]:
        """Return the load of this phase for a manifest, ready for JSON, as plans have it."""
        return {
            "name": self.name,
            "prepares": self.prepares,
            "warmup": self.warmup,
            **({} if self.ready_within is None else {"ready_within": self.ready_within}),
            "variables": dict(self.variables),
            "operations": dict(self.operations),
            "streams": self._streams(),
            **({"ends_with": list(self.ends_with)} if self.ends_with else {}),
            "stop_when": [condition.model_dump() for condition in self.stop_when],
        }

    @property
    def charts(self) -> dict[str, dict[str, Any]]:
        """How answers of operations are drawn, by the operation's name."""
        return {name: form["chart"] for name, form in self.operations.items() if "chart" in form}

    @property
    def shown(self) -> dict[str, str]:
        """The operations whose answers show events that this phase looks for, and which ones take these in."""
        shown = {name: str(self.operations[name]["shows"]) for name in self._saying("shows")}
        return {name: taken_in for name, taken_in in shown.items() if taken_in in self.looks}

    def _saying(self, key: str) -> list[str]:
        return sorted(name for name, form in self.operations.items() if form.get(key))

    @property
    def looks(self) -> dict[str, dict[str, float]]:
        """How operations look for what was written, by name: `every`, `within` and of events one in `sample`, s."""
        forms = {name: form["visible"] for name, form in self.operations.items() if "visible" in form}
        looks = {name: Visible.model_validate(said).plan() for name, said in forms.items()}
        return {name: look for name, look in looks.items() if look is not None}

    def _streams(self) -> list[dict[str, Any]]:
        return [
            {
                "name": stream.name,
                **_course(stream),
                "pacing": pacing(stream),
                "stop": _stop(stream) or self.stop,
                "retries": stream.retries or 0,
            }
            for stream in self.streams
        ]


@dataclass(frozen=True)
class ResolvedWorkload:
    """A workload for one family and cluster size."""

    name: str
    family: str
    nodes: int
    #: What was set or taken by default, by name.
    parameters: Mapping[str, Any]
    #: Each collection's definition in the family's own terms; empty for the store's defaults.
    collections: Mapping[str, dict[str, Any]] = field(repr=False)
    corpora: Mapping[str, dict[str, Any]] = field(repr=False)
    phases: Sequence[ResolvedPhase]
    #: The workload file: its path and its SHA-256.
    file: Mapping[str, str]
    #: Sources of events that its phases use, as plans have them.
    sources: Mapping[str, dict[str, Any]] = field(default_factory=dict, repr=False)

    def phase(self, name: str) -> ResolvedPhase:
        """Return the phase of that name; KeyError for an unknown name."""
        for phase in self.phases:
            if phase.name == name:
                return phase
        raise KeyError(name)

    def preparing(self, names: Sequence[str]) -> list[ResolvedPhase]:
        """Return those of the named phases that the family needs, in the order of the names."""
        return [phase for name in names for phase in self.phases if phase.name == name]

    def describe(self) -> dict[str, Any]:
        """Return what a manifest needs to repeat the load, ready for JSON; reads its files to hash them."""
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
                {"sources": {name: sources.describe(said) for name, said in self.sources.items()}}
                if self.sources
                else {}
            ),
        }


def resolve_phase(
    phase: Phase,
    operations: Mapping[str, dict[str, Any]],
    documents: Mapping[str, dict[str, Any]],
    variables: Mapping[str, dict[str, Any]],
    models: Mapping[str, Variable],
    targets: Mapping[str, dict[str, Any]],
    events: Mapping[str, dict[str, Any]],
) -> ResolvedPhase:
    """Gather what a phase uses of a workload's operations, corpora and variables, all as plans have them.

    `documents` are the corpora, and `events` the sources of such. `models` tell which variables and corpora the
    variables are made of.
    """
    streams = phase.named_streams
    used = {name: operations[name] for stream in streams for name in stream.weights}
    bulks = [form["bulk"] for form in used.values() if "bulk" in form]
    counted = {name for stream in streams for name in journeys.counts(stream.journey or ())}
    drawn = closure(set(names(used)) | counted, models)
    taken = {name for form in used.values() for at in (form, form.get("http", {})) for name in at.get("capture", ())}
    sampled = [source.corpus for name in drawn if (source := models[name].field or models[name].document) is not None]
    ends_with: tuple[str, ...] = ()
    if phase.ends_with is not None:
        names_of_streams = tuple(str(stream.name) for stream in streams)
        ends_with = names_of_streams if phase.ends_with == ANY else (phase.ends_with,)
    return ResolvedPhase(
        name=phase.name,
        prepares=phase.prepares,
        warmup=phase.warmup,
        stop=_stop(phase) or "ended",
        streams=streams,
        stop_when=phase.stop_when,
        ends_with=ends_with,
        operations=used,
        corpora={name: documents[name] for name in (*(bulk["corpus"] for bulk in bulks), *sampled)},
        variables={name: form for name, form in variables.items() if name in drawn}
        | {name: {"captured": {}} for name in sorted(taken)},
        targets=targets,
        ready_within=phase.ready_within,
        sources={stream.source: events[stream.source] for stream in streams if stream.source is not None},
    )


#: What only the engine or the analysis needs to know of an operation.
_NOT_ASKED = ("new_documents", "visible", "chart", "first", "shows")


def _asked(form: Mapping[str, Any]) -> dict[str, Any]:
    """Return an operation without what only the engine or the analysis needs to know."""
    return {key: value for key, value in form.items() if key not in _NOT_ASKED}


def _stop(load: Ended) -> Stop | None:
    """Return how a phase or a stream ends, as plans have it; None if it does not say."""
    if load.duration is not None:
        return {"duration": load.duration}
    if load.requests is not None:
        return {"requests": load.requests}
    if load.journeys is not None:
        return {"journeys": load.journeys}
    return load.until


def _course(stream: Stream) -> dict[str, Any]:
    """Return what a stream asks for as plans have it: a mix, a journey, or the steps of users and their clock."""
    if stream.journey is None:
        order = {} if stream.order is None else {"order": stream.order}
        return {"mix": [[name, weight] for name, weight in stream.weights.items()], **order}
    if stream.users is not None:
        clock = {} if stream.clock is None else {"clock": stream.clock.dump()}
        return {"steps": journeys.dump(stream.journey), **clock}
    steps = [{"operation": step.operation, "think_time": plan_level(step.think_time or 0.0)} for step in stream.journey]
    return {"journey": steps}


def pacing(stream: Stream) -> dict[str, Any]:
    """Return a stream's pacing as plans have it."""
    if stream.source is not None:
        return {"source": {"source": stream.source, "workers": stream.workers or WORKERS}}
    if stream.users is not None:
        shared = {"users": stream.users, "clients": stream.clients or CLIENTS_OF_USERS}
        times = {"think_time": plan_level(stream.think_time or 0.0), "over": stream.arrive_over or 0.0}
        return {"users": {**shared, **times}}
    if stream.clients is not None:
        think_time = plan_level(stream.think_time or 0.0)
        return {"closed": {"clients": plan_level(stream.clients), "think_time": think_time}}
    limit = {} if stream.max_in_flight is None else {"max_in_flight": stream.max_in_flight}
    return {"open": {"rate": plan_level(stream.rate or 0.0), "arrivals": stream.spacing, **limit}}


def arriving(streams: tuple[Stream, ...], arrivals: Arrivals | None) -> tuple[Stream, ...]:
    """Return streams whose open ones space their requests that way; with None they stay as they are."""
    if arrivals is None:
        return streams
    return tuple(s.model_copy(update={"arrivals": arrivals}) if s.is_open else s for s in streams)


def paced(
    streams: tuple[Stream, ...],
    clients: int | ClientLevel | None,
    rate: float | RateLevel | None,
    phase: str,
    users: int | None = None,
) -> tuple[Stream, ...]:
    """Return a phase's streams with other clients or users, or another rate; see `ResolvedPhase.override`."""
    if users is not None:
        walked = [stream for stream in streams if stream.users is not None]
        if len(walked) != 1:
            what = f"the phase {phase!r} has {len(walked)} streams with users, so setting their number is not clear"
            raise BadInput(what, remedy="choose a phase in which one stream has users")
        counted = walked[0].model_copy(update={"users": users})
        streams = tuple(counted if stream is walked[0] else stream for stream in streams)
    if clients is None and rate is None:
        return streams
    if clients is not None and rate is not None:
        raise BadInput(f"the phase {phase!r} cannot have both clients and a rate", remedy="choose one of them")
    if any(stream.users is not None for stream in streams):
        what = f"users walk the journeys of the phase {phase!r}, which clients or a rate would not change"
        raise BadInput(what, remedy="set users instead")
    key, other = ("clients", "rate") if clients is not None else ("rate", "clients")
    fitting = [
        stream
        for stream in streams
        if stream.source is None and (len(streams) == 1 or getattr(stream, key) is not None)
    ]
    if len(fitting) != 1:
        what = f"the phase {phase!r} has {len(fitting)} streams with {key}, so setting {key} is not clear"
        raise BadInput(what, remedy="choose a phase in which one stream has them")
    changed = fitting[0].model_copy(update={key: clients if clients is not None else rate, other: None})
    return tuple(changed if stream is fitting[0] else stream for stream in streams)
