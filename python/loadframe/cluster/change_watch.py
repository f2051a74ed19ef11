"""Watch on one step of a cluster change: reports progress, and fails on a timeout or when a node ends."""

import time
from collections.abc import Callable, Sequence

from loadframe.base.errors import StoreFailed
from loadframe.base.units import format_duration
from loadframe.cluster.node import Node
from loadframe.store import Balancing

#: Default timeout of one step of a change, in seconds.
WITHIN = 3600.0

Tell = Callable[[str, Balancing], None]


class ChangeWatch:
    """Watch on one step, passed to the store as `watch`.

    `what` names the step in messages, `nodes` must not end meanwhile, and `within` is the timeout in s.
    """

    def __init__(self, what: str, nodes: Sequence[Node], within: float, tell: Tell | None = None) -> None:
        self._what = what
        self._nodes = list(nodes)
        self._within = within
        self._tell = tell
        self._began = time.monotonic()
        self._last: Balancing | None = None

    def __call__(self, balancing: Balancing) -> None:
        """Store and report the state; StoreFailed on a timeout or if one of the nodes has ended."""
        self._last = balancing
        for node in self._nodes:
            if not node.alive:
                raise gone(node, f"while {self._what}")
        if time.monotonic() - self._began > self._within:
            raise StoreFailed(
                f"{self._what} took longer than {format_duration(self._within)}; {describe(balancing)}",
                remedy="check the cluster with `loadframe cluster status`, or increase --within",
            )
        if self._tell:
            self._tell(self._what, balancing)

    @property
    def last(self) -> str:
        """Description of the last state."""
        return describe(self._last) if self._last else "its state is unknown"

    @property
    def warning(self) -> str:
        """Last warning of the store; empty if none."""
        return self._last.warning if self._last else ""


def describe(balancing: Balancing) -> str:
    """Describe a state, such as `3 shards left (relocating)`."""
    left = f"{balancing.left:,.0f} {balancing.unit} left"
    return f"{left} ({balancing.state})" if balancing.state else left


def gone(node: Node, doing: str) -> StoreFailed:
    """Return the error for a node that has ended, with the end of its log."""
    status = node.process.exit_status() if node.process else None
    return not_up(node, f"ended{'' if status is None else f' with status {status}'} {doing}")


def not_up(node: Node, how: str) -> StoreFailed:
    """Return the error for a node that failed, with the end of its log."""
    indented = "\n".join(f"    {line}" for line in node.log_end().splitlines())
    return StoreFailed(
        f"{node.name} {how}; the end of its log:\n{indented}",
        remedy="correct the setting that the log names, or give the node more memory; `loadframe doctor` checks "
        "this machine",
    )
