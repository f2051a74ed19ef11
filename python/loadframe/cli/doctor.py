"""`loadframe doctor`: what this machine can do, and what it lacks."""

import dataclasses
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from loadframe.cli.app import Json, app, err, out, print_json
from loadframe.cluster import checks

_EXAMPLES = """\b
Examples:
  loadframe doctor
  loadframe doctor --network
  loadframe doctor --json | jq '.[] | select(.state != "ok")'
"""
_STYLES = {"ok": "green", "limited": "yellow", "lacking": "red"}


@app.command(epilog=_EXAMPLES)
def doctor(
    network: Annotated[bool, typer.Option("--network", help="Ask the package registry for a small file, too.")] = False,
    as_json: Json = False,
) -> None:
    """Say what this machine can do for clusters and measurements, and what it lacks.

    The exit status is 1 if an embedded store cannot be started here.
    """
    found = list(checks.checks(network))
    if as_json:
        print_json([dataclasses.asdict(check) for check in found])
    else:
        table = Table(box=None, pad_edge=False, show_header=False)
        for check in found:
            text = check.finding + (f"\n  {check.remedy}" if check.remedy else "")
            table.add_row(check.name, Text(check.state, style=_STYLES[check.state]), Text(text, overflow="fold"))
        out.print(table)
    lacking = [check.name for check in found if check.state == "lacking"]
    if lacking:
        err.print(f"Embedded stores cannot be started here: see {', '.join(lacking)}.", markup=False, highlight=False)
        raise typer.Exit(1)
