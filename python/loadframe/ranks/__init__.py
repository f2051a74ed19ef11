"""Distributed load generation over MPI: processes (ranks), their messages, and their part in a phase.

Ranks above 0 import only this package, `base` and the engine. This module detects ranks from environment variables, and
imports only the standard library.
"""

import os
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass

#: Workspace of ranks that `--ranks` started. It contains the socket of the process that the user started.
STARTER = "LOADFRAME_STARTER"

#: Variables with the rank and the number of ranks, and the launcher. PMIx sets no variable with the number.
_RANKS = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "Open MPI"),
    ("PMI_RANK", "PMI_SIZE", "PMI"),
    ("PMIX_RANK", "SLURM_STEP_NUM_TASKS", "PMIx"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "Slurm"),
)
#: Prefixes of variables that would make a child process believe that it is a rank.
_MARKS = ("OMPI_", "PMIX_", "PMI_", "PRTE_", "OPAL_")


@dataclass(frozen=True)
class Place:
    """Rank of this process, number of ranks, and launcher."""

    rank: int
    size: int
    launcher: str


def place(environment: Mapping[str, str] = os.environ) -> Place | None:
    """Return rank, number of ranks and launcher of this process, from the launcher's variables in `environment`.

    The launchers are Open MPI, PMI, PMIx and Slurm; the first with both numbers counts. None without such variables, or
    if they name a single rank. Slurm's rank counts only in a job step.
    """
    for rank, size, launcher in _RANKS:
        if rank == "SLURM_PROCID" and not environment.get("SLURM_STEP_ID", "").isdigit():
            # Batch scripts also have SLURM_PROCID, but are not in a job step.
            continue
        numbers = environment.get(rank, ""), environment.get(size, "")
        if all(number.isdigit() for number in numbers) and int(numbers[1]) > 1:
            return Place(int(numbers[0]), int(numbers[1]), launcher)
    return None


def forget(environment: MutableMapping[str, str] = os.environ) -> None:
    """Delete launchers' variables (prefixes OMPI_, PMIX_, PMI_, PRTE_, OPAL_) and `STARTER` from `environment`.

    Child processes then do not take themselves for ranks. Slurm's variables stay.
    """
    for name in [name for name in environment if name.startswith(_MARKS)]:
        del environment[name]
    environment.pop(STARTER, None)
