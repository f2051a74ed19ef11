"""`loadframe plan`: simulate the precision of an experiment, before or during it."""

from pathlib import Path
from typing import Annotated

import typer

from loadframe.cli.app import app
from loadframe.cli.choices import option_name
from loadframe.cli.output import Json, out, print_json

_EXAMPLES = """\b
Examples:
  loadframe plan nodes.yaml
  loadframe plan nodes.yaml --sigma 0.1 --kappa 0.001 --noise 0.05
  loadframe plan results/nodes --budget 30
"""


@app.command(epilog=_EXAMPLES)
def plan(
    path: Annotated[Path, typer.Argument(help="Experiment file, or folder of an unfinished experiment.")],
    sigma: Annotated[float | None, typer.Option(help="Assumed contention. Default: 0.03.")] = None,
    kappa: Annotated[float | None, typer.Option(help="Assumed coherency. Default: 0.0005.")] = None,
    noise: Annotated[
        float | None, typer.Option(help="Assumed run-to-run variance, as a relative standard deviation. Default: 0.03.")
    ] = None,
    budget: Annotated[int | None, typer.Option(help="Maximum number of runs of a design.")] = None,
    generators: Annotated[
        int | None,
        typer.Option(min=0, help="Additional machines for ranks only; see `loadframe slurm`."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Simulate how precise an experiment will be. Starts nothing.

    For a file, contention, coherency and run-to-run variance are assumed. For a folder, its runs provide them.
    """
    from loadframe.experiment.file.reader import load_experiment

    loaded = path if path.is_dir() else load_experiment(path)
    # A refused file does not need the simulation.
    from loadframe.library.plan import assumed_law, plan_of

    planned = plan_of(loaded, assumed_law(sigma, kappa, noise, option_name), budget, generators)
    if as_json:
        print_json(planned.as_dict())
    else:
        planned.show(out)
