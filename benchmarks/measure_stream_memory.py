"""Memory of the ingester while lines come at a fixed rate, ten times the published one, for six minutes.

That is as many events as an hour has at the published rate. Lines come by TCP and go by the search driver to a server
that keeps nothing, in another process. The slope is that of a line through samples taken once a second after the first
minute, in which buffers and histograms reach their size, until the load ends.
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
#: Bids per second: ten times those of the study.
RATE = 34_490
SECONDS = 360
#: So long nothing is sampled, s.
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
    # Behind the load the process reads its own recordings.
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
    """Note the memory of the ingester, this process's child, once a second until it has ended."""
    seconds = 0
    while not ended.wait(1):
        seconds += 1
        for child in psutil.Process().children():
            samples.append((seconds, child.memory_info().rss))
