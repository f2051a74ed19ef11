"""A node that is killed after the load and started again, so that what it has lost can be counted."""

from collections.abc import Callable

from loadframe.cluster import Cluster
from loadframe.errors import LoadframeError
from loadframe.experiment.session import Beside


class Crash(Beside):
    """Kills a node (SIGKILL) when the last phase is over, and starts it again with its data.

    The kill ends the process alone: what it had given to the operating system is there when it comes back. So the loss
    is at most that of a machine that loses its power.
    """

    def __init__(self, cluster: Cluster, name: str, report: Callable[[str], None]) -> None:
        self._cluster, self._name, self._report = cluster, name, report

    def after(self) -> None:
        """Kill the node and start it again; LoadframeError where that fails."""
        self._report(f"killing {self._name} and starting it again")
        self._cluster.kill(self._name)
        if not self._cluster.mend(self._report):
            raise LoadframeError(f"{self._name} was killed, and there was nothing to start again")
