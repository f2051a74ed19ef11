"""`loadframe run`: run or resume a designed experiment, and report on it."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loadframe.base.errors import BadInput, LoadframeError
from loadframe.base.units import counted
from loadframe.cli.app import Topic, app, option
from loadframe.cli.choices import Ranks, Samples, Strict, start_ranks
from loadframe.cli.output import Json, out, print_json, tell
from loadframe.cli.web import (
    MetricsAddress,
    Otlp,
    TracedShare,
    Web,
    WebAddress,
    published,
    require_outlets,
    require_web,
)

if TYPE_CHECKING:
    from loadframe.library.plan import PlannedRuns
    from loadframe.live.publisher import Publisher

_EXAMPLES = """\b
Examples:
  loadframe run nodes.yaml --dry-run
  loadframe run nodes.yaml
  loadframe run ranks.yaml --ranks 8
  loadframe run nodes.yaml --output results/second-try
"""


@app.command(epilog=_EXAMPLES)
def run(
    experiment: Annotated[Path, typer.Argument(help="Experiment file.")],
    output: Annotated[
        Path | None, option(Topic.OUTPUT, help="Folder of the experiment. Default: results/NAME.")
    ] = None,
    dry_run: Annotated[
        bool, option(Topic.EXPERIMENT, "--dry-run", help="Print the runs and the expected time. Start nothing.")
    ] = False,
    yes: Annotated[
        bool, option(Topic.EXPERIMENT, "--yes", help="Start even if the experiment takes longer than a day.")
    ] = False,
    ranks: Ranks = None,
    samples: Samples = False,
    retry_failed: Annotated[
        bool,
        option(
            Topic.EXPERIMENT, "--retry-failed", help="Repeat failed runs. The report still lists the failed attempts."
        ),
    ] = False,
    strict: Strict = False,
    web: Web = False,
    web_address: WebAddress = None,
    metrics: MetricsAddress = None,
    otlp: Otlp = None,
    trace: TracedShare = None,
    as_json: Json = False,
) -> None:
    """Run a designed experiment. Repeat the command to resume an interrupted one.

    Exit code 1: runs failed. 4: no run is valid. 75: the Slurm job ends before the last run; submit it again.
    """
    page, outlets = require_web(web, web_address), require_outlets(metrics, otlp, trace)
    if not dry_run:
        start_ranks(ranks)
    from loadframe.experiment.file.reader import load_experiment

    loaded = replace(load_experiment(experiment), trace=outlets.trace)
    # A refused file does not need the analyses.
    from loadframe.library.plan import DryRun, planned_runs

    planned = planned_runs(loaded, output, samples=samples)
    if dry_run:
        shown = DryRun(planned)
        if as_json:
            print_json(shown.as_dict())
        else:
            shown.show(out)
        return
    if not yes and (length := planned.too_long()):
        raise BadInput(
            f"the experiment takes {length}",
            where=str(experiment),
            remedy="give --yes to start it, or reduce levels or repetitions; --dry-run shows the runs",
        )
    with published("run", loaded.name, planned.path, page, outlets) as live:
        carry_out(planned, live, retry_failed=retry_failed, as_json=as_json, strict=strict)


def carry_out(
    planned: "PlannedRuns",
    live: "Publisher",
    *,
    retry_failed: bool,
    as_json: bool,
    strict: bool = False,
) -> None:
    """Run the missing runs of an experiment, then write the report in its folder and print the answer.

    LoadframeError if runs failed or an existing cluster is not restored, OutOfTime if the Slurm job ends first.
    NothingUsable if no run is valid; with `strict`, if one is invalid for a reason other than the store. `retry_failed`
    repeats failed runs of earlier calls.
    """
    from loadframe.cli.console import Console
    from loadframe.cli.report import write_report
    from loadframe.experiment.runner.existing import NotRestored
    from loadframe.experiment.runner.folder import opened_folder
    from loadframe.experiment.runner.listener import Listeners
    from loadframe.experiment.runner.loop import run_experiment
    from loadframe.library.plan import job_deadline
    from loadframe.library.reports import require_usable

    loaded, path = planned.experiment, planned.path
    with opened_folder(loaded, planned.design, path, retry_failed=retry_failed) as folder:
        tell(planned.left_text() or f"{planned.extent_text()} in all")
        deadline, unrestored = job_deadline(lambda text: tell(text, style="yellow")), None
        try:
            with Console(loaded.kind.entries[0]) as console, deadline.watched():
                run_experiment(loaded, planned.design, folder, Listeners(console, live), deadline)
        except NotRestored as error:
            unrestored = error
        except KeyboardInterrupt:
            tell(f"stopped; repeat the command to resume {path}")
            raise
        live.reported(write_report(path, output=None, as_json=as_json))
        failed_runs = folder.failed()
    if unrestored and not failed_runs:
        raise unrestored
    if failed_runs:
        if unrestored:
            tell(str(unrestored), style="yellow")
        raise LoadframeError(
            f"{len(failed_runs)} of {counted(len(planned.design.runs), 'run')} failed",
            where=str(path),
            remedy="the report gives the causes; --retry-failed repeats the runs",
        )
    require_usable(path, strict=strict)
