"""`loadframe workloads`: list the built-in workloads, or show one workload."""

from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from loadframe.cli import completion
from loadframe.cli.app import app
from loadframe.cli.output import Json, out, print_json

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
    from loadframe.library import workload
    from loadframe.workload import load_workload

    if name is not None:
        # Errors of Workload.load name the parameters of that function.
        outline = workload.Outline(workload._workload_of(load_workload(name)))
        if as_json:
            print_json(outline.as_dict())
        else:
            outline.show(out)
        return
    listed = workload.workloads()
    if as_json:
        print_json([{"name": built_in.name, "description": built_in.description} for built_in in listed])
        return
    table = Table("workload", "", box=None, pad_edge=False)
    for built_in in listed:
        table.add_row(built_in.name, escape(built_in.description))
    out.print(table)
