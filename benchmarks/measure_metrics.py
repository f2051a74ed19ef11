"""Cost of `--metrics`, `--otlp` and `--trace`: CPU that they add to a generator at a fixed rate, as a share of a core.

The null driver gets 100,000 requests a second, from one stream and from ten. Traces require HTTP, so they are measured
with a null search server at a lower rate. A scraper and a receiver run in this process. The CPU of the generator's
process during the phase is counted without its workers: their cost per request varies more than the cost of the
outlets. Not counted: 0.25 s in which the exporter of --otlp starts, once per command. Rounds with and without outlets
alternate; the added CPU is the median of the differences within a round.
"""

import contextlib
import statistics
import threading
import time
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
from benchmarks import engine_run
from benchmarks.events import free_port
from benchmarks.machine import cores, null_server

from loadframe.base.units import format_count

RATE = 100_000
#: Requests over HTTP cost more.
HTTP_RATE = 20_000
SECONDS = 15
ROUNDS = 3
#: Maximum share of a core.
AIM = 0.01


def main() -> None:
    """Measure each outlet and print the added CPU."""
    server_core, client_core = cores()
    with null_server(server_core) as address, _receiver() as url:
        null = ({"driver": "null"}, {}, RATE)
        search = ({"driver": "search", "hosts": [address]}, {"request": {"method": "GET", "path": "/"}}, HTTP_RATE)
        for target, operation, rate, streams in ((*null, 1), (*null, 10), (*search, 1)):
            plan = engine_run.phase(
                target, operation, {"open": {"rate": rate / streams}}, {"duration": SECONDS}, streams=streams
            )
            print(f"  {target['driver']} driver, {format_count(rate)} requests/s, {streams} x 1 operation")
            for what, outlets, scrape in _ways(url, traces=target is search[0]):
                _compare(what, plan, outlets, scrape, client_core)


def _ways(url: str, *, traces: bool) -> Iterator[tuple[str, Mapping[str, Any], float | None]]:
    """Yield each outlet with its settings, and the interval of scrapes, s."""
    if traces:
        yield "--otlp, --trace 0.1%", {"otlp": url, "trace": 0.001}, None
        yield "--otlp, --trace 1%", {"otlp": url, "trace": 0.01}, None
        return
    yield "--metrics, scraped every second", {}, 1.0
    yield "--metrics, scraped every 5 s", {}, 5.0
    yield "--otlp", {"otlp": url}, None


def _compare(what: str, plan: Mapping[str, Any], outlets: Mapping[str, Any], scrape: float | None, core: int) -> None:
    added, whole = [], []
    for _ in range(ROUNDS):
        alone = engine_run.measure(plan, core, {})
        with _scraper(scrape) as address:
            measured = engine_run.measure(plan, core, {**outlets, **address})
        shares = [(run.cpu - run.worker_cpu) / run.seconds for run in (alone, measured)]
        added.append(shares[1] - shares[0])
        whole.append(measured.cpu / measured.seconds)
    share = statistics.median(added)
    verdict = "reached" if share <= AIM else "missed"
    print(
        f"    {what}: {share:.2%} of a core ({min(added):.2%} to {max(added):.2%} in {ROUNDS} rounds) of"
        f" {statistics.median(whole):.0%} in all; aim {AIM:.0%} {verdict}",
        flush=True,
    )


@contextlib.contextmanager
def _scraper(every: float | None) -> Iterator[Mapping[str, Any]]:
    """Scrape an address at an interval; yield it as the setting of the outlet."""
    if every is None:
        yield {}
        return
    port = free_port()
    over = threading.Event()

    def scrape() -> None:
        with httpx.Client(headers={"Accept": "application/openmetrics-text; version=1.0.0"}) as client:
            while not over.is_set():
                began = time.monotonic()
                # The generator has not started yet, or has ended.
                with contextlib.suppress(httpx.HTTPError):
                    client.get(f"http://127.0.0.1:{port}/metrics")
                over.wait(max(0.0, began + every - time.monotonic()))

    thread = threading.Thread(target=scrape)
    thread.start()
    try:
        yield {"address": ("127.0.0.1", port)}
    finally:
        over.set()
        thread.join()


class _Receiver(BaseHTTPRequestHandler):
    """Accepts every push."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Read the push and answer."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Write nothing."""


@contextlib.contextmanager
def _receiver() -> Iterator[str]:
    """Accept pushes; yield the address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
