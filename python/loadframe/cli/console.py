"""Progress on the terminal: the run, the phase, its figures, sources of events and the time left."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import RenderableType
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Column
from rich.text import Text

from loadframe.base.terminal import TimeLeft
from loadframe.base.units import counted, format_count, format_duration
from loadframe.cli.output import err, tell
from loadframe.experiment.runner.listener import Listener

if TYPE_CHECKING:
    from loadframe.load import Progress as PhaseProgress
    from loadframe.load import SourceProgress


#: Age from which figures are hidden, s. New ones arrive every second.
_MAX_AGE = 3.0
#: Columns of a bar, and of the elapsed time and the time left beside it, with gaps.
_BAR = 12
_TIMES = 32


class EventWords:
    """Rates of event sources, computed from their totals. `clock` returns s."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` returns s; it is the monotonic clock except in tests."""
        self._clock = clock
        self._before: dict[str, tuple[float, SourceProgress]] = {}
        self._last: dict[str, str] = {}
        self._second = -1

    def begin(self) -> None:
        """Forget the totals and rates of all sources, for the next phase."""
        self._before, self._last, self._second = {}, {}, -1

    def addresses(self, sources: "Mapping[str, SourceProgress]") -> list[str]:
        """Return a text with the address of each listening source that `words` has not seen since `begin`."""
        return [
            f"{name} listens at {source.address}"
            for name, source in sources.items()
            if source.address and name not in self._before
        ]

    def words(self, second: int, sources: "Mapping[str, SourceProgress]") -> str:
        """Return the rates of all sources since the previous second, and their backlogs, as one text.

        `second` numbers the seconds of the phase; within a second, the rates do not change.
        """
        now = self._clock()
        for name, source in sources.items():
            # Events before the first call count as events of the first second.
            nothing = replace(source, lines=0, accepted=0, indexed=0, kinds={}, visible=None)
            began, before = self._before.setdefault(name, (now, nothing))
            if second != self._second and now > began:

                def rate(grown: int, began: float = began) -> str:
                    return format_count(round(grown / (now - began)))

                kinds = ", ".join(
                    f"{rate(count - before.kinds.get(kind, 0))} {kind}"
                    for kind, count in source.kinds.items()
                    if count > before.kinds.get(kind, 0)
                )
                self._before[name] = (now, source)
                self._last[name] = (
                    f"{rate(source.lines - before.lines)} lines/s, {rate(source.accepted - before.accepted)} events/s"
                    f" accepted, {rate(source.indexed - before.indexed)}/s indexed{kinds and f' ({kinds})'}"
                )
                if source.visible is not None:
                    self._last[name] += f", about {rate(source.visible - (before.visible or 0))}/s visible"
        self._second = second
        return "  ".join(
            f"{name}: {self._last.get(name, 'no events yet')}; now {format_count(source.unacknowledged)} unacknowledged"
            f"{f' ({format_count(source.spilled)} on disk)' if source.spilled else ''},"
            f"{f' {format_count(source.dropped)} dropped,' if source.dropped else ''}"
            f" {counted(source.dead_letters, 'dead letter')}"
            for name, source in sources.items()
        )


class Console(Listener):
    """A listener on standard error. A context manager.

    On a terminal it draws bars with the figures of the last second below. Otherwise it prints a line for each step and
    for the figures of each second. `entry` is the word for an entry of the design.
    """

    def __init__(self, entry: str = "run") -> None:
        """Prepare the bars; `entry` is the word for an entry of the design, such as `run`."""
        self._entry = entry
        width = max(err.width - _BAR - _TIMES, _BAR)
        description = Column(no_wrap=True, overflow="ellipsis", max_width=width)
        self._bars = _Bars(
            TextColumn("{task.description}", markup=False, table_column=description),
            BarColumn(bar_width=_BAR),
            TimeElapsedColumn(),
            _TimeLeft(self._time_left_text),
            console=err,
            transient=True,
            disable=not err.is_terminal,
        )
        self._whole: TaskID | None = None
        self._phase: TaskID | None = None
        self._left: TimeLeft | None = None
        self._events = EventWords()
        #: The last figures of the phase, and the second of the last printed line.
        self._figures: PhaseProgress | None = None
        self._told = 0

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._finish_phase()
        self._bars.stop()

    def step(self, text: str) -> None:
        """Print the next step above the bars."""
        self._print_last_figures()
        tell(f"  {text}", style="dim")

    def remark(self, text: str) -> None:
        """Print a remark for the user."""
        self._print_last_figures()
        tell(text, style="yellow")

    def expect(self, parts: Mapping[str, float | None], *, least: bool = False) -> None:
        """Start to estimate the time left, from the expected (or `least`) seconds of each part (None: unknown)."""
        self._left = TimeLeft(parts, least=least)

    def part(self, name: str) -> None:
        """Begin a part, and correct the time left by the duration of the previous one; without `expect`, do nothing."""
        if self._left:
            self._left.begin(name)

    def run(self, index: int, runs: int, run_id: str) -> None:
        """Show that run `index` (from 0) of `runs` begins, and the time left for all runs."""
        self._finish_phase()
        words = f"{self._entry} {index + 1} of {runs}: {run_id}"
        if not err.is_terminal:
            tell(", ".join(filter(None, [words, self._time_left_text()])))
        if self._whole is None:
            self._whole = self._bars.add_task("", total=runs, figures="", whole=True)
        self._bars.update(self._whole, completed=index, total=runs, description=words)

    def judged(self, run_id: str, text: str, outcome: str) -> None:
        """Print the outcome of a trial: only `text`, which contains it."""
        self._print_last_figures()
        tell(f"  {text}")

    def phase(self, name: str, seconds: float | None) -> None:
        """Show a bar for the phase, of `seconds` s; without a known length it only moves."""
        self._finish_phase()
        self.part(name)
        if not err.is_terminal:
            length = f", {format_duration(seconds)}" if seconds else ""
            tell(f"  phase {name}{length}")
        self._phase = self._bars.add_task(f"phase {name}", total=seconds, figures="", whole=self._whole is None)

    def progress(self, progress: "PhaseProgress") -> None:
        """Show the figures of the last second; without a terminal, print them once for each second.

        Also prints the address of each source that begins to listen. Does nothing outside phases.
        """
        if self._phase is None:
            return
        for words in self._events.addresses(progress.sources):
            tell(f"  {words}")
        self._figures = progress
        self._bars.update(self._phase, completed=progress.seconds, figures=self._words(progress))
        self._bars.figures_time = self._bars.clock()
        if not err.is_terminal and progress.seconds > self._told:
            self._print_figures(progress)

    def _print_figures(self, progress: "PhaseProgress") -> None:
        """Print the figures of a second and the time left as one line."""
        self._told = progress.seconds
        words = f"  {progress.seconds} s: {self._words(progress)}"
        tell("  ".join(filter(None, [words, self._time_left_text()])))

    def _print_last_figures(self) -> None:
        """Without a terminal, print the last figures of the phase, unless they were printed already."""
        if self._figures and not err.is_terminal and self._figures.seconds > self._told:
            self._print_figures(self._figures)

    def _finish_phase(self) -> None:
        """End the phase: print its last figures, remove its bar, and forget its sources."""
        self._print_last_figures()
        if self._phase is not None:
            self._bars.remove_task(self._phase)
        self._phase, self._figures, self._told = None, None, 0
        self._events.begin()

    def _words(self, progress: "PhaseProgress") -> str:
        """Return the rates of event sources and the figures of the last second as text."""
        return "  ".join(filter(None, [self._events.words(progress.seconds, progress.sources), _words(progress)]))

    def _time_left_text(self) -> str:
        """Return the time left as text, such as `about 2m left`, or `at least` for searches; empty if it is unknown."""
        if self._left is None or (seconds := self._left.seconds) is None or not (seconds or self._left.least):
            return ""
        return f"{'at least' if self._left.least else 'about'} {format_duration(max(round(seconds), 1))} left"


class _Bars(Progress):
    """Bars with the figures of the last second in a line below, because few terminals are wide enough for both."""

    #: Time of the last figures, s. Old figures are hidden: the load has stopped, for example while nodes start.
    figures_time = 0.0
    clock: Callable[[], float] = staticmethod(time.monotonic)

    def get_renderables(self) -> Iterable[RenderableType]:
        """Yield the bars, then the figures unless they are older than 3 s."""
        yield self.make_tasks_table(self.tasks)
        if self.clock() - self.figures_time > _MAX_AGE:
            return
        for task in self.tasks:
            if figures := task.fields["figures"]:
                yield Text(f"  {figures}", no_wrap=True, overflow="ellipsis")


class _TimeLeft(ProgressColumn):
    """The time left for all runs, beside one of the bars."""

    max_refresh = 0.5

    def __init__(self, words: Callable[[], str]) -> None:
        super().__init__(table_column=Column(no_wrap=True))
        self._words = words

    def render(self, task: Task) -> Text:
        """Return the time left for the bar of all runs, or of the phase without such a bar; empty for other bars."""
        return Text(self._words() if task.fields["whole"] else "", style="progress.remaining")


def _words(progress: "PhaseProgress") -> str:
    """Return the figures of the last second and the number of errors so far as text.

    With sources of events it omits documents: the seconds of the engine and of the events end at different times.
    """
    shows = progress.documents_throughput and not progress.sources
    documents = f"  {format_count(progress.documents_throughput)} docs/s" if shows else ""
    errors = counted(progress.errors, "error")
    if progress.response_p50 is None or progress.response_p99 is None:
        return f"no answers in this second  {errors}"
    return (
        f"{format_count(progress.throughput)} requests/s{documents}  p50 {format_duration(progress.response_p50)}"
        f"  p99 {format_duration(progress.response_p99)}  {errors}"
    )
