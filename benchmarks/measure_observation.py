"""Cost of observation: CPU time of all samplers on a cluster of eight nodes, once a second, as a share of a core.

Also the disk space of another node. Nodes share the software, so a node's folder only holds its own files.
"""

import tempfile
import time
from pathlib import Path

from benchmarks.machine import used

from loadframe.base.units import format_size
from loadframe.cluster import Cluster, ClusterSpec
from loadframe.experiment.runner.node_samplers import samplers
from loadframe.observe import HealthSampler, Observer, OwnGroupSampler, Sampler
from loadframe.record import RunWriter

NODES = 8
SECONDS = 20
#: Initial samples that are skipped, because they open connections.
SETTLING = 2
#: Maximum share of a core.
AIM = 0.01
STORES = ("redis", "sim")


def main() -> None:
    """Sample a cluster of each store and print the shares."""
    for store in STORES:
        with Cluster.start(ClusterSpec(store=store, nodes=NODES)) as cluster:
            usual = [OwnGroupSampler(), *samplers(cluster)]
            _watch(f"{store}, {NODES} nodes", usual)
            _watch("  and its state, as while it changes", [*usual, HealthSampler(cluster.health)])
            folder = cluster.nodes[-1].folder
            assert folder
            print(f"  a node's folder, empty: {format_size(used(folder))}")


def _watch(what: str, observed: list[Sampler]) -> None:
    with tempfile.TemporaryDirectory() as folder, RunWriter(Path(folder), "run") as writer:
        with Observer(observed, writer):
            time.sleep(SETTLING)
            before, began = time.process_time(), time.monotonic()
            time.sleep(SECONDS)
            share = (time.process_time() - before) / (time.monotonic() - began)
        rows = writer.join().telemetry.to_pylist()
    chosen = {row["source"] for row in rows if row["source"].startswith("observer:")}
    parts = {
        source.removeprefix("observer:"): [
            row["value"] for row in rows if row["source"] == source and row["time"] > SETTLING
        ]
        for source in sorted(chosen)
    }
    told = ", ".join(f"{name} {sum(values) / len(values):.2%}" for name, values in parts.items())
    verdict = "reached" if share <= AIM else "missed"
    print(
        f"  {what}: {share:.2%} of a core ({told}), {len(rows) / SECONDS:.0f} figures a second; aim {AIM:.0%} {verdict}"
    )
