"""CPU time of programs that were run, with all that they started in turn.

What the system adds up for a parent leaves out children that are never waited for, such as the workers of a program
that ignores their end. So every descendant is looked at while it runs; what it does after the last look is missed.
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

#: How often descendants are looked at, s.
_LOOK = 0.05


@dataclass(frozen=True)
class Ran:
    """A program that has ended: its status, what it printed, and its CPU time in s."""

    status: int
    stdout: str
    stderr: str
    cpu: float


def run(command: Sequence[str], environment: Mapping[str, str] | None = None) -> Ran:
    """Run a program to its end. Processes that it leaves behind are waited for: their time counts, too."""
    # The command goes in by standard input: a peer ends its like by their command lines, and this would be one.
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
    # Orphans become children of this process, and not of the first one, so that none gets out of sight.
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
                    # An orphan, for us to let go; others are their parents'.
                    os.waitpid(process.pid, os.WNOHANG)
        child.poll()
        time.sleep(_LOOK)
    print("\n" + json.dumps({"cpu": sum(spent.values())}), flush=True)
    return int(child.wait())


if __name__ == "__main__":
    sys.exit(_wrap(json.load(sys.stdin)))
