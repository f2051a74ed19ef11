"""Peak memory of a run of 60 s against one of 10 s, with the null driver: it must not grow with a run's length."""

from benchmarks import engine_run

from loadframe.units import format_size

SHORT, LONG = 10, 60


def main() -> None:
    """Run both and print the ratio of their peaks."""
    peaks = {}
    for seconds in (SHORT, LONG):
        # A think time keeps the core free: memory depends on what is recorded, and not on how often.
        pacing = {"closed": {"clients": 16, "think_time": 0.002}}
        plan = engine_run.phase({"driver": "null"}, {"request": {"method": "GET", "path": "/"}}, pacing, seconds)
        measured = engine_run.measure(plan)
        peaks[seconds] = measured.peak_memory
        print(f"  {seconds} s  {format_size(measured.peak_memory)} at {measured.rate:,.0f} requests/s")
    print(f"  ratio {peaks[LONG] / peaks[SHORT]:.3f}; aim 1")
