"""Ranks that see different files: an error names the rank before the load, and nothing is left behind."""

import subprocess
import sys
from pathlib import Path

import pytest

from commands import LOADFRAME, open_folder

pytestmark = [
    pytest.mark.store,
    pytest.mark.skipif(
        subprocess.run(["unshare", "--mount", "true"], check=False, capture_output=True).returncode != 0,
        reason="only root gives a process its own file system",
    ),
]
WORKLOAD = """\
workload: small
collections: {trips: {elasticsearch: {}}}
corpora: {trips: {file: data/trips.json}}
operations:
  fill: {bulk: {collection: trips, corpus: trips, size: 10}}
phases:
  - {name: fill, operation: fill, clients: 3, until: exhausted}
"""


def test_a_corpus_that_only_rank_0_sees_is_refused(monkeypatch):
    pytest.importorskip("mpi4py")
    mpirun = Path(sys.executable).parent / "mpirun"
    if not mpirun.exists():
        pytest.skip("mpirun is not installed beside this Python")
    with open_folder("files-of-ranks") as folder:
        monkeypatch.setenv("LOADFRAME_STATE", str(folder / "state"))
        (folder / "small.yaml").write_text(WORKLOAD)
        (folder / "data").mkdir()
        (folder / "data" / "trips.json").write_text('{"a": 1}\n' * 50)
        bench = f"{LOADFRAME} bench small.yaml --store sim --output run"
        hidden = f"mount -t tmpfs none data && exec {bench}"
        done = subprocess.run(
            [mpirun, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", "1", *bench.split(),
             ":", "-n", "1", "unshare", "--mount", "sh", "-c", hidden],
            cwd=folder, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == 2, done.stderr
        assert "rank 1 on " in done.stderr
        assert "No such file or directory" in done.stderr
        assert "provide the files that rank 0 reads at the same paths" in done.stderr
        assert list((folder / "state" / "passing").iterdir()) == []
