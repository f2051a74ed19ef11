"""`loadframe demo`: measure how a real cluster on this machine scales, and report a conclusion."""

from pathlib import Path
from typing import Annotated

import typer

from loadframe.cli.app import app
from loadframe.cli.output import Json, out, tell
from loadframe.cli.run import carry_out
from loadframe.cli.web import published

_EXAMPLES = """\b
Examples:
  loadframe demo
  loadframe demo --output /tmp/demo
"""


@app.command(epilog=_EXAMPLES)
def demo(
    output: Annotated[Path, typer.Option(help="Folder of the experiment. Repeat the command to resume it.")] = Path(
        "results/demo"
    ),
    as_json: Json = False,
) -> None:
    """Start real clusters of one to four nodes, load them, and report how they scale. It takes about five minutes."""
    from loadframe.library.experiment import Experiment
    from loadframe.library.plan import planned_runs

    planned = planned_runs(Experiment.demo().planned(), output)
    with published("demo", planned.experiment.name, output, None) as live:
        carry_out(planned, live, retry_failed=True, as_json=as_json)
    sentence = Experiment._opened(output).conclusion()
    if as_json:
        tell(sentence)
    else:
        out.print(f"\n{sentence}", markup=False, highlight=False, style="bold")
    report = (output / "report.html").resolve()
    tell(f"\nThe report: {report.as_uri()}")
