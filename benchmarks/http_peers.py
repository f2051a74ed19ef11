"""The search driver compared with another HTTP generator on a fixed-answer nginx: requests per second and core.

The server has one core and the generators another. The generators alternate, so that changes of the machine affect
both. One nginx process may be the bottleneck, so the measure is requests per second of the generator's CPU time.
"""

import statistics
from collections.abc import Callable, Sequence
from typing import Protocol

from benchmarks import engine_run

from loadframe.base.units import format_count

CONNECTIONS = 32
SECONDS = 4
ROUNDS = 5


class Figures(Protocol):
    """Requests per second, and per second of CPU time."""

    @property
    def rate(self) -> float: ...

    @property
    def per_cpu_second(self) -> float: ...


def engine(address: str, clients: int, think_time: float, core: int) -> engine_run.Measured:
    """Run the search driver in a closed loop."""
    plan = engine_run.phase(
        {"driver": "search", "hosts": [address]},
        {"request": {"method": "GET", "path": "/"}},
        {"closed": {"clients": clients, "think_time": think_time}},
        {"duration": SECONDS},
    )
    return engine_run.measure(plan, core)


def full_load(name: str, peer: Callable[[], Figures], address: str, core: int, aim: float) -> float:
    """Compare requests per second and core with a peer's, and print them; return the lower of the two rates."""
    ours, theirs = [], []
    for _ in range(ROUNDS):
        theirs.append(peer())
        ours.append(engine(address, CONNECTIONS, 0.0, core))
    print(f"  full load, {CONNECTIONS} connections, {ROUNDS} rounds of {SECONDS} s in turn")
    for who, measured in ((name, theirs), ("search driver", ours)):
        rate, per_cpu = (
            statistics.median(getattr(result, figure) for result in measured) for figure in ("rate", "per_cpu_second")
        )
        print(f"  {who:14} {format_count(rate)} requests/s, {format_count(per_cpu)} per second of its CPU time")
    print(f"  ratio of rates {ratio(ours, theirs, 'rate')}")
    print(f"  ratio per core {ratio(ours, theirs, 'per_cpu_second')}; aim {aim}")
    return min(statistics.median(result.rate for result in measured) for measured in (ours, theirs))


def ratio(ours: Sequence[object], theirs: Sequence[object], figure: str) -> str:
    """Return the median over the rounds and their range."""
    ratios = [getattr(our, figure) / getattr(their, figure) for our, their in zip(ours, theirs, strict=True)]
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
