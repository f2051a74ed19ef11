"""Workloads: built in, from files, or defined in Python."""

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table as Grid

from loadframe.base.errors import BadInput
from loadframe.base.units import counted, format_count, format_duration
from loadframe.library.arguments import checked
from loadframe.library.tables import Answer, html_table
from loadframe.workload import Workload as LoadedWorkload
from loadframe.workload import library, load_workload, workload_of
from loadframe.workload.forms import every_form
from loadframe.workload.phases import ANY, Phase, Stream
from loadframe.workload.resolved import CLIENTS_OF_USERS, WORKERS
from loadframe.yamlfile import document_of

if TYPE_CHECKING:
    from rich.console import Console

#: Type of parameter values.
Value = str | int | float | bool


class Workload:
    """A workload defined by the keys of a workload file. BadInput names the key of an error.

    A trailing underscore is removed from keyword arguments, as in `with_`. Relative paths start at the current folder.

    >>> reads = loadframe.Workload(
    ...     workload="reads",
    ...     collections={"items": {}},
    ...     operations={"read": {"search": {"collection": "items", "body": {"query": {"match_all": {}}}}}},
    ...     phases=[{"name": "read", "operation": "read", "clients": 2, "duration": "2s"}],
    ... )
    >>> reads.phases
    ['read']
    >>> loadframe.Workload.load("ycsb/c").parameters["records"] > 0
    True
    """

    @checked
    def __init__(self, keys: Mapping[str, Any] | None = None, /, **more: Any) -> None:
        """Check the workload that the keys define. Keyword arguments override `keys`. BadInput for an invalid one."""
        self._loaded = workload_of(document_of(merged(keys, more), "Workload"))

    @classmethod
    @checked
    def load(cls, name: str | os.PathLike[str], **parameters: Value) -> "Workload":
        """Load and check a built-in workload by name, or a file. `parameters` set its parameters."""
        return _workload_of(load_workload(os.fspath(name), parameters))

    @property
    def name(self) -> str:
        """The name of the workload."""
        return self._loaded.name

    @property
    def description(self) -> str:
        """The description of the workload in one line; empty without one."""
        return self._loaded.file.description

    @property
    def parameters(self) -> dict[str, Any]:
        """The values of the parameters, for one node."""
        return dict(self._loaded.parameters)

    @property
    def phases(self) -> list[str]:
        """The names of the phases in their order."""
        return [phase.name for phase in self._loaded.file.phases]

    @property
    def keys(self) -> dict[str, Any]:
        """The keys as they were written."""
        return dict(self._loaded.document.data)

    @checked
    def with_parameters(self, **parameters: Value) -> "Workload":
        """Return a copy with other values of parameters; BadInput for an unknown parameter."""
        return _workload_of(self._loaded.with_parameters(parameters, where=lambda name: f"parameter {name}"))

    @checked
    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the keys to a workload file and return its path. Parameters keep their defaults."""
        return save_keys(self.keys, Path(path))

    def outline(self) -> "Outline":
        """Return the parameters with their defaults, the operations and the phases, as values and text."""
        return Outline(self)

    def __repr__(self) -> str:
        return f"<Workload {self.name}: {counted(len(self.phases), 'phase')}>"

    def _repr_html_(self) -> str:
        """Return an HTML table for a notebook: the phases, and whether they prepare data."""
        rows = [(phase.name, "prepares" if phase.prepares else "") for phase in self._loaded.file.phases]
        return html_table((self.name, ""), rows)


class Outline(Answer):
    """The parameters, operations and phases of a workload; `as_dict` has durations in s and rates in 1/s.

    >>> outline = loadframe.Workload.load("nyc_taxis").outline()
    >>> outline.as_dict()["operations"]["range_100"]
    ['search']
    """

    @checked
    def __init__(self, workload: str | os.PathLike[str] | Workload) -> None:
        """Create the outline of a workload, at the defaults of its parameters and for one node."""
        loaded = loaded_workload(workload, {})
        file = loaded.fill(1).file
        super().__init__(
            {
                "name": file.workload,
                "description": file.description,
                "file": str(loaded.document.path),
                "parameters": dict(loaded.defaults),
                "collections": list(file.collections),
                "corpora": list(file.corpora),
                "operations": {
                    name: sorted({form.kind for form in every_form(operation).values()})
                    for name, operation in file.operations.items()
                },
                "phases": [
                    {
                        "name": phase.name,
                        "prepares": phase.prepares,
                        "optional": phase.optional,
                        "warmup": _length(phase.warmup),
                        "duration": _length(phase.duration),
                        "requests": phase.requests,
                        "ends": _end(phase),
                        "streams": [_stream(stream) for stream in phase.named_streams],
                    }
                    for phase in file.phases
                ],
            },
            self._print,
        )

    def _print(self, console: "Console") -> None:
        """Print name, description and file, and tables of the parameters, operations and phases."""
        outline = self.as_dict()
        console.print(f"[bold]{escape(outline['name'])}[/bold]  {escape(outline['description'])}")
        console.print(escape(outline["file"]), style="dim", soft_wrap=True)
        parameters = [[key, _value(value)] for key, value in outline["parameters"].items()]
        operations = [[key, ", ".join(kinds)] for key, kinds in outline["operations"].items()]
        phases = [
            [
                phase["name"],
                "prepares" if phase["prepares"] else "optional" if phase["optional"] else "",
                phase["ends"],
                "; ".join(map(_load, phase["streams"])),
            ]
            for phase in outline["phases"]
        ]
        for heads, rows in (
            (("parameter", "default"), parameters),
            (("operation", "is"), operations),
            (("phase", "", "ends", "load"), phases),
        ):
            if not rows:
                continue
            table = Grid(box=None, pad_edge=False)
            for index, head in enumerate(heads):
                table.add_column(head, no_wrap=index == 0)  # never cut names: users copy them
            for row in rows:
                table.add_row(*map(escape, row))
            console.print()
            console.print(table)


@checked
def workloads() -> list[Workload]:
    """Return the built-in workloads.

    >>> "ycsb" in [built_in.name for built_in in loadframe.workloads()]
    True
    """
    return [_workload_of(loaded) for loaded in library()]


def _workload_of(loaded: LoadedWorkload) -> Workload:
    """Return the public object of a loaded workload."""
    workload = Workload.__new__(Workload)
    workload._loaded = loaded
    return workload


def _stream(stream: "Stream") -> dict[str, Any]:
    """Return a stream as values: name, operations by weight, and the keys of its load model and end that are set."""
    pacing = stream.model_dump(exclude={"name", "operation", "mix"}, exclude_none=True, by_alias=True)
    return {"name": stream.name, "mix": stream.weights, **pacing}


def _end(phase: "Phase") -> str:
    """Return the end condition of a phase as text."""
    if phase.duration is not None:
        warmup = f" after {_length_text(phase.warmup)}" if phase.warmup else ""
        return _length_text(phase.duration) + warmup
    if phase.requests is not None:
        return f"after {counted(phase.requests, 'request')}"
    if phase.journeys is not None:
        return f"after {counted(phase.journeys, 'journey')} of each user"
    if phase.until is not None:
        return "with the corpus" if all(stream.source is None for stream in phase.named_streams) else "with the source"
    which = {None: "the last stream", ANY: "the first stream to end"}
    return f"with {which.get(phase.ends_with, f'the stream {phase.ends_with}')}"


def _length(length: Any) -> Any:
    """Return a length in s for JSON; an automatic one as its limits; None stays None."""
    return length if isinstance(length, int | float | None) else length.model_dump()


def _length_text(length: Any) -> str:
    """Return a length as text; an automatic one as its limits."""
    if isinstance(length, int | float):
        return format_duration(length)
    return f"{format_duration(length.at_least)} to {format_duration(length.at_most)}"


def _load(stream: dict[str, Any]) -> str:
    """Return the operations and load model of a stream (a result of `_stream`) as text."""
    mix = stream["mix"]
    what = next(iter(mix)) if len(mix) == 1 else " + ".join(f"{weight:g} {name}" for name, weight in mix.items())
    if stream.get("order") == "together":
        what += " together"
    if "rate" in stream:
        return f"{what}, {_levels(stream['rate'])}/s"
    if "source" in stream:
        return f"{what}, events of {stream['source']} on {counted(stream.get('workers', WORKERS), 'worker')}"
    users = f"{counted(stream['users'], 'user')} on " if "users" in stream else ""
    clients = stream.get("clients", CLIENTS_OF_USERS)
    think = f", thinking {_think_time(stream['think_time'])}" if stream.get("think_time") else ""
    return f"{what}, {users}{_levels(clients)} {'client' if clients == 1 else 'clients'}{think}"


def _levels(level: Any) -> str:
    """Return a number of clients or a rate as text, with its stages if it changes: `1 to 10 to 5`."""
    numbers = [level["from"], *(stage["to"] for stage in level["stages"])] if isinstance(level, dict) else [level]
    return " to ".join(map(format_count, numbers))


def _think_time(time: Any) -> str:
    """Return a think time, s or a mapping of a distribution, as text: its ends if it is uniform, else its mean."""
    if not isinstance(time, dict):
        return format_duration(time)
    if "uniform" in time:
        return " to ".join(map(format_duration, time["uniform"]))
    return f"{format_duration(time['exponential'] if 'exponential' in time else time['normal'][0])} on average"


def _value(value: Any) -> str:
    """Return a parameter's value as text: JSON, except for texts that are not empty."""
    return value if isinstance(value, str) and value else json.dumps(value)


def loaded_workload(
    workload: "str | os.PathLike[str] | Workload", parameters: Mapping[str, Value], *, endless: bool = False
) -> LoadedWorkload:
    """Return a workload by name, path or object, with its parameters set. `endless` accepts sources without an end.

    BadInput for an unknown workload, an invalid file, and an unknown or invalid parameter.
    """
    if not isinstance(workload, Workload):
        return load_workload(os.fspath(workload), parameters, endless=endless)
    loaded = (workload.with_parameters(**parameters) if parameters else workload)._loaded
    return replace(loaded, endless=endless)


def merged(keys: Mapping[str, Any] | None, more: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of a mapping and of keyword arguments, which override them.

    A trailing underscore is removed from keyword arguments only.
    """
    return {**(keys or {}), **{name.removesuffix("_"): value for name, value in more.items()}}


def save_keys(keys: Mapping[str, Any], path: Path) -> Path:
    """Write keys as YAML, also over an existing file, and return the path; BadInput if that fails."""
    # Imported late: only files need it.
    import yaml

    try:
        path.write_text(yaml.safe_dump(dict(keys), sort_keys=False, allow_unicode=True), encoding="utf-8")
    except OSError as error:
        raise BadInput(
            f"cannot write the file: {error.strerror}", where=str(path), remedy="name another file"
        ) from error
    return path
