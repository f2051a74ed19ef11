"""Events of an advertiser's log generated per second on one core, as lines, without sending them."""

from benchmarks.engine_example import measured

from loadframe.units import format_count, format_size

BIDS = 2_000_000
#: Events per second and core; the study of that log took 3,800 in.
AIM = 400_000


def main() -> None:
    """Generate a log with the engine's own example program and print the rate."""
    result = measured("events", "adbids", str(BIDS))
    rate, data = result["events_per_second"], result["bytes_per_second"]
    print(f"  {result['generator']}  {format_count(rate)} events/s, {format_size(data)}/s on one core")
    print(f"  ratio to the aim of {format_count(AIM)}: {rate / AIM:.2f}")
