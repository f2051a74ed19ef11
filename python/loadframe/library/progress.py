"""Progress of long calls, reported to a callback or shown in a notebook."""

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Literal

from loadframe.base.units import counted, format_duration
from loadframe.base.untrusted import printable
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


class NotebookProgress:
    """A display of progress in a notebook: give it as `progress`. Outside notebooks it shows nothing.

    One output of the cell shows the run, the phase, the newest figures, and the remarks; it is updated in place.

    >>> shown = loadframe.NotebookProgress()
    >>> run = loadframe.bench(workload, store="sim", output="results/displayed", progress=shown)
    >>> "phase search" in shown._repr_html_()
    True
    """

    def __init__(self) -> None:
        """Create an empty display."""
        self._run: Progress | None = None
        self._phase: Progress | None = None
        self._last: Progress | None = None
        self._remarks: list[str] = []
        self._handle: Any = None

    def __call__(self, progress: Progress) -> None:
        """Show a report of progress."""
        if progress.event == "remark":
            self._remarks.append(progress.text)
        elif progress.event == "run":
            self._run, self._phase, self._last = progress, None, None
        elif progress.event == "phase":
            self._phase, self._last = progress, None
        else:
            self._last = progress
        self._display()

    def _display(self) -> None:
        """Show the newest progress in the notebook, or update it there. Does nothing outside of notebooks."""
        ipython = sys.modules.get("IPython")
        shell = ipython.get_ipython() if ipython else None
        # Only a notebook has a kernel; the terminal of IPython cannot show HTML.
        if not hasattr(shell, "kernel"):
            return
        shown = importlib.import_module("IPython.display")
        if self._handle is None:
            self._handle = shown.display(shown.HTML(self._repr_html_()), display_id=True)
        else:
            self._handle.update(shown.HTML(self._repr_html_()))

    def _repr_html_(self) -> str:
        """Return run, phase and newest figures as HTML, each with a bar if its total is known, and the remarks."""
        lines = []
        if self._run:
            lines.append(_bar(self._run.text, self._run.index, self._run.total))
        if self._phase:
            lines.append(_bar(self._phase.text, self._last.second if self._last else None, self._phase.length))
        if self._last:
            lines.append(_bar(_figures(self._last), self._last.index, self._last.total))
        lines += [_bar(remark) for remark in self._remarks]
        return "".join(f"<div>{line}</div>" for line in lines)


def _bar(text: str, done: float | None = None, total: float | None = None) -> str:
    """Return a text as HTML, after a bar of `done` of `total`; without a total, the text alone."""
    bar = f'<progress value="{done or 0:g}" max="{total:g}"></progress> ' if total else ""
    return bar + escape(printable(text))


def _figures(progress: Progress) -> str:
    """Return the figures of a second as text, or the text of another report."""
    if progress.throughput is None:
        return progress.text
    times = "".join(
        f", {name} {format_duration(seconds)}"
        for name, seconds in (("p50", progress.response_p50), ("p99", progress.response_p99))
        if seconds is not None
    )
    return f"{progress.text}{times}, {counted(progress.errors or 0, 'error')}"


class CallbackListener(Listener):
    """Forwards progress to a callback: one report for each second of load."""

    def __init__(self, callback: Callback) -> None:
        self._callback = callback
        self._run: str | None = None
        self._phase: str | None = None
        self._second = 0

    def step(self, text: str) -> None:
        """Report to the callback that a slow step begins."""
        self._callback(Progress("step", text, self._run))

    def remark(self, text: str) -> None:
        """Report a message to the callback."""
        self._callback(Progress("remark", text, self._run))

    def run(self, index: int, runs: int, run_id: str) -> None:
        """Report to the callback that run `index` (from 0) of `runs`, named `run_id`, begins."""
        self._run = run_id
        self._callback(Progress("run", f"run {index + 1} of {runs}: {run_id}", run_id, index=index, total=runs))

    def phase(self, name: str, seconds: float | None) -> None:
        """Report to the callback that a phase begins; `seconds` is its expected length, if known."""
        self._phase, self._second = name, 0
        self._callback(Progress("phase", f"phase {name}", self._run, name, length=seconds))

    def progress(self, progress: "PhaseProgress") -> None:
        """Report the figures of a finished second to the callback; ignore further calls within that second."""
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
