"""Start of ranks: files that a rank above 0 opens (strace), and time until 16 ranks have joined.

With thousands of ranks on one file system, each looked-up path is requested thousands of times, found or not. CPU time
is the measure for a rank on a core of its own; here ranks share cores, so wall-clock time covers all of them. A
program that only starts MPI is measured for comparison.
"""

import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
from benchmarks import rank_run
from benchmarks.measure_cost_of_a_rank import LOADFRAME, WORKLOAD

from loadframe.base.errors import BadInput, LoadframeError
from loadframe.base.units import format_count, format_duration

RANKS = 16
#: Number of ranks for counting files, and the rank that is traced.
FEW, WATCHED = 4, 3
#: Maximum number of files that a rank opens.
AIM = 500
AT_SCALE = 1_000
#: Traces one rank; the others run untraced.
_TRACED = """
if [ "$OMPI_COMM_WORLD_RANK" = "$1" ]; then trace=$2; shift 2; exec strace -f -qq -e trace=%file -o "$trace" "$@"; fi
shift 2; exec "$@"
"""
#: Both print a line when all ranks have joined, and stay alive briefly for sampling.
_RANK = """
import sys, time
import loadframe.cli
from loadframe.ranks import entry, environment
def together():
    from loadframe.ranks.coordinator import present
    present().ranks()
    print("together", flush=True)
    time.sleep(2)
    return 0
sys.exit(entry.run(environment.place(), together, lambda folder: None))
"""
_BARE = """
import time
from mpi4py import MPI
MPI.COMM_WORLD.Barrier()
if not MPI.COMM_WORLD.rank:
    print("together", flush=True)
time.sleep(2)
"""


def main() -> None:
    """Count, measure, and print."""
    opened, missing, others = _files()
    verdict = "reached" if opened <= AIM else "missed"
    print(f"  a rank that only loads opens {opened} files and folders; aim {AIM} {verdict}")
    print(f"  {missing} times it would open one that is not there; {others} other calls name a file (status, links)")
    calls = (opened + missing + others) * AT_SCALE
    print(f"  {format_count(AT_SCALE)} ranks: {format_count(calls)} calls that name a file")
    for what, program in (("ranks", _RANK), ("that only start MPI", _BARE)):
        took, used = _together(program)
        print(
            f"  {RANKS} {what}: together after {format_duration(took)} on {os.cpu_count()} cores;"
            f" CPU time of each until then {format_duration(statistics.median(used))} (to {format_duration(max(used))})"
        )


def _files() -> tuple[int, int, int]:
    """Return the numbers of files that a rank opened and did not find, and of other calls with a path."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        Path(folder, "small.yaml").write_text(WORKLOAD.replace("30s", "3s"))
        trace = Path(folder, "trace.txt")
        bench = [str(LOADFRAME), "bench", "small.yaml", "--store", "sim", "--output", "run"]
        traced = ["sh", "-c", _TRACED, "sh", str(WATCHED), str(trace), *bench]
        done = subprocess.run(
            [*rank_run.mpirun(FEW), *traced],
            cwd=folder,
            env={**os.environ, "LOADFRAME_STATE": f"{folder}/state"},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise LoadframeError(f"the ranks failed: {(done.stdout + done.stderr).strip()[-2000:]}")
        if not trace.exists():
            raise BadInput("strace is not installed", remedy="install it")
        calls = re.findall(r"^\d+ +(\w+)\(.*= (-?\d+)", trace.read_text(), re.MULTILINE)
    opens = [int(status) for name, status in calls if name in ("open", "openat", "openat2")]
    there = sum(status >= 0 for status in opens)
    return there, len(opens) - there, len(calls) - len(opens)


def _together(program: str) -> tuple[float, list[float]]:
    """Return the time until all ranks of a program have joined, s, and the CPU time of each rank above 0, s."""
    command = [*rank_run.mpirun(RANKS), sys.executable, "-c", program]
    began = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as launcher:
        assert launcher.stdout
        said = launcher.stdout.readline()
        took = time.monotonic() - began
        used = []
        for process in psutil.Process(launcher.pid).children(recursive=True):
            times = process.cpu_times()
            if process.environ().get("OMPI_COMM_WORLD_RANK", "0") != "0":
                used.append(times.user + times.system)
    if not said or len(used) < RANKS - 1:
        raise LoadframeError(f"{RANKS} ranks did not come together")
    return took, used
