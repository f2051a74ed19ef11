"""Time and memory of the report of an experiment of 10,000 runs, relative to their limits.

The runs come from the simulated store of the tests: 100 treatments in blocks. The recorder writes some blocks, and the
other blocks are copies.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from loadframe.base.errors import LoadframeError
from loadframe.base.units import format_count, format_duration, format_size

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from simulated import write_experiment

NODES, CLIENTS, BLOCKS = range(1, 11), (1, 2, 4, 8, 16, 32, 64, 128, 256, 512), 100
#: Blocks that are written; the others are copies.
WRITTEN = 4
LIMIT_SECONDS, LIMIT_BYTES = 60.0, 2e9
#: The command line; at its end it prints its peak memory to standard error.
_COMMAND = """
import sys
from loadframe.cli import main

try:
    main()
finally:
    from benchmarks.machine import peak_memory

    print(peak_memory(), file=sys.stderr)
"""


def main() -> None:
    """Write the runs, create the report in a separate process, and print its time and memory."""
    with tempfile.TemporaryDirectory() as folder:
        experiment = write_experiment(Path(folder) / "e", nodes=NODES, clients=CLIENTS, repetitions=WRITTEN)
        for block in range(WRITTEN + 1, BLOCKS + 1):
            _copy(experiment, (block - 1) % WRITTEN + 1, block)
        runs = len(list((experiment / "runs").iterdir()))
        seconds, memory = _report(experiment)
    print(f"  {format_count(runs)} runs: {format_duration(seconds)}, {format_size(memory)}")
    print(f"  ratios to the limits of {format_duration(LIMIT_SECONDS)} and {format_size(LIMIT_BYTES)}:"
          f" {seconds / LIMIT_SECONDS:.2f} and {memory / LIMIT_BYTES:.2f}")  # fmt: skip


def _copy(experiment: Path, block: int, to: int) -> None:
    description = json.loads((experiment / "experiment.json").read_text())
    for entry in [entry for entry in description["design"] if entry["block"] == block]:
        name = entry["run"].replace(f"b{block}-", f"b{to}-", 1)
        description["design"].append({**entry, "run": name, "block": to})
        run = experiment / "runs" / name
        shutil.copytree(experiment / "runs" / entry["run"], run, copy_function=os.link)
        manifest = json.loads((run / "manifest.json").read_text())
        (run / "manifest.json").unlink()
        (run / "manifest.json").write_text(json.dumps({**manifest, "run": name, "block": to, "repetition": to}))
    (experiment / "experiment.json").write_text(json.dumps(description))


def _report(experiment: Path) -> tuple[float, int]:
    """Return the time and the peak memory of the command."""
    started = time.monotonic()
    command = [sys.executable, "-c", _COMMAND, "report", str(experiment)]
    child = subprocess.run(command, capture_output=True, text=True, check=False)
    if child.returncode:
        raise LoadframeError(f"the report failed: {child.stderr[-2000:]}")
    return time.monotonic() - started, int(child.stderr.split()[-1])
