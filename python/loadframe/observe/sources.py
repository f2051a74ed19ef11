"""Sampler of sources of events: figures from the load generator while a phase runs."""

import threading
from collections.abc import Iterator, Mapping
from typing import Any

from loadframe.observe.sampler import Rates, Sample

#: Counters of a phase; `visible` exists only with visibility probes.
_TOTALS = ("lines", "accepted", "indexed", "visible", "dead_letters")
_LEVELS = ("waiting", "spilled")


class SourcesSampler:
    """Sampler of sources' counters and levels. Any thread may call `tell`."""

    name = "sources"
    waits = False

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._current: Mapping[str, Mapping[str, Any]] = {}
        self._rates = Rates()
        self._threads = Rates()

    def tell(self, sources: Mapping[str, Mapping[str, Any]]) -> None:
        """Set the current metrics of each source by name; empty after the end of a phase."""
        with self._lock:
            for ended in self._current.keys() - sources.keys():
                self._rates.forget(f"source:{ended}")
                self._threads.forget(f"source:{ended}")
            self._current = sources

    def sample(self, now: float) -> Iterator[Sample]:
        """Yield the rates since the previous sample, levels, and the CPU use of the busiest reading thread."""
        with self._lock:
            for name, metrics in self._current.items():
                source = f"source:{name}"
                totals = {metric: metrics[metric] for metric in _TOTALS if metrics.get(metric) is not None}
                yield from self._rates.of(source, now, totals)
                yield from (Sample(source, level, metrics[level]) for level in _LEVELS)
                threads = {str(number): spent for number, spent in enumerate(metrics["reader_cpu"])}
                busy = [sample.value for sample in self._threads.of(source, now, threads)]
                if busy:
                    yield Sample(source, "reader_cpu", max(busy))
