"""The search driver compared with `wrk -t1`: requests per second and core at full load, latency added at half load.

Two minimal clients, loops that only send and count bytes, show the CPU time that no client can save.
"""

import statistics

from benchmarks import engine_example, http_peers, nginx, wrk
from benchmarks.http_peers import CONNECTIONS, ROUNDS, SECONDS
from benchmarks.machine import cores

from loadframe.base.units import format_count, format_duration

#: Minimum ratio of the driver's requests per second and core to wrk's.
AIM = 0.95


def main() -> None:
    """Run both measurements and print them."""
    server_core, client_core = cores()
    with nginx.serving(server_core) as address:

        def peer() -> wrk.Measured:
            return wrk.measure(address, CONNECTIONS, SECONDS, client_core)

        ceiling = http_peers.full_load("wrk", peer, address, client_core, AIM)
        least_cpu(address, client_core)
        half_load(address, client_core, ceiling)


def least_cpu(address: str, core: int) -> None:
    """Compare the CPU time per request of two minimal clients with wrk's, and print them."""
    #: Ratios to wrk's CPU time per request, and shares of the kernel, of each round.
    clients: dict[str, list[tuple[float, float]]] = {"epoll": [], "io_uring": []}
    for _ in range(ROUNDS):
        theirs = 1 / wrk.measure(address, CONNECTIONS, SECONDS, core).per_cpu_second
        for backend, rounds in clients.items():
            arguments = (backend, address, str(CONNECTIONS), str(SECONDS))
            (result,) = engine_example.measured("least_client", *arguments, core=core)
            spent = result["user"] + result["system"]
            rounds.append((spent / result["requests"] / theirs, result["system"] / spent))
    print(f"  least CPU time per request of a client, divided by wrk's, {CONNECTIONS} connections")
    for backend, rounds in clients.items():
        ratios, shares = zip(*rounds, strict=True)
        between = f"({min(ratios):.2f} to {max(ratios):.2f})"
        print(
            f"  {backend:14} {statistics.median(ratios):.2f} {between}, {statistics.median(shares):.0%} in the kernel"
        )


def half_load(address: str, core: int, ceiling: float) -> None:
    """Compare service times at half of the lower maximum rate, with the same clients and think time."""
    think_time_ms = 10
    clients = max(round(ceiling / 2 * think_time_ms / 1000), 1)
    ours, theirs = [], []
    for _ in range(ROUNDS):
        theirs.append(wrk.measure(address, clients, SECONDS, core, think_time_ms))
        ours.append(http_peers.engine(address, clients, think_time_ms / 1000, core))
    print(f"  half load, {clients} clients that think for {think_time_ms} ms")
    for name, measured in (("wrk", theirs), ("search driver", ours)):
        rate, p50, p99 = (statistics.median(getattr(m, figure) for m in measured) for figure in ("rate", "p50", "p99"))
        print(f"  {name:14} {format_count(rate)} requests/s, p50 {format_duration(p50)}, p99 {format_duration(p99)}")
    for figure in ("p50", "p99"):
        our, their = (statistics.median(getattr(m, figure) for m in measured) for measured in (ours, theirs))
        added = f"{'-' if our < their else ''}{format_duration(abs(our - their))}"
        print(f"  {figure} added      {added}, ratio {our / their:.2f}")
