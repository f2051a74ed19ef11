"""What comes of sources of events while a phase runs: told by the generator, and written down once a second."""

import threading
from collections.abc import Iterator, Mapping
from typing import Any

from loadframe.observe.sampler import Rates, Sample

#: What only grows during a phase. Without looks for events nothing is known of what is visible.
_TOTALS = ("lines", "accepted", "indexed", "visible", "dead_letters")
_LEVELS = ("waiting", "spilled")


class SourcesSampler:
    """Rates of what is told of each source, by its name. `tell` may be called by any thread."""

    name = "sources"
    waits = False

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._told: Mapping[str, Mapping[str, Any]] = {}
        self._rates = Rates()
        self._threads = Rates()

    def tell(self, told: Mapping[str, Mapping[str, Any]]) -> None:
        """Take down what is known by now, each source's metrics by name; nothing when none is read any more."""
        with self._lock:
            for ended in self._told.keys() - told.keys():
                self._rates.forget(f"source:{ended}")
                self._threads.forget(f"source:{ended}")
            self._told = told

    def sample(self, now: float) -> Iterator[Sample]:
        """Yield the rates since the sample before, what waits, and the CPU use of the busiest thread that reads."""
        with self._lock:
            for name, told in self._told.items():
                source = f"source:{name}"
                totals = {metric: told[metric] for metric in _TOTALS if told.get(metric) is not None}
                yield from self._rates.of(source, now, totals)
                yield from (Sample(source, level, told[level]) for level in _LEVELS)
                threads = {str(number): spent for number, spent in enumerate(told["reader_cpu"])}
                busy = [sample.value for sample in self._threads.of(source, now, threads)]
                if busy:
                    yield Sample(source, "reader_cpu", max(busy))
