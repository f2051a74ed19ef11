"""How far long work is: how much time is left of it, and how far a download has come."""

import threading
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self

from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from loadframe.base.terminal import PrintableConsole
from loadframe.base.units import format_size

#: Seconds between two lines.
_EVERY = 5.0


#: Seconds for which the expectation counts as much as as many seconds of what was seen.
_TRUST = 30.0


class TimeLeft:
    """How long work will take that consists of parts of which each is expected to take a while.

    What is left is corrected by the pace of the parts that are over: how long they took for what was expected of them.
    Nothing is said while a part is to come, or is under way, of which nobody knows how long it takes.
    """

    def __init__(self, expected: Mapping[str, float | None], now: Callable[[], float] = time.monotonic) -> None:
        """`expected` is how long each part takes about, s, in their order; None if nobody knows. `now` is a clock."""
        self._rest = dict(expected)
        self._now = now
        self._part: str | None = None
        self._current: float | None = 0.0
        self._began = now()
        self._taken = self._over = _TRUST

    def begin(self, part: str) -> None:
        """The part before is over, and this one begins; nothing happens where that is not among the parts to come."""
        if part not in self._rest:
            return
        now = self._now()
        if self._part is not None and self._current is not None:
            self._taken += now - self._began
            self._over += self._current
        self._part, self._current, self._began = part, self._rest.pop(part), now

    @property
    def seconds(self) -> float | None:
        """About how long it goes on, s; None if that is not known."""
        known = [rest for rest in self._rest.values() if rest is not None]
        if self._current is None or len(known) < len(self._rest):
            return None
        pace = self._taken / self._over
        current = max(self._current * pace - (self._now() - self._began), 0.0) if self._part is not None else 0.0
        return current + pace * sum(known)


class Download:
    """Counts bytes that arrive, from several threads. It draws a bar on a terminal, and else a line now and then."""

    def __init__(self, what: str, total: int | None, report: Callable[[str], None]) -> None:
        """`total` is None if it is not known; `report` takes the lines when standard error is not a terminal."""
        self._what = what
        self._total = total
        self._report = report
        self._lock = threading.Lock()
        self._done = 0
        self._began = self._told = time.monotonic()
        console = PrintableConsole(stderr=True)
        self._bar: Progress | None = None
        if console.is_terminal:
            columns = (
                TextColumn("{task.description}", markup=False),
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
