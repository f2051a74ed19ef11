"""`loadframe demo`: a real cluster on this machine, a sweep, a fitted curve, a report."""

from importlib.resources import as_file, files
from pathlib import Path
from typing import Annotated

import typer

from loadframe.cli.app import app
from loadframe.cli.output import err
from loadframe.cli.run import carry_out

_EXAMPLES = """\b
Examples:
  loadframe demo
  loadframe demo --output /tmp/demo
"""


@app.command(epilog=_EXAMPLES)
def demo(
    output: Annotated[Path, typer.Option(help="The experiment's folder; a stopped demo goes on in it.")] = Path(
        "results/demo"
    ),
) -> None:
    """Start real clusters of one, two and three nodes, load them, and report how they scale."""
    from loadframe.experiment.design import design
    from loadframe.experiment.file import load_experiment

    with as_file(files("loadframe.experiment") / "demo.yaml") as path:
        loaded = load_experiment(path)
    carry_out(loaded, design(loaded), output, retry_failed=True, as_json=False)
    report = (output / "report.html").resolve()
    err.print(f"\nThe report: {report.as_uri()}", markup=False, highlight=False)
