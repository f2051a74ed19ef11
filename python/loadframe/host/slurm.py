"""Slurm jobs: their allocations, and their machines as hosts.

Slurm ends the processes of a step with the step, so nodes end with the command that started them.
"""

import contextlib
import os
import re
import secrets
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from loadframe.base.errors import BadInput, LoadframeError
from loadframe.host.agent import HostKind
from loadframe.host.agent_client import agent_command
from loadframe.host.identity import resolved
from loadframe.host.machines import LentMachinesHost
from loadframe.host.placement import Placement, parse
from loadframe.host.remote import RemoteMachine
from loadframe.host.wire import Connection, PipeConnection

#: Timeout in seconds; a busy controller answers slowly.
_ANSWER_WITHIN = 60.0
#: Slurm's error for the id of a job that it does not know.
_NO_SUCH_JOB = "Invalid job id"
#: States in which a job holds its machines.
_HELD = ("RUNNING", "SUSPENDED", "CONFIGURING")
#: Prefixes of variables that a step sets for its processes. A step that such a process starts must not inherit them.
_OF_STEPS = ("SLURM", "PMI", "OMPI", "PRTE", "OPAL")
#: Variables that a new step needs nevertheless: the controller's configuration, and the job.
_OF_JOBS = ("SLURM_CONF", "SLURM_JOB_ID", "SLURM_JOBID", "SLURM_CONF_SERVER")


@dataclass(frozen=True)
class Allocation:
    """Machines of a job."""

    job: str
    machines: tuple[str, ...]  #: Slurm's node names, in its order
    ends: float | None  #: end of the job, in s since the epoch, or None if it has no limit


def job() -> str | None:
    """Return the id of the job of this process, or None outside Slurm."""
    return os.environ.get("SLURM_JOB_ID") or os.environ.get("SLURM_JOBID") or None


def current() -> Allocation | None:
    """Return the allocation of this process, or None outside Slurm.

    BadInput if the job is unknown or holds no machines, LoadframeError if Slurm does not answer.
    """
    number = job()
    return None if number is None else of_job(number)


def require() -> Allocation:
    """Return the allocation of this process; BadInput outside Slurm.

    BadInput also if the job is unknown or holds no machines, LoadframeError if Slurm does not answer.
    """
    allocation = current()
    if allocation is None:
        raise BadInput(
            "this process is not in a Slurm job: SLURM_JOB_ID is not set",
            remedy="run the command in a batch script (`loadframe slurm` writes one), or after `salloc --nodes=...`",
        )
    return allocation


def of_job(number: str) -> Allocation:
    """Return the allocation of the job with the id `number`.

    BadInput if the job is unknown or holds no machines, or without Slurm; LoadframeError if Slurm does not answer.
    """
    try:
        line = _run("squeue", "--noheader", "--states=all", f"--jobs={number}", "--format=%T|%e|%N")
    except BadInput:
        raise
    except LoadframeError as error:
        if _NO_SUCH_JOB not in error.what:
            remedy = error.remedy or "check that `squeue` answers, and try again"
            raise LoadframeError(error.what, where=f"Slurm job {number}", remedy=remedy) from None
        raise BadInput(
            f"Slurm job {number} does not exist", where=error.what, remedy="run the command in a new job"
        ) from None
    state, ends, names = (*line.split("|"), "", "", "")[:3]
    if state not in _HELD or not names:
        raise BadInput(
            f"Slurm job {number} holds no machines; its state is {state.lower() or 'unknown'}",
            remedy="run the command in a new job",
        )
    return Allocation(number, hostnames(names), float(ends) if ends.isdecimal() else None)


def hostnames(names: str) -> tuple[str, ...]:
    """Return the names in Slurm's short form: n1, n2, n3 and login for `n[1-3],login`; empty for no text.

    BadInput without Slurm's commands, LoadframeError if they fail.
    """
    return tuple(_run("scontrol", "show", "hostnames", names).split()) if names else ()


def addresses(machines: tuple[str, ...]) -> Mapping[str, str]:
    """Return machine -> address or host name through which Slurm reaches it. `machines` must not be empty.

    BadInput without Slurm's commands, LoadframeError if they fail.
    """
    lines = _run("sinfo", "--noheader", "--Node", f"--nodes={','.join(machines)}", "--format=%N|%o").splitlines()
    return dict(line.split("|") for line in lines)


def machines_of_this_step() -> tuple[str, ...]:
    """Return the machines of this process's job step, in Slurm's order, or of the batch script; empty outside Slurm."""
    if os.environ.get("SLURM_STEP_ID", "").isdecimal() and (names := os.environ.get("SLURM_STEP_NODELIST")):
        return hostnames(names)
    name = os.environ.get("SLURMD_NODENAME")
    return (name,) if name else ()


def environment(number: str) -> dict[str, str]:
    """Return this process's environment without the variables of its step, for another step of the job `number`."""
    kept = {name: text for name, text in os.environ.items() if name in _OF_JOBS or not name.startswith(_OF_STEPS)}
    return {**kept, "SLURM_JOB_ID": number}


def cancel_step(number: str, name: str) -> None:
    """Cancel the steps called `name` in job `number`, if any.

    BadInput without Slurm's commands, LoadframeError if they fail.
    """
    for line in _run("squeue", "--noheader", "--steps", f"--jobs={number}", "--format=%i|%j").splitlines():
        step, _, called = line.partition("|")
        if called == name:
            _run("scancel", step)


def _run(*command: str) -> str:
    """Run a Slurm command and return its output, without white space at its ends; times are in s since the epoch.

    BadInput if it is not installed, LoadframeError if it fails or does not answer within 60 s.
    """
    variables = {**os.environ, "SLURM_TIME_FORMAT": "%s"}
    try:
        result = subprocess.run(
            command, capture_output=True, text=True, timeout=_ANSWER_WITHIN, check=False, env=variables
        )
    except FileNotFoundError:
        raise BadInput(
            f"{command[0]} is not installed, or not in PATH",
            remedy="run this on a machine of the Slurm cluster, with its commands loaded (often `module load slurm`)",
        ) from None
    except subprocess.TimeoutExpired:
        raise LoadframeError(
            f"`{command[0]}` did not answer within {_ANSWER_WITHIN:.0f} s",
            remedy="check that `sinfo` answers, and try again",
        ) from None
    if result.returncode:
        said = result.stderr.strip().splitlines()
        raise LoadframeError(said[-1] if said else f"{command[0]} exited with status {result.returncode}")
    return result.stdout.strip()


#: One task that can use all of the job's resources on its machine, concurrently with other steps. Unbuffered, because
#: srun would otherwise hold back partial lines.
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
#: Pattern of srun's error output, cause, remedy. The first match applies.
_CAUSES = (
    (
        r"has expired|Invalid job id|Job/step already completing",
        "the job has ended or is ending",
        "continue in a new job: the same command runs only the missing part",
    ),
    (
        r"Unable to create step.*(busy|Requested nodes)|nodes are busy",
        "other steps of the job use all of its resources",
        "start those steps with `srun --overlap`, so that the nodes' steps can share the resources",
    ),
    (
        r"not in.*allocation|Requested node configuration is not available|Invalid node name",
        "it is not part of this job",
        "name machines of the job (`scontrol show hostnames` prints them), or omit --machines",
    ),
    (
        r"Unable to contact slurm controller|Socket timed out|Communication connection failure",
        "the Slurm controller does not answer",
        "check that `sinfo` answers, and try again",
    ),
)


class SlurmHost(LentMachinesHost):
    """Machines of this process's job, or a named selection of them."""

    def __init__(
        self, machines: Sequence[str], placement: Placement, scratch: str | None = None, kind: HostKind | None = None
    ) -> None:
        """Select the machines (`name`, `name:slots`; none for all of the job). Raises no LoadframeError.

        `require` and `place` raise it instead: BadInput, such as for a missing job or a machine outside it;
        LoadframeError if Slurm fails. See `RemoteMachine` for `scratch` and `kind`.
        """
        trouble: LoadframeError | None = None
        job = ""
        slots: dict[str, int | None] = {}
        reached: Mapping[str, str] = {}
        try:
            allocation = require()
            job = allocation.job
            selected = _selected_machines(allocation, machines, placement)
            reached = addresses(tuple(selected)) if selected else {}
            slots = selected
        except LoadframeError as error:
            trouble = error
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
            lent=f"Slurm job {job}" if job else "a Slurm job: this process is in none",
            remedy="start a job that includes this machine (`sbatch --nodelist=...`, `salloc --nodelist=...`)",
            trouble=trouble,
        )


def _selected_machines(allocation: Allocation, requested: Sequence[str], placement: Placement) -> dict[str, int | None]:
    """Return the `requested` machines, or all of the job, each with its number of slots, or None if not given.

    If nodes must not share machines with ranks, the machines of this step are left out. BadInput if none is left, and
    for a machine outside the job.
    """
    if requested:
        chosen = dict(parse(text) for text in requested)
        for name in chosen:
            if name not in allocation.machines:
                raise BadInput(
                    f"machine {name} is not part of Slurm job {allocation.job}",
                    where=", ".join(allocation.machines),
                    remedy="name machines of the job, or omit --machines to use all",
                )
    else:
        chosen = dict.fromkeys(allocation.machines)
    if placement.share:
        return chosen
    ranks = machines_of_this_step()
    apart = {name: slots for name, slots in chosen.items() if name not in ranks}
    if not apart:
        raise BadInput(
            f"Slurm job {allocation.job} has no machine for nodes: the generator's ranks run on all of them, and nodes"
            " must not share a machine with them",
            where=", ".join(chosen),
            remedy="run the ranks on fewer machines (`srun --nodes=1 --relative=3 ...`, see `loadframe slurm`), "
            "request more machines, or allow sharing (placement: {share: true})",
        )
    return apart


class _Connect:
    """Function that connects to the agent on a machine of a job."""

    def __init__(self, name: str, job: str) -> None:
        """Take the names of the machine and of the job."""
        self._name, self._job = name, job

    def __call__(self) -> Connection:
        """Start a step with the agent, and return the connection without waiting; BadInput if srun is not installed."""
        try:
            return _Step(self._name, self._job)
        except OSError as error:
            raise BadInput(
                f"could not run srun: {error.strerror}", remedy="load Slurm's commands (often `module load slurm`)"
            ) from error


class _Step(PipeConnection):
    """Step that runs an agent. If srun is killed, the step is cancelled, because Slurm would let it run on."""

    def __init__(self, machine: str, job: str) -> None:
        """Start srun with an agent on a machine of the job; OSError if srun is not installed."""
        # Unique name, so that `cancel_step` finds only this step.
        self._step, self._job = f"loadframe-agent-{secrets.token_hex(4)}", job
        command = [*_STEP, f"--job-name={self._step}", f"--nodelist={machine}", *agent_command()]
        super().__init__(command, environment(job))

    def receive(self) -> bytes:
        """Return the available output, waiting if there is none; empty at its end.

        Side effect: at the end, cancels the step if a signal has killed srun.
        """
        data = super().receive()
        if not data and (self.status() or 0) < 0:
            with contextlib.suppress(LoadframeError):
                cancel_step(self._job, self._step)
        return data


class _Explain:
    """Function that explains why srun did not start an agent."""

    def __init__(self, name: str, job: str) -> None:
        """Take the names of the machine and of the job, for messages."""
        self._name, self._job = name, job

    def __call__(self, status: int | None, words: str) -> BadInput:
        """Return the error, with cause and remedy, for an exit status and error output (`words`) of srun."""
        for pattern, what, remedy in _CAUSES:
            if re.search(pattern, words, re.IGNORECASE):
                return BadInput(f"could not start the agent: {what}", where=self._name, remedy=remedy)
        said = words.splitlines()[-1] if words else f"srun exited with status {status}"
        return BadInput(
            f"could not start the agent: {said}",
            where=self._name,
            remedy=f"check that `srun --jobid={self._job} --overlap --nodelist={self._name} true` works",
        )
