"""CPU time of programs with all their descendants.

The system's sum for a parent omits children that it does not wait for, such as workers of a program that ignores their
end. Therefore every descendant is sampled while it runs; its CPU time after the last sample is lost.
"""

import ctypes
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import psutil

from loadframe.base.errors import LoadframeError

_PR_SET_CHILD_SUBREAPER = 36

#: Sampling interval, s.
_LOOK = 0.05


@dataclass(frozen=True)
class Ran:
    """Result of a program: status, output, and CPU time in s."""

    status: int
    stdout: str
    stderr: str
    cpu: float


def run(command: Sequence[str], environment: Mapping[str, str] | None = None) -> Ran:
    """Run a program, and wait for processes that it leaves behind. Their time counts, too."""
    # The command goes through standard input, because some peers kill processes by matching command lines.
    wrapped = [sys.executable, "-m", "benchmarks.spent"]
    # The last line of standard output is the wrapper's own.
    done = subprocess.run(
        wrapped, input=json.dumps(command), capture_output=True, text=True, check=False, env=environment
    )
    said, _, spent = done.stdout.rstrip("\n").rpartition("\n")
    if not spent.startswith('{"cpu"'):
        raise LoadframeError(f"{command[0]} could not be watched: {(done.stdout + done.stderr).strip()[-2000:]}")
    return Ran(done.returncode, said, done.stderr, json.loads(spent)["cpu"])


def _wrap(command: Sequence[str]) -> int:
    # As a subreaper, this process becomes the parent of orphans, so that none is missed.
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    child = psutil.Popen(command, stdin=subprocess.DEVNULL)
    spent: dict[psutil.Process, float] = {}
    while descendants := psutil.Process().children(recursive=True):
        for process in descendants:
            with suppress(psutil.NoSuchProcess, ChildProcessError):
                ended = process.status() == psutil.STATUS_ZOMBIE
                times = process.cpu_times()
                spent[process] = times.user + times.system
                if ended and process.pid != child.pid:
                    # Reap orphans; other processes are reaped by their parents.
                    os.waitpid(process.pid, os.WNOHANG)
        child.poll()
        time.sleep(_LOOK)
    print("\n" + json.dumps({"cpu": sum(spent.values())}), flush=True)
    return int(child.wait())


if __name__ == "__main__":
    sys.exit(_wrap(json.load(sys.stdin)))
