"""CPU time of the client per event, from a TCP connection into an OpenSearch node, compared with rsyslog.

Both receive the same lines over one connection, and send bulk requests of up to 4,096 events over four connections to
the same node. Loadframe runs as a normal command with all recording and sampling, and writes each event into the
document of its bid. rsyslog cannot update documents, so it creates one per event. It runs in two variants: parsing id
and day from the line, as Loadframe does, and without any parsing, which is its minimum.

Start-up cost is excluded: CPU time counts from the first line until the store has all events. The three variants
alternate in rounds; the first round warms up the node and is discarded.
"""

import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil
from benchmarks import events, rsyslog

from loadframe.base.errors import LoadframeError, StoreFailed
from loadframe.base.units import format_count, format_duration
from loadframe.cluster import Cluster, ClusterSpec

BIDS = 50_000
ROUNDS = 3
#: Time limit until the store has all events, s.
PATIENCE = 600
#: Definition from the workload for Loadframe's documents; it does not fit rsyslog's documents.
TEMPLATE = {
    "index_patterns": ["syslog-*"],
    "template": {
        "settings": {
            "number_of_shards": 1,
            "number_of_replicas": 0,
            "refresh_interval": "45s",
            "translog.durability": "async",
        },
        "mappings": {
            "dynamic_templates": [{"texts": {"match_mapping_type": "string", "mapping": {"type": "keyword"}}}]
        },
    },
}
#: Maximum ratio of the engine's CPU time per event to rsyslog's.
AIM = 1 / 5


@dataclass(frozen=True)
class Took:
    """Cost of ingest: CPU time of the client per event, and total time, s."""

    cpu: float
    seconds: float


def main() -> None:
    """Measure all in rounds, and print the ratios."""
    with tempfile.TemporaryDirectory() as name, Cluster.start(ClusterSpec(settings={"heap": "1g"})) as cluster:
        log = Path(name) / "log.ndjson"
        lines = events.write(log, BIDS)
        cluster.store.request(cluster.addresses, "PUT", "/_index_template/syslog", TEMPLATE)
        rounds: list[dict[str, Took]] = []
        for number in range(ROUNDS + 1):
            took = {"Loadframe": _loadframe(cluster, log, Path(name) / f"run-{number}", lines)}
            took |= {f"rsyslog, {way}": _rsyslog(cluster, way, log, lines) for way in rsyslog.WAYS}
            rounds.append(took)
    print(f"  {format_count(lines)} events, medians of {ROUNDS} rounds")
    for client in rounds[0]:
        cpu = statistics.median(took[client].cpu for took in rounds[1:])
        rate = lines / statistics.median(took[client].seconds for took in rounds[1:])
        print(f"  {client:22} {format_duration(cpu)} of CPU an event; {format_count(rate)} events/s into the store")
        ratios = sorted(took["Loadframe"].cpu / took[client].cpu for took in rounds[1:])
        if client != "Loadframe":
            middle, least, most = ratios[len(ratios) // 2], ratios[0], ratios[-1]
            print(
                f"    Loadframe needs 1/{1 / middle:.1f} of that (1/{1 / least:.1f} to 1/{1 / most:.1f}),"
                f" aim 1/{1 / AIM:.0f}"
            )


def _loadframe(cluster: Cluster, log: Path, run: Path, lines: int) -> Took:
    words = ["adbids", "--listen", "127.0.0.1:0", "--idle", "3s", "--hosts", ",".join(cluster.addresses), "--json"]
    options = ["--replace", "--yes", "--set", "shards=1", "--output", str(run)]
    program = Path(sys.executable).with_name("loadframe")
    said = run.with_suffix(".txt")
    with (
        said.open("w") as told,
        subprocess.Popen(
            [program, "ingest", *words, *options], stdout=subprocess.PIPE, stderr=told, text=True
        ) as command,
    ):
        try:
            port = int(_said(r"listens at 127\.0\.0\.1:(\d+)", said, command)[1])
            took = _taken_in(command, log, port, lines, lambda: _count(cluster, "ads-*"), BIDS)
            answer, _ = command.communicate(timeout=PATIENCE)
        finally:
            command.kill()
    events.require_all(json.loads(answer)["indexed"], lines)
    return took


def _rsyslog(cluster: Cluster, way: str, log: Path, lines: int) -> Took:
    port = events.free_port()
    cluster.store.request(cluster.addresses, "DELETE", "/syslog-*")
    with rsyslog.listening(way, port, cluster.addresses[0], "syslog") as server:
        return _taken_in(server, log, port, lines, lambda: _count(cluster, "syslog-*"), lines)


def _taken_in(
    process: subprocess.Popen[str], log: Path, port: int, lines: int, count: Callable[[], int], wanted: int
) -> Took:
    before, started = _cpu(process), time.monotonic()
    with events.sending(log, port):
        while (there := count()) < wanted:
            if time.monotonic() > started + PATIENCE or process.poll() is not None:
                raise LoadframeError(f"the store has {there:,} documents of {wanted:,}")
            time.sleep(0.25)
    return Took((_cpu(process) - before) / lines, time.monotonic() - started)


def _count(cluster: Cluster, indices: str) -> int:
    try:
        return cluster.store.count(cluster.addresses, indices)
    except StoreFailed:
        # A new index cannot count before its shard has started.
        return 0


def _cpu(process: subprocess.Popen[str]) -> float:
    times = psutil.Process(process.pid).cpu_times()
    return times.user + times.system


def _said(pattern: str, said: Path, process: subprocess.Popen[str]) -> re.Match[str]:
    until = time.monotonic() + PATIENCE
    while not (match := re.search(pattern, said.read_text())):
        if process.poll() is not None or time.monotonic() > until:
            raise LoadframeError(f"it did not start: {said.read_text()[-2000:]}")
        time.sleep(0.05)
    return match
