"""What of a run is compared: throughput of each measured phase, percentiles of each operation's response time.

Throughput is of requests (`throughput`) or of documents (`documents`), which the store took or returned.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from loadframe.analyze.experiment import RecordedRun
from loadframe.analyze.figures import Figure, FigureName, Stretch, stretch_of
from loadframe.analyze.rates import RATES
from loadframe.analyze.verdict.rules import ERROR_LIMIT
from loadframe.record.schema.summary import OperationFigures

#: The percentiles that a summary has, by how they are called.
_PERCENTILES = {"p50": "p50", "p90": "p90", "p99": "p99", "p99.9": "p999", "max": "max", "mean": "mean"}
#: Response times by how they are called: whose they are, and which figure. Plain ones are those of successes, as failed
#: requests may be fast; `all-` ones have failures in them, which may be slow.
_RESPONSES: dict[str, tuple[FigureName, str]] = {
    **{name: ("response", key) for name, key in _PERCENTILES.items()},
    **{f"all-{name}": ("all", key) for name, key in _PERCENTILES.items()},
}
#: Figures that are counted, by how they are called.
_COUNTS: dict[str, FigureName] = {"throughput": "throughput", "documents": "documents", "errors": "errors"}
#: The share of requests that a figure may leave out and still be what it is called: of those that are slower than the
#: 99th percentile, all may be missing, and the figure of the rest does not bound it.
_MISSING = {"p50": 0.5, "p90": 0.1, "p99": 0.01, "p99.9": 0.001, "max": ERROR_LIMIT, "mean": ERROR_LIMIT}
#: What may be asked for by name, and in which direction it is better.
KINDS = ("throughput", "documents", *_RESPONSES, "errors")
USUAL = ("throughput", "p50", "p99")


@dataclass(frozen=True)
class Measure:
    """One figure of a run: requests or documents (1/s), a response time (s) or the share that failed, of a phase.

    `operation` is None where all of the phase's operations count together. Of a part of one (`OPERATION.PART`) response
    times are known alone.
    """

    phase: str
    kind: str
    operation: str | None = None

    @property
    def better(self) -> Literal["higher", "lower"]:
        """The direction in which it is better."""
        return "higher" if self.kind in RATES else "lower"

    @property
    def unit(self) -> str:
        """The unit of its values; a share has none."""
        return "1/s" if self.kind in RATES else "" if self.kind == "errors" else "s"

    @property
    def name(self) -> str:
        """Its name for people: `range_100 p99`, and with the phase's name where the operation has another."""
        words = [self.phase] + ([self.operation] if self.operation not in (None, self.phase) else [])
        return " ".join([*words, self.kind])

    @property
    def phrase(self) -> str:
        """The same within a sentence: `p99 of range_100`, `throughput of a`, `p99 of read in a`."""
        is_main = self.operation in (None, self.phase)
        return f"{self.kind} of {self.phase if is_main else f'{self.operation} in {self.phase}'}"

    def of(self, run: RecordedRun) -> float | None:
        """Return the run's value; None where it is unknown: nothing of the kind was measured, or not of this store."""
        known = self.figure(run)
        return known.value if known.counts else None

    def figure(self, run: RecordedRun) -> Figure:
        """Return the run's value with its bounds."""
        if self.kind in _COUNTS:
            return run.figure(self.phase, _COUNTS[self.kind], self.operation if self.kind == "errors" else None)
        whose, key = _RESPONSES[self.kind]
        # Runs of versions that recorded no response times of failures have no `all`.
        return run.figure(self.phase, whose, self.operation, key)

    def stretch(self, runs: Iterable[RecordedRun]) -> Stretch:
        """Return what the bounds of the runs' values allow."""
        return stretch_of(self.figure(run) for run in runs)

    def failures(self, run: RecordedRun) -> tuple[int, int]:
        """Return how many requests were due and did not succeed, and how many were due.

        Those that were dropped, and those without an answer at the end, were due, too. They are the phase's, or those
        of the measure's operation where it has one.
        """
        due = sum(operation.due for operation in self._operations(run))
        return due - sum(operation.successes for operation in self._operations(run)), due

    def is_blind(self, runs: Sequence[RecordedRun]) -> bool:
        """Whether so many requests lack a response time that a percentile says nothing about all that were due."""
        if self.kind not in _RESPONSES:
            return False
        operations = [operation for run in runs for operation in self._operations(run)]
        due = sum(operation.due for operation in operations)
        whole = self.kind.startswith("all-")
        seen = sum(operation.requests if whole else operation.successes for operation in operations)
        return due - seen > _MISSING[self.kind.removeprefix("all-")] * due

    def _operations(self, run: RecordedRun) -> list[OperationFigures]:
        operations = run.operations(self.phase)
        return [
            operation
            for name, operation in operations.items()
            if (not operation.of_several if self.operation is None else name == self.operation)
        ]

    def as_dict(self) -> dict[str, Any]:
        """Return what it is, for JSON."""
        return {"measure": self.kind, "phase": self.phase, "operation": self.operation, "unit": self.unit}


def measures_of(runs: Sequence[RecordedRun], kinds: Sequence[str] = USUAL) -> tuple[Measure, ...]:
    """Return the measures that these runs have, in the order of phases, kinds and operations.

    The throughput of open pacing is the offered rate, so it is not one of them, and nor are its documents. Documents
    are one only where some were counted.
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
    """Return the names of the phases that were measured; of those that prepare only where there are no others."""
    phases = [phase for run in runs if run.run for phase in run.run.summary.phases]
    measured = dict.fromkeys(phase.name for phase in phases if not phase.prepares)
    return list(measured or dict.fromkeys(phase.name for phase in phases))
