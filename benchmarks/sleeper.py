"""Lateness of a thread that only sleeps until scheduled times, the lower limit of pacing with sleep.

As a program it takes a core, a rate in 1/s and a time in s, and prints the median and the 99th percentile of the
lateness in s.
"""

import ctypes
import json
import os
import subprocess
import sys
import time

from loadframe.base.errors import LoadframeError

_PR_SET_TIMERSLACK, _CLOCK_MONOTONIC, _TIMER_ABSTIME = 29, 1, 1
_NS = 1_000_000_000


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


def lateness(core: int, rate: float, seconds: float) -> tuple[float, float]:
    """Run the program in a separate process; return median and 99th percentile of its lateness, s."""
    command = [sys.executable, "-m", "benchmarks.sleeper", str(core), str(rate), str(seconds)]
    child = subprocess.run(command, capture_output=True, text=True, check=False)
    if child.returncode:
        raise LoadframeError(child.stderr.strip()[-2000:])
    median, p99 = json.loads(child.stdout)
    return median, p99


def _sleep(core: int, rate: float, seconds: float) -> list[float]:
    os.sched_setaffinity(0, {core})
    library = ctypes.CDLL(None, use_errno=True)
    library.prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)
    sleep, until = library.clock_nanosleep, _Timespec()
    begin, late = time.monotonic_ns() + _NS // 10, []
    for number in range(round(rate * seconds)):
        due = begin + round(number * _NS / rate)
        until.seconds, until.nanoseconds = divmod(due, _NS)
        sleep(_CLOCK_MONOTONIC, _TIMER_ABSTIME, ctypes.byref(until), None)
        late.append(time.monotonic_ns() - due)
    late.sort()
    return [late[len(late) // 2] / _NS, late[len(late) * 99 // 100] / _NS]


if __name__ == "__main__":
    print(json.dumps(_sleep(int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]))))
