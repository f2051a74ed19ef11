"""The end of the time that an experiment has, as in a job of a batch system: it stops before it is stopped.

A run that cannot be over by then is not begun, and one that takes longer than expected is interrupted. What is recorded
stays, and the same command goes on with the rest.
"""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator

from loadframe.base.errors import ExitCode, LoadframeError
from loadframe.base.units import format_duration

#: How long the end takes (nodes stop, records are written): a share of the time that there was, in these bounds, s.
_SHARE, _LEAST, _MOST = 0.05, 15.0, 180.0


class OutOfTime(LoadframeError):  # noqa: N818 - reads as what it is where it is raised
    """The time is over before all runs are made. Exit code TRY_AGAIN if some were made, else FAILED."""

    def __init__(self, what: str, *, some: bool) -> None:
        """Say what was not made; `some` is whether any run was made in this time."""
        more = "submit the same job again: it goes on with the rest" if some else "ask for more time: no run was made"
        super().__init__(what, remedy=more)
        self.exit_status = ExitCode.TRY_AGAIN if some else ExitCode.FAILED


class Deadline:
    """When the machines are taken away."""

    def __init__(self, ends: float | None, whose: str = "") -> None:
        """Take the instant, s since the epoch, None for never; and what it is the end of, such as `job 17 of Slurm`."""
        self._whose = whose
        left = None if ends is None else ends - time.time()
        margin = 0.0 if left is None else min(max(_SHARE * left, _LEAST), _MOST)
        #: When the last run must be over, on the monotonic clock.
        self._last = None if left is None else time.monotonic() + left - margin
        self._made = 0
        self._interrupted = False

    @property
    def interrupted(self) -> bool:
        """Whether the interrupt that came was ours."""
        return self._interrupted

    def run_recorded(self) -> None:
        """Take note of a run that was recorded."""
        self._made += 1

    def require(self, seconds: float, what: str) -> None:
        """Raise OutOfTime if what takes that long can hardly be over in time.

        The first run is always tried, since how long it takes is only estimated.
        """
        left = self._left()
        if left is not None and self._made and seconds > left:
            raise OutOfTime(
                f"{self._whose} has {format_duration(max(left, 0.0))} left, and {what} takes about"
                f" {format_duration(seconds)}",
                some=True,
            )

    def over(self) -> OutOfTime:
        """Return what to raise for the interrupt that was ours."""
        return OutOfTime(f"{self._whose} ends, and a run is not over: it was stopped", some=self._made > 0)

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Interrupt the command, as Ctrl-C does, when the time is over."""
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


#: For whoever has all the time there is.
NEVER = Deadline(None)
