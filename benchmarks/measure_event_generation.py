"""Events of an advertiser's log generated and discarded as lines, per second of CPU time of one thread."""

import time
from pathlib import Path

from benchmarks import events

from loadframe.base.units import format_count, format_duration

BIDS = 1_000_000
ROUNDS = 3
#: Events per second and core; the study of this log ingested 3,800/s.
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
    """Return the CPU time per event, s."""
    before = time.thread_time()
    lines = events.write(Path("/dev/null"), BIDS)
    return (time.thread_time() - before) / lines
