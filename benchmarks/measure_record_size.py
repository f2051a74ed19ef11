"""Size of the record of 16 ranks compared with a single process, with the same requests at the same times.

One process records all its workers per second, while ranks record the worst eight of all. The process therefore runs
with one worker, and with as many as the ranks have. The load is on one node of the store `sim`, whose answers do not
depend on the client.
"""

import os
import subprocess
import tempfile
from pathlib import Path

from benchmarks.measure_cost_of_a_rank import LOADFRAME, WORKLOAD

from loadframe.base.errors import LoadframeError
from loadframe.base.units import format_size

RANKS = 16
RATE, SECONDS = 400, 30
#: Phases of the workload, and record members with figures per rank, which do not grow with the run length.
PHASES = 2
FIXED = ("manifest.json", "summary.json", "events.jsonl")
#: Maximum ratio of the sizes.
AIM = 1.05


def main() -> None:
    """Record both, and print the sizes by member and their ratio."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        workload = WORKLOAD.replace("20/s", f"{RATE}/s").replace("30s", f"{SECONDS}s")
        Path(folder, "small.yaml").write_text(workload)
        one, several, threads = (_record(Path(folder), *counts) for counts in ((1, 1), (RANKS, 1), (1, RANKS)))
    for member in sorted(several, key=lambda name: -several[name]):
        sizes = [format_size(sizes.get(member, 0)) for sizes in (one, threads, several)]
        print(f"  {member}: {sizes[0]} of one worker, {sizes[1]} of {RANKS}, {sizes[2]} of {RANKS} ranks")
    ratios = [_growing(several) / _growing(sizes) for sizes in (one, threads)]
    verdict = "reached" if ratios[1] <= AIM else "missed"
    print(f"  what grows with time: ratio {ratios[0]:.3f} to one worker, {ratios[1]:.3f} to {RANKS}, for which the")
    print(f"  aim is {AIM}: {verdict}")
    fixed = sum(several[member] - threads.get(member, 0) for member in FIXED) / RANKS
    print(f"  what does not: {format_size(fixed)} more for each rank, with its figures in each of {PHASES} phases")


def _growing(sizes: dict[str, int]) -> int:
    return sum(size for member, size in sizes.items() if member not in FIXED)


def _record(folder: Path, ranks: int, threads: int) -> dict[str, int]:
    """Return the bytes of each file of the run."""
    run = folder / f"of-{ranks}-{threads}"
    words = ["bench", "small.yaml", "--store", "sim", "--seed", "5", "--output", str(run), "--threads", str(threads)]
    done = subprocess.run(
        [LOADFRAME, *words, *(["--ranks", str(ranks)] if ranks > 1 else [])],
        cwd=folder,
        env={**os.environ, "LOADFRAME_STATE": f"{folder}/state"},
        capture_output=True,
        text=True,
        check=False,
    )
    if not run.exists():
        raise LoadframeError(f"there is no record: {done.stderr.strip()[-2000:]}")
    return {path.name: path.stat().st_size for path in run.rglob("*") if path.is_file()}
