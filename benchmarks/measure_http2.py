"""Comparison of HTTP/1.1 and HTTP/2 with one client (oha) and one server (nginx) that support both.

The search driver uses HTTP/1.1 while this shows that it needs less CPU time per request in client and server.
"""

import statistics

from benchmarks import nginx, oha
from benchmarks.http_peers import CONNECTIONS, ROUNDS, SECONDS
from benchmarks.machine import cores

from loadframe.base.units import format_count

#: Connections, and streams per connection; the number of requests in flight is equal.
_WAYS = {"HTTP/1.1": (CONNECTIONS, 0), "HTTP/2": (CONNECTIONS, 1), "HTTP/2, 8 on a connection": (CONNECTIONS // 8, 8)}


def main() -> None:
    """Run the measurement and print it."""
    program = oha.find()
    server_core, client_core = cores()
    with nginx.serving(server_core) as old, nginx.serving(server_core, http2=True) as new:
        result: dict[str, list[oha.Measured]] = {way: [] for way in _WAYS}
        for _ in range(ROUNDS):
            for way, (connections, streams) in _WAYS.items():
                address = new if streams else old
                result[way].append(oha.measure(program, address, connections, SECONDS, client_core, streams=streams))
    print(f"  {CONNECTIONS} requests in flight, {ROUNDS} rounds of {SECONDS} s in turn")
    first = result["HTTP/1.1"]
    for way, measured in result.items():
        rate, per_cpu = (statistics.median(getattr(m, f) for m in measured) for f in ("rate", "per_cpu_second"))
        ratio = statistics.median(m.per_cpu_second / h.per_cpu_second for m, h in zip(measured, first, strict=True))
        print(
            f"  {way:26} {format_count(rate)} requests/s, {format_count(per_cpu)} per second of the client's CPU time;"
            f" ratio to HTTP/1.1 {ratio:.2f}"
        )
