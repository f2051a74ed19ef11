"""One experiment fills a named cluster, then starts it with 1, 2 and 3 nodes, over SSH and in a Slurm job."""

from pathlib import Path

import pytest
from test_existing_clusters import WORKLOAD

import commands
from loadframe.cluster import Cluster
from loadframe.record import Run
from machines import machines, obstacle
from own_servers import REDIS

pytestmark = [pytest.mark.store, pytest.mark.skipif(not REDIS, reason="redis-server is not installed")]
OBSTACLE = obstacle()
EXPERIMENT = """\
experiment: once
store: {cluster: docs, data: keep}
workload: ./small.yaml
kind: scale
prepare: once
factors: {nodes: [1, 2, 3]}
"""
SIZES = [1, 2, 3]


@pytest.fixture
def file(tmp_path) -> Path:
    """The experiment file."""
    (tmp_path / "small.yaml").write_text(WORKLOAD)
    path = tmp_path / "once.yaml"
    path.write_text(EXPERIMENT)
    return path


def require_filled_once(output: Path, said: str, expected: dict[int, list[str]]) -> None:
    """Require that one phase filled the cluster, that each run counted it, and the machines of its nodes."""
    runs = [Run(path) for path in (output / "runs").iterdir() if not path.name.startswith(".")]
    stores = [run.raw_manifest["store"] for run in runs]
    assert [run.summary.failure for run in runs] == [None] * len(SIZES)
    assert sorted(store["nodes"] for store in stores) == SIZES
    assert [store["documents"] for store in stores] == [{"things": 200}] * len(SIZES)
    assert said.count("phase fill") == 1
    assert {
        store["nodes"]: sorted(machine["name"] for machine in store["machines"] if machine["nodes"]) for store in stores
    } == expected


@pytest.mark.skipif(OBSTACLE is not None, reason=f"no machines here: {OBSTACLE}")
def test_over_ssh(file, state, monkeypatch):
    with machines(3) as three:
        monkeypatch.setenv("LOADFRAME_SSH", three.ssh)
        up = ("cluster", "up", "docs", "--store", "redis", "--set", "cluster=true", "--nodes", 2, "--host", "ssh")
        commands.result(*up, "--machines", "m1,m2,m3")
        done = commands.loadframe("run", file, "--output", file.with_suffix(""))
        assert done.returncode == 0, done.stderr
        require_filled_once(file.with_suffix(""), done.stderr, {1: ["m1"], 2: ["m1", "m2"], 3: ["m1", "m2", "m3"]})
        assert (Cluster.recorded("docs").nodes, Cluster.runs("docs")) == (2, True)
        commands.result("cluster", "down", "docs", "--delete-data")


@pytest.mark.trial
def test_in_a_slurm_job(file, slurm, state):
    def done(*words: object) -> str:
        result = slurm.run(commands.LOADFRAME, *words, SLURM_JOB_ID=job["SLURM_JOB_ID"], LOADFRAME_STATE=str(state))
        assert result.returncode == 0, result.stderr
        return result.stderr

    up = ("cluster", "up", "docs", "--store", "redis", "--set", "cluster=true", "--nodes", 2, "--host", "slurm")
    with slurm.allocation(3) as job:
        # Nodes cannot outlive `up` in a job; their data does.
        done(*up, "--keep-data", "--", "true")
        said = done("run", file, "--output", file.with_suffix(""))
        require_filled_once(file.with_suffix(""), said, {1: ["n1"], 2: ["n1", "n2"], 3: ["n1", "n2", "n3"]})
        assert slurm.processes(job["SLURM_JOB_ID"]) == []
