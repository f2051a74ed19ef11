"""`loadframe doctor`: check this machine for clusters and measurements."""

import dataclasses
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from loadframe.base import folders
from loadframe.base.errors import ExitCode
from loadframe.base.units import format_count, format_duration
from loadframe.cli.app import app
from loadframe.cli.output import Json, out, print_json, tell
from loadframe.cluster import checks

_EXAMPLES = """\b
Examples:
  loadframe doctor
  loadframe doctor --network
  loadframe doctor --json | jq '.[] | select(.state != "ok")'
"""
_STYLES = {"ok": "green", "limited": "yellow", "optional": "dim", "lacking": "red"}


@app.command(epilog=_EXAMPLES)
def doctor(
    network: Annotated[
        bool, typer.Option("--network", help="Also download a small file from the package registry.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Check whether this machine can run clusters and precise measurements.

    The exit code is 1 if it cannot start an embedded store.
    """
    results = [*checks.checks(network), _calibration()]
    if as_json:
        print_json([dataclasses.asdict(check) for check in results])
    else:
        table = Table(box=None, pad_edge=False, show_header=False)
        for check in results:
            text = check.finding + (f"\n  {check.remedy}" if check.remedy else "")
            table.add_row(check.name, Text(check.state, style=_STYLES[check.state]), Text(text, overflow="fold"))
        out.print(table)
    lacking = [check.name for check in results if check.state == "lacking"]
    if lacking:
        tell(f"This machine cannot start embedded stores: see {', '.join(lacking)}.")
        raise typer.Exit(ExitCode.FAILED)


def _calibration() -> checks.Check:
    """Return the check of this machine's calibration: `optional` without one, `limited` if it must be repeated."""
    from loadframe.load import Calibration

    known = Calibration.load(folders.cache())
    if known is None:
        finding = "not done: verdicts do not consider the generator's limits"
        return checks.Check("calibration", "optional", finding, "run `loadframe calibrate`, which takes two minutes")
    words = [f"{name} {format_count(entry.requests)} requests/s a core" for name, entry in known.drivers.items()]
    late = [entry for ceiling in known.drivers.values() for entry in ceiling.lateness if entry.rate == 10_000]
    if late:
        words.append(f"late by up to {format_duration(max(entry.p99 for entry in late))} at 10,000/s")
    finding = f"of {known.measured[:10]}: {', '.join(words)}"
    if known.doubt:
        return checks.Check("calibration", "limited", f"{finding}; {known.doubt}", "run `loadframe calibrate` again")
    return checks.Check("calibration", "ok", finding)
