"""Waits with a change of the cluster: tells how far it has come, and ends it when it takes too long or a node dies."""

import time
from collections.abc import Callable, Sequence

from loadframe.base.errors import StoreFailed
from loadframe.base.units import format_duration
from loadframe.cluster.node import Node
from loadframe.store import Balancing

#: Seconds that one step of a change may take, unless the user says otherwise.
WITHIN = 3600.0

Tell = Callable[[str, Balancing], None]


class Patience:
    """A `watch` as stores take it. `what` says what is being done; `nodes` must not die meanwhile; times in s."""

    def __init__(self, what: str, nodes: Sequence[Node], within: float, tell: Tell | None = None) -> None:
        self._what = what
        self._nodes = list(nodes)
        self._within = within
        self._tell = tell
        self._began = time.monotonic()
        self._last: Balancing | None = None

    def __call__(self, balancing: Balancing) -> None:
        """Take note of the state; LoadframeError when time is over, or when a node is gone."""
        self._last = balancing
        for node in self._nodes:
            if not node.alive:
                raise gone(node, f"while {self._what}")
        if time.monotonic() - self._began > self._within:
            raise StoreFailed(
                f"{self._what} took longer than {format_duration(self._within)}; {describe(balancing)}",
                remedy="look at the cluster with `loadframe cluster status`, or give it longer with --within",
            )
        if self._tell:
            self._tell(self._what, balancing)

    @property
    def last(self) -> str:
        """The state that it was told last, in words."""
        return describe(self._last) if self._last else "nothing is known of its state"

    @property
    def warning(self) -> str:
        """What the store warned of last."""
        return self._last.warning if self._last else ""


def describe(balancing: Balancing) -> str:
    """Return the state in words."""
    left = f"{balancing.left:,.0f} {balancing.unit} left"
    return f"{left} ({balancing.state})" if balancing.state else left


def gone(node: Node, doing: str) -> StoreFailed:
    """Return the error for a node whose process has ended, with the store's last words."""
    status = node.process.exit_status() if node.process else None
    return not_up(node, f"ended{'' if status is None else f' with status {status}'} {doing}")


def not_up(node: Node, how: str) -> StoreFailed:
    """Return the error for a node that does not come up, or that went down, with the store's last words."""
    indented = "\n".join(f"    {line}" for line in node.log_end().splitlines())
    return StoreFailed(
        f"{node.name} {how}; the end of its log:\n{indented}",
        remedy="correct the setting that it names, or give the node more memory; `loadframe doctor` tells what the "
        "machine lacks",
    )
