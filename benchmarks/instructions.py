"""Instructions per request of each driver, compared with `instructions.toml`: `python -m benchmarks.instructions`.

One client sends requests in a closed loop to the null server of another process. Callgrind counts the instructions of
the worker thread in two runs of different length; their difference excludes start-up. Options: `--update` stores the
counts, and names of drivers select some of them. The exit status is 1 if a driver exceeds its stored count by over 2 %.

Counts depend on compiler, C library, valgrind and, by the functions that the C library selects, on the processor.
Counts of others are not compared. The load of the machine does not matter: client and server share a core with
real-time priorities, and the server runs only while the client waits. This needs root.
"""

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from loadframe import _engine
from loadframe.base.errors import BadInput, LoadframeError
from loadframe.load.calibrate import PROBES

COUNTS = Path(__file__).with_suffix(".toml")
#: Maximum increase before the comparison fails.
TOLERANCE = 0.02
#: Requests of the short run, and additional requests of the long run: about 10^8 instructions.
START = 200
REQUESTS = {"null": 30_000, "cql": 1_500}
OTHERWISE = 6_000
REMEDY = "reduce them, or run `python -m benchmarks.instructions --update` and explain the increase in the commit"
#: Features of processors, by which the C library selects functions.
FEATURES = {"avx", "avx2", "avx512f", "avx512vl", "bmi1", "bmi2", "erms", "fsrm", "lzcnt", "movbe", "popcnt", "rtm"}
#: Maximum number of measurements of a driver.
ATTEMPTS = 3
#: The client: a Python process with nothing but the engine.
_CLIENT = """
import json, sys
sys.path.append(sys.argv[1])
import _engine
print(_engine.start(sys.argv[2], sys.argv[3]).outcome())
"""


def versions() -> dict[str, str]:
    """Return the versions and the processor on which counts depend; BadInput without valgrind or rustc."""
    tools = {"libc": " ".join(platform.libc_ver()), "processor": _processor()}
    for tool, package in (("rustc", "Rust"), ("valgrind", "valgrind")):
        if not shutil.which(tool):
            raise BadInput(f"{tool} is not installed, so instructions cannot be counted", remedy=f"install {package}")
        shown = subprocess.run([tool, "--version"], cwd=COUNTS.parent, capture_output=True, text=True, check=True)
        tools[tool] = shown.stdout.strip()
    return tools


def _processor() -> str:
    """Return the architecture and those features of the processor by which the C library selects functions."""
    flags = re.search(r"^flags\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return " ".join([platform.machine(), *sorted(set(flags[1].split()) & FEATURES if flags else ())])


def stored() -> tuple[dict[str, str], dict[str, int]]:
    """Return the versions and the counts of `instructions.toml`."""
    content = tomllib.loads(COUNTS.read_text())
    return content["versions"], content["instructions_per_request"]


def require_real_time() -> None:
    """Check that this process may use real-time scheduling; BadInput otherwise."""
    policy, parameter = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except PermissionError as error:
        remedy = "run as root, in a container with --cap-add SYS_NICE"
        raise BadInput("real-time scheduling is not permitted, so counts would vary", remedy=remedy) from error
    os.sched_setscheduler(0, policy, parameter)


def require_same_versions() -> None:
    """Check that stored counts are comparable with counts of this machine; BadInput otherwise."""
    known, here = stored()[0], versions()
    differences = [
        f"{name} is {here[name]!r}, not {known.get(name)!r}" for name in here if here[name] != known.get(name)
    ]
    if differences:
        remedy = "install these versions, or store counts of yours: python -m benchmarks.instructions --update"
        raise BadInput(f"the counts of {COUNTS.name} are not comparable: {'; '.join(differences)}", remedy=remedy)


def measure(driver: str) -> int:
    """Return the instructions per request of a driver."""
    more = REQUESTS.get(driver, OTHERWISE)
    short, long = _count(driver, START), _count(driver, START + more)
    # The worker is the thread to which requests add most.
    return round(max(long[thread] - short.get(thread, 0) for thread in long) / more)


def compare(driver: str, known: int) -> int:
    """Return the instructions per request of a driver; measure again while they exceed `known` and the tolerance."""
    counts = []
    while len(counts) < ATTEMPTS:
        counts.append(measure(driver))
        if not exceeds(counts[-1], known):
            break
    return min(counts)


def exceeds(count: int, known: int) -> bool:
    """Return whether a count exceeds the stored count by more than the tolerance."""
    return count > known * (1 + TOLERANCE)


def _count(driver: str, requests: int) -> dict[str, int]:
    """Return the instructions of each thread, by its number, of a process that sends `requests` requests."""
    with _server(driver) as address, tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as dumps:
        tool = ["valgrind", "--tool=callgrind", "--separate-threads=yes", f"--callgrind-out-file={dumps}/count"]
        python = [sys.executable, "-I", "-S", "-B", "-c", _CLIENT, str(Path(_engine.__file__).parent)]
        plan = json.dumps(_plan(driver, address, requests))
        environment = {"PATH": os.environ["PATH"], "PYTHONHASHSEED": "0"}
        run = subprocess.run(
            [*tool, *python, plan, folder], env=environment, capture_output=True, text=True, check=False, timeout=300
        )
        if run.returncode:
            raise LoadframeError(f"{driver}: callgrind ended with status {run.returncode}: {run.stderr[-2000:]}")
        threads = {}
        for dump in Path(dumps).glob("count-*"):
            total = re.search(r"^totals: (\d+)", dump.read_text(), re.MULTILINE)
            threads[dump.name] = int(total[1]) if total else 0
    (operation,) = json.loads(run.stdout)["operations"]
    if operation["successes"] != requests:
        raise LoadframeError(f"{driver}: {operation['successes']} of {requests} requests succeeded")
    return threads


@contextmanager
def _server(driver: str) -> Iterator[str]:
    """Start the driver's null server on the core of this thread's new processes; yield its address."""
    cores, policy, parameter = os.sched_getaffinity(0), os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        os.sched_setaffinity(0, {max(cores)})
        # Threads and processes inherit both.
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        # The null driver connects to no server, so any server will do.
        server = _engine.NullServer("http" if driver == "null" else driver)
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(2))
        with closing(server):
            yield server.address
    finally:
        os.sched_setscheduler(0, policy, parameter)
        os.sched_setaffinity(0, cores)


def _plan(driver: str, address: str, requests: int) -> dict[str, Any]:
    pacing, stop = {"closed": {"clients": 1}}, {"requests": requests}
    return {
        "seed": 1,
        "phase": "count",
        "threads": 1,
        "warmup": 0,
        # Valgrind is slow, and the machine may be busy.
        "target": {"driver": driver, "hosts": [address], "timeout": 60.0},
        "operations": {"operation": PROBES[driver].request},
        "streams": [{"name": "stream", "mix": [["operation", 1.0]], "pacing": pacing, "stop": stop}],
    }


def _write(here: Mapping[str, str], counts: Mapping[str, int]) -> None:
    lines = ["# Written by `python -m benchmarks.instructions --update`.", "[versions]"]
    lines += [f"{name} = {json.dumps(version)}" for name, version in sorted(here.items())]
    lines += ["", "[instructions_per_request]", *(f"{driver} = {count}" for driver, count in sorted(counts.items()))]
    COUNTS.write_text("\n".join(lines) + "\n")


def main(drivers: Iterable[str], *, update: bool) -> int:
    """Measure drivers; print the counts with their change; store them if asked to. Return the exit status."""
    require_real_time()
    known = stored()[1] if COUNTS.exists() else {}
    if not update or set(drivers) != set(PROBES):
        require_same_versions()
    counts = {}
    for driver in drivers:
        if update or driver not in known:
            counts[driver] = measure(driver)
        else:
            counts[driver] = compare(driver, known[driver])
        change = f"{counts[driver] / known[driver] - 1:+.1%}" if driver in known else "new"
        print(f"  {driver:<11} {counts[driver]:>7,} instructions per request ({change})", flush=True)
    if update:
        _write(versions(), {**known, **counts})
        return 0
    worse = [driver for driver, count in counts.items() if driver not in known or exceeds(count, known[driver])]
    if worse:
        raise LoadframeError(
            f"{', '.join(worse)}: more instructions per request than {COUNTS.name} allows", remedy=REMEDY
        )
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("drivers", nargs="*", metavar="DRIVER", help="default: all drivers")
    parser.add_argument("--update", action="store_true", help="store the counts")
    options = parser.parse_args()
    try:
        if unknown := set(options.drivers) - set(PROBES):
            raise BadInput(f"unknown driver {min(unknown)!r}", remedy=f"there are {', '.join(sorted(PROBES))}")
        sys.exit(main(options.drivers or sorted(PROBES), update=options.update))
    except LoadframeError as error:
        print(f"instructions: {error}", file=sys.stderr)
        sys.exit(error.exit_status)
