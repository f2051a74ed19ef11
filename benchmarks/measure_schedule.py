"""Cost for a generator of finding its requests in the common schedule, which must not grow with their number."""

from benchmarks.engine_example import measured

#: Maximum CPU time of a generator per request, s, for the largest number of generators.
AIM = 5e-6


def main() -> None:
    """Print the costs by number of generators, and the ratio of the largest to the target."""
    rows = measured("schedule")
    for row in rows:
        print(
            f"  {row['generators']} generators: a Poisson arrival {row['arrival'] * 1e9:.0f} ns,"
            f" the number of an insert of a mix {row['number'] * 1e9:.0f} ns"
        )
    worst = max(row["arrival"] + row["number"] for row in rows)
    print(f"  ratio of the greatest to the aim of {AIM * 1e6:.0f} us: {worst / AIM:.2f}")
