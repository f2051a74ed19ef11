"""Cost of visibility probes for a search engine: CPU time of its node per probe, relative to the load.

A probe asks for six events, as with `probe: 1s` and a refresh every 5 s: once as Loadframe asks, and once as a search
for the same ids. Windows with and without probes alternate, because an idle node also uses CPU time.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import psutil

from loadframe.cluster import Cluster, ClusterSpec

LOADFRAME = Path(sys.executable).with_name("loadframe")
#: The rate of the study behind adbids.
RATE, BIDS = 3449, 100_000
#: Probes per second during the measurement, increased to be measurable, and their rate under the normal load.
OFTEN, USUAL = 10, 0.5
SECONDS, ROUNDS = 15, 3
EVENTS = 6
#: Maximum share of the CPU time of the load.
AIM = 0.01
WAYS = ("_mget?realtime=false", "_search")


def main() -> None:
    """Ingest bids, probe for some of them, and print the shares."""
    with Cluster.start(ClusterSpec(settings={"heap": "512m"})) as cluster:
        node = psutil.Process(cluster.nodes[0].pid)
        # The first probe runs while the node compiles code.
        _take_in(cluster)
        load = _take_in(cluster)
        print(f"  the load, {RATE} bids/s: {load:.3f} of a core")
        with httpx.Client(base_url=f"http://{cluster.addresses[0]}") as client:
            bodies = _bodies(client)
            costs: dict[str, list[float]] = {way: [] for way in WAYS}
            for _ in range(ROUNDS):
                idle = _window(client, node, None, None)
                for way, body in bodies.items():
                    costs[way].append((_window(client, node, way, body) - idle) / (OFTEN * SECONDS))
    for way, cost in costs.items():
        # The same holds for the first round.
        share = USUAL * statistics.median(cost[1:]) / load
        told = ", ".join(f"{look * 1000:.2f}" for look in cost)
        print(f"  a look by {way}: {told} ms of CPU time; {USUAL} a second: {share:.1%} of the load; aim {AIM:.0%}")


def _take_in(cluster: Cluster) -> float:
    """Ingest bids, and return the CPU seconds of the node per second."""
    node = psutil.Process(cluster.nodes[0].pid)
    with tempfile.TemporaryDirectory(prefix="loadframe-looking-") as folder:
        words = ["--hosts", cluster.addresses[0], "--replace", "--yes", "--output", f"{folder}/run"]
        words += ["--set", f"documents={BIDS}", "--set", f"rate={RATE}", "--set", "refresh=5s", "--set", "shards=1"]
        before = _spent(node)
        subprocess.run([LOADFRAME, "bench", "adbids/ingest", *words], check=True, capture_output=True)
        return (_spent(node) - before) / (BIDS / RATE)


def _spent(node: psutil.Process) -> float:
    times = node.cpu_times()
    return times.user + times.system


def _bodies(client: httpx.Client) -> Mapping[str, Any]:
    hits = client.post("/ads-*/_search", json={"size": EVENTS, "_source": False}).json()["hits"]["hits"]
    ids = [hit["_id"] for hit in hits]
    docs = [{"_index": hit["_index"], "_id": hit["_id"], "_source": ["bid"]} for hit in hits]
    search = {"size": 2 * EVENTS, "_source": ["bid", "win", "click"], "query": {"ids": {"values": ids}}}
    return {WAYS[0]: {"docs": docs}, WAYS[1]: search}


def _window(client: httpx.Client, node: psutil.Process, way: str | None, body: Any) -> float:
    """Return the CPU seconds of the node with or without probes."""
    before, began = _spent(node), time.monotonic()
    for number in range(OFTEN * SECONDS):
        time.sleep(max(0.0, began + number / OFTEN - time.monotonic()))
        if way:
            path = f"/ads/{way}" if "mget" in way else f"/ads-*/{way}"
            client.post(path, content=json.dumps(body), headers={"Content-Type": "application/json"}).raise_for_status()
    time.sleep(max(0.0, began + SECONDS - time.monotonic()))
    return _spent(node) - before
