"""Lines of an advertiser's log ingested over TCP, per second of CPU time, into stores that discard them.

With the driver `null` this is the cost of a line without requests: read, split, parsed for kind, id and time, queued,
batched and recorded. The search driver adds the requests, which a null server answers. Senders and server run in
another process.
"""

import tempfile
from pathlib import Path
from typing import Any

from benchmarks import engine_run, events
from benchmarks.machine import cores, null_server

from loadframe.base.units import format_count, format_duration

BIDS = 100_000
#: Number of times that each connection sends the log.
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
    """Return the CPU time per ingested event, s."""
    port = events.free_port()
    with events.sending(log, port, times, CONNECTIONS):
        measured = engine_run.measure(plan(target, port), core)
    return measured.cpu / events.require_all(measured.events, lines * times * CONNECTIONS)


def plan(target: dict[str, Any], port: int) -> dict[str, Any]:
    """Return the plan of a phase that ingests from a port until its senders are idle."""
    source = {"listen": {"address": f"127.0.0.1:{port}"}, "events": events.EVENTS, "idle": 2.0}
    pacing = {"source": {"source": "log", "workers": WORKERS}}
    return engine_run.phase(target, events.TAKE_IN, pacing, "exhausted", warmup=0.0, sources={"log": source})
