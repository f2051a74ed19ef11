"""Ranks that srun has started, on two machines of a real Slurm."""

from pathlib import Path

import pytest

from commands import LOADFRAME, open_folder
from loadframe.record import Run

pytestmark = pytest.mark.store

WORKLOAD = """\
workload: small
collections: {trips: {elasticsearch: {}}}
corpora: {trips: {generate: nyc_taxi_trip, documents: 120}}
operations:
  fill: {bulk: {collection: trips, corpus: trips, size: 10}}
  look: {search: {collection: trips, size: 1}}
phases:
  - {name: fill, prepares: true, operation: fill, clients: 3, until: exhausted}
  - {name: look, operation: look, clients: 6, duration: 2s}
"""


def test_ranks_of_a_job_step_load_together_and_are_recorded_with_their_machines(slurm, monkeypatch):
    pytest.importorskip("mpi4py")
    with open_folder("ranks-slurm") as folder:
        monkeypatch.setenv("LOADFRAME_STATE", str(folder / "state"))
        Path(folder, "small.yaml").write_text(WORKLOAD)
        done = slurm.run(
            "srun", "--nodes=2", "--ntasks-per-node=2", "--mpi=pmix", LOADFRAME,
            "bench", "small.yaml", "--store", "sim", "--output", "together", folder=folder,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        run = Run(folder / "together")
        members = run.manifest.generator.members
        assert [(member.rank, member.machine) for member in members] == [(0, "n1"), (1, "n1"), (2, "n2"), (3, "n2")]
        look = run.summary.phases[1]
        assert [rank.machine for rank in look.ranks] == ["n1", "n1", "n2", "n2"]
        assert sum(rank.requests for rank in look.ranks) == look.operations["look"].requests
        assert run.summary.verdict is not None
