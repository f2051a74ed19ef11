"""Sources: the origin of a stream's events, and the fields that are read from them.

Validates the configuration, and checks and hashes files. Only the engine reads the events.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, Strict, model_validator
from pydantic_core import PydanticCustomError

from loadframe.base.errors import BadInput
from loadframe.base.units import MOST_SEED, parse_size
from loadframe.workload.corpora import describe_files, require_readable
from loadframe.workload.forms import Positive, Text
from loadframe.workload.pacing import Rates, plan_level
from loadframe.workload.transform import Inside, Known, TransformStep, plan_steps, pointer
from loadframe.yamlfile import NOT_EMPTY, Duration, Model, Name, Place, Size, quantity, short_json, wrong


def _listens(value: str) -> str:
    """Return a text unchanged; refuse anything but `host:port` with a port from 0 to 65535."""
    host, colon, port = value.rpartition(":")
    if not (host and colon and port.isdecimal() and int(port) < 65536):
        what = f"{short_json(value)} is not an address to listen on"
        raise wrong(what, "write host:port, such as 127.0.0.1:5000; port 0 selects a free port")
    return value


def _instant(value: Any) -> Any:
    """Return a value unchanged; refuse anything but a text with an ISO 8601 date or instant."""
    try:
        datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise wrong(f"{short_json(value)} is not an instant", "write it as 2017-03-01T12:00:00Z") from None
    return value


def _address_alone(value: Any) -> Any:
    """Return the mapping of a port for a plain address, `{"address": value}`; return other values unchanged."""
    return {"address": value} if isinstance(value, str) else value


class Listen(Model):
    """A TCP port that receives lines from many connections; with a certificate and key (PEM), over TLS.

    Connections beyond `connections` (1024 by default) are closed at once.
    """

    address: Annotated[str, AfterValidator(_listens)]
    certificate: Text | None = None
    key: Text | None = None
    connections: Annotated[int, Field(gt=0)] | None = None

    @model_validator(mode="after")
    def _check_tls(self) -> "Listen":
        """Refuse a certificate without a key, and a key without a certificate."""
        for one, other in (("certificate", "key"), ("key", "certificate")):
            if getattr(self, one) is not None and getattr(self, other) is None:
                raise wrong(f"{one} requires {other}", f"add {other}", key=one)
        return self


class Generate(Model):
    """Events that the engine generates at a rate of documents; `start` is the first timestamp in them.

    Without `paced`, they arrive as fast as they are ingested; their timestamps still follow the rate.
    """

    generator: Literal["adbids"]
    rate: Rates
    documents: Positive | None = None
    seed: Annotated[int, Field(ge=0, le=MOST_SEED)] | None = None
    paced: Annotated[bool, Strict(False)] = True
    start: Annotated[str, BeforeValidator(_instant, json_schema_input_type=str)] | None = None
    with_: dict[str, Any] | None = Field(None, alias="with")

    def plan(self) -> dict[str, Any]:
        """Return the generator for the plan."""
        return {**self.model_dump(exclude_none=True, by_alias=True), "rate": plan_level(self.rate)}


class Replay(Model):
    """Replay of files: events are due at the intervals of their timestamps (field `time`), divided by `speed`."""

    time: Inside
    speed: Annotated[float, Field(gt=0, le=1e6), Strict(False)] = 1.0


class EventKind(Model):
    """The fields of one kind of event: the id of its document, and the timestamp that decides its day.

    They are read after the steps of `transform`.
    """

    id: Inside
    time: Inside
    transform: tuple[TransformStep, ...] = Field((), strict=False)

    @model_validator(mode="before")
    @classmethod
    def _check_id(cls, data: Any) -> Any:
        """Refuse data without `id`, with a remedy for events without ids; other errors come first."""
        # Unknown keys are refused first: `id` may be misspelt.
        if isinstance(data, dict) and "id" not in data and data.keys() <= cls.model_fields.keys():
            raise wrong("the key 'id' is missing", _NO_ID)
        return data


#: Remedy for events without an id.
_NO_ID = (
    "name the field with the id of its document. If events have none, join fields, in a step of transform:"
    ' derive: {id: {join: [timestamp, clientip, request], with: " "}}; or, with format: text, write id: message.'
    " Events with equal ids are stored once"
)


class Events(Model):
    """The fields that are read from events: the kind of event (`type`), and further fields per kind.

    The steps of `transform` apply to the lines of all kinds, before `type` is read. With `format: text` a line is the
    field `message` of an event.
    """

    type: Inside = "type"
    format: Literal["json", "text"] = "json"
    transform: tuple[TransformStep, ...] = Field((), strict=False)
    kinds: Annotated[dict[Name, EventKind], NOT_EMPTY]

    def plan(self) -> dict[str, Any]:
        """Return the fields of events for the plan: type, id and time of each kind, and the steps of `transform`."""
        kinds = {
            name: {"id": pointer(kind.id), "time": pointer(kind.time), **plan_steps(kind.transform)}
            for name, kind in self.kinds.items()
        }
        text = {"format": "text"} if self.format == "text" else {}
        return {"type": pointer(self.type), **text, **plan_steps(self.transform), "kinds": kinds}

    def contradictions(self) -> Iterator[tuple[Place, str, str]]:
        """Yield the place, the problem and the remedy of steps that cannot work, and of read fields that steps remove.

        Places are relative to `events`. Read fields are `type`, and `id` and `time` of each kind.
        """
        known = Known()
        yield from _within(("transform",), known.contradictions(self.transform))
        if known.gone(self.type):
            yield ("type",), f"the transformation removes the field {self.type!r}", "name its new field, or keep it"
        for name, kind in self.kinds.items():
            of_kind = known.copy()
            yield from _within(("kinds", name, "transform"), of_kind.contradictions(kind.transform))
            for key, field in (("id", kind.id), ("time", kind.time)):
                if of_kind.gone(field):
                    what = f"the transformation removes the field {field!r}"
                    yield ("kinds", name, key), what, "name its new field, or keep it"


def _within(place: Place, problems: Iterator[tuple[Place, str, str]]) -> Iterator[tuple[Place, str, str]]:
    """Return an iterator over the problems with `place` before their places."""
    return (((*place, *inner), what, remedy) for inner, what, remedy in problems)


#: Keys that select the origin of events; exactly one per source.
WAYS = ("listen", "files", "stdin", "generate")

_WAIT_PORT = "wait requires a fixed port: port 0 is assigned only when the load starts"

#: Bytes on disk, or 0 for none.
Spill = Annotated[int, quantity(parse_size, 2**63), Field(ge=0)]
#: Default bytes of spill, for the origins that support it. Senders to a port may be unable to buffer events that are
#: not read. A writer to standard input waits without loss, and so do files and generators.
DEFAULT_SPILL = {"listen": 1 << 30, "stdin": 0}


class Source(Model):
    """The origin of events: lines from a TCP port, files or standard input, or events that the engine generates.

    Events go to the store in batches of up to `batch`; a partial batch is sent after `flush`. Up to `buffer` bytes of
    events queue in memory, then up to `spill` bytes on disk (default for a port: 1g, otherwise 0). Then reading pauses
    until the queue shrinks. Lines longer than `longest_line` bytes are rejected.

    The source ends when no line has arrived for `idle`. With `acknowledge`, senders to a port receive the number of
    their lines that are stored. With `wait`, the load starts with the first line at a port, which must arrive in that
    time.

    A non-empty `listen` overrides `generate`, so one parameter can switch between them.
    """

    listen: Annotated[Listen, BeforeValidator(_address_alone, json_schema_input_type=str | Listen)] | None = None
    files: Annotated[tuple[Text, ...], Strict(False), NOT_EMPTY] | None = None
    stdin: Literal[True] | None = None
    generate: Generate | None = None
    replay: Replay | None = None
    events: Events
    batch: Annotated[int, Field(ge=1, le=1_000_000)] = 4096
    flush: Annotated[Duration, Field(gt=0)] = 0.5
    buffer: Size = 64 << 20
    spill: Spill | None = None
    longest_line: Size = 1 << 20
    idle: Annotated[Duration, Field(gt=0)] | None = None
    acknowledge: bool = False
    wait: Annotated[Duration, Field(gt=0)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _listens_or_generates(cls, data: Any) -> Any:
        """Return the data with only `listen` or only `generate`, if both are given; return other data unchanged.

        An address other than the empty text selects `listen`. An empty one selects `generate` and removes `idle`,
        `wait` and `acknowledge`.
        """
        if not (isinstance(data, dict) and "generate" in data and "listen" in data):
            return data
        # With an empty address, the keys that configure a port have no effect.
        of_a_port = ("listen", "idle", "wait", "acknowledge")
        without = of_a_port if data["listen"] == "" else ("generate",)
        return {key: value for key, value in data.items() if key not in without}

    @model_validator(mode="after")
    def _check_origin(self) -> "Source":
        """Refuse other than exactly one origin, and keys or sizes that do not apply to it."""
        given = [way for way in WAYS if getattr(self, way) is not None]
        if not given:
            raise wrong(
                "the source lacks an origin of events", f"add one of {', '.join(WAYS)}; `ingest --listen` replaces it"
            )
        if len(given) > 1:
            raise wrong(f"{given[0]} and {given[1]} exclude each other", "remove one of them", key=given[1])
        if self.replay is not None and self.files is None:
            raise wrong("replay requires files", "add files, or remove replay", key="replay")
        if self.idle is not None and given[0] in ("files", "generate"):
            raise wrong(f"idle requires listen or stdin; got {given[0]}", "remove idle", key="idle")
        for key in ("acknowledge", "wait"):
            if getattr(self, key) and self.listen is None:
                raise wrong(f"{key} requires listen", f"add listen, or remove {key}", key=key)
        if self.wait is not None and self.listen is not None and self.listen.address.endswith(":0"):
            raise wrong(_WAIT_PORT, "name a port, or remove wait", key="listen")
        if self.spill and given[0] not in DEFAULT_SPILL:
            raise wrong(f"spill requires listen or stdin; got {given[0]}", "remove spill", key="spill")
        if self.longest_line > self.buffer:
            key = "buffer" if "buffer" in self.model_fields_set else "longest_line"
            what = f"longest_line ({self.longest_line} bytes) exceeds buffer ({self.buffer} bytes)"
            raise wrong(what, "increase buffer, or reduce longest_line", key=key)
        return self

    @property
    def way(self) -> str:
        """The key that selects the origin of events."""
        return next(way for way in WAYS if getattr(self, way) is not None)

    @property
    def ends(self) -> bool:
        """Whether the source has an end: a port only with `idle`, a generator only with `documents`, others always."""
        ending = self.generate is None or self.generate.documents is not None
        return ending and (self.listen is None or self.idle is not None)


def resolve(source: Source, folder: Path, error: Callable[[str, str], BadInput]) -> dict[str, Any]:
    """Return the source for the plan: its origin, `replay`, events, batches, queue (bytes) and end (s).

    Relative paths are resolved against `folder`. Refuses a file that is unusable (see `require_readable`) with
    `error(what, remedy)`.
    """
    return {
        **_way(source, folder, error),
        **(
            {}
            if source.replay is None
            else {"replay": {**source.replay.model_dump(), "time": pointer(source.replay.time)}}
        ),
        "events": source.events.plan(),
        **{key: getattr(source, key) for key in ("batch", "flush", "buffer", "longest_line")},
        **_spill(source.way, source.spill),
        **({key: getattr(source, key) for key in ("idle", "wait") if getattr(source, key) is not None}),
        **({"acknowledge": True} if source.acknowledge else {}),
    }


def _spill(way: str, spill: int | None) -> dict[str, int]:
    """Return `spill`, in bytes, for the plan; empty for 0.

    If `spill` is None, the default for the origin's key `way` applies.
    """
    most = DEFAULT_SPILL.get(way, 0) if spill is None else spill
    return {"spill": most} if most else {}


def describe(source: Mapping[str, Any]) -> dict[str, Any]:
    """Return a resolved source for the manifest: files with path, size in bytes and SHA-256.

    Reads the files; LoadframeError if one cannot be read.
    """
    return {**source, "files": describe_files(source["files"])} if "files" in source else dict(source)


def _way(source: Source, folder: Path, error: Callable[[str, str], BadInput]) -> dict[str, Any]:
    """Return the origin of a source for the plan: one of the keys `listen`, `files`, `generate` and `stdin`.

    Refuses unreadable files with `error(what, remedy)`. Relative paths are resolved against `folder`.
    """
    if source.listen is not None:
        listen: dict[str, Any] = {"address": source.listen.address}
        if source.listen.connections is not None:
            listen["connections"] = source.listen.connections
        for key in ("certificate", "key"):
            if (name := getattr(source.listen, key)) is not None:
                listen[key] = _file(folder / name, error)
        return {"listen": listen}
    if source.files is not None:
        return {"files": [_file(folder / name, error) for name in source.files]}
    if source.generate is not None:
        return {"generate": source.generate.plan()}
    return {"stdin": True}


def _file(path: Path, error: Callable[[str, str], BadInput]) -> str:
    """Return the absolute path of a file; refuses an unreadable one with `error(what, remedy)`."""
    require_readable(path.absolute(), error)
    return str(path.absolute())


@dataclass(frozen=True)
class Feed:
    """Command-line overrides of a source: origin of events, batching and acknowledgement. None keeps a value."""

    listen: str | None = None
    files: tuple[Path, ...] = ()
    stdin: bool = False
    batch: int | None = None
    flush: float | None = None
    idle: float | None = None
    wait: float | None = None
    acknowledge: bool = False
    spill: int | None = None

    def check(self) -> None:
        """Refuse an invalid address and unreadable files, with BadInput. Opens the files, but no port."""
        if self.listen is not None:
            try:
                _listens(self.listen)
            except PydanticCustomError as error:
                context = error.context or {}
                raise BadInput(context["what"], where="--listen", remedy=context["remedy"]) from None
        for file in self.files:
            require_readable(file, lambda what, remedy: BadInput(what, remedy=remedy))

    def into(self, source: Mapping[str, Any]) -> dict[str, Any]:
        """Return a copy of a source, in the format of plans, with these overrides.

        An origin replaces the source's own, except the certificate of a port, and removes its `replay`, `idle` and
        `wait`; one of another kind also sets the default of `spill`. Without a port, the source loses `acknowledge`.
        BadInput for acknowledgement or a wait without a port, a wait with port 0, and `idle` or a spill with files or
        generated events.
        """
        unchanged = self.listen is None and not self.files and not self.stdin
        fed = {key: value for key, value in source.items() if unchanged or key not in (*WAYS, "replay", "idle", "wait")}
        if self.listen is not None:
            # Keep the certificate.
            fed["listen"] = {**source.get("listen", {}), "address": self.listen}
        if self.files:
            fed["files"] = [str(file.absolute()) for file in self.files]
        if self.stdin:
            fed["stdin"] = True
        if "listen" not in fed:
            fed.pop("acknowledge", None)
            for option, given in (("--acknowledge", self.acknowledge), ("--wait", self.wait)):
                if given:
                    remedy = f"add --listen, or remove {option}"
                    raise BadInput(f"{option} requires --listen", where=option, remedy=remedy)
        elif self.wait and fed["listen"]["address"].endswith(":0"):
            raise BadInput(_WAIT_PORT, where="--wait", remedy="name a port, or remove --wait")
        before, way = (next(way for way in WAYS if way in one) for one in (source, fed))
        for option, given in (("--idle", self.idle), ("--spill", self.spill)):
            if given and way not in DEFAULT_SPILL:
                what = f"{option} requires events from a port or standard input; got {way}"
                raise BadInput(what, where=option, remedy=f"remove {option}")
        if way != before or self.spill is not None:
            fed.pop("spill", None)
            fed |= _spill(way, self.spill)
        options = {"batch": self.batch, "flush": self.flush, "idle": self.idle, "wait": self.wait}
        options["acknowledge"] = self.acknowledge or None
        return fed | {key: value for key, value in options.items() if value is not None}
