"""Commands interrupted or killed at random times: exit status, recorded data, leftover processes."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from loadframe.record import Run
from trials.trial import Trial

LOADFRAME = Path(sys.executable).with_name("loadframe")
#: Time limit for the supervisor of a killed command to stop its nodes, s.
ENDED = 20.0
TIMES = 12

WORKLOAD = """\
workload: small
collections: {trips: {elasticsearch: {}}}
corpora: {trips: {generate: nyc_taxi_trip, documents: 500}}
operations:
  fill: {bulk: {collection: trips, corpus: trips, size: 50}}
  look: {search: {collection: trips, size: 1}}
phases:
  - {name: fill, prepares: true, operation: fill, clients: 1, until: exhausted}
  - {name: warm, operation: look, rate: 50/s, warmup: 500ms, duration: 500ms}
  - {name: look, operation: look, clients: 2, duration: 1s}
"""
EXPERIMENT = """\
experiment: small
store: {kind: sim, settings: {service: 2ms}}
workload: ./small.yaml
measure: look
kind: scale
factors: {nodes: [1, 2]}
"""
COMMANDS = {
    "bench": ("bench", "./small.yaml", "--store", "sim", "--output", "kept"),
    "run": ("run", "small-experiment.yaml"),
}


def trials(seed: int) -> Iterator[Trial]:
    """Yield a trial for each command and signal, sent at many times."""
    for name in COMMANDS:
        # Some times are shortly after the end of the command.
        longest = 1.05 * _whole(name)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            chance = random.Random(f"{seed}/{name}/{number}")
            instants = sorted(chance.uniform(0, longest) for _ in range(TIMES))
            yield Trial(
                f"{name}, {number.name} at {TIMES} instants",
                lambda name=name, number=number, instants=instants: _attempt(name, number, instants),  # type: ignore[misc]
            )


def _whole(name: str) -> float:
    """Return the duration of an uninterrupted command, s."""
    with _folder() as folder:
        began = time.monotonic()
        status, errors = _cut_off(COMMANDS[name], signal.SIGINT, 120.0, folder)
        assert status in {0, 1}, errors
        return time.monotonic() - began


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    """Create a folder with the workload and the experiment."""
    with tempfile.TemporaryDirectory(prefix="loadframe-trial-") as text:
        folder = Path(text)
        folder.chmod(0o755)
        (folder / "small.yaml").write_text(WORKLOAD)
        (folder / "small-experiment.yaml").write_text(EXPERIMENT)
        yield folder


def _attempt(name: str, number: signal.Signals, instants: list[float]) -> str:
    kept = over = 0
    for instant in instants:
        with _folder() as folder:
            status, errors = _cut_off(COMMANDS[name], number, instant, folder)
            when = f"at {instant:.2f} s"
            assert "Traceback" not in errors, f"{when}: a traceback: {errors[-300:]}"
            allowed = {130, 0} if number == signal.SIGINT else {-number, 0}
            assert status in allowed, f"{when}: status {status}: {errors[-300:]}"
            over += status == 0
            kept += _readable(folder)
            _nothing_left(folder, when)
    return f"{kept} runs kept, {over} commands had ended before"


def _cut_off(words: tuple[str, ...], number: signal.Signals, instant: float, folder: Path) -> tuple[int, str]:
    said = folder / "stderr.txt"
    environment = {**os.environ, "LOADFRAME_STATE": str(folder / "state")}
    with said.open("w") as stream:
        process = subprocess.Popen(
            [LOADFRAME, *words],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stream,
            start_new_session=True,
        )
        try:
            process.wait(instant)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, number)
        try:
            status = process.wait(60)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    return status, said.read_text()


def _readable(folder: Path) -> int:
    """Read every finished run folder; return their number."""
    count = 0
    for manifest in folder.glob("**/manifest.json"):
        if any(part.startswith(".") for part in manifest.relative_to(folder).parts):
            continue
        run = Run(manifest.parent)
        requests = sum(
            operation["requests"] for phase in run.raw_summary["phases"] for operation in phase["operations"].values()
        )
        names = {name for phase in run.raw_summary["phases"] for name in phase["operations"]}
        rows = [
            row["requests"]
            for row in run.series.to_pylist()
            if row["operation"] in names and row["segment"] == "measure"
        ]
        assert sum(rows) == requests, f"{run.path.name}: {sum(rows)} requests in the series, {requests} in the summary"
        count += 1
    return count


def _nothing_left(folder: Path, when: str) -> None:
    end = time.monotonic() + ENDED
    while left := _processes(folder):
        assert time.monotonic() < end, f"{when}: still running: {left[0]}"
        time.sleep(0.1)


def _processes(folder: Path) -> list[str]:
    """Return the command lines of processes that name the folder."""
    lines = (" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"]))
    return [line for line in lines if str(folder) in line]
