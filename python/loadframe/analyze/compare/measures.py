"""Measures that comparisons use: throughput of each measured phase, percentiles of each operation's response time.

Throughput counts requests (`throughput`) or documents (`documents`) that the store accepted or returned.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Literal

from loadframe.analyze.estimate import Estimate
from loadframe.analyze.experiment import RecordedRun
from loadframe.analyze.figures import Figure, FigureName, Stretch, stretch_of
from loadframe.analyze.percentiles import ENOUGH, mean_arrivals
from loadframe.analyze.rates import RATES
from loadframe.analyze.verdict.rules import ERROR_LIMIT, effect_of
from loadframe.base.units import format_duration
from loadframe.record.schema.figures import OperationFigures

#: Statistics in a summary by their public name.
_PERCENTILES = {"p50": "p50", "p90": "p90", "p99": "p99", "p99.9": "p999", "max": "max", "mean": "mean"}
#: Figure and statistic of response times by public name. Plain names cover successes, because failed requests may be
#: fast; `all-` names include failures, which may be slow.
_RESPONSES: dict[str, tuple[FigureName, str]] = {
    **{name: ("response", key) for name, key in _PERCENTILES.items()},
    **{f"all-{name}": ("all", key) for name, key in _PERCENTILES.items()},
}
#: Rates and shares by public name.
_COUNTS: dict[str, FigureName] = {"throughput": "throughput", "documents": "documents", "errors": "errors"}
#: Share of requests that a percentile may miss. For p99, 1 % of the requests are slower; if more are missing, the p99
#: of the rest is not a bound.
_MISSING = {"p50": 0.5, "p90": 0.1, "p99": 0.01, "p99.9": 0.001, "max": ERROR_LIMIT, "mean": ERROR_LIMIT}
#: From this ratio of durations or numbers of requests on, the maxima of the shorter side are too small: the more
#: requests, the larger their maximum, and so a percentile of few requests. It allows for a store that is slower by a
#: fifth, which answers fewer requests of a closed loop.
_LONGER = 1.3
#: Measures that users can name.
KINDS = ("throughput", "documents", *_RESPONSES, "errors")
USUAL = ("throughput", "p50", "p99")


@dataclass(frozen=True)
class FewRequests:
    """Too few requests for a percentile, `kind`: their number, the needed number, and the duration to set, s."""

    kind: str
    count: int
    needed: int
    duration: float | None

    def __str__(self) -> str:
        longer = f" (a duration of {format_duration(self.duration)})" if self.duration else ""
        return f"too few requests: {self.count:,} in a run, and {self.kind} needs at least {self.needed:,}{longer}"


@dataclass(frozen=True)
class Measure:
    """One figure of a phase: requests or documents (1/s), a response time (s) or the share of failed requests.

    `operation` is None for all operations of the phase together. Parts of operations (`OPERATION.PART`) have response
    times only.
    """

    phase: str
    kind: str
    operation: str | None = None

    @property
    def better(self) -> Literal["higher", "lower"]:
        """The direction of improvement: `higher` for rates, `lower` for times and errors."""
        return "higher" if self.kind in RATES else "lower"

    @property
    def is_maximum(self) -> bool:
        """Whether it is a maximum, which grows with the number of requests."""
        return self.kind.removeprefix("all-") == "max"

    @property
    def unit(self) -> str:
        """The unit of the values; empty for a share."""
        return "1/s" if self.kind in RATES else "" if self.kind == "errors" else "s"

    @property
    def name(self) -> str:
        """The name for people: phase, operation and kind, such as `range_100 p99`.

        The operation is left out if it is None or named like the phase.
        """
        words = [self.phase] + ([self.operation] if self.operation not in (None, self.phase) else [])
        return " ".join([*words, self.kind])

    @property
    def phrase(self) -> str:
        """The name within a sentence: `p99 of range_100`, `throughput of a`, `p99 of read in a`."""
        is_main = self.operation in (None, self.phase)
        return f"{self.kind} of {self.phase if is_main else f'{self.operation} in {self.phase}'}"

    def of(self, run: RecordedRun) -> float | None:
        """Return the run's value in the measure's unit (1/s, s or a share); None if it is unknown."""
        known = self.figure(run)
        return known.value if known.counts else None

    def figure(self, run: RecordedRun) -> Figure:
        """Return the run's value with its bounds, in the measure's unit; its state may be `unknown`."""
        if self.kind in _COUNTS:
            return run.figure(self.phase, _COUNTS[self.kind], self.operation if self.kind == "errors" else None)
        whose, key = _RESPONSES[self.kind]
        # Runs of versions that recorded no response times of failures have no `all`.
        return run.figure(self.phase, whose, self.operation, key)

    def stretch(self, runs: Iterable[RecordedRun]) -> Stretch:
        """Return the range of factors from the runs' measured values to the true values."""
        return stretch_of(self.figure(run) for run in runs)

    def failures(self, run: RecordedRun) -> tuple[int, int]:
        """Return the numbers of unsuccessful and of due requests in the operation, or in the phase if it is None.

        Due requests include dropped requests and those unanswered at the end.
        """
        due = sum(operation.due for operation in self._operations(run))
        return due - sum(operation.successes for operation in self._operations(run)), due

    def is_spoilt(self, run: RecordedRun) -> bool:
        """Return whether the value is unknown for a reason other than the store, such as a failed load generator."""
        return any(effect_of(code) == "unknown" for code in self.figure(run).reasons)

    def is_blind(self, runs: Sequence[RecordedRun]) -> bool:
        """Return whether in any run too many requests lack a response time for its percentile to cover the due ones.

        For p99 these are more than 1 % of the due requests of the operation, or of all together if it is None. Failed
        requests have a response time in kinds with `all-`, and lack it in others. Spoilt runs do not count. False for
        rates and shares of errors.
        """
        if self.kind not in _RESPONSES:
            return False
        whole, missing = self.kind.startswith("all-"), _MISSING[self.kind.removeprefix("all-")]
        for run in (run for run in runs if not self.is_spoilt(run)):
            operations = self._operations(run)
            due = sum(operation.due for operation in operations)
            if due - sum(it.requests if whole else it.successes for it in operations) > missing * due:
                return True
        return False

    def shorter(self, first: Sequence[RecordedRun], second: Sequence[RecordedRun]) -> tuple[str, str]:
        """Return for each side why its values are too small: `fewer requests`, `less time` or both; else empty.

        A side is shorter if the other has more than 1.3 times as much per run on average. For maxima both quantities
        matter. For percentiles only the requests matter, on a side with too few for the percentile. Both texts are
        empty if a side has no value.
        """
        few = [self._below_minimum(side) is not None for side in (first, second)]
        if not self.is_maximum and not any(few):
            return "", ""
        # The mean number of requests and duration (s) of a run, for each side.
        lengths: list[tuple[float, float]] = []
        for side in (first, second):
            known = [self._length(run) for run in side if self.of(run) is not None]
            if not known:
                return "", ""
            lengths.append((fmean(requests for requests, _ in known), fmean(duration for _, duration in known)))
        words = [
            [
                name
                for name, length, other in zip(("fewer requests", "less time"), *pair, strict=True)
                if other > _LONGER * length and (self.is_maximum or (has_few and name == "fewer requests"))
            ]
            for has_few, pair in zip(few, (lengths, lengths[::-1]), strict=True)
        ]
        return " and ".join(words[0]), " and ".join(words[1])

    def lasts_alike(self, run: RecordedRun, other: RecordedRun) -> bool:
        """Return whether two runs have similar lengths, as a maximum requires; True for other measures.

        The time or the number of requests is similar, up to a ratio of 1.3: a phase with a fixed number ends when the
        store has answered.
        """
        pairs = zip(self._length(run), self._length(other), strict=True)
        return not self.is_maximum or any(max(pair) <= _LONGER * min(pair) for pair in pairs)

    def typical(self, runs: Iterable[RecordedRun]) -> RecordedRun | None:
        """Return the run of median duration (of two, the longer) of those with a value of this measure; else None."""
        known = sorted((run for run in runs if self.of(run) is not None), key=lambda run: self._length(run)[1])
        return known[len(known) // 2] if known else None

    def _length(self, run: RecordedRun) -> tuple[float, float]:
        """Return the number of requests of the operation, or of all if it is None, and the duration of the phase, s.

        0 and 0 without the phase.
        """
        phase = run.phase(self.phase)
        return sum(operation.requests for operation in self._operations(run)), phase.duration if phase else 0.0

    def few_requests(self, runs: Iterable[RecordedRun]) -> "FewRequests | None":
        """Return the number of requests in the run with the fewest, if too few for this percentile; else None.

        Ten requests must be slower than the percentile: 1,000 for p99. None for measures other than percentiles, and
        for p50: medians of equally few requests can be compared, and run-to-run variance includes their error.
        `shorter` finds medians of unequally few requests, and maxima.
        """
        return None if self.kind.removeprefix("all-") == "p50" else self._below_minimum(runs)

    def _below_minimum(self, runs: Iterable[RecordedRun]) -> "FewRequests | None":
        """Return the number of requests in the run with the fewest, if too few for this percentile; else None.

        Also for p50: of an even number, the recorded median is the lower one of the two in the middle.
        """
        kind = self.kind.removeprefix("all-")
        if kind not in ("p50", "p90", "p99", "p99.9"):
            return None
        needed = round(ENOUGH / _MISSING[kind])
        fewest: FewRequests | None = None
        for run in (run for run in runs if not self.is_spoilt(run)):
            figures, phase = run.figures(self.phase, self.operation or ""), run.phase(self.phase)
            latency = getattr(figures, _RESPONSES[self.kind][0]) if figures else None
            if latency and phase and latency.count < (fewest.count if fewest else needed):
                duration = math.ceil(phase.duration * mean_arrivals(needed) / latency.count) if latency.count else None
                fewest = FewRequests(self.kind, latency.count, needed, duration)
        return fewest

    def _operations(self, run: RecordedRun) -> list[OperationFigures]:
        """Return the figures of the operation in a run, or of all single operations of the phase if it is None."""
        operations = run.operations(self.phase)
        return [
            operation
            for name, operation in operations.items()
            if (not operation.of_several if self.operation is None else name == self.operation)
        ]

    def interval(self, estimate: Estimate, *, of_ratio: bool = False) -> dict[str, float | None]:
        """Return an estimate of values, or of their ratio, as `value`, `low` and `high`; an unknown end is null.

        No time, rate or ratio is 0, so a low end of 0 is unknown, except for shares of errors.
        """
        is_unknown = estimate.low <= 0 and (of_ratio or self.kind != "errors")
        return estimate.as_dict() | ({"low": None} if is_unknown else {})

    def as_dict(self) -> dict[str, Any]:
        """Return `measure` (the kind), `phase`, `operation` and `unit` for JSON."""
        return {"measure": self.kind, "phase": self.phase, "operation": self.operation, "unit": self.unit}


def measures_of(runs: Sequence[RecordedRun], kinds: Sequence[str] = USUAL) -> tuple[Measure, ...]:
    """Return the measures of these runs, in the order of phases, kinds and operations.

    Rates and errors are of a whole phase (operation None), times of each operation. In a phase with an open load in any
    run, throughput and documents are the offered rate and left out. Documents are also left out if none were counted.
    """
    measures: dict[Measure, None] = {}
    for phase in _phases(runs):
        entries = [entry for run in runs if (entry := run.phase(phase))]
        operations = dict.fromkeys(name for entry in entries for name in entry.operations)
        opened = any(entry.has_open_load for entry in entries)
        for kind in kinds:
            counted = kind == "throughput" or any(RATES["documents"].of(entry) for entry in entries)
            if kind == "errors" or (kind in RATES and counted and not opened):
                measures[Measure(phase, kind)] = None
            elif kind in _RESPONSES:
                measures |= {Measure(phase, kind, operation): None for operation in operations}
    return tuple(measures)


def _phases(runs: Sequence[RecordedRun]) -> list[str]:
    """Return the names of the measured phases; if there are none, of the preparing phases."""
    phases = [phase for run in runs if run.run for phase in run.run.summary.phases]
    measured = dict.fromkeys(phase.name for phase in phases if not phase.prepares)
    return list(measured or dict.fromkeys(phase.name for phase in phases))
