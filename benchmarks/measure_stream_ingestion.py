"""Lines of an advertiser's log that come by TCP, per second of the ingester's CPU time, into stores that keep nothing.

With the driver `null` it is what a line costs until a request carries it: it is read from the socket, cut, looked into
for its kind, id and time, queued, batched, and written down when it is done. With the search driver there is the
request, too, which a server answers that keeps nothing. Senders and server are in another process.
"""

import tempfile
from pathlib import Path
from typing import Any

from benchmarks import engine_run, events
from benchmarks.machine import cores, null_server

from loadframe.base.units import format_count, format_duration

BIDS = 100_000
#: How often the log is sent over each connection.
TIMES = {"null": 40, "search": 20}
CONNECTIONS = 2
WORKERS = 4
ROUNDS = 3
#: Events per second of one core.
AIM = 300_000


def main() -> None:
    """Measure both in turn, and print the median of the rounds."""
    server_core, client_core = cores()
    with tempfile.TemporaryDirectory() as name, null_server(server_core) as address:
        log = Path(name) / "log.ndjson"
        lines = events.write(log, BIDS)
        size = log.stat().st_size / lines
        print(
            f"  lines of {size:.0f} B at the mean, over {CONNECTIONS} connections, {WORKERS} workers, {ROUNDS} rounds"
        )
        targets = {"null": {"driver": "null"}, "search": {"driver": "search", "hosts": [address]}}
        for driver, target in targets.items():
            rounds = sorted(taken_in(target, log, TIMES[driver], lines, client_core) for _ in range(ROUNDS))
            cost, most, least = rounds[ROUNDS // 2], rounds[-1], rounds[0]
            print(
                f"  {driver:7} {format_count(1 / cost)} events per second of CPU time ({format_count(1 / most)} to"
                f" {format_count(1 / least)}), {format_duration(cost)} each"
            )
            print(f"          ratio to the aim of {format_count(AIM)}: {1 / cost / AIM:.2f}")


def taken_in(target: dict[str, Any], log: Path, times: int, lines: int, core: int | None) -> float:
    """Return the CPU time for each event that the engine took in, s."""
    port = events.free_port()
    with events.sending(log, port, times, CONNECTIONS):
        measured = engine_run.measure(plan(target, port), core)
    return measured.cpu / events.require_all(measured.events, lines * times * CONNECTIONS)


def plan(target: dict[str, Any], port: int) -> dict[str, Any]:
    """Return the plan of a phase that takes in what comes to a port, until nothing more comes."""
    source = {"listen": {"address": f"127.0.0.1:{port}"}, "events": events.EVENTS, "idle": 2.0}
    pacing = {"source": {"source": "log", "workers": WORKERS}}
    return engine_run.phase(target, events.TAKE_IN, pacing, "exhausted", warmup=0.0, sources={"log": source})
