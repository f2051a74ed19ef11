"""CPU cost of a request with ten variables in its body, relative to a constant body of the same size.

Requests go to a null search server on another core. Both variants alternate for several rounds. The CPU time covers
the whole request: preparing, sending, reading the answer and recording.
"""

import statistics

from benchmarks import engine_run
from benchmarks.machine import cores, null_server

from loadframe.base.units import format_duration

CLIENTS = 8
SECONDS = 3
ROUNDS = 3
#: Maximum ratio of the costs.
AIM = 1.3

#: Ten kinds of variables from real workloads, all drawn for each request.
VARIABLES = {
    "v0": {"uniform": [1000000, 9999999]},
    "v1": {"uniform": [1000000, 9999999]},
    "v2": {"uniform": [1000000, 9999999]},
    "v3": {"zipfian": {"items": 1000000, "from": 1000000}},
    "v4": {"zipfian": {"items": 1000000, "from": 1000000, "form": "ycsb"}},
    "v5": {"choice": ["monday", "friday"]},
    "v6": {"choice": ["yellow", "orange"]},
    "v7": {"text": {"length": 7}},
    "v8": {"sequential": {"from": 1000000}},
    "v9": {"date": {"from": "2015-01-01", "to": "2016-01-01", "format": "%Y-%m-%d"}},
}


def main() -> None:
    """Measure both and print the ratio of their medians."""
    server_core, client_core = cores()
    costs: dict[str, list[float]] = {"none": [], "ten": []}
    with null_server(server_core) as address:
        for _ in range(ROUNDS):
            for name, values in (("none", dict.fromkeys(VARIABLES, 1234567)), ("ten", _holes())):
                filters = [{"term": {key: value}} for key, value in values.items()]
                search = {"collection": "null", "body": {"query": {"bool": {"filter": filters}}}}
                plan = engine_run.phase(
                    {"driver": "search", "hosts": [address]},
                    {"search": search},
                    {"closed": {"clients": CLIENTS}},
                    {"duration": SECONDS},
                    variables=VARIABLES,
                )
                measured = engine_run.measure(plan, client_core)
                costs[name].append(measured.cpu / measured.requests)
    none, ten = (statistics.median(costs[name]) for name in ("none", "ten"))
    print(f"  {format_duration(none)} of CPU a request without variables, {format_duration(ten)} with ten")
    print(f"  ratio {ten / none:.2f}, to be below {AIM:.2f}")


def _holes() -> dict[str, str]:
    return {name: f"${{{name}}}" for name in VARIABLES}
