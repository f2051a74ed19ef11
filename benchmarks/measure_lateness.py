"""How late an open load is sent, at 1,000, 10,000 and 50,000 requests/s on one core: from scheduled to turned to."""

from benchmarks import engine_run
from benchmarks.machine import cores, null_server

from loadframe.units import format_count, format_duration

RATES = (1_000, 10_000, 50_000)
SECONDS = 5
#: The 99th percentile at 10,000 requests/s, s, with an idle machine beside it.
AIM, AIM_RATE = 100e-6, 10_000


def main() -> None:
    """Measure the timer alone, with the driver that answers at once, and with requests to a null server."""
    server_core, client_core = cores()
    with null_server(server_core) as address:
        targets = {
            "null": ({"driver": "null"}, {}),
            "search": ({"driver": "search", "hosts": [address]}, {"request": {"method": "GET", "path": "/"}}),
        }
        for driver, (target, operation) in targets.items():
            for rate in RATES:
                plan = engine_run.phase(target, operation, {"open": {"rate": rate}}, {"duration": SECONDS})
                measured = engine_run.measure(plan, client_core)
                aim = f", ratio to the aim {measured.lateness_p99 / AIM:.2f}" if rate == AIM_RATE else ""
                print(
                    f"  {driver:7}{format_count(rate):>7}/s  late p50 {format_duration(measured.lateness_p50)},"
                    f" p99 {format_duration(measured.lateness_p99)}{aim};"
                    f" CPU {measured.worker_cpu / (SECONDS + 1):.0%} of a core,"
                    f" waited for it {measured.waited_share:.1%}, achieved {measured.rate / rate:.1%}"
                )
