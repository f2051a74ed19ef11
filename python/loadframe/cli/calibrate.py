"""`loadframe calibrate`: measure the load generator's own limits on this machine."""

import json
import os
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from loadframe.base import folders
from loadframe.base.errors import GeneratorFailed
from loadframe.base.units import format_count, format_duration, format_share
from loadframe.cli.app import app
from loadframe.cli.output import Json, err, out, print_json, tell
from loadframe.report.labels import seconds_text

if TYPE_CHECKING:
    from loadframe.load import Calibration
    from loadframe.load.calibrate import Lateness
    from loadframe.ranks.children import ChildOfRank

_EXAMPLES = """\b
Examples:
  loadframe calibrate
  loadframe calibrate --quick
  loadframe calibrate --json | jq '.drivers.search.requests'
  mpirun --host node1,node2 loadframe calibrate
"""
#: Minimum share of the offered rate at which lateness is meaningful.
_ACHIEVED = 0.99


@app.command(epilog=_EXAMPLES)
def calibrate(
    quick: Annotated[bool, typer.Option("--quick", help="Rough figures in about 40 s. No verdict uses them.")] = False,
    as_json: Json = False,
) -> None:
    """Measure the load generator's own limits on this machine, against a server that does nothing.

    For each driver, it measures requests and documents per second of one core, their CPU time, and the lateness of
    requests in an open loop. Loadframe stores the figures, and questions later runs that come close to them. It takes
    two minutes; keep the machine idle. With several ranks, it measures each of their machines.
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

        def step(name: str, index: int, total: int) -> None:
            if not err.is_terminal:
                tell(f"  {index + 1} of {total}: {name}")
            bar.update(task, description=name, completed=index, total=total)

        calibration = measure(measurable(), quick=quick, tell=step)
        others = {machine: _finished(machine, program) for machine, program in elsewhere.items()}
    path = calibration.save(folders.cache())
    if as_json:
        other_machines = (
            {"machines": {machine: _described(other) for machine, other in others.items()}} if others else {}
        )
        print_json({**_described(calibration), "kept": path and str(path), **other_machines})
        return
    print_calibration(calibration)
    tell(f"stored in {path}" if path else "not stored, because a complete calibration of this machine exists")
    for machine, other in others.items():
        out.print(f"\n{machine}", markup=False, highlight=False)
        print_calibration(other)


def _described(calibration: "Calibration") -> dict[str, Any]:
    return {**calibration.as_dict(), "doubt": calibration.doubt}


def _start_elsewhere(quick: bool) -> dict[str, "ChildOfRank"]:
    """Start this command on every other machine that has ranks, through one rank of each."""
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
    """Wait for the command on another machine and return its figures. GeneratorFailed if it fails."""
    from loadframe.load.calibrate import Calibration

    output = b"".join(iter(program.receive, b""))
    if program.status() != 0:
        raise GeneratorFailed(f"calibration failed: {program.words()}", where=machine)
    result = json.loads(output)
    return Calibration.from_dict({key: value for key, value in result.items() if key not in ("doubt", "kept")})


def print_calibration(calibration: "Calibration") -> None:
    """Print the figures, one driver in each row, and doubts about them."""
    drivers = calibration.drivers.items()
    capacity = Table(box=None, padding=(0, 3, 0, 0), header_style="dim")
    capacity.add_column("per core")
    for title in ("requests/s", "CPU per request", "documents/s", "CPU per document"):
        capacity.add_column(title, justify="right")
    for name, ceiling in drivers:
        documents = "–" if ceiling.documents is None else format_count(ceiling.documents)
        capacity.add_row(
            name,
            format_count(ceiling.requests),
            format_duration(ceiling.cpu_per_request),
            documents,
            seconds_text(ceiling.cpu_per_document),
        )
    late = Table(box=None, padding=(0, 3, 0, 0), header_style="dim")
    late.add_column("late at")
    for lateness in next(iter(calibration.drivers.values())).lateness:
        late.add_column(f"{lateness.rate:,.0f}/s", justify="right")
    for name, ceiling in drivers:
        late.add_row(name, *map(_late, ceiling.lateness))
    out.print(capacity)
    out.print()
    out.print(late)
    out.print("late: from scheduled to sent, median and 99th percentile", style="dim", highlight=False)
    if len(os.sched_getaffinity(0)) == 1:
        tell("Generator and server shared the only core, which increases the lateness.", style="yellow")
    if calibration.doubt:
        sentence = f"Verdicts do not use these figures: {calibration.doubt}."
        if not calibration.quick:
            sentence += " Stop other programs on this machine, and calibrate again."
        tell(sentence, style="yellow")


def _late(lateness: "Lateness") -> str:
    if lateness.achieved < _ACHIEVED:
        return f"{format_share(lateness.achieved)} reached"
    return f"{format_duration(lateness.p50)}, {format_duration(lateness.p99)}"
