"""`loadframe demo`: measure how a real cluster on this machine scales, and report a conclusion."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loadframe.cli.app import app
from loadframe.cli.output import Json, out, tell
from loadframe.cli.run import carry_out
from loadframe.cli.web import published

if TYPE_CHECKING:
    from loadframe.analyze.scale.sweep import Sweep

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
    from loadframe.analyze.scale.sweep import read_sweep
    from loadframe.experiment.demo import demo_experiment
    from loadframe.experiment.design.plans import design

    loaded = demo_experiment()
    with published("demo", loaded.name, output, None) as live:
        carry_out(loaded, design(loaded), output, live, retry_failed=True, as_json=as_json)
    sweep = read_sweep(output)
    # The remaining runs do not support a conclusion.
    failed = [f"No conclusion: {level.cause}." for curves in sweep.curves for level in curves.failed]
    sentence = failed[0] if failed else conclusion(sweep)
    if as_json:
        tell(sentence)
    else:
        out.print(f"\n{sentence}", markup=False, highlight=False, style="bold")
    report = (output / "report.html").resolve()
    tell(f"\nThe report: {report.as_uri()}")


def conclusion(sweep: "Sweep") -> str:
    """Return the conclusion about more nodes, or the reason why the data do not support one."""
    from loadframe.report.numbers import estimate_text

    rows = sweep.curves[0].speedups
    invalid = sum(not run.sound for run in sweep.folder.runs)
    left_out = f" {invalid} of {len(sweep.folder.runs)} runs were invalid." if invalid else ""
    again = "Stop other programs on this machine, and run the demo again in another folder (--output)."
    if len(rows) < 2 or not rows[-1].speedup.is_finite:
        return f"No conclusion: too few valid runs.{left_out} {again}"
    few, many, ratio = rows[0].treatment.nodes, rows[-1].treatment.nodes, rows[-1].speedup
    words = f"{estimate_text(ratio)} times the throughput on {many} nodes instead of {few} (95 % interval in brackets)"
    if ratio.low > 1:
        return f"Conclusion: more nodes answer more requests, {words}."
    if ratio.high < 1:
        return f"Conclusion: more nodes answered fewer requests, {words}."
    return f"No conclusion: these runs do not show whether more nodes answer more requests, {words}.{left_out} {again}"
