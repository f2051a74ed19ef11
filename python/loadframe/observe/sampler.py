"""What a sampler is: something that can be looked at once a second, and says when it could not be seen."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Sample:
    """One figure of one source; the schema of run folders says what metrics mean and in which unit they are."""

    source: str
    metric: str
    value: float


@dataclass(frozen=True)
class Gap:
    """A source that could not be seen this time, and why."""

    source: str
    cause: str


class Sampler(Protocol):
    """Looks at something. One thread calls it."""

    @property
    def name(self) -> str:
        """What gaps and threads are called after."""

    @property
    def waits(self) -> bool:
        """Whether a sample may have to wait for an answer, so that it needs a thread of its own."""

    def sample(self, now: float) -> Iterable[Sample | Gap]:
        """Look; `now` is s on the clock that rates are taken by."""


class Rates:
    """Turns counters that only grow into rates between two looks."""

    def __init__(self) -> None:
        self._last: dict[str, dict[str, tuple[float, float]]] = {}

    def of(self, source: str, now: float, totals: Mapping[str, float]) -> Iterator[Sample]:
        """Yield the growth per second of each metric's total; none at its first look, and after it started anew."""
        last = self._last.setdefault(source, {})
        for metric, total in totals.items():
            before = last.get(metric)
            last[metric] = (now, total)
            if before is not None and now > before[0] and total >= before[1]:
                yield Sample(source, metric, (total - before[1]) / (now - before[0]))

    def forget(self, source: str) -> None:
        """Forget the counters of `source`: what goes by its name from now on is another."""
        self._last.pop(source, None)
