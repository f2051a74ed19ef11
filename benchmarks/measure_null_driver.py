"""Operations per second and core with the null driver and full recording, and the cost of recording.

Recording consists of updating two histograms and counts per request, which an example program of the engine repeats
alone, and of the thread that sums and writes each second. The cost is shown as a share of the CPU time of a whole
request, with the null driver and with a null search server.
"""

from benchmarks import engine_example, engine_run
from benchmarks.machine import cores, null_server

from loadframe.base.units import format_count, format_duration

CLIENTS = 32
SECONDS = 5
#: Operations per second of one core.
AIM = 3_000_000
#: Maximum share of recording in the CPU time of a request.
AIM_RECORDING = 0.05


def main() -> None:
    """Measure both and print them."""
    server_core, client_core = cores()
    recording: float = engine_example.measured("record")[0]["seconds_per_request"]
    with null_server(server_core) as address:
        targets = {
            "null": ({"driver": "null"}, {}),
            "search": ({"driver": "search", "hosts": [address]}, {"request": {"method": "GET", "path": "/"}}),
        }
        for driver, (target, operation) in targets.items():
            pacing = {"closed": {"clients": CLIENTS}}
            measured = engine_run.measure(
                engine_run.phase(target, operation, pacing, {"duration": SECONDS}), client_core
            )
            cost = recording + (measured.cpu - measured.worker_cpu) / measured.requests
            whole = measured.cpu / measured.requests
            print(
                f"  {driver:7} {format_count(measured.rate)} operations/s on one core,"
                f" {format_duration(whole)} of CPU each; recording {format_duration(cost)}, {cost / whole:.1%}"
            )
            if driver == "null":
                print(f"          ratio to the aim of {format_count(AIM)}: {measured.rate / AIM:.2f}")
            else:
                print(f"          ratio to the aim of {AIM_RECORDING:.0%}: {cost / whole / AIM_RECORDING:.2f}")
