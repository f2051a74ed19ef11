"""Lines of an advertiser's log ingested over TCP, per second of CPU time, into stores that discard them.

With the driver `null` this is the cost of a line without requests: read, split, parsed for kind, id and time, queued,
batched and recorded. The search driver adds the requests, which a null server answers. Transformations of the lines
follow. Senders and server run in another process.
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
#: A line of an access log, and the same fields as JSON.
LINE = '203.0.113.9 2025-10-10T13:55:{second:02}Z "GET /cart/items" 200 2326 r{number}\n'
JSON_LINE = (
    '{{"type":"request","client":"203.0.113.9","time":"2025-10-10T13:55:{second:02}Z","verb":"GET","path":"/cart/items",'
    '"status":200,"bytes":2326,"id":"r{number}"}}\n'
)
#: Fields that the source parses from lines of the access log.
ACCESS: dict[str, Any] = {"type": "/type", "kinds": {"request": {"id": "/id", "time": "/time"}}}
_ADDED = {"step": "add", "field": "/type", "value": "request"}
_PATTERN = (
    '^%{IP:client} %{TIMESTAMP_ISO8601:time} "%{WORD:verb} %{NOTSPACE:path}" %{INT:status:int} %{INT:bytes:int}'
    " %{NOTSPACE:id}$"
)
_GROK = {"step": "grok", "field": "/message", "patterns": [_PATTERN]}
_DROPPED = {"field": {"field": "/path", "test": {"matches": "^/health"}}}
#: Transformations of the access log's lines.
STEPS: dict[str, Any] = {
    "grok": {"transform": [_GROK, _ADDED]},
    "grok and drop_event": {"transform": [_GROK, {"step": "drop_event", "condition": _DROPPED}, _ADDED]},
}


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
        access = Path(name) / "access.log"
        access.write_text("".join(LINE.format(second=number % 60, number=number) for number in range(BIDS)))
        print(f"  lines of an access log of {access.stat().st_size / BIDS:.0f} B at the mean, driver null")
        as_json = Path(name) / "access.ndjson"
        as_json.write_text("".join(JSON_LINE.format(second=number % 60, number=number) for number in range(BIDS)))
        ways = [("as JSON", as_json, {}), *((name, access, {"format": "text", **form}) for name, form in STEPS.items())]
        costs: dict[str, float] = {}
        for way, file, form in ways:
            rounds = sorted(
                taken_in({"driver": "null"}, file, 10, BIDS, client_core, {**ACCESS, **form}) for _ in range(ROUNDS)
            )
            costs[way] = rounds[ROUNDS // 2]
            print(
                f"  {way:20} {format_duration(costs[way])} of CPU time each ({format_duration(rounds[0])} to"
                f" {format_duration(rounds[-1])}), {costs[way] / costs['as JSON']:.1f} times as JSON"
            )


def taken_in(
    target: dict[str, Any],
    log: Path,
    times: int,
    lines: int,
    core: int | None,
    fields: dict[str, Any] = events.EVENTS,
) -> float:
    """Return the CPU time per ingested event, s. `fields` are those that the source parses."""
    port = events.free_port()
    with events.sending(log, port, times, CONNECTIONS):
        measured = engine_run.measure(plan(target, port, fields), core)
    return measured.cpu / events.require_all(measured.events, lines * times * CONNECTIONS)


def plan(target: dict[str, Any], port: int, fields: dict[str, Any] = events.EVENTS) -> dict[str, Any]:
    """Return the plan of a phase that ingests from a port until its senders are idle."""
    source = {"listen": {"address": f"127.0.0.1:{port}"}, "events": fields, "idle": 2.0}
    pacing = {"source": {"source": "log", "workers": WORKERS}}
    return engine_run.phase(target, events.TAKE_IN, pacing, "exhausted", warmup=0.0, sources={"log": source})
