"""`loadframe bench` with a measured window that is chosen during the load: simulated store, slow service."""

import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from commands import loadframe, result


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Change to a temporary working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


WORKLOAD = """\
workload: w
collections: {things: {elasticsearch: {}}}
operations:
  look: {search: {collection: things, size: 0}}
phases:
  - {name: look, operation: look, rate: 50/s, warmup: {at_most: 40s},
     duration: {precision: 90 %, at_least: 10s, at_most: 20s}}
"""


@pytest.mark.slow
def test_warm_up_and_duration_end_by_themselves_and_are_recorded(state, folder):
    Path("w.yaml").write_text(WORKLOAD)
    words = ("--store", "sim", "--store-set", "service=2ms", "--store-set", "servers=4", "--output", "run")
    (phase,) = result("bench", "w.yaml", *words)["phases"]
    window = phase["window"]
    assert 20 < phase["warmup"] <= 40 and phase["warmup"] == int(phase["warmup"])
    if window["steady_from"] is None:
        assert phase["warmup"] == 40
    else:
        assert window["steady_from"] <= phase["warmup"] / 2 and phase["warmup"] < 40
    # It looks at 10, 15 and 20 s. On a busy machine the figures may stay imprecise.
    assert window["outside"] == pytest.approx(0.025 / 3)
    if window["reached"]:
        assert window["widest"] <= 0.9 and 10 < phase["duration"] <= 20
    else:
        assert phase["duration"] == 20
    assert phase["operations"]["look"]["throughput"] == pytest.approx(50, rel=0.3)
    shown = loadframe("report", "run").stdout
    assert "automatic duration: 95 % intervals of throughput and p99" in shown


@pytest.fixture
def slow_at_first():
    """Serve on a free port: requests of the first two seconds take 1 s each, later ones none."""
    began: list[float] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            if self.path == "/x":
                began.append(time.monotonic())
                time.sleep(1.0 if time.monotonic() - began[0] < 2 else 0.0)
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


SLOW = """\
workload: w
operations:
  ask: {http: {method: GET, path: /x}, timeout: 30s}
phases:
  - {name: ask, operation: ask, rate: 20/s, arrivals: constant, warmup: 2s, duration: 3s%s}
"""


@pytest.mark.slow
@pytest.mark.parametrize(("waits", "ranks"), [(False, 1), (True, 1), (True, 2)])
def test_a_backlog_of_the_warm_up_is_reported_and_a_phase_can_wait_until_it_is_gone(
    state, folder, slow_at_first, waits, ranks
):
    Path("w.yaml").write_text(SLOW % (", wait_for_queue: true" if waits else ""))
    words = ("--store", "http", "--hosts", slow_at_first, "--connections", 2, "--ranks", ranks, "--output", "run")
    (phase,) = result("bench", "w.yaml", *words)["phases"]
    operation = phase["operations"]["ask"]
    assert operation["requests"] == 60
    if waits:
        assert phase["window"]["queue_empty_at"] >= 2
        assert (phase["backlog"], operation["inherited"]) == (0, 0)
        assert phase["warmup"] > phase["window"]["queue_empty_at"]
    else:
        # 40 requests were due, and at most 6 could be answered.
        assert phase["backlog"] >= 30 and phase["backlog_age"] >= 1
        assert operation["inherited"] >= 30
        assert "unanswered requests of the warm-up" in loadframe("report", "run").stdout


@pytest.mark.slow
def test_a_short_wait_finds_an_empty_queue(state, folder):
    phase = "{name: look, operation: look, rate: 5/s, warmup: 1s, wait_for_queue: 2s, duration: 2s}"
    Path("w.yaml").write_text(f"{WORKLOAD.partition('phases:')[0]}phases: [{phase}]\n")
    (phase,) = result("bench", "w.yaml", "--store", "sim", "--store-set", "service=1ms", "--output", "run")["phases"]
    # Too late to begin the window before the limit, but the queue is empty.
    assert (phase["warmup"], phase["window"]["queue_limit"]) == (3, 2)
    assert phase["window"]["queue_empty_at"] in (2, 3)


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("--precision", "5%"), "--precision requires --duration auto"),
        (("--duration", "auto", "--precision", "0.01%"), "--precision must be at least 0.1%"),
        (("--warmup", "auto", "--at", "1s=grow"), "--at requires a fixed warm-up and duration"),
    ],
)
def test_options_that_do_not_fit_are_refused(state, folder, words, what):
    Path("w.yaml").write_text(WORKLOAD.replace("warmup: {at_most: 40s},", "").replace("{precision: 90 %,", "{"))
    refused = loadframe("bench", "w.yaml", "--store", "sim", *words)
    assert refused.returncode == 2
    assert what in refused.stderr
