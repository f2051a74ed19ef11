"""`loadframe calibrate`: measure the load generator's own limits on this machine."""

from typing import TYPE_CHECKING, Annotated

import typer

from loadframe.cli.app import app
from loadframe.cli.output import Json, err, out, print_json, tell

if TYPE_CHECKING:
    from loadframe.library.progress import Progress as Begun

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
    if as_json:
        print_json(calibration.as_dict())
        return
    calibration.show(out)
    for warning in calibration.warnings:
        tell(warning, style="yellow")
    path = calibration.stored
    tell(f"stored in {path}" if path else "not stored, because a complete calibration of this machine exists")
