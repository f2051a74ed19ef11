"""Notifications of a run's writer: events, samples, and the end of the run.

A subscriber never blocks the run: its queue is bounded, and drops the oldest notifications if the reader is slow.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Happened:
    """Notification of a line of events.jsonl."""

    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Sampled:
    """Notification of a row of telemetry.parquet; `time` is s since the run began."""

    time: float
    source: str
    metric: str
    value: float


@dataclass(frozen=True, slots=True)
class Finished:
    """Notification that the run's folder is complete, with its summary."""

    path: Path
    summary: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Closed:
    """Notification that recording ended. Without a `Finished` before it, the run was discarded."""


class Subscriber:
    """A bounded queue of notifications from one or several writers. Any thread may put; one thread takes."""

    #: Some minutes of samples of a cluster of a hundred nodes: about 5 MB.
    MOST = 50_000

    def __init__(self, most: int = MOST) -> None:
        # Appending to a full deque drops its oldest element atomically.
        self._queue: deque[Any] = deque(maxlen=most)

    def put(self, notification: Any) -> None:
        """Add a notification, without waiting; drop the oldest if the queue is full."""
        self._queue.append(notification)

    def take(self) -> list[Any]:
        """Remove and return all queued notifications, oldest first."""
        notifications = []
        while self._queue:
            notifications.append(self._queue.popleft())
        return notifications
