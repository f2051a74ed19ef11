"""What was done to a named cluster, by whichever command, so that a run that goes on meanwhile hears of it."""

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
    """Add an event, if it can be: a full disk does not undo what has happened."""
    line = json.dumps({**dataclasses.asdict(event), "by": os.getpid()}) + "\n"
    with contextlib.suppress(OSError), open(folder / _FILE, "a", opener=ours_alone) as file:
        file.write(line)


def length(folder: Path) -> int:
    """Return how many bytes were written so far."""
    try:
        return (folder / _FILE).stat().st_size
    except FileNotFoundError:
        return 0


def by_others(folder: Path, since: int) -> Iterator[ClusterEvent]:
    """Yield the events that other processes have written after that many bytes."""
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
