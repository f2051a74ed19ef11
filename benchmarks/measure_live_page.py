"""Cost of the live page: CPU time of `bench` at a fixed rate, without a page, with a page, and with a reader.

The store is simulated, so only the client is measured. The variants alternate for several rounds.
"""

import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import httpx
import psutil

from loadframe.base.errors import LoadframeError

SECONDS = 30
REPETITIONS = 2
LOADFRAME = Path(sys.executable).with_name("loadframe")
WORKLOAD = """\
workload: live
collections: {trips: {elasticsearch: {}}}
operations: {look: {search: {collection: trips, size: 1}}}
phases: [{name: look, operation: look, rate: 500/s, duration: %ds}]
"""


def main() -> None:
    """Measure and print CPU seconds and their share of the run."""
    ways: dict[str, Callable[[], float]] = {
        "no page": _run,
        "--web, nobody looks": lambda: _run("--web", "--web-address", "0"),
        "--web, one reader": lambda: _run("--web", "--web-address", "0", read=True),
    }
    spent: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(REPETITIONS):
        for way, run in ways.items():
            spent[way].append(run())
    alone = min(spent["no page"])
    for way, seconds in spent.items():
        least = min(seconds)
        told = ", ".join(f"{run:.2f}" for run in seconds)
        print(f"  {way}: {told} CPU s in runs of {SECONDS} s; the least is {(least - alone) / SECONDS:+.2%} of a core")


def _run(*more: str, read: bool = False) -> float:
    """Return the CPU time of the command without the store's nodes, s."""
    with tempfile.TemporaryDirectory(prefix="loadframe-live-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "live.yaml").write_text(WORKLOAD % SECONDS)
        words = [LOADFRAME, "bench", folder / "live.yaml", "--store", "sim", "--output", folder / "run", *more]
        with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr
            watched, spent = psutil.Process(process.pid), 0.0
            said: list[str] = []
            for line in process.stderr:
                said.append(line)
                if read and (url := re.search(r"the live page: (\S+)", line)):
                    threading.Thread(target=_read, args=(url[1],), daemon=True).start()
                times = watched.cpu_times()
                spent = times.user + times.system
        if process.returncode:
            raise LoadframeError(f"bench failed: {''.join(said)[-500:]}")
        return spent


def _read(url: str) -> None:
    with httpx.stream("GET", f"{url}events", timeout=60) as answer:
        for _ in answer.iter_lines():
            pass
