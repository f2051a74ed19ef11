"""Progress of long calls, reported to a callback."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from loadframe.experiment.runner.listener import Listener

if TYPE_CHECKING:
    from loadframe.load import Progress as PhaseProgress


@dataclass(frozen=True)
class Progress:
    """One report of progress; fields that do not apply are None. Rates are of the last second, times are s.

    `event` is `step` (a slow step begins), `remark` (a message), `run` or `phase` (one begins), or `second` (of load).
    `index` counts runs, or the measurements of `calibrate`, from 0, and `total` is their number. `length` is the
    expected length of a phase.

    >>> reports = []
    >>> run = loadframe.bench(workload, store="sim", output="results/shown", progress=reports.append)
    >>> [report.phase for report in reports if report.event == "phase"]
    ['search']
    """

    event: Literal["step", "remark", "run", "phase", "second"]
    text: str
    run: str | None = None
    phase: str | None = None
    second: int | None = None
    throughput: float | None = None
    errors: int | None = None
    response_p50: float | None = None
    response_p99: float | None = None
    index: int | None = None
    total: int | None = None
    length: float | None = None


#: Function that receives reports of progress, in the thread of the call.
Callback = Callable[[Progress], object]


class CallbackListener(Listener):
    """Forwards progress to a callback: one report for each second of load."""

    def __init__(self, callback: Callback) -> None:
        self._callback = callback
        self._run: str | None = None
        self._phase: str | None = None
        self._second = 0

    def step(self, text: str) -> None:
        """Report a step."""
        self._callback(Progress("step", text, self._run))

    def remark(self, text: str) -> None:
        """Report a message."""
        self._callback(Progress("remark", text, self._run))

    def run(self, index: int, runs: int, run_id: str) -> None:
        """Report the start of a run."""
        self._run = run_id
        self._callback(Progress("run", f"run {index + 1} of {runs}: {run_id}", run_id, index=index, total=runs))

    def phase(self, name: str, seconds: float | None) -> None:
        """Report the start of a phase."""
        self._phase, self._second = name, 0
        self._callback(Progress("phase", f"phase {name}", self._run, name, length=seconds))

    def progress(self, progress: "PhaseProgress") -> None:
        """Report the figures of a finished second."""
        if progress.seconds <= self._second:
            return
        self._second = progress.seconds
        self._callback(
            Progress(
                "second",
                f"{progress.seconds} s: {progress.throughput} requests/s",
                self._run,
                self._phase,
                progress.seconds,
                progress.throughput,
                progress.errors,
                progress.response_p50,
                progress.response_p99,
            )
        )


def listener_of(callback: Callback | None) -> Listener:
    """Return the listener of a callback; a silent one without a callback."""
    return CallbackListener(callback) if callback else Listener()
