"""Demonstration: a node joins a cluster on several machines under load from remote ranks, then a link is cut.

    python -m benchmarks.machines_and_ranks [--store redis] [--away]

Creates six machines with separate networks and sshd processes (`tests/machines.py`) on this computer; requires root.
m1, m2 and m3 have a node each, m4 gets the fourth node under load, and mpirun starts a rank on each of m5 and m6. When
the new node has its data, the link of m2 is cut for some seconds; with `--away` it stays cut until the command ends.
The script prints the record and any processes left running.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from loadframe.base import folders
from loadframe.base.errors import BadInput
from loadframe.base.event_kinds import BALANCED
from loadframe.base.units import format_duration
from loadframe.host.agent import PATIENCE
from loadframe.record import Run
from machines import Machines, machines, obstacle

LOADFRAME = Path(sys.executable).with_name("loadframe")
#: Workload by kind of store.
LOADS = {
    "opensearch": ["nyc_taxis/range_100", "--set", "documents=20000", "--duration", "90s", "--at", "15s=grow"],
    "redis": ["ycsb/b", "--duration", "40s", "--at", "8s=grow"],
}
#: Duration of the cut, s.
CUT = 8
CUT_OFF = "m2"


def mpirun(there: Machines, *words: str) -> list[str]:
    """Return the command that starts a rank of loadframe on m5 and one on m6."""
    return [
        str(LOADFRAME.with_name("mpirun")),
        *(["--allow-run-as-root"] if os.geteuid() == 0 else []),
        *("--host", "m5:1,m6:1", "-n", "2", "--bind-to", "none"),
        # Open MPI ignores networks that look like loopback.
        *("--prtemca", "plm_ssh_agent", there.ssh, "--mca", "btl_tcp_if_exclude", "lo"),
        *("-x", "LOADFRAME_SSH", "-x", "LOADFRAME_CACHE"),
        *(str(LOADFRAME), *words),
    ]


def events(run: Path) -> list[dict[str, object]]:
    """Return the events of a run, finished or in progress."""
    paths = [run / "events.jsonl", *run.parent.glob(f".{run.name}.partial-*/events.jsonl")]
    lines = next((path.read_text().splitlines() for path in paths if path.exists()), [])
    return [json.loads(line) for line in lines if line.endswith("}")]


def wait(process: "subprocess.Popen[bytes]", condition: Callable[[], bool]) -> None:
    """Wait until the condition holds; RuntimeError if the command ends before."""
    while not condition():
        if process.poll() is not None:
            raise RuntimeError(f"the command left with status {process.returncode} too early")
        time.sleep(0.2)


def show(there: Machines, store: str, *, away: bool) -> None:
    """Run the demonstration and print its result."""
    with TemporaryDirectory(prefix="loadframe-machines-and-ranks-") as folder:
        run = Path(folder) / "run"
        place = ["--store", store, "--nodes", "3", "--host", "ssh", "--machines", "m1,m2,m3,m4"]
        command = mpirun(there, "bench", *LOADS[store], *place, "--clients", "4", "--output", str(run))
        print("$", " ".join(command), flush=True)
        environment = {**os.environ, "LOADFRAME_SSH": there.ssh, "LOADFRAME_CACHE": str(folders.cache())}
        with subprocess.Popen(command, env=environment) as process:
            wait(process, lambda: any(event["kind"] == BALANCED for event in events(run)))
            there.cut(CUT_OFF)
            cut = time.monotonic()
            if not away:
                time.sleep(CUT)
                there.restore(CUT_OFF)
            status = process.wait()
        print(f"\nstatus {status}, {format_duration(time.monotonic() - cut)} after the cut")
        tell(Run(run))
        report = Path(folder) / "report.html"
        subprocess.run([LOADFRAME, "report", run, "--output", report], check=True, stdout=subprocess.DEVNULL)
        text = report.read_text()
        print(f"its report names {', '.join(name for name in there.addresses if name in text)}")
        if away:
            time.sleep(max(0.0, PATIENCE + 15 - (time.monotonic() - cut)))
            there.restore(CUT_OFF)
        for name in there.addresses:
            print(f"left on {name}: {there.processes(name) or 'nothing'}")


def tell(run: Run) -> None:
    """Print the machines and ranks of a run."""
    for member in run.manifest.generator.members:
        print(f"rank {member.rank} on {member.machine}")
    for machine in run.manifest.store.machines:
        print(f"machine {machine['name']} ({machine['address']}): {', '.join(machine['nodes']) or 'no node at first'}")
    for event in run.events:
        more = {key: value for key, value in event.items() if key not in ("time", "wall", "kind")}
        print(f"{event['time']:7.1f} s  {event['kind']}  {more}")
    print("valid" if run.summary.verdict.valid else "invalid")
    for reason in run.summary.verdict.reasons:
        print(f"  {reason.code}: {reason.cause}")
    seconds: dict[int, int] = {}
    for row in run.series.to_pylist():
        if row["phase"] == run.summary.phases[-1].name:
            seconds[row["second"]] = seconds.get(row["second"], 0) + row["successes"]
    print("successes by second:", " ".join(str(count) for _, count in sorted(seconds.items())))


def main() -> None:
    """Read the options, and create the machines."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--store", choices=LOADS, default="opensearch")
    options.add_argument("--away", action="store_true", help="the machine stays cut off until the command has ended")
    chosen = options.parse_args()
    if why := obstacle():
        raise BadInput(f"there can be no machines here: {why}")
    with machines(6, loading=2) as there:
        show(there, chosen.store, away=chosen.away)


if __name__ == "__main__":
    main()
