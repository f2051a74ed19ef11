"""Cost of users on journeys: ratio of CPU per request with and without a journey, and memory per user.

Requests go to a null search server on another core. Rounds with and without a journey alternate, and the medians are
compared. Users with think time are measured by their lateness on one core. Their memory is the growth of the process
with a hundred thousand users.
"""

import statistics
from typing import Any

from benchmarks import engine_run
from benchmarks.machine import cores, null_server

from loadframe.base.units import format_count, format_duration, format_size

CLIENTS = 16
SECONDS = 3
ROUNDS = 3
#: Maximum ratio of the costs.
AIM = 1.3
THINKING = 10_000
MANY = 100_000
#: Maximum memory of these users, bytes.
MOST = 2 * 10**9
SEARCH = {"search": {"collection": "null", "body": {"query": {"match_all": {}}}}}


def main() -> None:
    """Measure all three and print them."""
    server_core, client_core = cores()
    with null_server(server_core) as address:
        target = {"driver": "search", "hosts": [address]}
        costs: dict[str, list[float]] = {"clients": [], "users": []}
        for _ in range(ROUNDS):
            alone = engine_run.phase(target, SEARCH, {"closed": {"clients": CLIENTS}}, {"duration": SECONDS})
            for name, plan in (("clients", alone), ("users", _users(target, CLIENTS, 0.0))):
                measured = engine_run.measure(plan, client_core)
                costs[name].append(measured.worker_cpu / measured.requests)
        without, by = (statistics.median(costs[name]) for name in ("clients", "users"))
        print(f"  {format_duration(without)} of CPU a request of a client, {format_duration(by)} of a user")
        print(f"  ratio {by / without:.2f}, to be below {AIM:.2f}")

        thinking = engine_run.measure(_users(target, THINKING, {"exponential": 1.0}), client_core)
        share = thinking.worker_cpu / (thinking.seconds + 1.0)
        print(
            f"  {format_count(THINKING)} users who think 1 s: {format_count(thinking.rate)}/s with {share:.0%} of "
            f"a core, late by {format_duration(thinking.lateness_p50)} (p99 {format_duration(thinking.lateness_p99)})"
        )

        many = engine_run.measure(_users(target, MANY, {"exponential": 20.0}), client_core)
        print(
            f"  {format_count(MANY)} users take {format_size(many.memory_growth)}, "
            f"{format_size(many.memory_growth / MANY)} each, to be below {format_size(MOST)}"
        )


def _users(target: dict[str, Any], users: int, think_time: Any) -> dict[str, Any]:
    """Return the plan of users that send requests in a loop, with a think time after each answer."""
    pacing = {"users": {"users": users, "clients": CLIENTS, "over": 1.0 if users > CLIENTS else 0.0}}
    plan = engine_run.phase(target, SEARCH, pacing, {"duration": SECONDS})
    (stream,) = plan["streams"]
    ask = {"ask": {"operation": "operation", "think_time": think_time}}
    stream["steps"] = [{"repeat": {"times": 10, "steps": [ask]}}]
    stream["mix"] = []
    return plan
