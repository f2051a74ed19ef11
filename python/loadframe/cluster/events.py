"""Events of a cluster, and the log of a named cluster, by which a run sees the changes of other commands."""

import contextlib
import dataclasses
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from loadframe.base.folders import ends_mid_line, ours_alone


@dataclass(frozen=True)
class ClusterEvent:
    """Event, with its time on both clocks."""

    kind: str
    nodes: tuple[str, ...]
    detail: Mapping[str, float | str | None] = field(default_factory=dict)  #: more values, in base units
    wall: float = field(default_factory=time.time)  #: s since the epoch
    monotonic: float = field(default_factory=time.monotonic)  #: s, for durations and a run's time axis


Listener = Callable[[ClusterEvent], None]

_FILE = "events.jsonl"


def write(folder: Path, event: ClusterEvent) -> None:
    """Append an event to the log in the cluster's folder. Write errors are ignored: the change has already happened."""
    line = json.dumps({**dataclasses.asdict(event), "by": os.getpid()}) + "\n"
    with contextlib.suppress(OSError), open(folder / _FILE, "a+", opener=ours_alone) as file:
        # A full disk or a killed command can leave a partial line.
        file.write(f"\n{line}" if ends_mid_line(file.fileno()) else line)


def length(folder: Path) -> int:
    """Return the current size of the log in bytes; 0 if it does not exist."""
    try:
        return (folder / _FILE).stat().st_size
    except FileNotFoundError:
        return 0


def by_others(folder: Path, since: int) -> Iterator[ClusterEvent]:
    """Yield the events of other processes after byte `since` of the log; incomplete lines are skipped."""
    try:
        with (folder / _FILE).open() as file:
            file.seek(since)
            lines = file.read().splitlines()
    except FileNotFoundError:
        return
    for line in lines:
        # A full disk or a killed command can leave a partial line.
        with contextlib.suppress(ValueError, TypeError, KeyError):
            event = json.loads(line)
            if event.pop("by") != os.getpid():
                yield ClusterEvent(**{**event, "nodes": tuple(event["nodes"])})
