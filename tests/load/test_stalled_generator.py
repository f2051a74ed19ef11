"""A generator that is stopped at times reports it, also when its clients only wait for answers."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from answering import Answering
from loadframe.analyze.summary import summarize
from loadframe.record import RunWriter

#: The generator alone in a process, so that it can be stopped.
RUN = """
import json, sys
from pathlib import Path
from loadframe.load import run_phase
print("up", flush=True)
run_phase(json.loads(sys.argv[1]), Path(sys.argv[2]), lambda progress: None)
"""

CLOSED = {"closed": {"clients": 4}}
OPEN = {"open": {"rate": 20}}
#: Reasons that a busy machine may add besides the stall.
BUSY = {"lateness", "loop_lag", "starved", "generator_cpu"}


def judged(tmp_path, pacing, seconds, stops):
    """Return the summary of a run of `seconds` s; the generator is stopped for 1 s at each time in `stops`."""
    with Answering(delay=0.1) as server, RunWriter(tmp_path, "r1") as writer:
        plan = {
            "seed": 1,
            "phase": "p",
            "warmup": 0.5,
            "target": {"driver": "search", "hosts": [server.address]},
            "operations": {"a": {"request": {"method": "GET", "path": "/"}}},
            "streams": [{"name": "s", "mix": [["a", 1]], "pacing": pacing, "stop": {"duration": seconds}}],
        }
        folder = writer.phase("p", 0.0)
        command = [sys.executable, "-c", RUN, json.dumps(plan), str(folder)]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert child.stdout.readline() == "up\n"
            began = time.monotonic()
            for at in stops:
                time.sleep(max(began + at - time.monotonic(), 0))
                os.kill(child.pid, signal.SIGSTOP)
                time.sleep(1.0)
                os.kill(child.pid, signal.SIGCONT)
            child.communicate(timeout=60)
        finally:
            child.kill()
            child.wait()
        outcome = json.loads((folder / "outcome.json").read_text())
        joined = writer.join()
        return summarize(joined.series, joined.histograms, [outcome], joined.telemetry, ()).as_dict()


@pytest.mark.alone
@pytest.mark.parametrize("pacing", [CLOSED, OPEN], ids=["closed", "open"])
def test_a_generator_that_stands_still_for_a_second_in_six_makes_its_run_invalid(tmp_path, pacing):
    summary = judged(tmp_path, pacing, 6.0, [2.0])
    generator = summary["generator"]
    assert 0.85 < generator["longest_stall"] < 1.6
    assert 0.13 < generator["away_share"] < 0.35
    # One look in six was late, and most of these by more than half a second.
    assert generator["lag_p99"] > 0.8
    reasons = {reason["code"]: reason for reason in summary["verdict"]["reasons"]}
    assert "stalled" in reasons
    assert "at a time" in reasons["stalled"]["cause"]


@pytest.mark.alone
def test_a_running_generator_is_not_reported_as_stalled(tmp_path):
    summary = judged(tmp_path, CLOSED, 2.0, [])
    assert summary["generator"]["longest_stall"] < 0.5
    assert {reason["code"] for reason in summary["verdict"]["reasons"]} <= BUSY
