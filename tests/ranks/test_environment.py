"""Who a process is among several that were started together."""

import pytest

from loadframe.ranks import Place, forget, place


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, None),
        ({"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4"}, Place(2, 4, "Open MPI")),
        ({"PMI_RANK": "1", "PMI_SIZE": "3"}, Place(1, 3, "PMI")),
        ({"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "1"}, None),
        ({"SLURM_PROCID": "3", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "8"}, Place(3, 8, "Slurm")),
        ({"PMIX_RANK": "3", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "8"}, Place(3, 8, "PMIx")),
        # A batch script, which is one task.
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "8"}, None),
        ({"SLURM_PROCID": "0", "SLURM_STEP_ID": "4294967291", "SLURM_STEP_NUM_TASKS": "1"}, None),
    ],
)
def test_the_launcher_says_it_in_the_environment(environment, expected):
    assert place(environment) == expected


def test_child_processes_of_a_rank_do_not_inherit_its_rank():
    environment = {"PMIX_RANK": "2", "PRTE_X": "", "PATH": "/bin", "LOADFRAME_STARTER": "x"}
    forget(environment)
    assert environment == {"PATH": "/bin"}
