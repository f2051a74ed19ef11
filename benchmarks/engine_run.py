"""Runs one phase on the engine in a process of its own, so that its memory and its core are nobody else's.

As a program it reads {"plan": ..., "core": number or null} from standard input and prints what `Measured` holds. The
recordings go through the same writer as those of a run, into a folder that is thrown away.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from loadframe.errors import LoadframeError
from loadframe.load import run_phase
from loadframe.record import RunWriter


@dataclass(frozen=True)
class Measured:
    """A phase's result: rate in 1/s of the measured window, requests per second of the process's CPU time, service
    times in s, peak memory of the process in bytes."""

    rate: float
    per_cpu_second: float
    p50: float
    p99: float
    failed: int
    peak_memory: int


def measure(plan: dict[str, Any], core: int | None = None) -> Measured:
    """Run `plan` in a new process, on one core if one is named; LoadframeError with its own words if it fails."""
    task = json.dumps({"plan": plan, "core": core})
    command = [sys.executable, "-m", "benchmarks.engine_run"]
    child = subprocess.run(command, input=task, capture_output=True, text=True, check=False)
    if child.returncode:
        raise LoadframeError(child.stderr.strip()[-2000:])
    return Measured(**json.loads(child.stdout))


def phase(target: dict[str, Any], operation: dict[str, Any], pacing: dict[str, Any], duration: float) -> dict[str, Any]:
    """Return the plan of a phase with one operation, one stream, one thread and a second of warm-up."""
    return {
        "seed": 1,
        "phase": "benchmark",
        "threads": 1,
        "warmup": 1.0,
        "target": target,
        "operations": {"operation": operation},
        "streams": [
            {"name": "stream", "mix": [["operation", 1.0]], "pacing": pacing, "stop": {"duration": duration}},
        ],
    }


def _run(plan: dict[str, Any]) -> Measured:
    with tempfile.TemporaryDirectory() as folder, RunWriter(Path(folder), "run") as writer:
        before = time.process_time()
        outcome = run_phase(plan, writer.phase(plan["phase"], 0.0), tell=lambda _: None)
        spent = time.process_time() - before
        recordings = writer.join()
        (operation,) = outcome["operations"]
        service = recordings.histograms.total("benchmark/operation/service")
        return Measured(
            rate=operation["successes"] / outcome["measured"],
            per_cpu_second=sum(recordings.series["requests"].to_pylist()) / spent,
            p50=service.quantile(0.5) or 0.0,
            p99=service.quantile(0.99) or 0.0,
            failed=operation["requests"] - operation["successes"],
            peak_memory=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        )


if __name__ == "__main__":
    given = json.load(sys.stdin)
    if given["core"] is not None:
        os.sched_setaffinity(0, {given["core"]})
    try:
        print(json.dumps(asdict(_run(given["plan"]))))
    except LoadframeError as error:
        sys.exit(str(error))
