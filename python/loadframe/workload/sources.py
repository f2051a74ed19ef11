"""Sources: where the events of a stream come from, and what is read out of them.

This names them, finds their files and identifies them by hash; the events only the engine sees.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, Strict, model_validator
from pydantic_core import PydanticCustomError

from loadframe.base.errors import BadInput
from loadframe.base.ranges import MOST_SEED
from loadframe.base.units import parse_size
from loadframe.workload.corpora import describe_files, require_readable
from loadframe.workload.forms import Positive, Text
from loadframe.workload.pacing import Rates, plan_level
from loadframe.yamlfile import NOT_EMPTY, Duration, Model, Name, Size, quantity, shown, wrong


def _listens(value: str) -> str:
    host, colon, port = value.rpartition(":")
    if not (host and colon and port.isdecimal() and int(port) < 65536):
        what = f"{shown(value)} is not an address to listen at"
        raise wrong(what, "write host:port, such as 127.0.0.1:5000; port 0 is any that is free")
    return value


def _path_inside(value: str) -> str:
    if not re.fullmatch(r"[^./~]+(\.[^./~]+)*", value):
        raise wrong(f"{shown(value)} does not name a field of an event", "write its name, or names with dots between")
    return value


def _instant(value: Any) -> Any:
    try:
        datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise wrong(f"{shown(value)} is not an instant", "write it like 2017-03-01T12:00:00Z") from None
    return value


def _address_alone(value: Any) -> Any:
    return {"address": value} if isinstance(value, str) else value


#: A field of an event; names with dots between reach inside.
Inside = Annotated[Text, AfterValidator(_path_inside)]


class Listen(Model):
    """A TCP port that takes lines from many connections; with a certificate and its key (PEM) by TLS.

    More than `connections` at a time, 1024 if not given, are closed at once.
    """

    address: Annotated[str, AfterValidator(_listens)]
    certificate: Text | None = None
    key: Text | None = None
    connections: Annotated[int, Field(gt=0)] | None = None

    @model_validator(mode="after")
    def _whole(self) -> "Listen":
        for one, other in (("certificate", "key"), ("key", "certificate")):
            if getattr(self, one) is not None and getattr(self, other) is None:
                raise wrong(
                    f"TLS wants a certificate and its key, and there is only the {one}", f"say {other}", key=one
                )
        return self


class Generate(Model):
    """Events that the engine makes, at a rate of documents; `start` is the first instant of their own time.

    If not `paced`, they come as fast as they are taken; their own times are as far apart as at the rate.
    """

    generator: Literal["adbids"]
    rate: Rates
    documents: Positive | None = None
    seed: Annotated[int, Field(ge=0, le=MOST_SEED)] | None = None
    paced: Annotated[bool, Strict(False)] = True
    start: Annotated[str, BeforeValidator(_instant, json_schema_input_type=str)] | None = None
    with_: dict[str, Any] | None = Field(None, alias="with")

    def plan(self) -> dict[str, Any]:
        """Return it as plans have it."""
        return {**self.model_dump(exclude_none=True, by_alias=True), "rate": plan_level(self.rate)}


class Replay(Model):
    """Events of files are due as far apart as their own times (the field `time`) are, divided by `speed`."""

    time: Inside
    speed: Annotated[float, Field(gt=0, le=1e6), Strict(False)] = 1.0


class EventKind(Model):
    """Where an event of one kind has the id of its document, and the instant by which that is placed."""

    id: Inside
    time: Inside


class Events(Model):
    """What is read out of an event: its kind in the field `type`, and what each kind has where."""

    type: Inside = "type"
    kinds: Annotated[dict[Name, EventKind], NOT_EMPTY]

    def plan(self) -> dict[str, Any]:
        """Return it as plans have it."""
        kinds = {name: {"id": _pointer(kind.id), "time": _pointer(kind.time)} for name, kind in self.kinds.items()}
        return {"type": _pointer(self.type), "kinds": kinds}


#: Ways in which a source gets its events.
WAYS = ("listen", "files", "stdin", "generate")

#: Bytes on disk, or 0 for none.
Spill = Annotated[int, quantity(parse_size, 2**63), Field(ge=0)]
#: What is spilled at most if it is not said, bytes. Senders to a port may have nowhere to keep what is not taken from
#: them; whatever writes to standard input waits without loss, and files and generators are not in a hurry.
USUAL_SPILL = {"listen": 1 << 30, "stdin": 0}


class Source(Model):
    """Where events come from: lines that arrive at a TCP port, in files or on standard input, or made by the engine.

    Events go to the store in batches of at most `batch`, a batch that is not full after `flush`. So many bytes of
    events may wait in memory as `buffer` says, then as many on disk as `spill` says (of a port 1g if it does not say,
    else 0); then no more are read until some have gone. A line above `longest_line` bytes is not an event. The source
    ends when no line has come for `idle`. With `acknowledge` those who send to a port are told how many of their lines
    are safe. With `wait` the load begins with the first line that comes to a port, which may take so long.

    A `listen` that is not empty takes the place of `generate`, so that one parameter turns one into the other.
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
        if not (isinstance(data, dict) and "generate" in data and "listen" in data):
            return data
        # With an empty address nobody sends, so these keys would mean nothing.
        of_a_port = ("listen", "idle", "wait", "acknowledge")
        without = of_a_port if data["listen"] == "" else ("generate",)
        return {key: value for key, value in data.items() if key not in without}

    @model_validator(mode="after")
    def _one_way(self) -> "Source":
        given = [way for way in WAYS if getattr(self, way) is not None]
        if not given:
            raise wrong("it does not say where events come from", f"say one of {', '.join(WAYS)}")
        if len(given) > 1:
            raise wrong(f"{given[0]} and {given[1]} exclude each other", "remove one of them", key=given[1])
        if self.replay is not None and self.files is None:
            raise wrong("only what is in files can be replayed", "say files, or remove it", key="replay")
        if self.idle is not None and given[0] in ("files", "generate"):
            raise wrong(f"{given[0]} end by themselves, and are not waited for", "remove it", key="idle")
        if self.acknowledge and self.listen is None:
            what = "only those who send to a port can be told what is safe"
            raise wrong(what, "say listen, or remove it", key="acknowledge")
        if self.wait is not None and self.listen is None:
            what = "only the first line that comes to a port is waited for"
            raise wrong(what, "say listen, or remove it", key="wait")
        if self.wait is not None and self.listen is not None and self.listen.address.endswith(":0"):
            what = "nobody knows before the load begins which port that will be, and the load waits for its first line"
            raise wrong(what, "name a port, or remove wait", key="listen")
        if self.spill and given[0] not in USUAL_SPILL:
            what = f"{given[0]} wait without loss while memory is full, and none of their events go to disk"
            raise wrong(what, "remove it", key="spill")
        if self.longest_line > self.buffer:
            key = "buffer" if "buffer" in self.model_fields_set else "longest_line"
            raise wrong("a line may be longer than what may wait in memory", "make buffer greater", key=key)
        return self

    @property
    def way(self) -> str:
        """How it gets its events: the key that says it."""
        return next(way for way in WAYS if getattr(self, way) is not None)

    @property
    def ends(self) -> bool:
        """Whether it ends by itself."""
        ending = self.generate is None or self.generate.documents is not None
        return ending and (self.listen is None or self.idle is not None)


def resolve(source: Source, folder: Path, error: Callable[[str, str], BadInput]) -> dict[str, Any]:
    """Return the source as plans have it. Relative paths begin at `folder`.

    `error` makes the error of what is wrong with a file and the remedy.
    """
    return {
        **_way(source, folder, error),
        **(
            {}
            if source.replay is None
            else {"replay": {**source.replay.model_dump(), "time": _pointer(source.replay.time)}}
        ),
        "events": source.events.plan(),
        **{key: getattr(source, key) for key in ("batch", "flush", "buffer", "longest_line")},
        **_spilling(source.way, source.spill),
        **({key: getattr(source, key) for key in ("idle", "wait") if getattr(source, key) is not None}),
        **({"acknowledge": True} if source.acknowledge else {}),
    }


def _spilling(way: str, spill: int | None) -> dict[str, int]:
    """Return what plans have of it: nothing where nothing goes to disk."""
    most = USUAL_SPILL.get(way, 0) if spill is None else spill
    return {"spill": most} if most else {}


def describe(source: Mapping[str, Any]) -> dict[str, Any]:
    """Return a resolved source for the manifest: its files by name, size in bytes and SHA-256."""
    return {**source, "files": describe_files(source["files"])} if "files" in source else dict(source)


def _way(source: Source, folder: Path, error: Callable[[str, str], BadInput]) -> dict[str, Any]:
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
    require_readable(path.absolute(), error)
    return str(path.absolute())


def _pointer(dotted: str) -> str:
    return f"/{dotted.replace('.', '/')}"


@dataclass(frozen=True)
class Feed:
    """Other events for a source than its own: those at an address, or in files, or on standard input; None: its own."""

    listen: str | None = None
    files: tuple[Path, ...] = ()
    stdin: bool = False
    batch: int | None = None
    flush: float | None = None
    idle: float | None = None
    acknowledge: bool = False
    spill: int | None = None

    def check(self) -> None:
        """BadInput for an address that cannot be listened at, and for files that cannot be read."""
        if self.listen is not None:
            try:
                _listens(self.listen)
            except PydanticCustomError as error:
                said = error.context or {}
                raise BadInput(said["what"], where="--listen", remedy=said["remedy"]) from None
        for file in self.files:
            require_readable(file, lambda what, remedy: BadInput(what, remedy=remedy))

    def into(self, source: Mapping[str, Any]) -> dict[str, Any]:
        """Return a source, as plans have it, with these events.

        BadInput if nobody is there to acknowledge them to, and for a spill of what waits without loss.
        """
        unchanged = self.listen is None and not self.files and not self.stdin
        fed = {key: value for key, value in source.items() if unchanged or key not in (*WAYS, "replay", "idle", "wait")}
        if self.listen is not None:
            # Its certificate stays.
            fed["listen"] = {**source.get("listen", {}), "address": self.listen}
        if self.files:
            fed["files"] = [str(file.absolute()) for file in self.files]
        if self.stdin:
            fed["stdin"] = True
        if "listen" not in fed:
            fed.pop("acknowledge", None)
            if self.acknowledge:
                what = "only those who send to a port can be told what is safe"
                raise BadInput(what, where="--acknowledge", remedy="give --listen, or leave it out")
        before, way = (next(way for way in WAYS if way in one) for one in (source, fed))
        if self.spill and way not in USUAL_SPILL:
            what = "only what comes to a port or on standard input goes to disk while memory is full"
            raise BadInput(what, where="--spill", remedy="leave it out")
        if way != before or self.spill is not None:
            fed.pop("spill", None)
            fed |= _spilling(way, self.spill)
        said = {"batch": self.batch, "flush": self.flush, "idle": self.idle, "acknowledge": self.acknowledge or None}
        return fed | {key: value for key, value in said.items() if value is not None}
