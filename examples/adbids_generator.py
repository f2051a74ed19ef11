"""Example of an external generator: writes bids, wins and clicks as lines of JSON, at a rate.

It only needs Python, and does not depend on Loadframe:

    python examples/adbids_generator.py --rate 200 --seconds 300 | nc -N 127.0.0.1 5000

A tenth of the bids are won, 3 s later on average. One in a hundred wins is clicked, 36 s after its bid on average.
Event times begin at --start and advance with the clock, so that a start shortly before midnight tests the change of
day. After the last bid, the remaining events are written immediately.
"""

import argparse
import heapq
import json
import random
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

COUNTRIES = (("US", 57.0), ("GB", 24.5), ("FR", 10.5), ("DE", 4.0), ("ES", 2.0), ("IT", 2.0))
REGIONS = ("CA", "NY", "TX", "FL", "IL")
SYSTEMS = {"desktop": ("windows", "macos", "linux"), "mobile": ("android", "ios"), "tablet": ("android", "ios")}
GENDERS = ((None, 100), ("male", 50), ("female", 55), ("other", 1))
AGES = (
    (None, 100),
    ("12-17", 10),
    ("18-24", 20),
    ("25-34", 30),
    ("35-44", 20),
    ("45-54", 15),
    ("55-64", 10),
    ("65+", 5),
)


def often_the_first(choice: random.Random, most: int, steep: float) -> int:
    """Return a number below `most` from a truncated exponential distribution: small numbers are more frequent."""
    while (drawn := int(choice.expovariate(steep / most))) >= most:
        pass
    return drawn


def weighted(choice: random.Random, weights: tuple[tuple[str | None, float], ...]) -> str | None:
    """Return a value chosen by weight."""
    return choice.choices([value for value, _ in weights], [weight for _, weight in weights])[0]


def stamp(instant: datetime) -> str:
    """Format a time for the log."""
    return instant.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def bid(choice: random.Random, number: int, run: str, instant: datetime) -> dict[str, object]:
    """Return a bid."""
    campaign, device = often_the_first(choice, 1000, 10.0), choice.choice(sorted(SYSTEMS))
    ad = 100 * campaign + often_the_first(choice, 100, 10.0)
    country = weighted(choice, COUNTRIES)
    region = REGIONS[often_the_first(choice, len(REGIONS), 5.0)] if country == "US" else None
    return {
        "type": "bid",
        "id": f"{run}-{number}",
        "time": stamp(instant),
        "targeting": {
            "geo": {"country": country, "region": region, "zip": f"{often_the_first(choice, 10_000, 100.0):05}"},
            "device": {"type": device, "os": choice.choice(SYSTEMS[device])},
            "demographic": {"gender": weighted(choice, GENDERS), "age_range": weighted(choice, AGES)},
        },
        "publisher": f"https://site{often_the_first(choice, 1000, 10.0)}.example/",
        "campaign_id": campaign,
        "ad_url": f"https://ad.zemanta.com/{ad}",
        "bid_price": round(min(choice.expovariate(0.5), 20.0), 4),
    }


def log(
    choice: random.Random, rate: float, bids: int, start: datetime, run: str
) -> Iterator[tuple[float, dict[str, object]]]:
    """Yield events in time order, each with its due time in s after the start."""
    due: list[tuple[float, int, dict[str, object]]] = []
    order = 0
    for number in range(bids):
        at = number / rate
        while due and due[0][0] <= at:
            yield due[0][0], heapq.heappop(due)[2]
        made = bid(choice, number, run, start + timedelta(seconds=at))
        yield at, made
        if choice.random() < 0.1:
            both = {"bid_id": made["id"], "bid_time": made["time"]}
            later = at + min(choice.expovariate(1 / 3.0), 300.0)
            price = round(float(str(made["bid_price"])) * choice.uniform(0.5, 1.0), 4)
            win = {"type": "win", **both, "time": stamp(start + timedelta(seconds=later)), "win_price": price}
            order += 1
            heapq.heappush(due, (later, order, win))
            if choice.random() < 0.01:
                later = at + min(choice.expovariate(1 / 36.0), 3600.0)
                order += 1
                heapq.heappush(
                    due, (later, order, {"type": "click", **both, "time": stamp(start + timedelta(seconds=later))})
                )
    end = bids / rate
    while due:
        at, _, event = heapq.heappop(due)
        yield min(at, end), event


def main() -> None:
    """Write events to standard output when they are due."""
    parser = argparse.ArgumentParser(description="Writes bids, wins and clicks as lines of JSON, at a rate.")
    parser.add_argument("--rate", type=float, default=100.0, help="bids per second (100)")
    parser.add_argument("--seconds", type=float, default=60.0, help="for how long there are new bids (60)")
    parser.add_argument("--start", help="the time of the first bid, such as 2026-03-01T23:58:00Z; now if not given")
    parser.add_argument("--before-midnight", type=float, help="start so many seconds before today's beginning (UTC)")
    parser.add_argument("--seed", type=int, default=1, help="the same seed writes the same log (1)")
    asked = parser.parse_args()
    now = datetime.now(UTC)
    start = datetime.fromisoformat(asked.start).astimezone(UTC) if asked.start else now
    if asked.before_midnight is not None:
        start = now.replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(seconds=asked.before_midnight)
    bids, began, lines = max(round(asked.rate * asked.seconds), 1), time.monotonic(), 0
    written = began
    for at, event in log(random.Random(asked.seed), asked.rate, bids, start, f"{asked.seed}-{start:%H%M%S}"):
        wait = began + at - time.monotonic()
        if wait > 0:
            sys.stdout.flush()
            time.sleep(wait)
        sys.stdout.write(json.dumps(event, separators=(",", ":")) + "\n")
        lines += 1
        if time.monotonic() - written > 0.2:
            sys.stdout.flush()
            written = time.monotonic()
    sys.stdout.flush()
    print(f"{lines} lines of {bids} bids", file=sys.stderr)


if __name__ == "__main__":
    try:
        main()
    except (BrokenPipeError, KeyboardInterrupt):
        sys.exit(1)
