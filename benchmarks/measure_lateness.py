"""Lateness of an open load at 1,000, 10,000 and 50,000 requests/s on one core: from due time to start of processing.

Other processes on the core delay requests. Rounds therefore alternate with a thread that only sleeps until the same
due times, which shows the lateness of the system. Each line has the medians of the rounds, the range of their 99th
percentiles, and the time that the worker waited for its core.
"""

import statistics
from typing import Any

from benchmarks import engine_run, sleeper
from benchmarks.machine import busy, cores, null_server

from loadframe.base.units import format_count, format_duration

RATES = (1_000, 10_000, 50_000)
SECONDS = 3
ROUNDS = 5
#: The 99th percentile at 10,000 requests/s, s, with an idle machine beside it.
AIM, AIM_RATE = 100e-6, 10_000


def main() -> None:
    """Measure the timer alone, with requests to a null server, and with a busy process on the same core."""
    server_core, client_core = cores()
    with null_server(server_core) as address:
        _measure("null", {"driver": "null"}, {}, client_core)
        _measure(
            "search", {"driver": "search", "hosts": [address]}, {"request": {"method": "GET", "path": "/"}}, client_core
        )
    with busy(client_core):
        _measure("null, on a busy core", {"driver": "null"}, {}, client_core)


def _measure(name: str, target: dict[str, Any], operation: dict[str, Any], core: int) -> None:
    for rate in RATES:
        plan = engine_run.phase(target, operation, {"open": {"rate": rate}}, {"duration": SECONDS})
        rounds, floors = [], []
        for _ in range(ROUNDS):
            floors.append(sleeper.lateness(core, rate, SECONDS)[1])
            rounds.append(engine_run.measure(plan, core))
        late = sorted(measured.lateness_p99 for measured in rounds)
        p99, floor = statistics.median(late), statistics.median(floors)
        aim = f", ratio to the aim {p99 / AIM:.2f}" if rate == AIM_RATE else ""
        print(
            f"  {name} {format_count(rate)}/s"
            f"  late p50 {format_duration(statistics.median(measured.lateness_p50 for measured in rounds))},"
            f" p99 {format_duration(p99)} ({format_duration(late[0])} to {format_duration(late[-1])}){aim};"
            f" a sleeping thread {format_duration(floor)} ({format_duration(min(floors))} to"
            f" {format_duration(max(floors))}), ratio {p99 / floor:.2f};"
            f" CPU {statistics.median(measured.worker_cpu for measured in rounds) / (SECONDS + 1):.0%} of a core,"
            f" waited for it {statistics.median(measured.waited_share for measured in rounds):.1%},"
            f" achieved {statistics.median(measured.rate for measured in rounds) / rate:.1%}",
            flush=True,
        )
