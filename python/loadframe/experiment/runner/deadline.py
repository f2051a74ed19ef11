"""Time limit of an experiment, such as the end of a batch job.

A run that would not finish in time is not started, and a run that takes too long is interrupted. Recorded runs are
kept, and the same command resumes with the rest.
"""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator

from loadframe.base.errors import ExitCode, LoadframeError
from loadframe.base.units import format_duration

#: Time reserved for stopping nodes and writing records: a share of the time limit, and its bounds, s.
_SHARE, _LEAST, _MOST = 0.05, 15.0, 180.0


def margin(left: float) -> float:
    """Return the time reserved at the end of `left` s, s."""
    return min(max(_SHARE * left, _LEAST), _MOST)


class OutOfTime(LoadframeError):
    """The time limit was reached before the last run. Exit code TRY_AGAIN if some runs were recorded, else FAILED."""

    def __init__(self, what: str, *, some: bool) -> None:
        """Take the message, and whether some runs were recorded in this time."""
        remedy = "submit the same job again to resume" if some else "request more time; no run was completed"
        super().__init__(what, remedy=remedy)
        self.exit_status = ExitCode.TRY_AGAIN if some else ExitCode.FAILED


class Deadline:
    """Time limit of this command; `ends` is the wall-clock end, s since the epoch, or None for no limit."""

    def __init__(self, ends: float | None, owner: str = "") -> None:
        """`owner` names the limit in messages, such as `job 17 of Slurm`."""
        self._owner = owner
        left = None if ends is None else ends - time.time()
        #: Latest end of the last run, on the monotonic clock.
        self._last = None if left is None else time.monotonic() + left - margin(left)
        self._made = 0
        self._interrupted = False

    @property
    def interrupted(self) -> bool:
        """Whether this deadline sent the interrupt."""
        return self._interrupted

    def run_recorded(self) -> None:
        """Count a recorded run."""
        self._made += 1

    def require(self, seconds: float, what: str) -> None:
        """Raise OutOfTime if `what`, which takes about `seconds`, would not finish in time.

        The first run always starts, because its duration is only an estimate.
        """
        left = self._left()
        if left is not None and self._made and seconds > left:
            raise OutOfTime(
                f"{self._owner} has {format_duration(max(left, 0.0))} left, and {what} takes about"
                f" {format_duration(seconds)}",
                some=True,
            )

    def over(self) -> OutOfTime:
        """Return the error to raise after this deadline has interrupted a run."""
        return OutOfTime(f"{self._owner} ends soon; the unfinished run was stopped", some=self._made > 0)

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Interrupt this process with SIGTERM at the deadline."""
        left = self._left()
        if left is None:
            yield
            return
        timer = threading.Timer(max(left, 0.0), self._interrupt)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _left(self) -> float | None:
        return None if self._last is None else self._last - time.monotonic()

    def _interrupt(self) -> None:
        self._interrupted = True
        os.kill(os.getpid(), signal.SIGTERM)


#: No time limit.
NEVER = Deadline(None)
