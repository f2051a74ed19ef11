"""`loadframe run`: a designed experiment, printed before, resumed after an interruption, reported at the end."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from loadframe import interrupts
from loadframe.cli.app import app
from loadframe.cli.choices import Ranks, Samples, Strict, start_ranks
from loadframe.cli.output import Json, out, print_json, tell
from loadframe.cli.web import Web, WebAddress, published, require_web
from loadframe.errors import BadInput, LoadframeError
from loadframe.units import format_nodes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from loadframe.experiment.deadline import Deadline
    from loadframe.experiment.design import Design
    from loadframe.experiment.experiment import Experiment
    from loadframe.experiment.file_factors import Level
    from loadframe.live.publisher import Publisher

#: Columns that no line of a design takes.
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
    experiment: Annotated[Path, typer.Argument(help="An experiment file.")],
    output: Annotated[Path | None, typer.Option(help="The experiment's folder; results/NAME if not given.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the runs and the expected time; start nothing.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Start an experiment that takes longer than a day.")] = False,
    ranks: Ranks = None,
    samples: Samples = False,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Make failed runs again. The report still lists the failed attempts.")
    ] = False,
    strict: Strict = False,
    web: Web = False,
    web_address: WebAddress = None,
    as_json: Json = False,
) -> None:
    """Run a designed experiment. The same command goes on where an earlier one stopped.

    Exit status 1: runs failed. 4: no run has a figure that can be used.
    """
    page = require_web(web, web_address)
    if not dry_run:
        start_ranks(ranks)
    from loadframe.experiment.design import design
    from loadframe.experiment.design_estimate import LONG, estimate, length_is_known, length_text
    from loadframe.experiment.file import load_experiment

    loaded = load_experiment(experiment)
    if samples:
        loaded = loaded.with_samples()
    planned = design(loaded)
    if dry_run:
        _print_design(loaded, planned, as_json)
        return
    most = loaded.kind.most(loaded)
    longest = estimate(most, loaded)
    if longest > LONG and not yes:
        known = length_is_known(loaded)
        most_words = "" if len(most.runs) == len(planned.runs) or not known else "at most "
        raise BadInput(
            f"the experiment takes {most_words}{length_text(longest, known)}",
            where=str(experiment),
            remedy="say --yes if that is meant, or take fewer levels or repetitions; --dry-run shows the runs",
        )
    path = output or Path("results") / loaded.name
    with published("run", loaded.name, path, page) as live:
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
    """Run what the folder lacks, then report.

    LoadframeError when runs have failed, NothingUsable when none has a figure, OutOfTime when the job ends.
    """
    from loadframe.cli.console import Console
    from loadframe.cli.report import require_usable, write_report
    from loadframe.experiment.design import describe
    from loadframe.experiment.folder import ExperimentFolder
    from loadframe.experiment.listener import Listeners
    from loadframe.experiment.loop import run_experiment

    folder = ExperimentFolder(path, describe(loaded, planned))
    if retry_failed:
        for failed in folder.failed():
            folder.set_aside(failed)
    tell(f"{_extent(loaded, planned)} in all; recorded in {path}")
    deadline = _deadline()
    try:
        with Console() as console, deadline.watched():
            run_experiment(loaded, planned, folder, Listeners(console, live), deadline)
    except KeyboardInterrupt:
        if deadline.interrupted:
            interrupts.answer()
            raise deadline.over() from None
        tell(f"stopped; the same command goes on with what is missing in {path}")
        raise
    live.reported(write_report(path, output=None, as_json=as_json))
    failed_runs = folder.failed()
    if failed_runs:
        raise LoadframeError(
            f"{len(failed_runs)} of {len(planned.runs)} runs failed",
            where=str(path),
            remedy="the report names them with their causes; --retry-failed makes them again",
        )
    require_usable(path, strict=strict)


def _deadline() -> "Deadline":
    """Return when the job ends that this command is part of; it is never over outside of Slurm."""
    from loadframe.experiment.deadline import NEVER, Deadline
    from loadframe.host import allocation

    try:
        given = allocation.current()
    except LoadframeError as error:
        tell(f"when this job ends is not known: {error.what}", style="yellow")
        return NEVER
    return Deadline(given.ends, f"job {given.job} of Slurm") if given else NEVER


def _extent(loaded: "Experiment", planned: "Design") -> str:
    """Return how many runs there will be and how long they take, with the most if that depends on what they say."""
    from loadframe.experiment.design_estimate import UNKNOWN, estimate, length_is_known, length_text

    known = length_is_known(loaded)
    words = f"{len(planned.runs)} runs, {length_text(estimate(planned, loaded), known)}"
    most = loaded.kind.most(loaded)
    if len(most.runs) != len(planned.runs):
        words += f", and at most {len(most.runs)} runs, {length_text(estimate(most, loaded), known)}"
    return words if known else f"{words} ({UNKNOWN})"


def _print_design(loaded: "Experiment", planned: "Design", as_json: bool) -> None:
    from loadframe.experiment.derived import values_of
    from loadframe.experiment.design import describe
    from loadframe.experiment.design_estimate import estimate, length_is_known

    if as_json:
        most = loaded.kind.most(loaded)
        expected = {
            "expected_seconds": round(estimate(planned, loaded)),
            "most_runs": len(most.runs),
            "most_seconds": round(estimate(most, loaded)),
            "length_known": length_is_known(loaded),
        }
        described = describe(loaded, planned)
        for entry, planned_run in zip(described["design"], planned.runs, strict=True):
            if values := values_of(loaded, planned_run.treatment):
                entry["follows"] = values
        print_json({**described, **expected})
        return
    out.print(f"{loaded.name}: {_extent(loaded, planned)}", markup=False, highlight=False, soft_wrap=True)
    table = Table(box=None, pad_edge=False)
    table.add_column("run")
    table.add_column("block", justify="right")
    factors = dict.fromkeys(name for entry in planned.runs for name in entry.treatment)
    # What expressions of the file are in each run.
    worked_out = {entry.id: values_of(loaded, entry.treatment) for entry in planned.runs}
    following = dict.fromkeys(name for values in worked_out.values() for name in values)
    for column in (*factors, *(f"= {name}" if name in factors else name for name in following)):
        table.add_column(column, justify="right")
    table.add_column("cluster")
    for group in planned.groups():
        for index, entry in enumerate(group):
            levels = (escape(str(entry.treatment.get(factor, ""))) for factor in factors)
            worked = worked_out[entry.id]
            follow = (f"{worked[name]:,}" if name in worked else "" for name in following)
            table.add_row(entry.id, str(entry.block), *levels, *follow, "" if index else "new")
    # Names are for typing and levels for checking: none may be cut, however many there are.
    table.width = out.measure(table, options=out.options.update(width=_WIDEST)).maximum
    out.print(table, crop=False)
    for line in dict.fromkeys(filter(None, (_cores(loaded, entry.treatment) for entry in planned.runs))):
        out.print(line, markup=False, highlight=False, soft_wrap=True)


def _cores(loaded: "Experiment", treatment: "Mapping[str, Level]") -> str | None:
    """Return which cores each node of a treatment gets on this machine, in words; None where they share them."""
    from loadframe.cluster import Cluster
    from loadframe.experiment.loop import spec_of

    spec = spec_of(loaded, treatment)
    try:
        dealt = Cluster.cores(spec)
    except BadInput as error:
        return f"cores of {format_nodes(spec.nodes)}: {error.what}"
    if dealt is None:
        return None
    return f"cores of {format_nodes(spec.nodes)}: {'; '.join(', '.join(map(str, node)) for node in dealt)}"
