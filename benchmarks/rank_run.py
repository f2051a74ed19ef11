"""Runs one phase on real ranks of this machine, optionally limited to a share of a core each.

As a program it is one of these ranks: `mpirun -n N python -m benchmarks.rank_run TASK`. Without mpirun it is alone.
"""

import csv
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.machine import peak_memory

from loadframe import _engine
from loadframe.base.errors import BadInput, LoadframeError
from loadframe.ranks import place as place_of_rank
from loadframe.ranks.launch import run

#: Polling interval of the record, s.
_LOOK = 0.005


@dataclass(frozen=True)
class Ranked:
    """Result of a phase: requests in its measured window, 1/s and total; CPU time of its workers, s; peak memory of
    rank 0, B; and for each second the delay until rank 0 had written it to disk, s, with a resolution of 5 ms."""

    rate: float
    requests: int
    worker_cpu: float
    memory: int
    delays: list[float]


def measure(ranks: int, plan: Mapping[str, Any], share: float | None = None) -> Ranked:
    """Run a plan on so many ranks, each limited to `share` of a core; LoadframeError with their output on failure."""
    with tempfile.TemporaryDirectory() as folder, held(ranks, share) as groups:
        task = Path(folder, "task.json")
        task.write_text(json.dumps({"plan": plan, "groups": groups}))
        program = [sys.executable, "-m", "benchmarks.rank_run", str(task)]
        done = subprocess.run([*mpirun(ranks), *program], capture_output=True, text=True, check=False)
        if done.returncode:
            raise LoadframeError(f"the ranks failed: {(done.stdout + done.stderr).strip()[-2000:]}")
        return Ranked(**json.loads(Path(folder, "ranked.json").read_text()))


def mpirun(ranks: int) -> list[str]:
    """Return the command prefix that starts so many ranks; empty for one. BadInput without MPI."""
    if ranks == 1:
        return []
    beside = Path(sys.executable).with_name("mpirun")
    if not beside.exists():
        raise BadInput("mpirun is not installed next to this Python", remedy="pip install 'loadframe[mpi]'")
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return [str(beside), *root, "--oversubscribe", "--bind-to", "none", "-n", str(ranks)]


@contextmanager
def held(ranks: int, share: float | None) -> Iterator[list[list[str]]]:
    """Create a control group per rank with a quota of `share` cores; yield the files to which a rank writes its pid.

    BadInput if control groups are not available.
    """
    if share is None:
        yield [[] for _ in range(ranks)]
        return
    from loadframe.host import cgroups, limits

    limiter, why = limits.choose()
    if limiter is None:
        raise BadInput(f"ranks cannot be held to a share of a core here: {why}", remedy="run as root")
    with ExitStack() as stack:
        groups = []
        for rank in range(ranks):
            group = limiter.group(f"loadframe-benchmark-{os.getpid()}-{rank}", limits.Limits(cpus=share))
            stack.callback(cgroups.remove, group.folders)
            group.throttle(share)
            groups.append([str(folder / "cgroup.procs") for folder in group.folders.values()])
        yield groups


def _load(task: Path, plan: dict[str, Any]) -> int:
    from loadframe.ranks.coordinator import present

    folder = task.parent
    hub = present()
    ranks = hub.ranks() if hub else ()
    plan["began"] = began = time.monotonic()
    phase = hub.phase(plan, folder, ranks, None) if hub else _engine.start(json.dumps(plan), folder)
    delays: list[float] = []
    while not phase.wait(_LOOK):
        seconds = phase.progress()["seconds"]
        if seconds > len(delays):
            late = time.monotonic() - (began + phase.offset + seconds)
            delays += [late] * (seconds - len(delays))
    outcome = json.loads(phase.outcome())
    if outcome["failed"]:
        raise LoadframeError(outcome["failed"])
    requests = sum(operation["requests"] for operation in outcome["operations"])
    ranked = Ranked(
        rate=requests / outcome["measured"],
        requests=requests,
        worker_cpu=_worker_cpu(folder, outcome["warmup"]),
        memory=peak_memory(),
        delays=delays,
    )
    (folder / "ranked.json").write_text(json.dumps(asdict(ranked)))
    return 0


def _worker_cpu(folder: Path, warmup: float) -> float:
    """Return the total CPU time of all workers after the warm-up, s."""
    sums = folder / "workers.csv"
    with (sums if sums.exists() else folder / "generator.csv").open(newline="") as text:
        return sum(float(row["cpu_seconds"]) for row in csv.DictReader(text) if int(row["second"]) >= warmup)


def _main(task: Path) -> int:
    given = json.loads(task.read_text())
    place = place_of_rank()
    for group in given["groups"][place.rank if place else 0]:
        Path(group).write_text(str(os.getpid()))
    if place is None:
        return _load(task, given["plan"])
    # A killed rank 0 does not leave a result.
    return run(place, lambda: _load(task, given["plan"]), lambda _: None)


if __name__ == "__main__":
    sys.exit(_main(Path(sys.argv[1])))
