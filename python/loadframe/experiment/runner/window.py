"""Choice of a phase's measured window during its load: automatic warm-up and length, wait for an empty queue."""

import csv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from loadframe.analyze import run_length
from loadframe.analyze.percentiles import percentiles_of_window
from loadframe.base.units import format_duration, format_share
from loadframe.load import Adjustment
from loadframe.record.reader import histogram_log
from loadframe.workload import ResolvedPhase

Array = npt.NDArray[np.float64]

#: Operations with a smaller share of the successes do not decide when the figures are precise, unless those that are
#: more frequent have less than the second share together.
_SHARE, _TOGETHER = 0.1, 0.5


class WindowControl:
    """Chooses the end of the warm-up and of the window from the seconds that a phase has recorded.

    Call it with the number of recorded seconds and the first second that it may choose. `result` describes the choice,
    for the outcome.
    """

    def __init__(self, phase: ResolvedPhase, folder: Path, report: Callable[[str], None]) -> None:
        """Take the phase, the folder with the engine's series, and the function that receives progress lines."""
        self._phase, self._folder, self._report = phase, folder, report
        self._rows = _Rows(folder / "series.csv", set(phase.operations))
        self._warmup_ends: int | None = None
        self._next_look = 0
        auto = phase.auto_duration
        self._looks = list(run_length.looks(auto.at_least, auto.at_most)) if auto else []
        self._outside = run_length.outside_of(len(self._looks)) if auto else None
        self.result: dict[str, Any] = {}
        if phase.auto_warmup:
            self.result |= {"steady_from": None, "warmup_limit": phase.warmup}
        if phase.wait_for_queue:
            self.result |= {"queue_empty_at": None, "queue_limit": phase.wait_for_queue}
        if auto:
            self.result |= {"precision": auto.precision, "reached": False, "outside": self._outside, "widest": None}

    def __call__(self, seconds: int, soonest: int) -> Adjustment | None:
        """Return the decision after `seconds` recorded seconds, or None; `soonest` is the first second to choose.

        Stores in `result` when the queue was empty, and what the decision is based on.
        """
        self._rows.read(seconds)
        if "queue_empty_at" in self.result and self.result["queue_empty_at"] is None:
            self.result["queue_empty_at"] = self._queue_empty_at(seconds)
        if self._warmup_ends is None:
            return self._end_warmup(seconds, soonest)
        return self._end_window(seconds, soonest)

    def _end_warmup(self, seconds: int, soonest: int) -> Adjustment | None:
        """Return the adjustment that begins the measurement at second `soonest` of the load, or None.

        It begins when the queue is empty, if the phase waits for that, or else, with automatic warm-up, when the load
        is steady in the `seconds` recorded so far; the start of the steady state is then stored and reported. None
        before, and where the engine itself ends the warm-up: at a fixed length or at the limit. Remembers the end of
        the warm-up.
        """
        phase = self._phase
        if soonest >= phase.longest_warmup:
            # The engine ends the warm-up at its limit.
            self._warmup_ends = int(np.ceil(phase.longest_warmup))
            return None
        if phase.wait_for_queue:
            if self.result["queue_empty_at"] is None:
                return None
        elif phase.auto_warmup:
            if seconds < max(phase.auto_warmup.at_least, self._next_look):
                return None
            self._next_look = seconds + run_length.LOOK
            steady = run_length.steady_from(*self._rows.series(0, seconds))
            if steady is None:
                return None
            self.result["steady_from"] = steady
            self._report(f"{phase.name}: steady since {format_duration(steady)}; measuring")
        else:
            self._warmup_ends = int(np.ceil(phase.warmup))
            return None
        self._warmup_ends = soonest
        return Adjustment(measured_from=self._warmup_ends)

    def _queue_empty_at(self, seconds: int) -> int | None:
        """Return the end (s of the load) of the first second after the warm-up without unanswered requests, or None.

        Only seconds of the pause that `wait_for_queue` limits, up to `seconds`.
        """
        # Until the limit, even if it is too late to end the pause sooner.
        last = min(seconds, int(self._phase.longest_warmup))
        ends = range(int(self._phase.warmup) + 1, last + 1)
        return next((end for end in ends if not self._rows.unanswered(end - 1)), None)

    def _end_window(self, seconds: int, soonest: int) -> Adjustment | None:
        """Return the adjustment that ends the measurement at second `soonest` of the load, or None.

        At planned lengths of the window (looks), compares its precision with the aim, and stores both. None before a
        look, without an automatic length, if the precision is not reached, or at the limit, where the engine ends the
        window.
        """
        assert self._warmup_ends is not None
        measured = seconds - self._warmup_ends
        if not self._looks or measured < self._looks[0]:
            return None
        del self._looks[0]
        widest = self._widest(seconds)
        self.result["widest"] = widest if np.isfinite(widest) else None
        auto = self._phase.auto_duration
        assert auto is not None
        if widest > auto.precision:
            if np.isfinite(widest):
                self._report(f"{self._phase.name}: precision {format_share(widest)} after {format_duration(measured)}")
            return None
        self._looks.clear()
        self.result["reached"] = True
        # At the limit, the engine ends the window.
        return Adjustment(until=soonest) if soonest - self._warmup_ends < auto.at_most else None

    def _widest(self, seconds: int) -> float:
        """Return the largest relative half-width of the intervals of throughput and of main operations' response p99.

        The window is from the end of the warm-up, which must be known, to second `seconds`. The intervals are wider
        than 95 %, for repeated looks. Infinite without a main operation or a p99. Stores the interval of throughput, if
        finite, in `result`.
        """
        assert self._warmup_ends is not None and self._outside is not None
        throughput, _ = self._rows.series(self._warmup_ends, seconds)
        rate = run_length.mean_interval_of_series(throughput, self._outside)
        intervals = [(rate.value, rate.low, rate.high)]
        if rate.is_finite:
            self.result |= {"throughput_low": rate.low, "throughput_high": rate.high}
        log = histogram_log(self._folder / "histograms.hlog")
        for name in self._rows.main_operations(self._warmup_ends, seconds):
            tag = f"{self._phase.name}/{name}/response"
            known = percentiles_of_window(log, tag, seconds - self._warmup_ends, self._outside)
            p99 = (known["p99"].value, known["p99"].low, known["p99"].high) if known else (np.nan, 0.0, np.inf)
            intervals.append(p99)
        return run_length.widest(intervals) if len(intervals) > 1 else np.inf


class _Rows:
    """The rows of `series.csv` that a running phase has written, by second, for a set of operations."""

    def __init__(self, path: Path, operations: set[str]) -> None:
        """Take the path of `series.csv`, and the names of the operations to keep."""
        self._path, self._operations = path, operations
        self._position, self._heads = 0, list[str]()
        #: Second -> rows.
        self._rows: dict[int, list[dict[str, str]]] = {}

    def read(self, seconds: int) -> None:
        """Read the rows written since the last call; nothing if a row of second `seconds` or later is known.

        An incomplete last line is left for the next call.
        """
        if not self._path.exists() or seconds <= max(self._rows, default=-1):
            return
        with self._path.open(newline="") as file:
            file.seek(self._position)
            text = file.read()
        # The last line may be incomplete.
        whole = text[: text.rfind("\n") + 1]
        self._position += len(whole.encode())
        for cells in csv.reader(whole.splitlines()):
            if not self._heads:
                self._heads = cells
                continue
            row = dict(zip(self._heads, cells, strict=True))
            if row["operation"] in self._operations:
                self._rows.setdefault(int(row["second"]), []).append(row)

    def _of(self, begin: int, end: int) -> Iterator[tuple[int, dict[str, str]]]:
        """Yield the rows from second `begin` to before `end`, each with its second counted from `begin`."""
        for second in range(begin, end):
            for row in self._rows.get(second, ()):
                yield second - begin, row

    def series(self, begin: int, end: int) -> tuple[Array, Array]:
        """Return the successes and the mean of the operations' median response times (s) of each second.

        The mean is weighted by successes, NaN without any. Seconds count from `begin` to before `end`.
        """
        successes, times = np.zeros(end - begin), np.zeros(end - begin)
        for place, row in self._of(begin, end):
            if row["response_p50"]:
                successes[place] += int(row["successes"])
                times[place] += int(row["successes"]) * float(row["response_p50"])
        means = np.full(end - begin, np.nan)
        np.divide(times, successes, out=means, where=successes > 0)
        return successes, means

    def main_operations(self, begin: int, end: int) -> list[str]:
        """Return the operations with most successes from second `begin` to before `end`, most first.

        These are all with at least a tenth of the successes, and further ones until they have half together.
        """
        counts: dict[str, int] = {}
        for _, row in self._of(begin, end):
            counts[row["operation"]] = counts.get(row["operation"], 0) + int(row["successes"])
        total, covered, main = sum(counts.values()), 0, list[str]()
        for name, count in sorted(counts.items(), key=lambda item: -item[1]):
            if count and (count >= _SHARE * total or covered < _TOGETHER * total):
                main.append(name)
                covered += count
        return main

    def unanswered(self, second: int) -> int:
        """Return the number of unanswered requests at the end of a second; 0 for a second without rows."""
        return sum(int(row["unanswered"]) for _, row in self._of(second, second + 1))
