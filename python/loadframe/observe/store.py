"""Samplers of a store's statistics and health."""

from collections.abc import Callable, Iterator, Mapping

from loadframe.base.errors import LoadframeError
from loadframe.observe.sampler import Gap, Sample
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
