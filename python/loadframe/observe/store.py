"""Samplers of a store's statistics and health, and of sources of events."""

import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from loadframe.base.errors import LoadframeError
from loadframe.observe.observer import Gap, Rates, Sample
from loadframe.store import Health
from loadframe.store.base import WHOLE


class StoreSampler:
    """Sampler of a store's statistics: `statistics` returns node -> metric -> value.

    Values are recorded unchanged, counters as counters; the store's page documents them. A missing or unexpected answer
    is a gap, and does not fail the run.
    """

    name = "store"
    waits = True

    def __init__(self, statistics: Callable[[], Mapping[str, Mapping[str, float]]]):
        self._statistics = statistics

    def sample(self, now: float) -> Iterator[Sample | Gap]:
        """Yield the figures of each node and of the cluster, or one gap."""
        try:
            nodes = self._statistics()
        except LoadframeError as error:
            yield Gap("store", error.what)
            return
        except (OSError, ValueError, LookupError, TypeError) as error:
            yield Gap("store", f"unexpected answer: {type(error).__name__}: {error}")
            return
        for node, figures in nodes.items():
            for metric, value in figures.items():
                yield Sample("cluster" if node == WHOLE else f"node:{node}", metric, value)


class HealthSampler:
    """Sampler of a store's health. A missing or unexpected answer is a gap."""

    name = "health"
    waits = True

    def __init__(self, health: Callable[[], Health]):
        self._health = health

    def sample(self, now: float) -> Iterator[Sample | Gap]:
        """Yield the numbers of members, moving pieces of data and missing replicas; or one gap."""
        try:
            health = self._health()
        except LoadframeError as error:
            yield Gap("cluster", error.what)
            return
        except (OSError, ValueError, LookupError, TypeError) as error:
            yield Gap("cluster", f"unexpected answer: {type(error).__name__}: {error}")
            return
        yield Sample("cluster", "nodes", health.nodes)
        yield Sample("cluster", "data.moving", health.moving)
        yield Sample("cluster", "data.missing", health.missing)


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
