"""What the environment says of this process as a rank. It imports nothing but the standard library."""

import os
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass

#: Set in ranks that `--ranks` started: their workspace, with the socket of the process that a user started.
STARTER = "LOADFRAME_STARTER"

#: Variables with a rank and with their number, by what sets them. PMIx says no number in its variables.
_RANKS = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "Open MPI"),
    ("PMI_RANK", "PMI_SIZE", "PMI"),
    ("PMIX_RANK", "SLURM_STEP_NUM_TASKS", "PMIx"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "Slurm"),
)
#: Beginnings of variables by which a process that is started here would take itself for a rank, too.
_MARKS = ("OMPI_", "PMIX_", "PMI_", "PRTE_", "OPAL_")


@dataclass(frozen=True)
class Place:
    """A rank among several, and what started them."""

    rank: int
    size: int
    launcher: str


def place(environment: Mapping[str, str] = os.environ) -> Place | None:
    """Return the place of this process; None unless it is one of several that were started together."""
    for rank, size, launcher in _RANKS:
        if rank == "SLURM_PROCID" and not environment.get("SLURM_STEP_ID", "").isdigit():
            # A batch script has a SLURM_PROCID, too, and only one task.
            continue
        numbers = environment.get(rank, ""), environment.get(size, "")
        if all(number.isdigit() for number in numbers) and int(numbers[1]) > 1:
            return Place(int(numbers[0]), int(numbers[1]), launcher)
    return None


def forget(environment: MutableMapping[str, str] = os.environ) -> None:
    """Remove what says that this process is a rank, so that what it starts does not think that it is one."""
    for name in [name for name in environment if name.startswith(_MARKS)]:
        del environment[name]
    environment.pop(STARTER, None)
