"""Share of each driver in the cost of a request, with the null server of its protocol.

The null server answers immediately, so service time is the minimum for the protocol. The rest of a client's time is
spent on building requests and judging answers. The CQL library hides its connection, so its share is inside the
service time and only visible in the CPU time.
"""

import statistics
from collections.abc import Sequence
from contextlib import closing

from benchmarks import engine_run

from loadframe import _engine
from loadframe.base.units import format_duration
from loadframe.load.calibrate import PROBES

#: Length of a round after its warm-up, s.
DURATION = 2.0
ROUNDS = 3


def main() -> None:
    """Run all rounds of each driver and print medians."""
    print("  driver      CPU per request  service p50  outside of service")
    for driver in sorted(set(PROBES) - {"null"}):
        cpu, service, outside = _measure(driver)
        print(
            f"  {driver:<11} {format_duration(cpu):>15} {format_duration(service):>12} {format_duration(outside):>19}"
        )


def _measure(driver: str) -> Sequence[float]:
    """Return medians of CPU time per request, service time, and time outside of service per request, s."""
    rounds = []
    for _ in range(ROUNDS):
        with closing(_engine.NullServer(driver)) as server:
            target = {"driver": driver, "hosts": [server.address]}
            one = {"closed": {"clients": 1}}
            plan = engine_run.phase(target, PROBES[driver].request, one, {"duration": DURATION})
            measured = engine_run.measure(plan)
        rounds.append((measured.worker_cpu / measured.requests, measured.p50, 1 / measured.rate - measured.p50))
    return [statistics.median(figures) for figures in zip(*rounds, strict=True)]
