"""Terminal output: a console without control characters, and the progress of long operations."""

import errno
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from loadframe.base.units import format_size
from loadframe.base.untrusted import printable

if TYPE_CHECKING:
    from rich.progress import Progress


class PrintableConsole(Console):
    """A console that removes control characters from texts, and writes only its styles and bars with them.

    Use it wherever a text may come from a store or a run folder.
    """

    def on_broken_pipe(self) -> None:
        """Raise BrokenPipeError, for the exit code of a closed output. Rich exits with 1, the code of a failure."""
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the segments of `renderable`, with texts made `printable`; Rich's own control segments stay."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)


#: Seconds between two lines.
_EVERY = 5.0


#: Weight of the expected pace, as seconds of observed work.
_TRUST = 30.0

#: Seconds by which a part may exceed its expected duration before the remaining time is unknown.
_TOLERANCE = 1.0


class TimeLeft:
    """Remaining time of work that consists of parts with expected durations.

    Expected durations are scaled by the pace of finished parts. The remaining time is unknown while a current or future
    part has an unknown duration, and while the current part takes longer than expected, unless durations are `least`
    ones.
    """

    def __init__(
        self, expected: Mapping[str, float | None], now: Callable[[], float] = time.monotonic, *, least: bool = False
    ) -> None:
        """`expected` has the duration of each part in order, s, None if unknown; `now` is a clock, s.

        `least`: the durations are lower bounds.
        """
        self.least = least
        self._rest = dict(expected)
        self._now = now
        self._part: str | None = None
        self._current: float | None = 0.0
        self._began = now()
        self._taken = self._over = _TRUST

    def begin(self, part: str) -> None:
        """Start a part, which ends the previous part. Ignored if `part` is not among the remaining parts."""
        if part not in self._rest:
            return
        now = self._now()
        if self._part is not None and self._current is not None:
            self._taken += now - self._began
            self._over += self._current
        self._part, self._current, self._began = part, self._rest.pop(part), now

    @property
    def seconds(self) -> float | None:
        """Estimated remaining time of the current and later parts, s, at least 0; None if unknown (see the class)."""
        known = [rest for rest in self._rest.values() if rest is not None]
        if self._current is None or len(known) < len(self._rest):
            return None
        pace = self._taken / self._over
        current = self._current * pace - (self._now() - self._began) if self._part is not None else 0.0
        return max(current, 0.0) + pace * sum(known) if self.least or current > -_TOLERANCE else None


class Download:
    """Progress of a download: a bar on a terminal, else a line every 5 s. Thread-safe."""

    def __init__(self, what: str, total: int | None, report: Callable[[str], None]) -> None:
        """Set the text before the bar (`what`) and the size in bytes (`total`), None if unknown.

        `report` gets lines if standard error is not a terminal.
        """
        self._what = what
        self._total = total
        self._report = report
        self._lock = threading.Lock()
        self._done = 0
        self._began = self._told = time.monotonic()
        console = PrintableConsole(stderr=True)
        self._bar: Progress | None = None
        if console.is_terminal:
            self._bar = _download_bar(console)
            self._task = self._bar.add_task(what, total=total)

    def __enter__(self) -> Self:
        """Show the bar, or report a line with the size if standard error is not a terminal."""
        if self._bar:
            self._bar.start()
        else:
            size = "an unknown number of bytes" if self._total is None else format_size(self._total)
            self._report(f"{self._what}: {size}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Remove the bar, if one is shown; report nothing."""
        if self._bar:
            self._bar.stop()

    def advance(self, count: int) -> None:
        """Add `count` received bytes; a negative count takes back bytes. Update the bar, or report a line every 5 s."""
        with self._lock:
            self._done += count
            if self._bar:
                self._bar.update(self._task, completed=self._done)
            elif time.monotonic() - self._told > _EVERY:
                self._told = time.monotonic()
                rate = format_size(self._done / (self._told - self._began))
                whole = "" if self._total is None else f" of {format_size(self._total)}"
                self._report(f"{self._what}: {format_size(self._done)}{whole}, {rate}/s")


def _download_bar(console: Console) -> "Progress":
    """Return the bar of a download, without a task."""
    # Imported here because few commands download.
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=console, transient=True)
