"""Simulated commands and their records in a feed."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from loadframe.live.feed import Feed, Relay, commands
from loadframe.live.server import LiveSite, Server

#: Seconds; machines are busy.
PATIENCE = 60


def command(name: str = "taxis", started: str = "2026-01-01T00:00:00") -> dict[str, Any]:
    """Return the first record of a feed."""
    return {"kind": "command", "command": "bench", "name": name, "path": f"/r/{name}-1", "process": 1,
            "started": started}  # fmt: skip


@contextmanager
def feed(*records: dict[str, Any]) -> Iterator[Feed]:
    """Write these records and keep the feed open."""
    with Feed() as written:
        written.append(records)
        yield written


@contextmanager
def served() -> Iterator[str]:
    """Serve the live page of all running commands; yield its address."""
    relay = Relay(lambda: [path for path, _ in commands()])
    with Server("127.0.0.1", 0, LiveSite(relay)) as server, relay:
        yield server.url


def told(url: str) -> Iterator[dict[str, Any]]:
    """Yield the records that the page receives."""
    with httpx.stream("GET", f"{url}events", timeout=PATIENCE) as answer:
        assert answer.headers["content-type"] == "text/event-stream"
        for line in answer.iter_lines():
            if line.startswith("data: "):
                yield from json.loads(line.removeprefix("data: "))
