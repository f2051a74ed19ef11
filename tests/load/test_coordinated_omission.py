"""Coordinated omission: an open load records the waiting time of all requests during a server stall.

In a closed loop, only the few clients wait once; the requests that would have followed are never sent. The exact
response times are computed from the schedule and the server's log of its answers.
"""

import json
import math
import os
import signal
import subprocess
import sys
import time

import pytest

from answering import Answering
from loadframe._engine import HistogramLog
from loadframe.cluster import Cluster, ClusterSpec
from loadframe.load import run_phase
from own_servers import REDIS

pytestmark = pytest.mark.alone

RATE = 200
QUANTILES = (0.5, 0.9, 0.95, 0.99, 0.999, 1.0)
#: Rounding error of a histogram with three significant digits.
RESOLUTION = 1e-3


def plan(hosts, duration, request, *streams, warmup=0.0):
    """Return a plan with an open stream at a fixed rate, and further streams."""
    paced = {"name": "open", "mix": [["numbered", 1]], "pacing": {"open": {"rate": RATE}}}
    return {
        "seed": 1,
        "phase": "p",
        "warmup": warmup,
        "target": {"driver": "search", "hosts": hosts},
        "variables": {"k": {"sequential": {"from": 0}}},
        "operations": {"numbered": {"request": request}, "other": {"request": {"method": "GET", "path": "/other"}}},
        "streams": [stream | {"stop": {"duration": duration}} for stream in (paced, *streams)],
    }


NUMBERED = {"method": "GET", "path": "/${k}"}


def exact(started, answered):
    """Return the response times of a constant schedule, s, in order: answered - scheduled."""
    return sorted(when - (started + int(path[1:]) / RATE) for path, when in answered.items() if path[1:].isdigit())


def quantile(times, q):
    return times[max(math.ceil(q * len(times)) - 1, 0)]


def assert_agrees(recorded, times, way, behind):
    """Response times are the exact ones, up to the histogram's resolution and the answers' `way` back, s.

    Clients read an answer after the server has noted its time, on a busy machine up to `behind` s later.
    """
    for q in QUANTILES:
        truth = quantile(times, q)
        least, most = truth * (1 - RESOLUTION) - way, truth * (1 + RESOLUTION) + way + behind
        assert least <= recorded.quantile(q) <= most, q


def test_response_times_are_those_of_the_schedule_and_a_closed_loops_are_not(tmp_path):
    # The stall is longer than the interval of a histogram.
    duration, stall = 8.0, 1.25
    closed = {"name": "closed", "mix": [["other", 1]], "pacing": {"closed": {"clients": 2, "think_time": 0.01}}}
    with Answering(stall_after=duration / 3, stall_for=stall) as server:
        outcome = run_phase(plan([server.address], duration, NUMBERED, closed), tmp_path, lambda progress: None)
        answered = server.end()
    log = HistogramLog(tmp_path / "histograms.hlog")
    response, alone = log.total("p/numbered/response"), log.total("p/other/service")
    times = exact(outcome["started"], answered)
    assert response.count == len(times) == RATE * duration
    # Includes the uncertainty of the clocks.
    way = log.total("p/numbered/service").quantile(0.5) + outcome["clock"]["uncertainty"]
    assert_agrees(response, times, way, behind=20e-3)
    # A seventh of those who came had to wait, for up to the whole stall.
    assert quantile(times, 0.99) > 0.8 * stall
    assert alone.count > 100 * duration, "the closed loop sent as many requests"
    assert alone.quantile(0.99) < 0.1 * quantile(times, 0.99), "and of 99 in 100 it says that nothing was the matter"


#: The generator alone in a process, so that it can be stopped.
RUN = """
import json, sys
from pathlib import Path
from loadframe.load import run_phase
print("up", flush=True)
print(json.dumps(run_phase(json.loads(sys.argv[1]), Path(sys.argv[2]), lambda progress: None)))
"""


def test_a_generator_that_was_stopped_sends_late_and_keeps_its_schedule(tmp_path):
    duration, stall = 4.0, 0.5
    with Answering() as server:
        task = json.dumps(plan([server.address], duration, NUMBERED))
        child = subprocess.Popen([sys.executable, "-c", RUN, task, tmp_path], stdout=subprocess.PIPE, text=True)
        try:
            assert child.stdout.readline() == "up\n"
            time.sleep(1.5)
            os.kill(child.pid, signal.SIGSTOP)
            time.sleep(stall)
            os.kill(child.pid, signal.SIGCONT)
            said, _ = child.communicate(timeout=60)
        finally:
            child.kill()
            child.wait()
        answered = server.end()
    outcome = json.loads(said)
    log = HistogramLog(tmp_path / "histograms.hlog")
    response, service = log.total("p/numbered/response"), log.total("p/numbered/service")
    times = exact(outcome["started"], answered)
    assert response.count == len(times) == RATE * duration, "nothing was skipped"
    way = service.quantile(0.5) + outcome["clock"]["uncertainty"]
    assert_agrees(response, times, way, behind=0.2 * stall)
    assert response.quantile(0.95) > 0.5 * stall
    # An eighth of the requests are sent at once after the stop, and wait for each other at the server.
    assert service.quantile(0.8) < 0.1 * stall, "the server was not slow"
    assert service.quantile(0.95) < 0.5 * stall
    assert log.total("generator/lateness").quantile(0.95) > 0.5 * stall, "it was the generator, which says so"


@pytest.fixture
def store(state):
    """The store that starts fastest: the signal stops every process in the same way."""
    with Cluster.start(ClusterSpec(store="redis")) as started:
        yield started


@pytest.mark.store
@pytest.mark.skipif(REDIS is None, reason="redis-server is not installed")
def test_a_store_that_was_stopped_is_in_the_response_times(store, tmp_path):
    warmup, duration, stall = 0.5, 4.0, 0.7
    pid = store.nodes[0].pid
    task = plan(store.addresses, duration, {}, warmup=warmup)
    task["target"] |= {"driver": "redis", **store.target()}
    task["operations"] = {"numbered": {"command": ["PING"]}}
    command = [sys.executable, "-c", RUN, json.dumps(task), tmp_path]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline() == "up\n"
        time.sleep(warmup + 1.5)
        os.kill(pid, signal.SIGSTOP)
        # A signal takes its time: the node stops a little after it was sent, and continues after it was sent.
        stopped = time.time() + 0.05
        time.sleep(stall)
        continued = time.time()
        os.kill(pid, signal.SIGCONT)
        said, _ = child.communicate(timeout=60)
    finally:
        os.kill(pid, signal.SIGCONT)
        child.kill()
        child.wait()
    outcome = json.loads(said)
    (operation,) = outcome["operations"]
    response = HistogramLog(tmp_path / "histograms.hlog").total("p/numbered/response")
    assert operation["successes"] == response.count == RATE * duration
    # Requests due during the stop waited at least for its end; the others perhaps not at all.
    schedule = [outcome["started"] + k / RATE for k in range(round(RATE * warmup), round(RATE * (warmup + duration)))]
    least = sorted(continued - at if stopped < at < continued else 0.0 for at in schedule)
    for q in (0.9, 0.95, 0.99, 1.0):
        assert quantile(least, q) * (1 - RESOLUTION) - 1e-3 <= response.quantile(q), q
    # On a busy machine the node takes long to catch up, so only the median is bounded from above.
    assert response.quantile(0.5) < 0.3
    assert quantile(least, 0.99) > 0.6 * stall
