"""`loadframe workloads`: list the built-in workloads, or show one workload."""

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from loadframe.base.units import counted, format_count, format_duration
from loadframe.cli import completion
from loadframe.cli.app import app
from loadframe.cli.output import Json, out, print_json

if TYPE_CHECKING:
    from loadframe.workload import Workload
    from loadframe.workload.phases import Phase, Stream

_EXAMPLES = """\b
Examples:
  loadframe workloads
  loadframe workloads nyc_taxis
  loadframe workloads ./my-workload.yaml
  loadframe workloads nyc_taxis --json | jq -r '.phases[].name'
"""


@app.command(epilog=_EXAMPLES)
def workloads(
    name: Annotated[
        str | None, typer.Argument(help="Built-in workload, or workload file.", autocompletion=completion.workloads)
    ] = None,
    as_json: Json = False,
) -> None:
    """List the built-in workloads, or show the parameters, operations and phases of one."""
    from loadframe.workload import load_workload

    if name is None:
        _list(as_json)
        return
    outline = _outline(load_workload(name))
    if as_json:
        print_json(outline)
        return
    out.print(f"[bold]{escape(outline['name'])}[/bold]  {escape(outline['description'])}")
    out.print(escape(outline["file"]), style="dim", soft_wrap=True)
    _table("parameter", "default", rows=[[key, _value(value)] for key, value in outline["parameters"].items()])
    _table("operation", "is", rows=[[key, ", ".join(kinds)] for key, kinds in outline["operations"].items()])
    rows = [
        [
            p["name"],
            "prepares" if p["prepares"] else "optional" if p["optional"] else "",
            p["ends"],
            "; ".join(_load(s) for s in p["streams"]),
        ]
        for p in outline["phases"]
    ]
    _table("phase", "", "ends", "load", rows=rows)


def _list(as_json: bool) -> None:
    """Print names and descriptions of the built-in workloads to standard output, as JSON or as a table."""
    from loadframe.workload import library

    listed = [{"name": workload.name, "description": workload.file.description} for workload in library()]
    if as_json:
        print_json(listed)
        return
    table = Table("workload", "", box=None, pad_edge=False)
    for workload in listed:
        table.add_row(workload["name"], escape(workload["description"]))
    out.print(table)


def _outline(workload: "Workload") -> dict[str, Any]:
    """Return a workload as documented for --json. Durations in s, rates in 1/s."""
    from loadframe.workload.forms import every_form

    file = workload.fill(1).file
    return {
        "name": file.workload,
        "description": file.description,
        "file": str(workload.document.path),
        "parameters": dict(workload.defaults),
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
    }


def _stream(stream: "Stream") -> dict[str, Any]:
    """Return a stream for --json: name, operations by weight, and the keys of its load model."""
    pacing = stream.model_dump(exclude={"name", "operation", "mix"}, exclude_none=True)
    return {"name": stream.name, "mix": stream.weights, **pacing}


def _end(phase: "Phase") -> str:
    """Return the end condition of a phase as text."""
    if phase.duration is not None:
        warmup = f" after {_length_text(phase.warmup)}" if phase.warmup else ""
        return _length_text(phase.duration) + warmup
    if phase.requests is None:
        return "with the corpus"
    return f"after {counted(phase.requests, 'request')}"


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
        return f"{what}, {format_count(stream['rate'])}/s"
    if "source" in stream:
        return f"{what}, events of {stream['source']} on {counted(stream['workers'], 'worker')}"
    think = f", thinking {format_duration(stream['think_time'])}" if stream.get("think_time") else ""
    return f"{what}, {counted(stream['clients'], 'client')}{think}"


def _value(value: Any) -> str:
    """Return a parameter's value as text: JSON, except for texts that are not empty."""
    return value if isinstance(value, str) and value else json.dumps(value)


def _table(*heads: str, rows: list[list[str]]) -> None:
    """Print a table with these column titles to standard output; nothing without rows. Values are not markup."""
    if not rows:
        return
    table = Table(box=None, pad_edge=False)
    for index, head in enumerate(heads):
        table.add_column(head, no_wrap=index == 0)  # never cut names: users copy them
    for row in rows:
        table.add_row(*(escape(cell) for cell in row))
    out.print()
    out.print(table)
