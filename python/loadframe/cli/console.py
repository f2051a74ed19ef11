"""Draws on the terminal how long work goes: which run, which phase, its rates, and the time that is left."""

from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from loadframe.cli.output import err
from loadframe.experiment.listener import Listener
from loadframe.units import format_count, format_duration

if TYPE_CHECKING:
    from loadframe.load import Progress as PhaseProgress


class Console(Listener):
    """A listener on standard error: bars on a terminal, a line for each step elsewhere. A context manager."""

    def __init__(self) -> None:
        self._bars = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[figures]}", markup=False),
            console=err,
            transient=True,
            disable=not err.is_terminal,
        )
        self._runs: TaskID | None = None
        self._phase: TaskID | None = None

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def step(self, text: str) -> None:
        """Print what begins, above the bars."""
        err.print(f"  {text}", style="dim", markup=False, highlight=False, soft_wrap=True)

    def remark(self, text: str) -> None:
        """Print what the user should read."""
        err.print(text, style="yellow", markup=False, highlight=False)

    def run(self, index: int, runs: int, run_id: str) -> None:
        """Show which of the runs this is; the bar's remaining time is that of all runs."""
        if not err.is_terminal:
            err.print(f"run {index + 1} of {runs}: {run_id}", markup=False, highlight=False)
        if self._runs is None:
            self._runs = self._bars.add_task("", total=runs, figures="")
        self._bars.update(self._runs, completed=index, description=f"run {run_id}")

    def phase(self, name: str, seconds: float | None) -> None:
        """Show a bar for the phase; without a known length it only moves."""
        if self._phase is not None:
            self._bars.remove_task(self._phase)
        if not err.is_terminal:
            length = f", {format_duration(seconds)}" if seconds else ""
            err.print(f"  phase {name}{length}", markup=False, highlight=False)
        self._phase = self._bars.add_task(f"phase {name}", total=seconds, figures="")

    def progress(self, progress: "PhaseProgress") -> None:
        """Show the last second's rates."""
        if self._phase is None:
            return
        documents = f"  {format_count(progress.documents_throughput)} docs/s" if progress.documents_throughput else ""
        errors = f"  {format_count(progress.errors)} errors" if progress.errors else ""
        figures = (
            f"{format_count(progress.throughput)} requests/s{documents}"
            f"  p99 {format_duration(progress.response_p99)}{errors}"
        )
        self._bars.update(self._phase, completed=progress.seconds, figures=figures)
