"""What comes of sources of events while a phase runs: told by the generator, and written down once a second."""

import threading
from collections.abc import Iterator, Mapping

from loadframe.observe.sampler import Rates, Sample

#: What only grows during a phase.
_TOTALS = ("lines", "accepted", "indexed", "dead_letters")


class SourcesSampler:
    """Rates of what is told of each source, by its name. `tell` may be called by any thread."""

    name = "sources"
    waits = False

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._told: Mapping[str, Mapping[str, float]] = {}
        self._rates = Rates()

    def tell(self, told: Mapping[str, Mapping[str, float]]) -> None:
        """Take down what is known by now, each source's metrics by name; nothing when none is read any more."""
        with self._lock:
            for ended in self._told.keys() - told.keys():
                self._rates.forget(f"source:{ended}")
            self._told = told

    def sample(self, now: float) -> Iterator[Sample]:
        """Yield the rates since the sample before, and what waits."""
        with self._lock:
            for name, told in self._told.items():
                source = f"source:{name}"
                yield from self._rates.of(source, now, {metric: told[metric] for metric in _TOTALS})
                yield Sample(source, "waiting", told["waiting"])
