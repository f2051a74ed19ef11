"""Requests per second of four ranks compared with one, each limited to the same share of a core.

The target is a null search server. Four ranks without overhead would send four times as much. Requests per second of
the workers' CPU time show the overhead even if other processes disturb the ranks or the server.
"""

import statistics
import time
from pathlib import Path

from benchmarks import engine_run, rank_run
from benchmarks.machine import null_server

from loadframe.base.units import format_count, format_duration, format_share

RANKS = 4
#: Share of a core per rank, so that ranks and server fit on two cores.
SHARE = 0.1
ROUNDS = 5
SECONDS = 5
#: Requests in flight per rank.
CLIENTS = 32
#: Minimum rate of four ranks, relative to four times the rate of one.
AIM = 0.97


def main() -> None:
    """Measure both in turn, and print the ratios."""
    rounds: list[list[rank_run.Ranked]] = []
    servers: list[tuple[float, float]] = []
    # The server is not pinned.
    with null_server(None) as address:
        target = {"driver": "search", "hosts": [address]}
        operation = {"request": {"method": "GET", "path": "/"}}
        for _ in range(ROUNDS):
            pair = []
            for ranks in (1, RANKS):
                pacing = {"closed": {"clients": CLIENTS * ranks}}
                plan = engine_run.phase(target, operation, pacing, {"duration": SECONDS})
                used, waited, began = *_served(), time.monotonic()
                pair.append(rank_run.measure(ranks, plan, SHARE))
                elapsed = time.monotonic() - began
                servers.append(((_served()[0] - used) / elapsed, (_served()[1] - waited) / elapsed))
            rounds.append(pair)
    one, several = (statistics.median(pair[which].rate for pair in rounds) for which in (0, 1))
    print(f"  each held to {SHARE} of a core: 1 rank {format_count(one)} requests/s, {RANKS} {format_count(several)}")
    ratios = sorted(several.rate / one.rate for one, several in rounds)
    middle = statistics.median(ratios)
    verdict = "reached" if middle >= AIM * RANKS else "missed"
    scatter = f"{ratios[0]:.2f} to {ratios[-1]:.2f} in {ROUNDS} rounds"
    print(f"  ratio {middle:.2f} ({scatter}); aim {AIM * RANKS:.2f} {verdict}")
    had = [
        statistics.median(pair[which].worker_cpu / (ranks * SHARE * SECONDS) for pair in rounds)
        for which, ranks in ((0, 1), (1, RANKS))
    ]
    print(f"  workers used {format_share(had[0])} of their share as 1 rank, and {format_share(had[1])} as {RANKS};")
    used, waited = (statistics.median(server[which] for server in servers[1::2]) for which in (0, 1))
    print(
        f"  the server had {format_share(used)} of a core from start to end with {RANKS} ranks, and waited for one for"
        f" {format_share(waited)} of that time"
    )
    costs = [[ranked.worker_cpu / ranked.requests for ranked in pair] for pair in rounds]
    alone, together = (statistics.median(cost[which] for cost in costs) for which in (0, 1))
    print(
        f"  CPU of a worker for a request: {format_duration(alone)} of 1 rank, {format_duration(together)} of {RANKS}:"
        f" from equal shares {RANKS * statistics.median(cost[0] / cost[1] for cost in costs):.2f} times as much"
    )


def _served() -> tuple[float, float]:
    """Return the time that threads of this process ran and waited for a core, s; only the server is active."""
    shares = [(task / "schedstat").read_text().split() for task in Path("/proc/self/task").iterdir()]
    return sum(int(share[0]) for share in shares) / 1e9, sum(int(share[1]) for share in shares) / 1e9
