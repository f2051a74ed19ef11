"""Slurm batch script for an experiment, formatted for reading and editing."""

import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field

from loadframe.base.errors import ExitCode
from loadframe.base.units import counted

#: Marks scripts that loadframe may overwrite.
MARK = "# Written by `loadframe slurm`"

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
    cores: int | None = None  #: per rank; None leaves the choice to Slurm
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
            setup=f"\n# Environment setup.\n{setup}" if setup else "",
            ranks=self._comment(),
            run=self._srun(),
            end=end,
        )

    def _what(self) -> list[str]:
        nodes = f"the {self.nodes} nodes of the largest cluster" if self.nodes > 1 else "the cluster's one node"
        stores = f"{_machines(self.machines)} for {nodes}"
        if not self.generators:
            return [f"The job has {stores}, with {_ranks(self.ranks)} on each of them."]
        more = f"{_machines(self.generators)} for {_ranks(self.ranks)}{' each' if self.generators > 1 else ''}"
        return [f"The job has {stores}, and {more}."]

    def _comment(self) -> str:
        where = "the last of the job's machines" if self.generators else "all machines of the job"
        return (
            f"# The ranks run on {where}. Rank 0 starts and stops the store's nodes on their\n"
            "# machines, as further steps of this job."
        )

    def _srun(self) -> str:
        machines = self.generators or self.machines
        words = ["srun", f"--mpi={self.mpi}", "--overlap", f"--nodes={machines}"]
        if self.generators:
            words.append(f"--relative={self.machines}")
        words += [f"--ntasks={machines * self.ranks}", f"--ntasks-per-node={self.ranks}"]
        if self.cores:
            words.append(f"--cpus-per-task={self.cores}")
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
