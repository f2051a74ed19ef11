"""Events of an advertiser's log in any order, and the documents that they must become."""

import json
import random
from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

MIDNIGHT = datetime(2017, 3, 2, tzinfo=UTC)

Event = dict[str, Any]


def instant(moment: datetime) -> str:
    """The moment as an event has it."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def log(documents: int, seed: int, hours: float = 6.0) -> list[Event]:
    """Return the events of `documents` documents around midnight, sorted by time.

    Some documents lack their bid, some events occur twice, and wins and clicks come up to three hours later.
    """
    drawn = random.Random(seed)
    events: list[tuple[datetime, Event]] = []
    for number in range(documents):
        bid_time = MIDNIGHT + timedelta(seconds=(number / documents - 0.5) * hours * 3600 + drawn.uniform(0, 1))
        bid = {"bid_id": f"b{number}", "bid_time": instant(bid_time)}
        kinds = [kind for kind, share in (("bid", 0.95), ("win", 0.3), ("click", 0.2)) if drawn.random() < share]
        for kind in kinds or ["bid"]:
            after = timedelta(0) if kind == "bid" else timedelta(hours=drawn.choice([0.001, 0.1, 3]) * drawn.random())
            event: Event = {"type": kind, **bid, "time": instant(bid_time + after), "win_price": drawn.random()}
            if kind == "bid":
                event = {"type": kind, "id": f"b{number}", "time": instant(bid_time), "campaign_id": number % 7}
            events += [(bid_time + after, event)] * drawn.choice([1, 1, 1, 2])
    return [event for _, event in sorted(events, key=lambda pair: pair[0])]


def jumbled(events: Iterable[Event], seed: int, *, late: float = 0.1) -> list[Event]:
    """The events nearly in their order: a share of them anywhere behind their place."""
    drawn, events = random.Random(seed), list(events)
    places = [n + (drawn.random() * (len(events) - n) if drawn.random() < late else 0) for n in range(len(events))]
    return [event for _, event in sorted(zip(places, events, strict=True), key=lambda pair: pair[0])]


def documents(events: Iterable[Event]) -> dict[str, dict[str, Event]]:
    """The document of each bid, by its id: a field for each kind of event."""
    merged: dict[str, dict[str, Event]] = defaultdict(dict)
    for event in events:
        merged[event.get("bid_id") or event["id"]][event["type"]] = event
    return dict(merged)


def in_text(document: dict[str, Event]) -> dict[str, Event]:
    """Return a document of MongoDB, which stores instants as dates, with its instants as events have them."""
    return {
        kind: {
            field: instant(value.replace(tzinfo=UTC)) if isinstance(value, datetime) else value
            for field, value in event.items()
        }
        for kind, event in document.items()
    }


def write(path: Path, events: Iterable[Event]) -> Path:
    """Write the events as lines."""
    path.write_text("".join(f"{json.dumps(event)}\n" for event in events))
    return path
