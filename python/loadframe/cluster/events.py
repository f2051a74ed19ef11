"""Events of a cluster. A run records them; a command prints them."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

REQUESTED = "node requested"  #: a node will be added; it is not running yet
JOINED = "node joined"  #: it is a member and responds
BALANCED = "cluster balanced"  #: all data is on its final node
LEAVING = "node leaving"  #: a node will be removed; it still has all its data
LEFT = "node left"  #: the other nodes have its data, and it is stopped
KILLED = "node killed"
PAUSED = "node paused"
RESUMED = "node resumed"
CUT = "link cut"  #: the nodes' packets are dropped in both directions
RESTORED = "link restored"  #: packets pass again
SHAPED = "link shaped"  #: delay, loss or rate of the link changed
CONFIGURED = "settings changed"
RESTARTED = "node restarted"  #: a node that had ended runs again with its data


@dataclass(frozen=True)
class ClusterEvent:
    """Event, with its time on both clocks."""

    kind: str
    nodes: tuple[str, ...]
    detail: Mapping[str, float | str | None] = field(default_factory=dict)  #: more values, in base units
    wall: float = field(default_factory=time.time)  #: s since the epoch
    monotonic: float = field(default_factory=time.monotonic)  #: s, for durations and a run's time axis


Listener = Callable[[ClusterEvent], None]
