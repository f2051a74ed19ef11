"""Samplers that ask the store: its statistics and its health."""

from collections.abc import Callable, Iterator, Mapping

from loadframe.base.errors import LoadframeError
from loadframe.observe.sampler import Gap, Sample
from loadframe.store import Health
from loadframe.store.base import WHOLE


class StoreSampler:
    """Asks `statistics` (node -> metric -> value, as a store gives it) in a thread of its own.

    The figures are written down as the store gives them, totals as totals: the store's page says what they are. An
    answer that does not come, or that is not what the store's module expects, is a gap and no failure of the run.
    """

    name = "store"
    waits = True

    def __init__(self, statistics: Callable[[], Mapping[str, Mapping[str, float]]]):
        self._statistics = statistics

    def sample(self, now: float) -> Iterator[Sample | Gap]:
        """Yield each node's figures and those of the whole cluster, or one gap."""
        try:
            nodes = self._statistics()
        except LoadframeError as error:
            yield Gap("store", error.what)
            return
        except (OSError, ValueError, LookupError, TypeError) as error:
            yield Gap("store", f"the answer makes no sense: {type(error).__name__}: {error}")
            return
        for node, figures in nodes.items():
            for metric, value in figures.items():
                yield Sample("cluster" if node == WHOLE else f"node:{node}", metric, value)


class HealthSampler:
    """Asks `health` in a thread of its own. An answer that does not come is a gap, as of a store's statistics."""

    name = "health"
    waits = True

    def __init__(self, health: Callable[[], Health]):
        self._health = health

    def sample(self, now: float) -> Iterator[Sample | Gap]:
        """Yield the cluster's members, and its pieces of data that move and that are missing; or one gap."""
        try:
            health = self._health()
        except LoadframeError as error:
            yield Gap("cluster", error.what)
            return
        except (OSError, ValueError, LookupError, TypeError) as error:
            yield Gap("cluster", f"the answer makes no sense: {type(error).__name__}: {error}")
            return
        yield Sample("cluster", "nodes", health.nodes)
        yield Sample("cluster", "data.moving", health.moving)
        yield Sample("cluster", "data.missing", health.missing)
