"""CPU cost of communication between ranks under a small load, relative to a single process.

The load is 20 requests/s on one node of the store `sim`. The threads of rank 0 other than workers are compared with the
same threads of a single process, because both show progress, sample the cluster and write the record.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from loadframe.base.units import format_share

LOADFRAME = Path(sys.executable).with_name("loadframe")
SECONDS = 18
RANKS = 4
#: Maximum extra share of a core per rank.
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


def main() -> None:
    """Load with one process and with several ranks; print the CPU use of the threads other than workers."""
    alone = _beside_workers(1)["0"]
    shares = _beside_workers(RANKS)
    others = [share for rank, share in shares.items() if rank != "0"]
    extra = shares["0"] - alone
    verdict = "reached" if max(extra, *others) <= AIM else "missed"
    print(f"  beside its workers, of a core: one process {format_share(alone, 2)}, for its record and its cluster")
    print(f"  rank 0 of {RANKS} {format_share(shares['0'], 2)}, {format_share(extra, 2)} more")
    print(
        f"  others {format_share(min(others), 2)} to {format_share(max(others), 2)}; aim {format_share(AIM)} {verdict}"
    )


def _beside_workers(ranks: int) -> dict[str, float]:
    """Return, by rank, the share of a core used by threads other than workers."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        Path(folder, "small.yaml").write_text(WORKLOAD)
        said = Path(folder, "stderr.txt")
        words = ["bench", "small.yaml", "--store", "sim", "--output", "run"]
        with said.open("w") as errors:
            command = subprocess.Popen(
                [LOADFRAME, *words, *(["--ranks", str(ranks)] if ranks > 1 else [])],
                cwd=folder,
                env={**os.environ, "LOADFRAME_STATE": f"{folder}/state"},
                stdout=subprocess.DEVNULL,
                stderr=errors,
            )
        while "2 s:" not in said.read_text().partition("phase look")[2]:
            assert command.poll() is None, said.read_text()
            time.sleep(0.1)
        before, began = _threads(command.pid, ranks), time.monotonic()
        time.sleep(SECONDS)
        after, elapsed = _threads(command.pid, ranks), time.monotonic() - began
        command.wait()
    shares: dict[str, float] = {}
    for (rank, name, number), used in after.items():
        if not name.startswith("worker"):
            shares[rank] = shares.get(rank, 0.0) + (used - before.get((rank, name, number), 0.0)) / elapsed
    return shares


def _threads(launcher: int, ranks: int) -> dict[tuple[str, str, int], float]:
    """Return the CPU seconds of each thread by rank, name and number; a single process counts as rank 0."""
    top = psutil.Process(launcher)
    used = {}
    for process in top.children(recursive=True) if ranks > 1 else [top]:
        rank = process.environ().get("OMPI_COMM_WORLD_RANK") if ranks > 1 else "0"
        if rank is None or "loadframe" not in " ".join(process.cmdline()):
            continue
        for task in Path(f"/proc/{process.pid}/task").iterdir():
            # Nanoseconds on a processor (sched-stats in the kernel's documentation).
            spent = int((task / "schedstat").read_text().split()[0]) / 1e9
            used[rank, (task / "comm").read_text().strip(), int(task.name)] = spent
    return used
