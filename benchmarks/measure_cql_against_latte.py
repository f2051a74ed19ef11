"""CPU time per request of the cql driver compared with latte: reads by primary key and inserts on one real node.

Both send the same prepared statement with values from the same range, at the same rate or with the same number in
flight, from one thread over one connection. Start-up cost is excluded: each client runs a small and a large job, and
only the difference counts. Rounds alternate between the clients, and the median counts.
"""

import statistics
from pathlib import Path
from typing import Any

from benchmarks import engine_run, latte

from loadframe.base.units import format_count, format_duration
from loadframe.cluster import Cluster, ClusterSpec

#: Maximum ratio of the driver's CPU time per request to latte's.
AIM = 1.0

ROUNDS = 3
ROWS = 10_000
VALUE = "x" * 100
#: Requests in flight without a rate; with a rate, the maximum for latte.
IN_FLIGHT = 128
#: The rate, if any, the requests due at once, and the requests of the small and of the large job. latte's clock has
#: millisecond resolution: above 1,000/s it sends several requests at once and wakes less often. The driver spaces
#: requests evenly, unless several are due at once.
PACES = (
    (1_000, 1, (1_000, 8_000)),
    (4_000, 1, (4_000, 24_000)),
    (10_000, 10, (10_000, 60_000)),
    (None, 1, (5_000, 50_000)),
)

TABLE = {"columns": {"id": "bigint", "value": "text"}, "key": "id"}
VARIABLES = {"n": {"uniform": [0, ROWS - 1]}}
#: name -> the statement, its values, and the same in latte's language.
STATEMENTS: dict[str, tuple[str, list[Any], str]] = {
    "insert": (
        "INSERT INTO loadframe.things (id, value) VALUES (?, ?)",
        ["${n}", VALUE],
        f'[latte::hash_range(i, {ROWS}), "{VALUE}"]',
    ),
    "read": (
        "SELECT id, value FROM loadframe.things WHERE id = ?",
        ["${n}"],
        f"[latte::hash_range(i, {ROWS})]",
    ),
}


def main() -> None:
    """Run all rounds and print medians and ratios."""
    program = latte.find()
    with Cluster.start(ClusterSpec(store="cassandra", settings={"heap": "1g"})) as cluster:
        cluster.create_collection("things", TABLE)
        _fill(cluster)
        for name, asked in STATEMENTS.items():
            for rate, at_once, counts in PACES:
                _compare(program, cluster, name, asked, rate, at_once, counts)


def _fill(cluster: Cluster) -> None:
    statement, values, _ = STATEMENTS["insert"]
    plan = _plan(cluster, statement, values, {"closed": {"clients": 32}}, ROWS)
    engine_run.measure({**plan, "variables": {"n": {"sequential": {"from": 0}}}})


def _compare(
    program: Path,
    cluster: Cluster,
    name: str,
    asked: tuple[str, list[Any], str],
    rate: int | None,
    at_once: int,
    counts: tuple[int, int],
) -> None:
    statement, values, theirs = asked
    # Streams of the same constant rate are due at the same instants.
    pacing = {"open": {"rate": rate / at_once}} if rate else {"closed": {"clients": IN_FLIGHT}}

    def ours(requests: int) -> float:
        return engine_run.measure(_plan(cluster, statement, values, pacing, requests, at_once)).cpu

    def latte_s(requests: int) -> float:
        auth, address = cluster.access.auth, cluster.addresses[0]
        assert auth
        return latte.cpu(program, address, statement, theirs, requests, auth=auth, in_flight=IN_FLIGHT, rate=rate)

    few, many = counts
    rounds = []
    for _ in range(ROUNDS):
        spent = [[client(requests) for requests in counts] for client in (latte_s, ours)]
        rounds.append([(much - little) / (many - few) for little, much in spent])
    ratios = sorted(chosen / their for their, chosen in rounds)
    their, chosen = (statistics.median(costs) for costs in zip(*rounds, strict=True))
    ratio = statistics.median(ratios)
    how = f"at {format_count(rate)} requests/s" if rate else f"{IN_FLIGHT} in flight, as fast as the node answers"
    how += f", {at_once} at once" if at_once > 1 else ""
    print(f"  {name}, {how}, {ROUNDS} rounds: CPU per request")
    print(f"  latte {format_duration(their)}, cql driver {format_duration(chosen)}")
    verdict = "reached" if ratio <= AIM else "missed"
    print(f"  ratio {ratio:.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}), aim {AIM:g} {verdict}")


def _plan(
    cluster: Cluster, statement: str, values: list[Any], pacing: dict[str, Any], requests: int, streams: int = 1
) -> dict[str, Any]:
    return engine_run.phase(
        {"driver": cluster.store.driver, "hosts": cluster.addresses, **cluster.target()},
        {"cql": {"statement": statement, "values": values, "consistency": "local_one"}},
        pacing,
        {"requests": requests // streams},
        streams=streams,
        warmup=0.0,
        variables=VARIABLES,
    )
