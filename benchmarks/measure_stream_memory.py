"""Memory of the ingester at a fixed rate, ten times the published one, for six minutes.

This equals the events of an hour at the published rate. Lines arrive over TCP and go through the search driver to a
null server in another process. The slope is fitted to samples taken once a second until the load ends. The first minute
is excluded, because buffers and histograms still grow.
"""

import tempfile
import threading
from pathlib import Path

import psutil
from benchmarks import engine_run, events
from benchmarks.machine import null_server
from benchmarks.measure_stream_ingestion import plan
from scipy import stats

from loadframe.base.errors import LoadframeError
from loadframe.base.units import format_count, format_size

BIDS = 100_000
#: Bids per second: ten times the rate of the study.
RATE = 34_490
SECONDS = 360
#: Time before the first sample, s.
SETTLING = 60


def main() -> None:
    """Run the ingester, sample its memory, and print the slope."""
    with tempfile.TemporaryDirectory() as name, null_server(None) as address:
        log = Path(name) / "log.ndjson"
        lines = events.write(log, BIDS)
        rate = RATE * lines / BIDS
        port = events.free_port()
        samples: list[tuple[float, int]] = []
        ended = threading.Event()
        sampler = threading.Thread(target=_sample, args=(samples, ended), daemon=True)
        with events.sending(log, port, int(RATE * SECONDS / BIDS), rate=rate * log.stat().st_size / lines):
            sampler.start()
            measured = engine_run.measure(plan({"driver": "search", "hosts": [address]}, port))
            ended.set()
        sampler.join()
    # After the load the process reads its recordings.
    samples = [(at, size) for at, size in samples if SETTLING < at < SECONDS]
    if len(samples) < 10:
        raise LoadframeError("the ingester ended before its memory was sampled")
    seconds, sizes = zip(*samples, strict=True)
    fit = stats.linregress(seconds, sizes)
    half = stats.t.ppf(0.975, len(sizes) - 2) * fit.stderr
    low, middle, high = (slope * 3600 / 2**20 for slope in (fit.slope - half, fit.slope, fit.slope + half))
    print(
        f"  {format_count(measured.events)} events at {format_count(rate)} events/s;"
        f" {format_size(min(sizes))} to {format_size(max(sizes))} after the first {SETTLING} s"
    )
    print(f"  slope {middle:+.2f} MiB an hour ({low:+.2f} to {high:+.2f}) at this rate; aim 0")


def _sample(samples: list[tuple[float, int]], ended: threading.Event) -> None:
    """Sample the memory of the ingester, a child of this process, once a second until it ends."""
    seconds = 0
    while not ended.wait(1):
        seconds += 1
        for child in psutil.Process().children():
            samples.append((seconds, child.memory_info().rss))
