"""What it costs to be one rank of several: CPU of the threads that do not load, under a small load.

The load is 20 requests a second on one node of the store `sim`. CPU time is read from /proc for 18 s of it.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from loadframe.units import format_share

LOADFRAME = Path(sys.executable).with_name("loadframe")
SECONDS = 18
RANKS = 4
#: The share of a core that a rank above 0 may take for its talk.
AIM = 0.01
WORKLOAD = """\
workload: small
collections: {trips: {elasticsearch: {}}}
corpora: {trips: {generate: nyc_taxi_trip, documents: 120}}
operations:
  fill: {bulk: {collection: trips, corpus: trips, size: 10}}
  look: {search: {collection: trips, size: 1}}
phases:
  - {name: fill, prepares: true, operation: fill, clients: 3, until: exhausted}
  - {name: look, operation: look, rate: 20/s, duration: 30s}
"""


def threads(launcher: int) -> dict[tuple[str, str, int], float]:
    """Return the CPU seconds of each thread of each rank, by rank, name and number."""
    ticks = os.sysconf("SC_CLK_TCK")
    used = {}
    for process in psutil.Process(launcher).children(recursive=True):
        rank = process.environ().get("OMPI_COMM_WORLD_RANK")
        if rank is None or "loadframe" not in " ".join(process.cmdline()):
            continue
        for task in Path(f"/proc/{process.pid}/task").iterdir():
            name, _, rest = (task / "stat").read_text().partition("(")[2].rpartition(")")
            fields = rest.split()
            used[rank, name, int(task.name)] = (int(fields[11]) + int(fields[12])) / ticks
    return used


def main() -> None:
    """Load with several ranks, and print what their threads used."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        Path(folder, "small.yaml").write_text(WORKLOAD)
        said = Path(folder, "stderr.txt")
        words = ["bench", "small.yaml", "--store", "sim", "--output", "run", "--ranks", str(RANKS)]
        with said.open("w") as errors:
            command = subprocess.Popen(
                [LOADFRAME, *words],
                cwd=folder,
                env={**os.environ, "LOADFRAME_STATE": f"{folder}/state"},
                stdout=subprocess.DEVNULL,
                stderr=errors,
            )
        while "2 s:" not in said.read_text().partition("phase look")[2]:
            assert command.poll() is None, said.read_text()
            time.sleep(0.1)
        before, began = threads(command.pid), time.monotonic()
        time.sleep(SECONDS)
        after, elapsed = threads(command.pid), time.monotonic() - began
        command.wait()
    shares: dict[str, float] = {}
    for (rank, name, number), used in after.items():
        if not name.startswith("worker"):
            shares[rank] = shares.get(rank, 0.0) + (used - before.get((rank, name, number), 0.0)) / elapsed
    others = [share for rank, share in shares.items() if rank != "0"]
    verdict = "reached" if max(others) <= AIM else "missed"
    print(f"  {RANKS} ranks: rank 0 {format_share(shares['0'], 2)} of a core beside its workers, for the record, too;")
    print(
        f"  others {format_share(min(others), 2)} to {format_share(max(others), 2)}; aim {format_share(AIM)} {verdict}"
    )
