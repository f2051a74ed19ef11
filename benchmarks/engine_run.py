"""Runs one phase on the engine in a separate process, with its own memory and core.

As a program it reads {"plan": ..., "core": number or null, "outlets": settings or null} from standard input and prints
the fields of `Measured`. It records like a normal run, into a temporary folder.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil
from benchmarks.machine import peak_memory

from loadframe.base.errors import LoadframeError
from loadframe.cli.web import Outlets, published
from loadframe.live import openmetrics, otlp  # noqa: F401  (imported before the measurement)
from loadframe.load import run_phase
from loadframe.record import RunWriter


@dataclass(frozen=True)
class Measured:
    """Result of a phase. Times in s, memory in B.

    `requests`, `cpu` (CPU time of the process) and `worker_cpu` (CPU time of its workers) cover the whole phase with
    its warm-up; `completed` and `completed_documents` cover the measured window. `events` are the acknowledged events.
    """

    seconds: float
    requests: int
    failed: int
    completed: int
    completed_documents: int
    cpu: float
    worker_cpu: float
    waited_share: float
    events: int
    p50: float
    p99: float
    lateness_p50: float
    lateness_p99: float
    memory_before: int
    memory_peak: int

    @property
    def rate(self) -> float:
        """Requests per second of the measured window."""
        return self.completed / self.seconds

    @property
    def documents_rate(self) -> float:
        """Documents per second of the measured window."""
        return self.completed_documents / self.seconds

    @property
    def per_cpu_second(self) -> float:
        """Requests per second of the process's CPU time."""
        return self.requests / self.cpu

    @property
    def memory_growth(self) -> int:
        """Growth of the memory of the process during the run."""
        return self.memory_peak - self.memory_before


def measure(plan: Mapping[str, Any], core: int | None = None, outlets: Mapping[str, Any] | None = None) -> Measured:
    """Run `plan` in a new process, pinned to `core` if given; LoadframeError with its output if it fails.

    With `outlets`, the fields of `loadframe.cli.web.Outlets`, the process publishes like a command.
    """
    task = json.dumps({"plan": plan, "core": core, "outlets": outlets})
    command = [sys.executable, "-m", "benchmarks.engine_run"]
    child = subprocess.run(command, input=task, capture_output=True, text=True, check=False)
    if child.returncode:
        raise LoadframeError(child.stderr.strip()[-2000:])
    measured = Measured(**json.loads(child.stdout))
    if measured.failed:
        raise LoadframeError(f"{measured.failed} requests of the engine failed")
    return measured


def phase(
    target: Mapping[str, Any],
    operation: Mapping[str, Any],
    pacing: Mapping[str, Any],
    stop: Mapping[str, Any] | str,
    *,
    streams: int = 1,
    warmup: float = 1.0,
    **parts: Any,
) -> dict[str, Any]:
    """Return the plan of a phase with one operation and one thread; `parts` are more of the plan's keys.

    `pacing` and `stop` apply to each stream.
    """
    mix = [["operation", 1.0]]
    return {
        "seed": 1,
        "phase": "benchmark",
        "threads": 1,
        "warmup": warmup,
        "target": target,
        "operations": {"operation": operation},
        "streams": [{"name": f"stream_{n}", "mix": mix, "pacing": pacing, "stop": stop} for n in range(streams)],
        **parts,
    }


def _run(plan: dict[str, Any], outlets: Mapping[str, Any] | None) -> Measured:
    with tempfile.TemporaryDirectory() as folder, RunWriter(Path(folder), "run") as writer:
        memory = psutil.Process().memory_info().rss
        records = writer.phase(plan["phase"], 0.0)
        if outlets is None:
            before = time.process_time()
            outcome = run_phase(plan, records, tell=lambda _: None)
            spent = time.process_time() - before
        else:
            outcome, spent = _published(plan, records, outlets)
        peak = peak_memory()
        recordings = writer.join()
        watched = recordings.telemetry.to_pylist()
        total = {
            metric: sum(row["value"] for row in watched if row["metric"] == metric)
            for metric in ("cpu_seconds", "waited_seconds", "wall_seconds")
        }
        operations = outcome["operations"]
        service = recordings.histograms.total(f"{plan['phase']}/{operations[0]['operation']}/service")
        start = plan["warmup"]
        lateness = recordings.histograms.total("generator/lateness", start, start + outcome["measured"])
        return Measured(
            seconds=outcome["measured"],
            requests=sum(recordings.series["requests"].to_pylist()),
            failed=sum(operation["requests"] - operation["successes"] for operation in operations),
            completed=sum(operation["completed"] for operation in operations),
            completed_documents=sum(operation["completed_documents"] for operation in operations),
            cpu=spent,
            worker_cpu=total["cpu_seconds"],
            waited_share=total["waited_seconds"] / total["wall_seconds"],
            events=sum(source["indexed"] for source in outcome["sources"].values()),
            p50=service.quantile(0.5) or 0.0,
            p99=service.quantile(0.99) or 0.0,
            lateness_p50=lateness.quantile(0.5) or 0.0,
            lateness_p99=lateness.quantile(0.99) or 0.0,
            memory_before=memory,
            memory_peak=peak,
        )


def _published(plan: dict[str, Any], records: Path, outlets: Mapping[str, Any]) -> tuple[dict[str, Any], float]:
    """Run a phase with a publisher and outlets that have started; return its outcome and CPU time, s."""
    tracing = {} if outlets.get("trace") is None else {"trace": {"share": outlets["trace"], "run": 1}}
    address = {"address": tuple(outlets["address"])} if "address" in outlets else {}
    with published("bench", "benchmark", records, None, Outlets(**{**outlets, **address})) as publisher:
        publisher.phase(plan["phase"], None)
        before = time.process_time()
        outcome = run_phase(plan | tracing, records, publisher.progress, measuring=publisher.measuring)
        return outcome, time.process_time() - before


if __name__ == "__main__":
    given = json.load(sys.stdin)
    if given["core"] is not None:
        os.sched_setaffinity(0, {given["core"]})
    try:
        print(json.dumps(asdict(_run(given["plan"], given["outlets"]))))
    except LoadframeError as error:
        sys.exit(str(error))
