"""What a Slurm job was given: its machines, and until when. It is Slurm's own commands that are asked."""

import os
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass

from loadframe.errors import BadInput, LoadframeError

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
