"""What is seen of a run while it goes on, for triggers and policies: each second's figures, and the nodes' CPUs."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass

from loadframe.analyze.rates import RateName
from loadframe.load import Progress


@dataclass(frozen=True)
class SecondMetrics:
    """One second of the load: requests that succeeded and that failed, and what throughput counts, 1/s; 99th percentile
    of response times, s, if there are any.
    """

    successes: float
    throughput: float
    errors: float
    response_p99: float | None


class LiveMetrics:
    """Fed by the thread that runs the load and by the one that looks at the nodes, asked by the latter."""

    def __init__(self, rate: RateName = "throughput") -> None:
        self._rate = rate
        self._lock = threading.Lock()
        self._seconds: list[SecondMetrics] = []
        self._errors = 0
        self._indexed = 0
        self._last = 0
        #: By node, as shares of what each may use; of the last seconds.
        self._cpu: list[Mapping[str, float]] = []

    def progress(self, progress: Progress) -> None:
        """Take in how far the load has come; called more often than once a second."""
        with self._lock:
            if progress.seconds <= self._last:
                return
            self._last = progress.seconds
            failed, self._errors = progress.errors - self._errors, progress.errors
            self._seconds.append(
                SecondMetrics(progress.throughput, self._counted(progress), failed, progress.response_p99)
            )

    def _counted(self, progress: Progress) -> float:
        """Return what throughput counts, as the analysis of the run will: of a phase that takes in events, these."""
        if progress.sources:
            before, self._indexed = self._indexed, sum(source.indexed for source in progress.sources.values())
            return self._indexed - before
        return progress.documents_throughput if self._rate == "documents" else progress.throughput

    def look(self, cpu: Mapping[str, float]) -> None:
        """Take in the CPU shares of the nodes, once a second."""
        with self._lock:
            self._cpu = [*self._cpu[-599:], dict(cpu)]

    def seconds(self) -> list[SecondMetrics]:
        """Return the seconds so far."""
        with self._lock:
            return list(self._seconds)

    def busiest(self, seconds: int) -> float:
        """Return the greatest mean CPU share of a node over the last seconds; 0 if they are not over yet."""
        with self._lock:
            looks = self._cpu[-seconds:]
        if len(looks) < seconds:
            return 0.0
        throughout = [node for node in looks[-1] if all(node in look for look in looks)]
        return max((sum(look[node] for look in looks) / seconds for node in throughout), default=0.0)

    def cpu(self, seconds: int) -> float | None:
        """Return the mean CPU share over nodes and the last seconds; None before there is any."""
        with self._lock:
            shares = [share for look in self._cpu[-seconds:] for share in look.values()]
        return sum(shares) / len(shares) if shares else None
