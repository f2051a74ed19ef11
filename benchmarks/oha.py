"""oha, an HTTP generator in Rust on Tokio, like the engine."""

import json
from dataclasses import dataclass
from pathlib import Path

from benchmarks import peers, spent

from loadframe.base.errors import LoadframeError


@dataclass(frozen=True)
class Measured:
    """oha's result: rate in 1/s, requests per second of its CPU time, service times in s."""

    rate: float
    per_cpu_second: float
    p50: float
    p99: float


def find() -> Path:
    """Return the path of oha; BadInput if it is not installed."""
    return peers.find("oha")


def measure(program: Path, address: str, connections: int, duration: int, core: int, *, streams: int = 0) -> Measured:
    """Run oha on one core for `duration` s; with `streams`, over HTTP/2 with so many streams per connection."""
    load = ["-z", f"{duration}s", "-c", str(connections), "--no-tui", "--output-format", "json", f"http://{address}/"]
    if streams:
        load += ["--http2", "-p", str(streams)]
    ran = spent.run(["taskset", "-c", str(core), str(program), *load])
    try:
        said = json.loads(ran.stdout)
        requests = sum(said["statusCodeDistribution"].values())
        percentiles = said["latencyPercentiles"]
        return Measured(said["summary"]["requestsPerSec"], requests / ran.cpu, percentiles["p50"], percentiles["p99"])
    except (ValueError, KeyError) as error:
        raise LoadframeError(f"oha said nothing that can be read: {ran.stdout[-500:]}{ran.stderr[-500:]}") from error
