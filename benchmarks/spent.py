"""CPU time of programs that were run, with all that they started in turn."""

import ctypes
import json
import os
import resource
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True)
class Ran:
    """A program that has ended: its status, what it printed, and its CPU time in s."""

    status: int
    stdout: str
    stderr: str
    cpu: float


def run(command: Sequence[str], environment: Mapping[str, str] | None = None) -> Ran:
    """Run a program to its end. Processes that it leaves behind are waited for: their time counts, too."""
    wrapped = [sys.executable, "-m", "benchmarks.spent", *command]
    # The last line of standard output is the wrapper's own.
    done = subprocess.run(wrapped, capture_output=True, text=True, check=False, env=environment)
    said, _, spent = done.stdout.rstrip("\n").rpartition("\n")
    return Ran(done.returncode, said, done.stderr, json.loads(spent)["cpu"])


def _wrap(command: Sequence[str]) -> int:
    # Orphans become children of this process, and not of the first one, so that their time is added up here.
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    status = subprocess.call(command)
    while True:
        try:
            os.wait()
        except ChildProcessError:
            break
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    print("\n" + json.dumps({"cpu": usage.ru_utime + usage.ru_stime}), flush=True)
    return status


if __name__ == "__main__":
    sys.exit(_wrap(sys.argv[1:]))
