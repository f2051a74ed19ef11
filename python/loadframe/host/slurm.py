"""Slurm jobs: their allocation, and their machines as hosts.

Slurm takes a step's processes with it when the step ends, so nodes live as long as the command that started them.
"""

import contextlib
import os
import re
import secrets
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from loadframe.base.errors import BadInput, LoadframeError
from loadframe.host.agent import Kind
from loadframe.host.bundle import agent_command
from loadframe.host.connection import Connection, PipeConnection
from loadframe.host.identity import resolved
from loadframe.host.machines import LentMachinesHost
from loadframe.host.placement import Placement, parse
from loadframe.host.remote import RemoteMachine

#: Seconds. A busy controller answers late.
_ANSWER_WITHIN = 60.0
#: States of a job in which its machines are its own.
_HELD = ("RUNNING", "SUSPENDED", "CONFIGURING")
#: What a job's step tells its processes, and what must not reach another step that one of them starts.
_OF_STEPS = ("SLURM", "PMI", "OMPI", "PRTE", "OPAL")
#: What that other step needs all the same: where Slurm is, and which job it belongs to.
_OF_JOBS = ("SLURM_CONF", "SLURM_JOB_ID", "SLURM_JOBID", "SLURM_CONF_SERVER")


@dataclass(frozen=True)
class Allocation:
    """The machines of a job."""

    job: str
    machines: tuple[str, ...]  #: by Slurm's names of them, in its order
    ends: float | None  #: when they are taken away, in s since the epoch; None if never

    def seconds_left(self) -> float | None:
        """Return how long it still lasts, in s; None if it has no end."""
        return None if self.ends is None else self.ends - time.time()


def job() -> str | None:
    """Return the number of the job that this process belongs to; None outside of Slurm."""
    return os.environ.get("SLURM_JOB_ID") or os.environ.get("SLURM_JOBID") or None


def current() -> Allocation | None:
    """Return the allocation that this process belongs to; None outside of Slurm, BadInput when it is over."""
    number = job()
    return None if number is None else of_job(number)


def require() -> Allocation:
    """Return the allocation that this process belongs to; BadInput outside of Slurm."""
    allocation = current()
    if allocation is None:
        raise BadInput(
            "this is not a job of Slurm: SLURM_JOB_ID is not set",
            remedy="run it in a batch script (`loadframe slurm` writes one), or after `salloc --nodes=...`",
        )
    return allocation


def of_job(number: str) -> Allocation:
    """Return the allocation of a job; BadInput when there is none any more."""
    try:
        line = _ask("squeue", "--noheader", "--states=all", f"--jobs={number}", "--format=%T|%e|%N")
    except LoadframeError as error:
        raise BadInput(f"there is no job {number} of Slurm", where=error.what, remedy="start it in a new job") from None
    state, ends, names = (*line.split("|"), "", "", "")[:3]
    if state not in _HELD or not names:
        raise BadInput(
            f"job {number} of Slurm holds no machines: it is {state.lower() or 'over'}",
            remedy="start it in a new job",
        )
    return Allocation(number, hostnames(names), float(ends) if ends.isdecimal() else None)


def hostnames(names: str) -> tuple[str, ...]:
    """Return what Slurm's short form of names means: `n[1-3],login` is n1, n2, n3 and login."""
    return tuple(_ask("scontrol", "show", "hostnames", names).split()) if names else ()


def addresses(machines: tuple[str, ...]) -> Mapping[str, str]:
    """Return the address or host name by which Slurm reaches each of the machines."""
    lines = _ask("sinfo", "--noheader", "--Node", f"--nodes={','.join(machines)}", "--format=%N|%o").splitlines()
    return dict(line.split("|") for line in lines)


def machines_of_this_step() -> tuple[str, ...]:
    """Return the machines of this process and its fellows: those of its job step, or the one of a batch script."""
    if os.environ.get("SLURM_STEP_ID", "").isdecimal() and (names := os.environ.get("SLURM_STEP_NODELIST")):
        return hostnames(names)
    name = os.environ.get("SLURMD_NODENAME")
    return (name,) if name else ()


def environment(number: str) -> dict[str, str]:
    """Return the environment in which another step of the job is started: without what is meant for this one."""
    kept = {name: text for name, text in os.environ.items() if name in _OF_JOBS or not name.startswith(_OF_STEPS)}
    return {**kept, "SLURM_JOB_ID": number}


def cancel_step(number: str, name: str) -> None:
    """End the steps of that name in a job; LoadframeError when Slurm refuses."""
    for line in _ask("squeue", "--noheader", "--steps", f"--jobs={number}", "--format=%i|%j").splitlines():
        step, _, called = line.partition("|")
        if called == name:
            _ask("scancel", step)


def _ask(*command: str) -> str:
    """Return what a command of Slurm prints; BadInput where there is no Slurm, LoadframeError when it refuses."""
    variables = {**os.environ, "SLURM_TIME_FORMAT": "%s"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_ANSWER_WITHIN, check=False, env=variables
        )
    except FileNotFoundError:
        raise BadInput(
            f"{command[0]} is not installed here, or not in the PATH",
            remedy="run this on a machine of the cluster, with Slurm's commands loaded (often `module load slurm`)",
        ) from None
    except subprocess.TimeoutExpired:
        raise LoadframeError(
            f"Slurm does not answer `{command[0]}` within {_ANSWER_WITHIN:.0f} s",
            remedy="look whether `sinfo` answers, and try again",
        ) from None
    if done.returncode:
        said = done.stderr.strip().splitlines()
        raise LoadframeError(said[-1] if said else f"{command[0]} ended with status {done.returncode}")
    return done.stdout.strip()


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
            given = require()
            job = given.job
            slots = _chosen(given, machines, placement)
        except BadInput as error:
            trouble = error
        reached = addresses(tuple(slots)) if slots else {}
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


def _chosen(given: Allocation, asked: Sequence[str], placement: Placement) -> dict[str, int | None]:
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
    ranks = machines_of_this_step()
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
        super().__init__(command, environment(job))

    def receive(self) -> bytes:
        data = super().receive()
        if not data and (self.status() or 0) < 0:
            with contextlib.suppress(LoadframeError):
                cancel_step(self._job, self._step)
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
