"""Time to start a cluster with installed software until it is ready.

Also the disk space of a node, without the software that all nodes share."""

import time

from benchmarks.machine import used

from loadframe.base.units import format_duration, format_size
from loadframe.cluster import Cluster, ClusterSpec

NODES = 3
ROUNDS = 2
#: Maximum time to start, s.
AIMS = {"opensearch": 40.0, "cassandra": 90.0, "mongodb": 10.0, "redis": 3.0}


def main() -> None:
    """Start a cluster of each store, print how long it took, and stop it."""
    for store, aim in AIMS.items():
        # The first start may have to download the software, or to read it from disk.
        with Cluster.start(ClusterSpec(store=store)):
            pass
        took, sizes = [], []
        for _ in range(ROUNDS):
            began = time.monotonic()
            with Cluster.start(ClusterSpec(store=store, nodes=NODES)) as cluster:
                took.append(time.monotonic() - began)
                sizes += [used(node.folder) for node in cluster.nodes if node.folder]
        verdict = "reached" if max(took) <= aim else "missed"
        times = ", ".join(format_duration(seconds) for seconds in took)
        print(f"  {store}, {NODES} nodes ready after {times}; aim {format_duration(aim)} {verdict}")
        print(f"  a node's folder: {format_size(min(sizes))} to {format_size(max(sizes))}")
