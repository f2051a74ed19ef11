"""`loadframe calibrate`: what the generator itself is good for on this machine."""

import json
import os
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from loadframe import folders
from loadframe.cli.app import app
from loadframe.cli.output import Json, err, out, print_json, tell
from loadframe.errors import GeneratorFailed
from loadframe.report.labels import seconds_text
from loadframe.units import format_count, format_duration, format_share

if TYPE_CHECKING:
    from loadframe.load import Calibration
    from loadframe.load.calibration import Lateness
    from loadframe.ranks.children import ChildOfRank

_EXAMPLES = """\b
Examples:
  loadframe calibrate
  loadframe calibrate --quick
  loadframe calibrate --json | jq '.drivers.search.requests'
  mpirun --host node1,node2 loadframe calibrate
"""
#: Below this, an offered rate was not reached, and its lateness only says how far behind the generator fell.
_ACHIEVED = 0.99


@app.command(epilog=_EXAMPLES)
def calibrate(
    quick: Annotated[
        bool, typer.Option("--quick", help="A first idea within seconds; no verdict rests on it.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Measure what the generator itself is good for on this machine, against a server that does nothing.

    For each driver: requests and documents per second of one core, the CPU time that each costs, and how late
    requests of an open load are sent. The figures are kept, and later runs that come near them are doubted. It takes
    under a minute; leave the machine alone meanwhile. Started as several ranks it measures each of their machines.
    """
    from loadframe.load.calibrate import calibrate as measure
    from loadframe.load.calibrate import measurable

    elsewhere = _start_elsewhere(quick)
    with Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=err,
        transient=True,
        disable=not err.is_terminal,
    ) as bar:
        task = bar.add_task("", total=None)

        def step(what: str, index: int, total: int) -> None:
            if not err.is_terminal:
                tell(f"  {index + 1} of {total}: {what}")
            bar.update(task, description=what, completed=index, total=total)

        calibration = measure(measurable(), quick=quick, tell=step)
        others = {machine: _finished(machine, program) for machine, program in elsewhere.items()}
    path = calibration.save(folders.cache())
    if as_json:
        told = {"machines": {machine: _described(other) for machine, other in others.items()}} if others else {}
        print_json({**_described(calibration), "kept": str(path), **told})
        return
    print_calibration(calibration)
    tell(f"kept in {path}")
    for machine, other in others.items():
        out.print(f"\n{machine}", markup=False, highlight=False)
        print_calibration(other)


def _described(calibration: "Calibration") -> dict[str, Any]:
    return {**calibration.as_dict(), "doubt": calibration.doubt}


def _start_elsewhere(quick: bool) -> dict[str, "ChildOfRank"]:
    """Start this command on the other machines that have ranks, by a rank of each; nothing where there are none."""
    from loadframe.load import present
    from loadframe.ranks.launch import PROGRAM

    hub = present()
    if hub is None:
        return {}
    here, *others = hub.ranks()
    first = {rank.machine: rank.rank for rank in reversed(others) if rank.machine != here.machine}
    command = [*PROGRAM, "calibrate", "--json", *(["--quick"] if quick else [])]
    return {machine: hub.start(first[machine], command) for machine in sorted(first)}


def _finished(machine: str, program: "ChildOfRank") -> "Calibration":
    """Wait for the command on another machine, and return what it has measured; GeneratorFailed without figures."""
    from loadframe.load.calibration import Calibration

    said = b"".join(iter(program.receive, b""))
    if program.status() != 0:
        raise GeneratorFailed(f"the machine could not be calibrated: {program.words()}", where=machine)
    told = json.loads(said)
    return Calibration.from_dict({key: value for key, value in told.items() if key not in ("doubt", "kept")})


def print_calibration(calibration: "Calibration") -> None:
    """Print the figures, one driver a column, and what is to be doubted about them."""
    table = Table("per core", box=None, padding=(0, 3, 0, 0), header_style="dim")
    for name in calibration.drivers:
        table.add_column(name, justify="right")
    drivers = calibration.drivers.values()
    table.add_row("requests/s", *(format_count(ceiling.requests) for ceiling in drivers))
    table.add_row("CPU a request", *(format_duration(ceiling.cpu_per_request) for ceiling in drivers))
    table.add_row(
        "documents/s", *("–" if ceiling.documents is None else format_count(ceiling.documents) for ceiling in drivers)
    )
    table.add_row("CPU a document", *(seconds_text(ceiling.cpu_per_document) for ceiling in drivers))
    for same_rate in zip(*(ceiling.lateness for ceiling in drivers), strict=True):
        table.add_row(f"late at {same_rate[0].rate:,.0f}/s", *map(_late, same_rate))
    out.print(table)
    out.print("late: from scheduled to sent, median and 99th percentile", style="dim", highlight=False)
    if len(os.sched_getaffinity(0)) == 1:
        tell("The server shared the only core: requests are later than they would be otherwise.", style="yellow")
    if calibration.doubt:
        words = f"Not used for verdicts: {calibration.doubt}."
        if not calibration.quick:
            words += " Stop what else runs on this machine, and calibrate again."
        tell(words, style="yellow")


def _late(lateness: "Lateness") -> str:
    if lateness.achieved < _ACHIEVED:
        return f"{format_share(lateness.achieved)} reached"
    return f"{format_duration(lateness.p50)}, {format_duration(lateness.p99)}"
