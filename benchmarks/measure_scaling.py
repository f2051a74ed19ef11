"""CPU time and memory per request for growing numbers of connections, operations, users, ranks, and sizes of answers.

Each table changes one quantity. Otherwise one worker on one core has 32 connections, one operation and short answers.
CPU time covers the worker, not the server. Memory is the growth of the process during the phase. The last column is the
used share of the worker's core. If it is below 100 %, the server or the offered load is the limit. p99 is the service
time of the first operation. Users begin within their think time, so at most 8,000 begin in a phase, but memory covers
all users. Ranks are simulated: a tree adds their records, and rank 0 writes the sum. Their memory covers the addition
of their outcomes.
"""

from collections.abc import Callable, Sequence
from typing import Any

from benchmarks import engine_example, engine_run, nginx
from benchmarks.machine import cores, null_server

from loadframe.base.errors import LoadframeError
from loadframe.base.units import format_count, format_duration, format_share, format_size

CONNECTIONS = 32
SECONDS = 3
CLIENTS = (1, 10, 100, 1_000, 10_000)
OPERATIONS = (1, 4, 16, 64)
USERS = (1, 100, 10_000, 100_000, 1_000_000)
#: Requests per second of all users together; one user cannot reach it.
USERS_RATE = 2_000
ANSWERS = (100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000)
RANKS = (1, 10, 100, 1_000, 10_000)
SEARCH = {"search": {"collection": "null", "body": {"query": {"match_all": {}}}}}


def main() -> None:
    """Measure each table and print it."""
    server, client = cores()
    with null_server(server) as address:
        target = {"driver": "search", "hosts": [address]}
        _table("connections", CLIENTS, client, lambda clients: _closed(target, SEARCH, clients))
        _table("operations", OPERATIONS, client, lambda operations: _mix(target, operations))
        _table("users", USERS, client, lambda users: _users(target, users))
    files = {str(size): _answer(size) for size in ANSWERS}
    with nginx.serving(server, files=files) as address:
        target = {"driver": "search", "hosts": [address]}
        get = {size: {"request": {"method": "GET", "path": f"/files/{size}"}} for size in ANSWERS}
        _table("bytes of an answer", ANSWERS, client, lambda size: _closed(target, get[size], CONNECTIONS))
    _ranks()


def _table(name: str, values: Sequence[int], core: int, plan: Callable[[int], dict[str, Any]]) -> None:
    print(f"  {name:>20} {'requests/s':>12} {'CPU/request':>12} {'memory':>9} {'p99':>9}  its core")
    for value in values:
        try:
            measured = engine_run.measure(plan(value), core)
        except LoadframeError as error:
            print(f"  {value:>20,} {error}")
            continue
        # The warm-up lasts 1 s.
        busy = measured.worker_cpu / (measured.seconds + 1)
        print(
            f"  {value:>20,} {format_count(measured.rate):>12}"
            f" {format_duration(measured.worker_cpu / measured.requests):>12}"
            f" {format_size(measured.memory_growth):>9} {format_duration(measured.p99):>9}"
            f"  {format_share(busy)}",
            flush=True,
        )


def _closed(target: dict[str, Any], operation: dict[str, Any], clients: int) -> dict[str, Any]:
    return engine_run.phase(target, operation, {"closed": {"clients": clients}}, {"duration": SECONDS})


def _mix(target: dict[str, Any], operations: int) -> dict[str, Any]:
    """Return the plan of a closed loop that chooses between equally frequent operations."""
    plan = _closed(target, SEARCH, CONNECTIONS)
    plan["operations"] = {f"operation_{n}": SEARCH for n in range(operations)}
    plan["streams"][0]["mix"] = [[name, 1.0] for name in plan["operations"]]
    return plan


def _users(target: dict[str, Any], users: int) -> dict[str, Any]:
    """Return the plan of users that together send `USERS_RATE`; a single user has no think time."""
    think_time = 0.0 if users == 1 else users / USERS_RATE
    pacing = {"users": {"users": users, "clients": CONNECTIONS, "over": think_time}}
    plan = engine_run.phase(target, SEARCH, pacing, {"duration": SECONDS})
    (stream,) = plan["streams"]
    ask = {"ask": {"operation": "operation", "think_time": {"exponential": think_time} if think_time else 0.0}}
    stream["steps"] = [{"repeat": {"times": 10, "steps": [ask]}}]
    stream["mix"] = []
    return plan


def _answer(size: int) -> bytes:
    """Return a JSON object of `size` bytes."""
    return b'{"text":"' + b"x" * (size - 11) + b'"}'


def _ranks() -> None:
    print(f"  {'ranks':>20} {'a second of one':>16} {'of all':>9} {'merge':>9} {'write':>9} {'memory':>9}  levels")
    for ranks in RANKS:
        (told,) = engine_example.measured("reduce", str(ranks))
        levels = told["levels"]
        merge = sum(level["slowest"] for level in levels)
        print(
            f"  {ranks:>20,} {format_size(levels[0]['bytes'] if levels else told['bytes']):>16}"
            f" {format_size(told['bytes']):>9} {format_duration(merge):>9} {format_duration(told['recording']):>9}"
            f" {format_size(told['outcome']['memory']):>9}  {len(levels)}",
            flush=True,
        )
