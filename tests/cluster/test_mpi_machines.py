"""Nodes on the machines of the ranks themselves, which real MPI ranks of a real Slurm start."""

import json

import pytest

from commands import LOADFRAME
from loadframe.base.errors import BadInput
from loadframe.host import choice
from loadframe.record import Run

pytestmark = pytest.mark.store


def bench(slurm, job, folder, state, *more):
    pytest.importorskip("mpi4py")
    words = ("bench", "ycsb/b", "--store", "redis", "--host", "mpi", "--set", "records=200", "--set", "duration=2s")
    return slurm.run(
        "srun", "--overlap", "--nodes=3", "--ntasks=3", "--ntasks-per-node=1", "--mpi=pmix",
        LOADFRAME, *words, "--output", folder / "run", *more,
        SLURM_JOB_ID=job, LOADFRAME_STATE=str(state),
    )  # fmt: skip


def test_ranks_start_nodes_on_their_machines_and_load_them(slurm, state, tmp_path):
    with slurm.allocation(3) as environment:
        job = environment["SLURM_JOB_ID"]
        done = bench(slurm, job, tmp_path, state, "--nodes", "3")
        assert done.returncode == 0, done.stderr
        assert slurm.processes(job) == [], "a node or an agent is left"
    manifest = Run(tmp_path / "run").raw_manifest
    told = json.dumps(manifest["store"]["machines"])
    assert all(f'"{name}"' in told for name in ("n1", "n2", "n3")), told
    assert list((state / "passing").iterdir()) == []


def test_the_mpi_host_without_ranks_is_refused():
    with pytest.raises(BadInput, match="--host mpi uses the machines of the ranks, but no ranks were started"):
        choice.find("mpi").require()
