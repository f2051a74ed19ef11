"""What a run's writer tells others while it records: what happened, what was sampled, and how the run ended.

A subscriber never holds the run up: telling it is one step that does not wait, and if it does not keep pace it loses
what is oldest.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Happened:
    """A line of events.jsonl."""

    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Sampled:
    """A row of telemetry.parquet; `time` is s since the run began."""

    time: float
    source: str
    metric: str
    value: float


@dataclass(frozen=True, slots=True)
class Finished:
    """The run's folder is there, with this summary."""

    path: Path
    summary: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Closed:
    """Nothing more is recorded. Without `Finished` before it, the run was thrown away."""


class Subscriber:
    """A queue for what one or several writers tell. Any thread may put; one other takes, when it has time."""

    #: Minutes of what a cluster of a hundred nodes is sampled for, if nobody takes them: some 5 MB.
    MOST = 50_000

    def __init__(self, most: int = MOST) -> None:
        # An append to a full one drops what is at the other end, in one step.
        self._told: deque[Any] = deque(maxlen=most)

    def put(self, told: Any) -> None:
        """Add to the queue, and drop what is oldest if the queue is full. Does not wait."""
        self._told.append(told)

    def take(self) -> list[Any]:
        """Return what was told since the last call, oldest first."""
        taken = []
        while self._told:
            taken.append(self._told.popleft())
        return taken
