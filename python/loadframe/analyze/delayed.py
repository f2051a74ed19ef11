"""Detection of delayed acknowledgements: all responses of an idle service take about 40 or 200 ms.

A service that writes a response in two parts without TCP_NODELAY sends the second only after the first is acknowledged
(Nagle, RFC 896). The peer delays the acknowledgement (RFC 1122, 4.2.3.2): Linux by 40 ms, at most 200 ms.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loadframe.analyze.telemetry import ALL, CpuUse, processes_of
from loadframe.record import Run
from loadframe.record.schema.summary import PhaseSummary

#: Median service times that delays explain, s: one or two delays of 40 ms, or one of 200 ms, each plus some work.
_BANDS = ((0.039, 0.050), (0.079, 0.096), (0.198, 0.215))
#: Largest ratio of the 90th to the 10th percentile; work varies more.
_SPREAD = 1.3
#: Largest share of the median that CPU time per request has in an idle service.
_IDLE = 0.1
#: Smallest number of responses.
_LEAST = 20


@dataclass(frozen=True)
class Delayed:
    """Operations of a phase with the pattern in their responses."""

    phase: str
    operations: tuple[str, ...]
    median: float  #: service time of the first operation, s
    cpu: float | None  #: CPU time of all processes per request, s; None if unknown

    def as_dict(self) -> dict[str, Any]:
        """Return the finding for JSON, times in s."""
        return {**vars(self), "operations": list(self.operations)}


def delayed_of(run: Run, phase: PhaseSummary) -> Delayed | None:
    """Return the operations of a phase with service times of delayed acknowledgements, or None if there are none.

    Operations with fewer than 20 responses are left out. If the nodes' CPU time is unknown, the service times decide.
    """
    processes, tags = processes_of(run, (phase,)), set(run.histograms.tags())
    cpu = None if processes.partial else _cpu_per_request(processes.used.get(phase.name, {}))
    alike = {}
    for name in phase.operations:
        if (tag := f"{phase.name}/{name}/service") in tags:
            total = run.histograms.total(tag)
            quantiles = [total.quantile(quantile) or 0.0 for quantile in (0.1, 0.5, 0.9)]
            if total.count >= _LEAST and looks_delayed(quantiles, cpu):
                alike[name] = quantiles[1]
    return Delayed(phase.name, tuple(alike), next(iter(alike.values())), cpu) if alike else None


def looks_delayed(quantiles: Sequence[float], cpu: float | None) -> bool:
    """Return whether the 10th, 50th and 90th percentiles of service times (s) indicate delays instead of work.

    They do if three conditions hold: the median is 39 to 50, 79 to 96 or 198 to 215 ms, the 90th is at most 1.3 times
    the 10th, and `cpu` is at most a tenth of the median. `cpu` is the CPU time of a request, s; None (unknown) counts
    as low.
    """
    low, median, high = quantiles
    idle = cpu is None or cpu <= _IDLE * median
    return idle and high <= _SPREAD * low and any(least <= median <= most for least, most in _BANDS)


def _cpu_per_request(processes: Mapping[str, CpuUse]) -> float | None:
    """Return the CPU time per request of all processes together, s; None if unknown.

    `processes` maps names of processes to their CPU use; the sum has the name `ALL`. Without it, the first process
    counts.
    """
    whole = processes.get(ALL) or next(iter(processes.values()), None)
    return whole.per_request if whole else None
