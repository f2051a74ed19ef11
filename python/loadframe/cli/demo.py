"""`loadframe demo`: measure how a real cluster on this machine scales, and report a conclusion."""

import os
import re
import tempfile
from collections.abc import Collection, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loadframe.base.errors import BadInput
from loadframe.base.units import counted
from loadframe.cli.app import app
from loadframe.cli.output import Json, out, tell
from loadframe.cli.run import carry_out
from loadframe.cli.web import published

if TYPE_CHECKING:
    from loadframe.analyze.scale.sweep import Sweep
    from loadframe.experiment.experiment import Experiment

#: Cluster sizes in demo.yaml. Without CPU limits, only sizes with a core for each node and the generator are used.
_NODES = (1, 2, 4)
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
    """Return the conclusion about more nodes, or the reason why the data do not support one.

    It compares the throughput of the largest cluster with that of the smallest.
    """
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


def demo_experiment() -> "Experiment":
    """Return the demo experiment for this machine; BadInput without CPU limits and with fewer than three cores."""
    from loadframe.cluster import ClusterSpec, Limits
    from loadframe.experiment.file.reader import load_experiment

    _, obstacle = ClusterSpec().place().machines[0].limited_by(Limits(cpus=0.1), Path.cwd())
    text = demo_text(sorted(os.sched_getaffinity(0)), obstacle)
    with tempfile.TemporaryDirectory(prefix="loadframe-demo-") as folder:
        path = Path(folder) / "demo.yaml"
        path.write_text(text, encoding="utf-8")
        return load_experiment(path)


def demo_text(cores: Sequence[int], obstacle: str | None) -> str:
    """Return the experiment file for a machine with these usable cores.

    `obstacle` is the reason why CPU limits cannot be enforced; None if they can. Without limits, fewer than three cores
    raise BadInput.
    """
    text = (files("loadframe.experiment") / "demo.yaml").read_text(encoding="utf-8")
    if obstacle is None:
        # The first core is reserved for the generator, unless it is the only one.
        others = f", cores: {_core_list(cores[1:])}" if len(cores) > 1 else ""
        return _replaced(text, ", cores: 1}", others + "}")
    nodes = [number for number in _NODES if number < len(cores)]
    if len(nodes) < 2:
        count = counted(len(cores), "core")
        raise BadInput(
            f"the demo needs CPU limits, which cannot be enforced here, or three cores: one for each of two nodes and"
            f" one for the generator. This machine has {count}",
            where=obstacle,
            remedy="run it as root or on a machine with more cores; with systemd, try `systemd-run --user --scope -p"
            " Delegate=yes loadframe demo`",
        )
    text = re.sub(r"limits: \{.*\}", "limits: {cores: 1 each}", text)
    return _replaced(text, f"nodes: {list(_NODES)}", f"nodes: {nodes}")


def _replaced(text: str, before: str, after: str) -> str:
    """Return the text with `before`, which must occur exactly once, replaced by `after`."""
    assert text.count(before) == 1, f"demo.yaml must contain {before!r} exactly once"
    return text.replace(before, after)


def _core_list(cores: Collection[int]) -> str:
    """Return core numbers in the syntax of the file: `1`, or `"1,2,3"`."""
    words = ",".join(map(str, cores))
    return words if len(cores) == 1 else f'"{words}"'
