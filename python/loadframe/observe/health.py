"""Asks how a cluster is while it is changed: how much data moves, and how much is missing."""

from collections.abc import Callable, Iterator

from loadframe.errors import LoadframeError
from loadframe.observe.sampler import Gap, Sample
from loadframe.store import Health


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
