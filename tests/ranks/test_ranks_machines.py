"""Ranks on two machines that mpirun reaches by ssh: one record of both, also when one of the machines is cut off."""

import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from commands import LOADFRAME, PATIENCE, Running, open_folder
from loadframe.record import Run
from machines import machines, obstacle

OBSTACLE = obstacle() or (None if shutil.which("redis-server") else "redis-server is not installed")
pytestmark = [
    pytest.mark.store,
    pytest.mark.skipif(OBSTACLE is not None, reason=f"no machines with ranks here: {OBSTACLE}"),
]


@pytest.fixture
def redis():
    """Start a server that an address of this machine leads to, and return its port."""
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
    command = ["redis-server", "--bind", "0.0.0.0", "--port", str(port), "--save", "", "--protected-mode", "no"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as server:
        yield port
        server.kill()


def wait_until(true, seconds=PATIENCE):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.1)


def ranks_of(folder: Path) -> list[psutil.Process]:
    """Return the rank processes on all machines of the test, which share this kernel."""
    ranks = []
    for process in psutil.process_iter(["cmdline", "status"]):
        words = process.info["cmdline"] or []
        if str(folder / "kept") in words and str(LOADFRAME) in words[:2]:
            ranks.append(process)
    return [process for process in ranks if process.info["status"] != psutil.STATUS_ZOMBIE]


def test_a_machine_that_is_cut_off_is_named_in_both_records(redis, monkeypatch):
    pytest.importorskip("mpi4py")
    mpirun = shutil.which("mpirun", path=f"{Path(sys.executable).parent}")
    if mpirun is None:
        pytest.skip("mpirun does not lie beside this Python")
    with machines(2, loading=2) as two, open_folder("ranks-machines") as folder:
        here = f"{two.addresses['m1'].rpartition('.')[0]}.1"
        options = {
            "plm_ssh_agent": two.ssh,
            "oob_tcp_keepalive_time": 5,
            "oob_tcp_keepalive_intvl": 2,
            "oob_tcp_keepalive_probes": 3,
        }
        words = [str(word) for name, value in options.items() for word in ("--prtemca", name, value)]
        words += ["--mca", "btl_tcp_if_exclude", "lo", "--host", "m1:1,m2:1", "-n", "2", "--allow-run-as-root"]
        bench = (LOADFRAME, "bench", "ycsb/b", "--store", "redis", "--hosts", f"{here}:{redis}", "--duration", "10m")
        with Running(*words, *bench, "--output", folder / "kept", folder=folder, program=Path(mpirun)) as command:
            command.wait_for("phase b", "3 s:")
            assert len(ranks_of(folder)) >= 2
            two.cut("m2")
            command.process.wait(PATIENCE)
            # Rank 0 continues until its record is complete.
            wait_until(lambda: not ranks_of(folder))
        run = Run(folder / "kept")
        assert (run.summary.status, run.summary.fault) == ("failed", "generator")
        assert "rank 1 on m2" in run.summary.failure
        assert [(member.rank, member.machine) for member in run.manifest.generator.members] == [(0, "m1"), (1, "m2")]
        load, measured = run.summary.phases
        assert [rank.machine for rank in load.ranks] == ["m1", "m2"]
        assert sum(rank.requests for rank in load.ranks) == load.operations["load"].requests == 1000
        # They have the clock of one kernel, and do not know that.
        assert 0 < load.ranks[1].clock_uncertainty < 0.01
        assert abs(load.ranks[1].clock_offset) <= load.ranks[1].clock_uncertainty
        assert measured.operations["read"].requests > 0
