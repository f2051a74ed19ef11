"""Documents generated per second on one core, as bulk bodies, without sending them."""

from benchmarks.engine_example import measured

from loadframe.base.units import format_count, format_size

DOCUMENTS = 1_000_000
#: Documents per second and core; a store ingests about a tenth.
AIM = 500_000


def main() -> None:
    """Generate trips with an example program of the engine and print the rate."""
    (result,) = measured("generate", "nyc_taxi_trip", str(DOCUMENTS))
    rate, data = result["documents_per_second"], result["bytes_per_second"]
    print(f"  {result['generator']}  {format_count(rate)} documents/s, {format_size(data)}/s on one core")
    print(f"  ratio to the aim of {format_count(AIM)}: {rate / AIM:.2f}")
