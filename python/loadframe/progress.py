"""How far a download is: a bar on a terminal, a line now and then where nobody watches. Both on standard error."""

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from loadframe.units import format_size

#: Seconds between two lines.
_EVERY = 5.0


class Download:
    """Counts bytes that arrive, from several threads."""

    def __init__(self, what: str, total: int | None, report: Callable[[str], None]) -> None:
        """`total` is None where nobody knows; `report` takes the lines when standard error is no terminal."""
        self._what = what
        self._total = total
        self._report = report
        self._lock = threading.Lock()
        self._done = 0
        self._began = self._told = time.monotonic()
        console = Console(stderr=True)
        self._bar: Progress | None = None
        if console.is_terminal:
            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                DownloadColumn(binary_units=True),
                TransferSpeedColumn(),
                TimeRemainingColumn(),
            )
            self._bar = Progress(*columns, console=console, transient=True)
            self._task = self._bar.add_task(what, total=total)

    def __enter__(self) -> Self:
        if self._bar:
            self._bar.start()
        else:
            size = "an unknown number of bytes" if self._total is None else format_size(self._total)
            self._report(f"{self._what}: {size} to fetch")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()

    def advance(self, count: int) -> None:
        """Count bytes; negative to take back those of an attempt that failed."""
        with self._lock:
            self._done += count
            if self._bar:
                self._bar.update(self._task, completed=self._done)
            elif time.monotonic() - self._told > _EVERY:
                self._told = time.monotonic()
                rate = format_size(self._done / (self._told - self._began))
                whole = "" if self._total is None else f" of {format_size(self._total)}"
                self._report(f"{self._what}: {format_size(self._done)}{whole}, {rate}/s")
