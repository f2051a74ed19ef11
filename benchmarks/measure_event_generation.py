"""Events of an advertiser's log generated and written as lines to nowhere, per second of one thread's CPU time."""

import time
from pathlib import Path

from benchmarks import events

from loadframe.base.units import format_count, format_duration

BIDS = 1_000_000
ROUNDS = 3
#: Events per second and core; the study of that log took 3,800 in.
AIM = 400_000


def main() -> None:
    """Generate the log in rounds, and print the median."""
    rounds = sorted(_cost() for _ in range(ROUNDS))
    cost, least, most = rounds[ROUNDS // 2], rounds[0], rounds[-1]
    print(
        f"  {format_count(1 / cost)} events per second of CPU time ({format_count(1 / most)} to"
        f" {format_count(1 / least)}), {format_duration(cost)} each"
    )
    print(f"  ratio to the aim of {format_count(AIM)}: {1 / cost / AIM:.2f}")


def _cost() -> float:
    """Return the CPU time of an event, s."""
    before = time.thread_time()
    lines = events.write(Path("/dev/null"), BIDS)
    return (time.thread_time() - before) / lines
