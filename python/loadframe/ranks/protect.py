"""Keeps rank 0 alive for long enough to write its record when its launcher ends all ranks.

A launcher that sees a rank die kills the others at once. It knows the process that it started; the work is done by a
child of that process, in a session of its own, which learns by a pipe that the job is over.
"""

import os
import signal
from types import FrameType

_TO_CHILD = (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def protect() -> int:
    """Go on as a child of this process; return the pipe that says, by any byte or by its end, that the job is over.

    This process stays and leaves with the child's status; it passes interrupts on.
    """
    ours, theirs = os.pipe()
    child = os.fork()
    if child:
        os.close(ours)
        _stand_before(child, theirs)
    os.close(theirs)
    os.setsid()
    return ours


def _stand_before(child: int, pipe: int) -> None:
    def pass_on(number: int, _: FrameType | None) -> None:
        os.kill(child, number)

    def job_over(number: int, _: FrameType | None) -> None:
        os.write(pipe, b"T")

    for number in _TO_CHILD:
        signal.signal(number, pass_on)
    signal.signal(signal.SIGTERM, job_over)
    while True:
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        os._exit(code if code >= 0 else 128 - code)
