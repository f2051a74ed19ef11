"""`loadframe calibrate`: measure the load generator's own limits on this machine."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from loadframe.base.errors import GeneratorFailed
from loadframe.cli.app import app
from loadframe.cli.output import Json, err, out, print_json, tell

if TYPE_CHECKING:
    from loadframe.library.calibrate import Calibration
    from loadframe.library.progress import Progress as Begun
    from loadframe.ranks.children import ChildOfRank

_EXAMPLES = """\b
Examples:
  loadframe calibrate
  loadframe calibrate --quick
  loadframe calibrate --json | jq '.drivers.search.requests'
  mpirun --host node1,node2 loadframe calibrate
"""


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
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    from loadframe.library.calibrate import calibrate as measure

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

        def step(begun: "Begun") -> None:
            if not err.is_terminal:
                tell(f"  {(begun.index or 0) + 1} of {begun.total}: {begun.text}")
            bar.update(task, description=begun.text, completed=begun.index, total=begun.total)

        calibration = measure(quick=quick, progress=step)
        others = {machine: _finished(machine, program) for machine, program in elsewhere.items()}
    path = calibration.stored
    if as_json:
        other_machines = {"machines": {machine: other.as_dict() for machine, other in others.items()}} if others else {}
        print_json({**calibration.as_dict(), "kept": path and str(path), **other_machines})
        return
    _print(calibration)
    tell(f"stored in {path}" if path else "not stored, because a complete calibration of this machine exists")
    for machine, other in others.items():
        out.print(f"\n{machine}", markup=False, highlight=False)
        _print(other)


def _print(calibration: "Calibration") -> None:
    """Print a calibration to standard output, and its warnings to standard error."""
    calibration.show(out)
    for warning in calibration.warnings:
        tell(warning, style="yellow")


def _start_elsewhere(quick: bool) -> dict[str, "ChildOfRank"]:
    """Start `calibrate --json` (with `quick`, also `--quick`) through one rank of every other machine that has ranks.

    Returns the handles of the programs by machine; empty without ranks.
    """
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
    from loadframe.library.calibrate import Calibration
    from loadframe.load import Calibration as Measured

    output = b"".join(iter(program.receive, b""))
    if program.status() != 0:
        raise GeneratorFailed(f"calibration failed: {program.words()}", where=machine)
    result = json.loads(output)
    return Calibration(Measured.from_dict({key: result[key] for key in result if key not in ("doubt", "kept")}))
