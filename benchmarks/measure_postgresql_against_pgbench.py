"""The postgresql driver compared with pgbench: transactions per second, and CPU time of the client per transaction.

Both send the same transactions to the same tables of one real server, with the same number of clients on one thread and
the same protocol. They alternate, so that other processes affect both.
"""

import os
import re
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks import engine_run, spent

from loadframe.base.errors import LoadframeError
from loadframe.base.units import format_count, format_duration
from loadframe.cluster import Cluster, ClusterSpec, artefacts
from loadframe.store import Installation, find
from loadframe.store.postgresql import config
from loadframe.store.postgresql.client import DATABASE, USER
from loadframe.workload import load_workload
from loadframe.workload.resolved import ResolvedPhase

#: Minimum ratio of the driver's transactions per second to pgbench's.
AIM = 0.9

CLIENTS = 8
SCALE = 5
ROUNDS = 3
#: pgbench script, the equivalent phase, and the number of transactions per round.
SCRIPTS = (("tpcb-like", "tpcb_like", 4_000), ("select-only", "select_only", 40_000))
PROTOCOLS = ("prepared", "simple")


@dataclass(frozen=True)
class Round:
    """Result of one client: transactions per second, and CPU time per transaction, s."""

    rate: float
    cpu: float


def main() -> None:
    """Run all rounds and print medians and ratios."""
    store = find("postgresql")
    with Cluster.start(ClusterSpec(store=store.kind, version=store.versions[0])) as cluster:
        # The wheel of the server contains pgbench of the same version.
        home = artefacts.home(store.distribution(store.versions[0]))
        program = str(config.program(Installation(home), "pgbench"))
        _fill(cluster)
        for script, phase, transactions in SCRIPTS:
            for protocol in PROTOCOLS:
                _compare(program, cluster, (script, phase, protocol), transactions)


def _compare(program: str, cluster: Cluster, asked: tuple[str, str, str], transactions: int) -> None:
    script, phase, protocol = asked
    rounds = [
        (_pgbench(program, cluster, script, protocol, transactions), _ours(cluster, phase, protocol, transactions))
        for _ in range(ROUNDS)
    ]

    def median(figure: Callable[[Round], float]) -> tuple[float, float, float]:
        theirs, ours = (statistics.median(map(figure, side)) for side in zip(*rounds, strict=True))
        return theirs, ours, statistics.median(figure(our) / figure(their) for their, our in rounds)

    print(f"  {script}, {protocol}, {CLIENTS} clients on one thread, scale {SCALE}")
    theirs, ours, ratio = median(lambda one: one.rate)
    verdict = "reached" if ratio >= AIM else "missed"
    print(f"  transactions/s: pgbench {format_count(round(theirs))}, postgresql driver {format_count(round(ours))}")
    print(f"  ratio {ratio:.2f}, aim {AIM} {verdict}")
    theirs, ours, ratio = median(lambda one: one.cpu)
    print(f"  CPU of the client for each: {format_duration(theirs)} and {format_duration(ours)}, ratio {ratio:.2f}")


def _fill(cluster: Cluster) -> None:
    workload = load_workload("pgbench", {"scale": str(SCALE)}).for_family(cluster.store.family, 1)
    for name, definition in workload.collections.items():
        cluster.create_collection(name, definition)
    for phase in workload.phases:
        if phase.prepares:
            engine_run.measure(_plan(cluster, phase))


def _plan(cluster: Cluster, phase: ResolvedPhase) -> dict[str, Any]:
    return phase.plan(seed=1, hosts=cluster.addresses, driver=cluster.store.driver, target=cluster.target())


def _pgbench(program: str, cluster: Cluster, script: str, protocol: str, transactions: int) -> Round:
    host, port = cluster.addresses[0].rsplit(":", 1)
    load = ["-b", script, "-M", protocol, "-c", str(CLIENTS), "-j", "1", "-t", str(transactions // CLIENTS), "-n"]
    assert cluster.access.auth
    environment = {**os.environ, "PGPASSWORD": cluster.access.auth.secret}
    ran = spent.run([program, "-h", host, "-p", port, "-U", USER, *load, DATABASE], environment)
    rate = re.search(r"tps = ([0-9.]+)", ran.stdout)
    if ran.status or rate is None:
        raise LoadframeError(f"pgbench failed: {ran.stderr.strip()}")
    return Round(float(rate[1]), ran.cpu / transactions)


def _ours(cluster: Cluster, phase: str, protocol: str, transactions: int) -> Round:
    given = {"scale": str(SCALE), "protocol": protocol}
    workload = load_workload("pgbench", given).for_family(cluster.store.family, 1)
    (chosen,) = (one for one in workload.phases if one.name == phase)
    plan = _plan(cluster, chosen)
    (stream,) = plan["streams"]
    stream |= {"stop": {"requests": transactions}, "pacing": {"closed": {"clients": CLIENTS}}}
    measured = engine_run.measure({**plan, "threads": 1, "warmup": 0.0})
    # The counts of requests also include the parts of transactions.
    return Round(transactions / measured.seconds, measured.cpu / transactions)
