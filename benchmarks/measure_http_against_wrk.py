"""The search driver beside `wrk -t1`, against a fixed-answer nginx on loopback: requests per second and core at full
load, and the latency that it adds at half load.

The server has one core and the generator another; the two generators take turns, so that a machine that grows slower
or faster in the meantime does so to both. Where the server is the limit, which one process of nginx is for wrk, equal
rates would say nothing: what counts is how many requests a second of the generator's own CPU time is good for.
"""

import os
import statistics
from collections.abc import Sequence

from benchmarks import engine_run, nginx, wrk

from loadframe.errors import LoadframeError
from loadframe.units import format_count, format_duration

CONNECTIONS = 32
SECONDS = 4
ROUNDS = 3
#: Of wrk's requests per second and core, what the driver is to reach at least.
AIM = 0.7


def main() -> None:
    """Take both measurements and print them."""
    cores = sorted(os.sched_getaffinity(0))
    server_core, client_core = cores[0], cores[-1]
    if server_core == client_core:
        print("only one core: the server and the generators share it")
    with nginx.serving(server_core) as address:
        ceiling = full_load(address, client_core)
        half_load(address, client_core, ceiling)


def engine(address: str, clients: int, think_time: float, core: int) -> engine_run.Measured:
    """Run the search driver in a closed loop."""
    plan = engine_run.phase(
        {"driver": "search", "hosts": [address]},
        {"request": {"method": "GET", "path": "/"}},
        {"closed": {"clients": clients, "think_time": think_time}},
        SECONDS,
    )
    measured = engine_run.measure(plan, core)
    if measured.failed:
        raise LoadframeError(f"{measured.failed} requests of the engine failed")
    return measured


def full_load(address: str, core: int) -> float:
    """Compare requests per second and core; return the lower of the two ceilings."""
    ours, theirs = [], []
    for _ in range(ROUNDS):
        theirs.append(wrk.measure(address, CONNECTIONS, SECONDS, core))
        ours.append(engine(address, CONNECTIONS, 0.0, core))
    print(f"full load, {CONNECTIONS} connections, {ROUNDS} rounds of {SECONDS} s in turn")
    for name, measured in (("wrk", theirs), ("search driver", ours)):
        rate, per_cpu = (
            statistics.median(getattr(m, figure) for m in measured) for figure in ("rate", "per_cpu_second")
        )
        print(f"  {name:14} {format_count(rate)} requests/s, {format_count(per_cpu)} per second of its CPU time")
    print(f"  ratio of rates {_ratio(ours, theirs, 'rate')}")
    print(f"  ratio per core {_ratio(ours, theirs, 'per_cpu_second')}; aim {AIM}")
    return min(statistics.median(m.rate for m in measured) for measured in (ours, theirs))


def _ratio(ours: Sequence[object], theirs: Sequence[object], figure: str) -> str:
    """Return the median over the rounds and their range."""
    ratios = [getattr(our, figure) / getattr(their, figure) for our, their in zip(ours, theirs, strict=True)]
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def half_load(address: str, core: int, ceiling: float) -> None:
    """Compare service times when both send half of the lower ceiling, with the same clients and think time."""
    think_time_ms = 10
    clients = max(round(ceiling / 2 * think_time_ms / 1000), 1)
    ours, theirs = [], []
    for _ in range(ROUNDS):
        theirs.append(wrk.measure(address, clients, SECONDS, core, think_time_ms))
        ours.append(engine(address, clients, think_time_ms / 1000, core))
    print(f"half load, {clients} clients that think for {think_time_ms} ms")
    for name, measured in (("wrk", theirs), ("search driver", ours)):
        rate, p50, p99 = (statistics.median(getattr(m, figure) for m in measured) for figure in ("rate", "p50", "p99"))
        print(f"  {name:14} {format_count(rate)} requests/s, p50 {format_duration(p50)}, p99 {format_duration(p99)}")
    for figure in ("p50", "p99"):
        our, their = (statistics.median(getattr(m, figure) for m in measured) for measured in (ours, theirs))
        added = f"{'-' if our < their else ''}{format_duration(abs(our - their))}"
        print(f"  {figure} added      {added}, ratio {our / their:.2f}")
