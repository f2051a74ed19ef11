"""Samplers: their protocol, samples and gaps, and rates of counters."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Sample:
    """One figure of one source. The schema of run folders defines metrics and units."""

    source: str
    metric: str
    value: float


@dataclass(frozen=True)
class Gap:
    """A source whose sample failed, and the cause."""

    source: str
    cause: str


class Sampler(Protocol):
    """A source of samples, called by one thread."""

    @property
    def name(self) -> str:
        """Name for gaps and threads."""

    @property
    def waits(self) -> bool:
        """Whether samples wait for answers, so that the sampler needs its own thread."""

    def sample(self, now: float) -> Iterable[Sample | Gap]:
        """Take samples; `now` is the time for rates, s."""


class Rates:
    """Rates of counters between two samples."""

    def __init__(self) -> None:
        self._last: dict[str, dict[str, tuple[float, float]]] = {}

    def of(self, source: str, now: float, totals: Mapping[str, float]) -> Iterator[Sample]:
        """Yield the growth per second of each counter; nothing for its first sample and after a reset."""
        last = self._last.setdefault(source, {})
        for metric, total in totals.items():
            before = last.get(metric)
            last[metric] = (now, total)
            if before is not None and now > before[0] and total >= before[1]:
                yield Sample(source, metric, (total - before[1]) / (now - before[0]))

    def forget(self, source: str) -> None:
        """Forget the counters of `source`, whose name is reused for another object."""
        self._last.pop(source, None)
