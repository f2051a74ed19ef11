"""Response and service times of a selection of requests: merged histograms and their percentiles."""

import functools
import math
import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from loadframe.analyze.percentiles import at_most
from loadframe.base.errors import BadInput
from loadframe.base.units import counted, format_duration
from loadframe.library.arguments import Percent, Seconds, checked
from loadframe.library.tables import html_table
from loadframe.record import Run as RecordedRun
from loadframe.yamlfile import did_you_mean

if TYPE_CHECKING:
    from loadframe.record import Histogram

#: Recorded times: done - scheduled of successes, done - sent of successes, done - scheduled of failures.
Kind = Literal["response", "service", "failure"]
_SHOWN = (50.0, 90.0, 99.0, 99.9)


class Times:
    """Times of requests, s, merged exactly: histograms are added, and percentiles come from the sum.

    Add them to merge selections; `sum` merges any number.

    >>> run = loadframe.open("results/tail")
    >>> times = run.response_times(operation="read")
    >>> times.percentile(50) <= times.percentile(99) <= times.max
    True
    >>> both = times + run.response_times(operation="scan")
    >>> both.count == run.response_times().count
    True
    """

    def __init__(self, histogram: "Histogram | None" = None) -> None:
        """Create the times of a histogram; without one, there are 0 requests."""
        self._histogram = histogram

    @property
    def count(self) -> int:
        """The number of requests."""
        return self._histogram.count if self._histogram else 0

    @property
    def mean(self) -> float:
        """The mean, s; nan without requests."""
        return self._known(self._histogram.mean if self._histogram else None)

    @property
    def max(self) -> float:
        """The maximum, s; nan without requests."""
        return self._known(self._histogram.max if self._histogram else None)

    @checked
    def percentile(self, percent: Percent) -> float:
        """Return a percentile, s; nan without requests. `percent` is from 0 to 100."""
        return self._known(self._histogram.quantile(percent / 100) if self._histogram else None)

    @checked
    def percentiles(self, percents: Sequence[Percent] = _SHOWN) -> dict[float, float]:
        """Return several percentiles, s, by their percent: 50, 90, 99 and 99.9 by default; nan without requests."""
        return {percent: self.percentile(percent) for percent in percents}

    @checked
    def share_above(self, seconds: Seconds) -> float:
        """Return the share (0 to 1) of requests that took longer than `seconds`; nan without requests."""
        if not self._histogram or not self.count:
            return math.nan
        return 1 - at_most(self._histogram, seconds) / self.count

    def buckets(self) -> Iterator[tuple[float, int]]:
        """Yield each recorded value, s, to three significant digits, and its number of requests, in ascending order."""
        return buckets(self._histogram) if self._histogram else iter(())

    @staticmethod
    def _known(value: float | None) -> float:
        """Return the value, s, or nan for None."""
        return math.nan if value is None else value

    def __add__(self, other: "Times") -> "Times":
        """Return the merged times of both, as a new object."""
        if not isinstance(other, Times):
            return NotImplemented
        if self._histogram is None or other._histogram is None:
            return Times(self._histogram or other._histogram)
        return Times(self._histogram + other._histogram)

    def __radd__(self, other: object) -> "Times":
        """Return these times if `other` is 0, with which `sum` starts."""
        # `sum` starts with 0.
        return self if other == 0 else NotImplemented

    def __repr__(self) -> str:
        shown = ", ".join(f"p{percent:g} {format_duration(value)}" for percent, value in self.percentiles().items())
        return f"<Times of {counted(self.count, 'request')}{f': {shown}' if self.count else ''}>"

    def _repr_html_(self) -> str:
        """Return an HTML table for a notebook: number of requests, mean, percentiles and maximum."""
        columns = ("requests", "mean", *(f"p{percent:g}" for percent in _SHOWN), "max")
        times = (self.mean, *self.percentiles().values(), self.max)
        words = (format_duration(value) if self.count else "" for value in times)
        return html_table(columns, [(f"{self.count:,}", *words)])


def buckets(histogram: "Histogram") -> Iterator[tuple[float, int]]:
    """Yield each value of a histogram, s, and its count, in ascending order."""
    seen, total = 0, histogram.count
    while seen < total:
        value = histogram.quantile((seen + 0.5) / total)
        assert value is not None
        # Most values occur only a few times, so double the step until it leaves the value.
        low, step = seen + 1, 1
        while low + step <= total and _at(histogram, low + step, total) <= value:
            low, step = low + step, step * 2
        high = min(low + step, total + 1)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if _at(histogram, middle, total) <= value else (low, middle)
        yield value, low - seen
        seen = low


def _at(histogram: "Histogram", rank: int, total: int) -> float:
    """Return the value of the request at a rank (from 1) of `total`, s; 0.0 without requests."""
    return histogram.quantile((rank - 0.5) / total) or 0.0


def selected(
    runs: Iterable[RecordedRun],
    kind: Kind,
    phase: str | None,
    operation: str | None,
    start: float,
    end: float,
) -> Times:
    """Return the times of a selection of requests, merged over the runs.

    `start` and `end` select the seconds that begin from `start` to before `end`, s since the run began. Without
    `phase`: the measured phases, or all if a run has none. Without `operation`: all operations that do not aggregate
    others. BadInput if no run has the phase or the operation.
    """
    sums: list[Histogram] = []
    phases: set[str] = set()
    operations: set[str] = set()
    for run in runs:
        recorded = run.summary.phases if phase else run.summary.measured or run.summary.phases
        phases |= {entry.name for entry in run.summary.phases}
        tags = set(run.histograms.tags())
        for entry in recorded:
            if phase in (None, entry.name):
                operations |= set(entry.operations)
                names = entry.single if operation is None else [operation] * (operation in entry.operations)
                wanted = [f"{entry.name}/{name}/{kind}" for name in names]
                sums += [run.histograms.total(tag, start, end) for tag in wanted if tag in tags]
    for what, name, known in (("phase", phase, phases), ("operation", operation, operations)):
        if known and name is not None and name not in known:
            raise BadInput(f"unknown {what} {name!r}", remedy=did_you_mean(name, sorted(known)))
    return Times(functools.reduce(operator.add, sums) if sums else None)
