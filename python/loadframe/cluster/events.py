"""What is done to a cluster, told to whoever listens: a run writes it down, a command prints it."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

REQUESTED = "node requested"  #: a node is to be added; it does not run yet
JOINED = "node joined"  #: it is a member and answers
BALANCED = "cluster balanced"  #: all data is where it should be
LEAVING = "node leaving"  #: a node is to be removed; it has all its data yet
LEFT = "node left"  #: its data is with the others, and it is stopped
KILLED = "node killed"
PAUSED = "node paused"
RESUMED = "node resumed"
CUT = "link cut"  #: nothing gets to the nodes any more, nor from them
RESTORED = "link restored"  #: it does again
SHAPED = "link shaped"  #: packets are delayed, lost or slowed down from now on, or no longer
CONFIGURED = "settings changed"
RESTARTED = "node restarted"  #: one that was gone is back, with its data


@dataclass(frozen=True)
class ClusterEvent:
    """One of the above, with its instant on both clocks."""

    kind: str
    nodes: tuple[str, ...]
    detail: Mapping[str, float | str | None] = field(
        default_factory=dict
    )  #: what there is to know besides, in base units
    wall: float = field(default_factory=time.time)  #: s since the epoch
    monotonic: float = field(default_factory=time.monotonic)  #: s, for durations and a run's time axis


Listener = Callable[[ClusterEvent], None]
