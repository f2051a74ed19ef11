"""Memory of a run with 20 operations: 60 s compared with 10 s, and growth over the bare program."""

from benchmarks import engine_run

from loadframe.base.units import format_size

OPERATIONS = 20
SHORT, LONG = 10, 60
#: Bytes for 20 operations, for any run length.
AIM = 64 * 2**20


def main() -> None:
    """Run both and print the peaks and their ratio."""
    peaks = {}
    for seconds in (SHORT, LONG):
        # A think time keeps the core free; memory depends on the number of operations, not of requests.
        pacing = {"closed": {"clients": 16, "think_time": 0.002}}
        plan = engine_run.phase({"driver": "null"}, {}, pacing, {"duration": seconds})
        names = [f"operation-{number}" for number in range(OPERATIONS)]
        plan["operations"] = {name: {} for name in names}
        plan["streams"][0]["mix"] = [[name, 1.0] for name in names]
        measured = engine_run.measure(plan)
        peaks[seconds] = measured.memory_growth
        print(
            f"  {seconds} s  {format_size(measured.memory_growth)} for the run, on top of the"
            f" {format_size(measured.memory_before)} of Python and its modules; {measured.rate:,.0f} requests/s"
        )
    print(f"  ratio of the longer to the shorter {peaks[LONG] / peaks[SHORT]:.3f}; aim 1")
    print(f"  ratio to the aim of {format_size(AIM)}: {peaks[LONG] / AIM:.2f}")
