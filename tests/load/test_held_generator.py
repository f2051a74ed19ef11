"""A generator with a CPU quota makes a run invalid; the same run without it is valid. Uses real quotas."""

import json
import os
import subprocess
import sys

import pytest

from answering import Answering
from loadframe.analyze.verdict.rules import THROTTLED_LIMIT
from loadframe.host.cgroups import V1, V2, remove

pytestmark = pytest.mark.alone

#: One run with all that watches the generator; it goes into the control group (if any) when the load is about to start.
RUN = """
import contextlib, json, os, sys, tempfile
from pathlib import Path
from loadframe.analyze.summary import summarize
from loadframe.load import run_phase
from loadframe.observe import HostSampler, Observer, OwnGroupSampler
from loadframe.record import RunWriter

with contextlib.suppress(OSError):
    # Room is what this is about, also on a machine that does other things besides; sched(7) on groups of sessions.
    os.setpriority(os.PRIO_PROCESS, 0, -15)
    with open("/proc/self/autogroup", "w") as group:
        group.write("-15")
plan, group = json.loads(sys.argv[1]), sys.argv[2]
if group:
    with Path(group, "cgroup.procs").open("w") as procs:
        procs.write("0")
with tempfile.TemporaryDirectory() as folder, RunWriter(Path(folder), "run") as writer:
    with Observer([OwnGroupSampler(), HostSampler()], writer):
        start = writer.elapsed()
        outcome = run_phase(plan | {"began": writer.began}, writer.phase(plan["phase"], start), lambda progress: None)
    if group:
        # The figures of the load are complete; computing the summary within the quota would take a minute.
        with Path(group).with_name("cgroup.procs").open("w") as procs:
            procs.write("0")
    joined = writer.join()
    print(json.dumps(summarize(joined.series, joined.histograms, [outcome], joined.telemetry, []).as_dict()))
"""


def plan(address):
    # 400 documents take 0.2 to 0.4 ms of the CPU, as machines differ, and so the rate a tenth to a fifth of a core.
    return {
        "seed": 1,
        "phase": "load",
        "warmup": 0.5,
        "drain": 2.0,
        "target": {"driver": "search", "hosts": [address]},
        "corpora": {"trips": {"generate": "nyc_taxi_trip", "documents": 100_000_000}},
        "operations": {"load": {"bulk": {"collection": "trips", "corpus": "trips", "size": 400}}},
        "streams": [{"name": "s", "mix": [["load", 1]], "pacing": {"open": {"rate": 500}}, "stop": {"duration": 4.0}}],
    }


def judged(group: str):
    with Answering(delay=0.03) as server:
        command = [sys.executable, "-c", RUN, json.dumps(plan(server.address)), group]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, start_new_session=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def twentieth_of_a_core():
    """A control group that may use a tenth of a core."""
    version, folders = None, {}
    for version in (V1(), V2()):
        try:
            folders = version.make(f"loadframe-test-{os.getpid()}")
            break
        except OSError:
            continue
    if not folders:
        pytest.skip("needs permission to make a control group with a CPU quota")
    version.set_quota(folders, 0.05, 0.1)
    try:
        yield folders["cpu"]
    finally:
        remove(folders)


def test_a_generator_held_to_a_twentieth_of_a_core_is_noticed(twentieth_of_a_core):
    summary = judged(str(twentieth_of_a_core))
    codes = [reason["code"] for reason in summary["verdict"]["reasons"]]
    assert "throttled" in codes
    assert "lateness" in codes
    # On a busy machine the generator also waits for a core, and its quota lasts longer: the share has no upper bound.
    assert summary["generator"]["throttled_share"] > THROTTLED_LIMIT
    assert summary["generator"]["cpu_share"] < 0.07


def test_the_same_run_with_room_has_no_reason_against_it():
    # Other work on the machine, or other virtual machines, may hold this run too: but hardly ten times.
    summaries = (judged("") for _ in range(10))
    summary = next((entry for entry in summaries if not entry["verdict"]["reasons"]), None)
    assert summary is not None, "the generator had no room in any of ten runs"
    assert summary["generator"]["throttled_share"] in (0.0, None)
