"""The machines of a Slurm job: each has an agent that is a further step of the job, and the nodes are below that.

Slurm takes a step's processes with it when the step ends, so nodes live as long as the command that started them.
"""

import contextlib
import re
import secrets
from collections.abc import Sequence

from loadframe.errors import BadInput, LoadframeError
from loadframe.host import allocation
from loadframe.host.agent import Kind
from loadframe.host.bundle import agent_command
from loadframe.host.connection import Connection, PipeConnection
from loadframe.host.facts import resolved
from loadframe.host.machines import LentMachinesHost
from loadframe.host.placement import Placement, parse
from loadframe.host.remote import RemoteMachine

#: One task that has the whole of its machine as the job has it, beside whatever else the job runs there. Its output
#: comes as it is written: srun would keep it until a line is full.
_STEP = (
    "srun",
    "--quiet",
    "--unbuffered",
    "--overlap",
    "--whole",
    "--mem=0",
    "--nodes=1",
    "--ntasks=1",
    "--mpi=none",
    "--cpu-bind=none",
    "--chdir=/",
)
#: What srun says when it fails, what that is, and what to do; the first that fits.
_CAUSES = (
    (
        r"has expired|Invalid job id|Job/step already completing",
        "the job is over, or about to end",
        "go on in a new job: the same command takes up what is missing",
    ),
    (
        r"Unable to create step.*(busy|Requested nodes)|nodes are busy",
        "other steps of the job have all of it",
        "start those steps with `srun --overlap`, so that the nodes' steps may run beside them",
    ),
    (
        r"not in.*allocation|Requested node configuration is not available|Invalid node name",
        "it is not a machine of this job",
        "name machines of the job (`scontrol show hostnames` prints them), or leave --machines out",
    ),
    (
        r"Unable to contact slurm controller|Socket timed out|Communication connection failure",
        "Slurm does not answer",
        "look whether `sinfo` answers, and try again",
    ),
)


class SlurmHost(LentMachinesHost):
    """The machines of the job that this process is part of, or those of them that are named."""

    def __init__(
        self, machines: Sequence[str], placement: Placement, scratch: str | None = None, kind: Kind | None = None
    ) -> None:
        """BadInput for a machine that is not part of the job. Outside of a job there is none, which `require` says."""
        trouble: BadInput | None = None
        job = ""
        slots: dict[str, int | None] = {}
        try:
            given = allocation.require()
            job = given.job
            slots = _chosen(given, machines, placement)
        except BadInput as error:
            trouble = error
        reached = allocation.addresses(tuple(slots)) if slots else {}
        super().__init__(
            "slurm",
            [
                RemoteMachine(
                    name,
                    _Connect(name, job),
                    explain=_Explain(name, job),
                    slots=number or placement.per_machine or 1,
                    network=placement.network,
                    reached=resolved(reached.get(name, name)),
                    scratch=scratch,
                    kind=kind,
                )
                for name, number in slots.items()
            ],
            placement,
            lent=f"job {job} of Slurm" if job else "a job of Slurm: there is none here",
            remedy="start a job that has this machine (`sbatch --nodelist=...`, `salloc --nodelist=...`)",
            trouble=trouble,
        )


def _chosen(given: allocation.Allocation, asked: Sequence[str], placement: Placement) -> dict[str, int | None]:
    """Return the machines for nodes, each with the number of nodes that it takes if it says one."""
    if asked:
        chosen = dict(parse(text) for text in asked)
        for name in chosen:
            if name not in given.machines:
                raise BadInput(
                    f"machine {name} is not part of job {given.job} of Slurm",
                    where=", ".join(given.machines),
                    remedy="name machines of the job, or none for all of them",
                )
    else:
        chosen = dict.fromkeys(given.machines)
    if placement.share:
        return chosen
    ranks = allocation.machines_of_this_step()
    apart = {name: slots for name, slots in chosen.items() if name not in ranks}
    if not apart:
        raise BadInput(
            f"job {given.job} of Slurm has no machine for nodes: the generator's ranks run on all of them, and are not"
            " to share theirs",
            where=", ".join(chosen),
            remedy="run the ranks on some of the machines (`srun --nodes=1 --relative=3 ...`, see `loadframe slurm`), "
            "take more machines, or let them share (placement: {share: true})",
        )
    return apart


class _Connect:
    def __init__(self, name: str, job: str) -> None:
        self._name, self._job = name, job

    def __call__(self) -> Connection:
        try:
            return _Step(self._name, self._job)
        except OSError as error:
            raise BadInput(
                f"srun cannot be run: {error.strerror}", remedy="load Slurm's commands (often `module load slurm`)"
            ) from error


class _Step(PipeConnection):
    """An agent's step. Slurm does not end one whose srun is killed, and the agent does not learn of it."""

    def __init__(self, machine: str, job: str) -> None:
        # No other step of the job has this name.
        self._step, self._job = f"loadframe-agent-{secrets.token_hex(4)}", job
        command = [*_STEP, f"--job-name={self._step}", f"--nodelist={machine}", *agent_command()]
        super().__init__(command, allocation.environment(job))

    def receive(self) -> bytes:
        data = super().receive()
        if not data and (self.status() or 0) < 0:
            with contextlib.suppress(LoadframeError):
                allocation.cancel_step(self._job, self._step)
        return data


class _Explain:
    def __init__(self, name: str, job: str) -> None:
        self._name, self._job = name, job

    def __call__(self, status: int | None, words: str) -> BadInput:
        for pattern, what, remedy in _CAUSES:
            if re.search(pattern, words, re.IGNORECASE):
                return BadInput(f"the machine cannot be used: {what}", where=self._name, remedy=remedy)
        said = words.splitlines()[-1] if words else f"srun left with status {status}"
        return BadInput(
            f"the machine cannot be used: {said}",
            where=self._name,
            remedy=f"see that `srun --jobid={self._job} --overlap --nodelist={self._name} true` works",
        )
