"""Live metrics of a run for triggers and policies: figures per second, and CPU shares of the nodes."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass

from loadframe.analyze.rates import RateName
from loadframe.load import Progress


@dataclass(frozen=True)
class SecondMetrics:
    """Metrics of one second of the load."""

    successes: float  #: requests/s
    throughput: float  #: 1/s, in the unit of the objective
    errors: float  #: failed requests/s
    response_p99: float | None  #: s; None without answers


class LiveMetrics:
    """Thread-safe live metrics: the load thread adds figures, the watching thread adds CPU shares and reads."""

    def __init__(self, rate: RateName = "throughput") -> None:
        self._rate = rate
        self._lock = threading.Lock()
        self._seconds: list[SecondMetrics] = []
        self._errors = 0
        self._indexed = 0
        self._last = 0
        #: CPU shares by node, relative to the limit, for each of the last 600 s.
        self._cpu: list[Mapping[str, float]] = []

    def progress(self, progress: Progress) -> None:
        """Add the figures of the last second; calls without a new second are ignored."""
        with self._lock:
            if progress.seconds <= self._last:
                return
            self._last = progress.seconds
            failed, self._errors = progress.errors - self._errors, progress.errors
            self._seconds.append(
                SecondMetrics(progress.throughput, self._counted(progress), failed, progress.response_p99)
            )

    def _counted(self, progress: Progress) -> float:
        """Return throughput in the unit of the analysis: acknowledged events of sources, else requests or documents."""
        if progress.sources:
            before, self._indexed = self._indexed, sum(source.indexed for source in progress.sources.values())
            return self._indexed - before
        return progress.documents_throughput if self._rate == "documents" else progress.throughput

    def look(self, cpu: Mapping[str, float]) -> None:
        """Add the CPU shares of the nodes; called once a second."""
        with self._lock:
            self._cpu = [*self._cpu[-599:], dict(cpu)]

    def seconds(self) -> list[SecondMetrics]:
        """Return the metrics of all seconds so far."""
        with self._lock:
            return list(self._seconds)

    def busiest(self, seconds: int) -> float:
        """Return the largest mean CPU share of a node over the last seconds; 0 if fewer are recorded."""
        with self._lock:
            looks = self._cpu[-seconds:]
        if len(looks) < seconds:
            return 0.0
        throughout = [node for node in looks[-1] if all(node in look for look in looks)]
        return max((sum(look[node] for look in looks) / seconds for node in throughout), default=0.0)

    def cpu(self, seconds: int) -> float | None:
        """Return the mean CPU share over nodes and the last seconds; None without samples."""
        with self._lock:
            shares = [share for look in self._cpu[-seconds:] for share in look.values()]
        return sum(shares) / len(shares) if shares else None
