"""`loadframe slurm`: write a readable batch script that runs an experiment as a Slurm job."""

import math
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from loadframe.base.errors import BadInput, ExitCode
from loadframe.base.units import counted, format_duration, format_nodes, parse_duration
from loadframe.cli.app import Topic, app, option
from loadframe.cli.output import Json, out, print_json, tell
from loadframe.cli.web import MetricsAddress, Otlp, require_outlets

if TYPE_CHECKING:
    from loadframe.experiment.design import Design
    from loadframe.experiment.design.estimate import ResourceEstimate
    from loadframe.experiment.experiment import Experiment

#: Margin of the time limit: a share of the expected time, at least this many s, rounded up to steps of s.
_SPARE, _LEAST_SPARE, _STEP = 0.25, 300.0, 300.0
#: Time limit for an answer of the controller, s.
_ANSWER_WITHIN = 60.0

_EXAMPLES = """\b
Examples:
  loadframe slurm whole.yaml --nodes 3 --generators 1 --ranks-per-node 24
  loadframe slurm whole.yaml --ranks-per-node 8 --time 4h --sbatch=-Aphysics --submit
  loadframe slurm whole.yaml --ranks-per-node 8 --time 1h --again --submit
  loadframe slurm whole.yaml --setup "module load python openmpi" --script job.sh
"""
#: Marks scripts that loadframe may overwrite.
_MARK = "# Written by `loadframe slurm`"

_HEAD = """\
#!/bin/bash
{mark}: {command}
#
{what}
#
# Submit it with `sbatch {script}`. If the job ends before the last run, submit it again to resume.

#SBATCH --job-name={name}
#SBATCH --nodes={machines}
#SBATCH --exclusive
#SBATCH --time={time}
#SBATCH --output={log}
#SBATCH --chdir={folder}
{options}
set -uo pipefail
{setup}
{ranks}
{run}
status=$?
{end}
exit "$status"
"""
_AGAIN = """
# Status {status}: the time limit was reached before the last run. Another job resumes.
if [ "$status" -eq {status} ]; then sbatch {script}; fi
"""


@dataclass(frozen=True)
class Batch:
    """Parameters of a batch job. Times in seconds."""

    name: str  #: job name
    command: str  #: command line that created the script
    script: str  #: path of the script
    folder: str  #: working directory
    log: str  #: output file; %j is the job number
    run: Sequence[str]  #: command line of each rank
    machines: int  #: for the nodes of the store
    generators: int  #: further machines only for ranks; 0 if ranks share the machines of the nodes
    ranks: int  #: per machine with ranks
    time: float  #: time limit
    nodes: int  #: of the largest cluster
    cores: int | None = None  #: per rank. With None, Slurm chooses
    mpi: str = "pmix"  #: value of srun's --mpi
    options: Sequence[str] = ()  #: further options of sbatch
    setup: Sequence[str] = field(default_factory=tuple)  #: shell lines before the command
    again: bool = False  #: whether the job resubmits itself until the last run is recorded

    def text(self) -> str:
        """Return the text of the script."""
        script = shlex.quote(self.script)
        options = "".join(f"#SBATCH {option}\n" for option in self.options)
        setup = "".join(f"{line}\n" for line in self.setup)
        end = _AGAIN.format(status=int(ExitCode.TRY_AGAIN), script=script) if self.again else ""
        return _HEAD.format(
            mark=_MARK,
            command=self.command,
            what="\n".join(f"# {line}" for line in self._what()),
            script=script,
            name=self.name,
            machines=self.machines + self.generators,
            time=_slurm_time(self.time),
            log=self.log,
            folder=self.folder,
            options=options,
            setup=f"\n# Environment setup.\n{setup}" if setup else "",
            ranks=self._comment(),
            run=self._srun(),
            end=end,
        )

    def _what(self) -> list[str]:
        """Return the head comment of the script: machines, nodes and ranks of the job."""
        nodes = f"the {self.nodes} nodes of the largest cluster" if self.nodes > 1 else "the cluster's one node"
        stores, ranks = f"{counted(self.machines, 'machine')} for {nodes}", counted(self.ranks, "rank")
        if not self.generators:
            return [f"The job has {stores}, with {ranks} on each of them."]
        more = f"{counted(self.generators, 'machine')} for {ranks}{' each' if self.generators > 1 else ''}"
        return [f"The job has {stores}, and {more}."]

    def _comment(self) -> str:
        """Return the comment above the command: where ranks and nodes run."""
        where = "the last of the job's machines" if self.generators else "all machines of the job"
        return (
            f"# The ranks run on {where}. Rank 0 starts and stops the store's nodes on their\n"
            "# machines, as further steps of this job."
        )

    def _srun(self) -> str:
        """Return the srun command that starts the ranks."""
        machines = self.generators or self.machines
        words = ["srun", f"--mpi={self.mpi}", "--overlap", f"--nodes={machines}"]
        if self.generators:
            words.append(f"--relative={self.machines}")
        words += [f"--ntasks={machines * self.ranks}", f"--ntasks-per-node={self.ranks}"]
        if self.cores:
            words.append(f"--cpus-per-task={self.cores}")
        return f"{shlex.join(words)} \\\n  {shlex.join(self.run)}"


@app.command(epilog=_EXAMPLES)
def slurm(
    experiment: Annotated[Path, typer.Argument(help="Experiment file with store: {host: slurm}.")],
    nodes: Annotated[
        int | None,
        option(
            Topic.MACHINES, min=1, help="Machines for the store's nodes. Default: as many as the largest cluster needs."
        ),
    ] = None,
    generators: Annotated[
        int | None,
        option(
            Topic.MACHINES,
            min=0,
            help="Additional machines for ranks only. Default: 0 if ranks may share the nodes' machines "
            "(placement: {share: true}), else 1.",
        ),
    ] = None,
    ranks_per_node: Annotated[int, option(Topic.MACHINES, min=1, help="Ranks on each machine that has ranks.")] = 1,
    cores_per_rank: Annotated[
        int | None, option(Topic.MACHINES, min=1, help="Cores for each rank. Default: Slurm's choice.")
    ] = None,
    time: Annotated[
        str | None,
        option(
            Topic.JOB,
            help="Time limit with its unit, such as 4h. Default: the expected time of the missing runs, plus a quarter "
            "or 5 min.",
        ),
    ] = None,
    mpi: Annotated[str, option(Topic.JOB, help="Type of MPI for srun; see `srun --mpi=list`.")] = "pmix",
    sbatch: Annotated[
        list[str] | None,
        option(Topic.JOB, help="Option for sbatch, such as --sbatch=--partition=long. Repeatable."),
    ] = None,
    setup: Annotated[
        list[str] | None,
        option(Topic.JOB, help="Shell command to run first, such as 'module load openmpi'. Repeatable."),
    ] = None,
    again: Annotated[
        bool, option(Topic.JOB, "--again", help="Let the job submit itself again until all runs are done.")
    ] = False,
    submit: Annotated[bool, option(Topic.JOB, "--submit", help="Submit the script now.")] = False,
    script: Annotated[Path | None, option(Topic.OUTPUT, help="Script to write. Default: NAME.sbatch.")] = None,
    output: Annotated[
        Path | None, option(Topic.OUTPUT, help="Folder of the experiment. Default: results/NAME.")
    ] = None,
    metrics: MetricsAddress = None,
    otlp: Otlp = None,
    as_json: Json = False,
) -> None:
    """Write a batch script that runs an experiment as a Slurm job; --submit submits it.

    The store's nodes and the ranks run on separate machines of the job, or share machines. If a job ends before all
    runs are done, submit the same script again to continue.
    """
    from loadframe.experiment.design.estimate import resource_estimate, why_unknown
    from loadframe.experiment.design.plans import describe, design
    from loadframe.experiment.file.reader import load_experiment
    from loadframe.experiment.runner.folder import RecordedRuns, recorded_count

    require_outlets(metrics, otlp, None)
    loaded = load_experiment(experiment)
    results = output or Path("results") / loaded.name
    loaded = loaded.with_measured_rates(results)
    runs = design(loaded)
    RecordedRuns(results).require_fitting(describe(loaded, runs))
    count = recorded_count(loaded, runs, results)
    remaining = count.remaining() if count else loaded.kind.largest_design(loaded)
    if count and not remaining.runs:
        raise BadInput(
            f"a job has nothing to do: {count.recorded_text()}",
            where=str(results),
            remedy=f"read `loadframe report {results}`, or repeat the experiment in another folder with --output",
        )
    planned = resource_estimate(loaded, generators, remaining)
    machines = _machines(loaded, planned, nodes)
    path = script or Path(f"{loaded.name}.sbatch")
    if time is None and not planned.known:
        raise BadInput(
            f"the job's time limit is unknown: the experiment takes at least {format_duration(planned.seconds)};"
            f" {why_unknown(loaded)}",
            where=str(experiment),
            remedy="give --time",
        )
    limit = _with_spare(planned.seconds) if time is None else _limit(time)
    _require_time_for_first(loaded, remaining, limit, str(experiment))
    run = [_loadframe(), "run", str(experiment), "--yes", *(["--output", str(output)] if output else [])]
    run += [word for name, value in (("--metrics", metrics), ("--otlp", otlp)) if value for word in (name, value)]
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
    former = _write(path, batch)
    job = _submit(path, former) if submit else None
    if as_json:
        print_json({"script": str(path), "job": job, "time": limit, **planned.as_dict(), "machines": machines})
        return
    _show(batch, planned, job)


def _limit(time: str) -> float:
    """Return --time, s. BadInput for a number without a unit, which sbatch reads as minutes."""
    if time.strip().replace(".", "", 1).isdigit():
        raise BadInput(f"--time {time} has no unit", remedy=f"write {time}m, as sbatch reads it, or {time}s or {time}h")
    return parse_duration(time)


def _require_time_for_first(loaded: "Experiment", remaining: "Design", limit: float, where: str) -> None:
    """Raise BadInput if a time limit, s, ends before the first remaining run could: each job would lose that run.

    Searches are not checked. At least one run must remain. `where` is the place in the message.
    """
    from loadframe.experiment.design.estimate import run_seconds, shortest_share
    from loadframe.experiment.runner.loop import margin

    seconds = run_seconds(remaining, loaded, shortest_share(loaded))
    if loaded.kind.searches:
        return  # The estimate is of all trials of a search, and the job may end after any of them.
    first = remaining.runs[0]
    if seconds[first.id] > limit - margin(limit):
        longest = max(seconds.values())
        raise BadInput(
            f"--time {format_duration(limit)} is too short for one run: {first.id} with the start of its cluster takes"
            f" at least {format_duration(seconds[first.id])}, and Loadframe keeps {format_duration(margin(limit))} to"
            " stop and record",
            where=where,
            remedy=f"give at least --time {_needed(longest)}, which lets the longest run finish",
        )


def _needed(seconds: float) -> str:
    """Return the shortest --time, in whole minutes such as `12m`, for a run of `seconds` s and its recording."""
    from loadframe.experiment.runner.loop import margin

    minutes = math.ceil(seconds / 60)
    while minutes * 60 - margin(minutes * 60) < seconds:
        minutes += 1
    return f"{minutes}m"


def _show(batch: Batch, planned: "ResourceEstimate", job: str | None) -> None:
    """Print the job's size, expected time and limit, and the job number or the command that submits it."""
    held, least = batch.machines + batch.generators, "" if planned.known else "at least "
    lines = [
        f"{batch.script}: {counted(planned.runs, 'run')}, expected to take {least}{format_duration(planned.seconds)},"
        f" in a job of {counted(held, 'machine')} for {format_duration(batch.time)}",
    ]
    if planned.seconds > batch.time:
        lines.append(
            "The job ends before the last run, and "
            + ("submits itself again." if batch.again else "continues if you submit it again (automatic with --again).")
        )
    lines += [f"! {sentence}" for sentence in planned.missing]
    lines.append(f"submitted job {job}; see `squeue --job {job}`" if job else f"submit it with: sbatch {batch.script}")
    for line in lines:
        out.print(line, markup=False, highlight=False, soft_wrap=True)


def _machines(loaded: "Experiment", planned: "ResourceEstimate", requested: int | None) -> int:
    """Return the number of machines for nodes: `requested`, by default the number for the largest cluster.

    It is 1 by default for an existing cluster. BadInput if the nodes do not fit on the `requested` number, if the host
    is neither slurm nor mpi, or if an existing cluster has loopback addresses.
    """
    host = loaded.file.store.host
    if loaded.exists:
        _require_reachable(loaded)
        return requested or 1
    if host not in ("slurm", "mpi"):
        raise BadInput(
            f"the nodes of {loaded.name} would all run on the first rank's machine (store: {{host: {host}}})",
            where=str(loaded.document.path),
            remedy="write store: {host: slurm}, so that they run on the machines of the job; for a job of one machine, "
            "use `sbatch --wrap 'loadframe run ...'`",
        )
    if requested is not None and requested < planned.machines:
        per_machine = loaded.file.store.placement.per_machine or 1
        raise BadInput(
            f"{format_nodes(planned.nodes)}, {per_machine} on a machine, need"
            f" {counted(planned.machines, 'machine')}, not {requested}",
            where=str(loaded.document.path),
            remedy=f"give --nodes {planned.machines}, or put more nodes on a machine (placement: {{per_machine: "
            f"{math.ceil(planned.nodes / requested)}}})",
        )
    return requested or planned.machines


def _require_reachable(loaded: "Experiment") -> None:
    """Raise BadInput if an existing cluster has a loopback address, which on each machine names that machine."""
    from loadframe.experiment.design.plans import design

    named = [loaded.hosts(run.treatment) for run in design(loaded).runs] if not loaded.file.store.cluster else []
    for address in dict.fromkeys(",".join(named).split(",")):
        host = urlsplit(address if "//" in address else f"//{address}").hostname or ""
        if host == "localhost" or (
            re.fullmatch(r"127\.[\d.]+|[\da-f:]*:[\da-f:]*", host) and ip_address(host).is_loopback
        ):
            raise BadInput(
                f"the job cannot reach the store at {address}: a loopback address names each machine itself",
                where=str(loaded.document.path),
                remedy="give an address in the cluster's network, or let the job start the store: {host: slurm}",
            )


def _option(text: str) -> str:
    """Return an option for sbatch unchanged. BadInput unless it begins with dashes and a letter, in one line."""
    if not re.fullmatch(r"--?[a-zA-Z].*", text) or "\n" in text:
        raise BadInput(
            f"--sbatch {text!r} is not an option of sbatch",
            remedy="write --sbatch=--partition=long, or --sbatch=-plong",
        )
    return text


def _with_spare(seconds: float) -> float:
    """Return a time limit for an expected time, both s: plus a quarter or at least 300 s, rounded up to 300 s."""
    return math.ceil((seconds + max(_SPARE * seconds, _LEAST_SPARE)) / _STEP) * _STEP


def _slurm_time(seconds: float) -> str:
    """Return a time limit as Slurm reads it, days-hours:minutes:seconds, rounded up to whole minutes, at least one."""
    minutes = max(math.ceil(seconds / 60), 1)
    days, minutes = divmod(minutes, 24 * 60)
    hours, minutes = divmod(minutes, 60)
    return f"{days}-{hours:02}:{minutes:02}:00" if days else f"{hours:02}:{minutes:02}:00"


def _loadframe() -> str:
    """Return the full path of the command, because a job may run with another PATH; `loadframe` if it is unknown."""
    ours = Path(sys.argv[0])
    return str(ours.absolute()) if ours.name == "loadframe" else shutil.which("loadframe") or "loadframe"


def _write(path: Path, batch: Batch) -> str | None:
    """Write the script; return the text of the script that it replaces, or None.

    BadInput if the file is not a script of this command, or cannot be written.
    """
    try:
        former = path.read_text(errors="replace") if path.exists() else None
        if former is not None and _MARK not in former:
            raise BadInput(
                "the file exists, and is not a script of `loadframe slurm`",
                where=str(path),
                remedy="name another file with --script",
            )
        path.write_text(batch.text())
    except OSError as error:
        raise BadInput(
            f"the script cannot be written: {error.strerror}", where=str(path), remedy="name another file with --script"
        ) from error
    return former


def _submit(path: Path, former: str | None) -> str:
    """Submit the script and return the job number.

    BadInput, with Slurm's message, if it refuses or its controller does not answer; then the script is the `former` one
    again (if any), which a job may resubmit. BadInput, too, without an installed and configured Slurm, or after 60 s
    without an answer; the new script then stays.
    """
    command = ["sbatch", "--parsable", str(path)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_ANSWER_WITHIN)
    except FileNotFoundError:
        raise BadInput(
            "sbatch is not installed, or not in PATH",
            remedy=f"copy {path} to a login node of the cluster and run `sbatch {path}` there",
        ) from None
    except subprocess.TimeoutExpired:
        raise BadInput(
            f"Slurm does not answer within {_ANSWER_WITHIN:.0f} s", remedy=f"try `sbatch {path}` later"
        ) from None
    if done.returncode:
        messages = done.stderr.strip().splitlines()
        if "configuration source" in done.stderr:
            raise BadInput(
                f"no Slurm is configured on this machine: {messages[-1]}",
                remedy=f"copy {path} to a login node of the cluster and run `sbatch {path}` there",
            )
        if former is not None:
            path.write_text(former)
        kept = "; the former script was kept" if former is not None else ""
        if "contact slurm controller" in done.stderr:
            raise BadInput(
                f"the controller of Slurm does not answer: {messages[-1]}",
                where=str(path),
                remedy=f"start slurmctld, or wait until `scontrol ping` reports it as up, and submit again{kept}",
            )
        raise BadInput(
            f"Slurm refused the job: {messages[-1] if messages else f'sbatch exited with code {done.returncode}'}",
            where=str(path),
            remedy=f"change the options of the job, such as --sbatch=--partition=NAME{kept}",
        )
    for line in done.stderr.strip().splitlines():
        tell(line)
    return done.stdout.strip().split(";")[0]
