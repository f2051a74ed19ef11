"""`loadframe slurm`: an experiment as a job of Slurm, by a batch script that a person can read."""

import math
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loadframe.cli.app import app
from loadframe.cli.output import Json, out, print_json, tell
from loadframe.errors import BadInput
from loadframe.units import format_duration, parse_duration

if TYPE_CHECKING:
    from loadframe.experiment.batch import Batch
    from loadframe.experiment.experiment import Experiment
    from loadframe.experiment.extent import Extent

#: Time that is asked for beyond what is expected, as a share and at least, s; in steps of, s.
_SPARE, _LEAST_SPARE, _STEP = 0.25, 600.0, 300.0
#: Seconds for the controller to answer.
_ANSWER_WITHIN = 60.0

_EXAMPLES = """\b
Examples:
  loadframe slurm whole.yaml --nodes 3 --generators 1 --ranks-per-node 24
  loadframe slurm whole.yaml --ranks-per-node 8 --time 4h --sbatch=-Aphysics --submit
  loadframe slurm whole.yaml --ranks-per-node 8 --time 1h --again --submit
  loadframe slurm whole.yaml --setup "module load python openmpi" --script job.sh
"""


@app.command(epilog=_EXAMPLES)
def slurm(
    experiment: Annotated[Path, typer.Argument(help="An experiment file, with store: {host: slurm}.")],
    nodes: Annotated[
        int | None,
        typer.Option(min=1, help="Machines for the store's nodes; what the largest cluster needs if not given."),
    ] = None,
    generators: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Machines besides, for the ranks alone; if not given, none where they may share those of the nodes "
            "(placement: {share: true}), or else one.",
        ),
    ] = None,
    ranks_per_node: Annotated[int, typer.Option(min=1, help="Ranks on each machine that has ranks.")] = 1,
    cores_per_rank: Annotated[int | None, typer.Option(min=1, help="Cores for each rank; Slurm's choice.")] = None,
    time: Annotated[
        str | None, typer.Option(help="The job's time limit, such as 4h; a quarter more than expected if not given.")
    ] = None,
    mpi: Annotated[str, typer.Option(help="How Slurm tells ranks of each other: see `srun --mpi=list`.")] = "pmix",
    sbatch: Annotated[
        list[str] | None, typer.Option(help="A further option of sbatch, --sbatch=--partition=long; may be repeated.")
    ] = None,
    setup: Annotated[
        list[str] | None, typer.Option(help="A line of shell to run first, such as module load; may be repeated.")
    ] = None,
    script: Annotated[Path | None, typer.Option(help="The script's file; NAME.sbatch if not given.")] = None,
    output: Annotated[Path | None, typer.Option(help="The experiment's folder; results/NAME if not given.")] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Have the job submit itself again until all runs are made.")
    ] = False,
    submit: Annotated[bool, typer.Option("--submit", help="Submit it now.")] = False,
    as_json: Json = False,
) -> None:
    """Write a batch script that runs an experiment as a job of Slurm, and submit it if asked.

    The store's nodes run on some machines of the job and the ranks that load it on others, or on the same. A job that
    ends before all runs are made leaves the rest to the next: the same script, submitted again, goes on.
    """
    from loadframe.experiment.batch import Batch
    from loadframe.experiment.design_estimate import UNKNOWN
    from loadframe.experiment.extent import extent
    from loadframe.experiment.file import load_experiment

    loaded = load_experiment(experiment)
    planned = extent(loaded, generators)
    machines = _machines(loaded, planned, nodes)
    path = script or Path(f"{loaded.name}.sbatch")
    if time is None and not planned.known:
        raise BadInput(
            f"the job's time limit cannot be guessed: the experiment takes at least {format_duration(planned.seconds)};"
            f" {UNKNOWN}",
            where=str(experiment),
            remedy="say --time",
        )
    limit = _with_spare(planned.seconds) if time is None else parse_duration(time)
    run = [_loadframe(), "run", str(experiment), "--yes", *(["--output", str(output)] if output else [])]
    batch = Batch(
        name=loaded.name,
        command=shlex.join(["loadframe", *sys.argv[1:]]),
        script=str(path),
        folder=str(Path.cwd()),
        log=f"{loaded.name}-%j.log",
        run=run,
        machines=machines,
        generators=planned.generators,
        ranks=ranks_per_node,
        time=limit,
        nodes=planned.nodes,
        cores=cores_per_rank,
        mpi=mpi,
        options=[_option(text) for text in sbatch or ()],
        setup=setup or (),
        again=again,
    )
    _write(path, batch)
    job = _submit(path) if submit else None
    if as_json:
        print_json({"script": str(path), "job": job, "time": limit, **planned.as_dict(), "machines": machines})
        return
    _show(batch, planned, job)


def _show(batch: "Batch", planned: "Extent", job: str | None) -> None:
    held, least = batch.machines + batch.generators, "" if planned.known else "at least "
    lines = [
        f"{batch.script}: {planned.runs} runs, expected to take {least}{format_duration(planned.seconds)}, in a job of"
        f" {held} {'machine' if held == 1 else 'machines'} for {format_duration(batch.time)}",
    ]
    if planned.seconds > batch.time:
        lines.append(
            "The job ends before the last run, and "
            + ("submits itself again." if batch.again else "goes on when it is submitted again (--again does so).")
        )
    lines += [f"! {sentence}" for sentence in planned.missing]
    lines.append(f"job {job} is submitted: `squeue --job {job}`" if job else f"submit it: sbatch {batch.script}")
    for line in lines:
        out.print(line, markup=False, highlight=False, soft_wrap=True)


def _machines(loaded: "Experiment", planned: "Extent", asked: int | None) -> int:
    """Return the number of machines for nodes; BadInput where the nodes do not fit on them."""
    host = loaded.file.store.host
    if host not in ("slurm", "mpi"):
        raise BadInput(
            f"the nodes of {loaded.name} would all run beside the first rank (store: {{host: {host}}})",
            where=str(loaded.document.path),
            remedy="say store: {host: slurm}, so that they run on the machines of the job; for a job of one machine, "
            "`sbatch --wrap 'loadframe run ...'` does",
        )
    if asked is not None and asked < planned.machines:
        per_machine = loaded.file.store.placement.per_machine or 1
        raise BadInput(
            f"{planned.nodes} nodes, {per_machine} on a machine, need {planned.machines} machines, and not {asked}",
            where=str(loaded.document.path),
            remedy=f"give --nodes {planned.machines}, or have a machine take more (placement: {{per_machine: "
            f"{math.ceil(planned.nodes / asked)}}})",
        )
    return asked or planned.machines


def _option(text: str) -> str:
    if not re.fullmatch(r"--?[a-zA-Z].*", text) or "\n" in text:
        raise BadInput(
            f"--sbatch {text!r} is not an option of sbatch",
            remedy="write --sbatch=--partition=long, or --sbatch=-plong",
        )
    return text


def _with_spare(seconds: float) -> float:
    return math.ceil((seconds + max(_SPARE * seconds, _LEAST_SPARE)) / _STEP) * _STEP


def _loadframe() -> str:
    """Return the command by its full path: a job has not the PATH of the shell that has submitted it, always."""
    ours = Path(sys.argv[0])
    return str(ours.absolute()) if ours.name == "loadframe" else shutil.which("loadframe") or "loadframe"


def _write(path: Path, batch: "Batch") -> None:
    """Write the script; BadInput rather than over something that was not written here."""
    from loadframe.experiment.batch import MARK

    try:
        if path.exists() and MARK not in path.read_text(errors="replace"):
            raise BadInput(
                "there is a file already that `loadframe slurm` has not written",
                where=str(path),
                remedy="name another one with --script",
            )
        path.write_text(batch.text())
    except OSError as error:
        raise BadInput(
            f"the script cannot be written: {error.strerror}", where=str(path), remedy="name another one with --script"
        ) from error


def _submit(path: Path) -> str:
    """Submit the script and return the job's number; BadInput with Slurm's words when it refuses."""
    command = ["sbatch", "--parsable", str(path)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_ANSWER_WITHIN)
    except FileNotFoundError:
        raise BadInput(
            "sbatch is not installed here, or not in the PATH",
            remedy=f"copy {path} to a login node of the cluster and run `sbatch {path}` there",
        ) from None
    except subprocess.TimeoutExpired:
        raise BadInput(
            f"Slurm does not answer within {_ANSWER_WITHIN:.0f} s", remedy=f"try `sbatch {path}` later"
        ) from None
    if done.returncode:
        said = done.stderr.strip().splitlines()
        raise BadInput(
            f"Slurm does not take the job: {said[-1] if said else f'sbatch left with status {done.returncode}'}",
            where=str(path),
            remedy="change the script, or give what is missing with --sbatch=--option",
        )
    for line in done.stderr.strip().splitlines():
        tell(line)
    return done.stdout.strip().split(";")[0]
