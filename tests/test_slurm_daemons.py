"""The Slurm that other tests use: it runs jobs on its machines, MPI included, and leaves nothing."""

import sys

import psutil
import pytest

import slurm_daemons
from slurm_daemons import SlurmDaemons

pytestmark = pytest.mark.skipif(slurm_daemons.missing() is not None, reason=str(slurm_daemons.missing()))

RANKS = """
import os
from mpi4py import MPI
world = MPI.COMM_WORLD
names = world.gather(os.environ["SLURMD_NODENAME"])
if world.rank == 0:
    print(world.size, *names)
"""


@pytest.mark.slow
def test_ranks_on_several_machines_are_one_world(slurm):
    pytest.importorskip("mpi4py")
    count = 4 if slurm_daemons.named() else 2
    # Without this variable, Open MPI from PyPI looks for its files in the folder where its wheel was built.
    done = slurm.run(
        "srun", "--nodes=2", f"--ntasks-per-node={count}", "--mpi=pmix", sys.executable, "-c", RANKS,
        OPAL_PREFIX=sys.prefix,
    )  # fmt: skip
    assert done.stdout.split() == [str(2 * count), *["n1"] * count, *["n2"] * count], done.stderr


@pytest.mark.slow
def test_it_leaves_no_process_and_no_folder(slurm):
    with SlurmDaemons(machines=1) as another:
        job = another.run("sbatch", "--parsable", "--output=/dev/null", "--wrap", "sleep 300").stdout.strip()
        another._await(lambda: len(another.processes(job)) >= 2)
        processes = [*another.processes(job), *another._left()]
    # A process that has ended but is not yet reaped is a zombie.
    left = [process for process in processes if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]
    assert left == []
    assert not another.folder.exists()
    assert slurm.run("sinfo", "-h", "-o", "%D").stdout.strip() == "4", "the other Slurm was ended too"
