"""`loadframe run`: run or resume a designed experiment, and report on it."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from loadframe.base import interrupts
from loadframe.base.errors import BadInput, LoadframeError
from loadframe.base.units import counted, format_nodes
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
    from collections.abc import Mapping

    from loadframe.experiment.design import Design
    from loadframe.experiment.experiment import Experiment
    from loadframe.experiment.file.factors import Level
    from loadframe.experiment.runner.loop import Deadline
    from loadframe.live.publisher import Publisher

#: More columns than any line of a design has.
_WIDEST = 10_000

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
    from loadframe.experiment.design.estimate import LONG, estimate, length_is_known, length_text
    from loadframe.experiment.design.plans import design
    from loadframe.experiment.file.reader import load_experiment

    loaded = load_experiment(experiment)
    if samples:
        loaded = loaded.with_samples()
    loaded = replace(loaded, trace=outlets.trace)
    path = output or Path("results") / loaded.name
    loaded = loaded.with_measured_rates(path)
    planned = design(loaded)
    if dry_run:
        _print_design(loaded, planned, path, as_json)
        return
    most = loaded.kind.largest_design(loaded)
    longest = estimate(most, loaded)
    if longest > LONG and not yes:
        known = length_is_known(loaded)
        most_words = "" if len(most.runs) == len(planned.runs) or not known else "at most "
        raise BadInput(
            f"the experiment takes {most_words}{length_text(longest, known)}",
            where=str(experiment),
            remedy="give --yes to start it, or reduce levels or repetitions; --dry-run shows the runs",
        )
    with published("run", loaded.name, path, page, outlets) as live:
        carry_out(loaded, planned, path, live, retry_failed=retry_failed, as_json=as_json, strict=strict)


def carry_out(
    loaded: "Experiment",
    planned: "Design",
    path: Path,
    live: "Publisher",
    *,
    retry_failed: bool,
    as_json: bool,
    strict: bool = False,
) -> None:
    """Run the missing runs of the folder `path`, then write the report there and print its answer.

    LoadframeError if runs failed or an existing cluster is not restored, OutOfTime if the Slurm job ends first.
    NothingUsable if no run is valid; with `strict`, if one is invalid for a reason other than the store. `retry_failed`
    repeats failed runs of earlier calls.
    """
    from loadframe.cli.console import Console
    from loadframe.cli.report import write_report
    from loadframe.experiment.runner.existing import NotRestored
    from loadframe.experiment.runner.folder import opened_folder, recorded_count
    from loadframe.experiment.runner.listener import Listeners
    from loadframe.experiment.runner.loop import run_experiment
    from loadframe.library.reports import require_usable

    folder = opened_folder(loaded, planned, path, retry_failed=retry_failed)
    if recorded_count(loaded, planned, path) is None:
        tell(f"{_extent(loaded, planned)} in all")
    else:
        tell(_left_text(loaded, planned, path))
    deadline, unrestored = _deadline(), None
    try:
        with Console(loaded.kind.entries[0]) as console, deadline.watched():
            run_experiment(loaded, planned, folder, Listeners(console, live), deadline)
    except NotRestored as error:
        unrestored = error
    except KeyboardInterrupt:
        if deadline.interrupted:
            interrupts.answer()
            raise deadline.over() from None
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
            f"{len(failed_runs)} of {counted(len(planned.runs), 'run')} failed",
            where=str(path),
            remedy="the report gives the causes; --retry-failed repeats the runs",
        )
    require_usable(path, strict=strict)


def _deadline() -> "Deadline":
    """Return the end of the Slurm job that runs this command; NEVER outside of Slurm.

    If Slurm does not give the end of the job, prints a warning and returns NEVER.
    """
    from loadframe.experiment.runner.loop import NEVER, Deadline
    from loadframe.host import slurm

    try:
        given = slurm.current()
    except LoadframeError as error:
        tell(f"the end of this job is unknown: {error.what}", style="yellow")
        return NEVER
    return Deadline(given.ends, f"job {given.job} of Slurm") if given else NEVER


def _extent(loaded: "Experiment", planned: "Design") -> str:
    """Return the number and duration of the runs as text, with the maximum if it depends on results."""
    from loadframe.experiment.design.estimate import estimate, least_estimate, length_text, why_unknown

    unknown = why_unknown(loaded)
    known = unknown is None

    def length(design: "Design") -> str:
        return length_text(estimate(design, loaded), known, least_estimate(design, loaded))

    entries = loaded.kind.entries
    words = f"{counted(len(planned.runs), *entries)}, {length(planned)}"
    most = loaded.kind.largest_design(loaded)
    if len(most.runs) != len(planned.runs):
        words += f", and at most {counted(len(most.runs), *entries)}, {length(most)}"
    return words if known else f"{words} ({unknown})"


def _left_text(loaded: "Experiment", planned: "Design", path: Path) -> str:
    """Return the number and duration of the missing runs as text; if none is missing, how to repeat them."""
    from loadframe.experiment.design.estimate import estimate, least_estimate, length_text, why_unknown
    from loadframe.experiment.runner.folder import recorded_count

    count = recorded_count(loaded, planned, path)
    if count is None:
        return _extent(loaded, planned)
    left = count.remaining()
    if not left.runs:
        return (
            f"finished: {count.recorded_text()} in {path}. To repeat the experiment, give another folder with --output"
        )
    unknown = why_unknown(loaded)
    expected = length_text(estimate(left, loaded), unknown is None, least_estimate(left, loaded))
    one, several = loaded.kind.entries
    verb = "remains" if len(left.runs) == 1 else "remain"
    words = f"{count.recorded_text()} in {path}; {counted(len(left.runs), one, several)} {verb}, {expected}"
    return words if unknown is None else f"{words} ({unknown})"


def _print_design(loaded: "Experiment", planned: "Design", path: Path, as_json: bool) -> None:
    """Print the runs of a design and the expected time, as JSON or as a table; for --dry-run."""
    from loadframe.experiment.design.estimate import estimate, least_estimate, length_is_known
    from loadframe.experiment.design.plans import describe
    from loadframe.experiment.experiment import expression_values
    from loadframe.experiment.file.existing import not_checked, not_observed
    from loadframe.experiment.runner.folder import recorded_count

    if as_json:
        most = loaded.kind.largest_design(loaded)
        expected: dict[str, Any] = {
            "expected_seconds": round(estimate(planned, loaded)),
            "least_seconds": round(least_estimate(planned, loaded)),
            "most_runs": len(most.runs),
            "most_seconds": round(estimate(most, loaded)),
            "length_known": length_is_known(loaded),
        }
        count = recorded_count(loaded, planned, path)
        left = count.remaining() if count else most
        expected |= {"remaining_runs": len(left.runs), "remaining_seconds": round(estimate(left, loaded))}
        described = describe(loaded, planned)
        if unseen := not_observed(loaded):
            expected["not_observed"] = unseen
        if unchecked := not_checked(loaded):
            expected["not_checked"] = unchecked
        for entry, planned_run in zip(described["design"], planned.runs, strict=True):
            if values := expression_values(loaded, planned_run.treatment):
                entry["follows"] = values
        print_json({**described, **expected})
        return
    out.print(f"{loaded.name}: {_left_text(loaded, planned, path)}", markup=False, highlight=False, soft_wrap=True)
    table = Table(box=None, pad_edge=False)
    table.add_column("run")
    table.add_column("block", justify="right")
    factors = dict.fromkeys(name for entry in planned.runs for name in entry.treatment)
    # Values of the file's expressions in each run.
    derived = {entry.id: expression_values(loaded, entry.treatment) for entry in planned.runs}
    following = dict.fromkeys(name for values in derived.values() for name in values)
    for column in (*factors, *(f"= {name}" if name in factors else name for name in following)):
        table.add_column(column, justify="right")
    table.add_column("cluster")
    for group in planned.groups():
        for index, entry in enumerate(group):
            levels = (escape(str(entry.treatment.get(factor, ""))) for factor in factors)
            values = derived[entry.id]
            follow = (f"{values[name]:,}" if name in values else "" for name in following)
            table.add_row(
                entry.id, str(entry.block), *levels, *follow, "" if index else "existing" if loaded.exists else "new"
            )
    # Never cut names and levels: users copy and check them.
    table.width = out.measure(table, options=out.options.update(width=_WIDEST)).maximum
    out.print(table, crop=False)
    cores = dict.fromkeys(filter(None, (_cores(loaded, entry.treatment) for entry in planned.runs)))
    for line in filter(None, (*cores, *not_observed(loaded), not_checked(loaded))):
        out.print(line, markup=False, highlight=False, soft_wrap=True)


def _cores(loaded: "Experiment", treatment: "Mapping[str, Level]") -> str | None:
    """Return the cores of each node of a treatment as text, or the reason why they cannot be assigned.

    Return None if the nodes share their cores.
    """
    from loadframe.cluster import Cluster
    from loadframe.experiment.runner.loop import spec_of

    spec = spec_of(loaded, treatment)
    try:
        assigned = Cluster.cores(spec)
    except BadInput as error:
        return f"cores of {format_nodes(spec.nodes)}: {error.what}"
    if assigned is None:
        return None
    return f"cores of {format_nodes(spec.nodes)}: {'; '.join(', '.join(map(str, node)) for node in assigned)}"
