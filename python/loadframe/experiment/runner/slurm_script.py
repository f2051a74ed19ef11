"""A batch script of Slurm that carries out an experiment, written so that a person can read it and change it."""

import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field

from loadframe.base.errors import ExitCode
from loadframe.base.units import counted

#: By this line a script is known as one that may be written anew.
MARK = "# Written by `loadframe slurm`"

_HEAD = """\
#!/bin/bash
{mark}: {command}
#
{what}
#
# Submit it with `sbatch {script}`. A job that ends before all runs are made leaves them for the next: submit it again.

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
# {status} means that the time was over before the last run: another job goes on.
if [ "$status" -eq {status} ]; then sbatch {script}; fi
"""


@dataclass(frozen=True)
class Batch:
    """What a job is asked to be. Times in seconds."""

    name: str  #: of the job
    command: str  #: that asked for this script
    script: str  #: the file that it goes to
    folder: str  #: where it runs
    log: str  #: what it prints; %j is the job's number
    run: Sequence[str]  #: the command line of each rank
    machines: int  #: for the nodes of the store
    generators: int  #: machines besides, for ranks alone; 0 when the ranks share those of the nodes
    ranks: int  #: on each machine that has any
    time: float
    nodes: int  #: of the largest cluster
    cores: int | None = None  #: for each rank; None leaves it to Slurm
    mpi: str = "pmix"  #: the value of srun's --mpi
    options: Sequence[str] = ()  #: more for sbatch
    setup: Sequence[str] = field(default_factory=tuple)  #: lines that come before
    again: bool = False  #: whether it submits itself until all is done

    def text(self) -> str:
        """Return the script."""
        script = shlex.quote(self.script)
        options = "".join(f"#SBATCH {option}\n" for option in self.options)
        setup = "".join(f"{line}\n" for line in self.setup)
        end = _AGAIN.format(status=int(ExitCode.TRY_AGAIN), script=script) if self.again else ""
        return _HEAD.format(
            mark=MARK,
            command=self.command,
            what="\n".join(f"# {line}" for line in self._what()),
            script=script,
            name=self.name,
            machines=self.machines + self.generators,
            time=_time(self.time),
            log=self.log,
            folder=self.folder,
            options=options,
            setup=f"\n# What has to be loaded first.\n{setup}" if setup else "",
            ranks=self._comment(),
            run=self._srun(),
            end=end,
        )

    def _what(self) -> list[str]:
        nodes = f"the {self.nodes} nodes of the largest cluster" if self.nodes > 1 else "the cluster's one node"
        keep = f"{_machines(self.machines)} for {nodes}"
        if not self.generators:
            return [f"The job has {keep}, and for {_ranks(self.ranks)} on each of them."]
        more = f"{_machines(self.generators)} for {_ranks(self.ranks)}{' each' if self.generators > 1 else ''}"
        return [f"The job has {keep}, and {more}."]

    def _comment(self) -> str:
        where = "the last of the job's machines" if self.generators else "all machines of the job"
        return (
            f"# The ranks: they run on {where}. The first of them starts the store's nodes on the\n"
            "# machines that are meant for them, as further steps of this job, and ends them."
        )

    def _srun(self) -> str:
        machines = self.generators or self.machines
        words = ["srun", f"--mpi={self.mpi}", "--overlap", f"--nodes={machines}"]
        if self.generators:
            words.append(f"--relative={self.machines}")
        words += [f"--ntasks={machines * self.ranks}", f"--ntasks-per-node={self.ranks}"]
        if self.cores:
            words.append(f"--cpus-per-task={self.cores}")
        # What one rank leaves with is what all are to leave with: the others have nothing to do without the first.
        return f"{shlex.join(words)} \\\n  {shlex.join(self.run)}"


def _machines(count: int) -> str:
    return counted(count, "machine")


def _ranks(count: int) -> str:
    return counted(count, "rank")


def _time(seconds: float) -> str:
    """Return a time limit as Slurm reads it, days-hours:minutes:seconds, in whole minutes."""
    minutes = max(math.ceil(seconds / 60), 1)
    days, minutes = divmod(minutes, 24 * 60)
    hours, minutes = divmod(minutes, 60)
    return f"{days}-{hours:02}:{minutes:02}:00" if days else f"{hours:02}:{minutes:02}:00"
