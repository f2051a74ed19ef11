"""Waits until a cluster is ready for a phase: every copy of its data in service (in search stores: green), at rest."""

import time

from loadframe import interrupts
from loadframe.cluster import Cluster
from loadframe.cluster.state import unready
from loadframe.errors import LoadframeError, StoreFailed
from loadframe.experiment.listener import Listener
from loadframe.units import format_duration

#: Time between two looks, s.
_LOOK = 0.5


def wait_until_ready(cluster: Cluster, phase: str, within: float, listener: Listener) -> None:
    """Wait up to `within` s; StoreFailed, with the cluster's state, where it is not ready by then.

    What was declared and cannot be, such as a second copy on a single node, is not waited for.
    """
    end = time.monotonic() + within
    told = False
    while state := _unready(cluster):
        if time.monotonic() > end:
            raise StoreFailed(
                f"the cluster was not ready for the phase within {format_duration(within)}: {state}",
                where=f"phase {phase}",
                remedy="repair it, give it longer (ready_within), or allow that state (allow_bad)",
            )
        if not told:
            listener.step(f"waiting up to {format_duration(within)} for the cluster: {state}")
            told = True
        interrupts.check()
        time.sleep(_LOOK)


def _unready(cluster: Cluster) -> str:
    try:
        return "; ".join(unready(cluster.health(), cluster.size))
    except LoadframeError as error:
        return error.what
