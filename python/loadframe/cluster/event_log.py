"""Log of events of a named cluster, so that a run sees the changes that other commands make."""

import contextlib
import dataclasses
import json
import os
from collections.abc import Iterator
from pathlib import Path

from loadframe.base.folders import ours_alone
from loadframe.cluster.events import ClusterEvent

_FILE = "events.jsonl"


def write(folder: Path, event: ClusterEvent) -> None:
    """Append an event. Write errors are ignored, because the change has already happened."""
    line = json.dumps({**dataclasses.asdict(event), "by": os.getpid()}) + "\n"
    with contextlib.suppress(OSError), open(folder / _FILE, "a", opener=ours_alone) as file:
        file.write(line)


def length(folder: Path) -> int:
    """Return the current size of the log in bytes."""
    try:
        return (folder / _FILE).stat().st_size
    except FileNotFoundError:
        return 0


def by_others(folder: Path, since: int) -> Iterator[ClusterEvent]:
    """Yield the events of other processes after byte `since`."""
    try:
        with (folder / _FILE).open() as file:
            file.seek(since)
            lines = file.read().splitlines()
    except FileNotFoundError:
        return
    for line in lines:
        event = json.loads(line)
        if event.pop("by") != os.getpid():
            yield ClusterEvent(**{**event, "nodes": tuple(event["nodes"])})
